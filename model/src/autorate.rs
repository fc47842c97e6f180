//! The rate of a shaper without a configured rate and without a probe packet: from the queue that stands behind it.
//!
//! One [`Controller`] for each direction. It hears what passes, how long that waited in the buffer that is not ours (the uplink's in a modem,
//! the downlink's at the provider), and what is queued on the gateway. Time is an argument, on a clock that never steps. Each tenth of a second:
//!
//! 1. **A queue stands behind**: what leaves that buffer is the link's rate. It is believed if two hosts agree, or if most of what passes waits.
//! 2. **It lowers the rate** only if the rate was used up within the last second, or two hosts agree; by no more than the growth of the wait
//!    explains; and not below a share of the highest rate of the last hour.
//! 3. **No queue stands behind and ours does**: the rate is raised by a tenth, then in growing steps, up to a fifth above what just passed.
//! 4. **The shaper's rate** is the link's, less or more as the queue behind is longer or shorter than the [`Priority`] wants.
//! 5. **Replies stay away**: an outage. Little is sent until one comes, for three seconds at most.
//!
//! All figures are in `rules` and [`crate::constants`].

mod bounds;
mod decision;
mod outage;
mod own;
mod rtt_samples;
mod rules;
mod service;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::constants::{BLIND, FADED, HALF, HELD_BACK_S, LITTLE, NEARLY_ALL, NO_QUEUE_S, RECENT, SLIGHT};
use crate::segment::{Direction, FULL_FRAME_BYTES};
pub use bounds::Bounds;
pub use decision::Decision;
use outage::Outage;
pub use own::Own;
pub use rtt_samples::FIRST_HOP;
use rtt_samples::{HeardHosts, RttSamples};
pub use rules::Priority;
use rules::RULES;
use service::Service;

/// Finds the rate of one direction.
#[derive(Debug)]
pub struct Controller {
    direction: Direction,
    priority: Priority,
    bounds: Bounds,
    rate: f64,
    known: Option<TriedRate>,
    /// One host alone measured it, and may be behind a bottleneck of its own.
    is_doubtful: bool,
    /// The highest rate that was found, for a second at least, of the last hour; and the most that passed lately. Bytes per second.
    proven: f64,
    peak: f64,
    passage: Service,
    hosts: HeardHosts,
    outage: Outage,
    /// The newest wait behind, when it was heard of, and whether it is believed.
    wait: Option<(f64, f64)>,
    is_trusted: bool,
    /// Which part of what passes waits that long.
    share: f64,
    /// Waits of the last second, and when.
    waits: VecDeque<(f64, f64)>,
    /// What waits behind that is no queue: a longer route.
    offset: f64,
    /// A wait that ought to drain.
    stays: Option<Stay>,
    /// When it was decided last, and what had passed then.
    decided: Option<(f64, f64)>,
    /// Of the newest decisions: seconds, bytes that might have passed, that did, that show waits, and of QUIC that spins.
    usage: VecDeque<[f64; 5]>,
    used_at: f64,
    changed: f64,
    raises: i32,
    /// The last raise as a factor.
    raised: f64,
    grounds: Grounds,
    /// When somebody else than the first hop was believed last, and whether it is to be asked.
    told_at: f64,
    need: Need,
    first_ns: Option<u64>,
}

/// What the link carries, bytes per second.
#[derive(Clone, Copy, Debug)]
struct TriedRate {
    /// As the shaper takes it: with what is only tried.
    tried: f64,
    /// As a queue behind showed it, or as it passed.
    found: f64,
}

impl TriedRate {
    const fn found(rate: f64) -> Self {
        Self { tried: rate, found: rate }
    }
}

/// Who is needed to tell how long packets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Nothing passes.
    Nobody,
    /// Hosts that packets come from tell it, or hardly anything passes.
    Others,
    /// They have not told for a second.
    FirstHop,
}

/// A wait: when it was met last and what had passed then, how long it was first, and the link's rate as known then.
#[derive(Clone, Copy, Debug)]
struct Stay {
    passed: f64,
    sum: f64,
    wait: f64,
    known: TriedRate,
    /// What would have drained since, seconds.
    spare: f64,
}

/// What a decision is based on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Grounds {
    decision: Decision,
    wait: Option<f64>,
    hosts: usize,
    is_of_hop: bool,
    share: f64,
    lost: f64,
}

