//! Extra one-way delays, where the kernel has netem.
//!
//! Each delay stands on the device *behind* the bottleneck's buffer that it lengthens, never on the bottleneck itself: there
//! netem would be a second queue. netem's own limit is set so high that it never drops.

use std::time::Duration;

use crate::netns::{Host, NetnsError};
use crate::topology::Role;

/// One-way delays added to the wires, each in both directions. Zero means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Of the bottleneck link itself (`T_p` of paper 000).
    pub propagation: Duration,
    /// Between D1 and R1.
    pub d1_access: Duration,
    /// Between U1 and R1.
    pub u1_access: Duration,
}

/// Why a delay cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DelayError {
    /// The kernel has no netem.
    #[error(
        "this kernel has no netem qdisc, so a link delay of {}us cannot be made ({tc}); \
         leave the delays at 0, load sch_netem, or run in the VM (./dev vm)",
        delay.as_micros()
    )]
    NoNetem {
        /// The delay asked for.
        delay: Duration,
        /// What tc said.
        tc: NetnsError,
    },
}

/// A delay on the way out of one device.
struct Placement {
    role: Role,
    device: &'static str,
    delay: Duration,
}

impl Delays {
    /// No delay anywhere.
    pub const NONE: Self =
        Self { propagation: Duration::ZERO, d1_access: Duration::ZERO, u1_access: Duration::ZERO };

    fn placements(self) -> [Placement; 5] {
        let at = |role, device, delay| Placement { role, device, delay };
        [
            at(Role::D1, "eth0", self.d1_access),
            at(Role::U1, "eth0", self.u1_access),
            // Towards the endpoints R1 adds what follows the uplink buffer: the link's own delay and the access wire's.
            at(Role::R1, "d1", self.propagation + self.d1_access),
            at(Role::R1, "u1", self.propagation + self.u1_access),
            at(Role::Gateway, "lan0", self.propagation),
        ]
    }

    /// Puts the delays on the wires; does nothing if all are zero.
    ///
    /// # Errors
    /// [`DelayError::NoNetem`] if a delay is wanted that the kernel cannot make.
    pub(crate) fn install(self, host: impl Fn(Role) -> Host) -> Result<(), DelayError> {
        for Placement { role, device, delay } in self.placements() {
            if delay.is_zero() {
                continue;
            }
            let delay_text = format!("{}us", delay.as_micros());
            host(role)
                .run(
                    "tc",
                    &[
                        "qdisc",
                        "add",
                        "dev",
                        device,
                        "root",
                        "netem",
                        "limit",
                        "100000",
                        "delay",
                        &delay_text,
                    ],
                )
                .map_err(|tc| DelayError::NoNetem { delay, tc })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_of_each_path_gets_its_delay_once() {
        let millis = Duration::from_millis;
        let delays = Delays { propagation: millis(10), d1_access: millis(1), u1_access: millis(5) };
        let at = |role, device| {
            let found = delays.placements().into_iter().find(|p| p.role == role && p.device == device);
            found.map(|placement| placement.delay)
        };
        // Download data: D1 out, bottleneck, gateway out to the home; its ACKs: bottleneck, R1 out to D1.
        assert_eq!(at(Role::D1, "eth0").unwrap() + at(Role::Gateway, "lan0").unwrap(), millis(11));
        assert_eq!(at(Role::R1, "d1"), Some(millis(11)));
        assert_eq!(at(Role::R1, "u1"), Some(millis(15)));
        assert_eq!(at(Role::Gateway, "wan0"), None);
        assert_eq!(at(Role::R1, "link0"), None);
    }
}
