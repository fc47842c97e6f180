//! What turns with shaping and without it, compared in pairs, come to, and with which confidence. No side effects.

use pendulum_model::constants::{LITTLE, SLIGHT};
use pendulum_model::findings::{Evidence, Figure};
use pendulum_model::named;
use pendulum_model::segment::{Direction, PerDirection};

use pendulum_wire::{AbTest, Turn};

/// So many pairs make "no difference" worth saying.
const ENOUGH: usize = 5;
/// So much of the score may a shorter round trip cost: a shaper that sends below the link's rate always takes some.
const SCORE_TOLERATED: f64 = 0.05;

/// The mean of one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrialTurn {
    /// Bytes per second.
    pub goodput: PerDirection<f64>,
    /// Seconds.
    pub round_trip: Option<f64>,
}

named! {
    /// What the comparison comes to.
    pub enum TrialOutcome {
        /// Too few turns, or too little traffic.
        Undecided = "undecided",
        /// The interval lies above zero; or packets wait less, and the score has not suffered much.
        Helps = "helps",
        /// It includes zero, and enough turns have been seen.
        NoDifference = "no_difference",
        /// It lies below zero; or packets wait longer.
        Hurts = "hurts",
    }
}

impl TrialOutcome {
    /// Whether enough was seen to say that shaping does not earn its keep.
    pub const fn speaks_against(self) -> bool {
        matches!(self, Self::NoDifference | Self::Hurts)
    }
}

/// The comparison so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Pairs of turns.
    pub pairs: usize,
    /// Mean with shaping.
    pub with: TrialTurn,
    /// Mean without.
    pub without: TrialTurn,
    /// Change of the score by shaping, and half the width of its 95 % interval; none with fewer than two pairs. The
    /// score is download over its mean plus upload over its mean: 2 on average.
    pub change: Option<(f64, f64)>,
    /// Change of the round trip as a share of the mean without shaping, and half the width of its 95 % interval; none with fewer than
    /// two pairs in which it was measured.
    pub delay: Option<(f64, f64)>,
    /// What that comes to.
    pub outcome: TrialOutcome,
}

impl Comparison {
    /// Of pairs of turns: one with shaping, and the one without behind it.
    pub(super) fn of(pairs: &[[TrialTurn; 2]]) -> Self {
        let [with, without] = [0, 1].map(|i| mean(pairs.iter().map(|pair| pair[i])));
        let change = interval(&changes(pairs, &with, &without));
        let delay = interval(&delays(pairs, without.round_trip));
        let (shorter, longer) = delay.map_or((false, false), |(mean, half)| {
            (mean <= -SLIGHT && mean + half < 0.0, mean >= SLIGHT && mean - half > 0.0)
        });
        let outcome = match change {
            Some((mean, half)) if mean - half > 0.0 || shorter && mean >= -SCORE_TOLERATED => {
                TrialOutcome::Helps
            }
            Some((mean, half)) if mean + half < 0.0 || longer => TrialOutcome::Hurts,
            Some(_) if pairs.len() >= ENOUGH => TrialOutcome::NoDifference,
            _ => TrialOutcome::Undecided,
        };
        Self { pairs: pairs.len(), with, without, change, delay, outcome }
    }

    /// Why it is said, with its figures, in base units.
    pub fn evidence(&self, since_s: f64) -> Evidence {
        let mut figures = vec![Figure::new("pairs", self.pairs as f64)];
        if let Some((mean, half)) = self.change {
            figures.push(Figure::new("score_change", mean));
            figures.push(Figure::against("score_change_upper_bound", mean + half, 0.0));
            figures.push(Figure::new("score_change_lower_bound", mean - half));
        }
        if let Some((mean, half)) = self.delay {
            figures.push(Figure::new("rtt_change_ratio", mean));
            figures.push(Figure::new("rtt_change_ratio_upper_bound", mean + half));
        }
        for (turn, names) in [
            (&self.with, ["upload_with_bytes_per_second", "download_with_bytes_per_second", "rtt_with_s"]),
            (
                &self.without,
                ["upload_without_bytes_per_second", "download_without_bytes_per_second", "rtt_without_s"],
            ),
        ] {
            figures.push(Figure::new(names[0], turn.goodput.up));
            figures.push(Figure::new(names[1], turn.goodput.down));
            figures.extend(turn.round_trip.map(|round_trip| Figure::new(names[2], round_trip)));
        }
        Evidence::new("ab_test", self.statement(), figures, since_s)
    }

