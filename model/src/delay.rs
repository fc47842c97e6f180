//! Where the delay of what passes comes from: one budget of five segments, each second.
//!
//! Each segment has the delay it always has (base), what packets wait on top of it (queue), and how far off that may be. A segment of which
//! nothing is known is unknown, with the reason: never zero.
//!
//! * **Home**: RTT from the gateway to the hosts at home, less what waits in a queue of the gateway on the way there.
//! * **Gateway**: its own queues, by Little's law: mean level over throughput.
//! * **Uplink, downlink**: every packet passes them, whoever is at the far end. So the line holds no more than the *least* extra delay of all
//!   far ends that replied. A sender's clock, or the observer, says how much of it is the downlink's.
//! * **Beyond**: what one far end has on top of the line.
//!
//! A single far end does not tell line and route apart. Then a line that carries its known rate is where the packets wait; otherwise both
//! are unknown.
//!
//! Of each end there are bounds ([`bounds::WaitBounds`]): a reply that its receiver may have delayed is an upper bound only, and an end that was sent
//! data and did not reply may wait for any time. What is said of home and beyond holds for the slowest tenth of what passes.

mod bloat;
mod bounds;
mod lasting;
mod limit;
mod tracker;

use crate::constants::MOMENT;
use crate::link::Known;
use crate::segment::{Direction, PerDirection};

pub use bloat::{BloatNews, SegmentBloat};
pub use limit::{Limits, Transfer};
pub use tracker::DelayTracker;

/// A segment is only named if this much waits there, some of it for certain, seconds: calls and games notice it.
const NOTICED_S: f64 = 0.03;

named! {
    /// A part of the way from the hosts at home to the far ends and back, in this order.
    pub enum Segment {
        /// LAN, Wi-Fi and the hosts at home.
        Home = "home",
        /// The gateway's own queues.
        Gateway = "gateway",
        /// The uplink's buffer behind the gateway: modem, radio.
        Uplink = "uplink",
        /// The downlink's buffer, at the provider.
        Downlink = "downlink",
        /// The route and the far hosts.
        Beyond = "beyond",
    }
}

named! {
    /// Why a segment's delay is unknown.
    pub enum Unknown {
        /// No packet was answered that shows it.
        NoReplies = "no_replies",
        /// No reply was ever seen on a line without load: a queue may be part of every one.
        NoBase = "no_base",
        /// One far end replied, and the line's rate is unknown or not used up: line or route, either may hold it.
        OneEnd = "one_end",
        /// Packets wait on the line; no clock and no level tells in which direction.
        Undivided = "undivided",
        /// Too few packets: a host that delays its ACKs looks the same.
        TooFew = "too_few",
        /// The queue cannot be read.
        NotRead = "not_read",
    }
}

/// The delay of a segment, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// What it always takes. That of the line is part of [`Segment::Beyond`]'s: no packet shows it alone.
    pub base_s: f64,
    /// What packets wait on top of it.
    pub queue_s: f64,
    /// The wait is known to so much.
    pub uncertainty_s: f64,
}

/// One segment of the budget.
pub type Part = Result<Delay, Unknown>;

/// Where the delay of the last second came from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Index with [`Segment`].
    pub segments: [Part; Segment::ALL.len()],
    /// The host at home that waits as long as [`Segment::Home`] says: its number in [`TimedFlow`].
    pub home_host: Option<u32>,
    /// The same of [`Segment::Beyond`]: its number in [`Reply`] and [`TimedFlow`].
    pub far_host: Option<u32>,
    /// The most that may wait at home or beyond where [`Unknown::TooFew`] is said of it, seconds; else 0.
    pub may_wait_s: f64,
}

/// What a budget says in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Packets wait here, longer than anywhere else.
    In(Segment),
    /// Packets wait nowhere.
    Nowhere,
    /// Evidence is missing.
    Unknown,
}

impl Place {
    /// The name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::In(segment) => segment.name(),
            Self::Nowhere => "nowhere",
            Self::Unknown => "unknown",
        }
    }
}

impl Budget {
    /// One segment.
    pub const fn part(&self, segment: Segment) -> Part {
        self.segments[segment as usize]
    }

    /// What is known to wait in all segments together, seconds; `None` if nothing is known of any.
    pub fn queue_s(&self) -> Option<f64> {
        let known = self.segments.iter().flatten();
        known.map(|delay| delay.queue_s).reduce(|sum, queue_s| sum + queue_s)
    }

    /// The most that packets wait on the line, both ways, seconds; `None` if it is unknown.
    pub fn line_most_s(&self) -> Option<f64> {
        let (up, down) = (self.part(Segment::Uplink).ok()?, self.part(Segment::Downlink).ok()?);
        Some(up.queue_s + down.queue_s + up.uncertainty_s.max(down.uncertainty_s))
    }

    /// Whether what waits in a direction may wait beyond the line instead.
    pub fn may_be_beyond(&self, direction: Direction) -> bool {
        let segment = direction.pick(Segment::Uplink, Segment::Downlink);
        self.part(segment).is_err_and(|why| why != Unknown::Undivided)
    }

