//! What passes the WAN device, by time, and which of it answers what: the kernel's slots (`bpf/packet/slots.h`), read from shared
//! memory without system calls.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::abi::{self, pendulum_arrival, pendulum_departure, pendulum_home_reply, pendulum_slot};
use super::history::Mapping;

/// Length of a slot, nanoseconds.
const SLOT_NS: u64 = 1 << abi::PENDULUM_SLOT_SHIFT;
const SLOTS: u64 = abi::PENDULUM_SLOTS as u64;
const HOME_REPLIES: u64 = abi::PENDULUM_HOME_REPLIES as u64;

/// A packet takes its time first and is written a moment later: only what is over for this long is read.
const SETTLE_NS: u64 = 1_000_000;

/// The oldest slots of a full ring may be overwritten while they are read: they are given up at once.
const MARGIN: u64 = 16;

/// Length of a tick (`bpf/common/mark.h`), nanoseconds, and how many there are before they come round.
const TICK_NS: u64 = 4096;
const TICK_MASK: u64 = 0xff_ffff;

/// The class bit of a mark.
const MARK_CLASS_SHIFT: u32 = 24;

/// On a fast uplink a packet's neighbour, that came so many ticks before or after, waited as long.
const NEIGHBOUR_TICKS: u32 = 64;

/// What left through the WAN device during one slot of time: it entered whatever stands behind the device, and behind the
/// shaper of our own if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress {
    /// When the newest packet of it left, nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// Link-layer bytes of all packets of the slot, whatever their protocol, as on the wire.
    pub bytes: u32,
    /// Packets on the wire: a super-packet counts as all of its segments.
    pub packets: u32,
}

/// What came in during one slot of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When the newest packet of it came, nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// Link-layer bytes of all packets of the slot, whatever their protocol, as on the wire.
    pub bytes: u32,
    /// Packets on the wire: a super-packet counts as all of its segments.
    pub packets: u32,
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
    /// Whether the answer is the ACK of a single segment, or relayed: its sender may have held it back.
    pub may_be_held: bool,
    /// Whether it is a reply of a server that may have asked other servers first, or to a repeated request: no more than an upper bound.
    pub is_relayed: bool,
    /// Link-layer length of the question, in steps of 16 bytes, at most 2032.
    pub question_bytes: u32,
    /// What passed in the slot of the question ahead of it, link-layer bytes in steps of 16; 0 also if that is not known.
    pub ahead_bytes: u32,
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

/// A slot of either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It left through the WAN device.
    Up(Egress),
    /// It came in.
    Down(Arrival),
    /// Home replied to a request that is no TCP: the newest reply of a slot.
    Home(Answered),
}

impl Passage {
    /// When the newest packet of it passed, nanoseconds of the monotonic clock.
    pub const fn at_ns(&self) -> u64 {
        match self {
            Self::Up(egress) => egress.at_ns,
            Self::Down(arrival) => arrival.at_ns,
            Self::Home(reply) => reply.at_ns,
        }
    }
}

/// The last moment of a slot. Its newest packet's own time may be a little before that of another CPU's.
const fn end_ns(number: u64) -> u64 {
    number * SLOT_NS + SLOT_NS - 1
}

impl pendulum_slot {
    /// Bytes and packets, if it is the slot of this number.
    fn passed(&self, number: u64) -> Option<(u32, u32)> {
        const PACKETS: u32 = abi::PENDULUM_SLOT_PACKETS_SHIFT;
        const TURN: u32 = abi::PENDULUM_SLOT_TURN_SHIFT;
        let is_of_turn = self.account >> TURN == (number / SLOTS) & (u64::MAX >> TURN);
        let is_it = is_of_turn && self.at_ns / SLOT_NS == number;
        let bytes = self.account & ((1 << PACKETS) - 1);
        let packets = self.account >> PACKETS & ((1 << (TURN - PACKETS)) - 1);
        is_it.then_some((bytes as u32, packets as u32))
    }
}

