//! Every key of the configuration: what it may say, what that does, and when.

use std::fmt::{Debug, Display};

use pendulum_model::rate::Span;

use super::super::*;

/// One key.
pub(super) struct KeyRow {
    /// With its table: `shape.rate-percent`.
    pub(super) key: &'static str,
    /// What the value does, in words.
    pub(super) effect: fn(&Config) -> String,
    /// The effect without the key.
    pub(super) default: &'static str,
    /// Values that are allowed, as TOML, and the effect of each. The first one is not the default, unless it is the only one.
    pub(super) allowed: Vec<(String, String)>,
    /// Values that are not, and a part of the reason.
    pub(super) refused: Vec<(String, String)>,
    /// Other keys of the same table that the values need.
    pub(super) beside: &'static str,
    /// When a changed value holds.
    pub(super) reload: AtReload,
    /// The option that replaces it, and its effect.
    pub(super) option: Option<(&'static [&'static str], &'static str)>,
}

/// What becomes of a changed value at SIGHUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtReload {
    /// It holds at once, and is reported by this name.
    Live(&'static str),
    /// It waits for a restart, and is reported by this name.
    Waits(&'static str),
    /// It makes another link, which is measured instead.
    NewLink,
    /// It makes another link of a device that is measured, which waits.
    OtherLink,
    /// There is only one value.
    Never,
}

use AtReload::{Live, Waits};

impl KeyRow {
    fn values(mut self, allowed: &[(&str, &str)], refused: &[(&str, &str)]) -> Self {
        let owned =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        (self.allowed, self.refused) = (owned(allowed), owned(refused));
        self
    }

    /// From `least` to `most`, where the next ones beyond are `below` and `above`. A value with a unit is a text.
    fn range(mut self, [least, most]: [&str; 2], beyond: &[&str]) -> Self {
        let toml = |text: &str| {
            if text.parse::<f64>().is_ok() { text.to_owned() } else { format!("{text:?}") }
        };
        self.allowed = [least, most].map(|text| (toml(text), text.to_owned())).into();
        let reason = format!("is out of range; allowed are {least} to {most}");
        self.refused = beyond.iter().map(|text| (toml(text), format!("{text} {reason}"))).collect();
        self
    }

    fn beside(self, beside: &'static str) -> Self {
        Self { beside, ..self }
    }

    fn option(self, arguments: &'static [&'static str], effect: &'static str) -> Self {
        Self { option: Some((arguments, effect)), ..self }
    }
}

fn row(key: &'static str, reload: AtReload, effect: fn(&Config) -> String, default: &'static str) -> KeyRow {
    KeyRow { key, effect, default, allowed: vec![], refused: vec![], beside: "", reload, option: None }
}

fn debug(value: impl Debug) -> String {
    format!("{value:?}")
}

fn text<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn path(value: Option<&PathBuf>) -> String {
    text(value.map(|path| path.display()))
}

fn rate(direction: Direction, config: &Config) -> String {
    text(config.links[0].rate(direction))
}

/// What is let through of a link of 100 bit/s: bits per second are percent then.
fn percent(rate_of: fn(&ShapeConfig, Rate) -> Option<Rate>, config: &Config) -> String {
    let link = Rate::from_bits_per_second(100).unwrap();
    text(rate_of(&config.shape, link).map(Rate::bits_per_second))
}

pub(super) fn all() -> Vec<KeyRow> {
    [general(), links(), shape(), detector()].into_iter().flatten().collect()
}

const NAME_253: &str = concat!(
    "a2345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456",
    "a2345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456",
    "a23456789012345678901"
);

