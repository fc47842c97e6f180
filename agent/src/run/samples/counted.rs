//! What the kernel side counts between two readings.

use pendulum_model::sample::Counted;
use pendulum_model::segment::Class;

use crate::bpf::abi;

/// How much of the past stays in the composition of the uplink's traffic, from tick to tick: about a second.
const COMPOSITION_DECAY: f64 = 0.9;

/// Adds what has been counted since `then`.
pub(super) fn add(counted: &mut Counted, now: &abi::pendulum_counters, then: &abi::pendulum_counters) {
    let grown = |of: fn(&abi::pendulum_counters) -> u64| of(now) - of(then);
    let Counted { traffic, composition, ack_bursts } = counted;
    composition.add(&now.composition().since(&then.composition()));
    traffic.wire_bytes += grown(|counters| total(&counters.bytes));
    traffic.data_bytes += grown(|counters| counters.bytes[Class::Data as usize]);
    traffic.data_segments += grown(|counters| counters.segments[Class::Data as usize]);
    traffic.ack_segments += grown(|counters| pure_acks(&counters.segments));
    traffic.retransmitted_segments += grown(|counters| counters.retransmitted_segments);
    let mut rest = grown(|counters| counters.burst_segments);
    let longest = now.bursts.len() - 1;
    for (length, (now, then)) in now.bursts.iter().zip(&then.bursts).enumerate().take(longest) {
        ack_bursts.add(length as u64, now - then);
        rest = rest.saturating_sub(length as u64 * (now - then));
    }
    // The last slot holds all longer ones: how many ACKs those were is what is left of the sum.
    let long = now.bursts[longest] - then.bursts[longest];
    if long > 0 {
        ack_bursts.bursts += long;
        ack_bursts.segments += rest;
        ack_bursts.segments_in_long_bursts += rest;
    }
}

/// Which part of the bytes that are no pure ACKs is TCP data: the ring tells only the two apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DataShare {
    data: f64,
    others: f64,
}

impl DataShare {
    pub(super) fn push(&mut self, now: &abi::pendulum_counters, then: &abi::pendulum_counters) {
        let data = now.bytes[Class::Data as usize] - then.bytes[Class::Data as usize];
        let all = total(&now.bytes) - total(&then.bytes);
        let acks = pure_acks(&now.bytes) - pure_acks(&then.bytes);
        // Silence changes nothing: what still waits in the buffer is what came before it.
        if all > acks {
            self.data = self.data * COMPOSITION_DECAY + data as f64;
            self.others = self.others * COMPOSITION_DECAY + (all - acks) as f64;
        }
    }

    pub(super) fn data_share(&self) -> f64 {
        if self.others > 0.0 { (self.data / self.others).clamp(0.0, 1.0) } else { 0.0 }
    }
}

pub(super) fn total(figures: &[u64]) -> u64 {
    figures.iter().sum()
}

fn pure_acks(by_class: &[u64; abi::PENDULUM_CLASSES as usize]) -> u64 {
    Class::ALL.into_iter().filter(|class| class.is_pure_ack()).map(|class| by_class[class as usize]).sum()
}
