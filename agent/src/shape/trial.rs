//! Turns with and without shaping: for as long as asked, or, with `mode = "auto"`, until they decide whether the link is shaped.

use std::time::{Duration, Instant};

use super::evidence::{AbTest, ShapeReading};
use crate::config::{ShapeConfig, ShapeMode};
use crate::snapshot::{Comparison, Outcome};

/// After a decision traffic may change: so much later the comparison begins anew.
const HOLDS: Duration = Duration::from_secs(4 * 3_600);

/// A comparison and what follows from it.
#[derive(Debug)]
pub(super) struct Trial {
    length: Duration,
    decides: bool,
    test: AbTest,
    decided: Option<Decision>,
}

#[derive(Debug)]
struct Decision {
    at: Instant,
    comparison: Comparison,
}

impl Trial {
    /// Begins with a turn that shapes; none if no comparison is asked for.
    pub(super) fn new(shape: &ShapeConfig, now: Instant) -> Option<Self> {
        let length = shape.turns()?;
        let decides = shape.mode == ShapeMode::Auto;
        Some(Self { length, decides, test: AbTest::new(length, now), decided: None })
    }

    /// Whether the link is shaped at present.
    pub(super) fn shapes(&self) -> bool {
        match &self.decided {
            Some(decision) => decision.comparison.outcome == Outcome::Helps,
            None => self.test.shapes(),
        }
    }

    /// Why the link is left alone, if that was decided.
    pub(super) fn declined(&self) -> Option<String> {
        self.decided.as_ref().filter(|_| !self.shapes()).map(|decision| decision.comparison.statement())
    }

    /// What the turns come to, those behind the decision while it holds.
    pub(super) fn comparison(&self) -> Comparison {
        self.decided.as_ref().map_or_else(|| self.test.comparison(), |decision| decision.comparison.clone())
    }

    /// Takes a second's figures; whether a turn is over, or a decision no longer holds.
    pub(super) fn observe(&mut self, now: Instant, reading: ShapeReading) -> bool {
        match &self.decided {
            Some(decision) if now.duration_since(decision.at) < HOLDS => false,
            Some(_) => {
                self.decided = None;
                self.test = AbTest::new(self.length, now);
                true
            }
            None => {
                let over = self.test.observe(now, reading);
                if over && self.decides {
                    let comparison = self.test.comparison();
                    let is_clear = comparison.outcome != Outcome::Undecided;
                    self.decided = is_clear.then_some(Decision { at: now, comparison });
                }
                over
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct Run {
        trial: Trial,
        now: Instant,
    }

    impl Run {
        fn new(mode: ShapeMode) -> Self {
            let now = Instant::now();
            let shape = ShapeConfig { mode, ab_test: Some(10 * SECOND), ..ShapeConfig::default() };
            Self { trial: Trial::new(&shape, now).expect("a comparison"), now }
        }

        /// Turns whose downloads are told for shaping and without it, kB/s, until something was decided; their number.
        fn until_decided(&mut self, with: f64, without: f64) -> usize {
            for turn in 0..20 {
                // Some chance, lest the interval have no width.
                let chance = [1.0, 1.02, 0.99, 1.01][turn % 4];
                for _ in 0..10 {
                    self.now += SECOND;
                    let kilobytes = chance * if self.trial.shapes() { with } else { without };
                    let reading = ShapeReading { goodput: [1e4, kilobytes * 1e3], round_trip: Some(0.1) };
                    self.trial.observe(self.now, reading);
                    if self.trial.decided.is_some() {
                        return turn + 1;
                    }
                }
            }
            panic!("nothing was decided: {:?}", self.trial);
        }

        fn hold(&mut self, span: Duration) -> bool {
            self.now += span;
            self.trial.observe(self.now, ShapeReading::default())
        }
    }

    #[test]
    fn auto_shapes_where_it_helps_and_asks_again() {
        let mut run = Run::new(ShapeMode::Auto);
        assert!(run.trial.shapes(), "it begins with a turn that shapes");
        assert_eq!(run.until_decided(280.0, 40.0), 4, "two pairs");
        assert_eq!((run.trial.shapes(), run.trial.declined()), (true, None));
        assert!(!run.hold(HOLDS - SECOND) && run.trial.decided.is_some());
        assert!(run.hold(SECOND) && run.trial.decided.is_none(), "the traffic may be another");
        assert_eq!(run.trial.comparison().pairs, 0);
    }

    #[test]
    fn auto_leaves_a_link_alone_where_it_does_not_help() {
        for (with, without) in [(100.0, 100.0), (80.0, 100.0)] {
            let mut run = Run::new(ShapeMode::Auto);
            run.until_decided(with, without);
            let reason = run.trial.declined().expect("a reason");
            assert!(!run.trial.shapes() && reason.contains("pairs of turns"), "{reason}");
            // And shapes again for the next comparison.
            assert!(run.hold(HOLDS) && run.trial.shapes() && run.trial.declined().is_none());
        }
    }

    #[test]
    fn what_is_enforced_is_compared_without_end() {
        let mut run = Run::new(ShapeMode::Enforce);
        let mut turns = Vec::new();
        for _ in 0..120 {
            turns.push(run.trial.shapes());
            run.now += SECOND;
            let kilobytes = if run.trial.shapes() { 280.0 } else { 40.0 };
            run.trial.observe(run.now, ShapeReading { goodput: [1e4, kilobytes * 1e3], round_trip: None });
        }
        assert!(turns.chunks(10).enumerate().all(|(turn, part)| part == [turn % 2 == 0; 10]));
        assert!(Trial::new(&ShapeConfig::default(), run.now).is_none());
    }
}
