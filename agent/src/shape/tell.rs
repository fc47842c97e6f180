//! What the kernel side has to do, and what readers see.

use std::time::Duration;

use pendulum_model::link::Provenance;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_wire::{Name, Shaped};

use super::trial::Trial;
use super::{ActiveShaper, Comparison, Shaper, plan};
use crate::bpf::BpfError;
use crate::bpf::abi::{self, pendulum_shape_control};
use crate::config::{AckFilter, Probe, ShapeMode};
use crate::snapshot::{SILENT, ShapeSnapshot, ShapeState};

/// ACKs withheld for one carrier: Linux' own GRO merges up to 44 full segments into one ACK.
const STRETCH: u32 = 32;
/// A connection is left alone until it has had so many bytes acknowledged since it was met: four round trips of slow
/// start from ten segments (RFC 6928), whose window grows with each ACK.
const SPARED_BYTES: u32 = 64 * 1024;
/// Delayed filtering: paper 002 §3 begins at 90 %; it ends where the link has room again.
const UPPER_PERMILLE: u32 = 900;
const LOWER_PERMILLE: u32 = 700;

impl Shaper {
    /// Tells the ACK filter what holds now; not `filters`: to withhold nothing.
    pub(super) fn tell_kernel(&mut self, filters: bool) -> Result<(), BpfError> {
        let (settings, measured) = (&self.settings, &self.measured);
        let rate = match &self.in_place.up {
            Some(place) => place.cake.rate,
            None => self.rates.up.and_then(|link| settings.uplink_rate(link)),
        };
        let Some(ActiveShaper { programs, delta, trial, .. }) = &mut self.active else { return Ok(()) };
        *delta = rate.map_or(0, |rate| plan::delta(settings, rate, measured));
        let Some(programs) = programs else { return Ok(()) };
        let Some(rate) = rate else { return programs.control(pendulum_shape_control::default()) };
        let shapes = trial.as_ref().is_none_or(Trial::shapes);
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        programs.control(pendulum_shape_control {
            channel_bytes_per_s: rate.bytes_per_second() as u64,
            window_ns: nanoseconds(plan::window(rate, measured)),
            carrier_ns: nanoseconds(plan::carrier_age(rate)),
            idle_ns: nanoseconds(SILENT),
            sojourn_ns: nanoseconds(plan::sojourn(rate, measured)),
            mode: match settings.mode {
                ShapeMode::Off => abi::PENDULUM_SHAPE_OFF,
                ShapeMode::DryRun => abi::PENDULUM_SHAPE_DRY_RUN,
                ShapeMode::Auto | ShapeMode::Enforce => abi::PENDULUM_SHAPE_ENFORCE,
            },
            filter: match settings.ack_filter {
                _ if !filters || !shapes || !settings.filters() => abi::PENDULUM_FILTER_OFF,
                AckFilter::Off => abi::PENDULUM_FILTER_OFF,
                AckFilter::Static => abi::PENDULUM_FILTER_STATIC,
                AckFilter::Auto | AckFilter::Delayed => abi::PENDULUM_FILTER_DELAYED,
                AckFilter::PerConnection => abi::PENDULUM_FILTER_PER_CONNECTION,
            },
            delta: *delta,
            stretch: STRETCH,
            spared_bytes: SPARED_BYTES,
            upper_permille: UPPER_PERMILLE,
            lower_permille: LOWER_PERMILLE,
            uplink_ifindex: self.in_place.up.as_ref().map_or(0, |place| place.ifindex),
        })
    }

    /// How it is at present, and why, where that needs a word.
    pub fn state(&self) -> (ShapeState, Option<String>) {
        let problem = self.problem.clone();
        let Some(active) = &self.active else {
            let state = if problem.is_some() { ShapeState::Refused } else { ShapeState::Off };
            return (state, problem);
        };
        if problem.is_some() && active.shapes() && !self.redirects() {
            return (ShapeState::Refused, problem);
        }
        if !self.settings.mode.acts() {
            return (ShapeState::DryRun, None);
        }
        if let Some(why) = active.trial.as_ref().and_then(Trial::declined) {
            return (ShapeState::Declined, Some(why));
        }
        if !active.shapes() {
            return (ShapeState::Observing, None);
        }
        let why = problem.or(active.watch.why().map(str::to_owned));
        (if why.is_some() { ShapeState::Ineffective } else { ShapeState::Enforcing }, why)
    }

    /// What readers see; `source`: how the uplink's rate is known.
    pub fn snapshot(&self, source: Option<Provenance>) -> ShapeSnapshot {
        let (state, reason) = self.state();
        let Some(active) = &self.active else {
            return ShapeSnapshot { state, reason, ..ShapeSnapshot::default() };
        };
        let follower = |x: Direction| self.follower.as_ref().filter(|_| self.in_place[x].is_some());
        let comparison = active.trial.as_ref().map(Trial::comparison);
        ShapeSnapshot {
            state,
            reason,
            ack_filter: Some(self.settings.ack_filter),
            delta: active.delta,
            shaped: PerDirection::from_fn(|x| {
                let auto = follower(x).map(|follower| follower.auto(x).clone());
                let known = if x == Direction::Up { source } else { Some(Provenance::Config) };
                let source = if auto.is_some() { Some("auto") } else { known.map(Provenance::name) };
                let rate_bps = self.rate(x)?.bits_per_second();
                Some(Shaped { rate_bps, rate_source: source.map(Name::from), auto })
            }),
            decisions: PerDirection::from_fn(|x| Some(follower(x)?.decisions(x))),
            probes: (self.settings.probe == Probe::FirstHop).then(|| {
                let prober = self.prober.as_ref().and_then(|prober| prober.as_ref().ok());
                prober.map_or(0, |prober| prober.sent)
            }),
            counts: active.counts,
            is_doubted: comparison.as_ref().is_some_and(|found| found.outcome.speaks_against()),
            ab_test: comparison.as_ref().map(Comparison::sent),
        }
    }
}
