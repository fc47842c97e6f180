//! The uplink buffer between two captures: bytes that entered on the LAN side and have not left on the WAN side.
//!
//! A packet is recognised within its flow by its sequence numbers, so that any queueing discipline may stand between
//! the captures, and segmentation offload may cut a packet into several. Packets that entered before a recognised one
//! of their flow and never left were dropped; a tail drop occupies nothing, so a drop never counts as queued. Levels are
//! therefore final only up to the oldest packet whose fate is open.

use std::collections::{HashMap, VecDeque};

use super::super::flow::FlowKey;
use super::super::packet::{Outline, ParsedSegment};
use pendulum_model::observer::Standing;

/// A packet that has not left by then was dropped: longer than any buffer that still lets TCP work (RFC 6298: an RTO is
/// at most 60 s, and doubles from 1 s).
const PATIENCE_NS: u64 = 30_000_000_000;

/// Packets remembered at once; the oldest is then given up.
const WAITING_MAX: usize = 1 << 16;

/// How far into a flow's waiting packets is searched.
const SEARCH_MAX: usize = 1 << 12;

/// Packets of one flow that overtake each other only if the buffer sorts them: pure ACKs may have a lane of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Lane {
    flow: FlowKey,
    has_payload: bool,
}

/// What makes a packet recognisable in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketIdentity {
    Tcp { seq: u32, end: u32, ack: u32, flags: u8, tsval: Option<u32> },
    Other { ip_bytes: u32, content: u64 },
}

/// A packet as either capture shows it.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    lane: Lane,
    identity: PacketIdentity,
}

impl Sighting {
    /// A TCP segment on its way up.
    pub fn of_segment(flow: FlowKey, segment: &ParsedSegment) -> Self {
        let identity = PacketIdentity::Tcp {
            seq: segment.seq,
            end: segment.end(),
            ack: segment.ack,
            flags: segment.flags,
            tsval: segment.options.timestamps.map(|(tsval, _)| tsval),
        };
        Self { lane: Lane { flow, has_payload: segment.payload_bytes > 0 }, identity }
    }

    /// Any other IP packet on its way up.
    pub fn of_outline(outline: &Outline<'_>) -> Self {
        let flow = FlowKey {
            home_addr: outline.source,
            remote_addr: outline.destination,
            home_port: u16::from(outline.protocol),
            remote_port: 0,
        };
        // Behind ports and checksum, which address translation changes; both captures hold at least so much.
        let content =
            outline.rest.get(8..16).and_then(<[u8]>::first_chunk).copied().map_or(0, u64::from_be_bytes);
        let identity = PacketIdentity::Other { ip_bytes: outline.ip_bytes, content };
        Self { lane: Lane { flow, has_payload: true }, identity }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Left,
    Dropped,
    /// Nothing more is seen of it.
    Unknown,
}

#[derive(Debug)]
struct WaitingPacket {
    entered_ns: u64,
    lane: Lane,
    identity: PacketIdentity,
    fate: Fate,
    /// When, and how many bytes on the WAN. More than one if it was segmented in between.
    left: (u64, u32),
    left_before: Vec<(u64, u32)>,
}

/// What became of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossings {
    /// Seen on both sides.
    pub matched: u64,
    /// Entered and never left.
    pub dropped: u64,
    /// Left and never entered: the gateway's own, or lost by the LAN capture.
    pub unmatched: u64,
}

/// The buffer between the captures.
#[derive(Debug)]
pub struct ExactQueue {
    waiting: VecDeque<WaitingPacket>,
    /// Number of the first packet in `waiting`, counted from the start.
    first: u64,
    lanes: HashMap<Lane, VecDeque<u64>>,
    /// Whether the gateway translates addresses; then the LAN side's name of each flow.
    translates: bool,
    names: HashMap<FlowKey, FlowKey>,
    pub(super) standing: Standing,
    /// What became of the packets so far.
    pub crossings: Crossings,
}

impl ExactQueue {
    /// An empty buffer. `translates`: home addresses differ on the two sides.
    pub fn new(start_ns: u64, translates: bool) -> Self {
        Self {
            waiting: VecDeque::new(),
            first: 0,
            lanes: HashMap::new(),
            translates,
            names: HashMap::new(),
            standing: Standing::new(start_ns),
            crossings: Crossings::default(),
        }
    }

    /// A packet on its way up passes the LAN capture.
    pub fn enter(&mut self, at_ns: u64, sighting: &Sighting) {
        if self.waiting.len() >= WAITING_MAX {
            self.resolve_first(Fate::Dropped);
        }
        let number = self.first + self.waiting.len() as u64;
        self.waiting.push_back(WaitingPacket {
            entered_ns: at_ns,
            lane: sighting.lane,
            identity: sighting.identity,
            fate: Fate::Open,
            left: (0, 0),
            left_before: Vec::new(),
        });
        self.lanes.entry(sighting.lane).or_default().push_back(number);
    }

    /// A packet of `wire_bytes` on its way up passes the WAN capture.
    pub fn leave(&mut self, at_ns: u64, sighting: &Sighting, wire_bytes: u32) {
        let lane = self.lane_on_lan(sighting);
        let Some(position) = self.position(lane, sighting.identity) else {
            self.crossings.unmatched += 1;
            return;
        };
        let Some(numbers) = self.lanes.get_mut(&lane) else { return };
        for number in numbers.drain(..position) {
            if let Some(earlier) = self.waiting.get_mut((number - self.first) as usize) {
                earlier.fate = if earlier.left.1 > 0 { Fate::Left } else { Fate::Dropped };
            }
        }
        let Some(&number) = numbers.front() else { return };
        let Some(packet) = self.waiting.get_mut((number - self.first) as usize) else { return };
        if packet.left.1 > 0 {
            packet.left_before.push(packet.left);
        }
        // Clocks of one host, yet read at two places: never before it entered.
        packet.left = (at_ns.max(packet.entered_ns), wire_bytes);
        if packet.identity.is_used_up_by(sighting.identity) {
            packet.fate = Fate::Left;
            numbers.pop_front();
            if numbers.is_empty() {
                self.lanes.remove(&lane);
            }
            self.crossings.matched += 1;
        } else {
            packet.identity = packet.identity.rest_after(sighting.identity);
        }
    }

