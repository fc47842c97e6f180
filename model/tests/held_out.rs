//! The simulation against real kernels: points that chose nothing in it (`tests/data/two-way`), and those that were looked at while it was made.
//!
//! `cargo test -p pendulum-model held_out -- --nocapture` prints the errors.

#[path = "held_out/cake.rs"]
mod cake;

use std::path::Path;
use std::thread;

use pendulum_model::rate::BufferSize;
use pendulum_model::ratio::{Setting, paper, refined};
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::simulate::{
    BUSY_JITTER_S, CongestionControl, Flow, HOST_JITTER_S, Outcome, Run, SimulatedLink, agree, simulate,
};

const SEEDS: u64 = 3;
/// The lab's token bucket: a full frame, a rounding, and a millisecond of the rate (`tests/lab/src/shaper.rs`).
const BUCKET_BYTES: f64 = 1_514.0 + 86.0;
/// What the machines of the lab take for a frame, each way, seconds.
const HOST_S: f64 = 5e-5;
/// How much later than by the recipe the lab's programs may begin, seconds: captures of five links say up to 0.05.
const LATE_START_S: f64 = 0.05;
/// Round trips that iperf3 takes before it opens a connection for data.
const SETUP_ROUND_TRIPS: f64 = 3.0;
/// A point whose own ratio is known less well than this says little about a prediction.
const KNOWN: f64 = 0.03;

/// One measured link.
struct Point {
    name: String,
    congestion_control: CongestionControl,
    paced: bool,
    in_packets: bool,
    flows: usize,
    link: SimulatedLink,
    run: Run,
    goodput: PerDirection<f64>,
    wait: f64,
    wait_p95: f64,
    /// Standard error of the measured ratio.
    ratio_error: f64,
    /// What the formulas need; `None` for several flows and for buffers in packets.
    setting: Option<Setting>,
}

impl Point {
    fn ratio(&self) -> f64 {
        self.goodput.down / self.goodput.up
    }

    fn is_held_out(&self) -> bool {
        self.name.starts_with(['h', 'q', 'e', 'f', 'r', 's'])
    }

    fn simulate(&self) -> Predicted {
        let mut jitters = vec![self.run.jitter_s];
        if is_bbr(self) {
            jitters.push(BUSY_JITTER_S);
        }
        let runs = jitters.iter().flat_map(|jitter_s| {
            let run = Run { jitter_s: *jitter_s, ..self.run };
            (0..SEEDS).map(move |seed| simulate(&self.link, &run, seed))
        });
        let outcomes: Vec<Outcome> = runs.collect();
        let agreed = !is_bbr(self) || agree(&outcomes);
        let count = outcomes.len() as f64;
        let mean = |figure: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(figure).sum::<f64>() / count;
        Predicted {
            agreed,
            goodput: PerDirection::from_fn(|x| mean(&|outcome| outcome.goodput_bps[x])),
            wait: mean(&|outcome| outcome.wait_both.mean_s),
            wait_p95: mean(&|outcome| outcome.wait_both.p95_s),
        }
    }
}

/// The number in a point's name.
fn number_of(name: &str) -> u64 {
    name[1..].parse().expect("a point's number")
}