impl Controller {
    /// A controller that knows nothing; `start`: bytes per second to begin with. What is no number, or out of bounds, is corrected.
    pub fn new(direction: Direction, bounds: Bounds, start: f64) -> Self {
        let mut controller = Self {
            direction,
            priority: Priority::default(),
            bounds: bounds.sane(),
            rate: start,
            known: None,
            is_doubtful: false,
            proven: 0.0,
            peak: 0.0,
            passage: Service::default(),
            hosts: HeardHosts::default(),
            outage: Outage::default(),
            wait: None,
            is_trusted: false,
            share: 0.0,
            waits: VecDeque::new(),
            offset: 0.0,
            stays: None,
            decided: None,
            usage: VecDeque::new(),
            used_at: f64::MIN,
            changed: 0.0,
            raises: 0,
            raised: 1.0 + SLIGHT,
            grounds: Grounds::default(),
            told_at: f64::MIN,
            need: Need::Nobody,
            first_ns: None,
        };
        controller.set(start);
        controller
    }

    /// The link's rate is known, bytes per second.
    #[must_use]
    pub fn with_rate(mut self, rate: f64) -> Self {
        (self.known, self.proven) = (Some(TriedRate::found(rate)), rate);
        self.set(rate);
        self
    }

    /// Another balance of use and delay.
    #[must_use]
    pub fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Bytes per second to be sent, or let in.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The link's rate, bytes per second, as measured while a queue stood behind, or as it passed without one: not what is only tried.
    pub fn capacity(&self) -> Option<f64> {
        self.known.map(|known| known.tried.min(known.found))
    }

    /// The same with what is tried.
    fn tried(&self) -> Option<f64> {
        self.known.map(|known| known.tried)
    }

    /// How long packets wait behind, seconds, as the newest replies say.
    pub fn wait(&self) -> Option<f64> {
        self.wait.map(|(wait, _)| wait)
    }

    /// Whether the first hop is to be asked how long packets wait. It is [`FIRST_HOP`].
    pub fn need(&self) -> Need {
        self.need
    }

    /// Why the last decision was taken, in words.
    pub fn reason(&self) -> String {
        self.grounds.to_string()
    }

    fn seconds(&mut self, at_ns: u64) -> f64 {
        let first = *self.first_ns.get_or_insert(at_ns);
        // What was sent before the beginning counts as of then.
        at_ns.saturating_sub(first) as f64 / 1e9
    }

    /// Bytes leave our queue for the link, or come out of the link.
    pub fn pass(&mut self, at_ns: u64, bytes: u32) {
        let at = self.seconds(at_ns);
        self.passage.pass(at, f64::from(bytes));
    }

    /// What passed at `passed_ns` waited for `wait` seconds in the buffer that is not ours, so `host` says: behind us (uplink), or
    /// before it came (downlink). `may_be_held`: it is the ACK of a single segment, which a receiver may hold back.
    pub fn waited(&mut self, host: u64, passed_ns: u64, wait: f64, may_be_held: bool) {
        let wait = if may_be_held && wait >= HELD_BACK_S { wait - HELD_BACK_S } else { wait };
        if !wait.is_finite() || self.first_ns.is_none_or(|first| passed_ns < first) {
            return;
        }
        // A route that has become shorter again shows at once.
        self.offset = self.offset.min(wait.max(0.0));
        let (passed, wait) = (self.seconds(passed_ns), (wait - self.offset).max(0.0));
        let (sum, bytes) = self.passage.at(passed);
        self.hosts.add(host, wait, passed, bytes);
        match self.direction {
            Direction::Up => self.passage.serve(passed, passed + wait, sum),
            Direction::Down => self.passage.serve(passed - wait, passed, sum),
        }
    }

    /// Decides, up to ten times a second.
    pub fn decide(&mut self, now_ns: u64, own: Own) -> Decision {
        let now = self.seconds(now_ns);
        let (sum, _) = self.passage.at(now);
        let Some((before, sum_before)) = self.decided else {
            self.decided = Some((now, sum));
            return Decision::Hold;
        };
        if now <= before {
            return Decision::Hold;
        }
        self.decided = Some((now, sum));
        let known = self.tried();
        let raises = self.raises;
        let is_out = self.step(now, now - before, sum - sum_before, own);
        let (capacity, lowest) = (self.tried().unwrap_or(0.0), RULES.above.recip());
        let decision = match known {
            _ if is_out => Decision::Outage,
            _ if self.known.is_none() => Decision::Hold,
            _ if self.raises > raises => Decision::Raise,
            _ if self.rate < lowest * capacity => Decision::Drain,
            Some(known) if capacity >= known => Decision::Hold,
            _ => Decision::Lower,
        };
        let (wait, share) = (self.wait(), self.share);
        self.grounds = Grounds { decision, wait, share, ..self.grounds };
        decision
    }