    /// Where packets wait longest, of the segments that are known; unknown if they may wait longer at home or beyond.
    pub fn place(&self) -> Place {
        let known = |segment: Segment| self.part(segment).ok().map(|delay| (segment, delay));
        let parts = || Segment::ALL.into_iter().filter_map(known);
        let longest = parts().max_by(|(_, a), (_, b)| a.queue_s.total_cmp(&b.queue_s));
        let Some((segment, most)) = longest else { return Place::Unknown };
        let is_certain = most.queue_s > most.uncertainty_s;
        if is_certain && most.queue_s >= NOTICED_S && most.queue_s >= self.may_wait_s {
            return Place::In(segment);
        }
        let is_free = |part: &Part| part.is_ok_and(|delay| delay.queue_s + delay.uncertainty_s < NOTICED_S);
        if self.segments.iter().all(is_free) { Place::Nowhere } else { Place::Unknown }
    }
}

/// The place that was found in most of the last seconds: what is said to people does not flicker.
#[derive(Clone, Copy, Debug)]
pub struct SteadyPlace {
    newest: [Place; Self::SECONDS],
    next: usize,
    silent_seconds: usize,
}

impl SteadyPlace {
    const SECONDS: usize = MOMENT.as_secs() as usize;
    /// More than half of them: they are what is said.
    const MOST: usize = Self::SECONDS / 2 + 1;

    /// One second's budget. One without a reply says nothing of the line: what was said of it stays for a moment. Connections that open come seconds apart.
    /// But that nothing waits is not said of what passes meanwhile, unless the line `carries_little`.
    pub fn push(&mut self, budget: &Budget, carries_little: bool) {
        let place = budget.place();
        let is_silent = place == Place::Unknown && budget.part(Segment::Uplink) == Err(Unknown::NoReplies);
        self.silent_seconds = if is_silent { self.silent_seconds + 1 } else { 0 };
        if is_silent && self.place() == Place::Nowhere && !carries_little {
            self.newest = [Place::Unknown; Self::SECONDS];
        }
        if self.silent_seconds == 0 || self.silent_seconds > Self::MOST {
            self.newest[self.next] = place;
            self.next = (self.next + 1) % Self::SECONDS;
        }
    }

    /// The place of more than half of them.
    pub fn place(&self) -> Place {
        let is_most =
            |place: &Place| self.newest.iter().filter(|other| *other == place).count() >= Self::MOST;
        self.newest.iter().copied().find(is_most).unwrap_or(Place::Unknown)
    }
}

impl Default for SteadyPlace {
    fn default() -> Self {
        Self { newest: [Place::Unknown; Self::SECONDS], next: 0, silent_seconds: 0 }
    }
}

/// A reply from outside to one of our packets.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// Who replied: any number that stands for an address.
    pub end: u32,
    /// Link-layer length of the packet that was answered.
    pub request_bytes: u32,
    /// From the packet to its reply, without its time in the gateway's queue, seconds.
    pub delay_s: f64,
    /// Of that, the wait in the downlink's buffer by the sender's clock; `None` if no clock tells.
    pub down_s: Option<f64>,
    /// The receiver may have delayed it.
    pub may_be_held: bool,
    /// The server may have asked other servers first, as for DNS, or the request was repeated: it may be late by any time.
    pub is_relayed: bool,
}

/// A flow's packets towards one of its ends, within the second.
#[derive(Clone, Copy, Debug)]
pub struct TimedFlow {
    /// That end: any number that stands for its address, the same as in [`Reply`].
    pub end: u32,
    /// Packets with data that were sent there, or still wait for their ACK.
    pub packets: u32,
    /// What they took to be answered; `None` if none was.
    pub rtt: Option<FlowRtt>,
}

/// RTT of a flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowRtt {
    /// The least that the flow ever had, seconds.
    pub base_s: f64,
    /// The least that is known of the RTT within the second, seconds.
    pub least_s: f64,
    /// RTT samples within the second.
    pub samples: u32,
}

/// A wait that the observer tells, seconds.
#[derive(Clone, Copy, Debug)]
pub struct HiddenWait {
    /// Level over rate.
    pub wait_s: f64,
    /// It is known to so much.
    pub uncertainty_s: f64,
}

/// What was read of one second, beside the replies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading<'a> {
    /// Flows with data to home.
    pub home: &'a [TimedFlow],
    /// Flows with data to the outside; RTT with the gateway's own queue.
    pub far: &'a [TimedFlow],
    /// Wait in the gateway's own queues; the downlink's is 0 where it has none. `None`: it cannot be read.
    pub own_s: PerDirection<Option<f64>>,
    /// Wait in the line's buffers by their estimated levels.
    pub hidden: PerDirection<Option<HiddenWait>>,
    /// The rates that count.
    pub rates: PerDirection<Option<Known>>,
}

#[cfg(test)]
mod tests;
