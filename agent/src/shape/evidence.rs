//! Does shaping help? Turns with and without it, compared in pairs, and what can be said with which confidence.

use std::time::{Duration, Instant};

use pendulum_model::findings::{Evidence, Figure};

use crate::snapshot::{Comparison, Outcome, Turn};

/// What one second showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShapeReading {
    /// Payload acknowledged, uplink and downlink, bytes per second.
    pub goodput: [f64; 2],
    /// Mean round trip of both sides together, seconds.
    pub round_trip: Option<f64>,
}

/// So many pairs make "no difference" worth saying.
const ENOUGH: usize = 5;
/// A change of the round trip by less than this share is not worth a word.
const DELAY_WORTH: f64 = 0.1;
/// So much of the score may a shorter round trip cost: a shaper that sends below the link's rate always takes some.
const SCORE_TOLERATED: f64 = 0.05;
/// The beginning of each turn belongs to the one before: windows and queues have to settle.
const SETTLING: f64 = 0.25;
/// Below this there is nothing to compare, bytes per second.
const IDLE: f64 = 1_000.0;

/// Turns with shaping and without it.
#[derive(Debug)]
pub(super) struct AbTest {
    length: Duration,
    began: Instant,
    with: bool,
    readings: Vec<ShapeReading>,
    before: Option<Turn>,
    pairs: Vec<[Turn; 2]>,
}

impl AbTest {
    /// Begins with a turn that shapes.
    pub(super) fn new(length: Duration, now: Instant) -> Self {
        Self { length, began: now, with: true, readings: Vec::new(), before: None, pairs: Vec::new() }
    }

    /// Whether the present turn shapes.
    pub(super) fn shapes(&self) -> bool {
        self.with
    }

    /// Takes a second's figures; whether the turn is over and the other one begins.
    pub(super) fn observe(&mut self, now: Instant, reading: ShapeReading) -> bool {
        let age = now.duration_since(self.began);
        if age.as_secs_f64() >= self.length.as_secs_f64() * SETTLING {
            self.readings.push(reading);
        }
        if age < self.length {
            return false;
        }
        let turn = mean(&std::mem::take(&mut self.readings));
        // A pair is a turn with and the one without after it.
        match (self.with, self.before.take()) {
            (true, _) => self.before = Some(turn),
            (false, Some(with)) if busy(&with) || busy(&turn) => self.pairs.push([with, turn]),
            (false, _) => {}
        }
        self.with = !self.with;
        self.began = now;
        true
    }

    /// What the turns so far come to.
    pub(super) fn comparison(&self) -> Comparison {
        let [with, without] = [0, 1].map(|i| mean_of_turns(self.pairs.iter().map(|pair| pair[i])));
        let change = interval(&self.changes(&with, &without));
        let delay = interval(&self.delays(without.round_trip));
        let (shorter, longer) = delay.map_or((false, false), |(mean, half)| {
            (mean <= -DELAY_WORTH && mean + half < 0.0, mean >= DELAY_WORTH && mean - half > 0.0)
        });
        let outcome = match change {
            Some((mean, half)) if mean - half > 0.0 || shorter && mean >= -SCORE_TOLERATED => Outcome::Helps,
            Some((mean, half)) if mean + half < 0.0 || longer => Outcome::Hurts,
            Some(_) if self.pairs.len() >= ENOUGH => Outcome::NoDifference,
            _ => Outcome::Undecided,
        };
        Comparison { pairs: self.pairs.len(), with, without, change, delay, outcome }
    }

    fn delays(&self, usual: Option<f64>) -> Vec<f64> {
        let Some(usual) = usual.filter(|usual| *usual > 0.0) else { return Vec::new() };
        let pairs = self.pairs.iter();
        pairs.filter_map(|[with, without]| Some((with.round_trip? - without.round_trip?) / usual)).collect()
    }

    fn changes(&self, with: &Turn, without: &Turn) -> Vec<f64> {
        let usual = [0, 1].map(|x| f64::midpoint(with.goodput[x], without.goodput[x]));
        let score = |turn: &Turn| {
            let part = |x: usize| if usual[x] > IDLE { turn.goodput[x] / usual[x] } else { 0.0 };
            part(0) + part(1)
        };
        self.pairs.iter().map(|[with, without]| score(with) - score(without)).collect()
    }
}