/// Who answered what, if both words are of one answer, given in the slot of this number.
fn answered(answer: u64, answered_by: u64, number: u64) -> Option<Answered> {
    let (asked, answered) = (answer as u32, (answer >> 32) as u32);
    let sum = answered
        ^ asked.wrapping_mul(abi::PENDULUM_SUM_FACTOR_ASKED)
        ^ (number as u32).wrapping_mul(abi::PENDULUM_SUM_FACTOR_NUMBER);
    if answer == 0 || answered_by as u16 != (sum ^ sum >> 16) as u16 {
        return None;
    }
    let at_ns = moment((answered >> 8).into(), end_ns(number));
    let by_clock = asked & abi::PENDULUM_QUESTION_CLOCK != 0;
    let may_be_held = answered & abi::PENDULUM_ANSWER_HELD != 0;
    Some(Answered {
        end: (answered_by >> 32) as u32,
        at_ns,
        asked_ns: moment((asked >> 8).into(), at_ns),
        asked_by_ack: by_clock && !may_be_held,
        may_be_held,
        is_relayed: by_clock && may_be_held,
        question_bytes: length_of(asked),
        ahead_bytes: (answered_by >> 16 & 0xffff) as u32 * 16,
        answer_bytes: length_of(answered),
    })
}

impl pendulum_arrival {
    fn answered(&self, number: u64) -> Option<Answered> {
        answered(self.answer, self.answered_by, number)
    }

    /// Whether an answer was given in the slot of this number, and mixed with another.
    fn is_torn(&self, number: u64) -> bool {
        let answered_ns = moment(self.answer >> 40, end_ns(number));
        self.answer != 0 && answered_ns / SLOT_NS == number && self.answered(number).is_none()
    }

    /// What it tells, if it is the slot of this number.
    fn arrival(&self, number: u64) -> Option<Arrival> {
        let (bytes, packets) = self.slot.passed(number)?;
        let at_ns = self.slot.at_ns;
        let answer = self.answered(number);
        let clock = (self.clock != 0).then_some((self.clock >> 32, self.clock as u32));
        Some(Arrival { at_ns, bytes, packets, answer, clock })
    }
}

/// The rings of both directions.
#[derive(Clone)]
pub(super) struct Slots {
    pub(super) egress: Arc<Mapping<pendulum_slot>>,
    pub(super) arrivals: Arc<Mapping<pendulum_arrival>>,
    pub(super) home_replies: Arc<Mapping<pendulum_home_reply>>,
}

/// Reads what passed, in the order of time, each slot once.
pub struct PassageReader {
    slots: Slots,
    /// The next slot to read.
    next: u64,
    lost: u64,
    torn: u64,
}

impl PassageReader {
    /// The rings reach back for so long: who reads again within this time misses nothing.
    pub const REACH_NS: u64 = (SLOTS - MARGIN) * SLOT_NS - SETTLE_NS;

    /// From `now_ns` on.
    pub(super) fn new(slots: Slots, now_ns: u64) -> Self {
        Self { slots, next: now_ns / SLOT_NS, lost: 0, torn: 0 }
    }

    /// All slots that are over at `now_ns` and were not read yet, oldest first; those in which nothing passed are left out.
    /// Of the two directions' slots of the same time that comes first whose newest packet passed first. No system call.
    /// Returns the time up to which all was read.
    pub fn read(&mut self, now_ns: u64, mut visit: impl FnMut(Passage)) -> u64 {
        let open = now_ns.saturating_sub(SETTLE_NS) / SLOT_NS;
        let oldest = open.saturating_sub(SLOTS - MARGIN);
        if self.next < oldest {
            self.lost += oldest - self.next;
            self.next = oldest;
        }
        while self.next < open {
            let number = self.next;
            self.next += 1;
            let place = (number % SLOTS) as usize;
            let (egress, arrival) = (self.slots.egress.read(place), self.slots.arrivals.read(place));
            fence(Ordering::Acquire);
            let up = egress
                .passed(number)
                .map(|(bytes, packets)| Passage::Up(Egress { at_ns: egress.at_ns, bytes, packets }));
            let down = arrival.arrival(number).map(Passage::Down);
            self.torn += u64::from(down.is_some() && arrival.is_torn(number));
            let is_down_first = matches!((&up, &down), (Some(up), Some(down)) if down.at_ns() < up.at_ns());
            let both = if is_down_first { [down, up] } else { [up, down] };
            both.into_iter().flatten().for_each(&mut visit);
            // Of an earlier turn of this shorter ring the sum does not fit.
            let home = self.slots.home_replies.read((number % HOME_REPLIES) as usize);
            let reply = answered(home.answer, home.answered_by, number);
            reply.map(Passage::Home).into_iter().for_each(&mut visit);
        }
        self.next * SLOT_NS
    }

