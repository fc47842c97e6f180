//! The control law of cake-autorate as its project publishes it (github.com/lynxthecat/cake-autorate, `defaults.sh` and the main loop of
//! `cake-autorate.sh`, versions 3.x): parameters and defaults are the published ones, the program is this project's own.
//!
//! Each reply to a probe gives half its round trip as the one-way delay of both directions (the method `fping`, the default). A baseline for each
//! prober follows it, fast down and slowly up. Three of the last six delays above their threshold are bufferbloat: the rate falls by 1 to
//! 25 %. Else, with the load above 75 % of the rate, it rises by up to 4 % once for each reading of the load; else it goes back to the base rate by 1 % a second.

use std::time::Duration;

use pendulum_model::segment::{Direction, PerDirection};

/// `no_pingers`.
pub const PINGERS: usize = 6;
/// `reflector_ping_interval_s`, of each pinger.
pub const PING_INTERVAL: Duration = Duration::from_millis(300);
/// `monitor_achieved_rates_interval_ms`.
const RATES_INTERVAL: Duration = Duration::from_millis(200);
/// `bufferbloat_detection_window`.
const WINDOW: usize = 6;
/// `alpha_baseline_increase` and `_decrease`.
const BASELINE_UP: f64 = 0.001;
const BASELINE_DOWN: f64 = 0.9;
/// What a baseline is before the first reply.
const BASELINE_BEGIN_S: f64 = 0.1;
/// `shaper_rate_min_adjust_down_bufferbloat` and `_max_`.
const DOWN_LEAST: f64 = 0.99;
const DOWN_MOST: f64 = 0.75;
/// `shaper_rate_min_adjust_up_load_high` and `_max_`.
const UP_LEAST: f64 = 1.0;
/// `shaper_rate_adjust_down_load_low` and `_up_`.
const DECAY_DOWN: f64 = 0.99;
const DECAY_UP: f64 = 1.01;
/// `high_load_thr`.
const HIGH_LOAD: f64 = 0.75;
/// `bufferbloat_refractory_period_ms` and `decay_refractory_period_ms`.
const BLOAT_PAUSE: Duration = Duration::from_millis(300);
const DECAY_PAUSE: Duration = Duration::from_secs(1);
/// A full packet on the wire, bits.
const PACKET_BITS: f64 = 1500.0 * 8.0;

/// The rates a user has to give, bit/s: `min_*_shaper_rate_kbps`, `base_*`, `max_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateBounds {
    /// `min_*_shaper_rate_kbps`.
    pub min: f64,
    /// `base_*`.
    pub base: f64,
    /// `max_*`.
    pub max: f64,
}

/// What a user may change besides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// `*_owd_delta_delay_thr_ms`, in seconds. `*_avg_owd_delta_max_adjust_up_thr_ms` and `*_avg_owd_delta_max_adjust_down_thr_ms` keep their
    /// defaults' ratio to it: a third, and twice.
    pub delay_s: f64,
    /// `bufferbloat_detection_thr`.
    pub detection: usize,
    /// `shaper_rate_max_adjust_up_load_high`.
    pub up_most: f64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { delay_s: 0.030, detection: 3, up_most: 1.04 }
    }
}

/// One direction.
#[derive(Clone, Copy, Debug)]
struct Way {
    bounds: RateBounds,
    tuning: Tuning,
    rate: f64,
    load_is_high: bool,
    /// Whether the load was read since the rate last rose.
    load_is_new: bool,
    last_bloat: Option<Duration>,
    last_decay: Duration,
    delayed: [bool; WINDOW],
}

/// The controller of both directions.
#[derive(Clone, Debug)]
pub struct Law {
    ways: PerDirection<Way>,
    baselines_s: [f64; PINGERS],
    deltas_s: [f64; WINDOW],
    place: usize,
}

