//! The screen in each state in which it could mislead, kept in docs/screenshots/top.md; `./dev generate` writes that.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::tests::{screen, view};
use crate::client::Trouble;
use crate::generated::hold;
use crate::top::feed::News;
use crate::top::view::View;
use pendulum_wire::State;

const HEAD: &str = "# `pendulum top` in each state

Written by `./dev generate` from the program, with made-up figures; [statements.md](../reference/statements.md) says when each statement is valid.
";

/// A link with this on top of what each one has.
fn reported(more: Value) -> State {
    let mut link = json!({"name": "dsl", "wan": "ppp0", "device": "up", "link": {"uplink_rate_bps": 196_000, "downlink_rate_bps": 2_400_000}});
    link.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    serde_json::from_value(json!({"version": "1", "links": [link]})).expect("a state")
}

fn fresh(state: Value) -> View {
    let mut view = View::new(&"http://gateway:9924".parse().expect("a URL"), None, false);
    view.take(News::State(reported(state)));
    view
}

#[test]
fn screens_of_each_state_are_those_of_the_docs() {
    let mut down = view();
    let trouble = Trouble {
        reason: "connection refused".to_owned(),
        remedy: "is the agent running? systemctl status pendulum.",
        unknown_path: false,
    };
    down.trouble = Instant::now().checked_sub(Duration::from_secs(150)).map(|since| (trouble, since));
    let direction = |queue: Value| json!({"throughput_1s_bps": 180_000.0, "in_flight_bytes": 29_000, "flows": 1, "queue": queue});
    let started = fresh(json!({"verdict": "unknown", "verdict_for_s": 0.5, "evidence": null}));
    let netlink = json!({"source": "netlink", "bytes": 21_000, "uncertainty_bytes": 0.0, "limit_bytes": 30_000, "drops": {"qdisc": 3}});
    let mut stepped_down = fresh(json!({
        "directions": {"up": direction(netlink), "down": direction(json!({"source": "estimate", "bytes": null}))},
        "verdict": "unknown", "verdict_for_s": 12.0, "evidence": {"reason": "the downlink's queue is unknown", "missing": ["downlink_rate"]},
        "degraded": ["the uplink queue is read by netlink ten times a second; peaks in between are missed"]
    }));
    let modem = json!({"source": "estimate", "bytes": 24_000, "uncertainty_bytes": 2_000.0, "drops": {},
        "composition": {"tcp_data": 0.125, "udp": 0.875}, "top_port": {"name": "UDP port 443", "share": 0.875}});
    let mut modem = fresh(json!({
        "vantage": "before_uplink_buffer", "verdict": "locked_uplink", "verdict_for_s": 40.0,
        "directions": {"up": direction(modem), "down": direction(Value::Null)},
        "evidence": {"reason": "the uplink buffer never empties and downloads starve", "missing": []},
        "bufferbloat": {"up": {"delay_s": 0.35, "cause": {"kind": "udp", "share": 0.875}, "help": "shape the uplink on the gateway"}}
    }));
    let mut unknown = fresh(json!({
        "link": {}, "verdict": "unknown", "verdict_for_s": 9.0,
        "directions": {"up": direction(json!({"source": "estimate", "bytes": null})), "down": direction(json!({"source": "estimate", "bytes": null}))},
        "evidence": {"reason": "bulk data passes, and both queues are unknown", "missing": ["base_round_trip", "uplink_rate"]}
    }));
    for view in [&mut stepped_down, &mut modem, &mut unknown] {
        for _ in 0..100 {
            view.take(News::Held(0.1));
        }
    }
    let mut text = HEAD.to_owned();
    for (title, view, parts) in [
        ("The agent is down", &down, &["NO ANSWER", "for 2 min", "Last known: LOCKED UPLINK"][..]),
        ("It has just started", &started, &["No verdict yet", "unknown"]),
        (
            "It has stepped down",
            &stepped_down,
            &["read by netlink", "UNKNOWN", "missing evidence: downlink rate"],
        ),
        ("It does not know", &unknown, &["UNKNOWN", "missing evidence: base round trip, uplink rate"]),
        (
            "The buffer is in the modem",
            &modem,
            &["about 24.0 kB ± 2.0 kB (estimate, in the modem)", "BUFFERBLOAT"],
        ),
    ] {
        let shown = screen(view, 100, 30);
        for part in parts {
            assert!(shown.contains(part), "{title}: {part} in\n{shown}");
        }
        writeln!(text, "\n## {title}\n\n```text").expect("text");
        for line in shown.lines() {
            writeln!(text, "{}", line.trim_matches('"').trim_end()).expect("text");
        }
        text.push_str("```\n");
    }
    hold("docs/screenshots/top.md", &text);
}
