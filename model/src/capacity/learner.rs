//! The rate of a link from what passes while its buffer holds a queue.

use std::time::Duration;

use super::service::{SUSTAINED_BYTES, SUSTAINED_NS, ServiceRate};
use crate::constants::HALF;
use crate::sample::MeasuredRate;

/// A stretch with fewer bytes says too little: a packet more or less at its ends is part of its error.
const PIECE_BYTES: u64 = (HALF * SUSTAINED_BYTES) as u64;

/// A long stretch is cut into pieces of this length, so that old ones can leave the window.
const PIECE: Duration = Duration::from_nanos((HALF * SUSTAINED_NS) as u64);

/// Learns one direction's rate: what passes while the buffer holds a queue *is* the rate. It follows the rate up and down.
///
/// A buffer that cannot be seen teaches nothing: what passes then is a lower bound at best, and no bound at all if it
/// was counted in front of the buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct CapacityLearner {
    service: ServiceRate,
    /// While a queue is known to stand.
    standing: Option<Stretch>,
}

/// What a standing queue let through.
#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: u64,
    span: Duration,
}

/// The part of the present stretch that is in no piece yet.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: Duration,
    to: Duration,
    /// Bytes after `from`, up to and with those at `to`.
    bytes: u64,
    /// The first and the last bytes of the stretch. A packet takes its time before it is counted (tbf saves tokens for it)
    /// or after it (hfsc), so that at one of the ends of the stretch it does not belong to the time between them.
    first: u64,
    last: u64,
    /// What the pieces of this stretch have left out for that reason.
    left_out: u64,
}

impl Stretch {
    const fn begin(at: Duration, bytes: u64) -> Self {
        Self { from: at, to: at, bytes: 0, first: bytes, last: bytes, left_out: 0 }
    }

    /// All between the first and the last packet less the larger of the two, as far as pieces have not left it out yet.
    fn piece(&self) -> Piece {
        let bytes = (self.bytes + self.left_out).saturating_sub(self.beyond_first());
        Piece { bytes, span: self.to.saturating_sub(self.from) }
    }

    /// By how much the last packet is larger than the first, which is left out anyway.
    const fn beyond_first(&self) -> u64 {
        self.last.saturating_sub(self.first)
    }
}

impl CapacityLearner {
    /// Takes in one interval: bytes on the wire, and whether a queue is known to stand.
    pub(crate) fn push(&mut self, at: Duration, wire_bytes: u64, stands: bool) {
        if !stands {
            if let Some(stretch) = self.standing.take() {
                self.take(stretch.to, stretch.piece());
            }
            return;
        }
        if wire_bytes == 0 {
            return;
        }
        let Some(stretch) = &mut self.standing else {
            self.standing = Some(Stretch::begin(at, wire_bytes));
            return;
        };
        stretch.to = at;
        stretch.last = wire_bytes;
        stretch.bytes = stretch.bytes.saturating_add(wire_bytes);
        let piece = stretch.piece();
        if piece.span >= PIECE && piece.bytes >= PIECE_BYTES {
            stretch.left_out = stretch.beyond_first();
            (stretch.from, stretch.bytes) = (at, 0);
            self.take(at, piece);
        }
    }

    fn take(&mut self, end: Duration, piece: Piece) {
        if piece.bytes >= PIECE_BYTES {
            self.service.add(end.as_nanos() as f64, piece.span.as_nanos() as f64, piece.bytes as f64);
        }
    }

