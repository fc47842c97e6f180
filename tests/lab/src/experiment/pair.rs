//! The traffic that most experiments share: one download and some uploads, all from the start to the end.

use std::time::Duration;

use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::segment::Direction;

use super::scenario::{Case, Scenario, TimedTransfer};
use crate::delay::Delays;
use crate::lab::LinkSpec;
use crate::shaper::Shaper;
use crate::traffic::TransferSpec;

/// Share of a run left out at its begin: slow start, and the filling of the buffers.
const SETTLING_SHARE: f64 = 0.3;

/// 2.4 Mb/s (000 §2).
pub(super) const DOWNLINK_BPS: u64 = 2_400_000;
/// 196 kb/s (000 §2.3).
pub(super) const UPLINK_BPS: u64 = 196_000;

/// Access delays of 000 §2.2 and §4: 1 ms between D1 and R1, 5 ms between U1 and R1, "so that packets of the two connections do not follow
/// a perfect cycle".
pub(super) const UNEQUAL_ACCESS: Delays = Delays {
    propagation: Duration::ZERO,
    d1_access: Duration::from_millis(1),
    u1_access: Duration::from_millis(5),
};

/// A link: rates in bit/s, buffers, delays.
pub(super) fn link(down: (u64, BufferSize), up: (u64, BufferSize), delays: Delays) -> LinkSpec {
    let shaper = |(bps, buffer)| Shaper { rate: rate(bps), buffer };
    LinkSpec { downlink: shaper(down), uplink: shaper(up), delays, ..LinkSpec::FIG1 }
}

fn rate(bps: u64) -> Rate {
    // A rate is refused only if it is zero.
    Rate::from_bits_per_second(bps).unwrap_or(LinkSpec::FIG1.downlink.rate)
}

/// A scenario without traffic or cases.
pub(super) fn empty(name: &str, link: LinkSpec, length: Duration) -> Scenario {
    // iperf3 takes whole seconds only.
    let length = Duration::from_secs(length.as_secs().max(1));
    Scenario { name: name.into(), link, length, ..Scenario::default() }
}

/// One download beside `uploads` uploads; one case over the steady part, compared with nothing yet.
pub(super) fn pair(name: &str, case: &str, link: LinkSpec, length: Duration, uploads: u32) -> Scenario {
    let mut scenario = empty(name, link, length);
    let length = scenario.length;
    for (direction, streams) in [(Direction::Down, 1), (Direction::Up, uploads)] {
        scenario.transfers.push(TimedTransfer::new(
            Duration::ZERO,
            TransferSpec { streams, ..TransferSpec::new(direction, length) },
        ));
    }
    scenario.cases = vec![steady(case, &scenario).with("downloads", 1).with("uploads", uploads)];
    scenario
}

/// The steady part of a scenario whose traffic runs throughout.
pub(super) fn steady(name: &str, scenario: &Scenario) -> Case {
    let length = scenario.length;
    Case::new(name, length.mul_f64(SETTLING_SHARE), length, &scenario.link)
}