fn general() -> Vec<KeyRow> {
    let (host, numeric) = ("is not a host name", "is not a numeric address with a port");
    let (quoted, longer) = (format!("[\"{NAME_253}\"]"), format!("[\"ok\", \"{NAME_253}b\"]"));
    let names = format!("[{NAME_253:?}]");
    vec![
        row("listen", Waits("listen"), |c| c.listen.to_string(), "127.0.0.1:9924")
            .values(
                &[("\"0.0.0.0:0\"", "0.0.0.0:0"), ("\"[::1]:65535\"", "[::1]:65535")],
                &[("\"localhost:1\"", numeric), ("\"127.0.0.1:65536\"", numeric), ("\"127.0.0.1\"", numeric)],
            )
            .option(&["--listen", "192.0.2.1:81"], "192.0.2.1:81"),
        row("http.names", Waits("http.names"), |c| debug(&c.http.names), "[]").values(
            &[("[\"A-1.b\", \"C.\"]", "[\"a-1.b\", \"c\"]"), (&quoted, &names)],
            &[("[\"\"]", host), ("[\".\"]", host), ("[\"a_b\"]", host), ("[\"a:1\"]", host), (&longer, host)],
        ),
        row("http.token-file", Waits("http.token-file"), |c| path(c.http.token_file.as_ref()), "none")
            .values(
                &[("\"/t\"", "/t")],
                &[("\"t\"", "not an absolute path"), ("\"\"", "not an absolute path")],
            ),
        row(
            "http.tls-certificate",
            Waits("http.tls-certificate, http.tls-key"),
            |c| path(c.http.tls.as_ref().map(|tls| &tls.certificate)),
            "none",
        )
        .values(&[("\"/c\"", "/c")], &[("\"c\"", "not an absolute path")])
        .beside("tls-key = \"/k\""),
        row(
            "http.tls-key",
            Waits("http.tls-certificate, http.tls-key"),
            |c| path(c.http.tls.as_ref().map(|tls| &tls.key)),
            "none",
        )
        .values(&[("\"/k\"", "/k")], &[("\"k\"", "not an absolute path")])
        .beside("tls-certificate = \"/c\""),
        row(
            "http.external-url",
            Live("http.external-url"),
            |c| c.http.external_url.clone().unwrap_or_else(|| "none".to_owned()),
            "none",
        )
        .values(
            &[
                ("\"https://gw.example/\"", "https://gw.example"),
                ("\"http://[fd00::1]:9924/pendulum\"", "http://[fd00::1]:9924/pendulum"),
            ],
            &[
                ("\"gw.example\"", "not the address of a page"),
                ("\"https://\"", "not the address of a page"),
                ("\"https://user@gw.example\"", "not the address of a page"),
                ("\"https://gw.example/#dsl\"", "not the address of a page"),
            ],
        ),
        row(
            "flows.idle-timeout",
            Live("flows.idle-timeout"),
            |c| Span(c.flows.idle_timeout).to_string(),
            "5m",
        )
        .range(["10s", "24h"], &["9999ms", "86400001ms"]),
        row("flows.top", Live("flows.top"), |c| c.flows.top.to_string(), "20")
            .range(["1", "10000"], &["0", "10001"]),
        row("events.log", Waits("events.log"), |c| path(c.events.log.as_ref()), "none").values(
            &[("\"/a/b\"", "/a/b")],
            &[("\"a\"", "not the absolute path of a file"), ("\"/\"", "not the absolute path of a file")],
        ),
        row("events.incidents", Waits("events.incidents"), |c| c.events.incidents.to_string(), "true")
            .values(&[("false", "false")], &[("\"off\"", "expected a boolean")]),
        row(
            "events.incident-hosts",
            Waits("events.incident-hosts"),
            |c| c.events.incident_hosts.to_string(),
            "false",
        )
        .values(&[("true", "true")], &[("1", "expected a boolean")]),
        row("log.format", Waits("log.format"), |c| debug(c.log.format), "Text")
            .values(&[("\"json\"", "Json"), ("\"text\"", "Text")], &[("\"xml\"", "unknown variant `xml`")])
            .option(&["--log-format", "text"], "Text"),
        row("log.level", Live("log.level"), |c| debug(c.log.level), "Info")
            .values(
                &[
                    ("\"error\"", "Error"),
                    ("\"warn\"", "Warn"),
                    ("\"info\"", "Info"),
                    ("\"debug\"", "Debug"),
                    ("\"trace\"", "Trace"),
                ],
                &[("\"loud\"", "unknown variant `loud`")],
            )
            .option(&["--log-level", "debug"], "Debug"),
        row(
            "metrics.bpf-statistics",
            Waits("metrics.bpf-statistics"),
            |c| c.bpf_statistics.to_string(),
            "false",
        )
        .values(&[("true", "true"), ("false", "false")], &[("1", "invalid type")]),
        row("privileges.after-start", Waits("privileges.after-start"), |c| debug(c.privileges), "Reattach")
            .values(
                &[("\"none\"", "None"), ("\"reattach\"", "Reattach")],
                &[("\"all\"", "unknown variant `all`")],
            ),
    ]
}

