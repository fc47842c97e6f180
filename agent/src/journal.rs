//! What happened on the links: the newest events, numbered, for the API, the stream and the event log.
//!
//! One numbering for all links. The ring is bounded: a late reader learns how many events are gone.

mod log;

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use pendulum_model::event::Event;
use serde::Serialize;
use tokio::sync::watch;

use crate::incident::Store;
use crate::snapshot::Unsent;
use log::EventLog;

/// Events kept for the API.
pub const KEPT: usize = 1_000;

/// One event as every reader gets it: a line of the event log, an element of `/api/v1/events`, a `finding` of the stream.
#[derive(Debug, Serialize)]
pub struct EventRecord {
    /// Number, from 1, without gaps.
    pub seq: u64,
    /// The link's name.
    pub link: String,
    /// When it was recognised, UTC (RFC 3339, milliseconds).
    pub time: String,
    /// What and why.
    #[serde(flatten)]
    pub event: Event,
}

/// Keeps and passes on events. Clones are the same journal.
#[derive(Clone, Debug)]
pub struct Journal(Arc<SharedJournal>);

#[derive(Debug)]
struct SharedJournal {
    /// Random: tells this numbering from that of an earlier start.
    run: u64,
    ring: Mutex<Ring>,
    newest: watch::Sender<u64>,
    log: Option<EventLog>,
    incidents: Option<Store>,
}

#[derive(Debug, Default)]
struct Ring {
    newest: u64,
    records: VecDeque<Arc<EventRecord>>,
}

impl Journal {
    /// An empty journal, which also writes to this file, if there is one.
    pub fn new(log: Option<&Path>) -> Self {
        Self::keeping(log, None)
    }

    /// The same, with incidents.
    pub fn keeping(log: Option<&Path>, incidents: Option<Store>) -> Self {
        let newest = watch::Sender::new(0);
        let run = RandomState::new().build_hasher().finish();
        Self(Arc::new(SharedJournal {
            run,
            ring: Mutex::default(),
            newest,
            log: log.map(EventLog::start),
            incidents,
        }))
    }

    /// Where incidents are kept, if they are.
    pub fn incidents(&self) -> Option<&Store> {
        self.0.incidents.as_ref()
    }

    /// Takes in an event that was recognised `age` ago.
    pub fn push(&self, link: &str, unsent: &Arc<Unsent>, event: Event, age: Duration) {
        let now = SystemTime::now();
        let time = humantime::format_rfc3339_millis(now.checked_sub(age).unwrap_or(now)).to_string();
        let record = {
            let mut ring = self.ring();
            ring.newest += 1;
            let record = Arc::new(EventRecord { seq: ring.newest, link: link.to_owned(), time, event });
            if ring.records.len() == KEPT {
                ring.records.pop_front();
            }
            ring.records.push_back(Arc::clone(&record));
            record
        };
        self.0.newest.send_replace(record.seq);
        if let Some(log) = &self.0.log {
            log.write(record, unsent);
        }
    }

    /// How a reader names the place after event `seq`, 0 for the beginning: the `id` of server-sent events.
    pub fn place(&self, seq: u64) -> String {
        format!("{:016x}-{seq}", self.0.run)
    }

    /// The number in a name of [`Self::place`]. A place in the numbering of an earlier start is before all events of this one: 0.
    /// `None`: not such a name.
    pub fn number_at(&self, place: &str) -> Option<u64> {
        let (run, seq) = place.split_once('-')?;
        let (run, seq) = (u64::from_str_radix(run, 16).ok()?, seq.parse::<u64>().ok()?);
        Some(if run == self.0.run { seq.min(self.ring().newest) } else { 0 })
    }

