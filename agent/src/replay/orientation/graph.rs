//! The survey: addresses and devices as a graph of two colours, turned by the evidence.

use std::collections::HashMap;

use pendulum_model::segment::Direction;

use super::super::capture::Record;
use super::super::packet::{LinkType, ParsedSegment};
use super::evidence::{handshake_vote, is_multicast, is_private, port_vote};
use super::{Address, Evidence, Orientation, Prefix, ethernet_source};

/// Nodes of the graph; more are left to [`Orientation::direction`].
const NODES_MAX: usize = 1 << 14;

/// Evidence decides if at least this part of it says the same: 2 of 3.
const MAJORITY: (i64, i64) = (1, 3);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Node {
    Address(Address),
    Device([u8; 6]),
}

#[derive(Clone, Copy, Debug)]
struct Colour {
    parent: usize,
    /// Whether this node is on the other side than its parent.
    opposite: bool,
    rank: u8,
}

/// Gathers evidence from the first packets.
#[derive(Debug, Default)]
pub struct Survey {
    index: HashMap<Node, usize>,
    nodes: Vec<Node>,
    colours: Vec<Colour>,
    /// By node and [`Evidence`]: positive if it speaks for home; and its total weight.
    votes: Vec<[(i64, i64); Evidence::ALL.len()]>,
    packets: Vec<u64>,
}

impl Survey {
    /// Take in one IP packet.
    pub fn observe(
        &mut self,
        record: &Record<'_>,
        source: Address,
        destination: Address,
        segment: Option<&ParsedSegment>,
    ) {
        if is_multicast(source) || is_multicast(destination) || source == destination {
            return;
        }
        let known = self.nodes.len();
        let (Some(from), Some(to)) =
            (self.node(Node::Address(source)), self.node(Node::Address(destination)))
        else {
            return;
        };
        if from.min(to) >= known {
            self.vote(from, Evidence::Guess, 1);
        }
        self.join(from, to, true);
        self.packets[from] += 1;
        if let Some(device) = ethernet_source(record).and_then(|device| self.node(Node::Device(device))) {
            self.join(from, device, false);
        }
        self.vote(from, Evidence::CaptureDirection, capture_vote(record));
        let private = i64::from(is_private(source)) - i64::from(is_private(destination));
        self.vote(from, Evidence::PrivateAddress, private);
        if let Some(segment) = segment {
            self.vote(from, Evidence::Handshake, handshake_vote(segment));
            self.vote(from, Evidence::Ports, port_vote(segment));
        }
    }

    /// Evidence from outside: positive if the address is home.
    pub(super) fn vote_for(&mut self, address: Address, evidence: Evidence, weight: i64) {
        if let Some(node) = self.index.get(&Node::Address(address)) {
            self.vote(*node, evidence, weight);
        }
    }

    /// Evidence from outside for all addresses of one colour of a part.
    pub(super) fn vote_for_part(&mut self, part: usize, colour: bool, evidence: Evidence, weight: i64) {
        self.vote(part, evidence, if colour { -weight } else { weight });
    }

    /// The part of the graph that an address belongs to, and its colour there.
    pub(super) fn part_and_colour(&self, address: Address) -> Option<(usize, bool)> {
        let node = *self.index.get(&Node::Address(address))?;
        Some(self.root(node))
    }

    /// The home address of most packets, if the order of the captures contradicts what is known of the addresses, for most of
    /// the packets of which both is known.
    pub(super) fn contradicted(&self, prefixes: &[Prefix]) -> Option<(Address, Evidence)> {
        let evidence = if prefixes.is_empty() { Evidence::PrivateAddress } else { Evidence::Option };
        let known = |index: usize| match (self.nodes[index], evidence) {
            (Node::Address(address), Evidence::Option) => {
                let inside = prefixes.iter().any(|prefix| prefix.contains(address));
                if inside { self.packets[index] as i64 } else { 0 }
            }
            _ => self.votes[index][evidence as usize].0,
        };
        let mut parts: HashMap<usize, (i64, i64)> = HashMap::new();
        for index in 0..self.nodes.len() {
            let (root, opposite) = self.root(index);
            let turned = |vote: i64| if opposite { -vote } else { vote };
            let (by_order, by_address) = parts.entry(root).or_default();
            *by_order += turned(self.votes[index][Evidence::Transit as usize].0);
            *by_address += turned(known(index));
        }
        let agreement: i64 = parts.values().map(|(order, address)| order * address.signum()).sum();
        if agreement >= 0 {
            return None;
        }
        let home = (0..self.nodes.len())
            .filter(|&index| known(index) > 0)
            .max_by_key(|&index| self.packets[index])?;
        match self.nodes[home] {
            Node::Address(address) => Some((address, evidence)),
            Node::Device(_) => None,
        }
    }

