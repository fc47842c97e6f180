//! The shaper in numbers: rates and the filter's thresholds. No side effects.

use std::time::Duration;

use pendulum_model::rate::Rate;
use pendulum_model::segment::{Direction, FULL_FRAME_BYTES};

use super::ShapeError;
use crate::config::{AckFilter, Delta, LEAST_RATE, ShapeConfig};
use crate::net::cake::Cake;

/// Round trip until one is measured.
const ROUND_TRIP: Duration = Duration::from_millis(50);
const ROUND_TRIP_BOUNDS: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];
/// What a pure ACK with timestamps takes on Ethernet.
const ACK_BYTES: f64 = 66.0;
/// Linux acknowledges every second segment.
const SEGMENTS_PER_ACK: f64 = 2.0;
const DELTA_BOUNDS: [f64; 2] = [1.0, 256.0];
/// A queued ACK is no carrier once it has waited for so many full frames, …
const CARRIER_FRAMES: f64 = 8.0;
/// … from [`ROUND_TRIP`] to the longest: then it may have been dropped.
const CARRIER_BOUNDS: [Duration; 2] = [ROUND_TRIP, ROUND_TRIP_BOUNDS[1]];

/// What is known of the link's traffic, as far as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredTraffic {
    /// Smallest round trip of any connection, home to remote end.
    pub round_trip: Option<Duration>,
    /// `d` of paper 002: data segments of downloads for each ACK.
    pub segments_per_ack: Option<f64>,
    /// Mean size of an ACK on the uplink.
    pub ack_bytes: Option<f64>,
    /// What stands in the uplink's queue.
    pub uplink_bytes: u32,
}

impl MeasuredTraffic {
    fn round_trip(&self) -> Duration {
        self.round_trip.unwrap_or(ROUND_TRIP).clamp(ROUND_TRIP_BOUNDS[0], ROUND_TRIP_BOUNDS[1])
    }
}

/// What is to be built for one direction of a link with this rate.
pub(super) fn cake(shape: &ShapeConfig, direction: Direction, link: Rate) -> Result<Cake, ShapeError> {
    let rate = direction.pick(shape.uplink_rate(link), shape.downlink_rate(link));
    match rate.filter(|rate| rate.bits_per_second() >= LEAST_RATE) {
        Some(rate) => Ok(cake_at(shape, direction, Some(rate))),
        None => Err(ShapeError::TooSlow { link }),
    }
}

/// Whether a queue that sends at its rate can be the slower one of it and the device's port; `speed`: as it was negotiated, if the driver tells.
pub(super) fn fits(
    device: &str,
    speed: Option<Rate>,
    direction: Direction,
    cake: &Cake,
) -> Result<(), ShapeError> {
    match cake.rate.zip(speed).filter(|(rate, speed)| rate > speed) {
        Some((rate, speed)) => Err(ShapeError::TooFast { direction, rate, device: device.to_owned(), speed }),
        None => Ok(()),
    }
}

/// The same for a queue that sends at this rate; none: at any.
pub(super) fn cake_at(shape: &ShapeConfig, direction: Direction, rate: Option<Rate>) -> Cake {
    let ingress = direction == Direction::Down;
    let ack_filter = !ingress && shape.ack_filter == AckFilter::Auto && !shape.filters();
    Cake { rate, framing: shape.framing, options: shape.cake, ack_filter, ingress }
}

/// δ: as configured, or paper 002 Eq. 1: `δ_o = μ_r·T/(d + 1)`.
pub(super) fn delta(shape: &ShapeConfig, rate: Rate, measured: &MeasuredTraffic) -> u32 {
    match shape.delta {
        Delta::Fixed(acks) => acks,
        Delta::Auto => {
            let acks_per_second = rate.bytes_per_second() / measured.ack_bytes.unwrap_or(ACK_BYTES);
            let d = measured.segments_per_ack.unwrap_or(SEGMENTS_PER_ACK).max(1.0);
            let optimum = acks_per_second * measured.round_trip().as_secs_f64() / (d + 1.0);
            optimum.round().clamp(DELTA_BOUNDS[0], DELTA_BOUNDS[1]) as u32
        }
    }
}

/// For how long a queued ACK may be a carrier.
pub(super) fn carrier_age(rate: Rate) -> Duration {
    seconds(CARRIER_FRAMES * FULL_FRAME_BYTES / rate.bytes_per_second())
        .clamp(CARRIER_BOUNDS[0], CARRIER_BOUNDS[1])
}

