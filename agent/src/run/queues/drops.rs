//! Packets dropped, from two counts: the traced ones say why, the qdisc's own says how many.
//!
//! Under load the kernel leaves out an event now and then (docs/design/queues.md, "Drift"). What the qdisc has counted beyond the
//! traced drops is taken over once a second as `other`, so that the totals agree.

use crate::bpf::abi;
use crate::net::Qdisc;

const KINDS: usize = abi::PENDULUM_DROPS as usize;
const OTHER: usize = abi::PENDULUM_DROP_OTHER as usize;

/// Follows both counts. What was counted is never taken back, whatever becomes of device and qdisc.
#[derive(Debug, Default)]
pub(super) struct Drops {
    /// Drops that only the qdisc has counted.
    untraced: u64,
    traced: [u64; KINDS],
    since: Option<Since>,
}

/// Where counting one qdisc began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Since {
    handle: u32,
    /// What the qdisc had counted then, and what it had at the newest look.
    base: u32,
    newest: u32,
    traced: u64,
    untraced: u64,
}

impl Drops {
    /// The device is gone; what stands on the next one counts from its beginning.
    pub(super) fn forget_qdisc(&mut self) {
        self.since = None;
    }

    /// Takes in the traced drops before and after the qdisc's own statistics were read; `None` if they are not traced.
    pub(super) fn observe(
        &mut self,
        before: Option<[u64; KINDS]>,
        root: Option<&Qdisc>,
        after: Option<[u64; KINDS]>,
    ) {
        if let Some(after) = after {
            self.traced = after;
        }
        let traced: u64 = after.unwrap_or_default().iter().sum();
        let Some(root) = root else { return self.forget_qdisc() };
        let fresh = Since {
            handle: root.handle,
            base: root.drops,
            newest: root.drops,
            traced,
            untraced: self.untraced,
        };
        let since = self.since.get_or_insert(fresh);
        // Another qdisc of the same handle has counted less.
        if since.handle != root.handle || root.drops < since.newest {
            *since = Since { base: 0, traced, ..fresh };
            // What the new one dropped before this look may have been traced already.
            if after.is_some() {
                since.base = root.drops;
            }
        }
        since.newest = root.drops;
        // A drop between the readings is on one side only: next time.
        if before != after {
            return;
        }
        let counted = u64::from(root.drops - since.base);
        let known = (traced - since.traced) + (self.untraced - since.untraced);
        self.untraced += counted.saturating_sub(known);
    }

    /// By `enum pendulum_drop`.
    pub(super) fn by_kind(&self) -> [u64; KINDS] {
        let mut kinds = self.traced;
        kinds[OTHER] += self.untraced;
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(handle: u32, drops: u32) -> Qdisc {
        Qdisc {
            handle,
            parent: u32::MAX,
            kind: "tbf".to_owned(),
            sent_bytes: 0,
            sent_packets: 0,
            backlog_bytes: 0,
            backlog_packets: 0,
            drops,
            limit_bytes: None,
            limit_packets: None,
            rate: None,
        }
    }

    fn traced(overlimit: u64) -> Option<[u64; KINDS]> {
        Some([overlimit, 0, 0, 0])
    }

    #[test]
    fn totals_agree_with_the_qdisc_from_the_first_look_on() {
        let mut drops = Drops::default();
        drops.observe(traced(0), Some(&root(1, 50)), traced(0));
        drops.observe(traced(10), Some(&root(1, 62)), traced(10));
        assert_eq!(drops.by_kind(), [10, 0, 0, 2]);
        // While packets are being dropped the two cannot be compared.
        drops.observe(traced(12), Some(&root(1, 70)), traced(14));
        assert_eq!(drops.by_kind(), [14, 0, 0, 2]);
        drops.observe(traced(15), Some(&root(1, 68)), traced(15));
        assert_eq!(drops.by_kind(), [15, 0, 0, 2], "another qdisc");
        drops.observe(traced(15), Some(&root(1, 69)), traced(15));
        assert_eq!(drops.by_kind(), [15, 0, 0, 3]);
    }

    #[test]
    fn what_was_counted_stays() {
        let mut drops = Drops::default();
        drops.observe(None, Some(&root(1, 5)), None);
        drops.observe(None, Some(&root(1, 9)), None);
        assert_eq!(drops.by_kind(), [0, 0, 0, 4]);
        drops.observe(None, Some(&root(2, 3)), None);
        drops.forget_qdisc();
        drops.observe(None, Some(&root(2, 4)), None);
        drops.observe(None, Some(&root(2, 6)), None);
        assert_eq!(drops.by_kind(), [0, 0, 0, 9]);
    }
}