    /// See [`super::Buffers::settle`].
    pub fn settle(&mut self, now_ns: u64) {
        while let Some(packet) = self.waiting.front()
            && (packet.fate != Fate::Open || packet.entered_ns + PATIENCE_NS < now_ns)
        {
            self.resolve_first(Fate::Dropped);
        }
        let known_to = self.waiting.front().map_or(now_ns, |packet| packet.entered_ns.min(now_ns));
        self.standing.hold(known_to);
    }

    /// See [`super::Buffers::finish`]. What entered before and did not leave counts as nothing.
    pub fn finish(&mut self, now_ns: u64) {
        while self.waiting.front().is_some_and(|packet| packet.entered_ns <= now_ns) {
            self.resolve_first(Fate::Unknown);
        }
        self.settle(now_ns);
    }

    /// See [`super::Buffers::restart`].
    pub fn restart(&mut self, start_ns: u64) {
        while self.waiting.front().is_some_and(|packet| packet.entered_ns < start_ns) {
            self.resolve_first(Fate::Unknown);
        }
        self.standing = Standing::new(start_ns);
    }

    /// The oldest packet leaves the list; if its fate is open, it is this one.
    fn resolve_first(&mut self, open: Fate) {
        let Some(mut packet) = self.waiting.pop_front() else { return };
        if packet.fate == Fate::Open {
            // In part gone: the pieces that are missing were dropped.
            packet.fate = if packet.left.1 > 0 { Fate::Left } else { open };
            if let Some(numbers) = self.lanes.get_mut(&packet.lane) {
                // The oldest packet of all is the oldest of its lane.
                if numbers.front() == Some(&self.first) {
                    numbers.pop_front();
                }
                if numbers.is_empty() {
                    self.lanes.remove(&packet.lane);
                }
            }
        }
        self.first += 1;
        match packet.fate {
            Fate::Left => {
                let pieces = packet.left_before.iter().chain([&packet.left]).copied();
                self.standing.enter(packet.entered_ns, pieces);
            }
            Fate::Dropped => self.crossings.dropped += 1,
            Fate::Open | Fate::Unknown => {}
        }
    }

    /// The lane that the LAN side knows a packet of the WAN side by.
    fn lane_on_lan(&mut self, sighting: &Sighting) -> Lane {
        let lane = sighting.lane;
        if !self.translates || self.lanes.contains_key(&lane) {
            return lane;
        }
        if let Some(&flow) = self.names.get(&lane.flow) {
            return Lane { flow, ..lane };
        }
        let is_same_remote = |other: &FlowKey| {
            (other.remote_addr, other.remote_port) == (lane.flow.remote_addr, lane.flow.remote_port)
        };
        let found = self
            .lanes
            .iter()
            .filter(|(other, _)| other.has_payload == lane.has_payload && is_same_remote(&other.flow))
            .filter(|(other, _)| self.position(**other, sighting.identity).is_some())
            .map(|(other, _)| other.flow)
            .min();
        if let Some(flow) = found {
            if self.names.len() >= WAITING_MAX {
                self.names.clear();
            }
            self.names.insert(lane.flow, flow);
        }
        Lane { flow: found.unwrap_or(lane.flow), ..lane }
    }

    /// Where in its lane a packet is.
    fn position(&self, lane: Lane, identity: PacketIdentity) -> Option<usize> {
        self.lanes.get(&lane)?.iter().take(SEARCH_MAX).position(|number| {
            let packet = self.waiting.get((*number - self.first) as usize);
            packet.is_some_and(|packet| packet.identity.covers(identity))
        })
    }
}

impl PacketIdentity {
    /// Whether a packet that left is this one, or a piece of it.
    fn covers(self, piece: Self) -> bool {
        match (self, piece) {
            (
                Self::Tcp { seq, end, ack, flags, tsval },
                Self::Tcp {
                    seq: piece_seq,
                    end: piece_end,
                    ack: piece_ack,
                    flags: piece_flags,
                    tsval: piece_tsval,
                },
            ) => {
                let inside = |a: u32, b: u32| b.wrapping_sub(a).cast_signed() >= 0;
                let whole = (seq, end) == (piece_seq, piece_end);
                tsval == piece_tsval
                    && ack == piece_ack
                    // A super-packet's FIN, PSH and CWR stand on one of its pieces only.
                    && (!whole || flags == piece_flags)
                    && (whole || (seq != end && inside(seq, piece_seq) && inside(piece_end, end)))
            }
            (one, other) => one == other,
        }
    }

    /// Whether nothing of this packet follows after `piece`.
    fn is_used_up_by(self, piece: Self) -> bool {
        match (self, piece) {
            (Self::Tcp { end, .. }, Self::Tcp { end: piece_end, .. }) => end == piece_end,
            _ => true,
        }
    }

    /// What of this packet follows after `piece`.
    fn rest_after(self, piece: Self) -> Self {
        match (self, piece) {
            (Self::Tcp { end, ack, flags, tsval, .. }, Self::Tcp { end: piece_end, .. }) => {
                Self::Tcp { seq: piece_end, end, ack, flags, tsval }
            }
            _ => self,
        }
    }
}
