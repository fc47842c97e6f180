//! Who follows a link whose capacity changes: no shaper, cake at a rate that never changes, cake-autorate's published control law with real
//! probes, and the agent's `rate = "auto"`. Same traces, same traffic, real TCP.

mod contender;
mod elsewhere;
mod measure;
mod ours;
mod pairs;
mod pieces;
mod ping;
mod plots;
mod reference;
mod table;

use std::time::Duration;

use pendulum_model::rate::BufferSize;
use pendulum_model::segment::{Direction, PerDirection};
use serde_json::{Map, Value, json};

use super::mitigations::{Ours, OursError};
use super::{About, Experiment, ExperimentError, OwnCase, Printed, Progress, Report, RunOptions};
use crate::delay::Delays;
use crate::lab::{Lab, LinkSpec, Traces};
use crate::netns::NetnsError;
use crate::shaper::Shaper;
use crate::topology::BufferPlace;
use crate::truth::counter;

use contender::{CONTENDERS, Contender, Known};
use elsewhere::Elsewhere;
use measure::{SETTLING, Seen};
use pairs::{Pair, pairs};
use reference::Reference;

/// See the module.
pub(super) struct Autorate;

const NAME: &str = "autorate";
/// Of each case.
const USUAL: Duration = Duration::from_secs(60);
const QUICK: Duration = Duration::from_secs(24);
const SHORTEST: Duration = Duration::from_secs(8);
/// One way.
const PROPAGATION: Duration = Duration::from_millis(20);
/// Of the link's own buffers: so much of the mean capacity, as mobile networks have it.
const BUFFER_S: f64 = 1.0;
const LEAST_BUFFER_BYTES: u64 = 30_000;

impl Experiment for Autorate {
    fn about(&self) -> About {
        let cases =
            |quick| (pairs(None).map_or(0, |all| wanted(&all, quick, &[]).count()) * CONTENDERS.len()) as u32;
        About {
            name: NAME,
            source: "NSDI 2013 traces; cake-autorate",
            what: "links whose capacity changes: no shaper, cake at fixed rates, cake-autorate's law, and the agent's own rate; --traces DIR, --only picks traces and contenders, or `elsewhere`: a bottleneck that is not the line",
            usual: USUAL * cases(false),
            quick: QUICK * cases(true),
            shortest: SHORTEST,
        }
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Printed, ExperimentError> {
        if options.only == [elsewhere::NAME] {
            return run_elsewhere(options, progress);
        }
        let all = pairs(options.traces.as_deref())?;
        check_names(&options.only, &all)?;
        let traces: Vec<&Pair> = wanted(&all, options.quick, &options.only).collect();
        let contenders: Vec<_> =
            CONTENDERS.into_iter().filter(|(name, _)| is_named(&options.only, name, has_contender)).collect();
        let runs = (traces.len() * contenders.len()).max(1) as u32;
        let usual = if options.quick { QUICK } else { USUAL };
        let length = options.total.map_or(usual, |total| total / runs).max(SHORTEST);
        let mut bench = AutorateBench { options, progress, length, runs, done: 0 };
        let (mut cases, mut text) = (Vec::new(), String::new());
        for pair in traces {
            let mut block = Vec::new();
            for (name, contender) in &contenders {
                block.push(bench.case(pair, name, *contender)?);
            }
            text.push_str(&table::block(&title(pair, length), &block));
            cases.extend(block);
        }
        text.push_str(&table::comparison(&cases));
        text.push_str(&format!(
            "{} s each, all but the first {} s measured; used: of the bytes that the trace gave; ping: queueing delay of each direction; added: less the \
             wait for the link's next opportunity; hidden: mean of the link's own buffer\n",
            length.as_secs(),
            SETTLING.as_secs()
        ));
        Report::new(NAME, cases, text).finish(options)
    }
}

/// The cases whose bottleneck is not the line.
fn run_elsewhere(
    options: &RunOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Printed, ExperimentError> {
    let all = Elsewhere::all(options.quick);
    let mut bench =
        AutorateBench { options, progress, length: elsewhere::LENGTH, runs: all.len() as u32, done: 0 };
    let cases = all.into_iter().map(|case| case.run(&mut bench)).collect::<Result<Vec<_>, _>>()?;
    let text = elsewhere::table(&cases);
    Report::new(NAME, cases, text).finish(options)
}

fn has_contender(name: &str) -> bool {
    CONTENDERS.iter().any(|(known, _)| *known == name)
}

/// Whether a name is among those given, of its kind; where none of its kind is given, all are meant.
fn is_named(only: &[String], name: &str, of_its_kind: impl Fn(&str) -> bool) -> bool {
    !only.iter().any(|given| of_its_kind(given)) || only.iter().any(|given| given == name)
}

fn wanted<'a>(all: &'a [Pair], quick: bool, only: &'a [String]) -> impl Iterator<Item = &'a Pair> {
    let is_trace = |name: &str| all.iter().any(|pair| pair.name == name);
    let any_named = only.iter().any(|name| is_trace(name));
    all.iter().filter(move |pair| if any_named { only.contains(&pair.name) } else { pair.quick || !quick })
}

fn check_names(only: &[String], all: &[Pair]) -> Result<(), ExperimentError> {
    let traces = || all.iter().map(|pair| pair.name.as_str());
    match only.iter().find(|name| !has_contender(name) && !traces().any(|trace| trace == *name)) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<&str> =
                traces().chain(CONTENDERS.iter().map(|(name, _)| *name)).chain([elsewhere::NAME]).collect();
            Err(ExperimentError::UnknownPart { name: name.clone(), known: known.join(", ") })
        }
    }
}