    /// Slots that were overwritten before they were read.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Answers that were not read because two CPUs had written theirs at the same moment.
    pub fn torn(&self) -> u64 {
        self.torn
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
        let number = at_ns / SLOT_NS;
        let raw = pendulum_arrival {
            slot: slot(at_ns, 3000, 2),
            clock: 5 << 32 | 9,
            answer: u64::from(answered) << 32 | u64::from(asked),
            answered_by: 7 << 32 | 90 << 16 | u64::from(sum(asked, answered, number)),
        };
        let arrival = raw.arrival(number).expect("of this turn");
        let answer = arrival.answer.expect("an answer");
        assert_eq!((arrival.bytes, arrival.packets, answer.end, answer.asked_by_ack), (3000, 2, 7, true));
        assert_eq!(arrival.clock, Some((5, 9)));
        assert_eq!((answer.question_bytes, answer.ahead_bytes, answer.answer_bytes), (64, 1440, 1504));
        assert!((at_ns - 300_000).abs_diff(answer.at_ns) < TICK_NS);
        assert!((at_ns - 2_000_000_000).abs_diff(answer.asked_ns) < TICK_NS);
        let none = pendulum_arrival { answer: 0, clock: 0, ..raw }.arrival(number).expect("of this turn");
        assert_eq!((none.answer, none.clock), (None, None));
        assert!(!raw.is_torn(number));
        // The slot of a later turn, opened by a packet that answers nothing: the old answer is none of it.
        let later = pendulum_arrival { slot: slot(at_ns + SLOTS * SLOT_NS, 60, 1), ..raw };
        assert_eq!(later.arrival(number), None);
        assert_eq!(later.arrival(number + SLOTS).expect("of this turn").answer, None);
        assert!(!later.is_torn(number + SLOTS));
    }

    fn slot(at_ns: u64, bytes: u64, packets: u64) -> pendulum_slot {
        let turn = at_ns / SLOT_NS / SLOTS;
        let account =
            turn << abi::PENDULUM_SLOT_TURN_SHIFT | packets << abi::PENDULUM_SLOT_PACKETS_SHIFT | bytes;
        pendulum_slot { at_ns, account }
    }

    fn sum(asked: u32, answered: u32, number: u64) -> u32 {
        let sum = answered ^ asked.wrapping_mul(0x9e37_79b1) ^ (number as u32).wrapping_mul(0x85eb_ca6b);
        (sum ^ sum >> 16) & 0xffff
    }

    #[test]
    fn an_answer_of_two_cpus_is_none_and_is_counted() {
        let at_ns = 70_000_000_000u64;
        let number = at_ns / SLOT_NS;
        let answered = ((at_ns / TICK_NS) as u32 & 0xff_ffff) << 8 | 4;
        let by = |end: u64, asked: u32| {
            let answer = u64::from(answered) << 32 | u64::from(asked);
            let answered_by = end << 32 | u64::from(sum(asked, answered, number));
            pendulum_arrival { slot: slot(at_ns, 132, 2), clock: 0, answer, answered_by }
        };
        // At the same tick, answers of the same length: only what was asked, and by whom it was answered, differs.
        let (one, other) = (by(7, 0x1234_5604), by(8, 0x1234_4404));
        assert!(!one.is_torn(number) && !other.is_torn(number));
        for torn in [
            pendulum_arrival { answer: one.answer, ..other },
            pendulum_arrival { answer: other.answer, ..one },
        ] {
            assert_eq!(torn.arrival(number).expect("of this turn").answer, None);
            assert!(torn.is_torn(number));
        }
    }
}
