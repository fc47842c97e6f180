//! A buffer of which only the end can be seen: its level from how long each packet waited in it.
//!
//! When a packet left is seen; when it entered is its departure less its wait, and the level follows as if both had been seen. The wait
//! is reported by the sender's clock ([`super::clock::SenderClock`]) or by an answer's delay. What makes it exact:
//!
//! * **Serialisation.** A long packet takes longer on a slow link than a short one. Where the rate is known it is taken off.
//! * **Order.** A buffer is a queue: what came out later went in later. Packets without a clock are placed between those that have one.
//! * **Work.** A buffer that holds something keeps the link busy. So nothing waited longer than the link had been busy without a
//!   pause.

mod place;
mod reference_clock;

use std::collections::VecDeque;

use crate::segment::{Direction, FULL_FRAME_BYTES, SLOWEST_LINK};

use super::clock::{Clocks, SenderClock};
use super::known::KnownRate;
use super::rules::RULES;
use super::standing::Standing;
use super::{PacketWait, Passing};
use crate::capacity::ServiceRate;
use reference_clock::{ClockReading, ReferenceClock};

/// A packet whose entry is not final.
#[derive(Clone, Copy, Debug)]
struct Pending {
    left_ns: f64,
    bytes: u32,
    entered_ns: Option<f64>,
    /// How far off its wait may be, nanoseconds.
    doubt_ns: f64,
}

/// From one packet to the next, which the link carried in that time if it was busy.
#[derive(Clone, Copy, Debug)]
struct PacketInterval {
    since_ns: f64,
    at_ns: f64,
    bytes: f64,
}

/// The buffer.
#[derive(Debug)]
pub(super) struct ExitSide {
    direction: Direction,
    /// What is known of the rate beside what is learnt.
    pub(super) known: KnownRate,
    learnt: ServiceRate,
    /// From stretches of any length, for want of long ones: a few packets may have passed at once, as a token bucket lets them.
    brief: ServiceRate,
    clocks: Clocks,
    /// When the link was last known to be busy, and since when without a pause.
    busy_to_ns: f64,
    busy_from_ns: f64,
    full_from_ns: f64,
    /// So much more time without work proves that the buffer was empty.
    slack_ns: f64,
    /// Entry of the newest measured packet, how long it waited, and when it left.
    measured_ns: f64,
    waited_ns: f64,
    measured_at_ns: f64,
    clock_at_ns: f64,
    /// When a clock or an answer showed a wait.
    timed_at_ns: f64,
    /// The clock that the others go by.
    reference_clock: ReferenceClock,
    /// Uncertainty of the newest measured waits, nanoseconds, beside the queue that may hide in them.
    pub(super) uncertainty_ns: f64,
    pub(super) hidden_ns: f64,
    history: VecDeque<(u64, u64)>,
    bytes: u64,
    pending: VecDeque<Pending>,
    /// Entry and departure of the newest packet that was placed.
    placed: (f64, f64),
    /// When the newest packet passed, and its bytes: spans for the rate begin there.
    served: Option<(f64, f64)>,
    /// Since the newest packet whose wait is known.
    unproven: VecDeque<PacketInterval>,
    /// How long the link has been busy for certain, and what it carried.
    busy: (f64, f64),
    /// Its level over time, of which the oldest intervals can be taken.
    pub(super) standing: Standing,
    /// From the buffer to the point of observation, one way, nanoseconds: levels are reported for the time at which they were there.
    pub(super) away_ns: f64,
}

/// What is known of a packet before its wait is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) left_ns: f64,
    /// The longest it can have waited; infinite if unknown.
    pub(super) most_ns: f64,
    /// Since when the link was full: a link that had time to spare had no queue.
    full_ns: f64,
    was_idle: bool,
}