    /// The rate, and the newest moment at which the queue stood; `None` until it has stood for long enough.
    pub(crate) fn rate(&self) -> Option<MeasuredRate> {
        self.service.rate().map(|rate| MeasuredRate {
            bytes_per_second: rate * 1e9,
            measured_at: Duration::from_nanos(self.service.newest_ns() as u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link of `rate` bytes per second that is looked at every 10 ms.
    fn run(learner: &mut CapacityLearner, from_s: f64, to_s: f64, rate: u64, stands: bool) {
        let (from, to) = ((from_s * 100.0) as u64, (to_s * 100.0) as u64);
        for step in from + 1..=to {
            learner.push(Duration::from_millis(10 * step), rate / 100, stands);
        }
    }

    fn value(learner: &CapacityLearner) -> f64 {
        learner.rate().expect("a queue that stood").bytes_per_second
    }

    #[test]
    fn learns_while_the_queue_stands() {
        let mut learner = CapacityLearner::default();
        run(&mut learner, 0.0, 5.0, 50_000, false);
        assert_eq!(learner.rate(), None);
        run(&mut learner, 5.0, 10.0, 24_500, true);
        assert!((value(&learner) - 24_500.0).abs() < 1.0, "{}", value(&learner));
        // What passes without a queue changes nothing, and does not make the rate newer.
        run(&mut learner, 10.0, 60.0, 3_000, false);
        let known = learner.rate().expect("still known");
        let age = Duration::from_secs(10) - known.measured_at;
        assert!(age < PIECE, "{age:?}");
        assert!((known.bytes_per_second - 24_500.0).abs() < 1.0);
    }

    /// The rate needs a second of a standing queue and 32 frames: 48,448 bytes are two seconds of 24,500 bytes each.
    #[test]
    fn says_nothing_before_it_knows() {
        let mut learner = CapacityLearner::default();
        run(&mut learner, 0.0, 1.9, 24_500, true);
        assert_eq!(learner.rate(), None);
        run(&mut learner, 1.9, 3.1, 24_500, true);
        assert!(learner.rate().is_some());
        let mut fast = CapacityLearner::default();
        run(&mut fast, 0.0, 0.9, 1_250_000, true);
        assert_eq!(fast.rate(), None);
        run(&mut fast, 0.9, 1.1, 1_250_000, true);
        assert!(fast.rate().is_some());
    }

    /// Up and down: after 20 s of the new rate it is right within 5 %, whatever was before.
    #[test]
    fn follows_a_link_whose_rate_changes() {
        for (before, after) in
            [(100_000, 50_000), (50_000, 100_000), (2_500_000, 25_000), (25_000, 2_500_000)]
        {
            let mut learner = CapacityLearner::default();
            run(&mut learner, 0.0, 300.0, before, true);
            assert!((value(&learner) / before as f64 - 1.0).abs() < 0.001);
            run(&mut learner, 300.0, 320.0, after, true);
            let found = value(&learner) / after as f64;
            assert!((found - 1.0).abs() < 0.05, "{before} to {after}: {found}");
        }
    }

    /// A frame takes many intervals, and a second holds 16 or 17 of them.
    #[test]
    fn the_frames_of_a_slow_link_are_no_steps_of_its_rate() {
        for (rate, frame) in [(25_000.0, 1_514), (3_000.0, 1_514), (25_000.0, 66), (1_250_000.0, 1_514)] {
            let mut learner = CapacityLearner::default();
            let mut left = 0;
            for step in 1..=2_500 {
                let due = (f64::from(step) / 100.0 * rate) as u64 / frame;
                learner.push(Duration::from_millis(10 * step as u64), (due - left) * frame, true);
                left = due;
            }
            let found = value(&learner) / rate;
            assert!((0.99..=1.01).contains(&found), "{rate} B/s, frames of {frame}: {found}");
        }
    }

    /// A queue that comes and goes: 1.2 s of 2.5 s, full rate while it stands, a third of it else.
    #[test]
    fn stretches_add_up() {
        let mut learner = CapacityLearner::default();
        for step in 1..=4_000u64 {
            let stands = step % 250 < 120;
            let bytes = if stands { 3_000 } else { 1_000 };
            learner.push(Duration::from_millis(10 * step), bytes, stands);
        }
        assert!((value(&learner) - 300_000.0).abs() < 1.0, "{}", value(&learner));
    }

    /// An ACK of 66 bytes leaves first and a frame of 1,514 last, or the other way round: half a frame more or less is
    /// no more than a frame in the sum. 300 ms of 1,000,000 bytes/s: 300,000 bytes, 0.5 %.
    #[test]
    fn the_ends_of_a_stretch_are_no_part_of_the_rate() {
        for (first, last) in [(66, 1_514), (1_514, 66)] {
            let mut learner = CapacityLearner::default();
            for stretch in 0..10u64 {
                for step in 0..=30u64 {
                    let bytes = match step {
                        0 => first,
                        30 => last,
                        _ => 10_000,
                    };
                    learner.push(Duration::from_millis(1_000 * stretch + 10 * step + 10), bytes, true);
                }
                learner.push(Duration::from_millis(1_000 * stretch + 320), 500, false);
            }
            // 29 · 10,000 bytes between the ends and the smaller of the two.
            let expected = (29.0 * 10_000.0 + 66.0) / 0.3;
            assert!((value(&learner) - expected).abs() < 1e-6, "{first}: {}", value(&learner));
        }
    }

    /// Stretches of two frames are all ends.
    #[test]
    fn short_stretches_teach_nothing() {
        let mut learner = CapacityLearner::default();
        for step in 1..=5_000u64 {
            learner.push(Duration::from_millis(10 * step), 1_514, step % 3 != 0);
        }
        assert_eq!(learner.rate(), None);
    }
}