    /// What is sent of it.
    pub(super) fn sent(&self) -> AbTest {
        let bounds = |(mean, half): (f64, f64)| [mean - half, mean + half];
        let turn = |turn: &TrialTurn| {
            let PerDirection { up, down } = turn.goodput;
            Turn { download_bps: down * 8.0, upload_bps: up * 8.0, rtt_s: turn.round_trip }
        };
        AbTest {
            pairs: self.pairs as u64,
            outcome: self.outcome.name().into(),
            change: self.change.map(|(mean, _)| mean),
            confidence_interval: self.change.map(bounds),
            rtt_change: self.delay.map(|(mean, _)| mean),
            rtt_confidence_interval: self.delay.map(bounds),
            with: turn(&self.with),
            without: turn(&self.without),
            statement: self.statement(),
        }
    }

    /// In words, for people.
    pub fn statement(&self) -> String {
        let Some((mean, half)) = self.change else {
            return format!("{} pairs of A/B intervals with traffic: no result yet", self.pairs);
        };
        let PerDirection { up, down } = PerDirection::from_fn(|x| {
            let kilobits = |turn: &TrialTurn| turn.goodput[x] * 8.0 / 1e3;
            format!("{:.0} kbit/s with and {:.0} without", kilobits(&self.with), kilobits(&self.without))
        });
        let verdict = match self.outcome {
            TrialOutcome::Helps => "shaping helps",
            TrialOutcome::Hurts => "shaping does harm",
            TrialOutcome::NoDifference => "no difference found",
            TrialOutcome::Undecided => "not decided yet",
        };
        let milliseconds = |turn: &TrialTurn| turn.round_trip.map(|round_trip| round_trip * 1e3);
        let delay = match (milliseconds(&self.with), milliseconds(&self.without)) {
            (Some(with), Some(without)) => format!(", round trip {with:.0} ms with and {without:.0} without"),
            _ => String::new(),
        };
        format!(
            "{verdict}: download {down}, upload {up}{delay}; change of the score {mean:+.2} ± {half:.2} (95 % confidence, \
             {} pairs of turns)",
            self.pairs
        )
    }
}

/// Whether there was something to compare.
pub(super) fn is_busy(turn: &TrialTurn) -> bool {
    turn.goodput.both().into_iter().any(|goodput| *goodput > LITTLE)
}

pub(super) fn mean(turns: impl Iterator<Item = TrialTurn> + Clone) -> TrialTurn {
    let average = |values: Vec<f64>| {
        let count = values.len();
        (count > 0).then(|| values.iter().sum::<f64>() / count as f64)
    };
    TrialTurn {
        goodput: PerDirection::from_fn(|x| {
            average(turns.clone().map(|turn| turn.goodput[x]).collect()).unwrap_or(0.0)
        }),
        round_trip: average(turns.filter_map(|turn| turn.round_trip).collect()),
    }
}

fn delays(pairs: &[[TrialTurn; 2]], usual: Option<f64>) -> Vec<f64> {
    let Some(usual) = usual.filter(|usual| *usual > 0.0) else { return Vec::new() };
    let change = |[with, without]: &[TrialTurn; 2]| Some((with.round_trip? - without.round_trip?) / usual);
    pairs.iter().filter_map(change).collect()
}

fn changes(pairs: &[[TrialTurn; 2]], with: &TrialTurn, without: &TrialTurn) -> Vec<f64> {
    let usual = PerDirection::from_fn(|x| f64::midpoint(with.goodput[x], without.goodput[x]));
    let score = |turn: &TrialTurn| {
        let part = |x: Direction| if usual[x] > LITTLE { turn.goodput[x] / usual[x] } else { 0.0 };
        part(Direction::Up) + part(Direction::Down)
    };
    pairs.iter().map(|[with, without]| score(with) - score(without)).collect()
}

