//! Capacities that follow a rule, as traces: what a controller must master, without a file.

use std::str::FromStr;
use std::time::Duration;

use pendulum_model::rate::{Rate, Span};

use super::{Trace, TraceError};
use crate::splitmix::{STEP, mixed};

/// A capacity over time. Times count from the trace's begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Always the same.
    Constant(Rate),
    /// From one rate to another at once, and back at the end of the period, which is twice that time.
    Step {
        /// Before.
        from: Rate,
        /// After.
        to: Rate,
        /// When.
        at: Duration,
    },
    /// From one rate to another in a straight line within a time, and back in the same time.
    Ramp {
        /// At the begin.
        from: Rate,
        /// At the other end.
        to: Rate,
        /// Time from one to the other.
        within: Duration,
    },
    /// A rate, and nothing at all for a while at the end of each period.
    Outage {
        /// While it works.
        rate: Rate,
        /// How long it works; it ends with an opportunity, so that the pause belongs to the trace.
        each: Duration,
        /// How long it does not.
        pause: Duration,
    },
    /// Each half second a factor between 1/√2 and √2, by chance, within a quarter and four times the rate.
    Walk {
        /// In the middle.
        rate: Rate,
        /// Each number is another walk.
        seed: u64,
    },
}

/// A text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no pattern; write constant:RATE, step:FROM,TO,TIME, ramp:FROM,TO,TIME, outage:RATE,TIME,PAUSE or walk:RATE,SEED, for example step:4mbit,2mbit,10s"
)]
pub struct PatternError(String);

/// Length of a walk.
const WALK: Duration = Duration::from_secs(120);
/// What a pattern's period may be: memory is bounded.
const LONGEST: Duration = Duration::from_secs(3600);
/// Length of a constant pattern's period.
const SECOND: Duration = Duration::from_secs(1);
/// Time between two changes of a walk.
const STRIDE_MS: u64 = 500;

impl Pattern {
    /// The trace that has it.
    ///
    /// # Errors
    /// If its rates are too low for one opportunity.
    pub fn trace(self) -> Result<Trace, TraceError> {
        match self {
            Self::Constant(rate) => Trace::of_rates(steady(rate, SECOND * 12)),
            Self::Step { from, to, at } => Trace::of_rates(steady(from, at).chain(steady(to, at))),
            Self::Ramp { from, to, within } => {
                let length = millis(within).max(1);
                let (from, to) = (bps(from), bps(to));
                let up = (0..length).map(move |at| from + (to - from) * at as f64 / length as f64);
                let down = (0..length).map(move |at| to + (from - to) * at as f64 / length as f64);
                Trace::of_rates(up.chain(down))
            }
            Self::Outage { rate, each, pause } => {
                let working = Trace::of_rates(steady(rate, each))?;
                let count = working.count();
                // The pause comes first: a trace ends with its last opportunity.
                let shifted = (0..count).map(|index| millis(working.at(index) + pause)).collect();
                Trace::new(shifted)
            }
            Self::Walk { rate, seed } => Trace::of_rates(walk(bps(rate), seed)),
        }
    }
}

fn bps(rate: Rate) -> f64 {
    rate.bits_per_second() as f64
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.min(LONGEST).as_millis()).unwrap_or(0)
}

fn steady(rate: Rate, length: Duration) -> impl Iterator<Item = f64> {
    std::iter::repeat_n(bps(rate), millis(length) as usize)
}