impl ExitSide {
    pub(super) fn new(start_ns: u64, direction: Direction) -> Self {
        let start = start_ns as f64;
        Self {
            direction,
            known: KnownRate::default(),
            learnt: ServiceRate::default(),
            brief: ServiceRate::default(),
            clocks: Clocks::default(),
            busy_to_ns: start,
            // What stood before is not known.
            busy_from_ns: f64::NEG_INFINITY,
            full_from_ns: f64::NEG_INFINITY,
            slack_ns: RULES.no_queue_ns,
            measured_ns: start,
            waited_ns: 0.0,
            measured_at_ns: f64::NEG_INFINITY,
            clock_at_ns: f64::NEG_INFINITY,
            timed_at_ns: f64::NEG_INFINITY,
            reference_clock: ReferenceClock::default(),
            uncertainty_ns: RULES.jitter_ns,
            hidden_ns: 0.0,
            history: VecDeque::new(),
            bytes: 0,
            pending: VecDeque::new(),
            placed: (start, start),
            served: None,
            unproven: VecDeque::new(),
            busy: (0.0, 0.0),
            standing: Standing::new(start_ns),
            away_ns: 0.0,
        }
    }

    /// Bytes per nanosecond: what is configured, else what was measured.
    pub(super) fn rate(&self) -> Option<f64> {
        self.known.best(|pick| self.measured(pick))
    }

    /// What was measured: from long stretches, or what any are slower. A token bucket makes short ones too fast, never too slow.
    pub(super) fn measured<T>(&self, pick: impl Fn(&ServiceRate) -> Option<T>) -> Option<T> {
        let learnt = if self.brief.is_slower_than(&self.learnt) { None } else { pick(&self.learnt) };
        learnt.or_else(|| pick(&self.brief))
    }

    /// The wait of packets that leave now, if that is known.
    pub(super) fn wait_ns(&self, at_ns: f64) -> Option<f64> {
        self.wait_told_at(self.measured_at_ns, at_ns)
    }

    /// The same, by a clock that has shown a wait within the last second.
    pub(super) fn wait_by_clock_ns(&self, at_ns: f64) -> Option<f64> {
        let has_clock = at_ns - self.clock_at_ns < RULES.second_ns;
        if has_clock { self.wait_told_at(self.clock_at_ns, at_ns) } else { None }
    }

    fn wait_told_at(&self, told_ns: f64, at_ns: f64) -> Option<f64> {
        if at_ns - told_ns < RULES.fresh_ns {
            return Some(self.waited_ns);
        }
        self.is_idle(at_ns).then_some(0.0)
    }

    /// What was carried since a moment took the link this long; infinite if that is not known. Without a rate it is the most that it can have taken, the
    /// newest packet left out.
    pub(super) fn busy_since(&self, since_ns: u64) -> f64 {
        let index = self.history.partition_point(|(off_link_ns, _)| *off_link_ns <= since_ns);
        let before = match index.checked_sub(1) {
            Some(index) => self.history[index].1,
            None if self.history.len() < RULES.records_max => 0,
            None => return f64::INFINITY,
        };
        match self.rate() {
            Some(rate) => (self.bytes - before) as f64 / rate,
            None => {
                let newest = self.history.iter().rev().map(|(_, bytes)| *bytes).nth(1).unwrap_or(0);
                newest.saturating_sub(before) as f64 / SLOWEST_LINK
            }
        }
    }

    /// Packets that came out since a moment.
    pub(super) fn count_since(&self, since_ns: u64) -> usize {
        self.history.len() - self.history.partition_point(|(off_link_ns, _)| *off_link_ns <= since_ns)
    }

    /// A packet has come out: what the link tells of it.
    pub(super) fn depart(&mut self, packet: &Passing) -> Departure {
        let (left_ns, off_ns) = self.time_on_link(packet);
        let (most_ns, unused_ns) = (self.tolerance_ns().max(self.waited_ns), left_ns - self.busy_to_ns);
        // A link that stops for a moment, a shaper that oversleeps, is no idle link: what stood in the buffer still does.
        let was_free = self.was_free(unused_ns.max(0.0), most_ns, off_ns - left_ns);
        // Where waits are measured, a link that is used in part may have become slower: then only time in one piece proves that it was idle.
        let is_timed = left_ns - self.timed_at_ns < RULES.second_ns;
        let was_idle = unused_ns > most_ns || (was_free && !is_timed);
        if was_idle {
            self.busy_from_ns = left_ns;
        }
        if was_free {
            self.full_from_ns = left_ns;
        }
        self.busy_to_ns = self.busy_to_ns.max(off_ns);
        if self.history.len() == RULES.records_max {
            self.history.pop_front();
        }
        self.bytes += u64::from(packet.bytes);
        self.history.push_back((off_ns.max(0.0) as u64, self.bytes));
        let since = |from_ns: f64| (left_ns - from_ns).max(0.0);
        Departure { left_ns, most_ns: since(self.busy_from_ns), full_ns: since(self.full_from_ns), was_idle }
    }

