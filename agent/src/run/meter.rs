//! Ten times a second over the counters: totals that survive a reload of the programs, and the moving throughput.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pendulum_model::constants::RECENT;
use pendulum_model::segment::{Class, PerDirection};

use super::outflow::{Look, Outflow};
use crate::bpf::abi::{self, pendulum_counters};
use crate::shape::RepliedTraffic;
use crate::snapshot::RecentRtt;

/// Throughput is the moving sum of paper 003.
const THROUGHPUT_WINDOW: Duration = Duration::from_millis(300);
const PAST_STEP: Duration = Duration::from_secs(1);

const STATS: usize = abi::PENDULUM_STATS as usize;

/// Accumulates what the programs count.
#[derive(Debug, Default)]
pub(super) struct KernelMeter {
    /// What earlier loads of the programs had counted.
    before: CounterReading,
    /// What the programs in use have counted.
    now: CounterReading,
    outflow: Outflow,
    /// Times and bytes that the link has carried at the newest readings, oldest first.
    window: VecDeque<(Instant, PerDirection<i64>)>,
    /// Totals as they were once a second over the recent past, oldest first.
    past: VecDeque<(Instant, PerDirection<abi::pendulum_counters>)>,
}

/// The counters of both directions and the stats, at one moment.
#[derive(Clone, Debug)]
pub(super) struct CounterReading {
    pub(super) counters: PerDirection<abi::pendulum_counters>,
    /// `enum pendulum_stat`.
    pub(super) stats: [u64; STATS],
}

impl Default for CounterReading {
    fn default() -> Self {
        Self { counters: Default::default(), stats: [0; STATS] }
    }
}

impl KernelMeter {
    /// Takes in a reading of the programs in use.
    pub(super) fn observe(&mut self, at: Instant, reading: CounterReading) {
        self.now = reading;
        let totals = self.totals().counters;
        if self.past.back().is_none_or(|(newest, _)| at.duration_since(*newest) >= PAST_STEP) {
            self.past.push_back((at, totals));
        }
        while self.past.get(1).is_some_and(|(next, _)| at.duration_since(*next) >= RECENT) {
            self.past.pop_front();
        }
    }

    /// Takes in the queue of the uplink, seen right after the reading of this time.
    pub(super) fn observe_uplink(&mut self, at: Instant, queue: Option<Look>) {
        let passed = self.totals().counters.map(|counters| counters.bytes.iter().sum::<u64>());
        let carried =
            PerDirection { up: self.outflow.observe(passed.up, queue), down: passed.down.cast_signed() };
        self.window.push_back((at, carried));
        while self.window.get(1).is_some_and(|(next, _)| at.duration_since(*next) >= THROUGHPUT_WINDOW) {
            self.window.pop_front();
        }
    }

    /// RTT samples of the recent past.
    pub(super) fn recent_rtt(&self) -> PerDirection<RecentRtt> {
        let Some((_, past)) = self.past.front() else { return Default::default() };
        let now = self.totals().counters;
        PerDirection::from_fn(|x| {
            let (now, past) = (&now[x], &past[x]);
            let mut recent = RecentRtt { sum_us: now.rtt_sum_us - past.rtt_sum_us, slots: now.rtt };
            for (slot, past) in recent.slots.iter_mut().zip(&past.rtt) {
                *slot -= past;
            }
            recent
        })
    }

    /// Share of the uplink's bytes of the recent past that repeat data which had passed before, 0 to 1: what a buffer behind dropped
    /// is sent again.
    pub(super) fn repeated_uplink(&self) -> f64 {
        let Some((_, past)) = self.past.front() else { return 0.0 };
        let (now, past) = (self.totals().counters.up, past.up);
        let data = Class::Data as usize;
        let segments = now.segments[data].saturating_sub(past.segments[data]);
        let all = now.bytes.iter().sum::<u64>().saturating_sub(past.bytes.iter().sum());
        if segments == 0 || all == 0 {
            return 0.0;
        }
        let repeated = now.retransmitted_segments.saturating_sub(past.retransmitted_segments);
        let data_share = now.bytes[data].saturating_sub(past.bytes[data]) as f64 / all as f64;
        (repeated as f64 / segments as f64 * data_share).clamp(0.0, 1.0)
    }

    /// What is replied to, since the start. Of TCP segments of established connections: data, and ACKs whose timestamps the other side's data
    /// echoes.
    pub(super) fn asked(&self) -> RepliedTraffic {
        let PerDirection { up, down } = self.totals().counters;
        let segments = |way: &pendulum_counters| {
            [Class::Data, Class::Ack, Class::DupAck, Class::Sack]
                .map(|class| way.segments[class as usize])
                .iter()
                .sum()
        };
        RepliedTraffic {
            segments: segments(&up),
            replies: segments(&down),
            spin_bytes: up.spin_bytes,
            spin_replies: down.spin_replies,
        }
    }

    /// The programs were replaced by new ones, which count from zero.
    pub(super) fn restart(&mut self) {
        self.before = self.totals();
        self.now = CounterReading::default();
    }

    /// Everything counted since the start.
    pub(super) fn totals(&self) -> CounterReading {
        let mut totals = self.before.clone();
        for (total, counters) in totals.counters.both_mut().into_iter().zip(self.now.counters.both()) {
            total.add(counters);
        }
        abi::add_all(&mut totals.stats, &self.now.stats);
        totals
    }

    /// Flows that entered the table of the programs in use.
    pub(super) fn promoted(&self) -> u64 {
        self.now.stats[abi::PENDULUM_FLOW_PROMOTED as usize]
    }

