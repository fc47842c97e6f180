//! Cake before the uplink: the simulation against real kernels (`tests/data/two-way-cake`). Points of `k…` were looked at, those of `l…` were not.
//! Those with an ACK filter are left out: it is not simulated. Each has one host for downloads and one for uploads on each side, so that
//! `triple-isolate` shares as `dual-srchost` does.

use std::path::Path;

use pendulum_model::rate::BufferSize;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::simulate::{CongestionControl, Flow, Outcome, Run, SimulatedLink, simulate};

use super::{BUCKET_BYTES, HOST_JITTER_S, HOST_S, KNOWN, quantile};

const SEEDS: u64 = 6;

/// A link as its row has it.
struct Row<'a> {
    columns: &'a [&'a str],
    cells: Vec<&'a str>,
}

struct Point {
    name: String,
    congestion_control: CongestionControl,
    flows: usize,
    measured: Figures,
    simulated: Figures,
    ratio_error: f64,
}

/// What is compared. Waits in seconds.
#[derive(Clone, Copy, Debug)]
struct Figures {
    download: f64,
    upload: f64,
    /// Of the bytes in both queues: mean and 95th percentile over time.
    wait: f64,
    wait_p95: f64,
    /// Of a datagram that has the uplink's queue for itself.
    sparse: f64,
    sparse_p95: f64,
}

impl Figures {
    fn ratio(&self) -> f64 {
        self.download / self.upload
    }
}

impl Row<'_> {
    fn text(&self, name: &str) -> &str {
        self.cells[self.columns.iter().position(|column| *column == name).expect(name)]
    }

    fn number(&self, name: &str) -> f64 {
        self.text(name).parse().expect(name)
    }

    fn congestion_control(&self) -> CongestionControl {
        if self.text("cc") == "reno" { CongestionControl::Reno } else { CongestionControl::Cubic }
    }

    fn flow(&self, direction: Direction) -> Flow {
        let millis = |name: &str| self.number(name) / 1e3;
        let both_ways = millis("propagation_ms") + HOST_S;
        let access = 2.0 * if direction == Direction::Down { millis("d1_ms") } else { millis("u1_ms") };
        let (receiver, sender) = if direction == Direction::Down { (0.0, access) } else { (access, 0.0) };
        // Downloads from D1 to D2, uploads from U2 to U1.
        let host = u32::from(direction == Direction::Up);
        Flow {
            delayed_acks: self.text("delayed_acks") == "1",
            receiver_round_trip_s: both_ways + receiver,
            sender_round_trip_s: both_ways + sender,
            start_s: 0.3,
            home_host: host,
            ..Flow::bulk(direction, self.congestion_control())
        }
    }

    fn link(&self) -> SimulatedLink {
        let rate = PerDirection { down: self.number("down_bps") / 8.0, up: self.number("up_bps") / 8.0 };
        let down = self.text("down_buffer").trim_end_matches('b').parse().expect("a buffer");
        let several = |direction, count: f64| std::iter::repeat_n(self.flow(direction), count as usize);
        SimulatedLink {
            rate,
            // Of the uplink's nothing is left.
            buffer: PerDirection { down, up: BufferSize::Packets(1) },
            cake: true,
            burst: PerDirection { down: BUCKET_BYTES + rate.down / 1_000.0, up: 0.0 },
            flows: several(Direction::Down, self.number("downloads"))
                .chain(several(Direction::Up, self.number("uploads")))
                .collect(),
        }
    }

    fn point(&self) -> Point {
        let link = self.link();
        let length = self.number("length_s");
        let run = Run { from_s: 0.3 * length, until_s: length, start_spread_s: 0.2, jitter_s: HOST_JITTER_S };
        let outcomes: Vec<Outcome> = (0..SEEDS).map(|seed| simulate(&link, &run, seed)).collect();
        let mean = |figure: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(figure).sum::<f64>() / SEEDS as f64;
        Point {
            name: self.text("name").to_owned(),
            congestion_control: self.congestion_control(),
            flows: link.flows.len(),
            measured: Figures {
                download: self.number("download_bps"),
                upload: self.number("upload_bps"),
                wait: self.number("wait_mean_s"),
                wait_p95: self.number("wait_p95_s"),
                sparse: self.number("sparse_mean_s"),
                sparse_p95: self.number("sparse_p95_s"),
            },
            simulated: Figures {
                download: mean(&|outcome| outcome.goodput_bps.down),
                upload: mean(&|outcome| outcome.goodput_bps.up),
                wait: mean(&|outcome| outcome.wait_both.mean_s),
                wait_p95: mean(&|outcome| outcome.wait_both.p95_s),
                sparse: mean(&|outcome| outcome.sparse_wait.up.mean_s),
                sparse_p95: mean(&|outcome| outcome.sparse_wait.up.p95_s),
            },
            ratio_error: self.number("ratio_error"),
        }
    }
}

