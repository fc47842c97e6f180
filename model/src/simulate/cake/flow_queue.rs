//! The queue of one flow.

use std::collections::VecDeque;

use super::super::packet::{Packet, Time};
use super::cobalt::Cobalt;

/// `CAKE_SET_…`: which turn a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// In no list.
    None,
    /// Among those that are served first.
    Sparse,
    /// Empty, waits among the others until its deficit is paid, and is not counted with them.
    SparseWait,
    /// Among those that take turns.
    Bulk,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) frame: Packet,
    pub(super) since: Time,
}

/// The queue of one flow's frames that go one way.
#[derive(Debug)]
pub(super) struct FlowQueue {
    pub(super) frames: VecDeque<Queued>,
    pub(super) deficit: i64,
    pub(super) turn: Turn,
    pub(super) cobalt: Cobalt,
    /// Place of its host in the list of hosts.
    pub(super) host: usize,
}

impl FlowQueue {
    pub(super) fn new(host: usize) -> Self {
        Self { frames: VecDeque::new(), deficit: 0, turn: Turn::None, cobalt: Cobalt::default(), host }
    }
}
