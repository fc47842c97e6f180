//! `/api/v1/flows`: the figures of both ends, the order, and how many.

use serde_json::json;

use super::*;
use crate::snapshot::FlowRow;

/// The answer of an agent that lists `top` flows unless asked for another number.
async fn flows_of(links: Vec<LinkSnapshot>, top: usize, query: &str) -> (StatusCode, Value) {
    let (send, active) = Active::start(Config::default());
    send.send_modify(|active| active.config.flows.top = top);
    let app = App::new(example::board(links), Journal::new(None), active, true, watch::channel(false).1);
    let request = Request::get(format!("/api/v1/flows{query}")).body(Body::empty()).unwrap();
    let (status, _, body) = ask(router(Arc::new(app), Access::local()), request).await;
    (status, serde_json::from_str(&body).unwrap())
}

fn clients(report: &Value) -> Vec<&str> {
    report["flows"].as_array().unwrap().iter().map(|flow| flow["client"].as_str().unwrap()).collect()
}

/// Flow number 3 of the example: half 1 is what home sent, half 2 what the remote end sent.
#[tokio::test]
async fn both_ends_have_their_own_figures() {
    let (status, mut report) = flows_of(vec![example::link("dsl")], 1, "").await;
    assert_eq!((status, &report["total"]), (StatusCode::OK, &json!(3)));
    let flow = report["flows"][0].as_object_mut().unwrap();
    // First segment at 1 s, newest at 9 s of the other end; noticed just now.
    let (age, idle) = (flow.remove("age_s").unwrap(), flow.remove("idle_s").unwrap());
    let (age, idle) = (age.as_f64().unwrap(), idle.as_f64().unwrap());
    assert!((age - idle - 8.0).abs() < 1e-9 && (0.0..60.0).contains(&idle), "{age} {idle}");
    let expected = json!({
        "link": "dsl",
        "client": "192.0.2.3:40003",
        "server": "192.0.2.100:443",
        "home": "client",
        "direction": "down",
        "state": "open",
        "up": {
            "bytes": 333_333, "payload_bytes": 900_000, "segments": 700, "data_segments": 600,
            "throughput_bps": 24_000.0, "goodput_bps": 21_600.0,
            "in_flight_bytes": 2_896, "in_flight_max_bytes": 14_480,
            // Two samples, 80 ms together.
            "rtt_min_s": 0.030_003, "rtt_mean_s": 0.04, "rtt_last_s": 0.05,
            // 890,000 bytes in segments of 1,500 for 300 ACKs.
            "segments_per_ack": 890_000.0 / 300.0 / 1_500.0,
            "retransmitted_segments": 4, "reordered_segments": 1,
        },
        "down": {
            "bytes": 666_666, "payload_bytes": 1_800_000, "segments": 1_400, "data_segments": 1_200,
            "throughput_bps": 48_000.0, "goodput_bps": 43_200.0,
            "in_flight_bytes": 5_792, "in_flight_max_bytes": 28_960,
            // One sample of 160 ms.
            "rtt_min_s": 0.060_003, "rtt_mean_s": 0.16, "rtt_last_s": 0.1,
            "segments_per_ack": 1_780_000.0 / 500.0 / 1_500.0,
            "retransmitted_segments": 8, "reordered_segments": 2,
        },
    });
    assert_eq!(report["flows"][0], expected);
}

#[tokio::test]
async fn the_busiest_come_first_and_the_largest_if_asked_for() {
    let ask = |top, query| flows_of(vec![example::link("dsl")], top, query);
    // By rate the highest number, by bytes the lowest.
    let all = ["192.0.2.3:40003", "192.0.2.2:40002", "192.0.2.1:40001"];
    assert_eq!(clients(&ask(20, "").await.1), all);
    assert_eq!(clients(&ask(20, "?sort=rate").await.1), all);
    let (_, by_bytes) = ask(20, "?sort=bytes").await;
    assert_eq!(clients(&by_bytes), [all[2], all[1], all[0]]);
}