fn walk(middle: f64, seed: u64) -> impl Iterator<Item = f64> {
    let strides = millis(WALK) / STRIDE_MS;
    let mut rate = middle;
    let rates: Vec<f64> = (0..strides)
        .map(|stride| {
            let random =
                mixed(seed.wrapping_add(1).wrapping_mul(STEP).wrapping_add(stride)) as f64 / u64::MAX as f64;
            rate = (rate * (random - 0.5).exp2()).clamp(middle / 4.0, middle * 4.0);
            rate
        })
        .collect();
    rates.into_iter().flat_map(|rate| std::iter::repeat_n(rate, STRIDE_MS as usize))
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let refused = || PatternError(text.into());
        let (kind, values) = text.split_once(':').ok_or_else(refused)?;
        let values: Vec<&str> = values.split(',').collect();
        let rate = |text: &str| text.parse::<Rate>().map_err(|_| refused());
        let time = |text: &str| match text.parse::<Span>() {
            Ok(Span(time)) if !time.is_zero() && time <= LONGEST => Ok(time),
            _ => Err(refused()),
        };
        Ok(match (kind, values.as_slice()) {
            ("constant", [of]) => Self::Constant(rate(of)?),
            ("step", [from, to, at]) => Self::Step { from: rate(from)?, to: rate(to)?, at: time(at)? },
            ("ramp", [from, to, within]) => {
                Self::Ramp { from: rate(from)?, to: rate(to)?, within: time(within)? }
            }
            ("outage", [of, each, pause]) => {
                Self::Outage { rate: rate(of)?, each: time(each)?, pause: time(pause)? }
            }
            ("walk", [of, seed]) => {
                Self::Walk { rate: rate(of)?, seed: seed.parse().map_err(|_| refused())? }
            }
            _ => return Err(refused()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: &str) -> Trace {
        text.parse::<Pattern>().unwrap().trace().unwrap()
    }

    fn mbps(trace: &Trace, from: u64, to: u64) -> f64 {
        let count = |second| trace.count_until(Duration::from_secs(second));
        (count(to) - count(from)) as f64 * 12_000.0 / (to - from) as f64 / 1e6
    }

    #[test]
    fn patterns_have_their_rates() {
        let constant = trace("constant:3mbit");
        assert!((mbps(&constant, 0, 60) - 3.0).abs() < 0.03);
        let step = trace("step:4mbit,2mbit,10s");
        assert!((mbps(&step, 0, 10) - 4.0).abs() < 0.02 && (mbps(&step, 10, 20) - 2.0).abs() < 0.02);
        assert!((mbps(&step, 21, 29) - 4.0).abs() < 0.02, "it repeats");
        let ramp = trace("ramp:1mbit,3mbit,10s");
        assert!((mbps(&ramp, 0, 2) - 1.2).abs() < 0.05 && (mbps(&ramp, 9, 11) - 2.9).abs() < 0.05);
        let outage = trace("outage:2mbit,8s,2s");
        assert_eq!(outage.count_until(Duration::from_secs(2)), 0);
        // It ends with its last opportunity, one of each 6 ms.
        assert!((Duration::from_millis(9_990)..=Duration::from_secs(10)).contains(&outage.period()));
        assert!((mbps(&outage, 2, 10) - 2.0).abs() < 0.02);
    }

    #[test]
    fn a_walk_stays_within_its_bounds_and_is_its_seed_s_alone() {
        let one = trace("walk:2mbit,7");
        assert_eq!(one, trace("walk:2mbit,7"));
        assert_ne!(one, trace("walk:2mbit,8"));
        for second in 0..119 {
            let rate = mbps(&one, second, second + 1);
            assert!((0.48..8.1).contains(&rate), "{rate}");
        }
        let rates = one.seconds_bps(Duration::from_secs(120));
        assert!(rates[119] > 1.5 * rates[0], "it walks");
    }

    #[test]
    fn what_is_no_pattern_is_answered_with_the_forms() {
        for text in [
            "",
            "constant",
            "constant:0",
            "step:1mbit,2mbit",
            "outage:1mbit,0s,1s",
            "walk:1mbit,x",
            "hill:1mbit",
        ] {
            let error = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(error.contains("step:4mbit,2mbit,10s"), "{error}");
        }
        assert!("constant:10bit".parse::<Pattern>().unwrap().trace().is_err(), "less than one packet");
    }
}
