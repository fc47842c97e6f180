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
use world::{NEAR, Outcome, PROPAGATION, Remote, Says, Setting, Shaper, WorldConnection, run};

/// Of each case.
pub const SECONDS: f64 = 60.0;
/// Seeds that rules may be made with, and those that judge them.
const SEEDS: std::ops::Range<u64> = 1..4;
const HELD_OUT: std::ops::Range<u64> = 101..107;
/// The rules for traffic with QUIC were made with the latter; these judge them.
const HELD_OUT_QUIC: std::ops::Range<u64> = 201..207;
/// How many seeds judge each.
pub const SEEDS_HELD_OUT: u64 = HELD_OUT.end - HELD_OUT.start;
/// The oracle hears of the rate each tenth of a second.
const TOLD: f64 = 0.1;

/// Parameters of the reference that are tried.
const DELAYS_S: [f64; 5] = [0.005, 0.01, 0.015, 0.03, 0.06];
const DETECTIONS: [usize; 2] = [2, 3];
const RISES: [f64; 3] = [1.02, 1.04, 1.1];

const QUIC: Remote = Remote { says: Says::Nothing, far: None };
/// What passes.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Whether the traffic to a host is QUIC. The long transfers are to the first two, the bursts to all in turn.
    quic: [bool; 3],
    /// Whether the first hop is asked.
    first_hop: bool,
}

impl Mix {
    const fn of(quic: [bool; 3]) -> Self {
        Self { quic, first_hop: false }
    }
}

/// TCP only, half of the traffic QUIC, all but one long transfer, all, and all with the first hop asked.
pub const MIXES: [Mix; 5] = [
    Mix::of([false; 3]),
    Mix::of([false, true, false]),
    Mix::of([false, true, true]),
    Mix::of([true; 3]),
    Mix { quic: [true; 3], first_hop: true },
];

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

    /// Runs it with a shaper, all traffic TCP.
    pub fn run<'a>(self, slots: &'a [f64], shaper: impl FnOnce() -> Shaper<'a>) -> Outcome {
        self.run_mix(slots, MIXES[0], shaper)
    }

    /// The same of any traffic.
    fn run_mix<'a>(self, slots: &'a [f64], mix: Mix, shaper: impl FnOnce() -> Shaper<'a>) -> Outcome {
        let capacity = |at: f64| slots.get((at / SLOT) as usize).copied().unwrap_or(0.0);
        let mean = self.kind.mean(self.seed);
        let setting = Setting {
            direction: self.direction,
            capacity: &capacity,
            buffer: (mean).max(30e3),
            drops_at_head: self.kind.drops_at_head(),
            late: &|_| 0.0,
            sources: crowd(self.seed, mean, SECONDS),
            remotes: mix.quic.map(|is_quic| if is_quic { QUIC } else { NEAR }).into(),
            handshakes: mix.quic.contains(&true),
            first_hop: mix.first_hop,
            seconds: SECONDS,
        };
        run(&setting, shaper())
    }

    fn ours(self, priority: Priority) -> Score {
        score(&self.run(&self.slots(), || Shaper::ours(self.direction, None, priority)))
    }

    fn reference(self, tuning: law::Tuning) -> Score {
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
        score(&self.run(&slots, || Shaper::law(bounds, tuning)))
    }

    /// The reference with the parameters that are best for just this case: those with the most use for each second of round trip.
    fn reference_at_its_best(self) -> Score {
        let power = |score: &Score| score.0 / (2.0 * PROPAGATION + score.1);
        let scores = DELAYS_S.into_iter().flat_map(|delay_s| {
            DETECTIONS.into_iter().flat_map(move |detection| {
                RISES.map(|up_most| self.reference(law::Tuning { delay_s, detection, up_most }))
            })
        });
        scores.max_by(|a, b| power(a).total_cmp(&power(b))).unwrap_or_default()
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
                rows.push((
                    case,
                    [case.ours(Priority::Balanced), case.reference(law::Tuning::default()), case.oracle()],
                ));
            }
        }
    }
    rows
}

