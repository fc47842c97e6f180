//! What stands before the uplink in each case.

use std::time::Duration;

use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::sizing::{AdviceInput, advise};

use crate::lab::{Lab, LinkSpec};
use crate::netns::NetnsError;
use crate::topology::WAN_DEVICE;

/// One way to treat the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrangement {
    /// One drop-tail buffer, as the link has it.
    Fifo,
    /// The same, of the size that the model advises.
    FifoModel,
    /// A qdisc of the kernel's, at the link's rate.
    Kernel(AgainstQueue),
    /// Cake as the agent sets it up, before the link on an ifb, without the agent: what of the agent's figures is the arrangement's.
    CakeBefore,
    /// The agent's shaper: cake with the ACK filter, with these keys of `[shape]`.
    Lane(&'static str),
}

/// What the kernel offers against full buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgainstQueue {
    FqCodel,
    /// With these words after the bandwidth.
    Cake(&'static str),
}

/// The agent's `rate-percent`, and its options of cake but `nat`: nothing is translated here, and not every kernel can.
const SHARE_PERCENT: u64 = 99;
const OPTIONS: &str = "besteffort dual-srchost";
const IFB: &str = "before0";

/// All cases, by the names of the contract.
pub(super) const CASES: [(&str, Arrangement); 12] = [
    ("fifo", Arrangement::Fifo),
    ("fifo-model", Arrangement::FifoModel),
    ("fq_codel", Arrangement::Kernel(AgainstQueue::FqCodel)),
    ("cake", Arrangement::Kernel(AgainstQueue::Cake("no-ack-filter"))),
    ("cake-ack-filter", Arrangement::Kernel(AgainstQueue::Cake("ack-filter"))),
    ("cake-ack-filter-aggressive", Arrangement::Kernel(AgainstQueue::Cake("ack-filter-aggressive"))),
    ("cake-before", Arrangement::CakeBefore),
    ("lane", Arrangement::Lane("ack-filter = \"off\"")),
    ("lane-static", Arrangement::Lane("ack-filter = \"static\"")),
    ("lane-delayed", Arrangement::Lane("ack-filter = \"delayed\"")),
    ("lane-per-connection", Arrangement::Lane("ack-filter = \"per-connection\"")),
    // At the rate that fq_codel and cake have here, since they are the link.
    ("lane-full-rate", Arrangement::Lane("ack-filter = \"delayed\"\nrate-percent = 100")),
];

impl Arrangement {
    /// The link as this case has it; a reason if there is no such case on it.
    pub(super) fn link(self, spec: LinkSpec) -> Result<LinkSpec, String> {
        if self != Self::FifoModel {
            return Ok(spec);
        }
        let mut input = AdviceInput::new(spec.downlink.rate, spec.uplink.rate, Duration::ZERO);
        input.downlink_buffer = Some(spec.downlink.buffer);
        let advice = advise(&input).map_err(|error| format!("the model has no advice: {error}"))?;
        let mut sized = spec;
        sized.uplink.buffer = BufferSize::Bytes(advice.uplink_buffer_bytes);
        Ok(sized)
    }

    /// Puts a qdisc of the kernel's in the place of the link's buffer; nothing for the other cases.
    pub(super) fn install(self, lab: &Lab) -> Result<(), NetnsError> {
        let qdisc = match self {
            Self::Kernel(qdisc) => qdisc,
            Self::CakeBefore => return before_the_link(lab),
            Self::Fifo | Self::FifoModel | Self::Lane(_) => return Ok(()),
        };
        let uplink = lab.spec().uplink;
        let commands = match qdisc {
            AgainstQueue::Cake(words) => return uplink.replace_by_cake(&lab.gateway(), WAN_DEVICE, words),
            AgainstQueue::FqCodel => {
                let (target, interval) = codel_times(uplink.rate.bytes_per_second());
                // Not the buffer's handle 10: the kernel replaces a qdisc by one of another kind under another handle only.
                format!(
                    "qdisc replace dev {WAN_DEVICE} parent 1:1 handle 20: fq_codel target {target}us interval {interval}us\n"
                )
            }
        };
        lab.gateway().run_with_input("tc", &["-batch", "-"], &commands).map(|_| ())
    }
}

/// As the agent does with `ack-filter = "off"`: its options of cake and its share of the rate, by `ip` and `tc` alone.
fn before_the_link(lab: &Lab) -> Result<(), NetnsError> {
    let devices = format!("link add {IFB} type ifb\nlink set {IFB} up\n");
    lab.gateway().run_with_input("ip", &["-batch", "-"], &devices)?;
    lab.gateway().run_with_input("tc", &["-batch", "-"], &before_commands(lab.spec().uplink.rate)).map(|_| ())
}

fn before_commands(link: Rate) -> String {
    let rate = link.bits_per_second() * SHARE_PERCENT / 100;
    format!(
        "qdisc add dev {IFB} root cake bandwidth {rate}bit {OPTIONS}\n\
         qdisc add dev {WAN_DEVICE} clsact\n\
         filter add dev {WAN_DEVICE} egress protocol all u32 match u32 0 0 action mirred egress redirect dev {IFB}\n"
    )
}

/// CoDel's target and interval in microseconds as sqm-scripts set them: the target is at least the time of one and a half full frames, and the
/// interval grows with it. With the kernel's 5 ms a slow link would drop from a queue of one packet.
fn codel_times(bytes_per_second: f64) -> (u64, u64) {
    const TARGET_US: f64 = 5_000.0;
    const INTERVAL_US: f64 = 100_000.0;
    const FRAME_BYTES: f64 = 1_540.0;
    let target = (1.5 * FRAME_BYTES / bytes_per_second * 1e6).max(TARGET_US);
    (target.round() as u64, (INTERVAL_US - TARGET_US + target).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::links::LINKS;
    use super::*;

    #[test]
    fn codel_has_its_own_times_on_a_fast_link_and_longer_ones_on_a_slow_one() {
        assert_eq!(codel_times(1_250_000.0), (5_000, 100_000));
        let (target, interval) = codel_times(24_500.0);
        assert_eq!((target, interval), (94_286, 189_286));
    }

    /// `each_direction_leaves_its_share_free` in agent/src/shape/plan.rs has the same rate for this link.
    #[test]
    fn cake_before_the_link_has_the_agent_s_rate_and_leaves_the_link_s_own_queue() {
        let commands = before_commands(LINKS[0].spec.uplink.rate);
        assert!(commands.contains("dev before0 root cake bandwidth 194040bit besteffort"), "{commands}");
        assert!(commands.contains("egress redirect dev before0"), "{commands}");
        assert!(!commands.contains("dev wan0 root"), "{commands}");
    }

    #[test]
    fn the_model_changes_the_uplink_s_buffer_alone() {
        let paper = LINKS[0].spec;
        let sized = Arrangement::FifoModel.link(paper).unwrap();
        assert!(sized.uplink.buffer_bytes() < paper.uplink.buffer_bytes());
        assert_eq!((sized.downlink, sized.uplink.rate), (paper.downlink, paper.uplink.rate));
        assert_eq!(Arrangement::Fifo.link(paper), Ok(paper));
    }
}
