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

/// An IP address, IPv4 mapped into IPv6.
pub type Address = [u8; 16];

/// Knows which way packets of every address travel: those of home go up.
#[derive(Debug, Default)]
pub struct Orientation {
    prefixes: Vec<Prefix>,
    addresses: HashMap<Address, Direction>,
    devices: HashMap<[u8; 6], Direction>,
    /// Networks of the home addresses: the same /24 or /64.
    home_networks: HashSet<Prefix>,
    learnt: usize,
    /// The two sources seen last: most packets are of one conversation.
    recent: [Option<(Address, Direction)>; 2],
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
            return self.direction_by_prefix(source, destination);
        }
        if let Some((_, direction)) = self.recent.iter().flatten().find(|(address, _)| *address == source) {
            return Some(*direction);
        }
        let direction = match self.addresses.get(&source) {
            Some(direction) => *direction,
            None => {
                let direction = self.direction_of_unknown(source, destination)?;
                self.learn(source, direction);
                self.learn(destination, direction.opposite());
                direction
            }
        };
        self.recent = [Some((source, direction)), self.recent[0]];
        Some(direction)
    }

    /// Whether an address is known to be home.
    pub fn is_home(&self, address: Address) -> bool {
        if self.prefixes.is_empty() {
            self.addresses.get(&address) == Some(&Direction::Up)
        } else {
            self.prefixes.iter().any(|prefix| prefix.contains(address))
        }
    }

    /// The direction of a frame without IP, by its Ethernet source.
    pub fn direction_of_device(&self, record: &Record<'_>) -> Option<Direction> {
        ethernet_source(record).and_then(|device| self.devices.get(&device)).copied()
    }

    /// The direction of what the source sends, if the user named the home addresses.
    fn direction_by_prefix(&self, source: Address, destination: Address) -> Option<Direction> {
        let inside = |address| self.prefixes.iter().any(|prefix| prefix.contains(address));
        match (inside(source), inside(destination)) {
            (true, _) => Some(Direction::Up),
            (false, true) => Some(Direction::Down),
            (false, false) => None,
        }
    }

    fn direction_of_unknown(&self, source: Address, destination: Address) -> Option<Direction> {
        if let Some(direction) = self.addresses.get(&destination) {
            return Some(direction.opposite());
        }
        match (evidence::is_private(source), evidence::is_private(destination)) {
            (true, false) => return Some(Direction::Up),
            (false, true) => return Some(Direction::Down),
            _ => {}
        }
        let has_home_neighbour = |address| self.home_networks.contains(&Prefix::neighbourhood(address));
        match (has_home_neighbour(source), has_home_neighbour(destination)) {
            (true, false) => Some(Direction::Up),
            (false, true) => Some(Direction::Down),
            _ => None,
        }
    }

    fn learn(&mut self, address: Address, direction: Direction) {
        if self.learnt < LEARNT_MAX
            && !evidence::is_multicast(address)
            && !self.addresses.contains_key(&address)
        {
            self.place(address, direction);
            self.learnt += 1;
        }
    }

    fn place(&mut self, address: Address, direction: Direction) {
        self.addresses.insert(address, direction);
        if direction == Direction::Up {
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