    /// Decide. `prefixes` are the home addresses that the user named, if any.
    pub fn decide(mut self, prefixes: &[Prefix]) -> Orientation {
        for index in 0..self.nodes.len() {
            let Node::Address(address) = self.nodes[index] else { continue };
            if !prefixes.is_empty() {
                let inside = prefixes.iter().any(|prefix| prefix.contains(address));
                self.vote(index, Evidence::Option, if inside { 1 } else { -1 });
            }
            // The side with fewer votes against it is home.
            self.vote(index, Evidence::Peers, -1);
        }
        let turned = self.turn_parts();
        let mut orientation = Orientation { prefixes: prefixes.to_vec(), ..Orientation::default() };
        let mut decided_by = [0; Evidence::ALL.len()];
        for index in 0..self.nodes.len() {
            let (root, opposite) = self.root(index);
            let Some(&(root_direction, evidence)) = turned.get(&root) else { continue };
            let direction = if opposite { root_direction.opposite() } else { root_direction };
            decided_by[evidence as usize] += self.packets[index];
            match self.nodes[index] {
                // Named prefixes hold as they are, also against the graph.
                Node::Address(_) if !prefixes.is_empty() => {}
                Node::Address(address) => orientation.place(address, direction),
                Node::Device(device) => {
                    orientation.devices.insert(device, direction);
                }
            }
        }
        orientation.decided_by =
            Evidence::ALL.into_iter().map(|e| (e, decided_by[e as usize])).filter(|(_, n)| *n > 0).collect();
        orientation
    }

    /// The direction in which each part's root sends, and what decided.
    fn turn_parts(&self) -> HashMap<usize, (Direction, Evidence)> {
        let mut votes: HashMap<usize, [(i64, i64); Evidence::ALL.len()]> = HashMap::new();
        for index in 0..self.nodes.len() {
            let (root, opposite) = self.root(index);
            let sums = votes.entry(root).or_default();
            for (sum, (vote, weight)) in sums.iter_mut().zip(self.votes[index]) {
                sum.0 += if opposite { -vote } else { vote };
                sum.1 += weight;
            }
        }
        votes.into_iter().map(|(root, sums)| (root, decide_part(&sums))).collect()
    }

    fn node(&mut self, node: Node) -> Option<usize> {
        if let Some(index) = self.index.get(&node) {
            return Some(*index);
        }
        if self.nodes.len() >= NODES_MAX {
            return None;
        }
        let index = self.nodes.len();
        self.index.insert(node, index);
        self.nodes.push(node);
        self.colours.push(Colour { parent: index, opposite: false, rank: 0 });
        self.votes.push([(0, 0); Evidence::ALL.len()]);
        self.packets.push(0);
        Some(index)
    }

    fn vote(&mut self, node: usize, evidence: Evidence, vote: i64) {
        let (sum, weight) = &mut self.votes[node][evidence as usize];
        *sum += vote;
        *weight += vote.abs();
    }

    /// The root of a node's part, and whether the node is on the other side than the root. Parts are joined by rank, so
    /// the way there is short.
    fn root(&self, mut node: usize) -> (usize, bool) {
        let mut opposite = false;
        while self.colours[node].parent != node {
            opposite ^= self.colours[node].opposite;
            node = self.colours[node].parent;
        }
        (node, opposite)
    }

    /// Put two nodes into one part. If they already are, an older word stands.
    fn join(&mut self, a: usize, b: usize, opposite: bool) {
        let ((root_a, opposite_a), (root_b, opposite_b)) = (self.root(a), self.root(b));
        if root_a == root_b {
            return;
        }
        let (child, parent) = if self.colours[root_a].rank < self.colours[root_b].rank {
            (root_a, root_b)
        } else {
            (root_b, root_a)
        };
        if self.colours[child].rank == self.colours[parent].rank {
            self.colours[parent].rank += 1;
        }
        self.colours[child].parent = parent;
        self.colours[child].opposite = opposite_a ^ opposite_b ^ opposite;
    }
}

