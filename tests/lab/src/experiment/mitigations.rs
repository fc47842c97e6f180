//! What helps against full buffers on an asymmetric link, side by side: plain and small buffers, the kernel's fq_codel and cake, and the
//! agent's shaper with each of its ACK filters (000 §6, RFC 3449, paper 002).
//!
//! Every case has the same link and traffic. Its score is each direction's goodput as a share of what that direction has alone on the
//! link with a plain buffer, summed. Beside it: a ping, retransmission timeouts, and how two hosts that upload share the link.

mod arrangement;
mod congestion_control;
mod links;
mod measure;
mod ours;
mod ping;
mod selection;
mod short;
mod table;

use std::fmt;
use std::time::Duration;

use pendulum_model::segment::PerDirection;
use serde_json::{Map, Value, json};

use super::{About, Experiment, ExperimentError, OwnCase, Printed, Progress, Report, RunOptions};
use crate::lab::{Lab, LinkSpec};
use crate::netns::NetnsError;
use crate::topology::Role;

use arrangement::{Arrangement, CASES};
pub(super) use congestion_control::is_available;
use links::{Ecn, LinkTraffic};
pub(super) use measure::grown;
use measure::{CaseFigures, CaseTraffic, measure, smaller_share};
pub(super) use ours::{Ours, OursError};
use selection::Selection;

/// See the module.
pub(super) struct Mitigations;

const NAME: &str = "mitigations";
/// Which kinds of explicit congestion notification an end asks for.
const TCP_ECN: &str = "net.ipv4.tcp_ecn";
/// Of each case.
const USUAL: Duration = Duration::from_secs(60);
const QUICK: Duration = Duration::from_secs(15);
const SHORTEST: Duration = Duration::from_secs(8);

impl Experiment for Mitigations {
    fn about(&self) -> About {
        let runs = Selection::default().runs();
        About {
            name: NAME,
            source: "000 §6, RFC 3449, 002",
            what: "fifo, fq_codel, cake and the shaper with each ACK filter, on six links; --only picks links, cc, ECN and cases",
            usual: USUAL * runs,
            quick: QUICK * runs,
            shortest: SHORTEST * runs,
        }
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Printed, ExperimentError> {
        let selection = Selection::parse(&options.only)?;
        let runs = selection.runs();
        let usual = if options.quick { QUICK } else { USUAL };
        let length = options.total.map_or(usual, |total| total / runs).max(SHORTEST);
        let mut bench = MitigationsBench { options, progress, length, runs, done: 0, what: String::new() };
        let (mut cases, mut text) = (Vec::new(), String::new());
        for (link, cc, ecn) in selection.blocks() {
            let block = bench.block(link, cc, ecn, &selection)?;
            text.push_str(&table::block(link, cc, ecn, &block));
            cases.extend(block);
        }
        text.push_str(&format!(
            "{} s each, the last three quarters measured; score: goodput over goodput alone, both directions added; ping: beside the traffic; \
             smaller host: share of the smaller of two uploads from two hosts\n",
            length.as_secs()
        ));
        Report::new(NAME, cases, text).finish(options)
    }
}

/// Where all cases run.
struct MitigationsBench<'a> {
    options: &'a RunOptions,
    progress: &'a (dyn Fn(Progress) + Sync),
    length: Duration,
    runs: u32,
    done: u32,
    what: String,
}

