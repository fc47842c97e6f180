//! What needs no device: help, usage, configuration files.

use std::process::Command;

use crate::agent::PENDULUM;
use crate::netns::outcome;

fn pendulum(arguments: &[&str]) -> (i32, String, String) {
    outcome(Command::new(PENDULUM).args(arguments))
}

#[test]
fn help_is_a_success_on_stdout_and_names_what_there_is() {
    let (code, stdout, stderr) = pendulum(&["--help"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    for command in ["run", "doctor", "check-config", "replay", "advise"] {
        assert!(stdout.contains(&format!("\n  {command} ")), "{command} is not in\n{stdout}");
        let (code, stdout, _) = pendulum(&[command, "--help"]);
        assert_eq!(code, 0);
        assert!(stdout.contains("Usage: pendulum"), "{stdout}");
    }
    let (code, stdout, _) = pendulum(&["--version"]);
    assert_eq!((code, stdout.trim()), (0, concat!("pendulum ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn wrong_command_lines_are_64_and_say_why() {
    for (arguments, part) in [
        (&[][..], "Usage"),
        (&["rum"][..], "run"),
        (&["run", "--uplink-rate", "fast", "--wan", "x"][..], "\"fast\" is not a rate"),
        (&["run", "--wan", "a/b"][..], "`a/b` cannot be the name of a network device"),
        (&["run", "--wan", "x", "--lan", "x"][..], "`x` is both the WAN and a LAN device"),
        (&["run", "--wan", "x", "--listen", "localhost:1"][..], "localhost:1"),
        (&["run", "--wan", "x", "--listne", "127.0.0.1:1"][..], "--listen"),
        (&["doctor", "--format", "xml"][..], "json"),
    ] {
        let (code, stdout, stderr) = pendulum(arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_good_configuration_is_said_to_be_good() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/pendulum.toml");
    let (code, stdout, stderr) = pendulum(&["check-config", shipped]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("dsl on ppp0"), "{stdout}");
}

#[test]
fn a_wrong_configuration_is_78_and_names_file_line_and_key() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("wrong.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "[[link]]\nwan = \"wan0\"\nmax-flows = 1\n").unwrap();
    for arguments in [&["check-config", path][..], &["run", "--config", path][..]] {
        let (code, _, stderr) = pendulum(arguments);
        assert_eq!(code, 78, "{stderr}");
        let expected = format!("{path}:3: link[0].max-flows: 1 is out of range; allowed are 256 to");
        assert!(stderr.contains(&expected), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn an_unreadable_configuration_is_66() {
    for path in ["/nonexistent/pendulum.toml", "/"] {
        let (code, _, stderr) = pendulum(&["check-config", path]);
        assert_eq!(code, 66, "{stderr}");
        assert!(stderr.contains(&format!("{path}: cannot read the configuration")), "{stderr}");
    }
}