fn links() -> Vec<KeyRow> {
    let (device, name) = ("cannot be the name of a network device", "cannot name a link");
    let rate_refusals = [("\"0bit\"", "is not a rate"), ("\"18446744073709551616bit\"", "is not a rate")];
    vec![
        row("link.wan", AtReload::NewLink, |c| c.links[0].wan.clone(), "wan0")
            .values(
                &[("\"a\"", "a"), ("\"abcdefghijklmno\"", "abcdefghijklmno")],
                &[
                    ("\"abcdefghijklmnop\"", device),
                    ("\"\"", device),
                    ("\".\"", device),
                    ("\"..\"", device),
                    ("\"a/b\"", device),
                    ("\"a:b\"", device),
                    ("\"a b\"", device),
                    ("\"a\\u0001\"", device),
                ],
            )
            .option(&["--wan", "wan7"], "wan7"),
        row("link.name", AtReload::OtherLink, |c| c.links[0].name.clone(), "wan0").values(
            &[
                ("\"A.z_9-\"", "A.z_9-"),
                ("\"abcdefghijklmnopqrstuvwxyzABCDEF\"", "abcdefghijklmnopqrstuvwxyzABCDEF"),
            ],
            &[
                ("\"abcdefghijklmnopqrstuvwxyzABCDEFG\"", name),
                ("\"\"", name),
                ("\"a b\"", name),
                ("\"a/b\"", name),
            ],
        ),
        row("link.lan", Live("link wan0: lan"), |c| c.links[0].lan.join(" "), "")
            .values(
                &[
                    ("[\"br0\", \"br1\"]", "br0 br1"),
                    ("[\"abcdefghijklmno\"]", "abcdefghijklmno"),
                    ("[]", ""),
                ],
                &[
                    ("[\"abcdefghijklmnop\"]", device),
                    ("[\"br0\", \"\"]", device),
                    ("[\"br0\", \"wan0\"]", "`wan0` is this link's WAN device"),
                ],
            )
            .option(&["--lan", "x", "--lan", "y"], "x y"),
        row("link.uplink-rate", Live("link wan0: uplink-rate"), |c| rate(Direction::Up, c), "none")
            .values(
                &[("\"1bit\"", "1bit"), ("\"18446744073709551615bit\"", "18446744073709551615bit")],
                &rate_refusals,
            )
            .option(&["--uplink-rate", "7mbit"], "7mbit"),
        row("link.downlink-rate", Live("link wan0: downlink-rate"), |c| rate(Direction::Down, c), "none")
            .values(
                &[("\"1bit\"", "1bit"), ("\"18446744073709551615bit\"", "18446744073709551615bit")],
                &rate_refusals,
            )
            .option(&["--downlink-rate", "9mbit"], "9mbit"),
        row(
            "link.downlink-device",
            Live("link wan0: downlink-device"),
            |c| text(c.links[0].downlink_device.as_ref()),
            "none",
        )
        .values(
            &[("\"ifb0\"", "ifb0"), ("\"abcdefghijklmno\"", "abcdefghijklmno")],
            &[("\"abcdefghijklmnop\"", device), ("\"\"", device)],
        ),
        row("link.ingress-hook", Waits("link wan0: ingress-hook"), |c| debug(c.links[0].ingress_hook), "Tc")
            .values(&[("\"xdp\"", "Xdp"), ("\"tc\"", "Tc")], &[("\"xpd\"", "unknown variant `xpd`")])
            .option(&["--ingress-hook", "tc"], "Tc"),
        row("link.max-flows", Waits("link wan0: max-flows"), |c| c.links[0].max_flows.to_string(), "16384")
            .range(["256", "1048576"], &["255", "1048577"]),
        row("link.nursery", Waits("link wan0: nursery"), |c| c.links[0].nursery.to_string(), "4096")
            .range(["64", "1048576"], &["63", "1048577"]),
    ]
}

