//! The verdict on a simulated link if both queues were known exactly: its capture from behind the uplink's buffer is replayed, and the
//! detector is given the simulator's levels and rates instead of estimates. So a difference from a replay's verdict is the observer's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use pendulum::replay::flow::FlowKey;
use pendulum::replay::report::Collector;
use pendulum::replay::session::{Audience, Outcome, Task, replay};
use pendulum::replay::tally::{InFlight, Tally};
use pendulum_model::detector::{Config, Detector};
use pendulum_model::event::Event;
use pendulum_model::link::{Known, Link};
use pendulum_model::sample::{MeasuredRate, QueueSample, QueueSource, Sample};
use pendulum_model::segment::{Direction, PerDirection};
use serde::Deserialize;

type Failure = Box<dyn std::error::Error>;

/// What `scenario.cc` was given.
#[derive(Deserialize)]
struct Scenario {
    cu: f64,
    cd: f64,
    /// `TIME:D:RATE` or `TIME:U:RATE`, separated by semicolons.
    #[serde(default)]
    changes: String,
}

/// A direction's truth.
struct Truth {
    /// Mean level of each millisecond, bytes.
    means: Vec<f64>,
    /// Bytes per second from each millisecond on.
    rates: BTreeMap<u128, f64>,
}

impl Truth {
    fn read(directory: &Path, scenario: &Scenario, direction: Direction) -> Result<Self, Failure> {
        let (name, letter, first) = match direction {
            Direction::Up => ("mean_R2_up.csv", "U", scenario.cu),
            Direction::Down => ("mean_R1_down.csv", "D", scenario.cd),
        };
        let text = std::fs::read_to_string(directory.join(name))?;
        let means = text.split_whitespace().skip(1).map(str::parse).collect::<Result<_, _>>()?;
        let mut rates = BTreeMap::from([(0, first / 8.0)]);
        for change in scenario.changes.split(';').filter(|change| !change.is_empty()) {
            let mut cells = change.split(':');
            let (Some(time_s), Some(of), Some(rate)) = (cells.next(), cells.next(), cells.next()) else {
                return Err(format!("{change} is no change of a rate").into());
            };
            if of == letter {
                rates.insert(1_000 * time_s.parse::<u128>()?, rate.parse::<f64>()? / 8.0);
            }
        }
        Ok(Self { means, rates })
    }

    fn level(&self, from_ms: u128, to_ms: u128) -> QueueSample {
        let last = self.means.len().saturating_sub(1);
        let at = |ms: u128| usize::try_from(ms).map_or(last, |ms| ms.min(last));
        let levels = &self.means[at(from_ms)..=at(to_ms.saturating_sub(1)).max(at(from_ms))];
        QueueSample {
            min_bytes: levels.iter().copied().fold(f64::INFINITY, f64::min),
            mean_bytes: levels.iter().sum::<f64>() / levels.len() as f64,
            max_bytes: levels.iter().copied().fold(0.0, f64::max),
            ..QueueSample::level(QueueSource::Capture, 0.0)
        }
    }
}

/// Judges the truth in place of the estimates.
struct Judge<'a> {
    truth: PerDirection<Truth>,
    /// When the capture begins, in the simulation's time.
    first: Duration,
    detector: Detector,
    collector: Collector<'a>,
}

impl Audience for Judge<'_> {
    fn sample(&mut self, sample: &Sample, _: &Detector) {
        let mut sample = sample.clone();
        let to = self.first + sample.at;
        for x in Direction::ALL {
            let truth = &self.truth[x];
            let (from_ms, to_ms) = (to.saturating_sub(sample.span).as_millis(), to.as_millis());
            sample.link[x].queue = Some(truth.level(from_ms, to_ms));
            sample.link[x].rate = truth
                .rates
                .range(..=to_ms)
                .next_back()
                .map(|(_, rate)| MeasuredRate { bytes_per_second: *rate, measured_at: sample.at });
        }
        for event in self.detector.push(&sample) {
            self.collector.event(&event);
        }
        self.collector.sample(&sample, &self.detector);
    }

    fn event(&mut self, _: &Event) {}

    fn flow(&mut self, key: &FlowKey, tally: &Tally, at_lan: Option<&InFlight>) {
        self.collector.flow(key, tally, at_lan);
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, first_s] = &arguments[..] else {
        return Err(
            "usage: true-verdict DIRECTORY SECOND, of a simulated link and the first packet of its wan.pcap"
                .into(),
        );
    };
    let directory = Path::new(directory);
    let scenario: Scenario = serde_json::from_slice(&std::fs::read(directory.join("summary.json"))?)?;
    let task =
        Task { wan: directory.join("wan.pcap"), lan: None, rates: PerDirection::default(), home: Vec::new() };
    let mut ignore = |_: &Event| {};
    // A rate that changes is no configured one.
    let configured = |bits: f64| scenario.changes.is_empty().then(|| Known::config(bits / 8.0));
    let capacity = PerDirection { up: configured(scenario.cu), down: configured(scenario.cd) };
    let link = Link { capacity, ..Link::default() };
    let mut judge = Judge {
        truth: PerDirection {
            up: Truth::read(directory, &scenario, Direction::Up)?,
            down: Truth::read(directory, &scenario, Direction::Down)?,
        },
        first: Duration::try_from_secs_f64(first_s.parse()?)?,
        detector: Detector::new(Config { link, ..Config::default() }),
        collector: Collector::new(&mut ignore, None),
    };
    let outcome = replay(&task, &|_, _, _| {}, &mut judge)?;
    let outcome = Outcome { detector: judge.detector, ..outcome };
    let (report, _) = judge.collector.finish(&outcome);
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
