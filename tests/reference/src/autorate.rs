//! Closed loops for the shaper's automatic rate, by seed: the controller, cake-autorate's law, and rates given by somebody who knows the link.

pub mod law;
pub mod patterns;
pub mod tcp;
pub mod world;

use std::fmt::Write as _;

use pendulum_model::autorate::Priority;
use pendulum_model::segment::Direction;

use patterns::{KINDS, Kind, SLOT, crowd};
use tcp::Congestion;
use world::{NEAR, Outcome, Remote, Says, Setting, Shaper, WorldConnection, run};

/// Of each case.
const SECONDS: f64 = 60.0;
/// Seeds that rules may be made with, and those that judge them.
const SEEDS: std::ops::Range<u64> = 1..4;
const HELD_OUT: std::ops::Range<u64> = 101..107;
/// The oracle hears of the rate each tenth of a second.
const TOLD: f64 = 0.1;

/// What a shaper reaches: use, and the 95th percentile of the wait in seconds.
pub type Score = (f64, f64);

/// A case of the comparison.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The link.
    pub kind: Kind,
    /// Its seed.
    pub seed: u64,
    /// The direction.
    pub direction: Direction,
}

impl Case {
    fn slots(self) -> Vec<f64> {
        self.kind.slots(self.seed, SECONDS)
    }

    /// Runs it with a shaper.
    pub fn run<'a>(self, slots: &'a [f64], shaper: impl FnOnce() -> Shaper<'a>) -> Outcome {
        let capacity = |at: f64| slots.get((at / SLOT) as usize).copied().unwrap_or(0.0);
        let mean = self.kind.mean(self.seed);
        let setting = Setting {
            direction: self.direction,
            capacity: &capacity,
            buffer: (mean).max(30e3),
            drops_at_head: self.kind.drops_at_head(),
            late: &|_| 0.0,
            sources: crowd(self.seed, mean, SECONDS),
            remotes: vec![NEAR; 3],
            seconds: SECONDS,
        };
        run(&setting, shaper())
    }

    fn ours(self, priority: Priority) -> Score {
        score(&self.run(&self.slots(), || Shaper::ours(self.direction, None, priority)))
    }

    fn reference(self) -> Score {
        let slots = self.slots();
        let each = (1.0 / SLOT) as usize;
        let mut seconds: Vec<f64> =
            slots.chunks(each).map(|it| 8.0 * it.iter().sum::<f64>() / it.len() as f64).collect();
        seconds.truncate(SECONDS as usize);
        let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
        seconds.sort_by(f64::total_cmp);
        let at = |share: f64| seconds[(seconds.len() as f64 * share) as usize];
        let bounds =
            law::RateBounds { min: at(0.1).max(64e3).min(mean / 2.0), base: mean, max: at(0.95).max(mean) };
        score(&self.run(&slots, || Shaper::law(bounds)))
    }

    /// A shaper that knows each tenth of a second what the link just carried, and sends 98 % of it.
    fn oracle(self) -> Score {
        let slots = self.slots();
        let each = (TOLD / SLOT) as usize;
        let told = |at: f64| {
            let tick = (at / TOLD) as usize * each;
            let before = &slots[tick.saturating_sub(each)..tick.max(1)];
            (0.98 * before.iter().sum::<f64>() / before.len() as f64).max(8_000.0)
        };
        score(&self.run(&slots, || Shaper::Given(&told)))
    }
}

fn score(outcome: &Outcome) -> Score {
    (outcome.used(), outcome.wait_p95())
}

/// A case with the scores of ours, the reference and the oracle.
pub type Row = (Case, [Score; 3]);

