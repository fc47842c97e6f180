//! All figures that the observer depends on.

use crate::constants::{
    BLIND, FEW, FORGOTTEN, HALF, HEARD_S, HELD_BACK_MOST_S, HELD_BACK_S, MEASURED_WITHIN, MOMENT, MOST,
    NO_QUEUE_S, RECENT, SLIGHT,
};

/// Times in nanoseconds, shares of 1. One figure serves wherever the same thing is meant.
pub(super) struct ObserverRules {
    /// Jitter of sender, route and the machine that looks, and packets of one slot: waits are never known better.
    pub(super) jitter_ns: f64,
    /// A shorter wait is no queue, a smaller difference no drop.
    pub(super) no_queue_ns: f64,
    /// A shorter delay may be a reply that was held back. Before the uplink's rate is known, what the slowest link serves in it is no queue.
    pub(super) held_back_ns: f64,
    /// A wait that was measured this long ago still holds. A shorter pause is no idle link: radio waits for its turn, and shapers oversleep.
    pub(super) fresh_ns: f64,
    /// A level that is uncertain by more than this wait, and by twice its height, is unknown.
    pub(super) vague_ns: f64,
    /// A rate is measured over this long at least: single packets may come back to back.
    pub(super) span_ns: f64,
    /// Without a rate a shorter pause between two packets is no idle link.
    pub(super) idle_without_rate_ns: f64,
    /// A tick is distinguished from others after this long.
    pub(super) tick_known_ns: f64,
    /// Longer than round trips and bursts: what lasts for a second is no accident, and after a second of silence nothing holds.
    pub(super) second_ns: f64,
    /// A buffer drains in this time while the link is not used; a longer queue that nobody measures is unknown.
    pub(super) drained_ns: f64,
    /// What a full buffer dropped is retransmitted in this time: so long a span waits to be judged.
    pub(super) undecided_ns: f64,
    /// A request may be answered for this long.
    pub(super) answered_ns: f64,
    /// Crystals and the queue itself differ by less over this long: ticks are checked, drift is measured, clocks are compared. A host that was silent for so long is no longer asked.
    pub(super) long_ns: f64,
    /// So long after its last proof a delay without queue is stale. No buffer lets packets wait longer.
    pub(super) stale_ns: f64,

    /// More or less than half: of a delay, of a rate, of what was dropped, of a segment, of an error that a held-back reply may explain.
    pub(super) half: f64,
    /// So much of a delay is no queue; and what one more value changes of a mean.
    pub(super) slight: f64,
    /// From this share of the longest wait on a buffer may drop; and the share of an error that a reply proves.
    pub(super) nearly: f64,
    /// Rates and ticks may be wrong by this share: framing in a modem, losses, the queue's own change.
    pub(super) within: f64,
    /// A span that carried this share more than is known contains dropped bytes.
    pub(super) excess: f64,
    /// A tick's mean length differs from it by no more than this factor.
    pub(super) tick_factor: f64,
    /// A clock drifts by no more while its drift is unknown, and two against each other by no more than twice that.
    pub(super) drift: f64,
    /// Nine of ten differences are at most so many times their root mean square (normal distribution).
    pub(super) nine_of_ten: f64,

    /// Fewer say nothing.
    pub(super) few: usize,
    /// A measured packet is final when so many came after it.
    pub(super) settled: usize,
    /// Readings that must agree before a smallest one is raised. Twice as many comparisons with a better clock show what its queue hides.
    pub(super) agreeing: usize,

    /// Ticks in use: RFC 7323 allows 1 ms to 1 s, Linux has 1 ms (and 1 µs by route), others 4, 10, 100 ms.
    pub(super) ticks_ns: [f64; 6],

    /// Bounds of memory: values of one kind; hosts, clocks, what the link carried and lost; packets in a buffer.
    pub(super) values_max: usize,
    pub(super) records_max: usize,
    pub(super) packets_max: usize,
}

/// The figures.
pub(super) const RULES: ObserverRules = ObserverRules {
    jitter_ns: 1.5e6,
    no_queue_ns: 1e9 * NO_QUEUE_S,
    held_back_ns: 1e9 * HELD_BACK_S,
    fresh_ns: 30e6,
    vague_ns: 50e6,
    span_ns: 100e6,
    idle_without_rate_ns: 1e9 * HELD_BACK_MOST_S,
    tick_known_ns: 400e6,
    second_ns: BLIND.as_nanos() as f64,
    drained_ns: 2e9,
    undecided_ns: 1e9 * HEARD_S,
    answered_ns: MOMENT.as_nanos() as f64,
    long_ns: RECENT.as_nanos() as f64,
    stale_ns: HALF * FORGOTTEN.as_nanos() as f64,
    half: HALF,
    slight: SLIGHT,
    nearly: MOST,
    within: MEASURED_WITHIN,
    excess: 0.04,
    tick_factor: 1.4,
    drift: 50e-6,
    nine_of_ten: 1.65,
    few: FEW,
    settled: 4,
    agreeing: 8,
    ticks_ns: [1e3, 1e6, 4e6, 10e6, 100e6, 1e9],
    values_max: 1 << 6,
    records_max: 1 << 12,
    packets_max: 1 << 16,
};