impl Law {
    /// At the base rates.
    pub fn new(bounds: PerDirection<RateBounds>) -> Self {
        let way = |direction| Way {
            bounds: bounds[direction],
            tuning: Tuning::default(),
            rate: bounds[direction].base,
            load_is_high: false,
            load_is_new: false,
            last_bloat: None,
            last_decay: Duration::ZERO,
            delayed: [false; WINDOW],
        };
        Self {
            ways: PerDirection::from_fn(way),
            baselines_s: [BASELINE_BEGIN_S; PINGERS],
            deltas_s: [0.0; WINDOW],
            place: 0,
        }
    }

    /// With other parameters.
    #[must_use]
    pub fn tuned(mut self, tuning: Tuning) -> Self {
        (self.ways.up.tuning, self.ways.down.tuning) = (tuning, tuning);
        self
    }

    /// The rates it wants, bit/s.
    pub fn rates(&self) -> PerDirection<f64> {
        PerDirection::from_fn(|direction| self.ways[direction].rate)
    }

    /// Time between two readings of the load: ten round trips of a full packet at low rates.
    pub fn load_interval(&self) -> Duration {
        let packet_s = PACKET_BITS / self.ways.up.rate + PACKET_BITS / self.ways.down.rate;
        RATES_INTERVAL.max(Duration::from_secs_f64((10.0 * packet_s).min(10.0)))
    }

    /// What passed, bit/s.
    pub fn load(&mut self, passed_bps: PerDirection<f64>) {
        for direction in [Direction::Up, Direction::Down] {
            let way = &mut self.ways[direction];
            way.load_is_high = passed_bps[direction] > HIGH_LOAD * way.rate;
            way.load_is_new = true;
        }
    }

    /// A prober's reply.
    pub fn reply(&mut self, now: Duration, pinger: usize, round_trip: Duration) {
        let Some(baseline) = self.baselines_s.get_mut(pinger) else { return };
        let delay = round_trip.as_secs_f64() / 2.0;
        let alpha = if delay >= *baseline { BASELINE_UP } else { BASELINE_DOWN };
        *baseline += alpha * (delay - *baseline);
        let delta = delay - *baseline;
        self.deltas_s[self.place] = delta;
        let average = self.deltas_s.iter().sum::<f64>() / WINDOW as f64;
        for direction in [Direction::Up, Direction::Down] {
            self.ways[direction].step(now, self.place, delta, average);
        }
        self.place = (self.place + 1) % WINDOW;
    }
}