    /// Takes in what happened since the decision before, and sets the rate. Returns whether there is an outage.
    fn step(&mut self, now: f64, span: f64, passed: f64, own: Own) -> bool {
        self.proven *= (1.0 - span / FADED.as_secs_f64()).max(0.0);
        let found = self.known.map_or(0.0, |known| known.found);
        self.proven += (found - self.proven).max(0.0) * (span / BLIND.as_secs_f64()).min(1.0);
        self.peak *= (1.0 - span / RECENT.as_secs_f64()).max(0.0);
        self.outage.sent(now - span, now, own.asked);
        let heard = self.hosts.take();
        let (passing, used) = self.note(span, passed, heard, own);
        let is_used = used >= NEARLY_ALL && own.bytes > NO_QUEUE_S * self.rate;
        if is_used {
            self.used_at = now;
        }
        (self.grounds.hosts, self.grounds.lost) = (heard.map_or(0, |it| it.agreeing), own.lost);
        self.grounds.is_of_hop = heard.map_or(self.grounds.is_of_hop, |it| it.is_of_hop);
        if heard.is_some() {
            self.outage.answered(self.passage.newest().map_or(0.0, |(_, left)| now - left));
        } else if !own.replied
            && self.share >= HALF
            && self.passage.newest().is_some_and(|(at, left)| self.outage.is_on(now, at, left, FULL_FRAME_BYTES / self.rate))
            // Where nothing was measured, the shaper goes back to what passes, if it limits that.
            && let Some(known) = self.known.or(is_used.then_some(TriedRate::found(passing)))
        {
            self.known = Some(known);
            self.raises = 0;
            self.set(self.least(known.tried));
            return true;
        }
        let scale = self.tried().unwrap_or(passing).max(passing).max(self.bounds.least);
        let least = NO_QUEUE_S + FULL_FRAME_BYTES / scale;
        let believed = heard.and_then(|heard| self.believe(now, heard, least, passing));
        if believed.is_some_and(|heard| !heard.is_of_hop) {
            self.told_at = now;
        }
        self.need = match passing {
            0.0 => Need::Nobody,
            LITTLE.. if now - self.told_at > BLIND.as_secs_f64() => Need::FirstHop,
            _ => Need::Others,
        };
        match believed {
            Some(heard) => self.wait = Some((heard.wait, now)),
            None if self.wait.is_some_and(|(_, at)| now - at > BLIND.as_secs_f64()) => self.wait = None,
            None => {}
        }
        match (self.wait, believed) {
            (None, _) => {
                // Nobody is left to say what passes.
                self.raises = 0;
                self.known = self.known.map(|known| TriedRate::found(known.found));
            }
            (Some((wait, _)), Some(heard)) if wait > least => {
                self.follow((now, span), heard, least, passing, own.lost)
            }
            (Some((wait, _)), None) if wait > least => {}
            (Some((wait, _)), _) => {
                (self.stays, self.peak) = (None, self.peak.max(passing));
                self.remember(now, wait);
                if is_used && own.lost > RULES.lost {
                    // A policer.
                    self.known = Some(TriedRate::found(passing * (1.0 - own.lost.min(HALF))));
                } else {
                    self.grow(now, believed, least, passing, is_used);
                }
            }
        }
        self.settle(now);
        false
    }

    /// What passes, bytes per second, and which share of the rate that is at most: a packet that is about to pass counts. Notes which share of it
    /// shows waits: of the uplink that of TCP, of the downlink that of the hosts which wait; that of QUIC if it is among those that replied now. A tick
    /// of a slow link has no packet or two of them, and is not counted at the same moment everywhere.
    fn note(&mut self, span: f64, passed: f64, heard: Option<RttSamples>, own: Own) -> (f64, f64) {
        let shown = match self.direction {
            Direction::Up => own.asked as f64 * FULL_FRAME_BYTES,
            Direction::Down => heard.map_or(0.0, |heard| heard.bytes),
        };
        self.usage.push_back([span, span * self.rate, passed, shown, own.spin_bytes]);
        let whole = RULES.span_at(self.rate);
        let (mut sum, mut count) = ([0.0; 5], 0);
        for it in self.usage.iter().rev() {
            if sum[0] >= whole - 1e-6 {
                break;
            }
            sum.iter_mut().zip(it).for_each(|(sum, it)| *sum += it);
            count += 1;
        }
        self.usage.drain(..self.usage.len() - count);
        let [seconds, might, passed, shown, spun] = sum;
        if passed > 0.0 && heard.is_some() {
            let spun = if own.spin_replied { spun } else { 0.0 };
            self.share = ((shown + spun) / passed).min(1.0);
        }
        (passed / seconds, (passed + FULL_FRAME_BYTES) / might.max(1.0))
    }