impl MitigationsBench<'_> {
    /// All cases of one link, congestion control and kind of ECN.
    fn block(
        &mut self,
        link: &'static LinkTraffic,
        cc: &'static str,
        ecn: Ecn,
        selection: &Selection,
    ) -> Result<Vec<OwnCase>, ExperimentError> {
        let cases = || CASES.into_iter().filter(|(name, _)| selection.has_case(name));
        let mut block = Block { link, cc, ecn, alone: PerDirection::default() };
        if let Some(reason) = block.lacks()? {
            return Ok(cases()
                .map(|(name, arrangement)| self.skipped(block.empty(name, arrangement), &reason))
                .collect());
        }
        block.alone = self.alone(&block)?;
        cases().map(|(name, arrangement)| self.case(name, arrangement, &block)).collect()
    }

    /// What each direction has for itself.
    fn alone(&mut self, block: &Block) -> Result<PerDirection<Option<f64>>, ExperimentError> {
        let mut alone = PerDirection::default();
        for streams in block.link.alone() {
            self.what = format!("{block}: one direction alone");
            let lab = block.lab(block.link.unstarved())?;
            let measured = self.traffic(&lab, block, streams)?;
            alone.up = measured.goodput_bps.up.or(alone.up);
            alone.down = measured.goodput_bps.down.or(alone.down);
        }
        Ok(alone)
    }

    fn case(
        &mut self,
        name: &str,
        arrangement: Arrangement,
        block: &Block,
    ) -> Result<OwnCase, ExperimentError> {
        self.what = format!("{block}: {name}");
        let link = block.link;
        let mut case = block.empty(name, arrangement);
        let spec = match arrangement.link(link.spec) {
            Ok(spec) => spec,
            Err(reason) => return Ok(self.skipped(case, &reason)),
        };
        case.params.insert("uplink_buffer".into(), spec.uplink.buffer.to_string().into());
        let lab = block.lab(spec)?;
        if let Err(error) = arrangement.install(&lab) {
            return match reason(&error, NAME) {
                Some(reason) => Ok(self.skipped(case, &reason)),
                None => Err(error.into()),
            };
        }
        let ours = match arrangement {
            Arrangement::Lane(keys) => match Ours::start(&lab, self.options.agent.as_deref(), keys) {
                Ok(ours) => Some(ours),
                Err(OursError::NotRunnable(reason)) => return Ok(self.skipped(case, &reason)),
                Err(OursError::Failed(error)) => return Err(error),
            },
            _ => None,
        };
        let measured = self.traffic(&lab, block, link.streams)?;
        if measured.goodput_bps.down.is_none_or(|bps| bps <= 0.0) {
            return Err(ExperimentError::NoTraffic { case: self.what.clone() });
        }
        let share = if link.streams.up > 0 { self.hosts(&lab, block)? } else { None };
        case.measured = figures(&measured, &block.alone, share);
        case.truth = json!({"senders": measured, "alone_bps": block.alone});
        if let Some(ours) = ours {
            (case.agent, case.truth["shape"]) = ours.finish()?;
        }
        Ok(case)
    }

    fn traffic(
        &mut self,
        lab: &Lab,
        block: &Block,
        streams: PerDirection<u32>,
    ) -> Result<CaseFigures, ExperimentError> {
        let traffic = CaseTraffic { streams, cc: block.cc, short: block.link.short, length: self.length };
        let measured = measure(lab, &traffic, &self.options.interrupt, &self.progress())?;
        self.done += 1;
        Ok(measured)
    }

    /// How two hosts share the uplink.
    fn hosts(&mut self, lab: &Lab, block: &Block) -> Result<Option<f64>, ExperimentError> {
        let traffic =
            CaseTraffic { streams: block.link.streams, cc: block.cc, short: 0, length: self.length };
        let share = smaller_share(lab, &traffic, &self.options.interrupt, &self.progress())?;
        self.done += 1;
        Ok(share)
    }

    fn progress(&self) -> impl Fn(Duration) {
        let before = self.length * self.done;
        move |elapsed: Duration| {
            (self.progress)(Progress {
                total: self.length * self.runs,
                elapsed: before + elapsed.min(self.length),
                what: self.what.clone(),
            });
        }
    }

    fn skipped(&mut self, case: OwnCase, reason: &str) -> OwnCase {
        self.done += 1;
        OwnCase { not_runnable: Some(reason.into()), ..case }
    }
}

/// Cases that are compared with each other.
struct Block {
    link: &'static LinkTraffic,
    cc: &'static str,
    ecn: Ecn,
    /// Goodput of each direction for itself.
    alone: PerDirection<Option<f64>>,
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.link.name, self.cc, self.ecn.name())
    }
}

impl Block {
    /// A lab whose ends have this kind of ECN.
    fn lab(&self, spec: LinkSpec) -> Result<Lab, ExperimentError> {
        let lab = Lab::start(spec)?;
        for role in Role::ALL.into_iter().filter(|role| role.is_endpoint()) {
            lab.host(role).set_sysctl(TCP_ECN, self.ecn.sysctl())?;
        }
        Ok(lab)
    }