/// All kinds, directions and seeds; `held_out`: the seeds that no rule was made with.
pub fn rows(held_out: bool) -> Vec<Row> {
    let seeds = if held_out { HELD_OUT } else { SEEDS };
    let mut rows = Vec::new();
    for kind in KINDS {
        for direction in [Direction::Up, Direction::Down] {
            for seed in seeds.clone() {
                let case = Case { kind, seed, direction };
                rows.push((case, [case.ours(Priority::Balanced), case.reference(), case.oracle()]));
            }
        }
    }
    rows
}

/// How often ours is at least as good as the reference in both use and wait, how often worse in both, and how often it has 0.9 of the
/// oracle's use at no longer a wait.
pub fn counts(rows: &[Row]) -> [usize; 3] {
    let count = |is: &dyn Fn(&[Score; 3]) -> bool| rows.iter().filter(|(_, scores)| is(scores)).count();
    [
        count(&|[ours, reference, _]| ours.0 >= reference.0 && ours.1 <= reference.1),
        count(&|[ours, reference, _]| ours.0 < reference.0 && ours.1 > reference.1),
        count(&|[ours, _, oracle]| ours.0 >= 0.9 * oracle.0 && ours.1 <= oracle.1),
    ]
}

/// The table of all kinds: means over the seeds, or `each` case.
pub fn compare(held_out: bool, each: bool) -> String {
    let rows = rows(held_out);
    let mut text = String::new();
    let _ = writeln!(text, "{:26} {:>15} {:>15} {:>15}", "use %, p95 ms", "ours", "reference", "oracle");
    for kind in KINDS {
        for direction in [Direction::Up, Direction::Down] {
            let these: Vec<&Row> =
                rows.iter().filter(|(case, _)| case.kind == kind && case.direction == direction).collect();
            let mut means = [(0.0, 0.0); 3];
            for (case, scores) in &these {
                for (mean, it) in means.iter_mut().zip(scores) {
                    mean.0 += it.0 / these.len() as f64;
                    mean.1 += it.1 / these.len() as f64;
                }
                if each {
                    row(&mut text, &format!("{kind:?} {} {}", direction.name(), case.seed), scores);
                }
            }
            row(&mut text, &format!("{kind:?} {}", direction.name()), &means);
        }
    }
    let [better, worse, like_oracle] = counts(&rows);
    let _ = writeln!(
        text,
        "of {}: better than the reference on both axes in {better}, worse on both in {worse}; 0.9 of the oracle's use at no longer a wait in {like_oracle}",
        rows.len()
    );
    text
}

/// Means of each kind at the three settings of the priority.
pub fn priorities() -> String {
    let mut text =
        format!("{:26} {:>15} {:>15} {:>15}\n", "use %, p95 ms", "latency", "balanced", "throughput");
    for kind in KINDS {
        for direction in [Direction::Up, Direction::Down] {
            let means = [Priority::Latency, Priority::Balanced, Priority::Throughput]
                .map(|priority| mean_of(kind, direction, priority));
            row(&mut text, &format!("{kind:?} {}", direction.name()), &means);
        }
    }
    text
}

/// The mean score of a kind over the held-out seeds.
pub fn mean_of(kind: Kind, direction: Direction, priority: Priority) -> Score {
    let scores = HELD_OUT.map(|seed| Case { kind, seed, direction }.ours(priority));
    let count = HELD_OUT.count() as f64;
    scores.fold((0.0, 0.0), |sum, it| (sum.0 + it.0 / count, sum.1 + it.1 / count))
}

fn row(text: &mut String, what: &str, scores: &[Score]) {
    let _ = write!(text, "{what:26}");
    for (used, wait) in scores {
        let _ = write!(text, " {:>7.1} {:>7.0}", 100.0 * used, 1e3 * wait);
    }
    text.push('\n');
}

/// Of [`far_case`], bytes per second.
pub const LINE: f64 = 1.25e6;

