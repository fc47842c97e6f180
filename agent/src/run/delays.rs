//! Gives what is read of a link to the delay budget, ten times a second, and takes the budget once a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pendulum_model::autorate::FIRST_HOP;
use pendulum_model::delay::{
    self, BloatNews, Budget, DelayTracker, FlowRtt, HiddenWait, Limits, Place, Reading, Reply, Segment,
    SteadyPlace, TimedFlow, Transfer,
};
use pendulum_model::link::Known;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_wire::{Delay, SegmentBloat, TransferLimit};

use super::home_hosts::HomeHosts;
use super::queues::Queues;
use crate::shape::Passing;
use crate::snapshot::{FlowRow, FlowSweep};

/// Data that nobody acknowledged and nobody sent again for so long: its receiver is gone.
const UNANSWERED: Duration = Duration::from_secs(5);
/// Payload of a full segment.
const SEGMENT_BYTES: u64 = 1448;

/// The budget of one link.
#[derive(Debug)]
pub(super) struct Delays {
    tracker: DelayTracker,
    /// Since the tick before.
    waited: Vec<(Direction, Passing)>,
    place: SteadyPlace,
    own: PerDirection<OwnWait>,
    hosts: HomeHosts,
    /// Home, and beyond the line.
    bloat: [delay::SegmentBloat; 2],
    limits: Limits,
    latest: Option<Arc<Delay>>,
    budget: Option<Budget>,
}

/// A queue of this machine within the second.
#[derive(Clone, Copy, Debug, Default)]
struct OwnWait {
    /// Sum of its levels at the ticks, bytes.
    levels: f64,
    /// Sum of what left it per second, as measured at the ticks, bytes.
    rates: f64,
    ticks: u32,
}

impl OwnWait {
    fn note(&mut self, bytes: u32, bytes_per_second: f64) {
        self.levels += f64::from(bytes);
        self.rates += bytes_per_second;
        self.ticks += 1;
    }

    /// Mean wait, seconds, by Little's law.
    fn seconds(self) -> Option<f64> {
        if self.ticks == 0 {
            return None;
        }
        if self.levels == 0.0 { Some(0.0) } else { (self.rates > 0.0).then(|| self.levels / self.rates) }
    }
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            tracker: DelayTracker::default(),
            waited: Vec::new(),
            place: SteadyPlace::default(),
            own: PerDirection::default(),
            hosts: HomeHosts::default(),
            bloat: delay::SegmentBloat::both(),
            limits: Limits::default(),
            latest: None,
            budget: None,
        }
    }
}

impl Delays {
    /// A tick of a tenth of a second; `throughput`: what leaves the queues, bytes per second; `first_hop`: the number of its address, while it is asked.
    pub(super) fn tick(
        &mut self,
        at: Duration,
        queues: &Queues,
        throughput: PerDirection<f64>,
        first_hop: Option<u32>,
    ) {
        let elsewhere = queues.elsewhere.as_ref();
        self.tracker.tick(at.as_secs_f64(), elsewhere.map_or_else(PerDirection::default, |it| it.passed));
        self.waited.clear();
        for (reply, passed_ns) in elsewhere.iter().flat_map(|elsewhere| &elsewhere.replies) {
            let waits_s = self.tracker.reply(reply);
            let Reply { end, delay_s, may_be_held, .. } = *reply;
            let is_hop = first_hop == Some(end);
            // Nobody else may be there to contradict it.
            if is_hop && !self.tracker.was_met_free(end) {
                continue;
            }
            let end = if is_hop { FIRST_HOP } else { end.into() };
            if let Some(wait_s) = waits_s.up {
                let waited = Passing::Waited { end, passed_ns: *passed_ns, wait_s, may_be_held };
                self.waited.push((Direction::Up, waited));
            }
            // Others tell of the downlink by their clocks.
            if let Some(wait_s) = waits_s.down.filter(|_| is_hop) {
                let passed_ns = passed_ns.saturating_add((delay_s * 1e9) as u64);
                self.waited.push((Direction::Down, Passing::Waited { end, passed_ns, wait_s, may_be_held }));
            }
        }
        for reply in elsewhere.iter().flat_map(|elsewhere| &elsewhere.home_replies) {
            self.tracker.home_reply(&Reply { end: self.hosts.number(reply.end), ..*reply });
        }
        for x in Direction::ALL {
            match queues.own_bytes(x) {
                Some(bytes) => self.own[x].note(bytes, throughput[x]),
                // No queue on the way home: nothing waits in it.
                None if x == Direction::Down => self.own[x].note(0, 0.0),
                None => {}
            }
        }
    }

