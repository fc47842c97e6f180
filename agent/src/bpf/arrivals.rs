//! What comes in through the WAN device, by time, and which of it answers what: the kernel's arrivals
//! (`bpf/turnaround.h`), read from shared memory without system calls.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::abi::{self, pendulum_arrival, pendulum_departure};
use super::history::Mapping;

/// Length of a slot, nanoseconds.
const SLOT_NS: u64 = 1 << abi::PENDULUM_ARRIVAL_SHIFT;
const SLOTS: u64 = abi::PENDULUM_ARRIVALS as u64;

/// A packet takes its time first and is written a moment later: only what is over for this long is read.
const SETTLE_NS: u64 = 1_000_000;

/// The oldest slots of a full ring may be overwritten while they are read: they are given up at once.
const MARGIN: u64 = 16;

/// Length of a tick (`bpf/mark.h`), nanoseconds, and how many there are before they come round.
const TICK_NS: u64 = 4096;
const TICK_MASK: u64 = 0xff_ffff;

/// The class bit of a mark.
const MARK_CLASS_SHIFT: u32 = 24;

/// On a fast uplink a packet's neighbour, that came so many ticks before or after, waited as long.
const NEIGHBOUR_TICKS: u32 = 64;

/// What came in during one slot of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When the newest packet of it came, nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// Link-layer bytes of all packets of the slot.
    pub bytes: u32,
    /// The newest answer among them.
    pub answer: Option<Answered>,
    /// Of the newest packet, if it has timestamps: a number for its flow, and its TSval.
    pub clock: Option<(u64, u32)>,
}

/// A packet from outside that answers one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Who answers: a hash of the address.
    pub end: u32,
    /// When the answer came, nanoseconds of the monotonic clock; as [`Self::asked_ns`] in steps of 4.096 µs.
    pub at_ns: u64,
    /// When the question passed TC: before the uplink's queue.
    pub asked_ns: u64,
    /// Whether the question was a pure ACK.
    pub asked_by_ack: bool,
    /// Link-layer length of the question, in steps of 16 bytes, at most 2032.
    pub question_bytes: u32,
    /// Link-layer length of the answer, as above.
    pub answer_bytes: u32,
}

/// Length of a packet in a word of `struct pendulum_question`.
const fn length_of(word: u32) -> u32 {
    (word & abi::PENDULUM_QUESTION_LENGTH) * 16
}

/// The moment, not after `before_ns`, at which the clock showed these ticks.
const fn moment(ticks: u64, before_ns: u64) -> u64 {
    let age = (before_ns / TICK_NS).wrapping_sub(ticks) & TICK_MASK;
    (before_ns / TICK_NS).saturating_sub(age) * TICK_NS
}

impl From<pendulum_arrival> for Arrival {
    fn from(raw: pendulum_arrival) -> Self {
        let answer = (raw.answer != 0).then(|| {
            let (asked, answered) = (raw.answer as u32, (raw.answer >> 32) as u32);
            let at_ns = moment((answered >> 8).into(), raw.at_ns);
            Answered {
                end: raw.end,
                at_ns,
                asked_ns: moment((asked >> 8).into(), at_ns),
                asked_by_ack: asked & abi::PENDULUM_QUESTION_CLOCK != 0,
                question_bytes: length_of(asked),
                answer_bytes: length_of(answered),
            }
        });
        let clock = (raw.flow != 0).then_some((raw.flow.into(), raw.tsval));
        Self { at_ns: raw.at_ns, bytes: raw.bytes, answer, clock }
    }
}

/// Reads the arrivals in order, each slot once.
pub struct ArrivalReader {
    ring: Arc<Mapping<pendulum_arrival>>,
    /// The next slot to read.
    next: u64,
    lost: u64,
}

impl ArrivalReader {
    /// From `now_ns` on.
    pub(super) fn new(ring: Arc<Mapping<pendulum_arrival>>, now_ns: u64) -> Self {
        Self { ring, next: now_ns / SLOT_NS, lost: 0 }
    }

