//! What the uplink has carried. The programs count a packet before the uplink's buffer: while that fills, more is counted than
//! the link can carry. Where the queue is observed, what left it follows from that.

/// The uplink's queue at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// By its tracepoints. Totals since the programs were loaded.
    Traced {
        /// The qdisc: its address in the kernel.
        qdisc: u64,
        /// Its newest event, monotonic.
        last_ns: u64,
        /// Bytes that wait.
        level: u32,
        /// Bytes that have left by the newest event. Packets that find an empty queue may go around it without one.
        left: u64,
        /// Bytes that were dropped.
        dropped: u64,
    },
    /// By its own statistics.
    Netlink {
        /// Its handle, and the device's ifindex.
        qdisc: (u32, u32),
        /// Bytes that it has sent, those that went around it included.
        sent: u64,
    },
}

/// Bytes behind the buffer, from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Outflow {
    /// What was counted in front of the buffer, and the queue, at the look before.
    before: Option<(u64, Option<Look>)>,
    /// Since the start. What is read at two moments may disagree by a packet, so that it can fall by one.
    carried: i64,
}

impl Outflow {
    /// Takes in what was counted until now in front of the buffer, and what is known of the queue at the same time. Answers the bytes
    /// that have left since the start.
    pub(super) fn observe(&mut self, counted: u64, mut look: Option<Look>) -> i64 {
        if let Some((counted_before, before)) = self.before {
            let came = counted.saturating_sub(counted_before).cast_signed();
            self.carried += match &mut look {
                Some(now) => left_between(before.as_ref(), now, came),
                None => came,
            };
        }
        self.before = Some((counted, look));
        self.carried
    }
}

/// Bytes that left between two looks while `came` bytes were counted.
fn left_between(before: Option<&Look>, now: &mut Look, came: i64) -> i64 {
    match (before, now) {
        (Some(Look::Netlink { qdisc, sent }), Look::Netlink { qdisc: same, sent: now })
            if qdisc == same && *now >= *sent =>
        {
            (*now - sent).cast_signed()
        }
        (
            Some(Look::Traced { qdisc, last_ns, level: stood, left, dropped }),
            Look::Traced { qdisc: same, last_ns: newest, level, left: left_now, dropped: dropped_now },
        ) if qdisc == same => {
            if last_ns == newest {
                if came > 0 {
                    // It went around the queue, which was empty then whatever was last reported of it.
                    *level = 0;
                }
                came
            } else if *stood > 0 && *level > 0 {
                // Nothing goes around a queue that stands: at both looks its account was complete.
                left_now.wrapping_sub(*left).cast_signed()
            } else {
                came - (i64::from(*level) - i64::from(*stood))
                    - dropped_now.wrapping_sub(*dropped).cast_signed()
            }
        }
        // A queue that is met for the first time, at its first packet: what stands in it has not left.
        (_, Look::Traced { level, .. }) => (came - i64::from(*level)).max(0),
        (_, Look::Netlink { .. }) => came,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(last_ns: u64, level: u32, left: u64, dropped: u64) -> Option<Look> {
        Some(Look::Traced { qdisc: 1, last_ns, level, left, dropped })
    }

    #[test]
    fn a_buffer_that_fills_and_overflows_is_not_taken_for_a_faster_link() {
        let mut outflow = Outflow::default();
        assert_eq!(outflow.observe(0, traced(1, 0, 0, 0)), 0);
        // Filling from empty, standing, dropping, draining: always 2,500 bytes.
        for (tick, (counted, look)) in [
            (22_500, traced(2, 20_000, 2_500, 0)),
            (35_000, traced(3, 30_000, 5_000, 0)),
            (137_500, traced(4, 30_000, 7_500, 100_000)),
            (137_500, traced(5, 27_500, 10_000, 100_000)),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(outflow.observe(counted, look), 2_500 * (tick as i64 + 1), "tick {tick}");
        }
        // Empty at the end: what was dropped meanwhile never left.
        assert_eq!(outflow.observe(140_500, traced(6, 0, 38_500, 102_000)), 10_000 + 28_500);
    }

    #[test]
    fn what_goes_around_an_empty_queue_counts_once() {
        let mut outflow = Outflow::default();
        outflow.observe(0, traced(1, 0, 0, 0));
        // No event tells of them …
        assert_eq!(outflow.observe(9_000, traced(1, 0, 0, 0)), 9_000);
        // … until the next one takes over what the qdisc says.
        assert_eq!(outflow.observe(12_000, traced(2, 1_000, 11_000, 0)), 11_000);
        assert_eq!(outflow.observe(12_000, traced(3, 500, 11_500, 0)), 11_500);
        // Nothing came: it stands as it stood.
        assert_eq!(outflow.observe(12_000, traced(3, 500, 11_500, 0)), 11_500);
        assert_eq!(outflow.observe(12_000, traced(4, 400, 11_600, 0)), 11_600);
        // A level that nothing reported as gone: the device was down for a moment.
        assert_eq!(outflow.observe(15_000, traced(4, 400, 11_600, 0)), 14_600);
        assert_eq!(outflow.observe(18_000, traced(5, 600, 17_000, 0)), 14_600 + 2_400);
        // It drains, and then more goes around it.
        assert_eq!(outflow.observe(20_000, traced(6, 0, 17_600, 0)), 17_000 + 2_600);
    }

    #[test]
    fn statistics_are_taken_at_their_word_and_another_queue_begins_anew() {
        let netlink = |handle, sent| Some(Look::Netlink { qdisc: (handle, 7), sent });
        let mut outflow = Outflow::default();
        outflow.observe(1_000, netlink(1, 500));
        assert_eq!(outflow.observe(9_000, netlink(1, 3_000)), 2_500);
        assert_eq!(outflow.observe(10_000, netlink(2, 100)), 3_500);
        assert_eq!(outflow.observe(11_000, None), 4_500);
        assert_eq!(outflow.observe(12_000, traced(1, 400, 0, 0)), 5_100);
        let other = Look::Traced { qdisc: 2, last_ns: 9, level: 700, left: 900, dropped: 0 };
        assert_eq!(outflow.observe(13_000, Some(other)), 5_400);
        // It stood before anybody looked.
        let third = Look::Traced { qdisc: 3, last_ns: 12, level: 9_000, left: 900, dropped: 0 };
        assert_eq!(outflow.observe(13_500, Some(third)), 5_400);
    }
}
