//! Gives the readings of a link to the detector and passes on what it says.

use std::sync::Arc;
use std::time::Duration;

use pendulum_model::delay::BloatNews;
use pendulum_model::detector::{Config, Detector};
use pendulum_model::event::Event;
use pendulum_model::findings::{Change, Evidence, FindingKind};
use pendulum_model::link::{Known, Link, Provenance};
use pendulum_model::observer::Trust;
use pendulum_model::rate::Rate;
use pendulum_model::sample::{QueueSample, QueueSource, Sample};
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::thresholds::Thresholds;
use pendulum_wire::{Tick, TickHalf};
use tracing::info;

use super::advisor::Advisor;
use super::report::detected;
use super::samples::{LinkReading, SampleBuilder, Seen};
use crate::bpf;
use crate::incident::Recorder;
use crate::journal::Journal;
use crate::net::COUNTED_OTHERWISE;
use crate::shape::{Comparison, RateChange};
use crate::snapshot::{Findings, LinkRate, LinkSnapshot, Unsent};

/// The detector of one link and what it needs.
pub(super) struct Detection {
    link: Arc<str>,
    journal: Journal,
    unsent: Arc<Unsent>,
    pub(super) detector: Detector,
    builder: SampleBuilder,
    /// Kept from tick to tick for its memory.
    samples: Vec<Sample>,
    verdict_since: Option<Duration>,
    pub(super) advisor: Advisor,
    /// It has been said that shaping does not help.
    shaping_doubted: bool,
    findings: Option<Arc<Findings>>,
    ticks: u64,
    ticked_at: Duration,
    /// What the newest tick says of the queues and round trips.
    halves: PerDirection<TickHalf>,
    pub(super) recorder: Recorder,
}

impl Detection {
    /// A detection that has seen nothing.
    pub(super) fn new(link: &str, wan: &str, thresholds: Thresholds, journal: Journal) -> Self {
        Self {
            link: link.into(),
            recorder: Recorder::new(link, journal.incidents().cloned()),
            journal,
            unsent: Arc::default(),
            detector: Detector::new(Config { link: Link::default(), thresholds }),
            builder: SampleBuilder::default(),
            samples: Vec::new(),
            verdict_since: None,
            advisor: Advisor::new(wan),
            shaping_doubted: false,
            findings: None,
            ticks: 0,
            ticked_at: Duration::ZERO,
            halves: PerDirection::default(),
        }
    }

    /// Judges what was read at one tick.
    pub(super) fn tick(&mut self, reading: &LinkReading<'_>) {
        self.builder.take(reading, &mut self.samples);
        let mut samples = std::mem::take(&mut self.samples);
        let mut changed = false;
        let rtt = PerDirection::from_fn(|x| self.builder.assembler.round_trip(x, reading.at));
        for sample in &samples {
            let events = self.detector.push(sample);
            self.recorder.push(sample, rtt, self.detector.verdict());
            for event in events {
                self.pass_on(event, reading.at);
                changed = true;
            }
        }
        if let Some(sweep) = reading.flows {
            self.recorder.note_flows(self.builder.assembler.newest.unwrap_or(reading.at), sweep);
        }
        if let Some(first) = samples.first() {
            self.verdict_since.get_or_insert(first.at);
        }
        samples.clear();
        self.samples = samples;
        let passed = reading.at.saturating_sub(self.ticked_at);
        (self.ticks, self.ticked_at) = (self.ticks + 1, reading.at);
        self.halves = PerDirection::from_fn(|x| TickHalf {
            rtt_s: rtt[x],
            ..steps(reading.queues[x], reading.at, passed)
        });
        self.refresh(changed || reading.flows.is_some());
    }

    /// The shaper's comparison has come to something else.
    pub(super) fn note_shaping(&mut self, comparison: &Comparison) {
        let against = comparison.outcome.speaks_against();
        // Harm after no difference, or the other way round, is news as well.
        if !against && !self.shaping_doubted {
            return;
        }
        self.shaping_doubted = against;
        let now = bpf::monotonic();
        self.tell(FindingKind::ShapingNotHelping, against, comparison.evidence(now.as_secs_f64()), now);
    }

    /// Packets wait at home or beyond the line, or no longer.
    pub(super) fn note_delay(&mut self, news: BloatNews, now: Duration) {
        self.tell(news.finding, news.begins, news.evidence, now);
    }