    /// A second is over and the flow table was read. What begins or ends is returned; `hidden`: levels of buffers elsewhere and their
    /// uncertainty, bytes; `threshold_s`: the least wait of a finding.
    pub(super) fn take(
        &mut self,
        at: Duration,
        flows: &FlowSweep,
        hosts: HomeHosts,
        hidden: PerDirection<Option<(f64, f64)>>,
        rates: PerDirection<Option<Known>>,
        threshold_s: f64,
    ) -> Vec<BloatNews> {
        let own = std::mem::take(&mut self.own);
        let number = |row: &FlowRow, towards: Direction| {
            let address = row.key.end_id(towards);
            towards.pick(address, hosts.number(address))
        };
        let timed = |towards: Direction| -> Vec<TimedFlow> {
            let timed = |row| timed_flow(row, number(row, towards), towards, flows.at);
            flows.rows.iter().filter_map(timed).collect()
        };
        let (home, far) = (timed(Direction::Down), timed(Direction::Up));
        let hidden = |x: Direction| {
            let (bytes, uncertainty) = hidden[x]?;
            let rate = rates[x]?.value;
            Some(HiddenWait { wait_s: bytes / rate, uncertainty_s: uncertainty / rate })
        };
        let budget = self.tracker.budget(&Reading {
            home: &home,
            far: &far,
            own_s: PerDirection::from_fn(|x| own[x].seconds()),
            hidden: PerDirection::from_fn(hidden),
            rates,
        });
        self.place.push(&budget, self.tracker.carries_little());
        let news =
            self.bloat.iter_mut().filter_map(|bloat| bloat.push(at.as_secs_f64(), &budget, threshold_s));
        let mut news: Vec<BloatNews> = news.collect();
        let transfers = flows.rows.iter().flat_map(|row| Direction::ALL.map(|x| transfer(row, x, at)));
        let transfers: Vec<Transfer> = transfers.flatten().collect();
        news.extend(self.limits.push(at.as_secs_f64(), &budget, &transfers, &rates));
        let [home_bloat, beyond_bloat] = self
            .bloat
            .each_ref()
            .map(|bloat| bloat.holds().map(|(since_s, delay_s)| SegmentBloat { since_s, delay_s }));
        let [sender_limited, receiver_limited] = self.limits.holds().map(|holds| {
            holds.map(|(since_s, goodput)| TransferLimit { since_s, goodput_bps: goodput * 8.0 })
        });
        let address = |wanted: Option<u32>, towards: Direction| {
            let wanted = wanted?;
            flows.rows.iter().find(|row| number(row, towards) == wanted).map(|row| row.key.end(towards))
        };
        let home = address(budget.home_host, Direction::Down);
        let home = home.map(|home| hosts.name(home).unwrap_or_else(|| home.to_string()));
        let far = address(budget.far_host, Direction::Up).map(|far| far.to_string());
        let mut delay = Delay {
            home_bloat,
            beyond_bloat,
            sender_limited,
            receiver_limited,
            ..Delay::of(&budget, self.place.place())
        };
        for (segment, host) in [(Segment::Home, home), (Segment::Beyond, far)] {
            delay.segments.entry(segment.name().into()).or_default().host = host;
        }
        self.hosts = hosts;
        self.latest = Some(Arc::new(delay));
        self.budget = Some(budget);
        news
    }

    /// Where the delay of the newest second came from.
    pub(super) fn latest(&self) -> Option<Arc<Delay>> {
        self.latest.clone()
    }

    /// What requests waited on the uplink, as heard since the tick before.
    pub(super) fn waited(&self) -> &[(Direction, Passing)] {
        &self.waited
    }

