//! Whether packets pass as a link of one rate lets them out.
//!
//! What leaves a buffer passes one packet after the other, each as long after the one before as the link took for it. What enters a buffer that fills comes
//! faster than the link lets it out. So a buffer of the link's rate behind the point of observation would stay empty if the point lies behind the uplink's
//! buffer, and would fill as the buffer does if it lies before. The rate is not known: many are tried.

use pendulum_model::constants::NO_QUEUE_S;
use pendulum_model::segment::{FULL_FRAME_BYTES, SLOWEST_LINK};

/// Rates that are tried, from the slowest link to 1 Gbit/s, each a twentieth above the one before.
const STEP: f64 = 1.05;
const RATES: usize = 198;

/// A buffer behind the point counts as empty with no more than so many bytes in it: full packets, one of which is being sent, and what a shaper that
/// oversleeps makes up for.
const FEW_BYTES: f64 = 3.0 * FULL_FRAME_BYTES;

/// The link was busy for long if it had so much to send without a pause, nanoseconds, and in so many packets.
const LONG_NS: f64 = 50e6;
const PACKETS: u32 = 8;

/// Whether it was busy is asked with a rate so many steps below: between two packets of its own rate there is no pause then.
const BELOW: usize = 2;

/// A link with a buffer behind the point of observation.
#[derive(Clone, Copy, Debug, Default)]
struct SpacingTrial {
    rate: f64,
    level: f64,
    most: f64,
    /// When the link began to be busy, and what has passed since.
    began_ns: f64,
    packets: u32,
    bytes: f64,
    /// What passed while it was busy for long.
    long_bytes: f64,
}

impl SpacingTrial {
    /// A packet passes, the one before at `before_ns`.
    fn pass(&mut self, before_ns: f64, at_ns: f64, bytes: f64) {
        let served = (at_ns - before_ns) * self.rate;
        if served < self.level {
            self.level -= served;
        } else {
            let long_bytes = self.long_bytes(before_ns);
            *self = Self { rate: self.rate, most: self.most, began_ns: at_ns, long_bytes, ..Self::default() };
        }
        self.level += bytes;
        self.most = self.most.max(self.level);
        self.packets += 1;
        self.bytes += bytes;
    }

    /// The same with what passed since it has been busy, if that was long; the newest packet passed at `at_ns`.
    fn long_bytes(&self, at_ns: f64) -> f64 {
        let ends_ns = at_ns + self.level / self.rate;
        let is_long = ends_ns - self.began_ns >= LONG_NS && self.packets >= PACKETS;
        self.long_bytes + if is_long { self.bytes } else { 0.0 }
    }

    fn would_fill(&self) -> bool {
        self.most > FEW_BYTES + 1e9 * NO_QUEUE_S * self.rate
    }
}

/// Tries all rates.
#[derive(Debug)]
pub(super) struct Spacing {
    trials: Vec<SpacingTrial>,
    before_ns: f64,
    bytes: f64,
}

/// The slowest link that lets packets out as they passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Bytes per nanosecond.
    pub(super) rate: f64,
    /// The share of bytes that passed while it was busy for long.
    pub(super) share: f64,
}

impl Default for Spacing {
    fn default() -> Self {
        let rates = std::iter::successors(Some(SLOWEST_LINK), |rate| Some(rate * STEP)).take(RATES);
        let trials = rates.map(|rate| SpacingTrial { rate, ..SpacingTrial::default() }).collect();
        Self { trials, before_ns: 0.0, bytes: 0.0 }
    }
}

impl Spacing {
    /// A packet passes.
    pub(super) fn pass(&mut self, at_ns: u64, bytes: u32) {
        let (at_ns, bytes) = ((at_ns as f64).max(self.before_ns), f64::from(bytes));
        for trial in &mut self.trials {
            trial.pass(self.before_ns, at_ns, bytes);
        }
        self.before_ns = at_ns;
        self.bytes += bytes;
    }

    /// At which rate packets passed; `None` if no link is so fast.
    pub(super) fn pace(&self) -> Option<Pace> {
        let slowest = self.trials.iter().position(|trial| !trial.would_fill())?;
        let long_bytes = self.trials[slowest.saturating_sub(BELOW)].long_bytes(self.before_ns);
        Some(Pace { rate: self.trials[slowest].rate, share: long_bytes / self.bytes.max(1.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 1e-3;

    /// Full packets in the order of time, so many at each of these moments, nanoseconds.
    fn pace(packets: impl IntoIterator<Item = (f64, u32)>) -> Pace {
        let mut spacing = Spacing::default();
        for (at_ns, count) in packets {
            (0..count).for_each(|_| spacing.pass(at_ns as u64, 1500));
        }
        spacing.pace().expect("a rate")
    }

    /// 400 packets as a link of 1 MB/s lets them out, in trains with a pause after each.
    fn trains(length: u32) -> impl Iterator<Item = (f64, u32)> {
        let packet_ns = 1500.0 / RATE;
        (0..400).map(move |i| (f64::from(i + i / length * 20) * packet_ns, 1))
    }

    #[test]
    fn what_leaves_a_buffer_passes_at_the_link_s_rate() {
        let found = pace(trains(50));
        assert!((0.8 * RATE..1.1 * RATE).contains(&found.rate), "{found:?}");
        assert!(found.share > 0.95, "{found:?}");
    }

    /// Few packets with long pauses pass as a slower link would let them out: only hosts that waited tell that there is no such link.
    #[test]
    fn small_bursts_pass_as_of_a_slower_link() {
        let found = pace(trains(4));
        assert!(found.rate < 0.5 * RATE && found.share > 0.5, "{found:?}");
    }

    /// What enters a buffer that fills comes in bursts: only a faster link would let it out so, and that one is seldom busy.
    #[test]
    fn what_enters_a_buffer_comes_faster() {
        let found = pace((0..40).map(|i| (f64::from(i) * 12.0 * 1500.0 / RATE, 12)));
        assert!(found.rate > 1.3 * RATE && found.share < 0.05, "{found:?}");
        // So do two packets for each that leaves, as at the start of a transfer.
        let start = (0..60).map(|i| (f64::from(i) * 1500.0 / RATE, 2));
        let rest = (60..400).map(|i| (f64::from(i) * 1500.0 / RATE, 1));
        let found = pace(start.chain(rest));
        assert!(found.rate > 1.5 * RATE && found.share < 0.4, "{found:?}");
    }

    #[test]
    fn packets_all_at_once_have_no_pace() {
        let mut spacing = Spacing::default();
        (0..1_000).for_each(|_| spacing.pass(7, 1500));
        assert_eq!(spacing.pace(), None);
        assert!(Spacing::default().pace().is_some_and(|pace| pace.share == 0.0));
    }
}
