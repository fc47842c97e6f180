//! What one run of a lab consists of.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::figures::{Claim, Predicted};
use crate::lab::{Lab, LinkSpec};
use crate::netns::NetnsError;
use crate::splitmix;
use crate::topology::Role;
use crate::traffic::{TransferSpec, UdpSpec};

/// A transfer and when it starts.
#[derive(Clone, Debug)]
pub struct TimedTransfer {
    /// Since the scenario's start.
    pub at: Duration,
    /// The transfer.
    pub spec: TransferSpec,
}

impl TimedTransfer {
    /// A transfer that starts at `at`.
    pub fn new(at: Duration, spec: TransferSpec) -> Self {
        Self { at, spec }
    }
}

/// A flow of datagrams and when it starts.
#[derive(Clone, Debug)]
pub struct TimedUdp {
    /// Since the scenario's start.
    pub at: Duration,
    /// The flow.
    pub spec: UdpSpec,
}

/// A stretch of a scenario that is measured and compared.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name in the report. Repetitions have the same.
    pub name: String,
    /// Where the steady part begins.
    pub from: Duration,
    /// Where it ends.
    pub to: Duration,
    /// What tells this case from the others.
    pub params: Map<String, Value>,
    /// What the paper reports.
    pub paper: Claim,
    /// What the model says.
    pub predicted: Predicted,
}

impl Case {
    /// A stretch of a scenario on `link`, compared with nothing yet.
    pub fn new(name: impl Into<String>, from: Duration, to: Duration, link: &LinkSpec) -> Self {
        Self {
            name: name.into(),
            from,
            to,
            params: Scenario::link_params(link),
            paper: Claim::default(),
            predicted: Predicted::default(),
        }
    }

    /// With one more parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.params.insert(name.into(), value.into());
        self
    }

    /// With what the paper and the model say.
    #[must_use]
    pub fn compared(self, paper: impl Into<Claim>, predicted: Predicted) -> Self {
        Self { paper: paper.into(), predicted, ..self }
    }
}

/// Of what a full segment takes in memory at a receiver of the lab, the share that it carries, in per cent.
const PAYLOAD_PERCENT: u64 = 61;

/// What is done to a lab before anything else runs on it.
#[derive(Clone, Default)]
pub struct Preparation(Option<Arc<Action>>);

type Action = dyn Fn(&Lab) -> Result<(), NetnsError> + Send + Sync;

impl Preparation {
    /// Does `action`.
    pub fn new(action: impl Fn(&Lab) -> Result<(), NetnsError> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(action)))
    }

    /// Every segment is acknowledged at once, by both ends: "no delayed ACKs" in the papers. Linux has it as a property of the route
    /// (ip-route(8), `quickack`).
    pub fn immediate_acks() -> Self {
        Self::new(|lab| {
            for role in Role::ALL.into_iter().filter(|role| role.is_endpoint()) {
                let host = lab.host(role);
                let route = host.run("ip", &["route", "show", "default"])?;
                let mut change = vec!["route", "change"];
                // `linkdown` is a remark, not a part of the route.
                change.extend(route.split_ascii_whitespace().filter(|word| *word != "linkdown"));
                change.extend(["quickack", "1"]);
                host.run("ip", &change)?;
            }
            Ok(())
        })
    }

    /// No receiver offers more than about so many bytes: `B_TCP` of the papers, within some per cent.
    ///
    /// Of a receive buffer Linux offers the share that is payload (`tcp_sock::scaling_ratio`), and does not adjust the buffer here. The
    /// route's `window` would be exact, but Linux computes the bound anew from the buffer when that share changes (`tcp_measure_rcv_mss`),
    /// and that of `cwnd lock` does not hold without cached metrics.
    pub fn largest_window(bytes: u64) -> Self {
        let buffer = bytes * 100 / PAYLOAD_PERCENT;
        Self::new(move |lab| {
            for role in Role::ALL.into_iter().filter(|role| role.is_endpoint()) {
                let host = lab.host(role);
                host.set_sysctl("net.ipv4.tcp_moderate_rcvbuf", "0")?;
                host.set_sysctl("net.ipv4.tcp_rmem", &format!("4096 {buffer} 6291456"))?;
            }
            Ok(())
        })
    }

    /// This one, then another.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self::new(move |lab| {
            self.apply(lab)?;
            next.apply(lab)
        })
    }

    /// Sockets begin with an algorithm, whatever the host's default is. One that begins with BBR goes on pacing its segments after another
    /// is chosen for it (net/ipv4/tcp_bbr.c, `bbr_init`: `sk_pacing_status`).
    pub fn sockets_begin_with(congestion_control: &'static str) -> Self {
        Self::new(move |lab| {
            for role in Role::ALL.into_iter().filter(|role| role.is_endpoint()) {
                lab.host(role).set_sysctl("net.ipv4.tcp_congestion_control", congestion_control)?;
            }
            Ok(())
        })
    }

    /// Does it.
    pub(super) fn apply(&self, lab: &Lab) -> Result<(), NetnsError> {
        self.0.as_ref().map_or(Ok(()), |action| action(lab))
    }
}