#[tokio::test]
async fn no_more_than_asked_for_and_not_the_smaller_ones() {
    let ask = |top, query| flows_of(vec![example::link("dsl")], top, query);
    for (top, query, expected) in [
        (2, "", 2),
        (20, "", 3),
        (20, "?limit=1", 1),
        (20, "?limit=2", 2),
        (20, "?limit=3", 3),
        (1, "?limit=10000", 3),
    ] {
        let (status, report) = ask(top, query).await;
        assert_eq!((status, &report["total"]), (StatusCode::OK, &json!(3)), "{query}");
        let listed = clients(&report);
        assert_eq!(
            listed,
            ["192.0.2.3:40003", "192.0.2.2:40002", "192.0.2.1:40001"][..expected],
            "{top} {query}"
        );
    }
    let (_, by_bytes) = ask(20, "?limit=1&sort=bytes").await;
    assert_eq!(clients(&by_bytes), ["192.0.2.1:40001"]);
    for query in ["?limit=0", "?limit=10001"] {
        assert_eq!(ask(20, query).await.0, StatusCode::BAD_REQUEST, "{query}");
    }
}

#[tokio::test]
async fn a_link_that_is_named_is_the_only_one() {
    let mut other = example::link("lte");
    let mut flows = (*other.flows).clone();
    flows.rows.truncate(2);
    other.flows = Arc::new(flows);
    let both = || vec![example::link("dsl"), other.clone()];
    for (query, total) in [("", 5), ("?link=dsl", 3), ("?link=lte", 2)] {
        let (_, report) = flows_of(both(), 20, query).await;
        assert_eq!((&report["total"], clients(&report).len()), (&json!(total), total), "{query}");
        let named = query.strip_prefix("?link=");
        let names = report["flows"].as_array().unwrap().iter().map(|flow| flow["link"].as_str());
        assert!(names.into_iter().all(|name| named.is_none() || name == named), "{report}");
    }
    let (_, report) = flows_of(both(), 20, "?limit=2").await;
    // Flow 3 is on `dsl` only.
    assert_eq!((&report["flows"][0]["link"], &report["total"]), (&json!("dsl"), &json!(5)));
}

/// The one flow of a link, changed.
async fn changed(change: impl FnOnce(&mut FlowRow)) -> Value {
    let mut link = example::link("dsl");
    let mut flows = (*link.flows).clone();
    flows.rows.truncate(1);
    change(&mut flows.rows[0]);
    link.flows = Arc::new(flows);
    flows_of(vec![link], 20, "").await.1["flows"][0].take()
}

#[tokio::test]
async fn who_sent_the_first_syn_is_the_client() {
    let ends = |flow: &Value| {
        ["client", "server", "home"].map(|key| flow[key].as_str().unwrap().to_owned()).to_vec()
    };
    let (home, remote) = ("192.0.2.1:40001", "192.0.2.100:443");
    let from_outside = changed(|row| row.halves.down.first_seen_ns = 999_999_999).await;
    assert_eq!(ends(&from_outside), [remote, home, "server"]);
    let at_once = changed(|row| row.halves.down.first_seen_ns = 1_000_000_000).await;
    assert_eq!(ends(&at_once), [home, remote, "client"]);
    // Without both SYNs the flow is older than the agent: most are opened at home.
    for half in 0..2 {
        let older = changed(|row| {
            row.halves.down.first_seen_ns = 1;
            row.halves.both_mut()[half].opened = false;
        })
        .await;
        assert_eq!(ends(&older), [home, remote, "client"], "{half}");
    }
}

#[tokio::test]
async fn a_flow_has_the_direction_of_most_of_its_payload_and_an_age() {
    let upload = changed(|row| row.halves.up.payload_bytes = 1_800_001).await;
    assert_eq!(upload["direction"], "up");
    let even = changed(|row| row.halves.up.payload_bytes = 1_800_000).await;
    assert_eq!(even["direction"], "down");
    let closed = changed(|row| row.is_closed = true).await;
    assert_eq!(closed["state"], "closed");
    // Silent since half a minute, and the first segment that is known came at 2 s of the other clock: up to 9 s of it.
    let silent = changed(|row| {
        row.halves.up.first_seen_ns = 0;
        row.changed_at -= std::time::Duration::from_secs(30);
    })
    .await;
    let (age, idle) = (silent["age_s"].as_f64().unwrap(), silent["idle_s"].as_f64().unwrap());
    assert!((30.0..90.0).contains(&idle) && (age - idle - 7.0).abs() < 1e-9, "{age} {idle}");
    let unmeasured = changed(|row| row.halves.down.rtt_samples = 0).await;
    for key in ["rtt_min_s", "rtt_mean_s", "rtt_last_s"] {
        assert_eq!(unmeasured["down"][key], Value::Null, "{key}");
        assert!(unmeasured["up"][key].is_number(), "{key}");
    }
}