    /// All slots that are over at `now_ns` and were not read yet, oldest first; those in which nothing came are left out.
    /// No system call. Answers the time up to which all was read.
    pub fn read(&mut self, now_ns: u64, mut visit: impl FnMut(Arrival)) -> u64 {
        let open = now_ns.saturating_sub(SETTLE_NS) / SLOT_NS;
        let oldest = open.saturating_sub(SLOTS - MARGIN);
        if self.next < oldest {
            self.lost += oldest - self.next;
            self.next = oldest;
        }
        while self.next < open {
            let number = self.next;
            self.next += 1;
            let raw = self.ring.read((number % SLOTS) as usize);
            fence(Ordering::Acquire);
            if raw.at_ns / SLOT_NS == number && raw.bytes > 0 {
                visit(raw.into());
            }
        }
        self.next * SLOT_NS
    }

    /// Slots that were overwritten before they were read.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// How long packets spent in the uplink's queue, found by when they came.
pub struct Departures {
    ring: Arc<Mapping<pendulum_departure>>,
}

impl Departures {
    pub(super) fn new(ring: Arc<Mapping<pendulum_departure>>) -> Self {
        Self { ring }
    }

    /// Nanoseconds that the packet which came at `came_ns` (± a tick) spent in the queue; `None` if none of that class left
    /// it that had come then. On a fast uplink (`near`) a neighbour will do.
    pub fn sojourn_ns(&self, came_ns: u64, is_ack: bool, near: bool) -> Option<u64> {
        let ticks = ((came_ns / TICK_NS) & TICK_MASK) as u32;
        let reach = if near { NEIGHBOUR_TICKS } else { 0 };
        (0..=reach).find_map(|step| {
            let before = self.exact(ticks.wrapping_sub(step), is_ack);
            before.or_else(|| if step > 0 { self.exact(ticks.wrapping_add(step), is_ack) } else { None })
        })
    }

    fn exact(&self, ticks: u32, is_ack: bool) -> Option<u64> {
        let ticks = u64::from(ticks) & TICK_MASK;
        let slots = u64::from(abi::PENDULUM_DEPARTURES);
        let passage = self.ring.read((u64::from(is_ack) * slots + ticks % slots) as usize).passage;
        let mark = passage >> 32;
        let is_it =
            passage != 0 && mark & TICK_MASK == ticks && (mark >> MARK_CLASS_SHIFT & 1 == 1) == is_ack;
        is_it.then(|| ((passage & 0xffff_ffff).wrapping_sub(ticks) & TICK_MASK) * TICK_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_kernel_become_times() {
        // 70 s after boot: ticks have come round once.
        let at_ns = 70_000_000_000u64;
        let ticks = |ns: u64| ((ns / TICK_NS) & TICK_MASK) as u32;
        let asked = ticks(at_ns - 2_000_000_000) << 8 | abi::PENDULUM_QUESTION_CLOCK | 4;
        let answered = ticks(at_ns - 300_000) << 8 | 94;
        let raw = pendulum_arrival {
            at_ns,
            answer: u64::from(answered) << 32 | u64::from(asked),
            end: 7,
            bytes: 3000,
            flow: 5,
            tsval: 9,
        };
        let arrival = Arrival::from(raw);
        let answer = arrival.answer.expect("an answer");
        assert_eq!((arrival.bytes, answer.end, answer.asked_by_ack), (3000, 7, true));
        assert_eq!(arrival.clock, Some((5, 9)));
        assert_eq!((answer.question_bytes, answer.answer_bytes), (64, 1504));
        assert!((at_ns - 300_000).abs_diff(answer.at_ns) < TICK_NS);
        assert!((at_ns - 2_000_000_000).abs_diff(answer.asked_ns) < TICK_NS);
        let none = Arrival::from(pendulum_arrival { answer: 0, flow: 0, ..raw });
        assert_eq!((none.answer, none.clock), (None, None));
    }
}