    /// Whether the link had time before this packet that it did not use, in one piece or in many small ones: more than jitter, a rate that is not
    /// exact, and what was measured to stand there explain.
    fn was_free(&mut self, unused_ns: f64, most_ns: f64, busy_ns: f64) -> bool {
        // Without a rate all time between two packets seems unused: only one piece counts.
        let left_over_ns = if self.rate().is_some() { self.slack_ns.min(most_ns) } else { most_ns };
        if unused_ns > left_over_ns {
            self.slack_ns = most_ns;
            return true;
        }
        self.slack_ns = left_over_ns - unused_ns + RULES.within * busy_ns;
        false
    }

    /// What the packet's stamp tells of its wait. `most_ns`: the longest that it can have waited, as far as known from the packet that it answers.
    pub(super) fn read_clock(
        &mut self,
        packet: &Passing,
        departure: &Departure,
        most_ns: f64,
    ) -> Option<PacketWait> {
        let (flow, tsval) = packet.clock?;
        let left_ns = departure.left_ns;
        let clock = self.clocks.entry(flow, SenderClock::default);
        let reading = clock.read(left_ns, tsval, departure.most_ns, departure.full_ns)?;
        let (first_ns, is_proven) = clock.heard().unwrap_or((left_ns, false));
        let is_settled = clock.is_settled();
        let hidden_ns = clock.hidden_ns(most_ns.min(departure.most_ns)).min(RULES.stale_ns);
        let waited_ns = (reading.waited_ns - reading.tick_ns / 2.0).max(0.0);
        let shown = ClockReading { flow, left_ns, waited_ns, first_ns, is_proven };
        // What stood in the buffer when it was new hides in its smallest reading, until a better one has shown how much.
        if !self.reference_clock.hear(shown, &mut self.clocks) && !is_settled {
            return None;
        }
        let since_proven = reading.proven_ns.map(|at| left_ns - at);
        self.clock_at_ns = left_ns;
        Some(PacketWait {
            ns: waited_ns,
            uncertainty_ns: RULES.jitter_ns
                + reading.tick_ns
                + RULES.drift * since_proven.unwrap_or(0.0).min(RULES.stale_ns),
            hidden_ns,
            proven_ns: reading.proven_ns,
        })
    }

    /// Places the packet by its wait, if that is known.
    pub(super) fn place(&mut self, packet: &Passing, departure: &Departure, wait: Option<PacketWait>) {
        let left_ns = departure.left_ns;
        let wait_ns = match wait {
            Some(wait) => {
                self.timed_at_ns = left_ns;
                self.uncertainty_ns += RULES.slight * (wait.uncertainty_ns - self.uncertainty_ns);
                self.hidden_ns = wait.hidden_ns;
                Some(wait.ns.min(RULES.stale_ns))
            }
            None if departure.was_idle => {
                self.hidden_ns = 0.0;
                Some(0.0)
            }
            None => None,
        };
        // Since the newest wait that was measured, anything may have happened that the busy link does not rule out.
        let doubt_ns = match wait {
            Some(wait) => wait.uncertainty_ns.max(0.0) + wait.hidden_ns,
            None if departure.was_idle => RULES.jitter_ns,
            None => {
                let unmeasured_ns = (left_ns - self.measured_at_ns).clamp(0.0, departure.most_ns);
                self.uncertainty_ns + self.hidden_ns + unmeasured_ns
            }
        };
        let entered_ns = wait_ns.map(|ns| (left_ns - ns).max(self.measured_ns).min(left_ns));
        self.learn(packet, entered_ns);
        if self.pending.len() >= RULES.packets_max {
            self.place_first();
        }
        self.pending.push_back(Pending { left_ns, bytes: packet.bytes, entered_ns, doubt_ns });
        if let Some(entered_ns) = entered_ns {
            self.measured_ns = entered_ns;
            self.waited_ns = left_ns - entered_ns;
            self.measured_at_ns = left_ns;
        }
    }