/// A line with a bottleneck of a tenth of it beyond: the far transfer's host and the other one, which start at these times.
pub fn far_case(direction: Direction, says: Says, from: (f64, f64), known: Option<f64>) -> Outcome {
    let source = |host, from| WorldConnection { from, ..WorldConnection::long(Congestion::Cubic, host) };
    let setting = Setting {
        direction,
        capacity: &|_| LINE,
        buffer: 0.5 * LINE,
        drops_at_head: false,
        late: &|_| 0.0,
        sources: vec![source(0, from.0), source(1, from.1)],
        remotes: vec![Remote { says: Says::Both, far: Some(LINE / 10.0) }, Remote { says, far: None }],
        seconds: [from.0, from.1].into_iter().filter(|it| it.is_finite()).fold(0.0, f64::max) + 30.0,
    };
    run(&setting, Shaper::ours(direction, known, Priority::Balanced))
}

/// A constant line with one transfer on it and this buffer, bytes per second and bytes.
pub fn single_case(direction: Direction, line: f64, buffer: f64, congestion: Congestion) -> Outcome {
    let setting = Setting {
        direction,
        capacity: &|_| line,
        buffer,
        drops_at_head: false,
        late: &|_| 0.0,
        sources: vec![WorldConnection::long(congestion, 0)],
        remotes: vec![NEAR],
        seconds: SECONDS,
    };
    run(&setting, Shaper::ours(direction, None, Priority::Balanced))
}

/// One transfer alone on lines of several rates and buffers, as a table.
pub fn single() -> String {
    let mut text = "one transfer: rate least/mean/most in % of the line, use in %, p95 in ms\n".to_owned();
    for direction in [Direction::Up, Direction::Down] {
        for congestion in [Congestion::Reno, Congestion::Cubic] {
            for line in [24.5e3, 98e3, 625e3, 2.5e6] {
                for buffer in [0.3 * line, 1.2 * line] {
                    let outcome = single_case(direction, line, buffer.max(15e3), congestion);
                    let (least, mean, most) = outcome.rate(10.0, SECONDS);
                    let [least, mean, most] = [least, mean, most].map(|rate| 100.0 * rate / line);
                    let _ = writeln!(
                        text,
                        "{:4} {congestion:?} {:>6.0} kbit/s {:>4.0} kB: {least:>6.1} {mean:>6.1} {most:>6.1}; {:>6.1} {:>6.0}",
                        direction.name(),
                        line * 8.0 / 1e3,
                        buffer.max(15e3) / 1e3,
                        100.0 * outcome.used(),
                        1e3 * outcome.wait_p95(),
                    );
                }
            }
        }
    }
    text
}

/// All of those, as a table.
pub fn far() -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "far bottleneck, % of the line: rate least/mean/most while both run; throughput after 3 s, for 1 s; of the rest; rate before"
    );
    for direction in [Direction::Up, Direction::Down] {
        for says in [Says::Both, Says::Acks, Says::Nothing] {
            for (order, from) in
                [("near first", (20.0_f64, 0.0_f64)), ("far first", (0.0, 20.0)), ("together", (0.0, 0.0))]
            {
                for known in [None, Some(LINE)] {
                    let both = from.0.max(from.1);
                    let outcome = far_case(direction, says, from, known);
                    let (least, mean, most) = outcome.rate(both + 5.0, both + 30.0);
                    let _ = writeln!(
                        text,
                        "{:4} {order:10} {:7} {:7}: {:>6.1} {:>6.1} {:>6.1}; {:>6.1}; {:>6.1}; {:>6.1}",
                        direction.name(),
                        format!("{says:?}"),
                        if known.is_some() { "known" } else { "unknown" },
                        100.0 * least / LINE,
                        100.0 * mean / LINE,
                        100.0 * most / LINE,
                        100.0 * outcome.throughput(both + 3.0, both + 4.0) / LINE,
                        100.0 * outcome.throughput(both + 5.0, both + 30.0) / LINE,
                        100.0 * outcome.rate(both - 1.0, both + 0.1).1 / LINE,
                    );
                }
            }
        }
    }
    text
}
