//! The flow table: a bounded table of conversations, and a small nursery for what was seen one way only.
//!
//! Both forget what has been silent for longest. The kernel's LRU maps only approximate that order, so which flow
//! goes when a table is full is the one thing in which replay and kernel may differ.

use std::collections::HashMap;

use pendulum_model::segment::Direction;

use super::flow::{Flow, FlowKey};

/// Marks the end of the list of slots.
const NONE: u32 = u32::MAX;

/// A flow, and what the caller notes beside it.
#[derive(Clone, Debug, Default)]
pub struct Entry<T> {
    /// As the kernel keeps it.
    pub flow: Flow,
    /// The caller's own notes. They survive the restart of a flow.
    pub note: T,
}

#[derive(Debug)]
struct Slot<T> {
    key: FlowKey,
    entry: Entry<T>,
    newer: u32,
    older: u32,
}

/// A hash table with a bound, which forgets the entry that was not asked for longest.
#[derive(Debug)]
struct Lru<T> {
    index: HashMap<FlowKey, u32>,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    capacity: usize,
}

impl<T: Default> Lru<T> {
    fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, NONE as usize - 1);
        Self {
            index: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            capacity,
        }
    }

    /// The slot of a flow, which becomes the newest.
    fn touch(&mut self, key: &FlowKey) -> Option<u32> {
        let slot = *self.index.get(key)?;
        if slot != self.newest {
            self.unlink(slot);
            self.link(slot);
        }
        Some(slot)
    }

    fn entry(&mut self, slot: u32) -> &mut Entry<T> {
        &mut self.slots[slot as usize].entry
    }

    /// Add a flow that is not there yet. Answers its slot, and the flow that had to go for it.
    fn insert(&mut self, key: FlowKey, entry: Entry<T>) -> (u32, Option<(FlowKey, Entry<T>)>) {
        let evicted = (self.index.len() >= self.capacity).then(|| {
            let key = self.slots[self.oldest as usize].key;
            self.remove(self.oldest).map(|entry| (key, entry))
        });
        let fresh = Slot { key, entry, newer: NONE, older: NONE };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = fresh;
                slot
            }
            None => {
                self.slots.push(fresh);
                // `new` keeps the capacity below NONE.
                (self.slots.len() - 1) as u32
            }
        };
        self.index.insert(key, slot);
        self.link(slot);
        (slot, evicted.flatten())
    }

    fn remove(&mut self, slot: u32) -> Option<Entry<T>> {
        let key = self.slots.get(slot as usize)?.key;
        self.index.remove(&key)?;
        self.unlink(slot);
        self.free.push(slot);
        Some(std::mem::take(&mut self.slots[slot as usize].entry))
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    fn link(&mut self, slot: u32) {
        let older = std::mem::replace(&mut self.newest, slot);
        self.slots[slot as usize].newer = NONE;
        self.slots[slot as usize].older = older;
        match older {
            NONE => self.oldest = slot,
            older => self.slots[older as usize].newer = slot,
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&FlowKey, &Entry<T>)> {
        self.index.iter().map(|(key, slot)| (key, &self.slots[*slot as usize].entry))
    }
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

impl<T: Default> FlowTable<T> {
    /// A table for `flows` conversations and `nursery` flows seen one way only; each at least 1.
    pub fn new(flows: usize, nursery: usize) -> Self {
        Self { flows: Lru::new(flows), nursery: Lru::new(nursery) }
    }

    /// The flow of a segment that travels in `direction`; created if need be, but not by a RST.
    pub fn find(&mut self, key: FlowKey, direction: Direction, is_rst: bool) -> Found<'_, T> {
        if let Some(slot) = self.flows.touch(&key) {
            return Found { entry: Some(self.flows.entry(slot)), event: None, evicted: None };
        }
        let Some(slot) = self.nursery.touch(&key) else {
            if is_rst {
                return Found { entry: None, event: None, evicted: None };
            }
            let (slot, evicted) = self.nursery.insert(key, Entry::default());
            return Found { entry: Some(self.nursery.entry(slot)), event: Some(Event::Nursed), evicted };
        };
        let answered = self.nursery.entry(slot).flow.halves[direction.opposite() as usize].segments > 0;
        if !answered {
            return Found { entry: Some(self.nursery.entry(slot)), event: None, evicted: None };
        }
        let entry = self.nursery.remove(slot).unwrap_or_default();
        let (slot, evicted) = self.flows.insert(key, entry);
        Found { entry: Some(self.flows.entry(slot)), event: Some(Event::Promoted), evicted }
    }

    /// A flow by its key, wherever it is. Does not count as use.
    pub fn get(&self, key: &FlowKey) -> Option<&Entry<T>> {
        [&self.flows, &self.nursery]
            .into_iter()
            .find_map(|lru| lru.index.get(key).map(|slot| &lru.slots[*slot as usize].entry))
    }

    /// Like [`FlowTable::get`], to change it.
    pub fn get_mut(&mut self, key: &FlowKey) -> Option<&mut Entry<T>> {
        let lru = if self.flows.index.contains_key(key) { &mut self.flows } else { &mut self.nursery };
        let slot = *lru.index.get(key)?;
        lru.slots.get_mut(slot as usize).map(|slot| &mut slot.entry)
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
        for lru in [&mut self.flows, &mut self.nursery] {
            let drained = std::mem::replace(lru, Lru::new(lru.capacity));
            let mut slots = drained.slots;
            let mut keyed: Vec<_> = drained.index.into_iter().collect();
            keyed.sort_unstable_by_key(|(key, _)| *key);
            all.extend(
                keyed.into_iter().map(|(key, slot)| (key, std::mem::take(&mut slots[slot as usize].entry))),
            );
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
        entry.flow.halves[direction as usize].segments += 1;
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
        assert_eq!([halves[0].segments, halves[1].segments], [3, 1]);
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

    #[test]
    fn slots_are_used_again() {
        let mut table = FlowTable::new(1, 1);
        for port in 0..1000 {
            pass(&mut table, port, Direction::Up);
            pass(&mut table, port, Direction::Down);
        }
        assert_eq!((table.flows.slots.len(), table.nursery.slots.len()), (1, 1));
    }
}
