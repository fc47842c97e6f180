//! The measurement of one frame, from its first byte to the last counter: what `bpf/packet/measure.h` does for live traffic.

use std::collections::BTreeMap;

use pendulum_model::protocol_port::ProtocolPort;
use pendulum_model::sample::Composition;
use pendulum_model::segment::{Class, Direction, PerDirection};

use super::flow::{FlowKey, Observed};
use super::packet::{Frame, Lost, NonTcp, Packet, ParsedSegment, flag, parse};
use super::requests::{RequestReply, Requests};
use super::table::{Entry, Event, FlowTable};
use crate::bpf::abi::{self, pendulum_counters};

/// How much is remembered: conversations, as in the kernel's table, and flows seen one way only.
const FLOWS: usize = 16_384;
const NURSED: usize = 4_096;

/// What one frame was.
#[derive(Debug)]
pub struct Observation<'a, T> {
    /// What it was counted as.
    pub class: Class,
    /// Its bytes on the wire, by what carries them.
    pub entered: Composition,
    /// The segment, if its TCP header was read.
    pub segment: Option<ParsedSegment>,
    /// What it did to its flow.
    pub observed: Option<Observed>,
    /// If it is no TCP and replies to a request: between which ends, and how long that took.
    pub reply: Option<(FlowKey, RequestReply)>,
    /// Length of the ACK burst that it ended; 0: none.
    pub burst: u64,
    /// The flow's key and state, after the segment.
    pub flow: Option<(FlowKey, &'a mut Entry<T>)>,
    /// A flow that had to go because a table was full.
    pub evicted: Option<(FlowKey, Entry<T>)>,
}

impl<T> Observation<'_, T> {
    /// Of a frame that is no TCP segment.
    fn unread(entered: Composition) -> Self {
        Self {
            class: Class::NonTcp,
            entered,
            segment: None,
            observed: None,
            reply: None,
            burst: 0,
            flow: None,
            evicted: None,
        }
    }
}

type Stats = [u64; abi::PENDULUM_STATS as usize];

/// Turns frames into counters and flows. `T`: what the caller notes beside each flow.
#[derive(Debug)]
pub struct Meter<T = ()> {
    /// The counters.
    pub counters: PerDirection<pendulum_counters>,
    /// ACK segments since the last data segment.
    pub(super) ack_runs: PerDirection<u64>,
    /// Link-layer bytes of what is no TCP, by what carries it.
    pub protocol_ports: PerDirection<BTreeMap<ProtocolPort, u64>>,
    /// Measurements lost, and the life of flows: by `enum pendulum_stat`.
    pub stats: Stats,
    /// All flows.
    pub table: FlowTable<T>,
    requests: Requests,
}

impl<T: Default> Default for Meter<T> {
    fn default() -> Self {
        Self {
            counters: PerDirection::default(),
            ack_runs: PerDirection::default(),
            protocol_ports: PerDirection::default(),
            stats: [0; abi::PENDULUM_STATS as usize],
            table: FlowTable::new(FLOWS, NURSED),
            requests: Requests::default(),
        }
    }
}