    /// The shaper does not work, for this reason; or, without one, it does again.
    pub(super) fn note_ineffective(&mut self, why: Option<&str>) {
        let now = bpf::monotonic();
        let evidence = Evidence::new(
            "behind_shaper",
            why.unwrap_or("packets no longer wait behind the shaper"),
            Vec::new(),
            now.as_secs_f64(),
        );
        self.tell(FindingKind::ShapingIneffective, why.is_some(), evidence, now);
    }

    /// The shaper has found another rate.
    pub(super) fn note_rate(&mut self, change: &RateChange) {
        let now = bpf::monotonic();
        let RateChange { direction, from, to, decision, ref reason } = *change;
        let evidence = Evidence::new("shape_rate", reason.clone(), Vec::new(), now.as_secs_f64());
        let change = Change::ShapeRate { direction, from_bps: from * 8.0, to_bps: to * 8.0, decision };
        self.pass_on(Event { at_s: now.as_secs_f64(), change, evidence }, now);
    }

    fn tell(&mut self, finding: FindingKind, begins: bool, evidence: Evidence, now: Duration) {
        let direction = None;
        let change = match begins {
            true => Change::Finding { finding, direction },
            false => Change::FindingEnded { finding, direction },
        };
        self.pass_on(Event { at_s: now.as_secs_f64(), change, evidence }, now);
    }

    /// The link is not measured for now: what held is not known to hold still.
    pub(super) fn suspend(&mut self) {
        self.findings = None;
    }

    fn pass_on(&mut self, event: Event, now: Duration) {
        if let Change::Verdict { from, to } = event.change {
            self.verdict_since = Duration::try_from_secs_f64(event.evidence.since_s).ok();
            info!(link = &*self.link, event = "verdict", verdict = %to, %from, "{}", event.evidence.reason);
        }
        let at = Duration::try_from_secs_f64(event.at_s).unwrap_or(now);
        let age = now.saturating_sub(at);
        self.recorder.note(&event, age, &self.detector);
        self.journal.push(&self.link, &self.unsent, event, age);
    }

    /// What the detector knows now. `all`: also what costs a pass over the past, once a second.
    fn refresh(&mut self, all: bool) {
        let at = self.builder.assembler.newest.unwrap_or_default();
        let sent = match self.findings.take() {
            Some(findings) if !all => Arc::clone(&findings.sent),
            _ => {
                let advice = self.advisor.consider(at, &self.detector);
                Arc::new(detected(&self.detector, self.advisor.predicted_ratio, advice))
            }
        };
        self.findings = Some(Arc::new(Findings {
            at,
            phase: self.detector.phase(),
            verdict: self.detector.verdict(),
            verdict_since: self.verdict_since.unwrap_or(at),
            phase_seconds: self.detector.run().phase_seconds,
            phase_transitions: *self.detector.transitions(),
            rejected_samples: self.detector.rejected_samples(),
            sent,
        }));
    }

    /// Puts all of it into the link's snapshot, which has the shaper's already.
    pub(super) fn show(&self, snapshot: &mut LinkSnapshot) {
        for x in Direction::ALL {
            let direction = &mut snapshot.directions[x];
            direction.rate = self.detector.capacity(x).and_then(link_rate).or(direction.rate);
            if let Some(queue) = direction.queue.as_mut().filter(|_| self.findings.is_some()) {
                queue.standing_bytes = self.detector.standing_bytes(x);
            }
        }
        snapshot.findings.clone_from(&self.findings);
        let half = |x: Direction| TickHalf {
            throughput_bps: snapshot.directions[x].throughput * 8.0,
            auto: snapshot.shape.found(x),
            ..self.halves[x].clone()
        };
        snapshot.tick = Tick {
            link: self.link.to_string(),
            at_s: self.ticked_at.as_secs_f64(),
            step_s: bpf::BUCKET.as_secs_f64(),
            up: half(Direction::Up),
            down: half(Direction::Down),
            phase: self.findings.as_ref().and_then(|now| now.phase).map(|(phase, _)| phase.name().into()),
            verdict: self.findings.as_ref().map(|now| now.verdict.name().into()),
            skipped: 0,
        };
        snapshot.tick_number = self.ticks;
        let contradicted = PerDirection::from_fn(|x| self.detector.rates(x).counting()?.contradicted);
        snapshot.degraded = degraded(snapshot, &contradicted).into();
        snapshot.unsent = Arc::clone(&self.unsent);
    }
}

