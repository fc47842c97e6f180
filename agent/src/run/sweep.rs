//! Once a second over the flow table: rates, totals, what has ended, what the kernel pushed out.
//!
//! The clock of the kernel side is never compared with ours: a flow is alive if it changed since the last sweep.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pendulum_model::segment::{Direction, PerDirection};

use crate::bpf::abi;
use crate::snapshot::{FlowRow, FlowSweep, FlowTotals, HalfRow, SILENT};

/// A flow counts as active in a direction for this long after payload was seen in it.
pub(super) const ACTIVE_WINDOW: Duration = Duration::from_secs(5);
/// A flow as the kernel side keeps it.
pub(super) type RawFlow = (abi::pendulum_flow_key, abi::pendulum_flow);

/// Follows the flow table from sweep to sweep.
#[derive(Debug)]
pub(super) struct Sweeper {
    pub(super) idle_timeout: Duration,
    /// Flows removed by the agent from the table that is in use now.
    removed: u64,
    /// Evictions from tables that are no longer in use.
    evicted_before: u64,
    latest: Arc<FlowSweep>,
}

impl Sweeper {
    /// Starts with an empty table.
    pub(super) fn new(idle_timeout: Duration, now: Instant) -> Self {
        Self { idle_timeout, removed: 0, evicted_before: 0, latest: Arc::new(FlowSweep::empty(now)) }
    }

    /// The newest sweep.
    pub(super) fn latest(&self) -> Arc<FlowSweep> {
        Arc::clone(&self.latest)
    }

    /// The table was replaced by a new, empty one.
    pub(super) fn restart(&mut self, now: Instant) {
        self.evicted_before = self.latest.evicted;
        self.removed = 0;
        self.latest = Arc::new(FlowSweep {
            evicted: self.latest.evicted,
            expired: self.latest.expired,
            ..FlowSweep::empty(now)
        });
    }

    /// Takes in the whole table; gives the flows to remove. `promoted` has to be read *before* the table: a flow that
    /// enters in between then hides an eviction for one sweep, instead of inventing one for ever.
    pub(super) fn sweep(
        &mut self,
        now: Instant,
        promoted: u64,
        table: Vec<RawFlow>,
    ) -> Vec<abi::pendulum_flow_key> {
        let present = table.len() as u64;
        let gone = promoted.saturating_sub(self.removed).saturating_sub(present);
        let evicted = self.latest.evicted.max(self.evicted_before + gone);

        let mut rows = self.rows(now, &table);
        drop(table);
        let mut ended = Vec::new();
        rows.retain(|row| {
            let keep = !self.is_over(row, now);
            if !keep {
                ended.push(row.key);
            }
            keep
        });
        self.latest = Arc::new(FlowSweep {
            at: now,
            totals: PerDirection::from_fn(|direction| totals(&rows, direction, now)),
            rows,
            evicted,
            expired: self.latest.expired,
        });
        ended
    }

    /// So many of the flows that [`Self::sweep`] had named were still in the table and are removed now.
    pub(super) fn removed(&mut self, count: usize) {
        self.removed += count as u64;
        if count > 0 {
            Arc::make_mut(&mut self.latest).expired += count as u64;
        }
    }

    /// Both lists are ordered by key: one pass finds each flow's earlier row. Only keys are moved about to sort them: a
    /// flow has ten times the size of its key.
    fn rows(&self, now: Instant, table: &[RawFlow]) -> Vec<FlowRow> {
        let mut order: Vec<_> = table.iter().map(|flow| (flow.0, flow)).collect();
        order.sort_unstable_by_key(|(key, _)| *key);
        let interval = now.duration_since(self.latest.at).as_secs_f64();
        let mut earlier = self.latest.rows.iter().peekable();
        let mut rows = Vec::with_capacity(table.len());
        for (key, (_, flow)) in order {
            while earlier.next_if(|row| row.key < key).is_some() {}
            let before = earlier.next_if(|row| row.key == key);
            rows.push(row(key, flow, before, now, interval));
        }
        rows
    }

