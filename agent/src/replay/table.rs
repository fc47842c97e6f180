//! The flow table: a bounded table of conversations, and a small nursery for what was seen one way only.
//!
//! Both forget what has been silent for longest. The kernel's LRU maps only approximate that order, so which flow
//! goes when a table is full is the one thing in which replay and kernel may differ.

use std::num::NonZeroUsize;

use lru::LruCache;
use pendulum_model::segment::Direction;

use super::flow::{Flow, FlowKey};
use crate::bpf::abi;

/// A flow, and what the caller notes beside it.
#[derive(Clone, Debug, Default)]
pub struct Entry<T> {
    /// As the kernel keeps it.
    pub flow: Flow,
    /// The caller's own notes. They survive the restart of a flow.
    pub note: T,
}

/// What happened in the table when a flow was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// First segment of a flow: it entered the nursery.
    Nursed,
    /// Seen both ways: it moved to the table.
    Promoted,
}

/// A flow that was looked up.
#[derive(Debug)]
pub struct Found<'a, T> {
    /// The flow. `None` for a stray RST.
    pub entry: Option<&'a mut Entry<T>>,
    /// What happened to it.
    pub event: Option<Event>,
    /// Which flow had to go because a table was full.
    pub evicted: Option<(FlowKey, Entry<T>)>,
}

/// All flows.
#[derive(Debug)]
pub struct FlowTable<T> {
    flows: Lru<T>,
    nursery: Lru<T>,
}

/// The entry that was not asked for longest is forgotten.
type Lru<T> = LruCache<FlowKey, Entry<T>>;

fn bounded<T>(capacity: usize) -> Lru<T> {
    // Not reserved at once: most captures have few flows.
    let mut table = LruCache::unbounded();
    table.resize(NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN));
    table
}

impl<T: Default> FlowTable<T> {
    /// A table for `flows` conversations and `nursery` flows seen one way only; each at least 1.
    pub fn new(flows: usize, nursery: usize) -> Self {
        Self { flows: bounded(flows), nursery: bounded(nursery) }
    }

    /// The flow of a segment that travels in `direction`; created if need be, but not by a RST.
    pub fn find(&mut self, key: FlowKey, direction: Direction, is_rst: bool) -> Found<'_, T> {
        if self.flows.contains(&key) {
            return Found { entry: self.flows.get_mut(&key), event: None, evicted: None };
        }
        let Some(nursed) = self.nursery.get(&key) else {
            if is_rst {
                return Found { entry: None, event: None, evicted: None };
            }
            let evicted = self.nursery.push(key, Entry::default());
            return Found { entry: self.nursery.get_mut(&key), event: Some(Event::Nursed), evicted };
        };
        let peer = &nursed.flow.halves[direction.opposite()];
        // A refusal makes no conversation, nor does what follows one: a scan of closed ports stays in the nursery.
        if peer.segments == 0 || is_rst || peer.has(abi::PENDULUM_HALF_RST) {
            return Found { entry: self.nursery.get_mut(&key), event: None, evicted: None };
        }
        let entry = self.nursery.pop(&key).unwrap_or_default();
        let evicted = self.flows.push(key, entry);
        Found { entry: self.flows.get_mut(&key), event: Some(Event::Promoted), evicted }
    }

    /// A flow by its key, wherever it is. Does not count as use.
    pub fn get(&self, key: &FlowKey) -> Option<&Entry<T>> {
        self.flows.peek(key).or_else(|| self.nursery.peek(key))
    }

    /// Like [`FlowTable::get`], to change it.
    pub fn get_mut(&mut self, key: &FlowKey) -> Option<&mut Entry<T>> {
        self.flows.peek_mut(key).or_else(|| self.nursery.peek_mut(key))
    }

    /// Conversations in the table, in no order.
    pub fn flows(&self) -> impl Iterator<Item = (&FlowKey, &Entry<T>)> {
        self.flows.iter()
    }

    /// Flows seen one way only, in no order.
    pub fn nursery(&self) -> impl Iterator<Item = (&FlowKey, &Entry<T>)> {
        self.nursery.iter()
    }

    /// Take all flows out, table first, in the order of their keys.
    pub fn drain(&mut self) -> Vec<(FlowKey, Entry<T>)> {
        let mut all = Vec::new();
        for table in [&mut self.flows, &mut self.nursery] {
            let mut drained: Vec<_> = std::iter::from_fn(|| table.pop_lru()).collect();
            drained.sort_unstable_by_key(|(key, _)| *key);
            all.append(&mut drained);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> FlowKey {
        FlowKey { home_addr: [1; 16], remote_addr: [2; 16], home_port: port, remote_port: 80 }
    }

    /// Look a flow up as a segment of `direction` would, and leave a trace of it.
    fn pass(table: &mut FlowTable<u16>, port: u16, direction: Direction) -> (Option<Event>, Option<u16>) {
        let found = table.find(key(port), direction, false);
        let entry = found.entry.expect("only a RST finds nothing");
        entry.flow.halves[direction].segments += 1;
        entry.note = port;
        (found.event, found.evicted.map(|(_, entry)| entry.note))
    }

    #[test]
    fn a_flow_is_nursed_then_promoted_and_keeps_its_state() {
        let mut table = FlowTable::new(4, 4);
        assert_eq!(pass(&mut table, 1, Direction::Up), (Some(Event::Nursed), None));
        assert_eq!(pass(&mut table, 1, Direction::Up), (None, None));
        assert_eq!(pass(&mut table, 1, Direction::Down), (Some(Event::Promoted), None));
        assert_eq!(pass(&mut table, 1, Direction::Up), (None, None));
        assert_eq!((table.flows().count(), table.nursery().count()), (1, 0));
        let halves = &table.get(&key(1)).expect("still there").flow.halves;
        assert_eq!([halves.up.segments, halves.down.segments], [3, 1]);
    }

    #[test]
    fn a_stray_rst_creates_nothing() {
        let mut table = FlowTable::<u16>::new(4, 4);
        assert!(table.find(key(1), Direction::Up, true).entry.is_none());
        assert_eq!(table.nursery().count(), 0);
    }

    #[test]
    fn a_syn_flood_turns_the_nursery_over_and_leaves_conversations_alone() {
        let mut table = FlowTable::new(2, 8);
        for port in [1, 2] {
            pass(&mut table, port, Direction::Up);
            pass(&mut table, port, Direction::Down);
        }
        for port in 100..1100 {
            pass(&mut table, port, Direction::Down);
        }
        assert_eq!(table.nursery().count(), 8);
        assert_eq!(table.flows().count(), 2);
        assert!(table.get(&key(1)).is_some() && table.get(&key(2)).is_some());
        assert!(table.get(&key(1091)).is_none() && table.get(&key(1092)).is_some());
    }

    #[test]
    fn a_full_table_forgets_what_was_silent_for_longest() {
        let mut table = FlowTable::new(3, 8);
        for port in [1, 2, 3] {
            pass(&mut table, port, Direction::Up);
            pass(&mut table, port, Direction::Down);
        }
        pass(&mut table, 1, Direction::Up);
        pass(&mut table, 4, Direction::Up);
        assert_eq!(pass(&mut table, 4, Direction::Down), (Some(Event::Promoted), Some(2)));
        pass(&mut table, 5, Direction::Up);
        assert_eq!(pass(&mut table, 5, Direction::Down), (Some(Event::Promoted), Some(3)));
        let ports: Vec<_> = table.drain().into_iter().map(|(_, entry)| entry.note).collect();
        assert_eq!(ports, [1, 4, 5]);
        assert_eq!(table.flows().count(), 0);
    }
}