    /// Bytes that the link has carried since the start, as [`Self::throughput`] has them.
    pub(super) fn carried(&self) -> PerDirection<i64> {
        self.window.back().map_or_else(PerDirection::default, |(_, carried)| *carried)
    }

    /// Link-layer bytes per second over the moving window. The uplink's are behind its buffer, as far as that
    /// is observed.
    pub(super) fn throughput(&self) -> PerDirection<f64> {
        let (Some((from, before)), Some((to, after))) = (self.window.front(), self.window.back()) else {
            return PerDirection::default();
        };
        let seconds = to.duration_since(*from).as_secs_f64();
        if seconds == 0.0 {
            return PerDirection::default();
        }
        PerDirection::from_fn(|x| after[x].saturating_sub(before[x]).max(0) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    fn reading(up_bytes: u64, down_bytes: u64) -> CounterReading {
        let mut reading = CounterReading::default();
        reading.counters.up.bytes[0] = up_bytes;
        // Two classes: throughput is over all of them.
        reading.counters.down.bytes[0] = down_bytes / 2;
        reading.counters.down.bytes[11] = down_bytes - down_bytes / 2;
        reading.stats[abi::PENDULUM_FLOW_PROMOTED as usize] = up_bytes;
        reading
    }

    #[test]
    fn throughput_moves_over_300_ms() {
        let mut meter = KernelMeter::default();
        let start = Instant::now();
        assert_eq!(meter.throughput(), PerDirection::default());
        for (tick, (bytes, expected)) in [
            (0, 0.0),
            (100, 1_000.0),
            (200, 1_000.0),
            (300, 1_000.0),
            (300, 2_000.0 / 3.0),
            (300, 1_000.0 / 3.0),
        ]
        .into_iter()
        .enumerate()
        {
            meter.observe(start + TICK * tick as u32, reading(bytes, 2 * bytes));
            meter.observe_uplink(start + TICK * tick as u32, None);
            let PerDirection { up, down } = meter.throughput();
            assert!(
                (up - expected).abs() < 1e-6 && (down - 2.0 * expected).abs() < 1e-6,
                "{tick}: {up} {down}"
            );
        }
    }

    /// 300 bytes pass between two readings, of which there is one each 50 ms.
    #[test]
    fn what_passed_counts_for_300_ms() {
        let mut meter = KernelMeter::default();
        let start = Instant::now();
        let rates = (0..20).map(|step| {
            meter.observe(start + TICK / 2 * step, reading(if step > 7 { 300 } else { 0 }, 0));
            meter.observe_uplink(start + TICK / 2 * step, None);
            meter.throughput().up.round() as u32
        });
        let rates: Vec<u32> = rates.collect();
        assert_eq!(rates[7..15], [0, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 0]);
    }

    #[test]
    fn recent_rtt_forgets_what_is_old() {
        let mut meter = KernelMeter::default();
        let start = Instant::now();
        let mut counted = CounterReading::default();
        for second in 0..=12u32 {
            meter.observe(start + Duration::from_secs(1) * second, counted.clone());
            counted.counters.up.rtt[3] += 1;
            counted.counters.up.rtt_sum_us += 5_000;
        }
        let PerDirection { up, down } = meter.recent_rtt();
        assert_eq!((up.slots[3], up.sum_us), (10, 50_000));
        assert_eq!(down, RecentRtt::default());
    }

    /// Of 4,000 bytes 3,000 are data, in three segments of which one had passed before: a third of three quarters.
    #[test]
    fn what_is_sent_again_is_a_share_of_all_bytes_of_ten_seconds() {
        let counted = |segments, retransmitted_segments, data_bytes, ack_bytes| {
            let mut reading = CounterReading::default();
            let up = &mut reading.counters.up;
            up.segments[Class::Data as usize] = segments;
            up.retransmitted_segments = retransmitted_segments;
            up.bytes[Class::Data as usize] = data_bytes;
            up.bytes[Class::Ack as usize] = ack_bytes;
            reading
        };
        let second = |number| Duration::from_secs(number);
        let mut meter = KernelMeter::default();
        let start = Instant::now();
        assert_eq!(meter.repeated_uplink(), 0.0);
        meter.observe(start, counted(50, 40, 50_000, 500));
        assert_eq!(meter.repeated_uplink(), 0.0);
        meter.observe(start + second(1), counted(53, 41, 53_000, 1_500));
        assert_eq!(meter.repeated_uplink(), 0.25);
        // Ten seconds later only ACKs have passed.
        meter.observe(start + second(11), counted(53, 41, 53_000, 2_500));
        assert_eq!(meter.repeated_uplink(), 0.0);
    }

    #[test]
    fn totals_survive_a_restart_and_do_not_jump() {
        let mut meter = KernelMeter::default();
        let start = Instant::now();
        meter.observe(start, reading(1_000, 500));
        meter.observe_uplink(start, None);
        meter.restart();
        assert_eq!(meter.promoted(), 0);
        meter.observe(start + TICK, reading(10, 0));
        meter.observe_uplink(start + TICK, None);
        let totals = meter.totals();
        assert_eq!(totals.counters.up.bytes[0], 1_010);
        assert_eq!(totals.counters.down.bytes[0] + totals.counters.down.bytes[11], 500);
        assert_eq!(totals.stats[abi::PENDULUM_FLOW_PROMOTED as usize], 1_010);
        let up = meter.throughput().up;
        assert!((up - 100.0).abs() < 1e-6, "{up}");
    }
}
