//! Buffer sizes for the link as it is found to be: the mathematics of `pendulum advise` on measured values.

use std::sync::Arc;
use std::time::Duration;

use pendulum_model::detector::{Detector, State};
use pendulum_model::findings::Verdict;
use pendulum_model::rate::Rate;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::sizing::{self, Advice, AdviceInput};

/// Asked for once a second, computed anew at every so many: the figures move slowly and the formulas take their time.
const SECONDS_BETWEEN: u32 = 10;

/// Remembers the newest advice.
pub(super) struct Advisor {
    wan: String,
    asked: u32,
    basis: Option<Basis>,
    advice: Option<Arc<Advice>>,
    predicted_ratio: Option<f64>,
}

/// What the advice rests on. A change of a rate that is more than its last digit makes it old.
#[derive(Clone, Copy, PartialEq)]
struct Basis {
    kilobits: PerDirection<u64>,
    verdict: Verdict,
}

impl Advisor {
    /// For a link on this device.
    pub(super) fn new(wan: &str) -> Self {
        Self { wan: wan.to_owned(), asked: 0, basis: None, advice: None, predicted_ratio: None }
    }

    /// The newest advice.
    pub(super) fn advice(&self) -> Option<Arc<Advice>> {
        self.advice.clone()
    }

    /// `r` as predicted for the buffers as they are.
    pub(super) fn predicted_ratio(&self) -> Option<f64> {
        self.predicted_ratio
    }

    /// Takes in the state once a second.
    pub(super) fn consider(&mut self, detector: &Detector, state: &State) {
        let basis = basis(detector, state);
        let is_due = self.asked.is_multiple_of(SECONDS_BETWEEN) || basis != self.basis;
        self.asked = if is_due { 1 } else { self.asked + 1 };
        if !is_due {
            return;
        }
        self.basis = basis;
        self.advice = basis.and_then(|_| advise(detector, state, &self.wan)).map(Arc::new);
        // Without traffic both ways there is no ratio to predict.
        let has_ratio = !matches!(state.verdict, Verdict::OneWay | Verdict::Clear);
        let predicted = has_ratio.then(|| detector.predicted_ratio()).flatten();
        self.predicted_ratio = predicted.map(|prediction| prediction.ratio).filter(|ratio| ratio.is_finite());
    }
}

fn basis(detector: &Detector, state: &State) -> Option<Basis> {
    state.base_round_trip_s?;
    let kilobits = |x: Direction| Some((detector.capacity(x)?.value / 125.0).round() as u64);
    let kilobits = PerDirection { up: kilobits(Direction::Up)?, down: kilobits(Direction::Down)? };
    Some(Basis { kilobits, verdict: state.verdict })
}

fn advise(detector: &Detector, state: &State, wan: &str) -> Option<Advice> {
    let rate = |x: Direction| Rate::from_bytes_per_second(detector.capacity(x)?.value);
    let round_trip = Duration::try_from_secs_f64(state.base_round_trip_s?).ok()?;
    let input = AdviceInput {
        device: wan.to_owned(),
        ..AdviceInput::new(rate(Direction::Down)?, rate(Direction::Up)?, round_trip)
    };
    // A link no buffer can help has no advice: that is no error here.
    sizing::advise(&input).ok()
}
