//! `pendulum replay --incident`: the detector judges a recording again.

use std::io::{self, Write};

use pendulum_model::detector::{Config, Detector};
use pendulum_model::event::Event;
use pendulum_model::findings::{Change, Verdict};
use pendulum_model::link::{Known, Link};
use pendulum_model::sample::{FlowSample, Sample};
use pendulum_model::segment::{Direction, PerDirection};
use serde::Serialize;

use super::recorder::VerdictTimes;
use super::{HeavyFlow, Incident, table};

/// What the detector says of a recording.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayedVerdicts {
    /// Which.
    pub id: String,
    /// When it was recognised.
    pub time: String,
    /// What began.
    pub what: String,
    /// How long it lasted.
    pub lasted_s: f64,
    /// The verdict then: the one that held longest while the change lasted.
    pub recorded_verdict: String,
    /// The same of the detector of this version.
    pub verdict: Verdict,
    /// Whether both agree.
    pub agrees: bool,
    /// Why, in one sentence.
    pub reason: Option<String>,
    /// The flows that carried most.
    pub flows: Vec<HeavyFlow>,
    /// What changed, seconds from the start of the recording on.
    pub events: Vec<Event>,
}

impl Incident {
    /// The recording as the detector takes it.
    ///
    /// # Errors
    /// What does not fit together.
    pub fn samples(&self) -> Result<Vec<Sample>, String> {
        let mut samples = table::samples(&self.columns, self.rows)?;
        for (row, flows) in &self.flow_samples {
            let Some(sample) = samples.get_mut(*row) else {
                return Err(format!("flows were read at row {row} of {}", self.rows));
            };
            sample.flows = flows.iter().filter_map(flow).collect();
        }
        Ok(samples)
    }

    /// Judges it again.
    ///
    /// # Errors
    /// What does not fit together.
    pub fn judge(&self) -> Result<ReplayedVerdicts, String> {
        let samples = self.samples()?;
        let capacity = PerDirection::from_fn(|x| self.capacity[x].map(Known::config));
        let link = Link { capacity, ..Link::default() };
        let mut detector = Detector::new(Config { link, thresholds: self.thresholds });
        let (mut events, mut held, mut reason) = (Vec::new(), VerdictTimes::default(), None);
        let first = samples.first().map_or(0.0, |sample| sample.at.as_secs_f64());
        let change = self.summary.before_s;
        for (row, sample) in samples.iter().enumerate() {
            let mut new = detector.push(sample);
            for event in &mut new {
                event.at_s -= first;
                event.evidence.since_s -= first;
            }
            events.append(&mut new);
            let at = sample.at.as_secs_f64() - first;
            if (change..=change + self.summary.lasted_s).contains(&at) {
                held.add(detector.verdict(), sample.span);
                // A pass over the past: once a second will do.
                if row % 100 == 0 {
                    reason = detector.state().evidence.map(|evidence| evidence.reason).or(reason);
                }
            }
        }
        let verdict = held.longest();
        Ok(ReplayedVerdicts {
            id: self.summary.id.clone(),
            time: self.summary.time.clone(),
            what: self.summary.what.clone(),
            lasted_s: self.summary.lasted_s,
            recorded_verdict: self.summary.verdict.to_string(),
            agrees: self.summary.verdict == verdict.name(),
            verdict,
            reason,
            flows: self.flows.clone(),
            events,
        })
    }
}

fn flow(figures: &[Option<i64>; 6]) -> Option<FlowSample> {
    let [number, direction, bytes, in_flight, round_trip, base] = *figures;
    let seconds = |micros: i64| micros as f64 / 1e6;
    Some(FlowSample {
        id: u64::try_from(number?).ok()?,
        direction: if direction? == 0 { Direction::Up } else { Direction::Down },
        data_bytes: u64::try_from(bytes?).ok()?,
        in_flight_bytes: in_flight.map(|bytes| bytes as f64),
        round_trip: round_trip.map(seconds),
        base_round_trip: base.map(seconds),
    })
}

/// The answer for people.
///
/// # Errors
/// If it cannot be written.
pub fn write_text(judged: &ReplayedVerdicts, out: &mut dyn Write) -> io::Result<()> {
    let ReplayedVerdicts { id, time, what, lasted_s, recorded_verdict, verdict, .. } = judged;
    writeln!(out, "Incident {id}: {what} at {time}, {lasted_s:.0} s of the recording")?;
    writeln!(out, "  verdict then    {recorded_verdict}")?;
    let agrees = if judged.agrees { "the same" } else { "another: the rules or the figures differ" };
    writeln!(out, "  verdict now     {verdict} ({agrees})")?;
    if let Some(reason) = &judged.reason {
        writeln!(out, "  why             {reason}")?;
    }
    for flow in &judged.flows {
        let [home, remote] = flow.addresses.clone().unwrap_or_default();
        writeln!(
            out,
            "  flow            {home}:{} to {remote}:{}, {:.1} MB up, {:.1} MB down",
            flow.home_port,
            flow.remote_port,
            flow.bytes.up as f64 / 1e6,
            flow.bytes.down as f64 / 1e6
        )?;
    }
    let is_phase = |event: &&Event| matches!(event.change, Change::Phase { .. });
    for event in judged.events.iter().filter(|event| !is_phase(event)) {
        writeln!(out, "  {:5.1} s         {}", event.at_s, event.evidence.reason)?;
    }
    Ok(())
}