/// Mean, and half the width of its 95 % confidence interval by Student's t.
fn interval(values: &[f64]) -> Option<(f64, f64)> {
    /// Two-sided 95 % quantiles for 1, 2, … degrees of freedom.
    const T: [f64; 15] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131,
    ];
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let t = T.get(n - 2).copied().unwrap_or(2.0);
    Some((mean, t * (variance / n as f64).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The goodput of each turn, in kB/s, up and down.
    fn compare(turns: &[[f64; 2]]) -> Comparison {
        let turn = |[up, down]: &[f64; 2]| TrialTurn {
            goodput: PerDirection { up: up * 1e3, down: down * 1e3 },
            round_trip: Some(0.1),
        };
        let pairs: Vec<_> =
            turns.as_chunks().0.iter().map(|pair: &[_; 2]| pair.each_ref().map(turn)).collect();
        Comparison::of(&pairs)
    }

    #[test]
    fn the_pendulum_s_cure_is_seen_after_two_pairs() {
        let comparison =
            compare(&[[20.0, 280.0], [21.0, 40.0], [20.5, 275.0], [21.0, 42.0], [20.0, 280.0], [21.0, 41.0]]);
        assert_eq!((comparison.pairs, comparison.outcome), (3, TrialOutcome::Helps));
        assert!((comparison.with.goodput.down - 278_333.0).abs() < 1.0);
        assert!(
            comparison.statement().starts_with("shaping helps: download 2227 kbit/s with and 328 without")
        );
    }

    #[test]
    fn no_difference_needs_pairs_and_harm_is_named() {
        let even = compare(&[[10.0, 100.0], [10.0, 101.0], [10.0, 101.0], [10.0, 100.0]].repeat(3));
        assert_eq!((even.pairs, even.outcome), (6, TrialOutcome::NoDifference));
        let harm =
            compare(&[[10.0, 50.0], [10.0, 100.0], [10.0, 51.0], [10.0, 100.0], [10.0, 50.0], [10.0, 99.0]]);
        assert_eq!(harm.outcome, TrialOutcome::Hurts);
        let evidence = harm.evidence(7.0);
        assert!(evidence.reason.starts_with("shaping does harm"), "{}", evidence.reason);
        let figure = |name| evidence.figure(name).expect(name);
        assert_eq!((figure("pairs"), evidence.since_s), (3.0, 7.0));
        assert!(figure("score_change_upper_bound") < 0.0);
        assert!(figure("download_with_bytes_per_second") < figure("download_without_bytes_per_second"));
    }

    /// Same goodput but for a hundredth, and packets that wait a third of the time.
    #[test]
    fn a_shorter_wait_is_a_gain_and_a_longer_one_harm() {
        for (with, without, outcome) in [
            (0.03, 0.1, TrialOutcome::Helps),
            (0.1, 0.03, TrialOutcome::Hurts),
            (0.095, 0.1, TrialOutcome::Undecided),
        ] {
            let turn = |x: f64, chance: f64, round_trip: f64| TrialTurn {
                goodput: PerDirection { up: 1e4 * x * chance, down: 1e5 },
                round_trip: Some(round_trip * chance),
            };
            // Now a little less with shaping, now a little more.
            let pairs = [(0.99, 1.0), (1.01, 1.01), (0.985, 0.98)]
                .map(|(share, chance)| [turn(share, chance, with), turn(1.0, chance, without)]);
            assert_eq!(Comparison::of(&pairs).outcome, outcome, "{:?}", Comparison::of(&pairs));
        }
    }

    #[test]
    fn what_is_sent_keeps_the_two_sides_apart() {
        let mut comparison = Comparison {
            pairs: 6,
            with: TrialTurn {
                goodput: PerDirection { up: 20_000.0, down: 250_000.0 },
                round_trip: Some(0.125),
            },
            without: TrialTurn {
                goodput: PerDirection { up: 21_000.0, down: 240_000.0 },
                round_trip: Some(0.25),
            },
            change: Some((0.125, 0.25)),
            delay: Some((-0.5, 0.125)),
            outcome: TrialOutcome::NoDifference,
        };
        let expected = serde_json::json!({
            "pairs": 6,
            "outcome": "no_difference",
            // 0.125 ± 0.25.
            "change": 0.125,
            "confidence_interval": [-0.125, 0.375],
            // Half as long, ± 0.125.
            "rtt_change": -0.5,
            "rtt_confidence_interval": [-0.625, -0.375],
            "with": { "download_bps": 2_000_000.0, "upload_bps": 160_000.0, "rtt_s": 0.125 },
            "without": { "download_bps": 1_920_000.0, "upload_bps": 168_000.0, "rtt_s": 0.25 },
            "statement": "no difference found: download 2000 kbit/s with and 1920 without, upload 160 kbit/s with and 168 \
                          without, round trip 125 ms with and 250 without; change of the score +0.12 ± 0.25 (95 % confidence, 6 pairs of turns)",
        });
        assert_eq!(serde_json::to_value(comparison.sent()).unwrap(), expected);
        comparison.change = None;
        assert_eq!((comparison.sent().change, comparison.sent().confidence_interval), (None, None));
    }

    #[test]
    fn the_interval_is_student_s() {
        // Mean 2, s² = 1, n = 3: 4.303/√3.
        let (mean, half) = interval(&[1.0, 2.0, 3.0]).unwrap();
        assert!((mean - 2.0).abs() < 1e-12 && (half - 2.4843).abs() < 1e-3, "{half}");
    }
}
