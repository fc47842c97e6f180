//! Cake, a queueing discipline of Linux (net/sched/sch_cake.c), as `cake bandwidth RATE` has it.
//!
//! A shaper without a burst, a queue for each flow served by DRR++ (flows that send little go first), COBALT's CoDel on each of them, and fairness between the hosts
//! that send (`dual-srchost`). What the simulation's traffic cannot use is left out: priority tins (nothing is marked, so all is best effort), hashing (eight
//! ways and 1,024 queues keep the few flows of a run apart), segmentation of super-packets, ECN, the ingress mode, the memory limit and what BLUE drops when it
//! is reached (CoDel keeps long transfers far below it), and the ACK filter, which nobody is advised to use. Names in backticks are the kernel's.

mod cobalt;
mod flow_queue;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::packet::{DATA_FRAME_BYTES, MILLISECOND, Packet, SECOND, Time};
use cobalt::Parameters;
use flow_queue::{FlowQueue, Queued, Turn};

/// CoDel's target and interval by default: 5 ms, and `rtt 100ms`.
const TARGET: Time = 5 * MILLISECOND;
const INTERVAL: Time = 100 * MILLISECOND;
/// `flow_quantum` is a 4,096th of the rate in bytes per second, within these.
const QUANTUM_BYTES: (f64, f64) = (300.0, DATA_FRAME_BYTES as f64);

/// The uplink with cake before it.
#[derive(Debug, Default)]
pub(super) struct CakeQueue {
    nanoseconds_per_byte: f64,
    quantum: u64,
    parameters: Parameters,
    /// `time_next_packet`: when the shaper lets the next frame leave.
    next: Time,
    flows: Vec<FlowQueue>,
    /// `new_flows` and `old_flows`: places in `flows`. Beyond them, among the new ones: [`PROBE`].
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    /// Bulk flows of each host.
    hosts: Vec<u64>,
    frames: usize,
    bytes: u64,
    pub(super) dropped: u64,
    /// When the probes came that wait, and what those before them have waited, seconds.
    probes: VecDeque<Time>,
    probed: Vec<f32>,
    random: fastrand::Rng,
}

/// In the place of a flow: a frame without a length of a flow that has nothing else here.
const PROBE: usize = usize::MAX;

impl CakeQueue {
    /// `rate` in bytes per second; `hosts` has the sending host of each flow.
    pub(super) fn new(rate: f64, hosts: impl Iterator<Item = u32>, seed: u64) -> Self {
        let nanoseconds_per_byte = SECOND as f64 / rate;
        let mut known = Vec::new();
        let flows = hosts.map(|host| FlowQueue::new(place(&mut known, host))).collect();
        Self {
            nanoseconds_per_byte,
            quantum: (rate / 4_096.0).clamp(QUANTUM_BYTES.0, QUANTUM_BYTES.1) as u64,
            parameters: Parameters::new(f64::from(DATA_FRAME_BYTES) * nanoseconds_per_byte, TARGET, INTERVAL),
            flows,
            hosts: vec![0; known.len()],
            random: fastrand::Rng::with_seed(seed),
            ..Self::default()
        }
    }

    /// `cake_enqueue`. Takes a frame; where nothing waited: the moment at which it leaves.
    pub(super) fn push(&mut self, now: Time, frame: Packet) -> Option<Time> {
        let idle = self.frames == 0;
        if idle {
            self.next = self.next.max(now);
        }
        let at = frame.flow as usize;
        self.flows[at].frames.push_back(Queued { frame, since: now });
        self.bytes += u64::from(frame.bytes);
        self.frames += 1;
        self.give_turn(at);
        if idle { Some(self.next) } else { None }
    }

