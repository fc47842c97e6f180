//! The provider's buffer, live: reads what comes in and keeps the estimate.

use pendulum_model::segment::PerDirection;

use super::super::downlink::{OwnQueue, ProviderQueue};
use super::tracked::Tracked;
use crate::bpf::{self, ArrivalReader, Departures, QueueMethod};
use crate::snapshot::QueueSnapshot;

/// Nothing was read for this long: what was known of the buffer is gone.
const GAP_NS: u64 = 3_000_000_000;

/// The estimate and what it is made from.
pub(super) struct Provider {
    arrivals: ArrivalReader,
    own: OwnQueue,
    queue: Option<ProviderQueue>,
    read_ns: u64,
    snapshot: Option<QueueSnapshot>,
}

impl Provider {
    /// From now on; `departures` if the uplink's queue is traced.
    pub(super) fn new(arrivals: ArrivalReader, departures: Option<Departures>) -> Self {
        Self {
            arrivals,
            own: OwnQueue::new(departures),
            queue: None,
            read_ns: bpf::monotonic_ns(),
            snapshot: None,
        }
    }

    /// The estimate; none without a rate.
    pub(super) fn queue(&self) -> Option<&ProviderQueue> {
        self.queue.as_ref()
    }

    /// What readers see of it.
    pub(super) fn snapshot(&self) -> Option<&QueueSnapshot> {
        self.snapshot.as_ref()
    }

    /// Ten times a second, after the uplink's queue was read: no system call. Rates in bytes per second.
    pub(super) fn tick(&mut self, up: &Tracked, method: QueueMethod, rates: PerDirection<Option<f64>>) {
        let now_ns = bpf::monotonic_ns();
        let was_read_ns = std::mem::replace(&mut self.read_ns, now_ns);
        match method {
            QueueMethod::Tracepoint => up.fresh().iter().for_each(|interval| self.own.push(interval)),
            QueueMethod::Netlink => self.own.push_level(now_ns, up.snapshot().bytes),
        }
        self.own.set_rate(rates.up);
        let Some(rate) = rates.down.filter(|rate| *rate > 0.0) else {
            (self.queue, self.snapshot) = (None, None);
            self.arrivals.read(now_ns, |_| {});
            return;
        };
        if now_ns.saturating_sub(was_read_ns) > GAP_NS {
            self.queue = None;
        }
        // Behind a shaper of our own a question's time on the uplink is part of its time in the queue.
        let is_shaped = method == QueueMethod::Tracepoint && up.snapshot().rate.is_some();
        let uplink_rate = rates.up.filter(|_| !is_shaped);
        let queue = self.queue.get_or_insert_with(|| ProviderQueue::new(was_read_ns, rate, uplink_rate));
        queue.set_rates(rate, uplink_rate);
        let known_to = queue.known_to();
        let read_to_ns = self.arrivals.read(now_ns, |arrival| {
            let own_ns = arrival.answer.and_then(|answer| self.own.sojourn_ns(&answer));
            queue.push(&arrival, own_ns);
        });
        queue.settle(read_to_ns);
        let newest = queue.sample(queue.known_to());
        self.snapshot = newest.map(|newest| {
            let fresh = (known_to..queue.known_to()).filter_map(|number| queue.sample(number));
            let (lowest, peak) = fresh
                .fold((newest.min_bytes, newest.max_bytes), |(lowest, peak), bucket| {
                    (lowest.min(bucket.min_bytes), peak.max(bucket.max_bytes))
                });
            let whole = |bytes: f64| bytes.round() as u32;
            QueueSnapshot {
                source: "estimate",
                bytes: whole(newest.mean_bytes),
                peak_bytes: whole(peak),
                lowest_bytes: whole(lowest),
                trust: Some(queue.trust()),
                ..QueueSnapshot::default()
            }
        });
    }
}
