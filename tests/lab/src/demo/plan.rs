//! What the demo runs, and when: one download throughout, and uploads that join it.

use std::time::Duration;

use pendulum_model::segment::Direction;

use crate::traffic::TransferSpec;

/// A stretch of the demo, in which the traffic stays the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    /// What it is called above its part of the time line.
    pub(super) label: &'static str,
    /// What runs, in a sentence.
    pub(super) traffic: &'static str,
    /// How many uploads run beside the download.
    pub(super) uploads: u32,
    pub(super) from: Duration,
    pub(super) to: Duration,
}

impl Stretch {
    /// Left out at its begin: slow start, and the filling of a 30,000-byte buffer at 196 kb/s (1.2 s, and several round trips
    /// of that length).
    const SETTLING_SHARE: f64 = 0.35;

    /// Where the part that is measured begins.
    pub(super) fn settled(&self) -> Duration {
        self.from + (self.to - self.from).mul_f64(Self::SETTLING_SHARE)
    }
}

/// The whole demo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DemoPlan {
    pub(super) stretches: [Stretch; 3],
}

/// Label, sentence, usual seconds; the number of uploads is the place in the list.
const STRETCHES: [(&str, &str, f64); 3] = [
    ("download alone", "one download", 25.0),
    ("+ one upload", "one download and one upload", 30.0),
    ("+ two uploads", "one download and two uploads", 30.0),
];

impl DemoPlan {
    /// Traffic time unless configured otherwise.
    pub(super) const USUAL: Duration = Duration::from_secs(85);
    /// Below this the buffers hardly fill before the measurement begins.
    pub(super) const SHORTEST: Duration = Duration::from_secs(30);
    /// Transfers are ended from outside; until then they must not end by themselves.
    const MARGIN: Duration = Duration::from_secs(60);

    /// All stretches together take `total`.
    pub(super) fn new(total: Duration) -> Self {
        let scale = total.as_secs_f64() / STRETCHES.iter().map(|(_, _, seconds)| seconds).sum::<f64>();
        let mut from = Duration::ZERO;
        let mut uploads = 0;
        let stretches = STRETCHES.map(|(label, traffic, seconds)| {
            let to = from + Duration::from_secs_f64(seconds * scale);
            let stretch = Stretch { label, traffic, uploads, from, to };
            (from, uploads) = (to, uploads + 1);
            stretch
        });
        Self { stretches }
    }

    pub(super) fn total(&self) -> Duration {
        self.stretches[2].to
    }

    /// Index of the stretch at a moment; the last one afterwards.
    pub(super) fn at(&self, elapsed: Duration) -> usize {
        self.stretches.iter().position(|stretch| elapsed < stretch.to).unwrap_or(self.stretches.len() - 1)
    }

    /// The transfers and when each starts: the download with the first stretch, an upload with each other.
    pub(super) fn transfers(&self) -> [(Duration, TransferSpec); 3] {
        self.stretches.map(|stretch| {
            let direction = if stretch.uploads == 0 { Direction::Down } else { Direction::Up };
            (stretch.from, TransferSpec::new(direction, self.total() - stretch.from + Self::MARGIN))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_follow_each_other_and_share_the_time() {
        for seconds in [30, 85, 600] {
            let plan = DemoPlan::new(Duration::from_secs(seconds));
            assert!(plan.total().abs_diff(Duration::from_secs(seconds)) < Duration::from_millis(1));
            assert!(plan.stretches.windows(2).all(|pair| pair[0].to == pair[1].from));
            assert!(plan.stretches.iter().all(|s| s.settled() > s.from && s.settled() < s.to));
            assert_eq!(plan.at(Duration::ZERO), 0);
            assert_eq!(plan.at(plan.stretches[1].from), 1);
            assert_eq!(plan.at(plan.total() * 2), 2);
        }
    }

    #[test]
    fn the_download_runs_throughout_and_uploads_join() {
        let plan = DemoPlan::new(DemoPlan::USUAL);
        let transfers = plan.transfers();
        let directions = transfers.each_ref().map(|(_, spec)| spec.direction);
        assert_eq!(directions, [Direction::Down, Direction::Up, Direction::Up]);
        assert!(transfers.iter().all(|(at, spec)| *at + spec.duration > plan.total()));
    }
}