/// When the recipe starts the transfers of a direction: the lab delays each by up to a fifth of a second, by its seed, the number after the
/// point's, and by its place (`tests/lab/src/experiment/scenario.rs`, SplitMix64).
fn start_s(number: u64, direction: Direction) -> f64 {
    let index = u64::from(direction == Direction::Up);
    let input = (number + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(index.wrapping_mul(0xd1b5_4a32_d192_ed03));
    let mixed = (input ^ (input >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % 200) as f64 / 1e3
}

struct Predicted {
    /// Whether `pendulum advise` gives a figure: with BBR only where the runs agree.
    agreed: bool,
    goodput: PerDirection<f64>,
    wait: f64,
    wait_p95: f64,
}

/// Relative errors of one point.
#[derive(Clone, Copy)]
struct Errors {
    agreed: bool,
    ratio: f64,
    download: f64,
    upload: f64,
    wait: f64,
    wait_p95: f64,
}

impl Errors {
    fn of(point: &Point, predicted: &Predicted) -> Self {
        let error = |predicted: f64, measured: f64| (predicted / measured - 1.0).abs();
        Self {
            agreed: predicted.agreed,
            ratio: error(predicted.goodput.down / predicted.goodput.up, point.ratio()),
            download: error(predicted.goodput.down, point.goodput.down),
            upload: error(predicted.goodput.up, point.goodput.up),
            wait: error(predicted.wait, point.wait),
            wait_p95: error(predicted.wait_p95, point.wait_p95),
        }
    }
}

fn points() -> Vec<Point> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/two-way/points.csv");
    let text = std::fs::read_to_string(path).expect("tests/data/two-way/points.csv");
    let columns: Vec<&str> = text.lines().next().expect("a header").split(',').collect();
    let point = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let text = |name: &str| cells[columns.iter().position(|column| *column == name).expect(name)];
        let number = |name: &str| text(name).parse::<f64>().expect(name);
        let congestion_control = match text("cc") {
            "reno" => CongestionControl::Reno,
            "cubic" => CongestionControl::Cubic,
            "bbr" => CongestionControl::Bbr,
            other => panic!("{other} is not simulated"),
        };
        let millis = |name: &str| number(name) / 1e3;
        let both_ways = millis("propagation_ms");
        let flow = |direction| {
            let access = 2.0 * if direction == Direction::Down { millis("d1_ms") } else { millis("u1_ms") };
            // The propagation lies behind each buffer; the internet's end, D1 or U1, has the access delay.
            let (receiver, sender) = if direction == Direction::Down { (0.0, access) } else { (access, 0.0) };
            Flow {
                paced: text("paced") == "1",
                delayed_acks: text("delayed_acks") == "1",
                receiver_round_trip_s: both_ways + receiver + HOST_S,
                sender_round_trip_s: both_ways + sender + HOST_S,
                start_s: start_s(number_of(text("name")), direction)
                    + SETUP_ROUND_TRIPS * (both_ways + access),
                ..Flow::bulk(direction, congestion_control)
            }
        };
        let several = |direction, count: f64| std::iter::repeat_n(flow(direction), count as usize);
        let flows: Vec<Flow> = several(Direction::Down, number("downloads"))
            .chain(several(Direction::Up, number("uploads")))
            .collect();
        let rate = PerDirection { down: number("down_bps") / 8.0, up: number("up_bps") / 8.0 };
        let limit =
            |name: &str| -> BufferSize { text(name).trim_end_matches('b').parse().expect("a buffer") };
        let length = number("length_s");
        let bytes = |name: &str| text(name).strip_suffix('b').and_then(|bytes| bytes.parse::<f64>().ok());
        let buffer = bytes("up_buffer").zip(bytes("down_buffer")).filter(|_| flows.len() == 2);
        let setting = buffer.map(|(up, down)| {
            // What both connections have in common; of two access wires the shorter.
            let propagation = both_ways + millis("d1_ms").min(millis("u1_ms"));
            let setting = Setting::new(rate, PerDirection { up, down }, propagation).expect("a link");
            setting.with_delayed_acks(text("delayed_acks") == "1")
        });
        Point {
            name: text("name").to_owned(),
            congestion_control,
            paced: text("paced") == "1",
            in_packets: text("up_buffer").ends_with('p'),
            flows: flows.len(),
            link: SimulatedLink {
                rate,
                buffer: PerDirection { down: limit("down_buffer"), up: limit("up_buffer") },
                cake: false,
                burst: PerDirection::from_fn(|x| BUCKET_BYTES + rate[x] / 1_000.0),
                flows,
            },
            // The lab measures from three tenths of the run on.
            run: Run {
                from_s: 0.3 * length,
                until_s: length,
                start_spread_s: LATE_START_S,
                jitter_s: HOST_JITTER_S,
            },
            goodput: PerDirection { down: number("download_bps"), up: number("upload_bps") },
            wait: number("wait_mean_s"),
            wait_p95: number("wait_p95_s"),
            ratio_error: number("ratio_error"),
            setting,
        }
    };
    text.lines().skip(1).map(point).collect()
}

