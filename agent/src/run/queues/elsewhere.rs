//! The buffers that no qdisc of this machine holds, live: reads what passes and keeps the estimate.

use pendulum_model::delay::Reply;
use pendulum_model::observer::Vantage;
use pendulum_model::rate::Rate;
use pendulum_model::sample::QueueSource;
use pendulum_model::segment::{Direction, PerDirection};

use super::super::estimate::{Estimate, KnownLink, LinkEstimate, VantageEstimates};
use super::super::own_queue::OwnQueue;
use super::tracked::Tracked;
use crate::bpf::{self, Answered, Departures, Passage, PassageReader};
use crate::shape::Passing;
use crate::snapshot::{QueueSnapshot, SlotLosses};

/// The estimate and what it is made from.
pub(in crate::run) struct Elsewhere {
    passages: PassageReader,
    own: OwnQueue,
    places: VantageEstimates,
    read_ns: u64,
    /// The shortest time in which the outside answered since the tick before, both buffers included, seconds.
    pub(in crate::run) answered_s: Option<f64>,
    /// What passed and waited since the tick before, for a shaper that finds its rate; `None` without one.
    seen: Option<Vec<(Direction, Passing)>>,
    snapshots: PerDirection<Option<QueueSnapshot>>,
    /// Replies from outside since the tick before, with when their requests left for the line, nanoseconds; and the bytes that passed.
    pub(in crate::run) replies: Vec<(Reply, u64)>,
    pub(in crate::run) passed: PerDirection<u64>,
    /// Replies of home to requests that are no TCP, since the tick before.
    pub(in crate::run) home_replies: Vec<Reply>,
}

impl Elsewhere {
    /// From now on; `departures` if the uplink's queue is traced.
    pub(super) fn new(passages: PassageReader, departures: Option<Departures>) -> Self {
        let now_ns = bpf::monotonic_ns();
        Self {
            passages,
            own: OwnQueue::new(departures),
            places: VantageEstimates::new(now_ns),
            read_ns: now_ns,
            answered_s: None,
            seen: None,
            snapshots: PerDirection::default(),
            replies: Vec::new(),
            passed: PerDirection::default(),
            home_replies: Vec::new(),
        }
    }

    /// The estimate.
    pub(in crate::run) fn link(&self) -> &LinkEstimate {
        &self.places.current
    }

    /// Whether [`Self::seen`] is wanted, from the next tick on.
    pub(in crate::run) fn want_seen(&mut self, wanted: bool) {
        if wanted != self.seen.is_some() {
            self.seen = wanted.then(Vec::new);
        }
    }

    /// What passed and waited since the tick before.
    pub(in crate::run) fn seen(&self) -> &[(Direction, Passing)] {
        self.seen.as_deref().unwrap_or_default()
    }

    /// What was lost on the way here from the kernel's slots.
    pub(super) fn slot_losses(&self) -> SlotLosses {
        SlotLosses { overwritten: self.passages.lost(), torn_answers: self.passages.torn() }
    }

    /// What readers see of a direction's buffer; `None` if its level is not known.
    pub(super) fn snapshot(&self, direction: Direction) -> Option<&QueueSnapshot> {
        self.snapshots[direction].as_ref()
    }