impl fmt::Debug for Preparation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Preparation" } else { "no preparation" })
    }
}

/// One lab, from its start to its end.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// Names its files.
    pub name: String,
    /// The link.
    pub link: LinkSpec,
    /// How long it lasts.
    pub length: Duration,
    /// The TCP traffic.
    pub transfers: Vec<TimedTransfer>,
    /// The UDP traffic.
    pub datagrams: Vec<TimedUdp>,
    /// The congestion controls it is meant for; none: any.
    pub congestion_controls: Vec<&'static str>,
    /// What is measured.
    pub cases: Vec<Case>,
    /// What is done to the lab first.
    pub prepare: Preparation,
    /// Whether the agent must find out the rates of the link.
    pub rates_untold: bool,
    /// More arguments for the agent, such as `--config`.
    pub agent_arguments: Vec<String>,
    /// Whether the lengths of ACK bursts are wanted, which takes a capture.
    pub ack_bursts: bool,
    /// How often windows and delivered bytes are read; zero: twice a second.
    pub sockets_every: Duration,
}

impl Scenario {
    /// Whether it is to be run with a congestion control.
    pub fn takes(&self, congestion_control: &str) -> bool {
        self.congestion_controls.is_empty() || self.congestion_controls.contains(&congestion_control)
    }

    /// Refuses what cannot be measured: a case outside the scenario or without time.
    ///
    /// # Errors
    /// A sentence that names the case.
    pub fn check(&self) -> Result<(), String> {
        for case in &self.cases {
            if case.from >= case.to || case.to > self.length {
                return Err(format!(
                    "case `{}` from {:?} to {:?} does not lie within scenario `{}` of {:?}",
                    case.name, case.from, case.to, self.name, self.length
                ));
            }
        }
        Ok(())
    }

    /// The same with another congestion control, and with transfers that start a little later, by as much as `seed` says: two seeds
    /// meet the buffers at other moments.
    #[must_use]
    pub fn varied(&self, congestion_control: &str, seed: u64) -> Self {
        let mut varied = self.clone();
        for (index, timed) in varied.transfers.iter_mut().enumerate() {
            timed.spec.congestion_control = congestion_control.to_owned();
            timed.at += jitter(seed, index as u64);
        }
        for (index, timed) in varied.datagrams.iter_mut().enumerate() {
            timed.at += jitter(seed, (varied.transfers.len() + index) as u64);
        }
        for case in &mut varied.cases {
            case.params.insert("cc".into(), congestion_control.into());
        }
        varied
    }

    /// What a report says about the link and the traffic of a case.
    pub fn link_params(link: &LinkSpec) -> Map<String, Value> {
        let mut params = Map::new();
        params.insert("downlink_rate_bps".into(), link.downlink.rate.bits_per_second().into());
        params.insert("uplink_rate_bps".into(), link.uplink.rate.bits_per_second().into());
        params.insert("downlink_buffer".into(), link.downlink.buffer.to_string().into());
        params.insert("uplink_buffer".into(), link.uplink.buffer.to_string().into());
        params.insert("buffer_at".into(), link.uplink_buffer_at.name().into());
        for (name, delay) in [
            ("propagation_s", link.delays.propagation),
            ("d1_access_s", link.delays.d1_access),
            ("u1_access_s", link.delays.u1_access),
        ] {
            if !delay.is_zero() {
                params.insert(name.into(), delay.as_secs_f64().into());
            }
        }
        params
    }
}

/// Up to 200 ms, the same for the same numbers; none with seed 0.
fn jitter(seed: u64, index: u64) -> Duration {
    if seed == 0 {
        return Duration::ZERO;
    }
    let input = seed.wrapping_mul(splitmix::STEP).wrapping_add(index.wrapping_mul(0xd1b5_4a32_d192_ed03));
    Duration::from_millis(splitmix::mixed(input) % 200)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pendulum_model::segment::Direction;

    #[test]
    fn a_seed_shifts_starts_a_little_and_always_alike() {
        let start = |seed, index| jitter(seed, index);
        assert_eq!(start(0, 1), Duration::ZERO);
        assert_eq!(start(7, 1), start(7, 1));
        assert!((0..50).all(|index| start(7, index) < Duration::from_millis(200)));
        assert!((1..20).any(|index| start(7, index) != start(8, index)));
    }

    #[test]
    fn a_varied_scenario_says_how() {
        let link = LinkSpec::FIG1;
        let second = Duration::from_secs(1);
        let spec = TransferSpec::new(Direction::Down, second);
        let scenario = Scenario {
            transfers: vec![TimedTransfer::new(second, spec)],
            cases: vec![Case::new("one", Duration::ZERO, second, &link)],
            ..Scenario::default()
        };
        let varied = scenario.varied("cubic", 3);
        assert_eq!(varied.transfers[0].spec.congestion_control, "cubic");
        assert!(varied.transfers[0].at >= second);
        assert_eq!(varied.cases[0].params["cc"], "cubic");
    }
}
