//! The queries of the rate that a shaper finds, on series of a link's life, by promtool: shown where one is looked for, and nothing else.

use std::fmt::Write as _;

use crate::files::Dashboard;
use crate::live::filled;
use crate::promtool::tool;

/// The labels of a gateway's link.
const LINK: &str = "job=\"pendulum\", instance=\"127.0.0.1:9924\", link=\"wan0\"";

/// The queries of a panel of Link, as Grafana would fill them in.
fn queries(panel: &str) -> Vec<String> {
    let dashboards = Dashboard::all();
    let link = dashboards.iter().find(|dashboard| dashboard.name == "link").unwrap();
    let found = link.queries().into_iter().filter(|(title, _)| title == panel);
    let found: Vec<_> = found.map(|(_, query)| filled(&query)).collect();
    assert!(!found.is_empty(), "no panel {panel}");
    found
}

/// A file of tests: series, and what queries give at a time.
struct Story {
    text: String,
}

impl Story {
    /// Scraped every 5 s.
    fn new(series: &[(&str, &str, &str)]) -> Self {
        let mut text = "evaluation_interval: 5s\ntests:\n- interval: 5s\n  input_series:\n".to_owned();
        for (name, labels, values) in series {
            let labels = [LINK, labels].join(if labels.is_empty() { "" } else { ", " });
            writeln!(text, "  - series: '{name}{{{labels}}}'\n    values: '{values}'").unwrap();
        }
        text.push_str("  promql_expr_test:\n");
        Self { text }
    }

    fn expect(&mut self, query: &str, at: &str, samples: &[(&str, f64)]) {
        writeln!(self.text, "  - expr: '{query}'\n    eval_time: {at}\n    exp_samples:").unwrap();
        if samples.is_empty() {
            self.text.truncate(self.text.len() - 1);
            self.text.push_str(" []\n");
        }
        for (labels, value) in samples {
            let labels = [LINK, labels].join(if labels.is_empty() { "" } else { ", " });
            writeln!(self.text, "    - labels: '{{{labels}}}'\n      value: {value}").unwrap();
        }
    }

    fn check(&self, test: &str) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("story.yml");
        std::fs::write(&file, &self.text).unwrap();
        tool(test, "promtool", &["test", "rules"], &[file]);
    }
}

/// The uplink's rate is looked for, the downlink's is configured. Up to 60 s it is shaped; then there is a turn of the comparison without
/// shaping; from 120 s on it is shaped and nobody answers; at 180 s the agent goes away.
#[test]
fn a_found_rate_is_shown_where_one_is_looked_for() {
    let decisions = "0+25x36 stale";
    let mut story = Story::new(&[
        ("pendulum_shaping", "", "1x11 0x11 1x12 stale"),
        ("pendulum_shape_rate_bytes_per_second", "direction=\"up\"", "125000x36 stale"),
        ("pendulum_shape_rate_bytes_per_second", "direction=\"down\"", "5000000x36 stale"),
        ("pendulum_throughput_bytes_per_second", "direction=\"up\"", "100000x36 stale"),
        ("pendulum_throughput_bytes_per_second", "direction=\"down\"", "1000000x36 stale"),
        ("pendulum_shape_waits_behind_seconds", "direction=\"up\"", "0.02x11 stale"),
        ("pendulum_shape_decisions_total", "direction=\"up\", decision=\"raise\"", decisions),
        ("pendulum_shape_decisions_total", "direction=\"up\", decision=\"hold\"", decisions),
    ]);
    let [up, down, passes_up, passes_down] = &queries("Rate of the shaper")[..] else {
        panic!("other queries")
    };
    let direction = "direction=\"up\"";
    for (at, is_there) in [("50s", true), ("80s", false), ("150s", true), ("200s", false)] {
        let of = |value| if is_there { vec![(direction, value)] } else { Vec::new() };
        story.expect(up, at, &of(1_000_000.0));
        story.expect(passes_up, at, &of(800_000.0));
        story.expect(down, at, &[]);
        story.expect(passes_down, at, &[]);
        let shares = [("decision=\"hold\"", 0.5), ("decision=\"raise\"", 0.5)];
        story.expect(&queries("Decisions, up")[0], at, if is_there { &shares } else { &[] });
        story.expect(&queries("Decisions, down")[0], at, &[]);
    }
    let [wait, other] = &queries("Queue behind the shaper")[..] else { panic!("other queries") };
    let named = "__name__=\"pendulum_shape_waits_behind_seconds\", direction=\"up\"";
    story.expect(wait, "50s", &[(named, 0.02)]);
    story.expect(other, "50s", &[]);
    // Not known is a gap.
    story.expect(wait, "80s", &[]);
    story.check("a_found_rate_is_shown_where_one_is_looked_for");
}