fn points() -> Vec<Point> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/two-way-cake/points.csv");
    let text = std::fs::read_to_string(path).expect("tests/data/two-way-cake/points.csv");
    let columns: Vec<&str> = text.lines().next().expect("a header").split(',').collect();
    let rows = text.lines().skip(1).map(|line| Row { columns: &columns, cells: line.split(',').collect() });
    rows.filter(|row| row.text("ack_filter") == "no-ack-filter").map(|row| row.point()).collect()
}

type Figure = fn(&Figures) -> f64;

const FIGURES: [(&str, Figure); 7] = [
    ("r", Figures::ratio),
    ("down", |figures| figures.download),
    ("up", |figures| figures.upload),
    ("wait", |figures| figures.wait),
    ("wait p95", |figures| figures.wait_p95),
    ("sparse", |figures| figures.sparse),
    ("sparse p95", |figures| figures.sparse_p95),
];

/// Relative error of one figure at one point, with its sign.
fn error(point: &Point, figure: Figure) -> f64 {
    figure(&point.simulated) / figure(&point.measured) - 1.0
}

fn print(points: &[Point]) {
    println!("cake before the uplink: simulated over measured, error in per cent");
    let heading: String = FIGURES.iter().map(|(name, _)| format!(" {name:>10}")).collect();
    println!("{:<42}{heading}  own error of r", "");
    for point in points {
        let errors: String =
            FIGURES.iter().map(|(_, figure)| format!(" {:>+10.1}", 100.0 * error(point, *figure))).collect();
        let what = format!("{}, {:?}, {} flows", point.name, point.congestion_control, point.flows);
        println!("{what:<42}{errors}  {:.1}", 100.0 * point.ratio_error);
    }
    for (name, letter) in [("looked at", 'k'), ("held out", 'l')] {
        // Without those that do not know their own ratio.
        for (share, of) in [(0.5, "median"), (1.0, "most")] {
            let errors = FIGURES.map(|(_, figure)| {
                let known = |point: &&Point| point.name.starts_with(letter) && point.ratio_error < KNOWN;
                let chosen = points.iter().filter(known);
                100.0 * quantile(chosen.map(|point| error(point, figure).abs()), share)
            });
            let errors: String = errors.iter().map(|error| format!(" {error:>10.1}")).collect();
            println!("{:<42}{errors}", format!("{name}, own error below 3 %: {of}"));
        }
    }
}

#[test]
fn cake_is_as_the_kernel_has_it() {
    let points = points();
    print(&points);
    let held_out = points.iter().filter(|point| point.name.starts_with('l') && point.ratio_error < KNOWN);
    let held_out: Vec<&Point> = held_out.collect();
    assert!(held_out.len() >= 8, "{} points are too few to judge by", held_out.len());
    let of = |figure, share| quantile(held_out.iter().map(|point| error(point, figure).abs()), share);
    for (name, figure) in FIGURES {
        let (most, most_95) = match name {
            // Goodput and its ratio.
            "r" | "down" | "up" => (0.05, 0.2),
            _ => (0.15, 0.3),
        };
        let (median, p95) = (of(figure, 0.5), of(figure, 0.95));
        assert!(median <= most && p95 <= most_95, "{name}: {median} in the median, {p95} for 95 %");
    }
}