/// What is measured less well than it could be, and the remedy.
fn degraded(link: &LinkSnapshot, contradicted: &PerDirection<Option<f64>>) -> Vec<String> {
    let mut sentences = Vec::new();
    if link.findings.is_none() {
        return sentences;
    }
    for (direction, buffer) in Direction::ALL.into_iter().zip(["uplink's", "downlink's"]) {
        match link.directions[direction].queue.as_ref().map(|queue| (queue.source, queue.trust)) {
            Some((_, Some(Trust::NeverEmpty))) => sentences.push(format!(
                "the {buffer} buffer was never seen empty: its level is a lower bound until the link has been idle for a moment"
            )),
            Some((_, Some(Trust::Stale))) => sentences.push(format!(
                "the {buffer} buffer was not seen empty for minutes: a longer route would look like a queue until the link has \
                 been idle for a moment"
            )),
            Some((QueueSource::Netlink, None)) => sentences.push(format!(
                "the {buffer} queue is read by netlink ten times a second; peaks in between are missed. `pendulum doctor` names \
                 the missing kernel feature"
            )),
            Some((_, Some(Trust::Confirmed) | None)) => {}
            None => sentences.push(format!(
                "the level of the {buffer} buffer is unknown: no packet has shown yet how long it waits there, and the \
                 transfers' windows are used instead"
            )),
        }
    }
    for direction in Direction::ALL {
        let name = direction.name();
        if let Some(ratio) =
            link.directions[direction].unseen_ratio.filter(|ratio| *ratio >= COUNTED_OTHERWISE)
        {
            sentences.push(format!(
                "{:.0} % of the bytes that {} carried {name} in the last seconds bypassed the agent; `pendulum doctor --wan \
                 {}` names the cause: flow offload, XDP, large receive offload",
                ratio * 1e2,
                link.wan,
                link.wan
            ));
        }
        let rate = link.directions[direction].rate;
        let configured = contradicted[direction].and_then(Rate::from_bytes_per_second);
        match rate.map(|known| known.source) {
            None => sentences
                .push(format!("the {name}link's rate is unknown; give {name}link-rate in the configuration")),
            Some(Provenance::Learnt) if configured.is_some() => {
                sentences.extend(
                    configured.zip(rate).map(|(configured, known)| wrong(name, configured, known.rate)),
                );
            }
            Some(Provenance::Learnt) => sentences.push(format!(
                "the {name}link's rate is measured while its buffer holds a queue; give {name}link-rate in \
                 the configuration if it is known"
            )),
            Some(Provenance::Config | Provenance::ShapingQdisc) => {}
        }
    }
    sentences
}

fn wrong(name: &str, configured: Rate, carried: Rate) -> String {
    format!(
        "{name}link-rate is configured as {configured}, but the link carried {carried} while its buffer held a queue, and that rate is \
         used; correct {name}link-rate in the configuration"
    )
}

fn link_rate(known: Known) -> Option<LinkRate> {
    Some(LinkRate { rate: Rate::from_bytes_per_second(known.value)?, source: known.provenance })
}

/// A queue in steps of a bucket; what is known only as one figure has it in each step.
fn steps(seen: Seen<'_>, at: Duration, passed: Duration) -> TickHalf {
    let count = (passed.as_secs_f64() / bpf::BUCKET.as_secs_f64()).round().clamp(1.0, 100.0) as usize;
    match seen {
        Seen::Nothing => TickHalf::default(),
        Seen::Level(queue) => TickHalf {
            queue_bytes: Some(vec![queue.mean_bytes; count]),
            queue_uncertainty_bytes: Some(vec![queue.uncertainty_bytes; count]),
            source: Some(queue.source.name().into()),
            ..TickHalf::default()
        },
        Seen::Estimate(queue) => {
            let end = (at.as_nanos() / bpf::BUCKET.as_nanos()) as u64;
            let numbers = end.saturating_sub(count as u64)..end;
            let known: Option<Vec<_>> = numbers.map(|number| queue.sample(number)).collect();
            let of = |figure: fn(&QueueSample) -> f64| Some(known.as_ref()?.iter().map(figure).collect());
            TickHalf {
                queue_bytes: of(|level| level.mean_bytes),
                queue_uncertainty_bytes: of(|level| level.uncertainty_bytes),
                source: Some(QueueSource::Estimate.name().into()),
                ..TickHalf::default()
            }
        }
        Seen::Buckets(buckets) => TickHalf {
            queue_bytes: Some(buckets.iter().map(|bucket| bucket.mean_bytes).collect()),
            queue_uncertainty_bytes: Some(vec![0.0; buckets.len()]),
            queue_ack_bytes: Some(buckets.iter().map(|bucket| bucket.mean_ack_bytes).collect()),
            source: Some(QueueSource::Tracepoint.name().into()),
            ..TickHalf::default()
        },
    }
}

#[cfg(test)]
mod tests;