/// All points with their errors, on all processors.
fn judged() -> Vec<(Point, Errors)> {
    let points = points();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = |index: usize| {
        let own = points.iter().skip(index).step_by(threads);
        own.map(|point| Errors::of(point, &point.simulate())).collect::<Vec<_>>()
    };
    let mut by_thread: Vec<std::vec::IntoIter<Errors>> = thread::scope(|scope| {
        let share = &share;
        let running: Vec<_> = (0..threads).map(|index| scope.spawn(move || share(index))).collect();
        running.into_iter().map(|thread| thread.join().expect("a simulation").into_iter()).collect()
    });
    let errors = (0..points.len()).map(|index| by_thread[index % threads].next().expect("an error"));
    let errors: Vec<Errors> = errors.collect();
    points.into_iter().zip(errors).collect()
}

/// A share of the values does not exceed this.
fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[((values.len() as f64 * share).ceil() as usize).clamp(1, values.len()) - 1]
}

fn line(name: &str, errors: &[Errors]) {
    if errors.is_empty() {
        return;
    }
    let percent = |of: fn(&Errors) -> f64, share| 100.0 * quantile(errors.iter().map(of), share);
    let within = errors.iter().filter(|errors| errors.ratio <= 0.2).count();
    println!(
        "{name:<44} {:>4} {:>6.1} {:>6.1} {:>6.0} {:>8.1} {:>8.1} {:>8.1} {:>8.1}",
        errors.len(),
        percent(|errors| errors.ratio, 0.5),
        percent(|errors| errors.ratio, 0.95),
        100.0 * within as f64 / errors.len() as f64,
        percent(|errors| errors.download, 0.5),
        percent(|errors| errors.upload, 0.5),
        percent(|errors| errors.wait, 0.5),
        percent(|errors| errors.wait_p95, 0.5),
    );
}

fn is_bbr(point: &Point) -> bool {
    point.congestion_control == CongestionControl::Bbr
}

type Chosen<'a> = &'a dyn Fn(&Point) -> bool;

fn of(judged: &[(Point, Errors)], chosen: Chosen<'_>) -> Vec<Errors> {
    judged.iter().filter(|(point, _)| chosen(point)).map(|(_, errors)| *errors).collect()
}

