//! What the hosts outside say of the buffer behind.

use crate::constants::{FEW, HALF, HELD_BACK_S, NO_QUEUE_S};
use std::collections::BTreeMap;

/// One host's replies since the decision before. Of those the newest stretch counts, if they are not too few.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// The least of the newest stretch, and of the one before it.
    wait: f64,
    before: Option<f64>,
    /// When the stretch started, how many there are, and the newest of it.
    from: f64,
    count: usize,
    passed: f64,
    /// Of all its packets.
    bytes: f64,
}

impl Host {
    fn new(wait: f64, passed: f64, before: Option<f64>, bytes: f64) -> Self {
        Self { wait, before, from: passed, count: 1, passed, bytes }
    }

    fn add(&mut self, wait: f64, passed: f64, bytes: f64) {
        let bytes = self.bytes + bytes;
        if passed - self.from > HELD_BACK_S {
            *self = Self::new(wait, passed, Some(self.least()), bytes);
            return;
        }
        self.wait = self.wait.min(wait);
        self.passed = self.passed.max(passed);
        (self.count, self.bytes) = (self.count + 1, bytes);
    }

    /// One reply may have been held back: a few count alone, fewer together with what was before.
    fn least(&self) -> f64 {
        match self.before {
            Some(before) if self.count < FEW => self.wait.min(before),
            _ => self.wait,
        }
    }
}

/// The first hop beyond the line: no bottleneck of its own lies before it.
pub const FIRST_HOP: u64 = u64::MAX;

/// What they say together.
#[derive(Clone, Copy, Debug)]
pub(super) struct RttSamples {
    /// That of the first hop, else the middle one of their waits, the lower of two: neither a slow host nor one that lies decides among three. Seconds.
    pub(super) wait: f64,
    /// The first hop is among them.
    pub(super) is_of_hop: bool,
    /// When the newest packet that met it passed.
    pub(super) passed: f64,
    /// All hosts; those that agree on it; those that wait at least as long, and their bytes.
    pub(super) hosts: usize,
    pub(super) agreeing: usize,
    pub(super) waiting: usize,
    pub(super) bytes: f64,
}

impl RttSamples {
    /// No bottleneck of a host's own is mistaken for the line.
    pub(super) const fn is_sure(&self) -> bool {
        self.is_of_hop || self.agreeing >= 2
    }
}

/// Replies since the decision before.
#[derive(Debug, Default)]
pub(super) struct HeardHosts(BTreeMap<u64, Host>);

impl HeardHosts {
    /// A packet of `bytes` that passed at `passed` waited so long.
    pub(super) fn add(&mut self, host: u64, wait: f64, passed: f64, bytes: f64) {
        self.0
            .entry(host)
            .and_modify(|known| known.add(wait, passed, bytes))
            .or_insert_with(|| Host::new(wait, passed, None, bytes));
    }

    /// All of them, once.
    pub(super) fn take(&mut self) -> Option<RttSamples> {
        let hop = self.0.get(&FIRST_HOP).copied();
        let mut hosts: Vec<Host> = std::mem::take(&mut self.0).into_values().collect();
        hosts.sort_by(|a, b| a.least().total_cmp(&b.least()));
        let decides = hop.or(hosts.get(hosts.len().checked_sub(1)? / 2).copied())?;
        let wait = decides.least();
        let near = (2.0 * NO_QUEUE_S).max(HALF * wait);
        Some(RttSamples {
            wait,
            is_of_hop: hop.is_some(),
            passed: decides.passed,
            hosts: hosts.len(),
            agreeing: hosts.iter().filter(|it| (it.least() - wait).abs() <= near).count(),
            waiting: hosts.iter().filter(|it| it.least() >= wait).count(),
            bytes: hosts.iter().filter(|it| it.least() >= wait).map(|it| it.bytes).sum(),
        })
    }
}

#[cfg(test)]
mod tests;