fn shape() -> Vec<KeyRow> {
    let row = |key, effect, default| row(key, Live("shape"), effect, default);
    let bound = |key, effect| {
        row(key, effect, "none")
            .values(
                &[("\"64kbit\"", "64kbit"), ("\"2mbit\"", "2mbit")],
                &[("\"63kbit\"", "63kbit is too slow")],
            )
            .beside("rate = \"auto\"")
    };
    vec![
        row("shape.mode", |c| c.shape.mode.name().to_owned(), "off").values(
            &[
                ("\"enforce\"", "enforce"),
                ("\"auto\"", "auto"),
                ("\"dry-run\"", "dry-run"),
                ("\"off\"", "off"),
            ],
            &[("\"on\"", "unknown variant `on`")],
        ),
        row("shape.rate", |c| format!("{:?}", c.shape.rate).to_lowercase(), "configured").values(
            &[("\"auto\"", "auto"), ("\"configured\"", "configured"), ("\"told\"", "configured")],
            &[("\"fast\"", "unknown variant `fast`")],
        ),
        row("shape.priority", |c| c.shape.priority.name().to_owned(), "balanced")
            .values(
                &[("\"latency\"", "latency"), ("\"balanced\"", "balanced"), ("\"throughput\"", "throughput")],
                &[("\"speed\"", "unknown variant `speed`")],
            )
            .beside("rate = \"auto\""),
        row("shape.probe", |c| c.shape.probe.name().to_owned(), "off")
            .values(
                &[("\"first-hop\"", "first-hop"), ("\"off\"", "off")],
                &[("\"1.1.1.1\"", "unknown variant `1.1.1.1`")],
            )
            .beside("rate = \"auto\""),
        bound("shape.minimum-uplink-rate", |c| text(c.shape.bounds.up.least)),
        bound("shape.maximum-uplink-rate", |c| text(c.shape.bounds.up.most)),
        bound("shape.minimum-downlink-rate", |c| text(c.shape.bounds.down.least)),
        bound("shape.maximum-downlink-rate", |c| text(c.shape.bounds.down.most)),
        row("shape.rate-percent", |c| percent(ShapeConfig::uplink_rate, c), "99")
            .range(["50", "100"], &["49", "101"]),
        row("shape.downlink", |c| c.shape.downlink.to_string(), "false")
            .values(&[("true", "true"), ("false", "false")], &[("\"yes\"", "invalid type")]),
        row("shape.downlink-rate-percent", |c| percent(ShapeConfig::downlink_rate, c), "95")
            .range(["50", "100"], &["49", "101"]),
        row("shape.ack-filter", |c| c.shape.ack_filter.name().to_owned(), "auto").values(
            &[
                ("\"off\"", "off"),
                ("\"static\"", "static"),
                ("\"delayed\"", "delayed"),
                ("\"per-connection\"", "per-connection"),
                ("\"auto\"", "auto"),
            ],
            &[(
                "\"on\"",
                "unknown variant `on`, expected one of `auto`, `off`, `static`, `delayed`, `per-connection`",
            )],
        ),
        row("shape.delta", |c| debug(c.shape.delta), "Auto").values(
            &[("1", "Fixed(1)"), ("1000", "Fixed(1000)"), ("\"auto\"", "Auto")],
            &[
                ("0", "a whole number of ACKs from 1 to 1000"),
                ("1001", "a whole number of ACKs from 1 to 1000"),
                ("-1", "a whole number of ACKs from 1 to 1000"),
                ("\"many\"", "expected \"auto\""),
            ],
        ),
        row(
            "shape.preset",
            |c| debug(c.shape.framing),
            "Framing { overhead: None, mpu: 0, layer: Ethernet }",
        )
        .values(
            &[
                ("\"adsl-pppoe\"", "Framing { overhead: Some(40), mpu: 0, layer: Atm }"),
                ("\"adsl-pppoa\"", "Framing { overhead: Some(10), mpu: 0, layer: Atm }"),
                ("\"adsl-bridged\"", "Framing { overhead: Some(32), mpu: 0, layer: Atm }"),
                ("\"vdsl2-ptm\"", "Framing { overhead: Some(22), mpu: 0, layer: Ptm }"),
                ("\"vdsl2-pppoe\"", "Framing { overhead: Some(30), mpu: 0, layer: Ptm }"),
                ("\"docsis\"", "Framing { overhead: Some(18), mpu: 64, layer: Ethernet }"),
                ("\"ethernet\"", "Framing { overhead: Some(38), mpu: 84, layer: Ethernet }"),
                ("\"conservative\"", "Framing { overhead: Some(48), mpu: 0, layer: Atm }"),
            ],
            &[("\"dsl\"", "unknown variant `dsl`")],
        ),
        row("shape.link-layer", |c| debug(c.shape.framing.layer), "Ethernet").values(
            &[("\"ptm\"", "Ptm"), ("\"atm\"", "Atm"), ("\"ethernet\"", "Ethernet")],
            &[("\"adsl\"", "unknown variant `adsl`")],
        ),
        row("shape.overhead", |c| text(c.shape.framing.overhead), "none")
            .range(["-64", "256"], &["-65", "257"]),
        row("shape.mpu", |c| c.shape.framing.mpu.to_string(), "0").values(
            &[("256", "256"), ("0", "0")],
            &[("257", "is out of range; allowed are 0 to 256"), ("-1", "invalid value")],
        ),
        row("shape.cake", |c| debug(c.shape.cake.isolation), "DualSource").values(
            &[("\"triple-isolate nat\"", "Triple"), ("\"\"", "DualSource"), ("'flows rtt 50ms'", "Flows")],
            &[
                ("\"nat flow\"", "cake has no option `flow` (column"),
                ("\"bandwidth 5mbit\"", "not for this key"),
            ],
        ),
        row("shape.ab-test", |c| text(c.shape.ab_test.map(Span)), "none")
            .range(["5s", "1h"], &["4999ms", "3600001ms"])
            .beside("mode = \"enforce\""),
    ]
}

