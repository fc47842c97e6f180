//! What the report wants to know of a flow beyond what the kernel keeps. It outlives the restart of a flow.

use pendulum_model::segment::{Direction, PerDirection};

use super::flow::{Flow, Observed};
use super::packet::{ParsedSegment, flag};
use super::turnaround::{Turn, Turnaround};
use crate::bpf::abi::{self, pendulum_half};

/// The notes on one flow.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of the flow, from 1 in order of appearance.
    pub id: u64,
    /// Who opened the connection, if that was seen.
    pub opener: Option<Direction>,
    /// Time of the first segment, once there was one.
    pub first_ns: Option<u64>,
    /// Time of the newest segment.
    pub last_ns: u64,
    /// What each half sent, and how its end answered.
    pub halves: PerDirection<HalfTally>,
    /// Outstanding data over time.
    pub in_flight: InFlight,
    /// Whether it stands in the list of flows to be read at the next turn.
    pub listed: bool,
    turnaround: Option<Box<Turnaround>>,
}

/// The notes on one half.
#[derive(Clone, Copy, Debug, Default)]
pub struct HalfTally {
    /// TCP payload, in bytes, as it passed.
    pub payload_bytes: u64,
    /// Payload, in bytes, that had passed before.
    pub repeated_bytes: u64,
    /// Segments with such payload.
    pub retransmitted_segments: u64,
    /// Payload of this half that the other one acknowledged, in bytes.
    pub acked_bytes: u64,
    /// Link-layer bytes of data segments since the flow was last read.
    pub fresh_bytes: u64,
    /// How long this end took to answer.
    pub turns: Turns,
}

/// A level that is integrated over time, from when it was first above zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Level {
    since_ns: Option<u64>,
    told_ns: u64,
    /// The level now.
    pub level: u32,
    integral: f64,
    /// Highest so far.
    pub max: u32,
}

impl Level {
    fn set(&mut self, now_ns: u64, level: u32) {
        match self.since_ns {
            None if level == 0 => return,
            None => self.since_ns = Some(now_ns),
            Some(_) => self.integral += f64::from(self.level) * now_ns.saturating_sub(self.told_ns) as f64,
        }
        self.told_ns = now_ns.max(self.told_ns);
        self.level = level;
        self.max = self.max.max(level);
    }

    /// Mean since it was first above zero; `None` if it never was, or only just.
    pub fn mean(&self) -> Option<f64> {
        let ns = self.told_ns.saturating_sub(self.since_ns?);
        (ns > 0).then(|| self.integral / ns as f64)
    }
}

/// Times that one end took to answer, seen from the gateway, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    /// Smallest.
    pub min_us: Option<u32>,
    /// Newest.
    pub last_us: Option<u32>,
    sum_us: u64,
    count: u64,
}

impl Turns {
    fn add(&mut self, us: u32) {
        self.min_us = Some(self.min_us.map_or(us, |min| min.min(us)));
        self.last_us = Some(us);
        self.sum_us += u64::from(us);
        self.count += 1;
    }

    /// Mean, in seconds.
    pub fn mean_s(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_us as f64 / self.count as f64 / 1e6)
    }

    /// Smallest, in seconds.
    pub fn min_s(&self) -> Option<f64> {
        self.min_us.map(|us| f64::from(us) / 1e6)
    }
}

/// Outstanding data of both halves over time: the notes on a flow at the LAN capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct InFlight {
    /// Index with [`Direction`].
    pub halves: PerDirection<Level>,
}

impl InFlight {
    /// A segment has passed; `flow` is its flow after it.
    pub fn note(&mut self, now_ns: u64, flow: &Flow) {
        for x in Direction::ALL {
            self.halves[x].set(now_ns, flow.outstanding(x));
        }
    }
}

impl Tally {
    /// A segment has passed; `flow` is its flow after it. If it answers one of the other half: how long that took.
    pub fn note(
        &mut self,
        direction: Direction,
        now_ns: u64,
        segment: &ParsedSegment,
        observed: &Observed,
        flow: &Flow,
    ) -> Option<Turn> {
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
        if segment.has(flag::SYN) && self.opener.is_none() {
            let answers = segment.has(flag::ACK);
            self.opener = Some(if answers { direction.opposite() } else { direction });
        }
        self.note_sent(direction, segment, observed, flow);
        self.in_flight.note(now_ns, flow);
        let turnaround = self.turnaround.get_or_insert_default();
        let repeats = observed.retransmitted || observed.reordered;
        let turn = turnaround.observe(direction, now_ns, segment, repeats)?;
        self.halves[direction].turns.add(turn.us);
        Some(turn)
    }

    fn note_sent(&mut self, direction: Direction, segment: &ParsedSegment, observed: &Observed, flow: &Flow) {
        let payload = u64::from(segment.payload_bytes);
        let me = &mut self.halves[direction];
        me.payload_bytes += payload;
        if payload > 0 {
            me.fresh_bytes += segment.wire_bytes();
        }
        if observed.retransmitted {
            me.repeated_bytes += payload;
            me.retransmitted_segments += u64::from(segment.segments);
        }
        let peer = direction.opposite();
        self.halves[peer].acked_bytes += acked_payload(observed, &flow.halves, direction);
    }

    /// The direction in which most of its payload travelled.
    pub fn main_direction(&self) -> Direction {
        let [up, down] = self.halves.both();
        if up.payload_bytes > down.payload_bytes { Direction::Up } else { Direction::Down }
    }

    /// Payload that arrived, in bytes: acknowledged; or, if no ACK was seen, what passed once.
    pub fn delivered_bytes(&self, direction: Direction) -> u64 {
        let half = &self.halves[direction];
        match half.acked_bytes {
            0 => half.payload_bytes.saturating_sub(half.repeated_bytes),
            acked => acked,
        }
    }
}

/// Payload that a segment of `direction` newly acknowledges. A FIN takes a sequence number and is none (RFC 9293 §3.4).
fn acked_payload(observed: &Observed, halves: &PerDirection<pendulum_half>, direction: Direction) -> u64 {
    let (me, peer) = (&halves[direction], &halves[direction.opposite()]);
    let acks_fin = peer.has(abi::PENDULUM_HALF_FIN) && me.ack_highest == peer.seq_next;
    u64::from(observed.acked_bytes.saturating_sub(u32::from(acks_fin)))
}

#[cfg(test)]
mod tests;
