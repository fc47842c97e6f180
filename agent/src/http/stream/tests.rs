use std::sync::Arc;

use axum::body::{Body, BodyDataStream};
use axum::http::Request as HttpRequest;
use futures_util::StreamExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::sync::watch;

use crate::config::{Active, Config};
use crate::http::{Access, App, router};
use crate::journal::tests::{event, journal_of};
use crate::journal::{Journal, KEPT};
use crate::snapshot::{Board, LinkSnapshot, example};

/// An agent with two links, and a client of its stream.
struct StreamRig {
    links: watch::Sender<Arc<LinkSnapshot>>,
    /// The other one, in which each direction has what it has in the first one's other direction.
    other: watch::Sender<Arc<LinkSnapshot>>,
    board: Board,
    journal: Journal,
    stop: watch::Sender<bool>,
    body: BodyDataStream,
    buffer: String,
}

fn other_link(number: u64) -> LinkSnapshot {
    let mut link = example::link("lte");
    std::mem::swap(&mut link.directions.up, &mut link.directions.down);
    (link.tick_number, link.tick) = (number, example::tick("lte", number));
    std::mem::swap(&mut link.tick.up, &mut link.tick.down);
    (link.findings, link.tick.phase, link.tick.verdict) = (None, None, None);
    link
}

impl StreamRig {
    async fn connect(path: &str) -> Self {
        Self::connect_after(path, Journal::new(None), None).await
    }

