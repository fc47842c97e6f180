//! Gives what is read of a link to the delay budget, ten times a second, and takes the budget once a second.

use std::collections::BTreeMap;
use std::time::Duration;

use pendulum_model::delay::{
    BloatNews, Budget, DelayTracker, HiddenWait, Place, Reading, Segment, SegmentBloat, SteadyPlace,
    TimedFlow, Unknown,
};
use pendulum_model::link::Known;
use pendulum_model::segment::{Direction, PerDirection};

use super::queues::Queues;
use crate::bpf::Answered;
use crate::snapshot::{DelaySnapshot, FlowRow, FlowSweep};

/// So many seconds without a reply do not change the place.
const SILENT_SECONDS: u32 = 3;

/// The budget of one link.
#[derive(Debug)]
pub(super) struct Delays {
    tracker: DelayTracker,
    place: SteadyPlace,
    silent_seconds: u32,
    own: PerDirection<OwnWait>,
    /// Home, and beyond the line.
    bloat: [SegmentBloat; 2],
    /// Of what is no TCP, by host, within the second.
    home: BTreeMap<u32, TimedFlow>,
    latest: Option<DelaySnapshot>,
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
            place: SteadyPlace::default(),
            silent_seconds: 0,
            own: PerDirection::default(),
            bloat: SegmentBloat::both(),
            home: BTreeMap::new(),
            latest: None,
        }
    }
}

impl Delays {
    /// A tick of a tenth of a second; `throughput`: what leaves the queues, bytes per second.
    pub(super) fn tick(&mut self, at: Duration, queues: &Queues, throughput: [f64; 2]) {
        let (replies, passed) = queues.replies();
        self.tracker.tick(at.as_secs_f64(), passed);
        replies.iter().for_each(|reply| self.tracker.reply(reply));
        queues.home_replies().iter().for_each(|reply| self.home_reply(reply));
        for x in Direction::ALL {
            match queues.own_bytes(x) {
                Some(bytes) => self.own[x].note(bytes, throughput[x as usize]),
                // No queue on the way home: nothing waits in it.
                None if x == Direction::Down => self.own[x].note(0, 0.0),
                None => {}
            }
        }
    }

    /// A second is over and the flow table was read. What begins or ends is returned; `threshold_s`: the least wait of a finding.
    pub(super) fn take(
        &mut self,
        at: Duration,
        flows: &FlowSweep,
        queues: &Queues,
        rates: PerDirection<Option<Known>>,
        threshold_s: f64,
    ) -> Vec<BloatNews> {
        let own = std::mem::take(&mut self.own);
        let timed = |towards: Direction| -> Vec<TimedFlow> {
            flows.rows.iter().filter_map(|row| timed_flow(row, towards)).collect()
        };
        let (mut home, far) = (timed(Direction::Down), timed(Direction::Up));
        home.extend(std::mem::take(&mut self.home).into_values());
        let hidden = |x: Direction| {
            let (bytes, uncertainty) = queues.hidden_bytes(x)?;
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
        self.note_place(&budget);
        let news =
            self.bloat.iter_mut().filter_map(|bloat| bloat.push(at.as_secs_f64(), &budget, threshold_s));
        let news = news.collect();
        let findings = self.bloat.each_ref().map(|bloat| (bloat.finding(), bloat.holds()));
        self.latest = Some(DelaySnapshot { budget, place: self.place.place(), findings });
        news
    }

    /// A second without a reply says nothing of the line: what was said of it stays for a moment. Connections that open come seconds apart.
    fn note_place(&mut self, budget: &Budget) {
        let place = budget.place();
        let is_silent = place == Place::Unknown && budget.part(Segment::Uplink) == Err(Unknown::NoReplies);
        self.silent_seconds = if is_silent { self.silent_seconds + 1 } else { 0 };
        if self.silent_seconds == 0 || self.silent_seconds > SILENT_SECONDS {
            self.place.push(place);
        }
    }

    /// A host at home replied to a request that is no TCP.
    fn home_reply(&mut self, reply: &Answered) {
        // It may have asked others first, beyond the line.
        if reply.is_relayed {
            return;
        }
        let delay_s = reply.at_ns.saturating_sub(reply.asked_ns) as f64 / 1e9;
        let fresh = TimedFlow { host: reply.end.into(), base_s: delay_s, least_s: delay_s, samples: 0 };
        let host = self.home.entry(reply.end).or_insert(fresh);
        host.base_s = host.base_s.min(delay_s);
        host.least_s = host.base_s;
        host.samples += 1;
    }

    /// The newest budget.
    pub(super) fn latest(&self) -> Option<DelaySnapshot> {
        self.latest
    }
}

/// What the flow's packets towards the end that a direction leads to took within the second.
fn timed_flow(row: &FlowRow, towards: Direction) -> Option<TimedFlow> {
    let half = &row.halves[towards as usize];
    let (samples, least_us) = half.rtt_fresh?;
    let seconds = |us: u32| f64::from(us) / 1e6;
    Some(TimedFlow {
        host: row.key.end_id(towards),
        base_s: seconds(half.rtt_min_us),
        least_s: seconds(least_us),
        samples,
    })
}

#[cfg(test)]
mod tests {
    use pendulum_model::delay::Delay;

    use super::*;

    /// A reply each third second, or each sixth: the uplink's wait, or silence.
    #[test]
    fn a_place_outlasts_seconds_without_a_reply_but_not_many() {
        let place = |each: u32| {
            let mut delays = Delays::default();
            let free = Ok(Delay { base_s: 0.0, queue_s: 0.0, uncertainty_s: 0.01 });
            let waits = Ok(Delay { base_s: 0.0, queue_s: 1.2, uncertainty_s: 0.01 });
            let silent = Err(Unknown::NoReplies);
            for second in 0..30 {
                let [line, other] = if second % each == 0 { [waits, free] } else { [silent, silent] };
                delays.note_place(&Budget { segments: [silent, free, line, other, other] });
            }
            delays.place.place()
        };
        assert_eq!(
            [place(1), place(3), place(6)],
            [Place::In(Segment::Uplink), Place::In(Segment::Uplink), Place::Unknown]
        );
    }

    #[test]
    fn the_least_of_a_hosts_replies_counts_and_a_relayed_one_does_not() {
        let mut delays = Delays::default();
        let reply = |end, delay_ns: u64, is_relayed| Answered {
            end,
            at_ns: 1_000_000_000 + delay_ns,
            asked_ns: 1_000_000_000,
            asked_by_ack: false,
            may_be_held: is_relayed,
            is_relayed,
            question_bytes: 1_200,
            answer_bytes: 1_200,
        };
        for (end, delay_ns, is_relayed) in
            [(1, 9_000_000, false), (1, 4_000_000, false), (1, 1_000_000, true), (2, 2_000_000, true)]
        {
            delays.home_reply(&reply(end, delay_ns, is_relayed));
        }
        let hosts: Vec<_> =
            delays.home.values().map(|flow| (flow.host, flow.least_s, flow.samples)).collect();
        assert_eq!(hosts, [(1, 0.004, 2)]);
    }

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
}
