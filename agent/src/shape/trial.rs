//! Turns with and without shaping: for as long as asked, or, with `mode = "auto"`, until they decide whether the link is shaped.

use std::time::{Duration, Instant};

use super::evidence::{Comparison, TrialOutcome, TrialTurn, is_busy, mean};
use crate::config::{ShapeConfig, ShapeMode};

/// After a decision traffic may change: so much later the comparison begins anew.
const HOLDS: Duration = Duration::from_secs(4 * 3_600);
/// The beginning of each turn belongs to the one before: windows and queues have to settle.
const SETTLING: f64 = 0.25;

/// A comparison and what follows from it.
#[derive(Debug)]
pub(super) struct Trial {
    length: Duration,
    decides: bool,
    /// The present turn, or what was decided.
    began: Instant,
    with: bool,
    is_decided: bool,
    readings: Vec<TrialTurn>,
    before: Option<TrialTurn>,
    pairs: Vec<[TrialTurn; 2]>,
}

impl Trial {
    /// Begins with a turn that shapes; none if no comparison is asked for.
    pub(super) fn new(shape: &ShapeConfig, now: Instant) -> Option<Self> {
        Some(Self::begin(shape.turns()?, shape.mode == ShapeMode::Auto, now))
    }

    fn begin(length: Duration, decides: bool, now: Instant) -> Self {
        let (readings, before, pairs) = Default::default();
        Self { length, decides, began: now, with: true, is_decided: false, readings, before, pairs }
    }

    /// Whether the link is shaped at present.
    pub(super) fn shapes(&self) -> bool {
        self.with
    }

    /// Why the link is left alone, if that was decided.
    pub(super) fn declined(&self) -> Option<String> {
        (self.is_decided && !self.with).then(|| self.comparison().statement())
    }

    /// What the turns come to, those behind the decision while it holds.
    pub(super) fn comparison(&self) -> Comparison {
        Comparison::of(&self.pairs)
    }

    /// Takes a second's figures; whether a turn is over, or a decision no longer holds.
    pub(super) fn observe(&mut self, now: Instant, reading: TrialTurn) -> bool {
        let age = now.duration_since(self.began);
        if self.is_decided {
            let is_over = age >= HOLDS;
            if is_over {
                *self = Self::begin(self.length, self.decides, now);
            }
            return is_over;
        }
        if age.as_secs_f64() >= self.length.as_secs_f64() * SETTLING {
            self.readings.push(reading);
        }
        if age < self.length {
            return false;
        }
        let turn = mean(std::mem::take(&mut self.readings).into_iter());
        match (self.with, self.before.take()) {
            (true, _) => self.before = Some(turn),
            (false, Some(with)) if is_busy(&with) || is_busy(&turn) => self.pairs.push([with, turn]),
            (false, _) => {}
        }
        (self.began, self.with) = (now, !self.with);
        let outcome = self.comparison().outcome;
        if self.decides && outcome != TrialOutcome::Undecided {
            (self.is_decided, self.with) = (true, outcome == TrialOutcome::Helps);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use pendulum_model::segment::PerDirection;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct TrialRun {
        trial: Trial,
        now: Instant,
    }

    impl TrialRun {
        fn new(mode: ShapeMode) -> Self {
            let now = Instant::now();
            let shape = ShapeConfig { mode, ab_test: Some(10 * SECOND), ..ShapeConfig::default() };
            Self { trial: Trial::new(&shape, now).expect("a comparison"), now }
        }

        /// Turns whose downloads are reported for shaping and without it, kB/s, until something was decided; their number.
        fn until_decided(&mut self, with: f64, without: f64) -> usize {
            for turn in 0..20 {
                // Some chance, lest the interval have no width.
                let chance = [1.0, 1.02, 0.99, 1.01][turn % 4];
                for _ in 0..10 {
                    self.now += SECOND;
                    let kilobytes = chance * if self.trial.shapes() { with } else { without };
                    let reading = TrialTurn {
                        goodput: PerDirection { up: 1e4, down: kilobytes * 1e3 },
                        round_trip: Some(0.1),
                    };
                    self.trial.observe(self.now, reading);
                    if self.trial.is_decided {
                        return turn + 1;
                    }
                }
            }
            panic!("nothing was decided: {:?}", self.trial);
        }

        fn hold(&mut self, span: Duration) -> bool {
            self.now += span;
            self.trial.observe(self.now, TrialTurn::default())
        }
    }

    #[test]
    fn auto_shapes_where_it_helps_and_asks_again() {
        let mut run = TrialRun::new(ShapeMode::Auto);
        assert!(run.trial.shapes(), "it begins with a turn that shapes");
        assert_eq!(run.until_decided(280.0, 40.0), 4, "two pairs");
        assert_eq!((run.trial.shapes(), run.trial.declined()), (true, None));
        assert!(!run.hold(HOLDS - SECOND) && run.trial.is_decided);
        assert!(run.hold(SECOND) && !run.trial.is_decided, "the traffic may be another");
        assert_eq!(run.trial.comparison().pairs, 0);
    }

    /// A turn of ten seconds has two readings before a quarter of it is over, which show what the turn before left.
    #[test]
    fn what_the_turn_before_left_is_no_part_of_a_turn() {
        let busy = PerDirection { up: 1e4, down: 1e5 };
        let mut run = TrialRun::new(ShapeMode::Auto);
        for second in 1..=20 {
            run.now += SECOND;
            let settles = second % 10 == 1 || second % 10 == 2;
            let goodput = if settles { PerDirection::default() } else { busy };
            run.trial.observe(run.now, TrialTurn { goodput, round_trip: Some(0.1) });
        }
        let [pair] = run.trial.pairs.as_slice() else { panic!("{:?}", run.trial) };
        assert_eq!(pair.map(|turn| turn.goodput), [busy; 2]);
    }

    #[test]
    fn auto_leaves_a_link_alone_where_it_does_not_help() {
        for (with, without) in [(100.0, 100.0), (80.0, 100.0)] {
            let mut run = TrialRun::new(ShapeMode::Auto);
            run.until_decided(with, without);
            let reason = run.trial.declined().expect("a reason");
            assert!(!run.trial.shapes() && reason.contains("pairs of turns"), "{reason}");
            // And shapes again for the next comparison.
            assert!(run.hold(HOLDS) && run.trial.shapes() && run.trial.declined().is_none());
        }
    }

    #[test]
    fn what_is_enforced_is_compared_without_end() {
        let mut run = TrialRun::new(ShapeMode::Enforce);
        let mut turns = Vec::new();
        for _ in 0..120 {
            turns.push(run.trial.shapes());
            run.now += SECOND;
            let kilobytes = if run.trial.shapes() { 280.0 } else { 40.0 };
            run.trial.observe(
                run.now,
                TrialTurn { goodput: PerDirection { up: 1e4, down: kilobytes * 1e3 }, round_trip: None },
            );
        }
        assert!(turns.chunks(10).enumerate().all(|(turn, part)| part == [turn % 2 == 0; 10]));
        assert!(Trial::new(&ShapeConfig::default(), run.now).is_none());
    }

    #[test]
    fn idle_turns_are_no_evidence() {
        let mut run = TrialRun::new(ShapeMode::Enforce);
        for _ in 0..80 {
            run.hold(SECOND);
        }
        assert_eq!(
            (run.trial.comparison().pairs, run.trial.comparison().outcome),
            (0, TrialOutcome::Undecided)
        );
    }
}