    fn was_used(&self, now: f64) -> bool {
        now - self.used_at <= BLIND.as_secs_f64()
    }

    /// One host may be behind a bottleneck of its own: a wait counts if two agree on it, the first hop says so, or if most of what passes waits. Of a rate that is
    /// known, a quarter that uses the link up is enough: a host whose own bottleneck is slower sends less. Where only such a host has measured the rate, its wait is
    /// none of the link's as soon as others send more.
    fn believe(&mut self, now: f64, heard: RttSamples, least: f64, passing: f64) -> Option<RttSamples> {
        let is_known = self.known.is_some() && !self.is_doubtful;
        let is_used = !is_known || self.was_used(now) || passing >= HALF * self.rate;
        let enough = if is_known { HALF * HALF } else { HALF };
        let one = self.share >= enough && is_used;
        self.is_trusted = heard.wait <= least || heard.is_sure() || one;
        match self.is_trusted {
            true => Some(heard),
            false => self.is_doubtful.then_some(RttSamples { wait: 0.0, ..heard }),
        }
    }

    fn remember(&mut self, now: f64, wait: f64) {
        self.waits.push_back((now, wait));
        while self.waits.front().is_some_and(|(at, _)| *at < now - BLIND.as_secs_f64()) {
            self.waits.pop_front();
        }
    }

    /// A queue stands behind.
    fn follow(&mut self, (now, span): (f64, f64), heard: RttSamples, least: f64, passing: f64, lost: f64) {
        self.raises = 0;
        self.remember(now, heard.wait);
        if let Some(known) = self.route(heard) {
            self.known = Some(known);
            self.offset += heard.wait;
            self.passage.forget();
            (self.wait, self.stays) = (Some((0.0, now)), None);
            return;
        }
        let measured = self.passage.service(least / 2.0, self.tried());
        if let Some(measured) = measured.filter(|rate| *rate > 0.0) {
            self.learn((now, span), measured * (1.0 - lost.clamp(0.0, HALF)), passing, heard);
        }
    }

    /// The link's rate was measured.
    fn learn(&mut self, (now, span): (f64, f64), measured: f64, passing: f64, heard: RttSamples) {
        // Of a doubtful rate of which not even half was measured nothing is left.
        let Some(known) = self.tried().filter(|known| !self.is_doubtful || measured >= HALF * known) else {
            (self.known, self.is_doubtful) = (Some(TriedRate::found(measured)), !heard.is_sure());
            return;
        };
        // What an overflowing buffer drops counts as passed until TCP sends it again.
        let mut rate = measured.min((2.0 * known).max(self.proven));
        if rate < known {
            let was_used = self.was_used(now);
            let is_shown = heard.is_sure() || passing >= HALF * self.rate;
            let shortest = self.waits.iter().map(|it| it.1).fold(heard.wait, f64::min);
            let grown = (heard.wait - shortest - RULES.explains).max(0.0);
            let explained = known / (1.0 + grown / RULES.explains);
            // A full buffer does not grow: a half each second.
            let explained = if is_shown { explained.min(known * (1.0 - HALF * span)) } else { explained };
            let floor = self.proven * if was_used { RULES.least } else { HALF };
            rate = rate.max(explained).max(floor).min(known);
        }
        self.is_doubtful &= heard.waiting < 2;
        self.known = Some(TriedRate::found(rate));
    }

    /// What was known of the link's rate before a wait that stays where a queue would have drained.
    fn route(&mut self, heard: RttSamples) -> Option<TriedRate> {
        let (sum, _) = self.passage.at(heard.passed);
        let known = self.known?;
        let first = Stay { passed: heard.passed, sum, wait: heard.wait, known, spare: 0.0 };
        let stay = self.stays.get_or_insert(first);
        if (heard.wait / stay.wait - 1.0).abs() > HALF {
            self.stays = None;
            return None;
        }
        stay.spare += heard.passed - stay.passed - (sum - stay.sum) / known.tried;
        (stay.passed, stay.sum) = (heard.passed, sum);
        // A link that becomes slower drains less than it could before.
        (stay.spare > 2.0 * stay.wait.max(HELD_BACK_S)).then_some(stay.known)
    }