    /// The least that they waited there within the last second, seconds, if that is known.
    pub(super) fn least_up_s(&self) -> Option<f64> {
        self.tracker.least_up_s()
    }

    /// The most that packets waited on the line within the newest second, if that is known.
    pub(super) fn line_most_s(&self) -> Option<f64> {
        self.budget?.line_most_s()
    }

    /// Whether what waits in a direction may wait beyond the line instead.
    pub(super) fn may_be_beyond(&self, direction: Direction) -> bool {
        let is_unknown = self.place.place() == Place::Unknown;
        is_unknown && self.budget.is_some_and(|budget| budget.may_be_beyond(direction))
    }
}

/// What the flow's packets towards the end that a direction leads to took within the second; `None` if no data went there.
fn timed_flow(row: &FlowRow, end: u32, towards: Direction, swept_at: Instant) -> Option<TimedFlow> {
    let half = &row.halves[towards];
    let is_waiting = half.data_at.is_some_and(|at| swept_at.duration_since(at) < UNANSWERED);
    let unanswered = if is_waiting { u64::from(half.in_flight_bytes) } else { 0 };
    let packets = (half.fresh_bytes + unanswered).div_ceil(SEGMENT_BYTES) as u32;
    let seconds = |us: u32| f64::from(us) / 1e6;
    let rtt = half.rtt_fresh.map(|(samples, least_us)| FlowRtt {
        base_s: seconds(half.rtt_min_us),
        least_s: seconds(least_us),
        samples,
    });
    (packets > 0 || rtt.is_some()).then_some(TimedFlow { end, packets, rtt })
}

/// The flow's data in this direction within the second; `None` if there was none, or no RTT to both ends.
fn transfer(row: &FlowRow, direction: Direction, at: Duration) -> Option<Transfer> {
    let (sender, receiver) = (&row.halves[direction], &row.halves[direction.opposite()]);
    let is_timed = sender.rtt_samples > 0 && receiver.rtt_samples > 0;
    (is_timed && sender.fresh_bytes > 0).then(|| Transfer {
        direction,
        goodput: sender.goodput.into(),
        segment_bytes: sender.payload_bytes as f64 / sender.data_segments.max(1) as f64,
        backward: receiver.goodput.into(),
        window_bytes: receiver.window_bytes.map(f64::from),
        round_trip_s: f64::from(sender.rtt_min_us + receiver.rtt_min_us) / 1e6,
        silent_s: at.saturating_sub(Duration::from_nanos(sender.last_seen_ns)).as_secs_f64(),
        retransmits: sender.retransmitted_fresh > 0,
    })
}

#[cfg(test)]
mod tests {
    use pendulum_model::delay::{Budget, Delay};
    use pendulum_model::link::Provenance;

    use super::*;
    use crate::snapshot::HalfRow;

