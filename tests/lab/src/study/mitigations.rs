//! What helps against full buffers on an asymmetric link, side by side: plain and small buffers, the kernel's fq_codel and cake, and the
//! agent's ACK lane with each of its filters (000 §6, RFC 3449, paper 002).
//!
//! Every case has the same link and traffic. Its score is each direction's goodput as a share of what that direction has alone on the
//! link with a plain buffer, summed.

mod arrangement;
mod links;
mod measure;
mod ours;
mod selection;
mod table;

use std::time::Duration;

use pendulum_model::segment::PerDirection;
use serde_json::{Map, Value, json};

use super::{Study, StudyCase, StudyError, StudyOptions, StudyReport};
use crate::experiment::{About, Progress};
use crate::lab::Lab;
use crate::netns::NetnsError;

use arrangement::{Arrangement, CASES};
use links::{LINKS, Link};
use measure::{Measured, measure};
use ours::{Ours, OursError};
use selection::Selection;

/// See the module.
pub(super) struct Mitigations;

const NAME: &str = "mitigations";
/// Of each case.
const USUAL: Duration = Duration::from_secs(60);
const QUICK: Duration = Duration::from_secs(15);
const SHORTEST: Duration = Duration::from_secs(8);

impl Study for Mitigations {
    fn about(&self) -> About {
        let runs = Selection::default().runs();
        About {
            name: NAME,
            source: "000 §6, RFC 3449, 002",
            what: "fifo, fq_codel, cake and the ACK lane with each filter, on three links; --only picks links, cc and cases",
            usual: USUAL * runs,
            quick: QUICK * runs,
            shortest: SHORTEST * runs,
        }
    }

    fn run(&self, options: &StudyOptions, progress: &dyn Fn(Progress)) -> Result<StudyReport, StudyError> {
        let selection = Selection::parse(&options.only)?;
        let runs = selection.runs();
        let usual = if options.quick { QUICK } else { USUAL };
        let length = options.total.map_or(usual, |total| total / runs).max(SHORTEST);
        let mut bench = Bench { options, progress, length, runs, done: 0, what: String::new() };
        let (mut cases, mut text) = (Vec::new(), String::new());
        for link in LINKS.iter().filter(|link| selection.has_link(link.name)) {
            for cc in selection.congestion_controls() {
                let block = bench.block(link, cc, &selection)?;
                text.push_str(&table::block(link, cc, &block));
                cases.extend(block);
            }
        }
        text.push_str(&format!(
            "{} s each, the last three quarters measured; score: goodput over goodput alone, both directions added\n",
            length.as_secs()
        ));
        Ok(StudyReport::new(NAME, cases, text))
    }
}

/// Where all cases run.
struct Bench<'a> {
    options: &'a StudyOptions,
    progress: &'a dyn Fn(Progress),
    length: Duration,
    runs: u32,
    done: u32,
    what: String,
}

