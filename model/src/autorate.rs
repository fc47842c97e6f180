//! The rate of a shaper without a word from the user and without a probe packet: from the queue that stands behind it.
//!
//! One [`Controller`] for each direction. It is told what passes, how long what passed waited in the buffer that is not ours (the
//! uplink's in a modem, the downlink's at the provider), and what stands in our own queue. Time is an argument, on a clock that never steps.
//!
//! The rules, in the order in which they are asked at each [`Controller::decide`]:
//!
//! 1. **A queue stands behind** (the least wait of the newest answers is more than a packet's own time and 5 ms; less 40 ms where a
//!    receiver may have held its ACK back for that long): what leaves that buffer *is* the link's rate. The rate falls to it, less 1 %
//!    (uplink) or 5 % (downlink), and less what has to drain. How much that is follows from what has passed since the newest packet that
//!    was answered for, less what was served since: answers are a round trip late, and what is known to be under way is not waited for.
//!    A wait that grows proves that this is the uplink's rate. Where it does not grow, what left may be what was sent, and no queue be there: the rate
//!    falls by no more than 15 % below what was proven, and is back when no packet waits.
//! 2. **That queue stays though less is sent than would empty it**: it is no queue but a longer route. The wait becomes the new zero,
//!    and the rate is again what it was.
//! 3. **Packets are lost and no queue stands behind**: a policer. The rate falls to what is not lost.
//! 4. **Our own queue stands, the one behind does not**, and this is known of packets sent since the last change: the rate is raised, by
//!    4, 6, 12 and then always 25 %; not within two seconds of a queue behind, and from 4 % on again after one or after two seconds
//!    without demand. Never above 1.5 times what passes. A link whose rate varies ([`variation`]) is tried again sooner and by more.
//! 5. **Questions are not answered any more** ([`silence`]), by more than answers wait on their way back: an outage. What was asked waits at least
//!    since then; little is sent until an answer comes.
//! 6. **Nothing is known**: no demand, or nobody answers. The rate is held.

mod bounds;
mod decision;
mod heard;
mod own;
mod passage;
mod queue;
mod route;
mod silence;
#[cfg(test)]
mod tests;
mod usage;
mod variation;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::segment::Direction;
pub use bounds::Bounds;
pub use decision::Decision;
use heard::Heard;
pub use own::Own;
use passage::{FULL, Passage};
use route::Route;
use silence::Silence;
use usage::Usage;
use variation::Variation;

/// A wait of no more than this beyond a packet's own time is no queue, seconds.
const NO_QUEUE: f64 = 0.005;
/// So long after a queue was seen behind the rate is not raised, seconds.
const HOLD: f64 = 2.0;
/// Raises, one after another; the last one is repeated.
const RAISES: [f64; 4] = [1.04, 1.06, 1.12, 1.25];
/// What passed so long after a change shows what it did, seconds, …
const SHOWS: [f64; 2] = [0.25, 1.0];
/// … and at least so many times what a link as fast as the rate before takes to let a queue be seen.
const SHOWS_QUEUE: f64 = 1.2;
/// What is sent of what the link carries, before a raise that lets a queue stand.
const RAISED_FROM: f64 = 0.99;
/// The rate is not raised above so many times what passes.
const ABOVE_PASSING: f64 = 1.5;
/// Our own queue stands if so much of what may pass does.
const USED: f64 = 0.9;
/// More than this is lost where a policer is.
const LOST: f64 = 0.03;
/// Without an answer for so long nothing is known of the buffer behind, seconds.
const SILENT: f64 = 0.5;
/// The ACK of a single segment is held back for so long at least, seconds, if it is (Linux: `TCP_DELACK_MIN`).
const HELD: f64 = 0.04;

