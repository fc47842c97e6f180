//! Extra one-way delays of the wires.
//!
//! A wire with a delay gets a [`Line`] in its middle, as does one whose host has a clock of its own ([`crate::clock`]). That lies *behind* the bottleneck's buffers, as the length of a real link does: it
//! is no second queue, and a capture on the gateway's `wan0` sees the round trips that the agent sees.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::capacity::Bottleneck;
use crate::kernel::packet::PacketSocket;
use crate::line::{Line, Treatment};
use crate::netns::{Host, NetnsError};
use crate::topology::{LINE_DEVICES, Role};

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
    /// Frames with unfinished checksums, or longer than the wire takes, cannot pass a line.
    #[error(
        "delays, clocks and traces do not go with offloads: the line carries whole frames of wire size; leave out --offloads, or the delays, clocks and traces"
    )]
    Offloads,
    /// The line in the middle of a wire could not be made.
    #[error("cannot put a line into a wire in {namespace}: {source}; packet sockets need CAP_NET_RAW")]
    Line {
        /// The namespace between the machines.
        namespace: String,
        /// What the system said.
        source: io::Error,
    },
    /// The namespace in the middle of a wire could not be set up.
    #[error(transparent)]
    Netns(#[from] NetnsError),
}

impl Delays {
    /// No delay anywhere.
    pub const NONE: Self =
        Self { propagation: Duration::ZERO, d1_access: Duration::ZERO, u1_access: Duration::ZERO };

    /// The delay of the wire between two machines.
    pub(crate) fn between(self, a: Role, b: Role) -> Duration {
        match (a, b) {
            (Role::D1, Role::R1) => self.d1_access,
            (Role::U1, Role::R1) => self.u1_access,
            // Behind the modem's buffer where there is one, as behind the gateway's.
            (Role::R1, Role::Gateway | Role::Modem) => self.propagation,
            _ => Duration::ZERO,
        }
    }
}

/// Brings up the namespace in the middle of a wire and starts its line.
pub(crate) fn start_line(
    host: &Host,
    treatment: Treatment,
    bottlenecks: [Option<Bottleneck>; 2],
) -> Result<Line, DelayError> {
    // No address, and no word of its own.
    host.set_sysctl("net.ipv6.conf.all.disable_ipv6", "1")?;
    for device in LINE_DEVICES {
        let features = ["-K", device, "tx", "off", "sg", "off", "tso", "off", "gso", "off", "gro", "off"];
        host.run("ethtool", &features)?;
        host.run("ip", &["link", "set", "dev", device, "up"])?;
    }
    let namespace = host.namespace().name();
    let line_error = |source| DelayError::Line { namespace: namespace.to_owned(), source };
    let open = |device| host.inside(|| PacketSocket::open(device).map(Arc::new));
    let [a, b] = LINE_DEVICES.map(open);
    let ends = [a?.map_err(line_error)?, b?.map_err(line_error)?];
    Line::start(namespace, ends, treatment, bottlenecks).map_err(line_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_delay_once() {
        let millis = Duration::from_millis;
        let delays = Delays { propagation: millis(10), d1_access: millis(1), u1_access: millis(5) };
        let path = |internet, home| {
            delays.between(internet, Role::R1)
                + delays.between(Role::R1, Role::Gateway)
                + delays.between(Role::Switch, Role::Gateway)
                + delays.between(Role::Switch, home)
        };
        assert_eq!(path(Role::D1, Role::D2), millis(11));
        assert_eq!(path(Role::U1, Role::U2), millis(15));
    }
}