impl<T: Default> Meter<T> {
    /// Measure one frame that passed at `time_ns` (any origin, one clock) and tell everything about it.
    pub fn observe_frame(
        &mut self,
        direction: Direction,
        time_ns: u64,
        frame: &Frame<'_>,
    ) -> Observation<'_, T> {
        self.observe_packet(direction, time_ns, frame, parse(frame))
    }

    /// Measure one frame that [`parse`] has read.
    pub fn observe_packet(
        &mut self,
        direction: Direction,
        time_ns: u64,
        frame: &Frame<'_>,
        packet: Packet,
    ) -> Observation<'_, T> {
        match packet {
            Packet::Tcp(segment) => self.observe_segment(direction, time_ns, segment),
            Packet::NonTcp(other) => self.observe_other(direction, time_ns, frame, &other),
            Packet::Lost(reason) => self.observe_unread(direction, frame, Some(reason)),
        }
    }

    fn observe_other(
        &mut self,
        direction: Direction,
        time_ns: u64,
        frame: &Frame<'_>,
        other: &NonTcp,
    ) -> Observation<'_, T> {
        let reply = self.observe_request(direction, time_ns, frame, other);
        let wire_bytes = other.udp.map_or(frame.frame_bytes().into(), |udp| udp.wire_bytes);
        if let Some(protocol_port) = other.protocol_port(direction) {
            *self.protocol_ports[direction].entry(protocol_port).or_default() += wire_bytes;
        }
        let Some(datagram) = &other.udp else {
            return Observation { reply, ..self.observe_unread(direction, frame, None) };
        };
        self.counters[direction].count_udp(datagram);
        let entered = Composition { udp: wire_bytes, ..Composition::default() };
        Observation { reply, ..Observation::unread(entered) }
    }

    fn observe_request(
        &mut self,
        direction: Direction,
        time_ns: u64,
        frame: &Frame<'_>,
        other: &NonTcp,
    ) -> Option<(FlowKey, RequestReply)> {
        let timed = other.request.as_ref()?;
        let key = FlowKey::between(timed.addresses, timed.ports, direction);
        let wire_bytes = other.udp.map_or(frame.frame_bytes().into(), |udp| udp.wire_bytes);
        let reply = self.requests.observe(direction, time_ns, &key, &timed.request, wire_bytes);
        self.stats[Lost::RequestDisplaced as usize] = self.requests.lost;
        let counters = &mut self.counters[direction];
        (counters.spin_bytes, counters.spin_replies) = self.requests.spun[direction];
        let reply = reply?;
        if !reply.may_be_held {
            self.counters[direction.opposite()].count_rtt(reply.us);
        }
        Some((key, reply))
    }

    fn observe_unread(
        &mut self,
        direction: Direction,
        frame: &Frame<'_>,
        lost: Option<Lost>,
    ) -> Observation<'_, T> {
        self.count_lost(lost);
        self.counters[direction].count_unread(frame.frame_bytes(), frame.gso_segments.max(1));
        Observation::unread(Composition { other: frame.frame_bytes().into(), ..Composition::default() })
    }

    fn observe_segment(
        &mut self,
        direction: Direction,
        time_ns: u64,
        segment: ParsedSegment,
    ) -> Observation<'_, T> {
        self.count_lost(segment.lost);
        let key = FlowKey::of(&segment, direction);
        let found = self.table.find(key, direction, segment.has(flag::RST));
        match found.event {
            Some(Event::Nursed) => self.stats[abi::PENDULUM_FLOW_NURSED as usize] += 1,
            Some(Event::Promoted) => self.stats[abi::PENDULUM_FLOW_PROMOTED as usize] += 1,
            None => {}
        }
        let mut flow = found.entry;
        let observed = flow.as_mut().map(|entry| entry.flow.observe(direction, time_ns, &segment));
        // Only a RST has no flow.
        let class = observed.map_or(Class::Rst, |o| o.class);
        let burst = self.counters[direction].count_segment(&segment, class, &mut self.ack_runs[direction]);
        let wire_bytes = segment.wire_bytes();
        let entered = match class.is_pure_ack() {
            true => Composition { ack: wire_bytes, ..Composition::default() },
            false => Composition { tcp_data: wire_bytes, ..Composition::default() },
        };
        if let Some(observed) = &observed {
            apply(observed, direction, &segment, &mut self.counters, &mut self.stats);
        }
        Observation {
            class,
            entered,
            segment: Some(segment),
            observed,
            reply: None,
            burst,
            flow: flow.map(|entry| (key, entry)),
            evicted: found.evicted,
        }
    }

    fn count_lost(&mut self, lost: Option<Lost>) {
        if let Some(reason) = lost {
            self.stats[reason as usize] += 1;
        }
    }
}

/// Count what a segment did to its flow.
fn apply(
    observed: &Observed,
    direction: Direction,
    segment: &ParsedSegment,
    counters: &mut PerDirection<pendulum_counters>,
    stats: &mut Stats,
) {
    for reason in observed.lost.into_iter().flatten() {
        stats[reason as usize] += 1;
    }
    stats[abi::PENDULUM_FLOW_RESTARTED as usize] += u64::from(observed.restarted);
    let segments = u64::from(segment.segments);
    let own = &mut counters[direction];
    own.retransmitted_segments += if observed.retransmitted { segments } else { 0 };
    own.reordered_segments += if observed.reordered { segments } else { 0 };
    if let Some(us) = observed.rtt_us {
        counters[direction.opposite()].count_rtt(us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_remembers_as_many_flows_as_the_agent() {
        let link = crate::config::LinkConfig::new("wan0");
        assert_eq!((FLOWS, NURSED), (link.max_flows as usize, link.nursery as usize));
    }
}
