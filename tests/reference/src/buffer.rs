//! The buffer at the input of the slow reverse channel: ACKs arrive, are filtered, wait, leave or are lost.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::policy::{Drop, Filter, Policy, Service, Thresholds, Utilisation};
use super::tsw::Tsw;

/// One cumulative ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Whose it is.
    pub connection: u32,
    /// The next segment its receiver expects: it covers all before.
    pub number: u64,
}

/// What has become of all ACKs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Came in.
    pub arrived: u64,
    /// Went out to the channel.
    pub departed: u64,
    /// Erased by the filter: a newer one stood for them.
    pub erased: u64,
    /// Lost in a full buffer.
    pub dropped: u64,
}

/// The reverse buffer. The ACK that the channel is transmitting has left it.
#[derive(Clone, Debug)]
pub struct ReverseBuffer {
    policy: Policy,
    /// Most ACKs it holds; `None` for the paper's "large" buffer.
    capacity: Option<usize>,
    /// Bytes per second of the channel.
    channel_rate: f64,
    ack_bytes: f64,
    connections: BTreeMap<u32, QueuedAcks>,
    queued: usize,
    next_place: u64,
    /// Connection served last, for round robin.
    served: u32,
    utilisation: Option<Tsw>,
    filtering: bool,
    busy_since: Option<Duration>,
    counts: Counts,
}

#[derive(Clone, Debug)]
struct QueuedAcks {
    /// Oldest first.
    acks: VecDeque<Queued>,
    rate: Tsw,
}

/// Which ACKs of a connection go for a newer one, and whose place it takes.
enum Erase {
    Newest,
    AllForNewestPlace,
    AllForOldestPlace,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    /// Order of service under FIFO.
    place: u64,
    number: u64,
}

impl ReverseBuffer {
    /// An empty buffer before a channel of `channel_rate` bytes per second for ACKs of `ack_bytes`.
    pub fn new(policy: Policy, capacity: Option<usize>, channel_rate: f64, ack_bytes: f64) -> Self {
        let utilisation = match policy.filter {
            Filter::Delayed(thresholds) => Some(Tsw::new(thresholds.window, Duration::ZERO)),
            _ => None,
        };
        Self {
            policy,
            capacity,
            channel_rate,
            ack_bytes,
            connections: BTreeMap::new(),
            queued: 0,
            next_place: 0,
            served: 0,
            utilisation,
            filtering: false,
            busy_since: None,
            counts: Counts::default(),
        }
    }