impl Comparison {
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
            figures.push(Figure::new(names[0], turn.goodput[0]));
            figures.push(Figure::new(names[1], turn.goodput[1]));
            figures.extend(turn.round_trip.map(|round_trip| Figure::new(names[2], round_trip)));
        }
        Evidence {
            rule: "ab_test",
            reason: self.statement(),
            figures,
            since_s,
            held_since_s: None,
            missing: Vec::new(),
        }
    }

    /// In words, for people.
    pub fn statement(&self) -> String {
        let Some((mean, half)) = self.change else {
            return format!("{} pairs of A/B intervals with traffic: no result yet", self.pairs);
        };
        let [up, down] = [0, 1].map(|x| {
            let kilobits = |turn: &Turn| turn.goodput[x] * 8.0 / 1e3;
            format!("{:.0} kbit/s with and {:.0} without", kilobits(&self.with), kilobits(&self.without))
        });
        let verdict = match self.outcome {
            Outcome::Helps => "shaping helps",
            Outcome::Hurts => "shaping does harm",
            Outcome::NoDifference => "no difference found",
            Outcome::Undecided => "not decided yet",
        };
        let milliseconds = |turn: &Turn| turn.round_trip.map(|round_trip| round_trip * 1e3);
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

fn busy(turn: &Turn) -> bool {
    turn.goodput.iter().any(|goodput| *goodput > IDLE)
}

fn mean(readings: &[ShapeReading]) -> Turn {
    mean_of_turns(readings.iter().map(|r| Turn { goodput: r.goodput, round_trip: r.round_trip }))
}

fn mean_of_turns(turns: impl Iterator<Item = Turn> + Clone) -> Turn {
    let average = |values: Vec<f64>| {
        let count = values.len();
        (count > 0).then(|| values.iter().sum::<f64>() / count as f64)
    };
    Turn {
        goodput: [0, 1].map(|x| average(turns.clone().map(|turn| turn.goodput[x]).collect()).unwrap_or(0.0)),
        round_trip: average(turns.filter_map(|turn| turn.round_trip).collect()),
    }
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

    const SECOND: Duration = Duration::from_secs(1);

    /// Turns of ten seconds; the goodput of each turn, in kB/s, up and down.
    fn run(turns: &[[f64; 2]]) -> AbTest {
        let start = Instant::now();
        let mut test = AbTest::new(10 * SECOND, start);
        let mut now = start;
        for goodput in turns {
            for second in 1..=10 {
                now += SECOND;
                let reading =
                    ShapeReading { goodput: goodput.map(|kilobytes| kilobytes * 1e3), round_trip: Some(0.1) };
                assert_eq!(test.observe(now, reading), second == 10);
            }
        }
        test
    }

    #[test]
    fn turns_alternate_and_the_first_shapes() {
        let test = run(&[[1.0, 1.0]]);
        assert!(!test.shapes());
        assert!(run(&[[1.0, 1.0]; 2]).shapes());
        assert_eq!(test.comparison().outcome, Outcome::Undecided);
        assert_eq!(test.comparison().change, None);
    }

    #[test]
    fn the_pendulum_s_cure_is_seen_after_two_pairs() {
        let test =
            run(&[[20.0, 280.0], [21.0, 40.0], [20.5, 275.0], [21.0, 42.0], [20.0, 280.0], [21.0, 41.0]]);
        let comparison = test.comparison();
        assert_eq!((comparison.pairs, comparison.outcome), (3, Outcome::Helps));
        assert!((comparison.with.goodput[1] - 278_333.0).abs() < 1.0);
        assert!(
            comparison.statement().starts_with("shaping helps: download 2227 kbit/s with and 328 without")
        );
    }

    #[test]
    fn no_difference_needs_pairs_and_harm_is_named() {
        let even = run(&[[10.0, 100.0], [10.0, 101.0], [10.0, 101.0], [10.0, 100.0]].repeat(3));
        assert_eq!((even.comparison().pairs, even.comparison().outcome), (6, Outcome::NoDifference));
        let harm =
            run(&[[10.0, 50.0], [10.0, 100.0], [10.0, 51.0], [10.0, 100.0], [10.0, 50.0], [10.0, 99.0]]);
        assert_eq!(harm.comparison().outcome, Outcome::Hurts);
        let evidence = harm.comparison().evidence(7.0);
        assert!(evidence.reason.starts_with("shaping does harm"), "{}", evidence.reason);
        let figure = |name| evidence.figures.iter().find(|figure| figure.name == name).expect(name);
        assert_eq!((figure("pairs").value, evidence.since_s), (3.0, 7.0));
        assert!(figure("score_change_upper_bound").value < 0.0);
        assert!(
            figure("download_with_bytes_per_second").value
                < figure("download_without_bytes_per_second").value
        );
    }

    /// Same goodput but for a hundredth, and packets that wait a third of the time.
    #[test]
    fn a_shorter_wait_is_a_gain_and_a_longer_one_harm() {
        for (with, without, outcome) in
            [(0.03, 0.1, Outcome::Helps), (0.1, 0.03, Outcome::Hurts), (0.095, 0.1, Outcome::Undecided)]
        {
            let mut test = AbTest::new(SECOND, Instant::now());
            for (pair, chance) in [1.0, 1.01, 0.98].into_iter().enumerate() {
                let turn = |x: f64, round_trip: f64| Turn {
                    goodput: [1e4 * x * chance, 1e5],
                    round_trip: Some(round_trip * chance),
                };
                // Now a little less with shaping, now a little more.
                let share = [0.99, 1.01, 0.985][pair];
                test.pairs.push([turn(share, with), turn(1.0, without)]);
            }
            assert_eq!(test.comparison().outcome, outcome, "{:?}", test.comparison());
        }
    }

    #[test]
    fn idle_turns_are_no_evidence() {
        assert_eq!(run(&[[0.1, 0.1]; 8]).comparison().pairs, 0);
    }

    #[test]
    fn the_interval_is_student_s() {
        // Mean 2, s² = 1, n = 3: 4.303/√3.
        let (mean, half) = interval(&[1.0, 2.0, 3.0]).unwrap();
        assert!((mean - 2.0).abs() < 1e-12 && (half - 2.4843).abs() < 1e-3, "{half}");
    }
}
