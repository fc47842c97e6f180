//! Buffer sizes for the link as it is found to be: the mathematics of `pendulum advise` on measured values.

use std::sync::Arc;
use std::time::Duration;

use pendulum_model::detector::Detector;
use pendulum_model::findings::Verdict;
use pendulum_model::rate::Rate;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::sizing::{self, AdviceInput};
use pendulum_wire::Advice;

use super::predictor::{Buffer, Predictor, Question, not_simulated};

/// Asked for once a second, computed anew at every so many: the figures move slowly and the formulas take their time.
const SECONDS_BETWEEN: u32 = 10;

/// Why nothing is simulated.
const UNPROVEN: &str = "the round trip without queues is not proven: a queue may be part of it until the link has been idle for a moment";

/// Remembers the newest advice.
#[derive(Default)]
pub(super) struct Advisor {
    wan: String,
    asked: u32,
    basis: Option<Basis>,
    computed: Option<Arc<sizing::Advice>>,
    pub(super) predicted_ratio: Option<f64>,
    pub(super) buffers: PerDirection<Buffer>,
    predictor: Predictor,
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
        Self { wan: wan.to_owned(), ..Self::default() }
    }

    /// The newest advice, and what the simulation says of it; asked for once a second. `now`: on the kernel's monotonic clock.
    pub(super) fn consider(&mut self, now: Duration, detector: &Detector) -> Option<Advice> {
        self.compute(detector);
        let (advice, input) = (self.computed.clone()?, input(detector, &self.wan)?);
        let question = Question { input, advice: Arc::clone(&advice), buffer: self.buffers.clone() };
        let simulated = match detector.base_round_trip()?.is_proven {
            true => self.predictor.consider(now, question),
            false => not_simulated(UNPROVEN),
        };
        Some(sent(&advice, simulated))
    }

    /// The formulas.
    fn compute(&mut self, detector: &Detector) {
        let basis = basis(detector);
        let is_due = self.asked.is_multiple_of(SECONDS_BETWEEN) || basis != self.basis;
        self.asked = if is_due { 1 } else { self.asked + 1 };
        if !is_due {
            return;
        }
        self.basis = basis;
        // A link no buffer can help has no advice: that is no error here.
        let advise = |_| sizing::advise(&input(detector, &self.wan)?).ok();
        self.computed = basis.and_then(advise).map(Arc::new);
        // Without traffic both ways there is no ratio to predict.
        let has_ratio = !matches!(detector.verdict(), Verdict::OneWay | Verdict::Clear);
        let predicted = has_ratio.then(|| detector.predicted_ratio()).flatten();
        self.predicted_ratio = predicted.map(|prediction| prediction.ratio).filter(|ratio| ratio.is_finite());
    }
}

/// The formulas' figures with what was simulated.
fn sent(advice: &sizing::Advice, simulated: Advice) -> Advice {
    Advice {
        uplink_buffer_bytes: advice.uplink_buffer_bytes,
        uplink_buffer_packets: advice.uplink_buffer_packets,
        downlink_buffer_bytes: advice.downlink_buffer_bytes,
        wanted_ratio: advice.wanted_ratio,
        expected_ratio: (advice.upload_bps > 0.0).then(|| advice.download_bps / advice.upload_bps),
        download_bps: advice.download_bps.round() as u64,
        upload_bps: advice.upload_bps.round() as u64,
        max_queue_delay_s: advice.max_queue_delay_s,
        commands: advice.commands.clone(),
        confidence: advice.explanation.confidence.name().into(),
        ..simulated
    }
}

fn basis(detector: &Detector) -> Option<Basis> {
    detector.base_round_trip()?;
    let kilobits = |x: Direction| Some((detector.capacity(x)?.value / 125.0).round() as u64);
    let kilobits = PerDirection { up: kilobits(Direction::Up)?, down: kilobits(Direction::Down)? };
    Some(Basis { kilobits, verdict: detector.verdict() })
}

/// The link as it is found to be, its buffers left out.
fn input(detector: &Detector, wan: &str) -> Option<AdviceInput> {
    let rate = |x: Direction| Rate::from_bytes_per_second(detector.capacity(x)?.value);
    let round_trip = Duration::try_from_secs_f64(detector.base_round_trip()?.seconds).ok()?;
    Some(AdviceInput {
        device: wan.to_owned(),
        ..AdviceInput::new(rate(Direction::Down)?, rate(Direction::Up)?, round_trip)
    })
}

#[cfg(test)]
mod tests {
    use pendulum_model::detector::Config;
    use pendulum_model::link::Link;
    use pendulum_model::sample::{BaseRoundTrip, Sample};

    use super::*;

    #[test]
    fn the_formulas_figures_are_sent_with_the_simulation_s() {
        let rate = |text: &str| text.parse().expect("a rate");
        let input = AdviceInput::new(rate("2400kbit"), rate("196kbit"), Duration::from_millis(40));
        let computed = sizing::Advice {
            uplink_buffer_bytes: 6_000,
            uplink_buffer_packets: 4,
            downlink_buffer_bytes: 70_000,
            wanted_ratio: 3.5,
            upload_bps: 150_000.4,
            download_bps: 2_250_000.6,
            max_queue_delay_s: 0.75,
            commands: vec!["one".to_owned(), "two".to_owned()],
            ..sizing::advise(&input).expect("advice")
        };
        let expected = Advice {
            uplink_buffer_bytes: 6_000,
            uplink_buffer_packets: 4,
            downlink_buffer_bytes: 70_000,
            wanted_ratio: 3.5,
            // Whole bits per second, and the ratio of what they were before.
            upload_bps: 150_000,
            download_bps: 2_250_001,
            expected_ratio: Some(2_250_000.6 / 150_000.4),
            max_queue_delay_s: 0.75,
            commands: vec!["one".to_owned(), "two".to_owned()],
            confidence: "moderate".into(),
            ..not_simulated("why")
        };
        assert_eq!(sent(&computed, not_simulated("why")), expected);
        // No upload, no ratio.
        let one_way = sizing::Advice { upload_bps: 0.0, ..computed };
        assert_eq!(sent(&one_way, Advice::default()).expected_ratio, None);
    }

    #[test]
    fn nothing_is_simulated_before_the_round_trip_is_proven() {
        let mut detector =
            Detector::new(Config { link: Link::with_capacity(24_500.0, 300_000.0), ..Config::default() });
        let mut advisor = Advisor::new("wan0");
        let mut second = 0;
        let mut reason = |base_round_trip| {
            second += 1;
            detector.push(&Sample { at: Duration::from_secs(second), base_round_trip, ..Sample::default() });
            let advice = advisor.consider(Duration::ZERO, &detector)?;
            Some(advice.predicted_as_advised_reason.expect("no figure"))
        };
        let base = |is_proven| Some(BaseRoundTrip { seconds: 0.04, is_proven });
        assert_eq!(reason(None), None);
        assert_eq!(reason(base(false)).as_deref(), Some(UNPROVEN));
        let begun = reason(base(true)).expect("it is not over yet");
        assert!(begun.contains("simulated"), "{begun}");
    }
}