    /// ACKs that wait.
    pub fn len(&self) -> usize {
        self.queued
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// What has become of the ACKs so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Connections it keeps account of.
    pub fn active_connections(&self) -> usize {
        self.connections.len()
    }

    /// An ACK arrives: filter first, then the buffer with its drop policy (002 §4.2, the "two consecutive boxes").
    pub fn arrive(&mut self, ack: Ack, now: Duration) {
        self.counts.arrived += 1;
        self.forget(now);
        let window = self.window();
        let connection = self
            .connections
            .entry(ack.connection)
            .or_insert_with(|| QueuedAcks { acks: VecDeque::new(), rate: Tsw::new(window, now) });
        // A late or repeated ACK covers nothing new: it stands for no other and none stands for it.
        let newer = connection.acks.back().is_some_and(|queued| queued.number < ack.number);
        if newer && let Some(place) = self.erase_for(ack.connection, now) {
            self.put(ack, place);
            return;
        }
        if self.capacity.is_some_and(|capacity| self.queued >= capacity) && !self.make_room(now) {
            self.counts.dropped += 1;
            return;
        }
        let place = self.next_place;
        self.next_place += 1;
        self.put(ack, place);
        self.busy_since.get_or_insert(now);
    }

    /// The channel takes the next ACK.
    pub fn depart(&mut self, now: Duration) -> Option<Ack> {
        let served = match self.policy.service {
            Service::Fifo => self.first_by_place(),
            Service::RoundRobin => self.next_in_turn(),
        }?;
        let number = self.take_oldest(served)?;
        self.served = served;
        self.counts.departed += 1;
        self.account(served, now);
        Some(Ack { connection: served, number })
    }

    /// Erases what the filter wants gone for a newer ACK of `connection`, and returns the place it takes; `None` if the filter
    /// lets it queue.
    fn erase_for(&mut self, connection: u32, now: Duration) -> Option<u64> {
        let erase = self.what_to_erase(connection, now)?;
        let acks = &mut self.connections.get_mut(&connection)?.acks;
        let (place, erased) = match erase {
            Erase::Newest => (acks.back()?.place, 1),
            Erase::AllForNewestPlace => (acks.back()?.place, acks.len()),
            Erase::AllForOldestPlace => (acks.front()?.place, acks.len()),
        };
        acks.truncate(acks.len() - erased);
        self.queued -= erased;
        self.counts.erased += erased as u64;
        Some(place)
    }

    fn what_to_erase(&self, connection: u32, now: Duration) -> Option<Erase> {
        let QueuedAcks { acks, rate } = self.connections.get(&connection)?;
        match self.policy.filter {
            Filter::None => None,
            Filter::Static { delta } => (acks.len() >= delta.max(1)).then_some(Erase::Newest),
            Filter::Delayed(_) => self.filtering.then_some(Erase::AllForNewestPlace),
            Filter::PerConnection { upper, .. } => {
                let share = self.channel_rate / self.connections.len().max(1) as f64;
                (rate.rate(now) > upper * share).then_some(Erase::AllForOldestPlace)
            }
        }
    }

    /// Drops an ACK of a full buffer for the arriving one; false if it is the arriving one that goes.
    fn make_room(&mut self, now: Duration) -> bool {
        let with_acks = self.connections.iter().filter(|(_, connection)| !connection.acks.is_empty());
        let victim = match self.policy.drop {
            Drop::Tail => return false,
            // 002 §4.2: drop tail while single-flow delayed filtering filters.
            Drop::LongestQueue if self.filtering => return false,
            Drop::LongestQueue => with_acks.max_by_key(|(id, c)| (c.acks.len(), std::cmp::Reverse(**id))),
            Drop::HighestRate => {
                with_acks.max_by(|(_, a), (_, b)| a.rate.rate(now).total_cmp(&b.rate.rate(now)))
            }
        };
        let victim = victim.map(|(id, _)| *id);
        if victim.and_then(|id| self.take_oldest(id)).is_none() {
            return false;
        }
        self.counts.dropped += 1;
        true
    }

    fn put(&mut self, ack: Ack, place: u64) {
        if let Some(connection) = self.connections.get_mut(&ack.connection) {
            connection.acks.push_back(Queued { place, number: ack.number });
            self.queued += 1;
        }
    }

    fn take_oldest(&mut self, connection: u32) -> Option<u64> {
        let taken = self.connections.get_mut(&connection)?.acks.pop_front()?;
        self.queued -= 1;
        Some(taken.number)
    }

    fn first_by_place(&self) -> Option<u32> {
        let heads = self.connections.iter().filter_map(|(id, c)| Some((c.acks.front()?.place, *id)));
        heads.min().map(|(_, id)| id)
    }

    fn next_in_turn(&self) -> Option<u32> {
        let after = self.connections.range(self.served.saturating_add(1)..);
        let mut turn = after.chain(self.connections.range(..=self.served));
        turn.find(|(_, connection)| !connection.acks.is_empty()).map(|(id, _)| *id)
    }

    /// Updates the estimators at a departure, and with them whether single-flow delayed filtering is on.
    fn account(&mut self, served: u32, now: Duration) {
        if let Some(connection) = self.connections.get_mut(&served) {
            connection.rate.note(self.ack_bytes, now);
        }
        if let (Filter::Delayed(thresholds), Some(tsw)) = (self.policy.filter, &mut self.utilisation) {
            let Thresholds { upper, lower, utilisation, .. } = thresholds;
            let level = match utilisation {
                Utilisation::Rate => {
                    tsw.note(self.ack_bytes, now);
                    tsw.rate(now) / self.channel_rate
                }
                Utilisation::Presence => {
                    let busy = self.busy_since.map_or(0.0, |since| now.saturating_sub(since).as_secs_f64());
                    tsw.note(busy, now);
                    tsw.rate(now)
                }
            };
            self.filtering = level > if self.filtering { lower } else { upper };
        }
        self.busy_since = (self.queued > 0).then_some(now);
    }

    /// Frees the entries of connections that have gone quiet (002 §4.1).
    fn forget(&mut self, now: Duration) {
        let quiet = match self.policy.filter {
            Filter::PerConnection { forget_below, .. } => forget_below * self.channel_rate,
            // The other filters keep no account: an entry is only its queue.
            _ => f64::INFINITY,
        };
        self.connections.retain(|_, c| !c.acks.is_empty() || c.rate.rate(now) >= quiet);
    }

    fn window(&self) -> Duration {
        match self.policy.filter {
            Filter::PerConnection { window, .. } => window,
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
mod tests;
