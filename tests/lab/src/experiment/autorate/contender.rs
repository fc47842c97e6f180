//! Who sets the rate of the shaper before the link.

use std::time::Duration;

use pendulum_model::rate::Rate;
use pendulum_model::segment::{Direction, PerDirection};

use crate::capacity::Trace;
use crate::lab::Lab;
use crate::netns::NetnsError;
use crate::topology::WAN_DEVICE;
use pendulum_reference::autorate::law::RateBounds;

/// The device whose cake shapes what arrives, as SQM scripts make it.
pub(super) const IFB: &str = "ifb-wan";
/// No rate is set below this: a cake that sends a full packet each fifth of a second.
const FLOOR_BPS: f64 = 64_000.0;

/// One of those compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    /// No shaper: the link's own buffers.
    Nothing,
    /// Cake at a rate that never changes.
    Cake(Told),
    /// Cake that follows cake-autorate's control law.
    Reference,
    /// The agent's `rate = "auto"`.
    Ours,
}

/// A rate that somebody knew before: of the stretch of the trace that is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Mean,
    /// 99 % of the mean: on a link that is constant, all that a shaper can use without a queue behind it.
    NearlyTheMean,
    /// The tenth percentile of its seconds.
    Low,
    HalfTheMean,
}

/// All, by their names.
pub(super) const CONTENDERS: [(&str, Contender); 7] = [
    ("none", Contender::Nothing),
    ("cake-mean", Contender::Cake(Told::Mean)),
    ("cake-99", Contender::Cake(Told::NearlyTheMean)),
    ("cake-p10", Contender::Cake(Told::Low)),
    ("cake-half", Contender::Cake(Told::HalfTheMean)),
    ("reference", Contender::Reference),
    ("ours", Contender::Ours),
];

/// The capacity of a stretch of a trace, bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Known {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Known {
    /// Of the first `length` of a trace.
    pub(super) fn of(trace: &Trace, length: Duration) -> Self {
        let seconds = trace.seconds_bps(length);
        let at = |share: f64| {
            let rank = ((seconds.len() as f64 * share).ceil() as usize).clamp(1, seconds.len().max(1));
            seconds.get(rank - 1).copied().unwrap_or(0.0)
        };
        let mean = trace.mean_bps(length).max(FLOOR_BPS);
        Self { mean, low: at(0.1).max(FLOOR_BPS), high: at(0.95).max(mean) }
    }

    /// What a user of cake-autorate would write down: the least that is bearable, what is usual, and the most there is.
    pub(super) fn bounds(self) -> RateBounds {
        RateBounds { min: self.low.min(self.mean / 2.0), base: self.mean, max: self.high }
    }
}

impl Told {
    pub(super) fn rate_bps(self, known: Known) -> f64 {
        match self {
            Self::Mean => known.mean,
            Self::NearlyTheMean => (0.99 * known.mean).max(FLOOR_BPS),
            Self::Low => known.low,
            Self::HalfTheMean => (known.mean / 2.0).max(FLOOR_BPS),
        }
    }
}

/// Puts a cake on both directions of the gateway: WAN egress, and an ifb for what arrives. `overhead 0` counts bytes of IP packets, as the
/// traces do.
pub(super) fn install_cakes(lab: &Lab, rates_bps: PerDirection<f64>) -> Result<(), NetnsError> {
    let gateway = lab.gateway();
    gateway.run_with_input(
        "ip",
        &["-batch", "-"],
        &format!("link add {IFB} type ifb\nlink set {IFB} up\n"),
    )?;
    let rate = |direction| rates_bps[direction] as u64;
    let commands = format!(
        "qdisc replace dev {WAN_DEVICE} root handle 1: cake bandwidth {}bit besteffort overhead 0\n\
         qdisc replace dev {IFB} root handle 1: cake bandwidth {}bit besteffort ingress overhead 0\n\
         qdisc add dev {WAN_DEVICE} handle ffff: ingress\n\
         filter add dev {WAN_DEVICE} parent ffff: protocol all matchall action mirred egress redirect dev {IFB}\n",
        rate(Direction::Up),
        rate(Direction::Down)
    );
    gateway.run_with_input("tc", &["-batch", "-"], &commands).map(|_| ())
}

/// The commands for `tc -batch` that give the cakes other rates, kbit/s; `None` leaves one alone.
pub(super) fn change_commands(kbps: PerDirection<Option<u64>>) -> String {
    let change = |device, kbps: Option<u64>| {
        kbps.map(|kbps| format!("qdisc change dev {device} root cake bandwidth {kbps}kbit\n"))
            .unwrap_or_default()
    };
    change(WAN_DEVICE, kbps.up) + &change(IFB, kbps.down)
}

/// A rate of the link's, for the lab's specification.
pub(super) fn whole(bps: f64) -> Rate {
    const LEAST: Option<Rate> = Rate::from_bits_per_second(1);
    Rate::from_bits_per_second(bps as u64).unwrap_or(const { LEAST.unwrap() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_reported_are_those_of_the_stretch() {
        // A second of 2.4 Mb/s, then nine of 1.2.
        let trace: crate::capacity::Pattern = "step:2400kbit,1200kbit,10s".parse().unwrap();
        let known = Known::of(&trace.trace().unwrap(), Duration::from_secs(20));
        assert!((known.mean / 1.8e6 - 1.0).abs() < 0.02, "{known:?}");
        assert!(
            (known.low / 1.2e6 - 1.0).abs() < 0.02 && (known.high / 2.4e6 - 1.0).abs() < 0.02,
            "{known:?}"
        );
        assert!((Told::HalfTheMean.rate_bps(known) / 9e5 - 1.0).abs() < 0.02);
        assert_eq!(Told::NearlyTheMean.rate_bps(known), 0.99 * known.mean);
        let RateBounds { min, base, max } = known.bounds();
        assert!(min <= base && base <= max && min <= known.mean / 2.0);
    }

    #[test]
    fn a_stretch_without_capacity_has_a_floor() {
        let trace = Trace::new(vec![900_000]).unwrap();
        let known = Known::of(&trace, Duration::from_secs(10));
        assert_eq!(known, Known { mean: FLOOR_BPS, low: FLOOR_BPS, high: FLOOR_BPS });
        assert!(whole(0.0).bits_per_second() > 0);
    }

    #[test]
    fn only_what_changes_is_changed() {
        assert_eq!(change_commands(PerDirection::default()), "");
        let up = change_commands(PerDirection { up: Some(900), down: None });
        assert_eq!(up, "qdisc change dev wan0 root cake bandwidth 900kbit\n");
        let both = change_commands(PerDirection { up: Some(900), down: Some(4000) });
        assert!(both.ends_with("qdisc change dev ifb-wan root cake bandwidth 4000kbit\n"), "{both}");
    }
}