    /// The number of the newest event, as it changes.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.0.newest.subscribe()
    }

    /// Events after number `since`, oldest first, and how many of those are gone already.
    pub fn after(&self, since: u64) -> (Vec<Arc<EventRecord>>, u64) {
        let ring = self.ring();
        let first = ring.records.front().map_or(ring.newest + 1, |record| record.seq);
        let gone = first.saturating_sub(since.saturating_add(1));
        let begin = ring.records.partition_point(|record| record.seq <= since);
        (ring.records.range(begin..).cloned().collect(), gone)
    }

    /// A panic cannot leave the ring half changed.
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use pendulum_model::findings::{Change, Evidence, Figure, Verdict};

    pub(crate) fn event(at_s: f64) -> Event {
        Event {
            at_s,
            change: Change::Verdict { from: Verdict::Clear, to: Verdict::LockedUplink },
            evidence: Evidence::new(
                "one_buffer_never_empties",
                "the uplink buffer never empties and downloads starve",
                vec![Figure::against("uplink_bound_share", 0.97, 0.8)],
                at_s - 2.0,
            ),
        }
    }

    pub(crate) fn journal_of(count: u64) -> Journal {
        let journal = Journal::new(None);
        let unsent = Arc::default();
        for number in 1..=count {
            let link = if number % 2 == 1 { "dsl" } else { "lte" };
            journal.push(link, &unsent, event(number as f64), Duration::ZERO);
        }
        journal
    }

    fn numbers(found: (Vec<Arc<EventRecord>>, u64)) -> (Vec<u64>, u64) {
        (found.0.iter().map(|record| record.seq).collect(), found.1)
    }

    #[test]
    fn readers_get_what_they_have_not_seen() {
        let journal = journal_of(3);
        assert_eq!(numbers(journal.after(0)), (vec![1, 2, 3], 0));
        assert_eq!(numbers(journal.after(2)), (vec![3], 0));
        assert_eq!(numbers(journal.after(3)), (vec![], 0));
        assert_eq!(numbers(journal.after(u64::MAX)), (vec![], 0));
        assert_eq!(numbers(Journal::new(None).after(0)), (vec![], 0));
        assert_eq!(*journal.newest().borrow(), 3);
    }

    #[test]
    fn what_fell_out_of_the_ring_is_reported() {
        let journal = journal_of(KEPT as u64 + 7);
        let (records, gone) = journal.after(2);
        assert_eq!((records.len(), records[0].seq, gone), (KEPT, 8, 5));
        assert_eq!(journal.after(7).1, 0);
    }

    #[test]
    fn a_place_is_found_again_and_one_of_another_start_is_the_beginning() {
        let (journal, other) = (journal_of(3), journal_of(3));
        for seq in 0..=3 {
            assert_eq!(journal.number_at(&journal.place(seq)), Some(seq));
            assert_eq!(journal.number_at(&other.place(seq)), Some(0));
        }
        assert_eq!(
            journal.number_at(&journal.place(u64::MAX)),
            Some(3),
            "nothing is skipped that is still to come"
        );
        for other in ["", "3", "-", "x-3", "0-", "0-x", "0--1"] {
            assert_eq!(journal.number_at(other), None, "{other}");
        }
    }

    #[test]
    fn a_record_is_one_flat_object() {
        let journal = Journal::new(None);
        journal.push("dsl", &Arc::default(), event(12.5), Duration::from_secs(3_600));
        let record = serde_json::to_value(&*journal.after(0).0[0]).unwrap();
        assert_eq!((record["seq"].as_u64(), record["link"].as_str()), (Some(1), Some("dsl")));
        assert_eq!(
            (record["event"].as_str(), record["to"].as_str()),
            (Some("verdict"), Some("locked_uplink"))
        );
        assert_eq!(record["at_s"], 12.5);
        assert_eq!(record["evidence"]["figures"][0]["threshold"], 0.8);
        let time = humantime::parse_rfc3339(record["time"].as_str().unwrap()).unwrap();
        let age = SystemTime::now().duration_since(time).unwrap();
        assert!((3_599..3_700).contains(&age.as_secs()), "{age:?}");
    }
}
