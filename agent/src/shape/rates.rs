//! Which rates the shaper takes for the link's: those of the configuration, else the WAN qdisc's own, else the learnt one.

use pendulum_model::constants::{FORGOTTEN, HALF, SLIGHT};
use pendulum_model::rate::Rate;
use pendulum_model::sample::MeasuredRate;

use pendulum_model::link::Provenance;

/// What is known of the uplink's rate beside the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OtherRates {
    /// What the WAN device's own qdisc shapes to.
    pub qdisc: Option<Rate>,
    /// What was learnt while that qdisc's queue stood. None while we shape: it would be our own rate.
    pub learnt: Option<MeasuredRate>,
}

/// The uplink's rate and where it comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uplink {
    adopted: Option<(Rate, Provenance)>,
    /// The highest learnt rate, faded, as of the newest measurement.
    highest: Option<MeasuredRate>,
}

impl Uplink {
    /// What holds from now on. A learnt rate stays until another one is known: nothing can be learnt while we shape.
    pub fn follow(&mut self, configured: Option<Rate>, seen: OtherRates) -> Option<Rate> {
        let configured = configured.map(|rate| (rate, Provenance::Config));
        let learnt = |rate| self.learn(rate).map(|rate| (rate, Provenance::Learnt));
        self.adopted = configured
            .or_else(|| seen.qdisc.map(|rate| (rate, Provenance::ShapingQdisc)))
            .or_else(|| seen.learnt.and_then(learnt))
            .or_else(|| self.adopted.filter(|(_, source)| *source == Provenance::Learnt));
        self.rate()
    }

    /// A rate that is only slightly off is the same: each change disturbs the queue. The highest fades by half in [`FORGOTTEN`]: a line that has become
    /// slow is shaped at its rate. None falls below half of it: a gap in the traffic must not shape the line.
    fn learn(&mut self, rate: MeasuredRate) -> Option<Rate> {
        let known = self.adopted.filter(|(_, source)| *source == Provenance::Learnt).map(|(rate, _)| rate);
        let faded = self.highest.map_or(0.0, |highest| {
            let passed = rate.measured_at.saturating_sub(highest.measured_at);
            highest.bytes_per_second * (-passed.as_secs_f64() / FORGOTTEN.as_secs_f64()).exp2()
        });
        let bytes_per_second = faded.max(rate.bytes_per_second);
        self.highest = Some(MeasuredRate { bytes_per_second, ..rate });
        let new = rate.bytes_per_second.max(HALF * bytes_per_second);
        match known {
            Some(known) if (new / known.bytes_per_second() - 1.0).abs() <= SLIGHT => Some(known),
            _ => Rate::from_bytes_per_second(new),
        }
    }

    /// The rate.
    pub fn rate(&self) -> Option<Rate> {
        self.adopted.map(|(rate, _)| rate)
    }

    /// Where it comes from.
    pub fn source(&self) -> Option<Provenance> {
        self.adopted.map(|(_, source)| source)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    fn learnt(text: &str) -> OtherRates {
        learnt_at(text, 0)
    }

    fn learnt_at(text: &str, second: u64) -> OtherRates {
        let bytes_per_second = rate(text).bytes_per_second();
        let measured = MeasuredRate { bytes_per_second, measured_at: Duration::from_secs(second) };
        OtherRates { learnt: Some(measured), ..OtherRates::default() }
    }

    #[test]
    fn the_configuration_comes_first_and_then_the_qdisc() {
        let mut uplink = Uplink::default();
        assert_eq!(uplink.follow(None, OtherRates::default()), None);
        let seen = OtherRates { qdisc: Some(rate("2mbit")), ..learnt("3mbit") };
        assert_eq!(uplink.follow(Some(rate("1mbit")), seen), Some(rate("1mbit")));
        assert_eq!(uplink.source(), Some(Provenance::Config));
        assert_eq!(uplink.follow(None, seen), Some(rate("2mbit")));
        assert_eq!(uplink.source(), Some(Provenance::ShapingQdisc));
        // It shapes no longer, and nothing else is known.
        assert_eq!(uplink.follow(None, OtherRates::default()), None);
    }

    #[test]
    fn a_learnt_rate_stays_while_we_shape_and_does_not_creep_down() {
        let mut uplink = Uplink::default();
        assert_eq!(uplink.follow(None, learnt("1mbit")), Some(rate("1mbit")));
        assert_eq!(uplink.source(), Some(Provenance::Learnt));
        assert_eq!(uplink.follow(None, OtherRates::default()), Some(rate("1mbit")), "while we shape");
        for _ in 0..10 {
            // What 99 % of the rate look like when shaping pauses.
            assert_eq!(uplink.follow(None, learnt("990kbit")), Some(rate("1mbit")));
        }
        assert_eq!(uplink.follow(None, learnt("2mbit")), Some(rate("2mbit")), "the line became faster");
        assert_eq!(uplink.follow(None, learnt("1500kbit")), Some(rate("1500kbit")), "and slower");
        assert_eq!(uplink.follow(None, learnt("100kbit")), Some(rate("1mbit")), "half of what it once had");
        // Ten minutes later half of that is enough, and after an hour of such a line it is shaped at its rate.
        assert_eq!(uplink.follow(None, learnt_at("100kbit", 600)), Some(rate("500kbit")));
        assert_eq!(uplink.follow(None, learnt_at("100kbit", 3_600)), Some(rate("100kbit")));
    }
}
