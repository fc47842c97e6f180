//! Which end of a packet is home.
//!
//! A capture does not say. The answer comes from evidence gathered over the first packets of the capture(s): addresses
//! are the two colours of a graph, for the ends of a packet are always on opposite sides (and an Ethernet source on
//! the side of its IP source); each connected part of the graph is then turned as its best evidence says. One
//! misleading flow thus cannot turn the others.

mod evidence;
mod exchanged;
mod graph;
mod prefix;
#[cfg(test)]
mod tests;
mod transit;

use std::collections::{HashMap, HashSet};

use pendulum_model::segment::Direction;

use super::capture::Record;
use super::packet::LinkType;
pub use evidence::Evidence;
pub use exchanged::Exchanged;
pub use graph::Survey;
pub use prefix::{Prefix, PrefixError};
pub use transit::Transit;

/// Addresses remembered beyond those of the survey.
const LEARNT_MAX: usize = 1 << 16;

/// An end of a packet: home is behind the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Behind the gateway.
    Home,
    /// Beyond the bottleneck.
    Remote,
}

impl Side {
    const fn opposite(self) -> Self {
        match self {
            Self::Home => Self::Remote,
            Self::Remote => Self::Home,
        }
    }

    /// Which way a packet from here travels.
    const fn direction(self) -> Direction {
        match self {
            Self::Home => Direction::Up,
            Self::Remote => Direction::Down,
        }
    }
}

/// An IP address, IPv4 mapped into IPv6.
pub type Address = [u8; 16];

/// Knows the side of every address.
#[derive(Debug, Default)]
pub struct Orientation {
    prefixes: Vec<Prefix>,
    addresses: HashMap<Address, Side>,
    devices: HashMap<[u8; 6], Side>,
    /// Networks of the home addresses: the same /24 or /64.
    home_networks: HashSet<Prefix>,
    learnt: usize,
    /// The two sources seen last: most packets are of one conversation.
    recent: [Option<(Address, Side)>; 2],
    /// Packets of the survey, by what decided about them.
    decided_by: Vec<(Evidence, u64)>,
}

impl Orientation {
    /// What decided about most packets of the survey; `None` if it saw none.
    pub fn evidence(&self) -> Option<Evidence> {
        self.decided_by
            .iter()
            .max_by_key(|(evidence, packets)| (*packets, *evidence))
            .map(|(evidence, _)| *evidence)
    }

    /// The direction of an IP packet.
    pub fn direction(&mut self, source: Address, destination: Address) -> Option<Direction> {
        if !self.prefixes.is_empty() {
            return self.side_by_prefix(source, destination).map(Side::direction);
        }
        if let Some((_, side)) = self.recent.iter().flatten().find(|(address, _)| *address == source) {
            return Some(side.direction());
        }
        let side = match self.addresses.get(&source) {
            Some(side) => *side,
            None => {
                let side = self.side_of_unknown(source, destination)?;
                self.learn(source, side);
                self.learn(destination, side.opposite());
                side
            }
        };
        self.recent = [Some((source, side)), self.recent[0]];
        Some(side.direction())
    }

    /// Whether an address is known to be home.
    pub fn is_home(&self, address: Address) -> bool {
        if self.prefixes.is_empty() {
            self.addresses.get(&address) == Some(&Side::Home)
        } else {
            self.prefixes.iter().any(|prefix| prefix.contains(address))
        }
    }

    /// The direction of a frame without IP, by its Ethernet source.
    pub fn direction_of_device(&self, record: &Record<'_>) -> Option<Direction> {
        ethernet_source(record).and_then(|device| self.devices.get(&device)).map(|side| side.direction())
    }

    /// The side of the source, if the user named the home addresses.
    fn side_by_prefix(&self, source: Address, destination: Address) -> Option<Side> {
        let inside = |address| self.prefixes.iter().any(|prefix| prefix.contains(address));
        match (inside(source), inside(destination)) {
            (true, _) => Some(Side::Home),
            (false, true) => Some(Side::Remote),
            (false, false) => None,
        }
    }

    fn side_of_unknown(&self, source: Address, destination: Address) -> Option<Side> {
        if let Some(side) = self.addresses.get(&destination) {
            return Some(side.opposite());
        }
        match (evidence::is_private(source), evidence::is_private(destination)) {
            (true, false) => return Some(Side::Home),
            (false, true) => return Some(Side::Remote),
            _ => {}
        }
        let has_home_neighbour = |address| self.home_networks.contains(&Prefix::neighbourhood(address));
        match (has_home_neighbour(source), has_home_neighbour(destination)) {
            (true, false) => Some(Side::Home),
            (false, true) => Some(Side::Remote),
            _ => None,
        }
    }

    fn learn(&mut self, address: Address, side: Side) {
        if self.learnt < LEARNT_MAX
            && !evidence::is_multicast(address)
            && !self.addresses.contains_key(&address)
        {
            self.place(address, side);
            self.learnt += 1;
        }
    }

    fn place(&mut self, address: Address, side: Side) {
        self.addresses.insert(address, side);
        if side == Side::Home {
            self.home_networks.insert(Prefix::neighbourhood(address));
        }
    }
}

/// The source address of a frame whose link header has one.
fn ethernet_source(record: &Record<'_>) -> Option<[u8; 6]> {
    if record.link_type != LinkType::Ethernet {
        return None;
    }
    record.bytes.get(6..)?.first_chunk().copied()
}