    #[test]
    fn the_wait_in_an_own_queue_is_its_level_over_what_leaves_it() {
        let mut own = OwnWait::default();
        assert_eq!(own.seconds(), None);
        own.note(0, 0.0);
        assert_eq!(own.seconds(), Some(0.0));
        own.note(30_000, 25_000.0);
        own.note(30_000, 25_000.0);
        assert!((own.seconds().expect("known") - 1.2).abs() < 1e-9);
        // It stands, and nothing leaves it.
        let mut stopped = OwnWait::default();
        stopped.note(30_000, 0.0);
        assert_eq!(stopped.seconds(), None);
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// An upload of which `in_flight` bytes are not acknowledged, and whose data was last seen `silent` ago.
    fn upload(fresh: u64, in_flight: u32, now: Instant, silent: Duration) -> FlowRow {
        let sender = HalfRow {
            fresh_bytes: fresh,
            in_flight_bytes: in_flight,
            payload_bytes: 1_448_000,
            data_segments: 1_000,
            goodput: 50_000.0,
            rtt_samples: 9,
            rtt_min_us: 20_000,
            data_at: now.checked_sub(silent),
            last_seen_ns: 7_000_000_000,
            ..HalfRow::default()
        };
        let receiver =
            HalfRow { rtt_samples: 1, rtt_min_us: 1_000, window_bytes: Some(64_000), ..HalfRow::default() };
        let key = crate::bpf::abi::pendulum_flow_key::default();
        FlowRow {
            key,
            halves: PerDirection { up: sender, down: receiver },
            changed_at: now,
            is_closed: false,
        }
    }

    /// Whatever the newest second says; this one says nothing.
    #[test]
    fn what_lasts_is_shown_with_the_delay() {
        let part = |queue_s| Ok(Delay { base_s: 0.01, queue_s, uncertainty_s: 0.005 });
        let budget = |home_s, beyond_s| Budget {
            segments: [part(home_s), part(0.0), part(0.0), part(0.0), part(beyond_s)],
            home_host: None,
            far_host: None,
            may_wait_s: 0.0,
        };
        let rate = Some(Known { value: 1e6, provenance: Provenance::Config });
        let rates = PerDirection { up: rate, down: rate };
        let now = Instant::now() + 60 * SECOND;
        // 50 kB/s for 21 ms: 1 kB on the way, in a window of 64 kB or of 1 kB.
        let sender = transfer(&upload(50_000, 0, now, SECOND), Direction::Up, 8 * SECOND).expect("data");
        let receiver = Transfer { window_bytes: Some(1_000.0), ..sender };
        let lasting = |budget: &Budget, transfers: &[Transfer]| {
            let mut delays = Delays::default();
            for second in 0..20 {
                let at_s = f64::from(second);
                delays.bloat.iter_mut().for_each(|bloat| _ = bloat.push(at_s, budget, 0.1));
                delays.limits.push(at_s, budget, transfers, &rates);
            }
            let hidden = PerDirection::default();
            let news =
                delays.take(20 * SECOND, &FlowSweep::empty(now), HomeHosts::default(), hidden, rates, 0.1);
            assert_eq!(news, []);
            let delay = delays.latest().expect("taken");
            let waits = [delay.home_bloat, delay.beyond_bloat].map(|bloat| bloat.map(|bloat| bloat.delay_s));
            let limits = [delay.sender_limited, delay.receiver_limited];
            (waits, limits.map(|limit| limit.map(|limit| limit.goodput_bps)))
        };
        assert_eq!(lasting(&budget(0.0, 0.0), &[]), ([None, None], [None, None]));
        assert_eq!(lasting(&budget(0.25, 0.0), &[]).0, [Some(0.25), None]);
        assert_eq!(lasting(&budget(0.0, 0.5), &[]).0, [None, Some(0.5)]);
        assert_eq!(lasting(&budget(0.0, 0.0), &[sender]).1, [Some(400_000.0), None]);
        assert_eq!(lasting(&budget(0.0, 0.0), &[receiver]).1, [None, Some(400_000.0)]);
    }

    /// Data that nobody acknowledges weighs as long as it may still be: with no RTT it is an end that may wait for any time.
    #[test]
    fn unanswered_data_counts_until_its_receiver_is_gone() {
        let now = Instant::now() + 60 * SECOND;
        let packets = |row: FlowRow| timed_flow(&row, 7, Direction::Up, now).map(|flow| flow.packets);
        assert_eq!(packets(upload(0, 14_480, now, SECOND)), Some(10));
        assert_eq!(packets(upload(2_896, 14_480, now, SECOND)), Some(12));
        assert_eq!(packets(upload(0, 14_480, now, 6 * SECOND)), None);
        assert!(timed_flow(&upload(0, 0, now, SECOND), 7, Direction::Down, now).is_none());
    }

    #[test]
    fn a_transfer_has_the_window_of_its_receiver_and_the_whole_round_trip() {
        let now = Instant::now() + 60 * SECOND;
        let row = upload(50_000, 0, now, SECOND);
        let found = transfer(&row, Direction::Up, 8 * SECOND).expect("data");
        assert_eq!((found.window_bytes, found.segment_bytes, found.backward), (Some(64_000.0), 1_448.0, 0.0));
        assert!((found.round_trip_s - 0.021).abs() < 1e-9 && (found.silent_s - 1.0).abs() < 1e-9);
        assert!(transfer(&row, Direction::Down, 8 * SECOND).is_none());
    }
}
