//! What is no TCP, by IP protocol and port: the kernel's counts (`bpf/packet/ports.h`).

use std::collections::BTreeMap;

use aya::maps::PerCpuValues;
use pendulum_model::protocol_port::ProtocolPort;

use super::abi::{self, pendulum_port, pendulum_ports};

/// One reading of one direction, every CPU's.
#[derive(Clone, Default)]
pub struct PortCounts {
    cpus: Vec<pendulum_ports>,
}

impl pendulum_port {
    fn key(&self) -> u64 {
        self.sent & ((1 << abi::PENDULUM_PORT_KEY_BITS) - 1)
    }

    fn bytes(&self) -> u64 {
        self.sent >> abi::PENDULUM_PORT_KEY_BITS
    }

    fn protocol_port(&self) -> ProtocolPort {
        let port = self.key() as u16;
        ProtocolPort { protocol: (self.key() >> 16) as u8, port: (port != 0).then_some(port) }
    }
}

impl PortCounts {
    /// One place in use.
    #[cfg(test)]
    pub(crate) fn one(protocol_port: ProtocolPort, bytes: u64) -> Self {
        let key = u64::from(protocol_port.protocol) << 16 | u64::from(protocol_port.port.unwrap_or(0));
        let mut ports = pendulum_ports::default();
        ports.places[0].sent = bytes << abi::PENDULUM_PORT_KEY_BITS | key;
        Self { cpus: vec![ports] }
    }

    pub(super) fn of(cpus: &PerCpuValues<pendulum_ports>) -> Self {
        Self { cpus: cpus.to_vec() }
    }

    /// Link-layer bytes since an earlier reading of the same programs, at least: what shares a place with a bigger one, or
    /// took a place over in between, may be counted short, and never too high.
    pub fn since(&self, before: &Self) -> BTreeMap<ProtocolPort, u64> {
        let mut bytes = BTreeMap::new();
        for (cpu, now) in self.cpus.iter().enumerate() {
            let before = before.cpus.get(cpu);
            for (place, now) in now.places.iter().enumerate().filter(|(_, now)| now.sent != 0) {
                let then = before.map(|before| &before.places[place]);
                let counted = then.filter(|then| then.key() == now.key()).map_or(0, pendulum_port::bytes);
                // Fewer than before: it lost the place and took it again, and all of it is new.
                let more = now.bytes().checked_sub(counted).unwrap_or(now.bytes());
                if more > 0 {
                    *bytes.entry(now.protocol_port()).or_default() += more;
                }
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(cpus: &[&[(usize, u8, u16, u64)]]) -> PortCounts {
        let cpus = cpus.iter().map(|places| {
            let mut ports = pendulum_ports::default();
            for &(place, protocol, port, bytes) in *places {
                let key = u64::from(protocol) << 16 | u64::from(port);
                ports.places[place].sent = bytes << abi::PENDULUM_PORT_KEY_BITS | key;
            }
            ports
        });
        PortCounts { cpus: cpus.collect() }
    }

    #[test]
    fn what_was_added_is_summed_over_cpus() {
        let quic = ProtocolPort { protocol: 17, port: Some(443) };
        let esp = ProtocolPort { protocol: 50, port: None };
        let before = reading(&[&[(1, 17, 443, 1000)], &[]]);
        let after = reading(&[&[(1, 17, 443, 1500), (2, 50, 0, 7)], &[(1, 17, 443, 40)]]);
        assert_eq!(after.since(&before), BTreeMap::from([(quic, 540), (esp, 7)]));
        assert_eq!(after.since(&PortCounts::default()), BTreeMap::from([(quic, 1540), (esp, 7)]));
        assert_eq!(after.since(&after), BTreeMap::new());
    }

    #[test]
    fn a_place_that_changed_hands_counts_its_new_owner_from_zero() {
        let dns = ProtocolPort { protocol: 17, port: Some(53) };
        let before = reading(&[&[(1, 17, 443, 1000), (2, 17, 53, 900)]]);
        let after = reading(&[&[(1, 17, 53, 300), (2, 17, 53, 20)]]);
        assert_eq!(after.since(&before), BTreeMap::from([(dns, 320)]));
    }
}