fn title(pair: &Pair, length: Duration) -> String {
    let mean = |direction| pair.traces[direction].mean_bps(length) / 1e3;
    format!(
        "{}, mean {:.0} kb/s down and {:.0} kb/s up",
        pair.name,
        mean(Direction::Down),
        mean(Direction::Up)
    )
}

/// Where all cases run.
struct AutorateBench<'a> {
    options: &'a RunOptions,
    progress: &'a (dyn Fn(Progress) + Sync),
    length: Duration,
    runs: u32,
    done: u32,
}

/// What sets the rates while a case runs.
enum Running {
    Nothing,
    Reference(Reference),
    Ours(Ours),
}

impl AutorateBench<'_> {
    fn case(&mut self, pair: &Pair, name: &str, contender: Contender) -> Result<OwnCase, ExperimentError> {
        let known = PerDirection::from_fn(|direction| Known::of(&pair.traces[direction], self.length));
        let spec = link(known);
        let mut case = empty(pair, name, spec, known);
        let traces = Traces { up: Some(pair.traces.up.clone()), down: Some(pair.traces.down.clone()) };
        let lab = Lab::start_with(spec, traces)?;
        let running = match self.start(&lab, contender, known) {
            Ok(running) => running,
            Err(OursError::NotRunnable(reason)) => {
                self.done += 1;
                return Ok(OwnCase { not_runnable: Some(reason), ..case });
            }
            Err(OursError::Failed(error)) => return Err(error),
        };
        let before = own_datagrams(&lab)?;
        let (mut seen, series) = {
            let step = self.step(format!("{}: {name}", pair.name));
            measure::measure(&lab, pair, self.length, &self.options.interrupt, &step)?
        };
        self.done += 1;
        let others = own_datagrams(&lab)?.saturating_sub(before);
        match running {
            Running::Nothing => {}
            Running::Reference(reference) => {
                let bytes = reference.probe_bytes();
                (seen.up.probe_bytes, seen.down.probe_bytes) = (bytes.up, bytes.down);
                case.truth = json!({"rate_changes": reference.changes()});
            }
            Running::Ours(ours) => {
                // What the gateway itself has sent but TCP: none if nothing probes.
                seen.up.probe_bytes = others * LEAST_DATAGRAM_BYTES;
                let (agent, shape) = ours.finish()?;
                (case.agent, case.truth) = (agent, json!({"shape": shape}));
            }
        }
        case.measured = json!(seen);
        if let Some(out) = &self.options.out {
            plots::write(out, pair, name, &series)?;
        }
        Ok(case)
    }

    fn start(
        &self,
        lab: &Lab,
        contender: Contender,
        known: PerDirection<Known>,
    ) -> Result<Running, OursError> {
        let cakes = |rates| contender::install_cakes(lab, rates).map_err(lacking);
        Ok(match contender {
            Contender::Nothing => Running::Nothing,
            Contender::Cake(told) => {
                cakes(PerDirection::from_fn(|direction| told.rate_bps(known[direction])))?;
                Running::Nothing
            }
            Contender::Reference => {
                let bounds = PerDirection::from_fn(|direction| known[direction].bounds());
                cakes(PerDirection { up: bounds.up.base, down: bounds.down.base })?;
                Running::Reference(Reference::start(lab, bounds).map_err(OursError::Failed)?)
            }
            Contender::Ours => Running::Ours(ours::start(lab, self.options.agent.as_deref())?),
        })
    }

    fn step(&self, what: String) -> impl Fn(Duration) {
        let (before, length) = (self.length * self.done, self.length);
        let total = length * self.runs;
        move |elapsed: Duration| {
            (self.progress)(Progress { total, elapsed: before + elapsed.min(length), what: what.clone() });
        }
    }
}