    fn is_over(&self, row: &FlowRow, now: Instant) -> bool {
        let patience = if row.is_closed { SILENT } else { self.idle_timeout };
        now.duration_since(row.changed_at) >= patience
    }
}

fn row(
    key: abi::pendulum_flow_key,
    flow: &abi::pendulum_flow,
    before: Option<&FlowRow>,
    now: Instant,
    interval: f64,
) -> FlowRow {
    let halves = PerDirection::from_fn(|direction| {
        half(flow, direction, before.map(|row| &row.halves[direction]), now, interval)
    });
    let changed_at = match before {
        Some(row)
            if Direction::ALL.iter().all(|x| row.halves[*x].last_seen_ns == halves[*x].last_seen_ns) =>
        {
            row.changed_at
        }
        _ => now,
    };
    FlowRow { key, halves, changed_at, is_closed: flow.is_closed() }
}

fn half(
    flow: &abi::pendulum_flow,
    direction: Direction,
    before: Option<&HalfRow>,
    now: Instant,
    interval: f64,
) -> HalfRow {
    let me = flow.half(direction);
    let peer = flow.half(direction.opposite());
    // A flow that restarted counts from zero again.
    let grown = |after: u64, before: u64| if after >= before { after - before } else { after };
    let per_second = |after: u64, before: u64| {
        if interval > 0.0 { (grown(after, before) as f64 / interval) as f32 } else { 0.0 }
    };
    let payload_before = before.map_or(0, |half| half.payload_bytes);
    HalfRow {
        wire_bytes: me.wire_bytes,
        payload_bytes: me.payload_bytes,
        fresh_bytes: grown(me.payload_bytes, payload_before),
        segments: me.segments,
        data_segments: me.data_segments,
        delivered_bytes: peer.acked_bytes,
        acknowledgements: peer.advancing_acks,
        first_seen_ns: me.first_seen_ns,
        last_seen_ns: me.last_seen_ns,
        rtt_sum_us: me.rtt_sum_us,
        rtt_samples: me.rtt_samples,
        rtt_min_us: me.rtt_min_us,
        rtt_last_us: me.rtt_last_us,
        rtt_fresh: fresh_rtt(me, before),
        retransmitted_segments: me.retransmitted_segments,
        retransmitted_fresh: grown(
            me.retransmitted_segments.into(),
            before.map_or(0, |half| half.retransmitted_segments.into()),
        ) as u32,
        reordered_segments: me.reordered_segments,
        in_flight_bytes: me.outstanding(peer),
        in_flight_max_bytes: me.in_flight_max_bytes,
        window_bytes: window(me, peer),
        opened: me.has(abi::PENDULUM_HALF_SYN),
        wire_rate: per_second(me.wire_bytes, before.map_or(0, |half| half.wire_bytes)),
        goodput: per_second(peer.acked_bytes, before.map_or(0, |half| half.delivered_bytes)),
        data_at: if me.payload_bytes == payload_before {
            before.and_then(|half| half.data_at)
        } else {
            Some(now)
        },
    }
}

/// The window that an end advertised last: it is scaled if both SYNs offered that (RFC 7323 §2.2).
fn window(me: &abi::pendulum_half, peer: &abi::pendulum_half) -> Option<u32> {
    let both = |flag| me.has(flag) && peer.has(flag);
    let shift = if both(abi::PENDULUM_HALF_WSCALE) { me.wscale } else { 0 };
    let is_known = both(abi::PENDULUM_HALF_SYN) && me.has(abi::PENDULUM_HALF_WINDOW);
    is_known.then(|| u32::from(me.window_raw) << shift.min(14))
}

/// RTT samples since the sweep before, and the least that is known of them: their mean, or the newest.
fn fresh_rtt(me: &abi::pendulum_half, before: Option<&HalfRow>) -> Option<(u32, u32)> {
    let (samples, sum_us) = before.map_or((0, 0), |half| (half.rtt_samples, half.rtt_sum_us));
    // A flow that restarted counts from zero again.
    let is_same = me.rtt_samples >= samples && me.rtt_sum_us >= sum_us;
    let (samples, sum_us) = if is_same { (samples, sum_us) } else { (0, 0) };
    let count = me.rtt_samples - samples;
    let mean_us = (me.rtt_sum_us - sum_us).checked_div(count.into())?;
    Some((count, mean_us.min(me.rtt_last_us.into()) as u32))
}