    /// No queue stands behind.
    fn grow(&mut self, now: f64, believed: Option<RttSamples>, least: f64, passing: f64, is_used: bool) {
        if now - self.used_at.max(self.changed) > BLIND.as_secs_f64() {
            // What was tried and not used up is not known to pass.
            self.known = self.known.map(|known| TriedRate { tried: known.tried.min(known.found), ..known });
            self.raises = 0;
        }
        // A queue shows so long after a raise.
        let shows = self.changed + least / (self.raised - 1.0);
        let Some(shown) = believed.filter(|heard| heard.passed >= shows) else { return };
        // A packet more or less in the newest tick is much of a slow link: what is tried may go by it, what is known may not.
        let newest = self.usage.back().map_or(passing, |[span, _, passed, ..]| passing.max(passed / span));
        if !is_used || newest < NEARLY_ALL * self.rate {
            return;
        }
        let passed = passing.min(self.rate);
        let known = self.known.unwrap_or(TriedRate { tried: passing, found: passed });
        let (capacity, found) = (known.tried, known.found.max(passed));
        // The host that measured the rate may be behind a bottleneck of its own: others find out soon, and it alone does not.
        let is_doubted = self.is_doubtful && shown.hosts >= 2;
        let factor = match is_doubted || self.rate < HALF * self.peak {
            true => 2.0,
            false => (1.0 + SLIGHT * 2f64.powi(self.raises)).min(2.0),
        };
        let most = if is_doubted { f64::MAX } else { RULES.above * self.peak.max(capacity) };
        let raised = (capacity * factor).min(2.0 * newest).min(most);
        if raised > capacity {
            self.raises += 1;
            (self.raised, self.changed) = (raised / capacity, now);
        }
        self.known = Some(TriedRate { tried: raised.max(capacity), found });
    }

    /// The rate at which the queue behind becomes what the priority wants.
    fn settle(&mut self, now: f64) {
        let Some(capacity) = self.tried() else { return };
        let (target, margin) = self.priority.wants();
        // A packet of a slow link is longer than any queue that is wanted.
        let target = target.max(FULL_FRAME_BYTES / capacity);
        let span = RULES.span_at(capacity);
        let excess = match (self.direction, self.wait) {
            (Direction::Up, Some(_)) if self.is_trusted => {
                self.passage.standing(now, capacity) / capacity - target
            }
            (Direction::Up, Some(_)) => -target,
            (Direction::Up, None) => 0.0,
            (Direction::Down, wait) => (wait.map_or(0.0, |(wait, _)| wait) - target).max(0.0) + margin * span,
        };
        self.set((capacity * (1.0 - excess / span)).max(self.least(capacity)));
    }

    /// The least rate while a queue drains, bytes per second. A shaper does not take back the time that it has given to a packet: one each
    /// fifth of a second. The downlink's senders are a round trip away.
    fn least(&self, capacity: f64) -> f64 {
        match self.direction {
            Direction::Up => {
                (RULES.least * capacity).max((FULL_FRAME_BYTES / RULES.span).min(HALF * capacity))
            }
            Direction::Down => HALF * capacity,
        }
    }

    fn set(&mut self, rate: f64) {
        let rate = if rate.is_finite() { rate } else { self.bounds.most };
        self.rate = rate.clamp(self.bounds.least, self.bounds.most);
    }
}

impl std::fmt::Display for Grounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { decision, wait, hosts, is_of_hop, share, lost } = *self;
        let Some(wait) = wait else { return f.write_str("no host shows the queue behind the shaper") };
        match decision {
            Decision::Lower | Decision::Drain if lost > RULES.lost => {
                write!(f, "{:.1} % of the packets are lost on the way", 100.0 * lost)
            }
            Decision::Lower | Decision::Drain if is_of_hop => {
                write!(f, "packets to the first hop wait {:.0} ms behind the shaper", 1e3 * wait)
            }
            Decision::Lower | Decision::Drain if hosts >= 2 => {
                write!(f, "packets of {hosts} hosts wait {:.0} ms behind the shaper", 1e3 * wait)
            }
            Decision::Lower | Decision::Drain => {
                let (share, wait) = (100.0 * share, 1e3 * wait);
                write!(
                    f,
                    "packets of one host, {share:.0} % of the traffic, wait {wait:.0} ms behind the shaper"
                )
            }
            Decision::Hold => f.write_str("nothing says that it is wrong"),
            Decision::Raise => f.write_str("packets wait here and nowhere else"),
            Decision::Outage => f.write_str("nobody replies"),
        }
    }
}
