//! Which rates the shaper takes for the link's: those of the configuration, else the WAN qdisc's own, else the learnt one.

use pendulum_model::rate::Rate;

use crate::snapshot::RateSource;

/// A learnt rate that is no more than this off is the same one: it is a measurement, and each change disturbs the queue.
const DEAD_BAND: f64 = 0.1;
/// A learnt rate never falls below this share of the highest there was.
const FLOOR: f64 = 0.5;

/// What is known of the uplink's rate beside the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// What the WAN device's own qdisc shapes to.
    pub qdisc: Option<Rate>,
    /// What was learnt while that qdisc's queue stood. None while we shape: it would be our own rate.
    pub learnt: Option<Rate>,
}

/// The uplink's rate and where it comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uplink {
    adopted: Option<(Rate, RateSource)>,
    highest_learnt: f64,
}

impl Uplink {
    /// What holds from now on. A learnt rate stays until another one is known: nothing can be learnt while we shape.
    pub fn follow(&mut self, configured: Option<Rate>, seen: Seen) -> Option<Rate> {
        let told = configured.map(|rate| (rate, RateSource::Config));
        let learnt = |rate| self.learn(rate).map(|rate| (rate, RateSource::Learnt));
        self.adopted = told
            .or_else(|| seen.qdisc.map(|rate| (rate, RateSource::Qdisc)))
            .or_else(|| seen.learnt.and_then(learnt))
            .or_else(|| self.adopted.filter(|(_, source)| *source == RateSource::Learnt));
        self.rate()
    }

    fn learn(&mut self, rate: Rate) -> Option<Rate> {
        let known = self.adopted.filter(|(_, source)| *source == RateSource::Learnt).map(|(rate, _)| rate);
        self.highest_learnt = self.highest_learnt.max(rate.bytes_per_second());
        let new = rate.bytes_per_second().max(FLOOR * self.highest_learnt);
        match known {
            Some(known) if (new / known.bytes_per_second() - 1.0).abs() <= DEAD_BAND => Some(known),
            _ => Rate::from_bytes_per_second(new),
        }
    }

    /// The rate.
    pub fn rate(&self) -> Option<Rate> {
        self.adopted.map(|(rate, _)| rate)
    }

    /// Where it comes from.
    pub fn source(&self) -> Option<RateSource> {
        self.adopted.map(|(_, source)| source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    fn learnt(text: &str) -> Seen {
        Seen { learnt: Some(rate(text)), ..Seen::default() }
    }

    #[test]
    fn the_configuration_comes_first_and_then_the_qdisc() {
        let mut uplink = Uplink::default();
        assert_eq!(uplink.follow(None, Seen::default()), None);
        let seen = Seen { qdisc: Some(rate("2mbit")), learnt: Some(rate("3mbit")) };
        assert_eq!(uplink.follow(Some(rate("1mbit")), seen), Some(rate("1mbit")));
        assert_eq!(uplink.source(), Some(RateSource::Config));
        assert_eq!(uplink.follow(None, seen), Some(rate("2mbit")));
        assert_eq!(uplink.source(), Some(RateSource::Qdisc));
        // It shapes no longer, and nothing else is known.
        assert_eq!(uplink.follow(None, Seen::default()), None);
    }

    #[test]
    fn a_learnt_rate_stays_while_we_shape_and_does_not_creep_down() {
        let mut uplink = Uplink::default();
        assert_eq!(uplink.follow(None, learnt("1mbit")), Some(rate("1mbit")));
        assert_eq!(uplink.source(), Some(RateSource::Learnt));
        assert_eq!(uplink.follow(None, Seen::default()), Some(rate("1mbit")), "while we shape");
        for _ in 0..10 {
            // What 99 % of the rate look like when shaping pauses.
            let ours = uplink.rate().unwrap().bytes_per_second() * 0.99;
            let seen = Seen { learnt: Rate::from_bytes_per_second(ours), ..Seen::default() };
            assert_eq!(uplink.follow(None, seen), Some(rate("1mbit")));
        }
        assert_eq!(uplink.follow(None, learnt("2mbit")), Some(rate("2mbit")), "the line became faster");
        assert_eq!(uplink.follow(None, learnt("1500kbit")), Some(rate("1500kbit")), "and slower");
        assert_eq!(uplink.follow(None, learnt("100kbit")), Some(rate("1mbit")), "half of what it once had");
    }
}