/// Finds the rate of one direction.
#[derive(Debug)]
pub struct Controller {
    direction: Direction,
    bounds: Bounds,
    rate: f64,
    capacity: Option<f64>,
    /// What the uplink carries, bytes per second, as was shown last: by a queue that grew, or by what passed without one.
    proven: f64,
    /// The least wait since a rate was measured that is less, and that nothing shows to be the link's.
    doubted_at: Option<f64>,
    passage: Passage,
    heard: BTreeMap<u64, Heard>,
    /// The newest wait, and when the answer was taken in.
    wait: Option<(f64, f64)>,
    /// What waits behind that is no queue: a longer route.
    offset: f64,
    route: Route,
    usage: Usage,
    decided: Option<(f64, f64)>,
    changed: f64,
    hold_until: f64,
    raises: usize,
    /// By how much the rate was raised last.
    raised: f64,
    /// When our own queue stood last.
    used_at: f64,
    silence: Silence,
    variation: Variation,
    first_ns: Option<u64>,
}

impl Controller {
    /// A controller that knows nothing; `start`: bytes per second to begin with. What is no number, or out of bounds, is put right.
    pub fn new(direction: Direction, bounds: Bounds, start: f64) -> Self {
        let mut controller = Self {
            direction,
            bounds: bounds.sane(),
            rate: start,
            capacity: None,
            proven: 0.0,
            doubted_at: None,
            passage: Passage::default(),
            heard: BTreeMap::new(),
            wait: None,
            offset: 0.0,
            route: Route::default(),
            usage: Usage::default(),
            decided: None,
            changed: 0.0,
            hold_until: 0.0,
            raises: 0,
            raised: RAISES[0],
            used_at: 0.0,
            silence: Silence::default(),
            variation: Variation::default(),
            first_ns: None,
        };
        controller.set(start, 0.0);
        controller
    }