/// How often ours is at least as good as the reference in both use and wait, how often worse in both, and how often it has 0.9 of the
/// oracle's use at no longer a wait.
pub fn counts(rows: &[[Score; 3]]) -> [usize; 3] {
    let count = |is: &dyn Fn(&[Score; 3]) -> bool| rows.iter().filter(|scores| is(scores)).count();
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
            let scores: Vec<[Score; 3]> = these.iter().map(|(_, scores)| *scores).collect();
            if each {
                for (case, scores) in &these {
                    row(&mut text, &format!("{} {} {}", kind.name(), direction.name(), case.seed), scores);
                }
            }
            row(&mut text, &format!("{} {}", kind.name(), direction.name()), &mean(&scores));
        }
    }
    let [better, worse, like_oracle] = counts(&rows.iter().map(|(_, scores)| *scores).collect::<Vec<_>>());
    let _ = writeln!(
        text,
        "of {}: better than the reference on both axes in {better}, worse on both in {worse}; 0.9 of the oracle's use at no longer a wait in {like_oracle}",
        rows.len()
    );
    text
}

/// The settings of [`Frontier::ours`].
pub const PRIORITIES: [Priority; 3] = [Priority::Latency, Priority::Balanced, Priority::Throughput];

/// A kind of links: what each shaper reaches, means over the held-out seeds.
#[derive(Clone, Copy, Debug)]
pub struct Frontier {
    /// The links.
    pub kind: Kind,
    /// Which direction is shaped.
    pub direction: Direction,
    /// Ours at [`PRIORITIES`].
    pub ours: [Score; 3],
    /// The reference by its defaults, with the best parameters for each case, and the oracle.
    pub others: [Score; 3],
    /// How often ours, balanced, is at least as good as the reference at its best in both use and wait, and how often worse in both.
    pub counts: [usize; 2],
}

/// Of one kind and direction; `count` of the held-out seeds.
pub fn frontier(kind: Kind, direction: Direction, count: usize) -> Frontier {
    let all = HELD_OUT.take(count).map(|seed| {
        let case = Case { kind, seed, direction };
        let others = [case.reference(law::Tuning::default()), case.reference_at_its_best(), case.oracle()];
        (PRIORITIES.map(|priority| case.ours(priority)), others)
    });
    let (ours, others): (Vec<[Score; 3]>, Vec<[Score; 3]>) = all.unzip();
    let rows: Vec<[Score; 3]> =
        ours.iter().zip(&others).map(|(ours, others)| [ours[1], others[1], others[2]]).collect();
    let [better, worse, _] = counts(&rows);
    Frontier { kind, direction, ours: mean(&ours), others: mean(&others), counts: [better, worse] }
}

fn mean<const N: usize>(all: &[[Score; N]]) -> [Score; N] {
    let mut means = [(0.0, 0.0); N];
    for scores in all {
        for (mean, it) in means.iter_mut().zip(scores) {
            mean.0 += it.0 / all.len() as f64;
            mean.1 += it.1 / all.len() as f64;
        }
    }
    means
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

/// What ours reaches with a mix, the mean over seeds that no rule was made with; `is_known`: the mean rate is configured.
pub fn mean_of_mix(kind: Kind, direction: Direction, is_known: bool, mix: Mix) -> Score {
    let scores = HELD_OUT_QUIC.map(|seed| {
        let case = Case { kind, seed, direction };
        let (slots, known) = (case.slots(), is_known.then(|| kind.mean(seed)));
        [score(&case.run_mix(&slots, mix, || Shaper::ours(direction, known, Priority::Balanced)))]
    });
    let [mean] = mean(&scores.collect::<Vec<_>>());
    mean
}

/// All of [`MIXES`] as a table.
pub fn quic() -> String {
    let mut text =
        "use %, p95 ms: TCP, half QUIC, one transfer TCP, QUIC, QUIC with the first hop asked; the same with the mean rate configured\n"
            .to_owned();
    let mut all = Vec::new();
    for kind in KINDS {
        for direction in Direction::ALL {
            let of = |is_known| MIXES.map(|mix| mean_of_mix(kind, direction, is_known, mix));
            all.push([of(false), of(true)].concat());
            row(&mut text, &format!("{} {}", kind.name(), direction.name()), &all[all.len() - 1]);
        }
    }
    let all: Vec<[Score; 2 * MIXES.len()]> = all.into_iter().filter_map(|it| it.try_into().ok()).collect();
    row(&mut text, "mean", &mean(&all));
    text
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
        handshakes: false,
        first_hop: false,
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
        handshakes: false,
        first_hop: false,
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