impl Bench<'_> {
    /// All cases of one link and congestion control.
    fn block(&mut self, link: &Link, cc: &str, selection: &Selection) -> Result<Vec<StudyCase>, StudyError> {
        let alone = self.alone(link, cc)?;
        let mut cases = Vec::new();
        for (name, arrangement) in CASES.into_iter().filter(|(name, _)| selection.has_case(name)) {
            self.what = format!("{}, {cc}: {name}", link.name);
            cases.push(self.case(name, arrangement, link, cc, &alone)?);
        }
        Ok(cases)
    }

    /// What each direction has for itself.
    fn alone(&mut self, link: &Link, cc: &str) -> Result<PerDirection<Option<f64>>, StudyError> {
        let mut alone = PerDirection::default();
        for streams in
            [PerDirection { up: 0, down: link.streams.down }, PerDirection { up: link.streams.up, down: 0 }]
        {
            if streams == (PerDirection { up: 0, down: 0 }) {
                continue;
            }
            self.what = format!("{}, {cc}: one direction alone", link.name);
            let lab = Lab::start(link.unstarved())?;
            let measured = self.traffic(&lab, streams, cc)?;
            alone.up = measured.goodput_bps.up.or(alone.up);
            alone.down = measured.goodput_bps.down.or(alone.down);
        }
        Ok(alone)
    }

    fn case(
        &mut self,
        name: &str,
        arrangement: Arrangement,
        link: &Link,
        cc: &str,
        alone: &PerDirection<Option<f64>>,
    ) -> Result<StudyCase, StudyError> {
        let mut case = StudyCase {
            name: name.into(),
            params: link.params(cc),
            paper: paper(link, arrangement),
            measured: figures(&Measured::default(), &PerDirection::default()),
            ..StudyCase::default()
        };
        let spec = match arrangement.link(link.spec) {
            Ok(spec) => spec,
            Err(reason) => return Ok(self.skipped(case, reason)),
        };
        case.params.insert("uplink_buffer".into(), spec.uplink.buffer.to_string().into());
        let lab = Lab::start(spec)?;
        if let Err(error) = arrangement.install(&lab) {
            return match reason(&error) {
                Some(reason) => Ok(self.skipped(case, reason)),
                None => Err(error.into()),
            };
        }
        let ours = match arrangement {
            Arrangement::Lane(keys) => match Ours::start(&lab, self.options.agent.as_deref(), keys) {
                Ok(ours) => Some(ours),
                Err(OursError::NotRunnable(reason)) => return Ok(self.skipped(case, reason)),
                Err(OursError::Failed(error)) => return Err(error),
            },
            _ => None,
        };
        let measured = self.traffic(&lab, link.streams, cc)?;
        if measured.goodput_bps.down.is_none_or(|bps| bps <= 0.0) {
            return Err(StudyError::NoTraffic { case: self.what.clone() });
        }
        case.measured = figures(&measured, alone);
        case.truth = json!({"senders": measured, "alone_bps": alone});
        if let Some(ours) = ours {
            (case.agent, case.truth["shape"]) = ours.finish()?;
        }
        Ok(case)
    }

    fn traffic(&mut self, lab: &Lab, streams: PerDirection<u32>, cc: &str) -> Result<Measured, StudyError> {
        let before = self.length * self.done;
        let step = |elapsed: Duration| {
            (self.progress)(Progress {
                total: self.length * self.runs,
                elapsed: before + elapsed.min(self.length),
                what: self.what.clone(),
            });
        };
        step(Duration::ZERO);
        let measured = measure(lab, streams, cc, self.length, &self.options.interrupt, &step)?;
        self.done += 1;
        Ok(measured)
    }

    fn skipped(&mut self, case: StudyCase, reason: String) -> StudyCase {
        self.done += 1;
        StudyCase { not_runnable: Some(reason), ..case }
    }
}

/// What the paper has for a case, if anything: the collapse of 000 Fig. 1.
fn paper(link: &Link, arrangement: Arrangement) -> Value {
    match (link.name, arrangement) {
        ("paper", Arrangement::Fifo) => {
            json!({"download_bps": 196_000.0, "upload_bps": 196_000.0, "ratio": 1.0})
        }
        _ => json!({"download_bps": null, "upload_bps": null, "ratio": null}),
    }
}

fn figures(measured: &Measured, alone: &PerDirection<Option<f64>>) -> Value {
    let Measured { goodput_bps, rtt_s, .. } = measured;
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
    ] {
        figures.insert(name.into(), json!(value));
    }
    Value::Object(figures)
}

/// Why a qdisc cannot be had, if the kernel or tc lacks it; every other failure is a failure.
fn reason(error: &NetnsError) -> Option<String> {
    let text = error.to_string();
    let lacks = ["Unknown qdisc", "qdisc kind is unknown", "No such file or directory"];
    lacks.iter().any(|lack| text.contains(lack)).then(|| {
        let first = text.lines().next().unwrap_or_default();
        format!("this kernel or its tc lacks the qdisc ({first}); run in the VM: ./dev vm 6.12 --run \"pendulum-lab run {NAME}\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_adds_the_shares_of_what_each_direction_has_alone() {
        let measured = Measured {
            goodput_bps: PerDirection { up: Some(90.0), down: Some(1000.0) },
            ..Measured::default()
        };
        let both = figures(&measured, &PerDirection { up: Some(180.0), down: Some(2000.0) });
        assert_eq!(both["score"], 1.0);
        let one = figures(
            &Measured { goodput_bps: PerDirection { up: None, down: Some(1000.0) }, ..measured },
            &PerDirection { up: None, down: Some(2000.0) },
        );
        assert_eq!((&one["score"], &one["ratio"]), (&json!(0.5), &Value::Null));
    }
}