    /// Ten times a second, after the uplink's queue was read: no system call. `up`: the WAN device's queue and how its level is known.
    /// `capacity`: of the uplink, bytes per second, as far as known.
    pub(super) fn tick(
        &mut self,
        up: Option<(&Tracked, QueueSource)>,
        configured: PerDirection<Option<f64>>,
        capacity: Option<f64>,
        repeated: f64,
    ) {
        let now_ns = bpf::monotonic_ns();
        let was_read_ns = std::mem::replace(&mut self.read_ns, now_ns);
        match up {
            Some((up, QueueSource::Tracepoint)) => {
                up.fresh.iter().for_each(|interval| self.own.push(interval));
            }
            Some((up, _)) => self.own.push_level(now_ns, up.snapshot.bytes),
            None => {}
        }
        self.own.set_rate(capacity);
        let is_own = up.is_some_and(|(up, _)| up.is_buffer());
        let vantage = if is_own { Vantage::OwnQueue } else { Vantage::BeforeUplinkBuffer };
        let has_moved = self.places.stand_at(vantage, was_read_ns);
        let link = &mut self.places.current;
        if let Some(from_ns) = read_from(was_read_ns, now_ns).filter(|_| !has_moved) {
            link.restart(from_ns);
        }
        let own_queue = up.map(|(up, method)| (method, up.snapshot.rate));
        link.tell(&KnownLink {
            rates: configured,
            question_rate: question_rate(own_queue, capacity),
            repeated,
        });
        let known_to = PerDirection::from_fn(|x| link.of(x).map(|estimate| estimate.known_to()));
        let Self { passages, own, places, seen, replies, passed, home_replies, .. } = self;
        let link = &mut places.current;
        replies.clear();
        home_replies.clear();
        *passed = PerDirection::default();
        if let Some(seen) = seen {
            seen.clear();
        }
        let mut shortest_ns = None;
        let read_to_ns = passages.read(now_ns, |passage| {
            let answered = match &passage {
                Passage::Down(arrival) => arrival.answer,
                Passage::Up(_) | Passage::Home(_) => None,
            };
            let answered_own_ns =
                answered.and_then(|answered| if is_own { own.sojourn_ns(&answered) } else { Some(0) });
            // A server that may have asked others first tells of no buffer.
            let answer = answered.filter(|answered| !answered.is_relayed);
            let own_ns = answer.and(answered_own_ns);
            if let Some(answer) = answer {
                let delay_ns = answer.at_ns.saturating_sub(answer.asked_ns);
                shortest_ns = Some(shortest_ns.map_or(delay_ns, |shortest: u64| shortest.min(delay_ns)));
            }
            link.push(&passage, own_ns);
            let mut note = |direction, passing| {
                if let Some(seen) = seen {
                    seen.push((direction, passing));
                }
            };
            match &passage {
                Passage::Up(egress) => {
                    passed.up += u64::from(egress.bytes);
                    note(Direction::Up, Passing::Passed { at_ns: egress.at_ns, bytes: egress.bytes });
                }
                Passage::Down(arrival) => {
                    passed.down += u64::from(arrival.bytes);
                    note(Direction::Down, Passing::Passed { at_ns: arrival.at_ns, bytes: arrival.bytes });
                    if let (Some((end, _)), Some(wait_s)) =
                        (arrival.clock, link.observer.downlink_wait_by_clock(arrival.at_ns))
                    {
                        let passed_ns = arrival.at_ns;
                        note(Direction::Down, Passing::Waited { end, passed_ns, wait_s, may_be_held: false });
                    }
                }
                Passage::Home(answered) => home_replies.push(reply(answered, 0, None)),
            }
            let Some((answered, own_ns)) = answered.zip(answered_own_ns) else { return };
            let down_s = link.observer.downlink_wait_by_clock(answered.at_ns);
            replies.push((reply(&answered, own_ns, down_s), answered.asked_ns.saturating_add(own_ns)));
        });
        link.settle(read_to_ns);
        let link = &self.places.current;
        self.answered_s = shortest_ns.map(|ns| ns as f64 / 1e9);
        self.snapshots = PerDirection::from_fn(|x| snapshot(link.of(x)?, known_to[x].unwrap_or_default()));
    }
}

/// The rate behind a question's own time on the uplink. Behind a traced shaper that time is part of its time in the queue.
fn question_rate(own_queue: Option<(QueueSource, Option<Rate>)>, capacity: Option<f64>) -> Option<f64> {
    match own_queue {
        Some((QueueSource::Tracepoint, Some(_shaped))) => None,
        _ => capacity,
    }
}

/// From when on what passed can be read, if the rings have forgotten a part since they were read last.
fn read_from(was_read_ns: u64, now_ns: u64) -> Option<u64> {
    let reaches_ns = now_ns.saturating_sub(PassageReader::REACH_NS);
    (reaches_ns > was_read_ns).then_some(reaches_ns)
}

/// For the delay budget: without the request's time in our own queue.
fn reply(answered: &Answered, own_ns: u64, down_s: Option<f64>) -> Reply {
    Reply {
        end: answered.end,
        request_bytes: answered.question_bytes,
        delay_s: answered.at_ns.saturating_sub(answered.asked_ns).saturating_sub(own_ns) as f64 / 1e9,
        down_s,
        may_be_held: answered.may_be_held,
        is_relayed: answered.is_relayed,
    }
}