fn totals(rows: &[FlowRow], direction: Direction, now: Instant) -> FlowTotals {
    let mut totals = FlowTotals::default();
    for row in rows {
        let half = &row.halves[direction];
        if now.duration_since(row.changed_at) < SILENT {
            totals.in_flight_bytes += u64::from(half.in_flight_bytes);
        }
        if half.data_at.is_some_and(|at| now.duration_since(at) < ACTIVE_WINDOW) {
            totals.active += 1;
        }
        totals.goodput += f64::from(half.goodput);
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(port: u16) -> abi::pendulum_flow_key {
        abi::pendulum_flow_key { home_port: port.to_be(), ..Default::default() }
    }

    /// The home end has sent `bytes`, of which the remote end has acknowledged all but `in_flight`.
    fn flow(bytes: u32, in_flight: u32, seen_ns: u64) -> abi::pendulum_flow {
        let mut flow = abi::pendulum_flow::default();
        let [up, down] = &mut flow.halves;
        up.flags = (abi::PENDULUM_HALF_SEQ | abi::PENDULUM_HALF_ACK) as u16;
        down.flags = up.flags;
        up.seq_next = bytes;
        up.payload_bytes = u64::from(bytes);
        up.wire_bytes = u64::from(bytes) + 66;
        up.data_segments = u64::from(bytes / 1000);
        up.last_seen_ns = seen_ns;
        down.ack_highest = bytes - in_flight;
        down.acked_bytes = u64::from(bytes - in_flight);
        down.advancing_acks = u64::from(bytes / 2000);
        flow
    }

    fn sweeper() -> (Sweeper, Instant) {
        let start = Instant::now();
        (Sweeper::new(Duration::from_secs(60), start), start)
    }

    #[test]
    fn rates_come_from_two_sweeps() {
        let (mut sweeper, start) = sweeper();
        sweeper.sweep(start + SECOND, 2, vec![(key(2), flow(9_000, 0, 1)), (key(1), flow(1_000, 0, 1))]);
        sweeper.sweep(
            start + 3 * SECOND,
            2,
            vec![(key(1), flow(5_000, 1_000, 2)), (key(2), flow(9_000, 0, 1))],
        );
        let sweep = sweeper.latest();
        let [first, second] = sweep.rows.as_slice() else { panic!("two rows") };
        assert_eq!((first.key.home().port(), second.key.home().port()), (1, 2));
        let up = &first.halves.up;
        assert_eq!((up.wire_rate, up.goodput, up.in_flight_bytes), (2_000.0, 1_500.0, 1_000));
        assert_eq!(up.segments_per_ack(), Some(2.0));
        assert_eq!(second.halves.up.wire_rate, 0.0);
        let totals = sweep.totals.up;
        assert_eq!((totals.in_flight_bytes, totals.active, totals.goodput), (1_000, 2, 1_500.0));
        assert_eq!(sweep.totals.down, FlowTotals::default());
    }

    #[test]
    fn a_restarted_flow_counts_from_zero() {
        let (mut sweeper, start) = sweeper();
        sweeper.sweep(start + SECOND, 1, vec![(key(1), flow(9_000, 0, 1))]);
        sweeper.sweep(start + 2 * SECOND, 1, vec![(key(1), flow(2_000, 0, 2))]);
        assert_eq!(sweeper.latest().rows[0].halves.up.goodput, 2_000.0);
    }

    #[test]
    fn round_trips_of_the_last_second_are_distinguished_from_those_before() {
        let (mut sweeper, start) = sweeper();
        let mut timed = flow(1_000, 0, 1);
        let mut fresh = |second, (samples, sum_us, last_us)| {
            let down = &mut timed.halves[1];
            (down.rtt_samples, down.rtt_sum_us, down.rtt_last_us) = (samples, sum_us, last_us);
            sweeper.sweep(start + second * SECOND, 1, vec![(key(1), timed)]);
            sweeper.latest().rows[0].halves.down.rtt_fresh
        };
        assert_eq!(fresh(1, (10, 10_000, 900)), Some((10, 900)));
        assert_eq!(fresh(2, (10, 10_000, 900)), None);
        assert_eq!(fresh(3, (14, 26_000, 7_000)), Some((4, 4_000)));
        assert_eq!(fresh(4, (1, 500, 500)), Some((1, 500)));
        // It restarted, and either figure has grown beyond the one before.
        assert_eq!(fresh(5, (2, 200, 150)), Some((2, 100)));
        assert_eq!(fresh(6, (1, 300, 300)), Some((1, 300)));
    }

    #[test]
    fn a_window_is_scaled_if_both_ends_offered_it_and_unknown_without_their_syns() {
        let half = |flags: u32| abi::pendulum_half {
            flags: (flags | abi::PENDULUM_HALF_WINDOW) as u16,
            window_raw: 500,
            wscale: 7,
            ..Default::default()
        };
        let plain = half(abi::PENDULUM_HALF_SYN);
        let scaled = half(abi::PENDULUM_HALF_SYN | abi::PENDULUM_HALF_WSCALE);
        assert_eq!(window(&scaled, &scaled), Some(64_000));
        assert_eq!(window(&scaled, &plain), Some(500));
        assert_eq!(window(&half(0), &scaled), None);
    }

    #[test]
    fn idle_and_ended_flows_are_removed_in_time() {
        let (mut sweeper, start) = sweeper();
        let mut ended = flow(1_000, 0, 1);
        ended.halves[1].flags |= abi::PENDULUM_HALF_RST as u16;
        let mut half_closed = flow(1_000, 0, 1);
        half_closed.halves[0].flags |= abi::PENDULUM_HALF_FIN as u16;
        let table = vec![(key(1), ended), (key(2), half_closed), (key(3), flow(1_000, 0, 1))];
        assert!(sweeper.sweep(start, 3, table.clone()).is_empty());
        assert!(sweeper.sweep(start + 9 * SECOND, 3, table.clone()).is_empty());
        let ports = |keys: Vec<abi::pendulum_flow_key>| {
            keys.iter().map(|key| u16::from_be(key.home_port)).collect::<Vec<_>>()
        };
        assert_eq!(ports(sweeper.sweep(start + 10 * SECOND, 3, table.clone())), [1]);
        sweeper.removed(1);
        let table = vec![table[1], (key(3), flow(2_000, 0, 2))];
        assert_eq!(ports(sweeper.sweep(start + 60 * SECOND, 3, table)), [2]);
        sweeper.removed(1);
        let sweep = sweeper.latest();
        assert_eq!((sweep.expired, sweep.evicted, sweep.rows.len()), (2, 0, 1));
    }

    #[test]
    fn what_is_neither_present_nor_removed_was_evicted() {
        let (mut sweeper, start) = sweeper();
        sweeper.sweep(start, 5, vec![(key(1), flow(1_000, 0, 1)), (key(2), flow(1_000, 0, 1))]);
        assert_eq!(sweeper.latest().evicted, 3);
        // A flow that entered between the two readings.
        sweeper.sweep(start, 5, (1..=3).map(|port| (key(port), flow(1_000, 0, 1))).collect());
        assert_eq!(sweeper.latest().evicted, 3);
        sweeper.restart(start);
        assert_eq!(sweeper.latest().evicted, 3);
        sweeper.sweep(start, 2, vec![(key(1), flow(1_000, 0, 1))]);
        assert_eq!(sweeper.latest().evicted, 4);
    }

    #[test]
    fn silent_flows_are_not_in_flight_for_ever() {
        let (mut sweeper, start) = sweeper();
        for (second, expected) in [(0, 700), (9, 700), (10, 0)] {
            sweeper.sweep(start + second * SECOND, 1, vec![(key(1), flow(1_000, 700, 1))]);
            assert_eq!(sweeper.latest().totals.up.in_flight_bytes, expected, "after {second} s");
        }
    }
}
