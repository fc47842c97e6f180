mod fields;
mod generated;
mod keys;
mod options;
mod places;
mod reload;
mod rows;

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::exit::{Classified, Exit};

const SHIPPED: &str = include_str!("../../../deploy/pendulum.toml");

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("test.toml"))
}

fn refusal(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

#[test]
fn shipped_example_is_accepted_and_shows_the_defaults() {
    let config = parse(SHIPPED).unwrap();
    let defaults = Config::default();
    assert_eq!((config.listen, config.log), (defaults.listen, defaults.log));
    assert_eq!((config.flows, config.bpf_statistics), (defaults.flows, defaults.bpf_statistics));
    assert_eq!((config.detector, &config.events), (defaults.detector, &defaults.events));
    assert_eq!(config.shape, defaults.shape);
    let [link] = config.links.as_slice() else { panic!("one link") };
    let plain = LinkConfig::new("ppp0");
    assert_eq!((link.max_flows, link.nursery), (plain.max_flows, plain.nursery));
    assert_eq!(link.ingress_hook, plain.ingress_hook);
    assert_eq!((link.name.as_str(), link.lan.as_slice()), ("dsl", ["br-lan".to_owned()].as_slice()));
    assert_eq!(link.rate(Direction::Up), "10mbit".parse().ok());
    assert_eq!(link.rate(Direction::Down), "50mbit".parse().ok());
}

/// The detector's thresholds are configured by the model's own type.
#[test]
fn shipped_example_shows_every_threshold() {
    let thresholds = serde_json::to_value(Config::default().detector).unwrap();
    for key in thresholds.as_object().unwrap().keys() {
        let shown = SHIPPED.lines().any(|line| line.split_once(" = ").is_some_and(|(name, _)| name == key));
        assert!(shown, "deploy/pendulum.toml does not show `{key}`");
    }
}

#[test]
fn thresholds_and_event_log_are_taken_over() {
    let config = parse(
        "[[link]]\nwan = \"eth0\"\n[detector]\nlocked-share = 0.9\nswing-switches = 5\nevidence = \"8s\"\n\
         [events]\nlog = \"/var/log/events.jsonl\"\n",
    )
    .unwrap();
    let expected = Thresholds {
        locked_share: 0.9,
        swing_switches: 5,
        evidence: "8s".parse().unwrap(),
        ..Thresholds::default()
    };
    assert_eq!(config.detector, expected);
    assert_eq!(config.events.log.as_deref(), Some(Path::new("/var/log/events.jsonl")));
}

/// Each key of the raw configuration has to be shown in the shipped example; those that have no default, as comments.
#[test]
fn shipped_example_shows_every_key() {
    let raw = include_str!("raw.rs");
    let fields = raw.lines().filter_map(|line| line.trim().strip_prefix("pub(super) ")?.split_once(':'));
    for key in fields.map(|(field, _)| field.replace('_', "-")) {
        let shown = SHIPPED.lines().any(|line| {
            line.split_once(" = ").is_some_and(|(name, _)| name.trim_start_matches("# ") == key)
                || line.trim_matches(['[', ']']) == key
        });
        assert!(shown, "deploy/pendulum.toml does not show `{key}`");
    }
}

#[test]
fn a_link_needs_only_its_device() {
    let config = parse("[[link]]\nwan = \"eth0\"\n").unwrap();
    assert_eq!(config.links, [LinkConfig::new("eth0")]);
    assert_eq!((config.listen, config.http), (DEFAULT_LISTEN, HttpConfig::default()));
}

#[test]
fn refusals_name_file_line_key_reason_and_remedy() {
    let wan = "[[link]]\nwan = \"eth0\"\n";
    for (text, expected) in [
        ("", "test.toml:1: no link is configured; add a [[link]]"),
        ("[[link]]\nname = \"a\"\n", "test.toml:1: link[0]: missing key `wan`; add `wan = …`"),
        (
            &format!("{wan}uplink-rte = \"1mbit\"\n"),
            "test.toml:3: link[0].uplink-rte: unknown key `uplink-rte`; did you mean `uplink-rate`?",
        ),
        (
            &format!("{wan}uplink-rate = \"196 kbauds\"\n"),
            "test.toml:3: link[0].uplink-rate: \"196 kbauds\" is not a rate",
        ),
        (
            &format!("{wan}max-flows = 5\n"),
            "test.toml:3: link[0].max-flows: 5 is out of range; allowed are 256 to 1048576",
        ),
        (&format!("{wan}max-flows = -5\n"), "test.toml:3: link[0].max-flows: invalid value"),
        (
            &format!("{wan}[flows]\nidle-timeout = \"1s\"\n"),
            "test.toml:4: flows.idle-timeout: 1s is out of range; allowed are 10s to 24h",
        ),
        (&format!("listen = \"localhost:9924\"\n{wan}"), "test.toml:1: listen: `localhost:9924` is not"),
        (
            &format!("{wan}ingress-hook = \"xpd\"\n"),
            "test.toml:3: link[0].ingress-hook: unknown variant `xpd`",
        ),
        (
            &format!("{wan}lan = [\"br0\", \"eth0\"]\n"),
            "test.toml:3: link[0].lan[1]: `eth0` is this link's WAN",
        ),
        (&format!("{wan}name = \"a b\"\n"), "test.toml:3: link[0].name: `a b` cannot name a link"),
        (&format!("{wan}{wan}"), "test.toml:4: link[1].wan: another link has the name `eth0` already"),
        (
            "[[link]]\nwan = \"a/b\"\n",
            "test.toml:2: link[0].wan: `a/b` cannot be the name of a network device",
        ),
        (
            &format!("{wan}[http]\ntoken-file = \"token\"\n"),
            "test.toml:4: http.token-file: `token` is not an absolute path",
        ),
        (
            &format!("{wan}[http]\ntls-key = \"/etc/key.pem\"\n"),
            "test.toml:4: http.tls-key: `tls-key` without `tls-certificate`",
        ),
        (
            &format!("{wan}[http]\nnames = [\"a\", \"https://b\"]\n"),
            "test.toml:4: http.names[1]: `https://b` is not a host name",
        ),
        (&format!("{wan}[log]\nlevel = \"loud\"\n"), "test.toml:4: log.level: unknown variant `loud`"),
        (
            &format!("{wan}[shape]\ndelta = 0\n"),
            "test.toml:4: shape.delta: invalid value: integer `0`, expected \"auto\", or a whole number",
        ),
        (
            &format!(
                "{wan}[shape]\nrate = \"auto\"\nminimum-uplink-rate = \"2mbit\"\nmaximum-uplink-rate = \"1mbit\"\n"
            ),
            "test.toml:5: shape.minimum-uplink-rate: 2mbit is more than the maximum, 1mbit",
        ),
        (
            &format!("{wan}[shape]\nmaximum-downlink-rate = \"1mbit\"\n"),
            "test.toml:4: shape.maximum-downlink-rate: minimum and maximum apply only with rate = \"auto\"",
        ),
        (
            &format!("{wan}[shape]\nrate = \"auto\"\ndownlink-rate-percent = 90\n"),
            "test.toml:5: shape.downlink-rate-percent: an automatic rate follows the queue",
        ),
        (
            &format!("{wan}[shape]\nbuffer = \"5p\"\n"),
            "test.toml:4: shape.buffer: unknown key `buffer`; cake manages its queue by time",
        ),
        (
            &format!("{wan}[shape]\nmerge-sack = true\n"),
            "test.toml:4: shape.merge-sack: unknown key `merge-sack`; ACKs with SACK are merged always",
        ),
        (
            &format!("{wan}[shape]\narrangement = \"ifb\"\n"),
            "test.toml:4: shape.arrangement: unknown key `arrangement`; there was one only",
        ),
        (
            &format!("{wan}[detector]\nshort-flow = \"2s\"\n"),
            "test.toml:4: detector.short-flow: unknown key `short-flow`; it is half of `activity`: leave it out",
        ),
        (
            &format!("{wan}[detector]\nlong-burst-share = 0.5\n"),
            "test.toml:4: detector.long-burst-share: unknown key `long-burst-share`; it is one half: leave it out",
        ),
        (
            &format!("{wan}[shape]\ncake = \"nat difserv4\"\n"),
            "test.toml:4: shape.cake: cake has no option `difserv4` (column 13); did you mean `diffserv4`?",
        ),
        (
            &format!("{wan}[shape]\ncake = \"ack-filter\"\n"),
            "test.toml:4: shape.cake: `ack-filter` is not for this key (column 9); write the key ack-filter",
        ),
        (
            &format!("{wan}[shape]\nrate-percent = 10\n"),
            "test.toml:4: shape.rate-percent: 10 is out of range; allowed are 50 to 100",
        ),
        (
            &format!("{wan}[shape]\nab-test = \"60s\"\n"),
            "test.toml:4: shape.ab-test: ab-test compares only while",
        ),
        (&format!("{wan}[shape]\nmode = \"on\"\n"), "test.toml:4: shape.mode: unknown variant `on`"),
        (&format!("{wan}[[link]\n"), "test.toml:3: "),
        (
            &format!("{wan}[detector]\nswing-share = 0.2\nlocked-share = 80\n"),
            "test.toml:5: detector.locked-share: 80 is out of range; allowed are 0.5 to 1",
        ),
        (
            &format!("{wan}[detector]\nshortest-horizon = \"90s\"\n"),
            "test.toml:4: detector.shortest-horizon: it is above longest-horizon",
        ),
        (
            &format!("{wan}[detector]\nlock-share = 0.8\n"),
            "test.toml:4: detector.lock-share: unknown key `lock-share`; did you mean `locked-share`?",
        ),
        (&format!("{wan}[detector]\nevidence = 5\n"), "test.toml:4: detector.evidence: invalid type"),
        (
            &format!("{wan}[events]\nlog = \"events.jsonl\"\n"),
            "test.toml:4: events.log: `events.jsonl` is not the absolute path of a file",
        ),
    ] {
        let message = refusal(text);
        assert!(message.starts_with(expected), "\n got {message}\nwant {expected}");
        assert!(message.contains("; "), "no remedy: {message}");
    }
}

#[test]
fn same_name_on_two_links_is_refused() {
    let message = refusal("[[link]]\nwan = \"a\"\nname = \"x\"\n[[link]]\nwan = \"b\"\nname = \"x\"\n");
    assert!(message.starts_with("test.toml:6: link[1].name: another link has the name `x`"), "{message}");
}

/// A device's figures belong to one link, whatever its names.
#[test]
fn same_device_on_two_links_is_refused() {
    let message = refusal("[[link]]\nwan = \"a\"\nname = \"x\"\n[[link]]\nwan = \"a\"\nname = \"y\"\n");
    let expected =
        "test.toml:5: link[1].wan: another link has the WAN device `a` already; give each [[link]] its own";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn a_missing_file_is_no_input_and_a_wrong_one_is_config() {
    let missing = Config::load(Path::new("/nonexistent/pendulum.toml")).expect_err("missing");
    assert_eq!(missing.exit(), Exit::NoInput);
    assert!(missing.to_string().starts_with("/nonexistent/pendulum.toml: cannot read"));
    assert_eq!(parse("x = 1").expect_err("unknown key").exit(), Exit::Config);
}

fn overrides(wan: Option<&str>) -> Overrides {
    Overrides { wan: wan.map(str::to_owned), uplink_rate: "1mbit".parse().ok(), ..Overrides::default() }
}

fn two_links() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("two.toml");
    std::fs::write(&file, "[[link]]\nwan = \"a\"\n[[link]]\nwan = \"b\"\ndownlink-rate = \"9mbit\"\n")
        .unwrap();
    (directory, file)
}

#[test]
fn a_device_on_the_command_line_is_a_whole_configuration() {
    let config = overrides(Some("ppp0")).resolve(None).unwrap();
    let [link] = config.links.as_slice() else { panic!("one link") };
    assert_eq!((link.name.as_str(), link.wan.as_str()), ("ppp0", "ppp0"));
    assert_eq!(link.rate(Direction::Up), "1mbit".parse().ok());
    let nothing = Overrides::default().resolve(None).expect_err("nothing to watch");
    assert_eq!(nothing.exit(), Exit::Usage);
}

#[test]
fn options_go_to_the_link_they_name() {
    let (_directory, file) = two_links();
    let config = overrides(Some("b")).resolve(Some(file.clone())).unwrap();
    assert_eq!(config.links[0], LinkConfig::new("a"));
    assert_eq!(config.links[1].rate(Direction::Up), "1mbit".parse().ok());
    assert_eq!(config.links[1].rate(Direction::Down), "9mbit".parse().ok());
    for wrong in [overrides(Some("c")), overrides(None)] {
        assert_eq!(wrong.resolve(Some(file.clone())).expect_err("ambiguous").exit(), Exit::Usage);
    }
    assert!(Overrides::default().resolve(Some(file)).is_ok());
}

proptest! {
    /// A refusal always names the file; whatever is accepted keeps its promises.
    #[test]
    fn any_change_to_the_shipped_file_is_judged(
        at in 0..SHIPPED.len(),
        removed in 0_usize..40,
        put in "[ -~\n\u{e4}\u{20ac}]{0,20}",
    ) {
        let is_boundary = |place: usize| SHIPPED.is_char_boundary(place);
        let start = (0..=at).rev().find(|place| is_boundary(*place)).unwrap_or(0);
        let end = (start + removed..=SHIPPED.len()).find(|place| is_boundary(*place)).unwrap_or(SHIPPED.len());
        match parse(&format!("{}{put}{}", &SHIPPED[..start], &SHIPPED[end..])) {
            Ok(config) => {
                prop_assert!(!config.links.is_empty());
                prop_assert!(config.links.iter().all(|link| (1..=15).contains(&link.wan.len())));
            }
            Err(error) => prop_assert!(error.to_string().starts_with("test.toml:"), "{}", error),
        }
    }

    /// The same of text that is nothing at all.
    #[test]
    fn any_text_is_refused(text in ".{0,200}") {
        prop_assert!(parse(&text).is_err());
    }
}
