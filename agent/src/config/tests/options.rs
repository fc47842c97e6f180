//! Options against files of one link and of several, and what is said of a mistake.

use super::*;
use crate::cli::overrides;

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.toml");
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

const TWO: &str = "[[link]]\nwan = \"a\"\n[[link]]\nwan = \"b\"\nname = \"second\"\n";

/// Each of the options that belong to a link.
const OF_A_LINK: [[&str; 2]; 4] =
    [["--lan", "x"], ["--uplink-rate", "1mbit"], ["--downlink-rate", "2mbit"], ["--ingress-hook", "xdp"]];

#[test]
fn with_several_links_an_option_needs_the_device_and_goes_to_it_alone() {
    let (_directory, path) = file(TWO);
    let plain = Config::load(&path).unwrap();
    for option in OF_A_LINK {
        let lost = overrides(&option).resolve(Some(path.clone())).expect_err("for which link?");
        assert_eq!(lost.exit(), Exit::Usage);
        assert!(lost.to_string().ends_with("; add --wan DEV"), "{lost}");
        for (wan, index) in [("a", 0), ("b", 1)] {
            let options = [&option[..], &["--wan", wan]].concat();
            let config = overrides(&options).resolve(Some(path.clone())).unwrap();
            assert_ne!(config.links[index], plain.links[index], "{option:?}");
            assert_eq!(config.links[1 - index], plain.links[1 - index], "{option:?}");
            assert!(config.links[index].is_same(&plain.links[index]));
        }
    }
    for option in [["--listen", "127.0.0.1:1"], ["--log-level", "debug"], ["--log-format", "json"]] {
        let config = overrides(&option).resolve(Some(path.clone())).unwrap();
        assert_eq!(config.links, plain.links, "{option:?}");
    }
    let unknown = overrides(&["--wan", "c"]).resolve(Some(path)).expect_err("no such link").to_string();
    let expected = "--wan c: no link of the configuration has this device; its links are on a, b";
    assert_eq!(unknown, expected);
}

#[test]
fn another_device_keeps_a_name_that_was_given() {
    let (_directory, path) = file("[[link]]\nwan = \"a\"\nname = \"dsl\"\n");
    let config = overrides(&["--wan", "b"]).resolve(Some(path)).unwrap();
    assert_eq!((config.links[0].name.as_str(), config.links[0].wan.as_str()), ("dsl", "b"));
}

#[test]
fn devices_on_the_command_line_are_checked() {
    let (_directory, path) = file("[[link]]\nwan = \"a\"\nlan = [\"l\"]\n");
    for (options, part) in [
        (vec!["--wan", "a/b"], "`a/b` cannot be the name of a network device"),
        (vec!["--lan", "a b"], "`a b` cannot be the name of a network device"),
        (vec!["--lan", "x", "--lan", "a"], "`a` is both the WAN and a LAN device"),
        // The device of the option, and the one of the file.
        (vec!["--wan", "l"], "`l` is both the WAN and a LAN device"),
    ] {
        let error = overrides(&options).resolve(Some(path.clone())).expect_err("refused");
        assert_eq!(error.exit(), Exit::Usage, "{options:?}");
        assert!(error.to_string().starts_with(part), "{options:?}: {error}");
    }
    let none = overrides(&["--lan", "x"]).resolve(None).expect_err("no link").to_string();
    assert!(none.starts_with("no link to watch; ") && none.contains("--wan DEV"), "{none}");
}

#[test]
fn a_slip_of_the_keyboard_is_distinguished_from_another_word() {
    let near = |name, known: &[&'static str]| closest(name, known.iter().copied());
    assert_eq!(near("ab", &["zz", "ac"]), Some("ac"), "half of it");
    assert_eq!(near("abc", &["axy", "zz"]), None, "a third of it");
    assert_eq!(near("locked-shre", &["swing-share", "locked-share", "locked"]), Some("locked-share"));
    assert_eq!(near("x", &[]), None);
}

#[test]
fn each_kind_of_mistake_has_its_remedy() {
    let wan = "[[link]]\nwan = \"eth0\"\n";
    for (text, expected) in [
        (format!("{wan}[log]\ncolour = 1\n"), "unknown key `colour`; known here: format, level"),
        (format!("{wan}[log]\nformt = \"text\"\n"), "unknown key `formt`; did you mean `format`?"),
        ("[[link]]\n".to_owned(), "missing key `wan`; add `wan = …`"),
        (format!("{wan}uplink-rate = \"fast\"\n"), "; correct this line"),
        (format!("{wan}max-flows = \"many\"\n"), "; correct this line"),
        // The reason lists the words that are allowed.
        (format!("{wan}[log]\nlevel = \"loud\"\n"), "`debug`, `trace`; correct this line"),
        (
            format!("listen = \"[::1]:1\"\nlisten = \"[::1]:2\"\n{wan}"),
            "; deploy/pendulum.toml shows every key with its unit and range",
        ),
    ] {
        let message = refusal(&text);
        assert!(message.contains(expected), "{message}");
    }
}