impl Way {
    fn step(&mut self, now: Duration, place: usize, delta: f64, average: f64) {
        // Thresholds are later by a full packet's time at the present rate.
        let packet = PACKET_BITS / self.rate;
        let Tuning { delay_s, detection, up_most } = self.tuning;
        let (max_up, threshold, max_down) =
            (delay_s / 3.0 + packet, delay_s + packet, 2.0 * delay_s + packet);
        self.delayed[place] = delta > threshold;
        let bloated = self.delayed.iter().filter(|delayed| **delayed).count() >= detection;
        let settled = self.last_bloat.is_none_or(|at| now > at + BLOAT_PAUSE);
        if bloated {
            if settled {
                let share = ((average - threshold) / (max_down - threshold)).clamp(0.0, 1.0);
                self.rate *= DOWN_LEAST - share * (DOWN_LEAST - DOWN_MOST);
                (self.last_bloat, self.last_decay) = (Some(now), now);
            }
        } else if self.load_is_high {
            if self.load_is_new && settled {
                let share = ((threshold - average) / (threshold - max_up)).clamp(0.0, 1.0);
                self.rate *= UP_LEAST + share * (up_most - UP_LEAST);
                (self.load_is_new, self.last_decay) = (false, now);
            }
        } else if now > self.last_decay + DECAY_PAUSE {
            let base = self.bounds.base;
            self.rate = if self.rate > base {
                (self.rate * DECAY_DOWN).max(base)
            } else {
                (self.rate * DECAY_UP).min(base)
            };
            self.last_decay = now;
        }
        // The order of the two matters only for bounds that contradict each other.
        self.rate = self.rate.min(self.bounds.max).max(self.bounds.min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: RateBounds = RateBounds { min: 1e6, base: 20e6, max: 80e6 };

    fn law() -> Law {
        let mut law = Law::new(PerDirection { up: BOUNDS, down: BOUNDS });
        for reply in 0..60 {
            law.reply(at(reply), reply as usize % PINGERS, ms(40.0));
        }
        law
    }

    fn at(reply: u64) -> Duration {
        Duration::from_millis(50 * reply)
    }

    fn ms(value: f64) -> Duration {
        Duration::from_secs_f64(value / 1e3)
    }

    #[test]
    fn a_busy_link_without_delay_rises_by_four_percent_for_each_reading() {
        let mut law = law();
        for reading in 0..4 {
            law.load(PerDirection { up: 0.0, down: 19e6 * 1.04_f64.powi(reading) });
            for reply in 0..4 {
                let reply = 60 + 4 * reading as u64 + reply;
                law.reply(at(reply), reply as usize % PINGERS, ms(40.0));
            }
        }
        let rates = law.rates();
        assert!((rates.down / 20e6 - 1.04_f64.powi(4)).abs() < 1e-9, "{rates:?}");
        assert_eq!(rates.up, 20e6);
    }

    #[test]
    fn three_late_replies_of_six_take_a_quarter_and_not_again_within_300_ms() {
        let mut law = law();
        law.load(PerDirection { up: 19e6, down: 19e6 });
        for reply in 60..63 {
            law.reply(at(reply), reply as usize % PINGERS, ms(240.0));
        }
        // Two late replies: the load still counts, and raised both once. Mean delta 50 ms after the third: within 30 to 60 ms and a packet.
        let rate = law.rates().down;
        assert!(rate < 20e6 * 1.04 * 0.99 && rate > 20e6 * 0.75, "{rate}");
        for reply in 63..66 {
            law.reply(at(reply), reply as usize % PINGERS, ms(240.0));
        }
        assert_eq!(law.rates().down, rate, "within 300 ms");
        for reply in 66..70 {
            law.reply(at(reply), reply as usize % PINGERS, ms(240.0));
        }
        assert!((law.rates().down / rate - DOWN_MOST).abs() < 1e-9);
    }

    #[test]
    fn without_load_it_goes_back_to_its_base() {
        let mut law = law();
        law.ways.down.rate = 40e6;
        law.ways.up.rate = 10e6;
        law.load(PerDirection::default());
        for reply in 60..160 {
            law.reply(at(reply), reply as usize % PINGERS, ms(40.0));
        }
        let rates = law.rates();
        assert!(rates.down < 40e6 * 0.97 && rates.down > 40e6 * 0.93, "{rates:?}");
        assert!(rates.up > 10e6 * 1.03, "{rates:?}");
    }

    #[test]
    fn slow_rates_are_read_more_seldom() {
        let bounds = RateBounds { min: 1e5, base: 4e5, max: 1e6 };
        let slow = Law::new(PerDirection { up: bounds, down: bounds });
        assert_eq!(slow.load_interval(), Duration::from_millis(600));
        assert_eq!(law().load_interval(), RATES_INTERVAL);
    }

    proptest! {
        #[test]
        fn rates_stay_within_their_bounds(replies in proptest::collection::vec((0_u64..2_000, 0_usize..6, 0.0..200e6_f64), 1..300)) {
            let mut law = law();
            for (number, (round_trip, pinger, load)) in replies.into_iter().enumerate() {
                law.load(PerDirection { up: load, down: load / 3.0 });
                law.reply(at(60 + number as u64), pinger, Duration::from_millis(round_trip));
                for rate in [law.rates().up, law.rates().down] {
                    prop_assert!((BOUNDS.min..=BOUNDS.max).contains(&rate), "{}", rate);
                }
            }
        }
    }
}
