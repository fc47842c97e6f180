//! Hold and replace: the decisions of the ACK filter for one connection, as `docs/design/shaping.md` has them, with all knowledge
//! of the queue that the kernel's program must infer. What that one does is compared with this.
//!
//! Time is left out: no carrier is stale, no connection idle.

use std::collections::VecDeque;

use super::accecn::{CE, Feedback};

/// An ACK, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AckSegment {
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub number: u32,
    /// Window field.
    pub window: u16,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks that may be merged.
    pub sack: Vec<(u32, u32)>,
    /// AE, CWR, ECE and the AccECN option.
    pub ecn: Feedback,
    /// It has what nobody may touch: other flags, unknown options.
    pub special: bool,
}

/// What becomes of an ACK that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the kernel's names, documented in bpf/abi/shape.h")]
pub enum Fate {
    First,
    Sequence,
    NoCarrier,
    Carrier,
    Duplicate,
    Timestamp,
    Sack,
    Special,
    SlowStart,
    Stretch,
    AccEcn,
    Delta,
    Held,
}

/// The method is static; bounds as in `struct pendulum_shape_control`.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// δ.
    pub delta: usize,
    /// Most ACKs withheld for one carrier.
    pub stretch: usize,
    /// Bytes acknowledged before any is withheld.
    pub spared_bytes: u32,
}

/// ACKs that deliver more segments than this are not decoded without doubt (RFC 9768 §3.2.2.5).
const SEGMENTS: u32 = 7;
const UNKNOWN: u32 = SEGMENTS + 1;
/// Two of the largest segment of Ethernet without jumbo frames, and what the smallest MTU of IPv6 leaves of one.
const TWO_LARGEST: u32 = 2 * 1_460;
const LEAST: u32 = 1_200;

#[derive(Clone, Debug)]
struct QueuedAck {
    ack: AckSegment,
    plain: bool,
    pending: Option<AckSegment>,
}

/// The filter of one connection, and its ACKs in the queue.
#[derive(Clone, Debug)]
pub struct Hold {
    bounds: Bounds,
    queue: VecDeque<QueuedAck>,
    first: Option<u32>,
    newest: AckSegment,
    /// The sequence number that the next one is to have.
    sequence: u32,
    withheld: usize,
    accecn: bool,
    /// Segments that the newest in the queue is to acknowledge.
    segments: u32,
    told: Told,
}

/// What the sender knows of ECN by what has left.
#[derive(Clone, Debug, Default)]
struct Told {
    number: u32,
    ace: u8,
    counters: Option<[u32; 3]>,
    /// The newest to leave had no counters.
    gap: bool,
    /// The one counter that grew, as the sender must have seen.
    steady: Option<usize>,
}

impl Told {
    fn changed(&self, counters: [u32; 3]) -> Vec<usize> {
        let Some(known) = self.counters else { return Vec::new() };
        (0..3).filter(|&i| counters[i] != known[i]).collect()
    }

    fn note(&mut self, ack: &AckSegment) {
        let guessed = self.gap || is_before_or_same(ack.number, self.number);
        self.number = ack.number;
        self.ace = ack.ecn.ace;
        self.gap = ack.ecn.counters.is_none();
        // What the sender guesses without counters may be too much (a retransmission without ECT), and unsettles it.
        let Some(counters) = ack.ecn.counters else {
            self.steady = None;
            return;
        };
        self.steady = match self.changed(counters)[..] {
            _ if self.counters.is_none() => None,
            [] => self.steady,
            [field] if field != CE && (self.steady == Some(field) || !guessed) => Some(field),
            _ => None,
        };
        self.counters = Some(counters);
    }

    /// An ACK tells of no mark, and the sender will believe it.
    fn expects(&self, ack: &AckSegment) -> bool {
        let (Some(steady), Some(counters)) = (self.steady, ack.ecn.counters) else { return false };
        ack.ecn.ace == self.ace && self.changed(counters).iter().all(|field| *field == steady)
    }
}

fn is_before_or_same(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() <= 0
}

fn covers(newer: &AckSegment, older: &AckSegment) -> bool {
    let within = |inner: (u32, u32), outer: (u32, u32)| {
        is_before_or_same(outer.0, inner.0) && is_before_or_same(inner.1, outer.1)
    };
    older.sack.iter().all(|&block| {
        is_before_or_same(block.1, newer.number) || newer.sack.iter().any(|&outer| within(block, outer))
    })
}