    /// `cake_dequeue`: the frame whose turn it is, and the moment at which the next one leaves.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Packet, Option<Time>)> {
        let frame = self.choose(now)?;
        self.next += self.duration(u64::from(frame.bytes));
        let due = (self.frames > 0).then(|| self.next.max(now));
        Some((frame, due))
    }

    /// How long the bytes that wait take, seconds.
    pub(super) fn wait_seconds(&self) -> f64 {
        self.bytes as f64 * self.nanoseconds_per_byte / SECOND as f64
    }

    /// Notes what a frame waits that comes now, of a flow that has nothing else here: for the shaper, and for flows that are as new.
    pub(super) fn probe(&mut self, now: Time) {
        if self.frames == 0 {
            self.probed.push(seconds(self.next.saturating_sub(now)));
        } else {
            self.probes.push_back(now);
            self.new.push_back(PROBE);
        }
    }

    /// What such frames have waited, in the order in which they came, seconds. Those that still wait are missing.
    pub(super) fn take_probed(&mut self) -> Vec<f32> {
        std::mem::take(&mut self.probed)
    }

    fn duration(&self, bytes: u64) -> Time {
        (bytes as f64 * self.nanoseconds_per_byte) as Time
    }

    /// A queue that has got a frame goes to where it is served.
    fn give_turn(&mut self, at: usize) {
        match self.flows[at].turn {
            Turn::None => {
                self.new.push_back(at);
                self.flows[at].turn = Turn::Sparse;
                self.flows[at].deficit = self.quantum_of(at);
            }
            Turn::SparseWait => self.count_as_bulk(at),
            Turn::Sparse | Turn::Bulk => {}
        }
    }

    fn count_as_bulk(&mut self, at: usize) {
        let flow = &mut self.flows[at];
        flow.turn = Turn::Bulk;
        self.hosts[flow.host] += 1;
    }

    /// `cake_get_flow_quantum`: a host's flows share one quantum; the remainder is rounded by chance.
    fn quantum_of(&mut self, at: usize) -> i64 {
        let load = self.hosts[self.flows[at].host].max(1);
        let dither = u64::from(self.random.u16(..));
        ((self.quantum * (u64::from(u16::MAX) / load) + dither) >> 16) as i64
    }

    /// DRR++: the flows that are new first, then those that take turns.
    fn choose(&mut self, now: Time) -> Option<Packet> {
        if self.frames == 0 {
            return None;
        }
        loop {
            let at = self.new.pop_front().or_else(|| self.old.pop_front())?;
            if at == PROBE {
                let since = self.probes.pop_front().unwrap_or(now);
                self.probed.push(seconds(now - since));
                continue;
            }
            if self.flows[at].deficit <= 0 {
                self.pay(at);
                continue;
            }
            let Some(frame) = self.take_from(at, now) else {
                self.leave(at, now);
                continue;
            };
            self.flows[at].deficit -= i64::from(frame.bytes);
            // It keeps its place: its deficit decides when it is next looked at.
            if self.flows[at].turn == Turn::Sparse { &mut self.new } else { &mut self.old }.push_front(at);
            return Some(frame);
        }
    }

    /// A queue that has used up its deficit gets a quantum and goes behind the others.
    fn pay(&mut self, at: usize) {
        if self.flows[at].turn == Turn::Sparse {
            if self.flows[at].frames.is_empty() {
                self.flows[at].turn = Turn::SparseWait;
            } else {
                self.count_as_bulk(at);
            }
        }
        self.flows[at].deficit += self.quantum_of(at);
        self.old.push_back(at);
    }

    /// The first frame of a queue that COBALT lets pass. The last one is never dropped.
    fn take_from(&mut self, at: usize, now: Time) -> Option<Packet> {
        loop {
            let flow = &mut self.flows[at];
            let queued = flow.frames.pop_front()?;
            let drops = flow.cobalt.should_drop(&self.parameters, now, now - queued.since);
            let is_last = flow.frames.is_empty();
            self.bytes -= u64::from(queued.frame.bytes);
            self.frames -= 1;
            if !drops || is_last {
                return Some(queued.frame);
            }
            self.dropped += 1;
        }
    }

    /// An empty queue leaves the turns.
    fn leave(&mut self, at: usize, now: Time) {
        let flow = &mut self.flows[at];
        flow.cobalt.queue_empty(&self.parameters, now);
        if flow.turn == Turn::Bulk {
            self.hosts[flow.host] -= 1;
        }
        flow.turn = Turn::None;
    }
}

fn seconds(time: Time) -> f32 {
    (time as f64 / SECOND as f64) as f32
}

/// The place of a host in a list, which gets it if it does not have it.
fn place(known: &mut Vec<u32>, host: u32) -> usize {
    known.iter().position(|other| *other == host).unwrap_or_else(|| {
        known.push(host);
        known.len() - 1
    })
}
