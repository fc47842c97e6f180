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
fn without_a_file_the_packages_one_is_checked() {
    let file = "/etc/pendulum/pendulum.toml";
    let (code, stdout, stderr) = pendulum(&["check-config"]);
    assert!(stdout.contains(file) || stderr.contains(file), "{stdout}{stderr}");
    assert_eq!(code == 66, !std::path::Path::new(file).exists(), "{stderr}");
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

const LINK: [&str; 7] =
    ["advise", "--downlink-rate", "2400kbit", "--uplink-rate", "196kbit", "--rtt", "40ms"];

#[test]
fn advice_has_exactly_the_fields_of_the_contract() {
    let (code, stdout, stderr) =
        pendulum(&[&LINK[..], &["--downlink-buffer", "30000", "--format", "json"]].concat());
    assert_eq!((code, stderr.as_str()), (0, ""));
    let advice: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let mut fields: Vec<&str> = advice.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    let expected = [
        "cake_command",
        "commands",
        "confidence",
        "downlink_buffer_bytes",
        "download_bps",
        "inputs",
        "max_queue_delay_s",
        "paper_ratio",
        "predicted",
        "predicted_reason",
        "recommended",
        "recommended_queue",
        "recommended_reason",
        "refined_ratio",
        "uplink_buffer_bytes",
        "uplink_buffer_packets",
        "upload_bps",
        "wanted_ratio",
    ];
    assert_eq!(fields, expected);
    assert!(stdout.ends_with("}\n"), "{stdout}");
    let inputs = serde_json::json!({
        "downlink_rate_bps": 2_400_000, "uplink_rate_bps": 196_000, "rtt_s": 0.04, "downlink_buffer": "30000b", "uplink_buffer": null,
        "delayed_acks": true, "unit": "bytes", "tcp_buffer_bytes": null, "device": "wan",
    });
    assert_eq!(advice["inputs"], inputs);
    assert!(["low", "moderate", "high"].contains(&advice["confidence"].as_str().unwrap()), "{advice}");
    assert!(["cake", "fifo"].contains(&advice["recommended_queue"].as_str().unwrap()), "{advice}");
    let command = "tc qdisc replace dev wan root cake bandwidth 192080bit nat dual-srchost";
    assert_eq!(advice["cake_command"], command);
    // k = 2400/196.
    assert!((advice["wanted_ratio"].as_f64().unwrap() - 12.245).abs() < 0.001, "{advice}");
}

#[test]
fn a_link_is_simulated_and_what_is_not_is_reported_why() {
    let predicted = |arguments: &[&str]| {
        let (code, stdout, stderr) = pendulum(&[&LINK[..], arguments, &["--format", "json"]].concat());
        assert_eq!((code, stderr.as_str()), (0, ""));
        serde_json::from_str::<serde_json::Value>(&stdout).unwrap()
    };
    let buffers = ["--downlink-buffer", "30000", "--uplink-buffer", "30000"];
    let answer = predicted(&buffers);
    let figures = answer["predicted"].as_object().unwrap();
    let mut fields: Vec<&str> = figures.keys().map(String::as_str).collect();
    fields.sort_unstable();
    let expected = [
        "aqm",
        "download_bps",
        "queue_delay_mean_s",
        "queue_delay_p95_s",
        "ratio",
        "ratio_interval",
        "transfers_queue_delay_mean_s",
        "transfers_queue_delay_p95_s",
        "upload_bps",
    ];
    assert_eq!(
        (fields.as_slice(), &answer["predicted_reason"]),
        (expected.as_slice(), &serde_json::Value::Null)
    );
    let ratio = figures["download_bps"].as_f64().unwrap() / figures["upload_bps"].as_f64().unwrap();
    assert!((figures["ratio"].as_f64().unwrap() - ratio).abs() < 1e-9, "{answer}");
    // The same question has the same answer, and more uploads another one.
    assert_eq!(predicted(&buffers), answer);
    assert_ne!(predicted(&[&buffers[..], &["--uploads", "3"]].concat())["predicted"], answer["predicted"]);
    // BBR's share of these buffers is a matter of chance, and through cake nobody has compared it.
    let bbr = [&buffers[..], &["--congestion-control", "bbr"]].concat();
    let both = [&bbr[..], &["--aqm", "cake"]].concat();
    for (arguments, reason) in [(&bbr, ["chance", "BBR"]), (&both, ["BBR through cake", "cake bounds"])] {
        let answer = predicted(arguments);
        for (figures, reason) in ["predicted", "recommended"].iter().zip(reason) {
            assert!(answer[figures].is_null(), "{answer}");
            assert!(answer[format!("{figures}_reason")].as_str().unwrap().contains(reason), "{answer}");
        }
    }
    // Cake in the place of the uplink's buffer: nothing is left to size, and the download is rid of the upload's queue.
    let cake = predicted(&[&buffers[..], &["--aqm", "cake"]].concat());
    let of = |answer: &serde_json::Value, name: &str| answer["predicted"][name].as_f64().unwrap();
    assert_eq!((&answer["predicted"]["aqm"], &cake["predicted"]["aqm"]), (&"fifo".into(), &"cake".into()));
    assert!(of(&cake, "download_bps") > 1.5 * of(&answer, "download_bps"), "{cake}");
    assert!(of(&cake, "queue_delay_p95_s") < 0.3 * of(&answer, "queue_delay_p95_s"), "{cake}");
    assert!(cake["recommended"].is_null(), "{cake}");
    assert!(cake["recommended_reason"].as_str().unwrap().contains("cake"), "{cake}");
    // The best buffer keeps the bound, and the present one is worse.
    let best = &predicted(&[&buffers[..], &["--delay-bound", "400ms"]].concat())["recommended"];
    let figure = |name: &str| best[name].as_f64().unwrap();
    assert!(figure("queue_delay_p95_s") <= 0.4 && figure("delay_bound_s") == 0.4, "{best}");
    assert!(figure("uplink_buffer_bytes") < 30_000.0 && figure("lost_with_present") > 0.0, "{best}");
}

#[test]
fn advice_refuses_what_contradicts_itself() {
    for (arguments, exit, part) in [
        (&["--downlink-buffer", "50p"][..], 64, "--unit packets"),
        (&["--delayed-acks", "maybe"][..], 64, "yes"),
        (&["--tcp-buffer", "much"][..], 64, "\"much\" is not a size"),
    ] {
        let (code, _, stderr) = pendulum(&[&LINK[..], arguments].concat());
        assert_eq!(code, exit, "{stderr}");
        assert!(stderr.contains(part), "{stderr}");
    }
}

#[test]
fn a_capture_that_is_missing_is_66_and_one_that_is_none_is_65() {
    let none = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (file, exit) in [("/nonexistent/wan.pcap", 66), (none, 65)] {
        let (code, stdout, stderr) = pendulum(&["replay", "--wan", file]);
        assert_eq!((code, stdout.as_str()), (exit, ""), "{stderr}");
        assert!(stderr.contains(file), "{stderr}");
    }
}