    /// Since a packet entered, the link was busy: what came out before it tells the rate.
    fn learn(&mut self, packet: &Passing, entered_ns: Option<f64>) {
        let at_ns = packet.at_ns as f64;
        let bytes = f64::from(packet.bytes);
        if let Some((since_ns, bytes_before)) =
            self.served.replace((at_ns, bytes)).filter(|(at, _)| at_ns > *at)
        {
            // A capture behind the uplink's buffer sees a packet when it begins to leave: the time until then was that of the packet before.
            let bytes = self.direction.pick(bytes_before, bytes);
            if self.unproven.len() == RULES.records_max {
                self.unproven.pop_front();
            }
            self.unproven.push_back(PacketInterval { since_ns, at_ns, bytes });
        }
        let Some(entered_ns) = entered_ns else { return };
        let surely_ns = entered_ns + self.uncertainty_ns.max(RULES.no_queue_ns);
        for PacketInterval { since_ns, at_ns, bytes } in self.unproven.drain(..) {
            if surely_ns >= since_ns {
                self.busy = (0.0, 0.0);
                continue;
            }
            self.brief.add(at_ns, at_ns - since_ns, bytes);
            let (busy_ns, carried) = &mut self.busy;
            *busy_ns += at_ns - since_ns;
            *carried += bytes;
            if *busy_ns >= RULES.span_ns {
                self.learnt.add(at_ns, *busy_ns, *carried);
                self.busy = (0.0, 0.0);
            }
        }
    }

    /// Whether a queue whose wait was measured then is still there when this packet leaves, about as long.
    fn holds(&self, measured_at_ns: f64, departure: &Departure) -> bool {
        departure.left_ns - measured_at_ns < RULES.fresh_ns + self.waited_ns / 2.0
    }

    /// Whether the clocks of others show how long this packet waited.
    pub(super) fn is_clocked(&self, departure: &Departure) -> bool {
        !departure.was_idle && self.holds(self.clock_at_ns, departure)
    }

    /// Begins anew at `start_ns`, after a silence in which everything drained. Clocks and rates stay known.
    pub(super) fn restart(&mut self, start_ns: u64) {
        let fresh = Self::new(start_ns, self.direction);
        let Self { known, learnt, brief, clocks, uncertainty_ns, direction, .. } =
            std::mem::replace(self, fresh);
        *self = Self {
            known,
            learnt,
            brief,
            clocks,
            uncertainty_ns,
            busy_from_ns: start_ns as f64,
            full_from_ns: start_ns as f64,
            ..Self::new(start_ns, direction)
        };
    }

    fn tolerance_ns(&self) -> f64 {
        self.rate().map_or(RULES.idle_without_rate_ns, |rate| {
            RULES.fresh_ns.max(RULES.half * FULL_FRAME_BYTES / rate)
        })
    }

    /// A packet that is on the link now may have begun this long ago.
    fn unseen_ns(&self) -> f64 {
        self.rate().map_or(RULES.idle_without_rate_ns, |rate| FULL_FRAME_BYTES / rate + RULES.no_queue_ns)
    }

    /// No packet can be on the link.
    pub(super) fn is_idle(&self, now_ns: f64) -> bool {
        now_ns > self.busy_to_ns + (2.0 * self.unseen_ns()).max(self.waited_ns)
    }

    /// When a packet's first and last bit were on the link. Captures see a packet when it has arrived, or when it begins to leave.
    fn time_on_link(&self, packet: &Passing) -> (f64, f64) {
        let at = packet.at_ns as f64;
        let length = self.rate().map_or(0.0, |rate| f64::from(packet.bytes) / rate);
        match self.direction {
            Direction::Up => (at, at + length),
            Direction::Down => (at - length, at),
        }
    }
}