/// A buffer as it was in the buckets that became known since `known_to`.
fn snapshot(estimate: Estimate<'_>, known_to: u64) -> Option<QueueSnapshot> {
    let newest = estimate.sample(estimate.known_to())?;
    let fresh = (known_to..estimate.known_to()).filter_map(|number| estimate.sample(number));
    let (lowest, peak) = fresh.fold((newest.min_bytes, newest.max_bytes), |(lowest, peak), bucket| {
        (lowest.min(bucket.min_bytes), peak.max(bucket.max_bytes))
    });
    let whole = |bytes: f64| bytes.round() as u32;
    Some(QueueSnapshot {
        source: QueueSource::Estimate,
        bytes: whole(newest.mean_bytes),
        peak_bytes: whole(peak),
        lowest_bytes: whole(lowest),
        uncertainty_bytes: Some(newest.uncertainty_bytes),
        trust: Some(estimate.trust()),
        ..QueueSnapshot::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::estimate::BUCKET_NS;
    use super::super::super::estimate::tests::fill_a_modem;
    use super::super::super::own_queue::tests::{MS, question};
    use super::*;
    use crate::bpf::{Arrival, Egress};

    #[test]
    fn only_a_pause_that_the_rings_do_not_reach_over_is_a_gap() {
        let start = 100_000 * MS;
        assert_eq!(read_from(start, start + 100 * MS), None);
        assert_eq!(read_from(start, start + PassageReader::REACH_NS), None);
        assert_eq!(read_from(start, start + PassageReader::REACH_NS + MS), Some(start + MS));
        assert_eq!(read_from(0, MS), None, "the machine has just started");
    }

    #[test]
    fn only_behind_a_traced_shaper_a_question_s_time_on_the_uplink_is_known() {
        let (shaped, capacity) = (Rate::from_bits_per_second(1_000_000), Some(125_000.0));
        for (own_queue, expected) in [
            (None, capacity),
            (Some((QueueSource::Tracepoint, None)), capacity),
            (Some((QueueSource::Netlink, shaped)), capacity),
            (Some((QueueSource::Tracepoint, shaped)), None),
        ] {
            assert_eq!(question_rate(own_queue, capacity), expected, "{own_queue:?}");
        }
    }

    /// 60,000 bytes are queued in a modem until 28 s after the start; a second later it is idle.
    #[test]
    fn a_hidden_buffer_is_shown_with_its_range_and_uncertainty() {
        let start = 100_000 * MS;
        let mut link = LinkEstimate::new(start, Vantage::BeforeUplinkBuffer);
        assert!(snapshot(link.of(Direction::Up).expect("hidden"), 0).is_none());
        fill_a_modem(&mut link, start);
        let up = link.of(Direction::Up).expect("hidden");
        let (full_to, full) = (up.known_to(), snapshot(up, up.known_to() - 100).expect("known"));
        assert_eq!(full.source, QueueSource::Estimate);
        assert!(full.bytes.abs_diff(60_000) < 3_000 && full.trust.is_some(), "{full:?}");
        assert!(full.lowest_bytes >= 57_000 && full.peak_bytes >= full.bytes, "{full:?}");
        assert!(full.uncertainty_bytes.is_some_and(|bytes| (100.0..6_000.0).contains(&bytes)), "{full:?}");
        for tenth in 0..20 {
            let entered_ns = start + (29_000 + tenth * 100) * MS;
            link.push(&Passage::Up(Egress { at_ns: entered_ns, bytes: 1500, packets: 1 }), None);
            let at_ns = entered_ns + 25 * MS;
            let answer = Answered { at_ns, question_bytes: 1500, answer_bytes: 64, ..question(entered_ns) };
            let arrival = Arrival { at_ns, bytes: 66, packets: 1, answer: Some(answer), clock: None };
            link.push(&Passage::Down(arrival), Some(0));
            link.settle(at_ns);
        }
        let up = link.of(Direction::Up).expect("hidden");
        let since = snapshot(up, full_to - 100).expect("known");
        assert!(since.bytes < 3_000 && since.lowest_bytes <= since.bytes, "{since:?}");
        assert_eq!(since.peak_bytes, full.peak_bytes);
        let idle = snapshot(up, start / BUCKET_NS + 2_950).expect("known");
        assert!(idle.peak_bytes < 3_000, "{idle:?}");
    }
}
