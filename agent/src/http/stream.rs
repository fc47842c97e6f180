//! `/api/v1/stream`: what happens, while it happens, as server-sent events.
//!
//! A client is served as fast as it reads. While one does not, ticks pass it by: it gets the newest next, and learns
//! how many it missed. So no client can make the agent remember anything for it.
//!
//! Every event has an `id`: the place in the journal up to which the client has the findings. Who comes back with it in
//! `Last-Event-ID` (WHATWG HTML, 9.2.4) gets the findings after it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::Stream;
use futures_util::future::select_all;
use futures_util::stream;
use pendulum_wire::{Dropped, Tick};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer::{Refusal, shortened};
use super::{App, state};
use crate::journal::Journal;
use crate::snapshot::{Channels, LinkSnapshot};

/// The whole state of a link is sent at most this often.
const STATE_EVERY: Duration = Duration::from_secs(1);
/// Publishing is not exact to the millisecond: without this every other state would be a tick late.
const STATE_EARLY: Duration = Duration::from_millis(50);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamRequest {
    /// Only this link.
    link: Option<String>,
}

pub(super) async fn stream(
    State(app): State<Arc<App>>,
    request: Result<Query<StreamRequest>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let refusal = |reason: String| {
        let remedy = "use link=NAME, or nothing for all links; /api/v1/state lists them".to_owned();
        Refusal { status: StatusCode::BAD_REQUEST, reason, remedy }.into_response()
    };
    let request = match request {
        Ok(Query(request)) => request,
        Err(error) => return refusal(error.body_text()),
    };
    let others = app.board.links();
    let mut links: Vec<LinkFeed> = others.borrow().iter().cloned().map(LinkFeed::new).collect();
    if links.is_empty() {
        return refusal("there is no link".to_owned());
    }
    if let Some(name) = &request.link {
        links.retain(|feed| *feed.snapshots.borrow().name == **name);
        if links.is_empty() {
            return refusal(format!("there is no link {}", shortened(name)));
        }
    }
    // Of another origin or cut short: as if there were none.
    let place = headers.get("last-event-id").and_then(|place| app.journal.number_at(place.to_str().ok()?));
    let subscription = Subscription::new(links, others, &app.journal, place, app.stopping.clone());
    let events = Sse::new(subscription.into_stream()).keep_alive(KeepAlive::default());
    ([(CACHE_CONTROL, "no-store")], events).into_response()
}

/// One client.
struct Subscription {
    links: Vec<LinkFeed>,
    /// The stream ends when there are other links: the client asks anew.
    others: watch::Receiver<Channels>,
    journal: Journal,
    newest: watch::Receiver<u64>,
    /// Number of the newest finding that was sent.
    sent_to: u64,
    stopping: watch::Receiver<bool>,
    ready: VecDeque<Event>,
}

/// One link of a client.
struct LinkFeed {
    snapshots: watch::Receiver<Arc<LinkSnapshot>>,
    /// Number of the newest tick that was sent, once one was.
    tick: Option<u64>,
    state_at: Option<Instant>,
}

impl Subscription {
    fn new(
        links: Vec<LinkFeed>,
        others: watch::Receiver<Channels>,
        journal: &Journal,
        place: Option<u64>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let newest = journal.newest();
        let sent_to = place.unwrap_or(*newest.borrow());
        let mut subscription = Self {
            links,
            others,
            journal: journal.clone(),
            newest,
            sent_to,
            stopping,
            ready: VecDeque::new(),
        };
        // The first answer needs no change.
        subscription.collect();
        subscription
    }

    fn into_stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut client| async move {
            let event = client.next().await?;
            Some((Ok(event), client))
        })
    }

    /// The next event; `None` when the agent stops, or measures other links.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if *self.stopping.borrow() {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let changes = self.links.iter_mut().map(|feed| Box::pin(feed.snapshots.changed()));
            tokio::select! {
                (changed, ..) = select_all(changes) => changed.ok()?,
                changed = self.newest.changed() => changed.ok()?,
                stopped = self.stopping.changed() => stopped.ok()?,
                Ok(()) = self.others.changed() => return None,
            }
            self.collect();
        }
    }

    /// What there is to tell since it was sent last.
    fn collect(&mut self) {
        let now = Instant::now();
        let id = self.journal.place(self.sent_to);
        for feed in &mut self.links {
            feed.collect(now, &id, &mut self.ready);
        }
        if *self.newest.borrow_and_update() == self.sent_to {
            return;
        }
        let (records, dropped) = self.journal.after(self.sent_to);
        if dropped > 0 {
            self.ready.extend(event("dropped", &id, &Dropped { dropped }));
        }
        for record in records {
            self.sent_to = record.seq;
            if self.links.iter().any(|feed| *feed.snapshots.borrow().name == *record.link) {
                self.ready.extend(event("finding", &self.journal.place(record.seq), &*record));
            }
        }
    }
}

impl LinkFeed {
    fn new(snapshots: watch::Receiver<Arc<LinkSnapshot>>) -> Self {
        Self { snapshots, tick: None, state_at: None }
    }

    fn collect(&mut self, now: Instant, id: &str, ready: &mut VecDeque<Event>) {
        let link = Arc::clone(&self.snapshots.borrow_and_update());
        let number = link.tick_number;
        if number > 0 && self.tick != Some(number) {
            let skipped = self.tick.map_or(0, |last| number.saturating_sub(last + 1));
            self.tick = Some(number);
            link.unsent.count_ticks(skipped);
            ready.extend(event("tick", id, &Tick { skipped, ..link.tick.clone() }));
        }
        if self.state_at.is_none_or(|at| now.duration_since(at) >= STATE_EVERY - STATE_EARLY) {
            self.state_at = Some(now);
            ready.extend(event("state", id, &state::of_link(&link)));
        }
    }
}

/// Nothing of ours fails to become JSON; if it did, the client would not get it.
fn event(name: &str, id: &str, data: &impl Serialize) -> Option<Event> {
    Event::default().event(name).json_data(data).ok().map(|event| event.id(id))
}

#[cfg(test)]
mod tests;