/// An echo request without data, or an empty UDP datagram: IP header and eight bytes.
const LEAST_DATAGRAM_BYTES: u64 = 28;

/// Echo requests and UDP datagrams that the gateway itself has sent so far.
fn own_datagrams(lab: &Lab) -> Result<u64, ExperimentError> {
    let text =
        lab.gateway().inside(|| std::fs::read_to_string("/proc/thread-self/net/snmp"))?.unwrap_or_default();
    let sent = |group, name| counter(&text, group, name).unwrap_or(0);
    Ok(sent("Icmp", "OutEchos") + sent("Udp", "OutDatagrams"))
}

fn link(known: PerDirection<Known>) -> LinkSpec {
    let shaper = |known: Known| Shaper {
        rate: contender::whole(known.mean),
        buffer: BufferSize::Bytes(((known.mean / 8.0 * BUFFER_S) as u64).max(LEAST_BUFFER_BYTES)),
    };
    LinkSpec {
        downlink: shaper(known.down),
        uplink: shaper(known.up),
        uplink_buffer_at: BufferPlace::Gateway,
        delays: Delays { propagation: PROPAGATION, ..Delays::NONE },
        ..LinkSpec::FIG1
    }
}

fn empty(pair: &Pair, name: &str, spec: LinkSpec, known: PerDirection<Known>) -> OwnCase {
    let params = json!({
        "trace": pair.name,
        "contender": name,
        "propagation_s": PROPAGATION.as_secs_f64(),
        "downlink_buffer": spec.downlink.buffer.to_string(),
        "uplink_buffer": spec.uplink.buffer.to_string(),
        "downlink_mean_bps": known.down.mean,
        "uplink_mean_bps": known.up.mean,
    });
    let nothing = Seen::default();
    OwnCase {
        name: format!("{}, {name}", pair.name),
        params: params.as_object().cloned().unwrap_or_else(Map::new),
        paper: Value::Null,
        measured: json!({"up": nothing, "down": nothing}),
        ..OwnCase::default()
    }
}

/// A kernel without cake cannot run a case; every other failure is a failure.
fn lacking(error: NetnsError) -> OursError {
    match super::mitigations::reason(&error, NAME) {
        Some(reason) => OursError::NotRunnable(reason),
        None => OursError::Failed(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn only_picks_traces_and_contenders() {
        let all = pairs(None).unwrap();
        let picked = |quick, only: &[&str]| {
            let only = names(only);
            wanted(&all, quick, &only).map(|pair| pair.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(picked(true, &[]), ["step-down", "walk"]);
        assert_eq!(picked(true, &["outage", "ours"]), ["outage"]);
        assert_eq!(picked(false, &["ours"]).len(), all.len());
        let has = |only: &[&str], name| is_named(&names(only), name, has_contender);
        assert!(has(&["walk"], "none") && has(&["walk", "ours"], "ours") && !has(&["walk", "ours"], "none"));
        let error = check_names(&names(&["wakl"]), &all).unwrap_err().to_string();
        assert!(error.contains("`wakl`") && error.contains("walk") && error.contains("cake-p10"), "{error}");
    }

    #[test]
    fn a_case_has_its_keys_before_it_ran() {
        let all = pairs(None).unwrap();
        let known = PerDirection::from_fn(|direction| Known::of(&all[0].traces[direction], USUAL));
        let case = empty(&all[0], "ours", link(known), known);
        for direction in ["up", "down"] {
            for key in
                ["utilization", "ping_p50_s", "ping_p95_s", "ping_p99_s", "tcp_rtt_p95_s", "probe_bytes"]
            {
                assert!(case.measured[direction].get(key).is_some(), "{direction} {key}");
            }
        }
        assert_eq!(case.params["trace"], "constant");
    }
}