/// The effect of a threshold is its value; what that does to verdicts, the model's own tests say.
macro_rules! threshold {
    ($key:literal, $default:literal, $range:expr, $beyond:expr) => {
        row(
            concat!("detector.", $key),
            Live("detector"),
            |config| match &serde_json::to_value(config.detector).unwrap()[$key] {
                serde_json::Value::String(text) => text.clone(),
                number => number.as_f64().unwrap().to_string(),
            },
            $default,
        )
        .range($range, $beyond)
    };
}

fn detector() -> Vec<KeyRow> {
    let (share, beyond_share): (_, &[&str]) = (["0", "1"], &["-0.001", "1.001"]);
    let (time, beyond_time): (_, &[&str]) = (["1ms", "1m"], &["999us", "60001ms"]);
    let (horizon, beyond_horizon): (_, &[&str]) = (["1s", "2m"], &["999ms", "120001ms"]);
    vec![
        threshold!("segment-bytes", "1500", ["64", "65535"], &["63.9", "65535.1"]),
        threshold!("standing-enter-segments", "1", ["0.01", "1000"], &["0.009", "1000.1"])
            .beside("standing-leave-segments = 0"),
        threshold!("standing-leave-segments", "0.5", ["0", "1000"], &["-0.1", "1000.1"])
            .beside("standing-enter-segments = 1000"),
        threshold!("phase-dwell-round-trips", "0.5", ["0", "100"], &["-0.1", "100.1"]),
        threshold!("window-margin", "0.1", ["0", "0.9"], &["-0.1", "0.91"]),
        threshold!("shortest-round-trip", "10ms", time, beyond_time).beside("longest-round-trip = \"1m\""),
        threshold!("longest-round-trip", "10s", time, beyond_time).beside("shortest-round-trip = \"1ms\""),
        threshold!("assumed-round-trip", "100ms", time, beyond_time),
        threshold!("horizon-round-trips", "60", ["1", "10000"], &["0.9", "10000.1"]),
        threshold!("shortest-horizon", "10s", horizon, beyond_horizon).beside("longest-horizon = \"2m\""),
        threshold!("longest-horizon", "1m", horizon, beyond_horizon).beside("shortest-horizon = \"1s\""),
        threshold!("evidence", "5s", horizon, beyond_horizon),
        threshold!("evidence-round-trips", "6", ["1", "1000"], &["0.9", "1000.1"]),
        threshold!("activity", "4s", ["1s", "1m"], &["999ms", "60001ms"]),
        threshold!("bulk-active-share", "0.8", share, beyond_share),
        threshold!("bulk-in-flight-segments", "2", ["0", "1000"], &["-0.1", "1000.1"]),
        threshold!("bulk-long-flow-share", "0.5", share, beyond_share),
        threshold!("application-limited-variation", "0.25", ["0", "10"], &["-0.1", "10.1"]),
        threshold!("swing-share", "0.1", ["0.01", "0.5"], &["0.009", "0.51"]),
        threshold!("swing-switches", "3", ["2", "1000"], &["1", "1001"]),
        threshold!("locked-share", "0.8", ["0.5", "1"], &["0.49", "1.01"]),
        threshold!("starved-utilization", "0.5", share, beyond_share),
        threshold!("bufferbloat-delay", "100ms", time, beyond_time),
        threshold!("in-phase-correlation", "0.3", share, beyond_share),
        threshold!("verdict-dwell", "2s", ["0s", "1m"], &["60001ms"]),
        threshold!("unfair-share-ratio", "2", ["1", "1000"], &["0.99", "1000.1"]),
        threshold!("far-round-trip-ratio", "1.5", ["1.01", "1000"], &["1.009", "1000.1"]),
    ]
}