impl Hold {
    /// Nothing is known yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            queue: VecDeque::new(),
            first: None,
            newest: AckSegment::default(),
            sequence: 0,
            withheld: 0,
            accecn: false,
            segments: UNKNOWN,
            told: Told::default(),
        }
    }

    /// An ACK comes.
    pub fn arrive(&mut self, ack: AckSegment) -> Fate {
        let segments = if self.accecn { self.segments_of(&ack) } else { UNKNOWN };
        self.accecn |= ack.ecn.ace & 4 != 0 || ack.ecn.counters.is_some();
        let fate = self.judge(&ack, segments);
        let is_first = self.first.is_none();
        self.first.get_or_insert(ack.number);
        if fate == Fate::Held {
            self.newest = ack.clone();
            if let Some(at) = self.earlier() {
                self.queue[at].pending = None;
                self.withheld = 0;
            }
            self.queue.back_mut().expect("a carrier").pending = Some(ack);
            self.withheld += 1;
            self.segments = UNKNOWN.min(self.segments + segments);
            return fate;
        }
        // It says all that is pending, and is the carrier from here on.
        if fate == Fate::Stretch {
            self.queue.back_mut().expect("a carrier").pending = None;
        }
        if self.queue.iter().all(|queued| queued.pending.is_none()) {
            self.withheld = 0;
        }
        if is_first || !is_before_or_same(ack.number.wrapping_add(1), self.newest.number) {
            self.newest = ack.clone();
        }
        self.segments = match fate {
            // It also delivers what the pending one would have.
            Fate::Stretch => UNKNOWN,
            _ => segments,
        };
        let is_probe = !is_first && self.is_probe(&ack);
        if !is_probe {
            self.sequence = ack.sequence;
        }
        let plain = !self.is_special(&ack) && fate != Fate::Duplicate && !is_probe;
        self.queue.push_back(QueuedAck { ack, plain, pending: None });
        fate
    }

    /// The oldest leaves: what the sender is to see.
    pub fn depart(&mut self) -> Option<AckSegment> {
        let queued = self.queue.pop_front()?;
        if queued.pending.is_some() {
            self.withheld = 0;
        }
        let ack = queued.pending.unwrap_or(queued.ack);
        self.told.note(&ack);
        Some(ack)
    }

    /// ACKs in the queue.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// A keep-alive, or a probe of a closed window: its number was used before.
    fn is_probe(&self, ack: &AckSegment) -> bool {
        ack.sequence.wrapping_sub(self.sequence).cast_signed() < 0
    }

    fn is_special(&self, ack: &AckSegment) -> bool {
        ack.special || (ack.ecn.ace != 0 && !self.accecn)
    }

    fn judge(&self, ack: &AckSegment, segments: u32) -> Fate {
        if self.is_special(ack) {
            return Fate::Special;
        }
        let Some(first) = self.first else { return Fate::First };
        if self.is_probe(ack) {
            return Fate::Sequence;
        }
        let ahead = ack.number.wrapping_sub(self.newest.number).cast_signed();
        if ahead < 0 || (ahead == 0 && (ack.sack.is_empty() || ack.sack == self.newest.sack)) {
            return Fate::Duplicate;
        }
        let Some(carrier) = self.queue.back() else { return Fate::NoCarrier };
        if !carrier.plain {
            return Fate::Carrier;
        }
        // Data in between, which was not seen.
        if ack.sequence != self.sequence {
            return Fate::Sequence;
        }
        if !covers(ack, &self.newest) {
            return Fate::Sack;
        }
        match (ack.timestamps, self.newest.timestamps) {
            (None, None) => {}
            (Some(new), Some(old)) if is_before_or_same(old.0, new.0) && is_before_or_same(old.1, new.1) => {}
            _ => return Fate::Timestamp,
        }
        if self.earlier().is_some_and(|at| !self.gives_up(at, ack)) {
            return Fate::Carrier;
        }
        if ack.number.wrapping_sub(first) < self.bounds.spared_bytes {
            return Fate::SlowStart;
        }
        if self.accecn && !self.stays_exact(ack, segments) {
            return Fate::AccEcn;
        }
        if carrier.pending.is_some() && self.withheld >= self.bounds.stretch {
            return Fate::Stretch;
        }
        if self.queue.len() < self.bounds.delta { Fate::Delta } else { Fate::Held }
    }

    /// The carrier that something is pending for, if that is not the newest in the queue.
    fn earlier(&self) -> Option<usize> {
        let before = self.queue.len().saturating_sub(1);
        self.queue.iter().take(before).position(|queued| queued.pending.is_some())
    }

    /// What is pending for an earlier carrier need not be sent: the ACK tells all of it, and none behind that carrier can be a duplicate of it.
    fn gives_up(&self, at: usize, ack: &AckSegment) -> bool {
        let tells = self.queue[at].pending.as_ref().is_some_and(|pending| covers(ack, pending));
        tells && self.queue[at + 1].plain && !self.accecn
    }

    fn stays_exact(&self, ack: &AckSegment, segments: u32) -> bool {
        if self.newest.ecn.counters.is_some() && ack.ecn.counters.is_none() {
            return false;
        }
        self.segments + segments <= SEGMENTS || self.told.expects(ack)
    }

    /// Segments that the ACK delivers at most, beyond the newest.
    fn segments_of(&self, ack: &AckSegment) -> u32 {
        let bytes = ack.number.wrapping_sub(self.newest.number);
        if bytes == 0 && ack.sack.is_empty() {
            return 0;
        }
        if bytes.cast_signed() <= 0 {
            return UNKNOWN;
        }
        if !ack.sack.is_empty() || !self.newest.sack.is_empty() {
            return UNKNOWN;
        }
        if bytes <= LEAST {
            2
        } else if bytes <= TWO_LARGEST {
            3
        } else {
            UNKNOWN.min(bytes.div_ceil(LEAST) + 1)
        }
    }
}

#[cfg(test)]
#[path = "hold_tests.rs"]
mod tests;