    /// Why this kernel cannot have it.
    fn lacks(&self) -> Result<Option<String>, ExperimentError> {
        if !congestion_control::is_available(self.cc) {
            return Ok(Some(format!("this kernel has no tcp_{}", self.cc)));
        }
        // Every kernel has the usual one: no lab need be built to ask.
        if self.ecn == Ecn::None {
            return Ok(None);
        }
        match self.lab(self.link.spec) {
            Err(ExperimentError::Netns(NetnsError::Sysctl { .. })) => Ok(Some(format!(
                "this kernel has no {TCP_ECN} = {}: AccECN needs Linux 7.0",
                self.ecn.sysctl()
            ))),
            other => other.map(|_| None),
        }
    }

    fn empty(&self, name: &str, arrangement: Arrangement) -> OwnCase {
        OwnCase {
            name: name.into(),
            params: self.link.params(self.cc, self.ecn),
            paper: paper(self.link, arrangement),
            measured: figures(&CaseFigures::default(), &PerDirection::default(), None),
            ..OwnCase::default()
        }
    }
}

/// What the paper has for a case, if anything: the collapse of 000 Fig. 1.
fn paper(link: &LinkTraffic, arrangement: Arrangement) -> Value {
    match (link.name, arrangement) {
        ("paper", Arrangement::Fifo) => {
            json!({"download_bps": 196_000.0, "upload_bps": 196_000.0, "ratio": 1.0})
        }
        _ => json!({"download_bps": null, "upload_bps": null, "ratio": null}),
    }
}

fn figures(measured: &CaseFigures, alone: &PerDirection<Option<f64>>, smaller_host: Option<f64>) -> Value {
    let CaseFigures { goodput_bps, rtt_s, ping, .. } = measured;
    let ratio = match (goodput_bps.down, goodput_bps.up) {
        (Some(down), Some(up)) if up > 0.0 => Some(down / up),
        _ => None,
    };
    let share = |bps: Option<f64>, alone: Option<f64>| Some(bps? / alone.filter(|alone| *alone > 0.0)?);
    let shares = [share(goodput_bps.down, alone.down), share(goodput_bps.up, alone.up)].into_iter().flatten();
    let score = shares.reduce(|sum, share| sum + share);
    let mut figures = Map::new();
    for (name, value) in [
        ("download_bps", goodput_bps.down),
        ("upload_bps", goodput_bps.up),
        ("ratio", ratio),
        ("score", score),
        ("download_rtt_s", rtt_s.down),
        ("upload_rtt_s", rtt_s.up),
        ("ping_p95_s", ping.p95_s),
        ("ping_loss", ping.loss),
        ("smaller_host_share", smaller_host),
    ] {
        figures.insert(name.into(), json!(value));
    }
    let was_measured = measured.seconds > 0.0;
    figures.insert("timeouts".into(), json!(was_measured.then_some(measured.timeouts)));
    figures.insert("short_complete".into(), json!(measured.short.map(|(complete, _)| complete)));
    Value::Object(figures)
}

/// Why a qdisc cannot be had, if the kernel or tc lacks it; every other failure is a failure.
pub(super) fn reason(error: &NetnsError, experiment: &str) -> Option<String> {
    let text = error.to_string();
    let lacks = ["Unknown qdisc", "qdisc kind is unknown", "No such file or directory"];
    lacks.iter().any(|lack| text.contains(lack)).then(|| {
        let first = text.lines().next().unwrap_or_default();
        format!("this kernel or its tc lacks the qdisc ({first}); run in the VM: ./dev vm 6.12 --run \"pendulum-lab run {experiment}\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_adds_the_shares_of_what_each_direction_has_alone() {
        let measured = CaseFigures {
            goodput_bps: PerDirection { up: Some(90.0), down: Some(1000.0) },
            ..CaseFigures::default()
        };
        let both = figures(&measured, &PerDirection { up: Some(180.0), down: Some(2000.0) }, None);
        assert_eq!(both["score"], 1.0);
        let one = figures(
            &CaseFigures { goodput_bps: PerDirection { up: None, down: Some(1000.0) }, ..measured },
            &PerDirection { up: None, down: Some(2000.0) },
            None,
        );
        assert_eq!((&one["score"], &one["ratio"]), (&json!(0.5), &Value::Null));
    }
}