    /// A client that comes back, with what it got last.
    async fn connect_after(path: &str, journal: Journal, last_event_id: Option<&str>) -> Self {
        let (links, link) = watch::channel(Arc::new(example::link("dsl")));
        let (other, second) = watch::channel(Arc::new(other_link(9)));
        let (stop, stopping) = watch::channel(false);
        // What was before the client came is not for the stream.
        journal.push("dsl", &Arc::default(), event(1.0), std::time::Duration::ZERO);
        let board = Board::new(vec![link, second]);
        let active = Active::start(Config::default()).1;
        let app = App::new(board.clone(), journal.clone(), active, true, stopping);
        let mut request = HttpRequest::get(path);
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let request = request.body(Body::empty()).unwrap();
        let response =
            TowerToHyperService::new(router(Arc::new(app), Access::local())).call(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        let body = response.into_body().into_data_stream();
        Self { links, other, board, journal, stop, body, buffer: String::new() }
    }

    fn find(&self, link: &str, at_s: f64) {
        self.journal.push(link, &Arc::default(), event(at_s), std::time::Duration::ZERO);
    }

    /// The next event's name and data; `None` at the end of the stream.
    async fn next(&mut self) -> Option<(String, Value)> {
        let (name, data, _) = self.next_with_id().await?;
        Some((name, data))
    }

    async fn next_with_id(&mut self) -> Option<(String, Value, String)> {
        loop {
            if let Some((head, rest)) = self.buffer.split_once("\n\n") {
                let field = |name: &str| {
                    head.lines()
                        .find_map(|line| line.strip_prefix(name))
                        .unwrap_or_default()
                        .trim()
                        .to_owned()
                };
                let event = (field("event:"), serde_json::from_str(&field("data:")).unwrap(), field("id:"));
                self.buffer = rest.to_owned();
                return Some(event);
            }
            let bytes = self.body.next().await?.unwrap();
            self.buffer.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    fn publish(&self, number: u64) {
        let mut link = example::link("dsl");
        (link.tick_number, link.tick) = (number, example::tick("dsl", number));
        link.unsent = Arc::clone(&self.links.borrow().unsent);
        self.links.send_replace(Arc::new(link));
    }
}

#[tokio::test]
async fn a_client_gets_ticks_states_and_findings() {
    let mut rig = StreamRig::connect("/api/v1/stream?link=dsl").await;
    let (name, tick) = rig.next().await.unwrap();
    assert_eq!(name, "tick");
    assert_eq!((&tick["link"], &tick["at_s"], &tick["step_s"]), (&"dsl".into(), &0.7.into(), &0.01.into()));
    assert_eq!(tick["up"]["queue_bytes"].as_array().map(Vec::len), Some(10));
    assert_eq!(tick["up"]["queue_bytes"][9], 20_900.0);
    assert_eq!(tick["up"]["queue_uncertainty_bytes"], Value::from(vec![0.0; 10]), "it was read");
    assert_eq!(tick["up"]["queue_ack_bytes"][0], 660.0);
    assert_eq!((&tick["up"]["source"], &tick["up"]["rtt_s"]), (&"tracepoint".into(), &1.25.into()));
    assert_eq!((&tick["up"]["throughput_bps"], &tick["down"]["throughput_bps"]), (&1e5.into(), &2e6.into()));
    for unknown in ["queue_bytes", "queue_uncertainty_bytes", "queue_ack_bytes", "source", "rtt_s"] {
        assert_eq!(tick["down"][unknown], Value::Null, "{unknown}");
    }
    let auto = serde_json::json!({ "rate_bps": 9_800_000, "waits_behind_s": 0.0175, "decision": "lower" });
    assert_eq!((&tick["up"]["auto"], &tick["down"]["auto"]), (&auto, &Value::Null));
    assert_eq!((&tick["phase"], &tick["verdict"]), (&"uplink_bound".into(), &"locked_uplink".into()));
    assert_eq!(tick["skipped"], 0);
    // The state comes at once, and then not with each tick.
    let (name, state) = rig.next().await.unwrap();
    assert_eq!(
        (name.as_str(), &state["name"], &state["verdict"]),
        ("state", &"dsl".into(), &"locked_uplink".into())
    );
    rig.publish(8);
    assert_eq!(rig.next().await.unwrap().0, "tick");

    rig.find("dsl", 12.5);
    let (name, finding) = rig.next().await.unwrap();
    assert_eq!(name, "finding");
    assert_eq!(finding, serde_json::to_value(&*rig.journal.after(1).0[0]).unwrap());
}

#[tokio::test]
async fn a_slow_client_gets_the_newest_and_learns_what_it_missed() {
    let mut rig = StreamRig::connect("/api/v1/stream?link=dsl").await;
    assert_eq!(rig.next().await.unwrap().1["at_s"], 0.7);
    assert_eq!(rig.next().await.unwrap().0, "state");
    let before = rig.links.borrow().unsent.ticks();
    for number in 8..=20 {
        rig.publish(number);
    }
    let (_, tick) = rig.next().await.unwrap();
    // 8 to 19 passed by.
    assert_eq!((&tick["at_s"], &tick["skipped"]), (&2.0.into(), &12.into()));
    assert_eq!(rig.links.borrow().unsent.ticks() - before, 12);
}

/// A packer would keep events until it has enough of them.
#[tokio::test]
async fn the_stream_is_not_compressed() {
    let board = example::board(vec![example::link("dsl")]);
    let (active, (_stop, stopping)) = (Active::start(Config::default()).1, watch::channel(false));
    let app = App::new(board, Journal::new(None), active, true, stopping);
    let request =
        HttpRequest::get("/api/v1/stream").header("accept-encoding", "gzip").body(Body::empty()).unwrap();
    let response =
        TowerToHyperService::new(router(Arc::new(app), Access::local())).call(request).await.unwrap();
    assert_eq!(response.headers().get("content-encoding"), None);
    let first = response.into_body().into_data_stream().next().await.unwrap().unwrap();
    assert!(first.starts_with(b"event: tick\n"), "{first:?}");
}

/// An agent that ends has nothing more to say, not even what is ready.
#[tokio::test]
async fn who_comes_while_the_agent_stops_gets_nothing() {
    let board = example::board(vec![example::link("dsl")]);
    let (active, (_stop, stopping)) = (Active::start(Config::default()).1, watch::channel(true));
    let app = App::new(board, Journal::new(None), active, true, stopping);
    let request = HttpRequest::get("/api/v1/stream").body(Body::empty()).unwrap();
    let response =
        TowerToHyperService::new(router(Arc::new(app), Access::local())).call(request).await.unwrap();
    assert!(response.into_body().into_data_stream().next().await.is_none());
}

/// The rows of a link's element in `/api/v1/state`, and no others.
#[tokio::test]
async fn the_state_is_that_of_the_api() {
    let mut rig = StreamRig::connect("/api/v1/stream?link=lte").await;
    rig.next().await.unwrap();
    let (name, state) = rig.next().await.unwrap();
    assert_eq!(name, "state");
    let link = rig.other.borrow().clone();
    assert_eq!(state, serde_json::to_value(crate::http::state::of_link(&link)).unwrap());
}

#[tokio::test]
async fn the_stream_ends_with_the_agent() {
    let mut rig = StreamRig::connect("/api/v1/stream?link=dsl").await;
    rig.next().await.unwrap();
    rig.stop.send_replace(true);
    while rig.next().await.is_some() {}
}

#[tokio::test]
async fn each_link_tells_its_own_figures() {
    let mut rig = StreamRig::connect("/api/v1/stream").await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let (event, data) = rig.next().await.unwrap();
        let link = data.get("link").filter(|link| link.is_string()).unwrap_or(&data["name"]).clone();
        seen.push((event.clone(), link.as_str().unwrap().to_owned()));
        if event == "tick" && link == "lte" {
            assert_eq!(data["at_s"], 0.9);
            assert_eq!(
                (&data["up"]["throughput_bps"], &data["down"]["throughput_bps"]),
                (&2e6.into(), &1e5.into())
            );
            assert_eq!(
                (&data["up"]["queue_bytes"], &data["down"]["queue_bytes"][0]),
                (&Value::Null, &2e4.into())
            );
            assert_eq!(
                (&data["down"]["source"], &data["down"]["rtt_s"]),
                (&"tracepoint".into(), &1.25.into())
            );
            assert_eq!((&data["phase"], &data["verdict"]), (&Value::Null, &Value::Null), "not measured");
        }
    }
    let expected = [("tick", "dsl"), ("state", "dsl"), ("tick", "lte"), ("state", "lte")];
    assert_eq!(seen, expected.map(|(event, link)| (event.to_owned(), link.to_owned())));
    // One link's news are not the other's.
    rig.other.send_replace(Arc::new(other_link(11)));
    let (event, tick) = rig.next().await.unwrap();
    assert_eq!((event.as_str(), &tick["link"], &tick["skipped"]), ("tick", &"lte".into(), &1.into()));
    // Findings of both, in their order.
    rig.find("lte", 2.0);
    rig.find("dsl", 3.0);
    for (link, at_s) in [("lte", 2.0), ("dsl", 3.0)] {
        let (event, finding) = rig.next().await.unwrap();
        assert_eq!(
            (event.as_str(), &finding["link"], &finding["at_s"]),
            ("finding", &link.into(), &at_s.into())
        );
    }
}

#[tokio::test]
async fn a_client_of_one_link_hears_nothing_of_the_others() {
    let mut rig = StreamRig::connect("/api/v1/stream?link=lte").await;
    let (_, tick) = rig.next().await.unwrap();
    assert_eq!((&tick["link"], &tick["at_s"]), (&"lte".into(), &0.9.into()));
    assert_eq!(rig.next().await.unwrap().1["name"], "lte");
    rig.publish(8);
    rig.find("dsl", 2.0);
    rig.find("lte", 3.0);
    rig.find("dsl", 4.0);
    let (event, finding) = rig.next().await.unwrap();
    assert_eq!((event.as_str(), &finding["link"], &finding["at_s"]), ("finding", &"lte".into(), &3.0.into()));
    // Told once.
    rig.other.send_replace(Arc::new(other_link(10)));
    let (event, tick) = rig.next().await.unwrap();
    assert_eq!((event.as_str(), &tick["link"], &tick["skipped"]), ("tick", &"lte".into(), &0.into()));
}

#[tokio::test]
async fn the_stream_ends_when_other_links_are_measured() {
    let mut rig = StreamRig::connect("/api/v1/stream?link=dsl").await;
    for _ in 0..2 {
        rig.next().await.unwrap();
    }
    rig.board.show(vec![watch::channel(Arc::new(example::link("dsl"))).1]);
    assert!(rig.next().await.is_none());
}

#[tokio::test]
async fn wrong_requests_get_a_reason_and_a_remedy() {
    let two = || vec![example::link("dsl"), example::link("lte")];
    for (links, query, part) in [
        (two(), "?link=x", "there is no link x"),
        (two(), "?lnk=dsl", "lnk"),
        (vec![], "", "there is no link"),
    ] {
        let (active, stopping) = (Active::start(Config::default()).1, watch::channel(false).1);
        let app = App::new(example::board(links), Journal::new(None), active, true, stopping);
        let request = HttpRequest::get(format!("/api/v1/stream{query}")).body(Body::empty()).unwrap();
        let response =
            TowerToHyperService::new(router(Arc::new(app), Access::local())).call(request).await.unwrap();
        assert_eq!(response.status(), 400, "{query}");
        let body = axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert!(body["error"]["reason"].as_str().unwrap().contains(part), "{body}");
        assert!(body["error"]["remedy"].as_str().unwrap().contains("link=NAME"), "{body}");
    }
}

/// What a client is sent at these moments, in milliseconds, while this tick is the newest one.
fn collected(moments: &[(u64, u64)]) -> Vec<usize> {
    let (send, snapshots) = watch::channel(Arc::new(example::link("dsl")));
    let mut feed = super::LinkFeed::new(snapshots);
    let start = tokio::time::Instant::now();
    let sent = moments.iter().map(|&(ms, number)| {
        let mut link = example::link("dsl");
        (link.tick_number, link.tick) = (number, example::tick("dsl", number));
        send.send_replace(Arc::new(link));
        let mut ready = std::collections::VecDeque::new();
        feed.collect(start + std::time::Duration::from_millis(ms), "", &mut ready);
        ready.len()
    });
    sent.collect()
}

#[test]
fn the_state_comes_once_a_second_and_each_tick_once() {
    // Tick and state; the tick again; a state that is 50 ms early, but not 51; the next one counts from it.
    let moments = [(0, 1), (100, 1), (200, 2), (949, 2), (950, 2), (1_899, 3), (1_900, 4)];
    assert_eq!(collected(&moments), [2, 0, 1, 0, 1, 1, 2]);
    // Before the first tick there is only the state.
    assert_eq!(collected(&[(0, 0), (100, 0), (200, 1)]), [1, 0, 1]);
}

/// Numbers of the findings among what is ready for a client, and the id of what it got last.
async fn findings(rig: &mut StreamRig, count: usize) -> (Vec<u64>, String) {
    let (mut found, mut last) = (Vec::new(), String::new());
    while found.len() < count {
        let (name, data, id) = rig.next_with_id().await.unwrap();
        assert!(!id.is_empty(), "{name}");
        last = id;
        if name == "finding" {
            found.push(data["seq"].as_u64().unwrap());
        }
    }
    (found, last)
}

/// However often a client is cut off, it gets each finding once.
#[tokio::test]
async fn who_comes_back_goes_on_where_it_was() {
    // The rig itself pushes one more each time, before the client comes.
    let mut first = StreamRig::connect("/api/v1/stream?link=dsl").await;
    let journal = first.journal.clone();
    let (_, _, begin) = first.next_with_id().await.unwrap();
    assert_eq!(begin, journal.place(1), "what was before is not for a client that comes first");
    first.find("dsl", 2.0);
    first.find("lte", 3.0);
    first.find("dsl", 4.0);
    // Three are there; it reads one and goes.
    let (found, last) = findings(&mut first, 1).await;
    assert_eq!(found, [2]);
    drop(first);
    let mut second = StreamRig::connect_after("/api/v1/stream?link=dsl", journal.clone(), Some(&last)).await;
    let (found, last) = findings(&mut second, 2).await;
    assert_eq!(found, [4, 5], "3 is of the other link");
    drop(second);
    // A tick has an id too, and it says no more than what was sent before it.
    let mut third = StreamRig::connect_after("/api/v1/stream?link=dsl", journal.clone(), Some(&last)).await;
    assert_eq!(third.next_with_id().await.map(|(name, _, id)| (name, id)), Some(("tick".to_owned(), last)));
    assert_eq!(findings(&mut third, 1).await.0, [6]);
    third.find("dsl", 9.0);
    assert_eq!(findings(&mut third, 1).await.0, [7], "and then each once");
}

#[tokio::test]
async fn after_a_restart_all_findings_are_new() {
    let before = journal_of(40);
    let journal = Journal::new(None);
    let mut rig = StreamRig::connect_after("/api/v1/stream", journal.clone(), Some(&before.place(40))).await;
    assert_eq!(findings(&mut rig, 1).await.0, [1]);
    // What is no id of ours is no place.
    for other in ["", "7", "x-y"] {
        let mut rig = StreamRig::connect_after("/api/v1/stream", journal.clone(), Some(other)).await;
        let newest = *journal.newest().borrow();
        rig.find("dsl", 1.0);
        assert_eq!(findings(&mut rig, 1).await.0, [newest + 1], "{other}");
    }
}

#[tokio::test]
async fn findings_that_are_no_longer_kept_are_counted() {
    let journal = journal_of(KEPT as u64 + 4);
    // With the rig's own one there are five too many; the client has one of them.
    let mut rig = StreamRig::connect_after("/api/v1/stream", journal.clone(), Some(&journal.place(1))).await;
    let (name, data) = loop {
        let (name, data) = rig.next().await.unwrap();
        if name != "tick" && name != "state" {
            break (name, data);
        }
    };
    assert_eq!((name.as_str(), data), ("dropped", serde_json::json!({ "dropped": 4 })));
    let (found, last) = findings(&mut rig, KEPT).await;
    assert_eq!((found[0], found[KEPT - 1]), (6, KEPT as u64 + 5));
    assert_eq!(last, journal.place(KEPT as u64 + 5));
}

/// A page lists what was and then follows: nothing falls between the two.
#[tokio::test]
async fn a_list_is_continued_by_the_stream() {
    let (active, stopping) = (Active::start(Config::default()).1, watch::channel(false).1);
    let board = example::board(vec![example::link("dsl"), example::link("lte")]);
    let journal = journal_of(9);
    let app = Arc::new(App::new(board, journal.clone(), active, true, stopping));
    for (query, last) in [
        ("", 9),
        ("?limit=2", 9),
        ("?since=0&limit=4", 4),
        // Up to the next one of this link that was left out.
        ("?since=0&limit=2&link=dsl", 4),
        ("?since=0&limit=2&link=lte", 5),
        ("?since=9", 9),
        ("?since=100", 9),
    ] {
        let request = HttpRequest::get(format!("/api/v1/events{query}")).body(Body::empty()).unwrap();
        let service = TowerToHyperService::new(router(Arc::clone(&app), Access::local()));
        let body = service.call(request).await.unwrap().into_body();
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let list: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(list["last_event_id"], journal.place(last), "{query}");
    }
}