/// The best evidence with a clear majority. Positive: the root is home.
fn decide_part(sums: &[(i64, i64); Evidence::ALL.len()]) -> (Direction, Evidence) {
    for evidence in Evidence::ALL {
        let (sum, weight) = sums[evidence as usize];
        if weight > 0 && sum.abs() * MAJORITY.1 >= weight * MAJORITY.0 {
            return (if sum > 0 { Direction::Up } else { Direction::Down }, evidence);
        }
    }
    (Direction::Up, Evidence::Guess)
}

/// Linux cooked: packet type 4 is "sent by us", 0 "sent to us" (linktypes LINUX_SLL and LINUX_SLL2).
fn capture_vote(record: &Record<'_>) -> i64 {
    let packet_type = match record.link_type {
        LinkType::LinuxSll => record.bytes.get(1),
        LinkType::LinuxSll2 => record.bytes.get(10),
        _ => None,
    };
    match packet_type {
        Some(4) => 1,
        Some(0) => -1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums of one part: these kinds of evidence, and nothing of the others.
    fn decided(evidence: &[(Evidence, i64, i64)]) -> (Direction, Evidence) {
        let mut sums = [(0, 0); Evidence::ALL.len()];
        for (kind, sum, weight) in evidence {
            sums[*kind as usize] = (*sum, *weight);
        }
        decide_part(&sums)
    }

    #[test]
    fn two_of_three_decide_and_fewer_leave_it_to_the_next() {
        use Evidence::{Guess, Handshake, PrivateAddress, Transit};
        // Two for and one against: a sum of one, of three.
        assert_eq!(decided(&[(Handshake, 1, 3)]), (Direction::Up, Handshake));
        assert_eq!(decided(&[(Handshake, -1, 3)]), (Direction::Down, Handshake));
        // Five of eight are less.
        assert_eq!(decided(&[(Handshake, 2, 8), (Guess, -1, 1)]), (Direction::Down, Guess));
        assert_eq!(decided(&[(Handshake, 0, 8)]), (Direction::Up, Guess));
        assert_eq!(decided(&[(Transit, -9, 9), (PrivateAddress, 50, 50)]), (Direction::Down, Transit));
        assert_eq!(decided(&[]), (Direction::Up, Guess));
    }

    #[test]
    fn cooked_headers_say_who_sent_the_packet() {
        for (link_type, at) in [(LinkType::LinuxSll, 1), (LinkType::LinuxSll2, 10)] {
            // To us, to all, to many, to somebody else, from us.
            for (packet_type, vote) in [(0, -1), (1, 0), (2, 0), (3, 0), (4, 1)] {
                // What stands elsewhere says nothing.
                let mut bytes = [9; 20];
                bytes[at] = packet_type;
                let record = Record { time_ns: 0, link_type, bytes: &bytes, original_len: 20 };
                assert_eq!(capture_vote(&record), vote, "{link_type:?} {packet_type}");
            }
        }
        let record = Record { time_ns: 0, link_type: LinkType::Ethernet, bytes: &[4; 20], original_len: 20 };
        assert_eq!(capture_vote(&record), 0);
    }

    /// A chain of nodes keeps its colours, in whatever order it is joined; what contradicts it later changes nothing.
    #[test]
    fn colours_follow_from_each_other() {
        let order = [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [0, 4, 1, 3, 2], [2, 0, 4, 3, 1]];
        for joins in order {
            let mut survey = Survey::default();
            let nodes: Vec<usize> = (0..6).filter_map(|i| survey.node(Node::Address([i; 16]))).collect();
            for at in joins {
                // Opposite, but for the pair in the middle.
                survey.join(nodes[at], nodes[at + 1], at != 2);
            }
            survey.join(nodes[0], nodes[5], true);
            let (root, first) = survey.root(nodes[0]);
            for (node, opposite) in nodes.iter().zip([false, true, false, false, true, false]) {
                assert_eq!(survey.root(*node), (root, first ^ opposite), "{joins:?}");
            }
        }
    }
}