/// The window of the rate measurement: of the order of the round trip (paper 002 §3.2), but long enough for some
/// frames.
pub(super) fn window(rate: Rate, measured: &MeasuredTraffic) -> Duration {
    measured
        .round_trip()
        .max(seconds(4.0 * FULL_FRAME_BYTES / rate.bytes_per_second()))
        .min(ROUND_TRIP_BOUNDS[1])
}

/// How long a packet waits in the uplink's queue as it stands.
pub(super) fn sojourn(rate: Rate, measured: &MeasuredTraffic) -> Duration {
    seconds(f64::from(measured.uplink_bytes) / rate.bytes_per_second())
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ShapeMode;

    fn rate(text: &str) -> Rate {
        text.parse().expect("a rate")
    }

    fn shape() -> ShapeConfig {
        ShapeConfig { mode: ShapeMode::Enforce, ..ShapeConfig::default() }
    }

    #[test]
    fn each_direction_leaves_its_share_free() {
        let up = cake(&shape(), Direction::Up, rate("196kbit")).expect("a queue");
        assert_eq!((up.rate, up.ingress), (Some(rate("194040bit")), false));
        let down = cake(&shape(), Direction::Down, rate("2400kbit")).expect("a queue");
        assert_eq!((down.rate, down.ingress), (Some(rate("2280kbit")), true));
    }

    #[test]
    fn a_rate_above_the_port_s_is_refused_and_one_below_or_beside_it_is_not() {
        let cake = |text| cake(&shape(), Direction::Up, rate(text)).unwrap();
        let wanted = cake("1gbit");
        let fits = |speed| fits("wan0", speed, Direction::Up, &wanted);
        let refused = fits(Some(rate("100mbit"))).unwrap_err().to_string();
        let parts = ["the uplink", &wanted.rate.unwrap().to_string(), "wan0", "100mbit", "correct the rate"];
        assert!(parts.iter().all(|part| refused.contains(part)), "{refused}");
        assert!(fits(Some(rate("1gbit"))).is_ok() && fits(wanted.rate).is_ok());
        assert!(fits(None).is_ok(), "not known is no reason");
    }

    #[test]
    fn a_link_too_slow_for_it_is_not_shaped() {
        // 99 % of 64,647 bit/s are 64,000.53.
        assert!(cake(&shape(), Direction::Up, rate("64647bit")).is_ok());
        let refused = cake(&shape(), Direction::Up, rate("64640bit")).expect_err("63,993 bit/s");
        assert!(refused.to_string().contains("64640bit"), "{refused}");
    }

    #[test]
    fn delta_is_equation_1_of_paper_002() {
        // The paper's own setting: 100 kb/s of 40-byte ACKs, 200 ms, every segment acknowledged: 30 (it takes 300 ACKs/s).
        let measured = MeasuredTraffic {
            round_trip: Some(Duration::from_millis(200)),
            segments_per_ack: Some(1.0),
            ack_bytes: Some(100_000.0 / 8.0 / 300.0),
            uplink_bytes: 0,
        };
        assert_eq!(delta(&shape(), rate("100kbit"), &measured), 30);
        assert_eq!(delta(&ShapeConfig { delta: Delta::Fixed(3), ..shape() }, rate("100kbit"), &measured), 3);
        let near = MeasuredTraffic { round_trip: Some(Duration::ZERO), ..measured };
        assert_eq!(delta(&shape(), rate("100kbit"), &near), 1);
    }

    #[test]
    fn times_follow_the_rate_within_bounds() {
        // Eight frames of 1,514 bytes at 24,500 bytes per second.
        let age = carrier_age(rate("196kbit")).as_secs_f64();
        assert!((age - 0.4944).abs() < 1e-4, "{age}");
        assert_eq!(carrier_age(rate("64kbit")), CARRIER_BOUNDS[1]);
        assert_eq!(carrier_age(rate("1gbit")), CARRIER_BOUNDS[0]);
        let measured = MeasuredTraffic { uplink_bytes: 4_900, ..MeasuredTraffic::default() };
        assert_eq!(sojourn(rate("196kbit"), &measured), Duration::from_millis(200));
        assert_eq!(window(rate("100mbit"), &measured), ROUND_TRIP);
    }
}