fn table(judged: &[(Point, Errors)]) {
    let heading = "errors in per cent: medians, but of r also the 95th percentile and the share within 20 %";
    println!(
        "{heading}\n{:<44} {:>4} {:>6} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8}",
        "", "n", "r", "p95", "<=20", "down", "up", "wait", "wait p95"
    );
    for (set, held_out) in [("held out", true), ("looked at", false)] {
        for (name, which) in [("reno", CongestionControl::Reno), ("CUBIC", CongestionControl::Cubic)] {
            let rows: [(&str, Chosen<'_>); 9] = [
                ("all", &|_| true),
                ("own error of r below 3 %", &|point| point.ratio_error < KNOWN),
                ("not paced", &|point| !point.paced),
                ("paced", &|point| point.paced),
                ("buffers in bytes", &|point| !point.in_packets),
                ("buffers in packets", &|point| point.in_packets),
                ("several flows", &|point| point.flows > 2),
                ("several flows, own error below 3 %", &|point| point.flows > 2 && point.ratio_error < KNOWN),
                ("s…: chose nothing", &|point| point.name.starts_with('s')),
            ];
            for (row, chosen) in rows {
                let chosen = |point: &Point| {
                    point.is_held_out() == held_out && point.congestion_control == which && chosen(point)
                };
                line(&format!("{set}, {name}, {row}"), &of(judged, &chosen));
            }
        }
    }
    let steady = of(judged, &|point| is_bbr(point) && point.is_held_out() && point.ratio_error < KNOWN);
    let agreed = steady.into_iter().filter(|errors| errors.agreed).collect::<Vec<_>>();
    line("e, f, BBR, agree, own error of r below 3 %", &agreed);
    for set in ["b", "e", "f"] {
        for agreed in [true, false] {
            let chosen = judged
                .iter()
                .filter(|(point, errors)| point.name.starts_with(set) && errors.agreed == agreed);
            let name = format!("{set}, BBR, runs {}", if agreed { "agree" } else { "disagree" });
            line(&name, &chosen.map(|(_, errors)| *errors).collect::<Vec<_>>());
        }
    }
    println!("\nr by formulas, one flow each way, buffers in bytes: median error in per cent");
    for (name, which) in [("reno", CongestionControl::Reno), ("CUBIC", CongestionControl::Cubic)] {
        let ratios = |ratio: fn(&Setting) -> Option<f64>| {
            let chosen =
                judged.iter().filter(|(point, _)| point.is_held_out() && point.congestion_control == which);
            let errors =
                chosen.filter_map(|(point, _)| Some((ratio(point.setting.as_ref()?)?, point.ratio())));
            100.0 * quantile(errors.map(|(formula, measured)| (formula / measured - 1.0).abs()), 0.5)
        };
        let eq_11 = ratios(|setting| Some(paper::predict(setting).ok()?.ratio));
        println!(
            "{name}: Eq. 11 {eq_11:.0}, refined {:.0}",
            ratios(|setting| Some(refined::predict(setting).ratio))
        );
    }
    println!("\nheld out, r off by more than 20 %:");
    for (point, errors) in judged.iter().filter(|(point, errors)| point.is_held_out() && errors.ratio > 0.2) {
        let own = 100.0 * point.ratio_error;
        let remark = if errors.agreed { "" } else { ", not predicted" };
        println!("{}: off by {:.0} %, own error {own:.1} %{remark}", point.name, 100.0 * errors.ratio);
    }
}

#[test]
fn held_out() {
    let judged = judged();
    table(&judged);
    let well_known = |point: &Point| point.is_held_out() && point.ratio_error < KNOWN;
    let kinds: [(&str, Chosen<'_>, usize); 4] = [
        ("of all kinds", &|_| true, 60),
        ("several flows", &|point| point.flows > 2, 20),
        ("buffers in packets", &|point| point.in_packets, 20),
        ("buffers in bytes", &|point| !point.in_packets, 20),
    ];
    for (which, most) in [(CongestionControl::Reno, 0.05), (CongestionControl::Cubic, 0.08)] {
        for (kind, chosen, least) in kinds {
            let what = format!("{which:?}, {kind}");
            let chosen = |point: &Point| point.congestion_control == which && chosen(point);
            let known = of(&judged, &|point| well_known(point) && chosen(point));
            assert!(known.len() >= least, "{what}: {} points are too few to judge by", known.len());
            // Those whose own ratio is known less well too.
            for errors in [known, of(&judged, &|point| point.is_held_out() && chosen(point))] {
                let median = |of: fn(&Errors) -> f64| quantile(errors.iter().map(of), 0.5);
                assert!(median(|errors| errors.ratio) <= most, "{what}: {}", median(|errors| errors.ratio));
                assert!(median(|errors| errors.download) <= 0.05, "{what}");
                assert!(median(|errors| errors.upload) <= 0.05, "{what}");
                assert!(median(|errors| errors.wait) <= 0.15, "{what}");
            }
        }
    }
    let both = of(&judged, &|point| well_known(point) && !is_bbr(point));
    assert!(
        quantile(both.iter().map(|errors| errors.ratio), 0.95) <= 0.2,
        "95 of 100 points are within 20 %"
    );
    // BBR is predicted only where runs with and without jitter agree.
    let predicted = of(&judged, &|point| well_known(point) && is_bbr(point));
    let predicted: Vec<Errors> = predicted.into_iter().filter(|errors| errors.agreed).collect();
    assert!(predicted.len() >= 12, "BBR: {} points are too few to judge by", predicted.len());
    for (of, share, most) in [
        ((|errors| errors.ratio) as fn(&Errors) -> f64, 0.5, 0.08),
        (|errors| errors.ratio, 0.95, 0.2),
        (|errors| errors.download, 0.5, 0.05),
        (|errors| errors.upload, 0.5, 0.05),
        (|errors| errors.wait, 0.5, 0.15),
    ] {
        let error = quantile(predicted.iter().map(of), share);
        assert!(error <= most, "BBR: {error}, at most {most}");
    }
}
