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
use crate::journal::Journal;
use crate::journal::tests::event;
use crate::snapshot::{Board, LinkSnapshot, example};

/// An agent with one link, and a client of its stream.
struct Rig {
    links: watch::Sender<Arc<LinkSnapshot>>,
    journal: Journal,
    stop: watch::Sender<bool>,
    body: BodyDataStream,
    buffer: String,
}

impl Rig {
    async fn connect(path: &str) -> Self {
        let (links, link) = watch::channel(Arc::new(example::link("dsl")));
        let (stop, stopping) = watch::channel(false);
        let journal = Journal::new(None);
        let active = Active::start(Config::default()).1;
        let app = App::new(Board::new(vec![link]), journal.clone(), active, true, stopping);
        let request = HttpRequest::get(path).body(Body::empty()).unwrap();
        let response =
            TowerToHyperService::new(router(Arc::new(app), Access::local())).call(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        let body = response.into_body().into_data_stream();
        Self { links, journal, stop, body, buffer: String::new() }
    }

    /// The next event's name and data; `None` at the end of the stream.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((head, rest)) = self.buffer.split_once("\n\n") {
                let field = |name: &str| {
                    head.lines()
                        .find_map(|line| line.strip_prefix(name))
                        .unwrap_or_default()
                        .trim()
                        .to_owned()
                };
                let event = (field("event:"), serde_json::from_str(&field("data:")).unwrap());
                self.buffer = rest.to_owned();
                return Some(event);
            }
            let bytes = self.body.next().await?.unwrap();
            self.buffer.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    fn publish(&self, number: u64) {
        let mut link = example::link("dsl");
        link.tick = Arc::new(example::tick(number));
        link.unsent = Arc::clone(&self.links.borrow().unsent);
        self.links.send_replace(Arc::new(link));
    }
}

#[tokio::test]
async fn a_client_gets_ticks_states_and_findings() {
    let mut rig = Rig::connect("/api/v1/stream").await;
    let (name, tick) = rig.next().await.unwrap();
    assert_eq!(name, "tick");
    assert_eq!((&tick["link"], &tick["at_s"], &tick["step_s"]), (&"dsl".into(), &0.7.into(), &0.01.into()));
    assert_eq!(tick["up"]["queue_bytes"].as_array().map(Vec::len), Some(10));
    assert_eq!(tick["up"]["queue_bytes"][9], 20_900.0);
    assert_eq!(tick["up"]["queue_ack_bytes"][0], 660.0);
    assert_eq!((&tick["up"]["source"], &tick["up"]["rtt_s"]), (&"tracepoint".into(), &1.25.into()));
    assert_eq!(tick["up"]["throughput_bps"], 100_000.0);
    assert_eq!(tick["down"]["queue_bytes"], Value::Null);
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

    let unsent = Arc::default();
    rig.journal.push("dsl", &unsent, event(12.5), std::time::Duration::ZERO);
    let (name, finding) = rig.next().await.unwrap();
    assert_eq!(name, "finding");
    assert_eq!(finding, serde_json::to_value(&*rig.journal.after(0).0[0]).unwrap());
}

#[tokio::test]
async fn a_slow_client_gets_the_newest_and_is_told_what_it_missed() {
    let mut rig = Rig::connect("/api/v1/stream?link=dsl").await;
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

#[tokio::test]
async fn the_stream_ends_with_the_agent() {
    let mut rig = Rig::connect("/api/v1/stream").await;
    rig.next().await.unwrap();
    rig.stop.send_replace(true);
    while rig.next().await.is_some() {}
}