    /// Other bounds, from the next decision on.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds.sane();
    }

    /// Bytes per second to be sent, or let in.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The link's rate, bytes per second, as measured while a queue stood behind.
    pub fn capacity(&self) -> Option<f64> {
        self.capacity
    }

    /// How long packets wait behind, seconds, as the newest answers tell.
    pub fn wait(&self) -> Option<f64> {
        self.wait.map(|(wait, _)| wait)
    }

    fn seconds(&mut self, at_ns: u64) -> f64 {
        let first = *self.first_ns.get_or_insert(at_ns);
        // What was asked before the beginning counts as of then.
        at_ns.saturating_sub(first) as f64 / 1e9
    }

    /// Bytes leave our queue for the link, or come out of the link.
    pub fn pass(&mut self, at_ns: u64, bytes: u32) {
        let at = self.seconds(at_ns);
        self.passage.pass(at, f64::from(bytes));
    }

    /// What passed at `passed_ns` waited for `wait` seconds in the buffer that is not ours, so `end` says: behind us (uplink), or
    /// before it came (downlink). `may_be_held`: the answer is the ACK of a single segment. A receiver that holds it back does so for [`HELD`]
    /// or longer; a shorter wait is one of the buffer.
    pub fn waited(&mut self, end: u64, passed_ns: u64, wait: f64, may_be_held: bool) {
        let wait = if may_be_held && wait >= HELD { wait - HELD } else { wait };
        if !wait.is_finite() || self.first_ns.is_none_or(|first| passed_ns < first) {
            return;
        }
        // A route that has become shorter again shows at once.
        self.offset = self.offset.min(wait.max(0.0));
        let (passed, wait) = (self.seconds(passed_ns), (wait - self.offset).max(0.0));
        match self.heard.entry(end) {
            Entry::Vacant(new) => _ = new.insert(Heard::new(wait, passed, None)),
            Entry::Occupied(known) => known.into_mut().add(wait, passed),
        }
        let sum = self.passage.sum_at(passed);
        match self.direction {
            Direction::Up => self.passage.serve(passed, passed + wait, sum),
            Direction::Down => self.passage.serve(passed - wait, passed, sum),
        }
    }

    /// Decides, up to ten times a second.
    pub fn decide(&mut self, now_ns: u64, own: Own) -> Decision {
        let now = self.seconds(now_ns);
        let sum = self.passage.sum_at(now);
        let Some((before, sum_before)) = self.decided else {
            self.decided = Some((now, sum));
            return Decision::Idle;
        };
        let span = now - before;
        if span <= 0.0 {
            return Decision::Hold;
        }
        self.decided = Some((now, sum));
        self.variation.tick(span);
        self.silence.ask(before, now, own.asked);
        let (passing, used) = self.usage.note(span, sum - sum_before, self.rate);
        let is_used = used >= USED && own.bytes > 0.0;
        let heard = self.take_heard();
        if let Some(heard) = heard {
            self.wait = Some((heard.wait, now));
            self.silence.answered(self.passage.newest().map_or(0.0, |(_, left)| now - left));
        } else if let Some(waited) = self.overdue(now, own.back)
            // Where nothing was measured, what passes is what is gone back to, if it is limited by us.
            && let Some(capacity) = self.capacity.or(is_used.then_some(passing))
        {
            self.capacity = Some(capacity);
            self.wait = Some((waited, now));
            self.hold_until = now + self.variation.hold(HOLD);
            self.raises = 0;
            self.set(self.drained(capacity), now);
            return Decision::Drain;
        } else if self.wait.is_some_and(|(_, at)| now - at > SILENT) {
            self.wait = None;
        }
        let Some((wait, _)) = self.wait else {
            // Nobody is left to tell that what stands there has drained.
            if let Some(capacity) = self.capacity.filter(|capacity| self.rate < self.share() * capacity) {
                self.set(self.share() * capacity, now);
            }
            self.raises = 0;
            return Decision::Idle;
        };
        let scale = self.capacity.unwrap_or(passing).max(passing).max(self.bounds.least);
        let least = NO_QUEUE + FULL / scale;
        if wait > least {
            return match heard {
                Some(heard) => self.follow(now, heard, least, passing, own.lost),
                None => self.settle_unheard(now),
            };
        }
        self.route.clear();
        self.variation.passes(passing);
        self.end_doubt();
        if is_used && own.lost > LOST && now >= self.hold_until {
            self.hold_until = now + self.variation.hold(HOLD);
            self.raises = 0;
            let carried = passing * (1.0 - own.lost.min(0.5));
            (self.capacity, self.proven) = (Some(carried), carried);
            self.set(self.share() * carried, now);
            return Decision::Policed;
        }
        // What is still known to stand there drains first.
        if let Some(capacity) = self.capacity
            && self.rate < 0.98 * self.share() * capacity
        {
            return self.settle(now, Decision::Hold);
        }
        if !is_used {
            if now - self.used_at > HOLD {
                self.raises = 0;
            }
            return Decision::Idle;
        }
        self.used_at = now;
        let takes = (SHOWS_QUEUE * least / (RAISED_FROM * self.raised - 1.0))
            .clamp(self.variation.shows(SHOWS[0]), SHOWS[1]);
        let after = self.changed + takes + self.variation.choose(0.0, span);
        let shows = heard.is_some_and(|heard| heard.passed >= after);
        if now < self.hold_until || !shows {
            return Decision::Hold;
        }
        let steady = RAISES[self.raises.min(RAISES.len() - 1)];
        let factor = self.variation.factor(self.rate, steady);
        let raised = (self.rate * factor).min(ABOVE_PASSING * passing);
        if raised <= self.rate {
            return Decision::Hold;
        }
        self.proven = self.proven.max(passing.min(self.rate));
        self.raises += 1;
        self.raised = raised / self.rate;
        self.variation.raised(self.rate, self.capacity);
        self.set(raised, now);
        Decision::Raise
    }

    /// How long the oldest question without an answer waits at least, seconds, if answers are late.
    fn overdue(&self, now: f64, back: f64) -> Option<f64> {
        let (passed, left) = self.passage.newest()?;
        self.silence.overdue(now, passed, left, back.max(0.0))
    }

    /// What the ends say together: of each the least, of those the middle one, the lower of two: neither a host that is slow nor one that
    /// answers before it has received decides among three.
    fn take_heard(&mut self) -> Option<Heard> {
        let heard = std::mem::take(&mut self.heard).into_values();
        let mut ends: Vec<Heard> = heard.map(Heard::settled).collect();
        ends.sort_by(|a, b| a.wait.total_cmp(&b.wait));
        let middle = ends.len().checked_sub(1)? / 2;
        ends.get(middle).copied()
    }

    fn set(&mut self, rate: f64, now: f64) {
        let rate = if rate.is_finite() { rate } else { self.bounds.most };
        self.rate = rate.clamp(self.bounds.least, self.bounds.most);
        self.changed = now;
    }
}
