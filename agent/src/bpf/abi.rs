//! The Rust side of `bpf/abi.h`, generated at build time, and the few views on it that every reader needs.
#![expect(
    missing_docs,
    non_camel_case_types,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    reason = "generated code; the header itself is documented"
)]

use pendulum_model::sample::Composition;
use pendulum_model::segment::{Class, Direction};

include!(concat!(env!("OUT_DIR"), "/abi.rs"));

/// Names of the members of abi.h's enumerations, by value: labels of metrics, keys of JSON.
pub mod names {
    include!(concat!(env!("OUT_DIR"), "/names.rs"));
}

macro_rules! plain_bytes {
    ($($structure:ident)+) => {
        $(
            // SAFETY: plain integers and arrays of them, without padding where it is a key: every bit pattern is a value.
            unsafe impl aya::Pod for $structure {}
        )+
    };
}

plain_bytes!(
    pendulum_config
    pendulum_counters
    pendulum_burst
    pendulum_flow_key
    pendulum_flow
    pendulum_queue_device
    pendulum_queue
    pendulum_bucket
    pendulum_sojourn
    pendulum_arrival
    pendulum_home_reply
    pendulum_slot
    pendulum_ports
    pendulum_departure
    pendulum_cwnd_config
    pendulum_socket
    pendulum_shape_control
    pendulum_shape_counts
    pendulum_ack_state
    pendulum_channel
);

/// Upper bounds of the histograms of times in microseconds; the kernel side's `PENDULUM_TIME_BOUNDS_US`.
pub const TIME_BOUNDS_US: [u32; PENDULUM_TIME_BOUNDS as usize] =
    include!(concat!(env!("OUT_DIR"), "/time_bounds.rs"));

/// The slot of a time in such a histogram: that of the first bound that is not below it.
pub fn time_slot(us: u32) -> usize {
    TIME_BOUNDS_US.partition_point(|bound| *bound < us)
}

// The model's vocabulary has the kernel side's numbers: they index the same arrays.
const _: () = {
    assert!(Direction::Up as u32 == PENDULUM_UP);
    assert!(Direction::Down as u32 == PENDULUM_DOWN);
    assert!(Class::ALL.len() as u32 == PENDULUM_CLASSES);
    assert!(Class::Data as u32 == PENDULUM_CLASS_DATA);
    assert!(Class::Ack as u32 == PENDULUM_CLASS_ACK);
    assert!(Class::DupAck as u32 == PENDULUM_CLASS_DUP_ACK);
    assert!(Class::Sack as u32 == PENDULUM_CLASS_SACK);
    assert!(Class::WindowUpdate as u32 == PENDULUM_CLASS_WINDOW_UPDATE);
    assert!(Class::KeepAlive as u32 == PENDULUM_CLASS_KEEP_ALIVE);
    assert!(Class::ZeroWindowProbe as u32 == PENDULUM_CLASS_ZERO_WINDOW_PROBE);
    assert!(Class::Syn as u32 == PENDULUM_CLASS_SYN);
    assert!(Class::Fin as u32 == PENDULUM_CLASS_FIN);
    assert!(Class::Rst as u32 == PENDULUM_CLASS_RST);
    assert!(Class::Other as u32 == PENDULUM_CLASS_OTHER);
    assert!(Class::NonTcp as u32 == PENDULUM_CLASS_NON_TCP);
};

/// Add to each figure its like.
pub fn add_all(to: &mut [u64], from: &[u64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

impl pendulum_counters {
    /// Add another CPU's figures to these.
    pub fn add(&mut self, other: &Self) {
        add_all(&mut self.segments, &other.segments);
        add_all(&mut self.bytes, &other.bytes);
        add_all(&mut self.marked_segments, &other.marked_segments);
        add_all(&mut self.bursts, &other.bursts);
        add_all(&mut self.rtt, &other.rtt);
        self.udp_bytes += other.udp_bytes;
        self.spin_bytes += other.spin_bytes;
        self.spin_replies += other.spin_replies;
        self.payload_bytes += other.payload_bytes;
        self.retransmitted_segments += other.retransmitted_segments;
        self.reordered_segments += other.reordered_segments;
        self.burst_segments += other.burst_segments;
        self.rtt_sum_us += other.rtt_sum_us;
    }

    /// The bytes by what carries them.
    pub fn composition(&self) -> Composition {
        Composition::of_classes(&self.bytes, self.udp_bytes)
    }
}

impl pendulum_half {
    /// Whether a flag of `enum pendulum_half_flag` is set.
    pub const fn has(&self, flag: u32) -> bool {
        self.flags as u32 & flag != 0
    }

    /// Bytes this half has sent and `peer` has not acknowledged, as both passed the gateway: the passive reading of
    /// the congestion window (paper 000, Fig. 3). 0 while either is unknown.
    pub fn outstanding(&self, peer: &Self) -> u32 {
        if !self.has(PENDULUM_HALF_SEQ) || !peer.has(PENDULUM_HALF_ACK) {
            return 0;
        }
        let distance = self.seq_next.wrapping_sub(peer.ack_highest).cast_signed();
        let fin = i32::from(self.has(PENDULUM_HALF_FIN));
        u32::try_from(distance.saturating_sub(fin)).unwrap_or(0)
    }
}

impl pendulum_flow {
    /// What the end on the given side of the gateway has sent.
    pub const fn half(&self, direction: Direction) -> &pendulum_half {
        &self.halves[direction as usize]
    }

    /// Both ends are done: a RST passed, or a FIN each way.
    pub const fn is_closed(&self) -> bool {
        let [up, down] = &self.halves;
        up.has(PENDULUM_HALF_RST)
            || down.has(PENDULUM_HALF_RST)
            || (up.has(PENDULUM_HALF_FIN) && down.has(PENDULUM_HALF_FIN))
    }
}

impl pendulum_queue_totals {
    /// What was added since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let difference = |now: [u64; 2], then: [u64; 2]| [0, 1].map(|i| now[i].saturating_sub(then[i]));
        Self {
            enqueued_bytes: difference(self.enqueued_bytes, before.enqueued_bytes),
            enqueued_packets: difference(self.enqueued_packets, before.enqueued_packets),
            dequeued_bytes: difference(self.dequeued_bytes, before.dequeued_bytes),
            dequeued_packets: difference(self.dequeued_packets, before.dequeued_packets),
            dropped_bytes: difference(self.dropped_bytes, before.dropped_bytes),
            dropped_packets: difference(self.dropped_packets, before.dropped_packets),
            sojourn_sum_us: difference(self.sojourn_sum_us, before.sojourn_sum_us),
            sojourn_packets: difference(self.sojourn_packets, before.sojourn_packets),
        }
    }
}
