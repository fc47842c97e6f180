//! Where the delay of what passes comes from: one budget of five segments, each second.
//!
//! Each segment has the delay it always has (base), what packets wait on top of it (queue), and how far off that may be. A segment of which
//! nothing is known is unknown, with the reason: never zero.
//!
//! * **Home**: RTT from the gateway to the hosts at home, less what waits in a queue of the gateway on the way there.
//! * **Gateway**: its own queues, by Little's law: mean level over throughput.
//! * **Uplink, downlink**: every packet passes them, whoever is at the far end. So the line holds no more than the *least* extra delay of all
//!   far ends that replied. A sender's clock, or the observer, says how much of it is the downlink's.
//! * **Beyond**: what one far end has on top of the others.
//!
//! A single far end does not tell line and route apart. Then a line that carries its known rate is where the packets wait; otherwise both
//! are unknown.

mod bloat;

use std::collections::BTreeMap;

pub use bloat::{BloatNews, SegmentBloat};

use crate::link::{Known, Provenance};
use crate::recent::Recent;
use crate::sample::sane;
use crate::segment::{Direction, PerDirection};

/// Far ends and home hosts whose base is remembered.
const ENDS: usize = 4096;
/// A base is the least of the last two of these periods, seconds: a longer route is its own base after ten minutes.
const PERIOD_S: f64 = 300.0;
/// Less than this is jitter of hosts and routes, seconds.
const JITTER_S: f64 = 0.005;
/// No more than this is no queue, seconds.
const NONE_S: f64 = 0.01;
/// What was taken off is known to this part of it.
const UNCERTAIN: f64 = 0.2;
/// A segment is only named if it holds at least this much, seconds: what calls and games notice.
const NAMED_S: f64 = 0.03;
/// A direction is full from this part of its rate on.
const FULL: f64 = 0.8;
/// Below this part of its rate, over half a second, nothing waits in a direction.
const LIGHT: f64 = 0.4;
/// The same where the rate is unknown, bytes per second.
const LIGHT_BYTES_PER_SECOND: f64 = 6_000.0;
/// Ticks of a tenth of a second over which that is taken.
const LIGHT_TICKS: usize = 5;
/// A delay this much above the least is still that one, seconds.
const SAME_S: f64 = 0.002;
/// Two far ends wait for the same thing if their extra delays differ by no more than this part, and jitter.
const ALIKE: f64 = 0.25;
/// One reply shows that the line is free; it takes so many of a far end within the second to say that it is slow.
const ACCUSING_REPLIES: u32 = 3;
/// RTT samples of a flow within the second from which its delay follows: with fewer, a delayed ACK is most of it.
const SAMPLES: u32 = 8;
/// No ACK is delayed for longer, seconds.
const ACK_S: f64 = 0.2;
/// What is shorter takes no time on the line worth telling, bytes.
const SHORT_BYTES: u32 = 750;
/// A full packet, bytes.
const FULL_BYTES: f64 = 1514.0;
/// At least this part of what passes waits as long as is said of home and beyond.
const SLOWEST_PART: f64 = 0.1;

/// A part of the way from the hosts at home to the far ends and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    /// LAN, Wi-Fi and the hosts at home.
    Home = 0,
    /// The gateway's own queues.
    Gateway = 1,
    /// The uplink's buffer behind the gateway: modem, radio.
    Uplink = 2,
    /// The downlink's buffer, at the provider.
    Downlink = 3,
    /// The route and the far hosts.
    Beyond = 4,
}

impl Segment {
    /// All of them, from home to the far end.
    pub const ALL: [Self; 5] = [Self::Home, Self::Gateway, Self::Uplink, Self::Downlink, Self::Beyond];

    /// The name used in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Gateway => "gateway",
            Self::Uplink => "uplink",
            Self::Downlink => "downlink",
            Self::Beyond => "beyond",
        }
    }
}

/// Why a segment's delay is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// No packet was answered that shows it.
    NoReplies,
    /// No reply was ever seen on a line without load: a queue may be part of every one.
    NoBase,
    /// One far end replied, and the line's rate is unknown or not used up: line or route, either may hold it.
    OneEnd,
    /// Packets wait on the line; no clock and no level tells in which direction.
    Undivided,
    /// Too few packets: a host that delays its ACKs looks the same.
    TooFew,
    /// The queue cannot be read.
    NotRead,
}

impl Unknown {
    /// The name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoReplies => "no_replies",
            Self::NoBase => "no_base",
            Self::OneEnd => "one_end",
            Self::Undivided => "undivided",
            Self::TooFew => "too_few",
            Self::NotRead => "not_read",
        }
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

    /// Where packets wait longest.
    pub fn place(&self) -> Place {
        let known = |segment: Segment| self.part(segment).ok().map(|delay| (segment, delay));
        let parts = || Segment::ALL.into_iter().filter_map(known);
        let longest = parts().max_by(|(_, a), (_, b)| a.queue_s.total_cmp(&b.queue_s));
        let Some((segment, most)) = longest else { return Place::Unknown };
        if most.queue_s - most.uncertainty_s >= NAMED_S {
            return Place::In(segment);
        }
        let is_free = |part: &Part| part.is_ok_and(|delay| delay.queue_s + delay.uncertainty_s < NAMED_S);
        if self.segments.iter().all(is_free) { Place::Nowhere } else { Place::Unknown }
    }
}

/// The place that was found in most of the last seconds: what is said to people does not flicker.
#[derive(Clone, Copy, Debug)]
pub struct SteadyPlace {
    newest: [Place; Self::SECONDS],
    next: usize,
}

impl SteadyPlace {
    const SECONDS: usize = 5;

    /// One second's place.
    pub fn push(&mut self, place: Place) {
        self.newest[self.next] = place;
        self.next = (self.next + 1) % Self::SECONDS;
    }

    /// The place of more than half of them.
    pub fn place(&self) -> Place {
        let is_most =
            |place: &Place| self.newest.iter().filter(|other| *other == place).count() > Self::SECONDS / 2;
        self.newest.iter().copied().find(is_most).unwrap_or(Place::Unknown)
    }
}

impl Default for SteadyPlace {
    fn default() -> Self {
        Self { newest: [Place::Unknown; Self::SECONDS], next: 0 }
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
    /// The server may have asked other servers first, as for DNS: it may be late by any time.
    pub is_relayed: bool,
}

/// What a flow's packets towards one of its ends took to be answered, within the second.
#[derive(Clone, Copy, Debug)]
pub struct TimedFlow {
    /// That end: any number that stands for its address.
    pub host: u64,
    /// The least RTT that the flow ever had, seconds.
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
    /// Flows whose packets home answered.
    pub home: &'a [TimedFlow],
    /// Flows whose packets outwards were answered, the gateway's own queue included.
    pub far: &'a [TimedFlow],
    /// Wait in the gateway's own queues; the downlink's is 0 where it has none. `None`: it cannot be read.
    pub own_s: PerDirection<Option<f64>>,
    /// Wait in the line's buffers by their estimated levels.
    pub hidden: PerDirection<Option<HiddenWait>>,
    /// The rates that count.
    pub rates: PerDirection<Option<Known>>,
}

/// What the line carries, bytes per second.
type Load = PerDirection<f64>;

/// The least delay within a period, and the lightest load under which it was seen.
#[derive(Clone, Copy, Debug)]
struct Least {
    delay_s: f64,
    load: Load,
}

impl Least {
    const NONE: Self =
        Self { delay_s: f64::INFINITY, load: PerDirection { up: f64::INFINITY, down: f64::INFINITY } };

    fn see(&mut self, delay_s: f64, load: Load) {
        let is_lighter = load.up + load.down < self.load.up + self.load.down;
        if delay_s + SAME_S < self.delay_s || (delay_s <= self.delay_s + SAME_S && is_lighter) {
            self.load = load;
        }
        self.delay_s = self.delay_s.min(delay_s);
    }
}

/// The least delay of an end.
#[derive(Clone, Copy, Debug)]
struct Base {
    older: Least,
    newer: Least,
    /// When the newer period began.
    since_s: f64,
}

impl Base {
    fn new(at_s: f64) -> Self {
        Self { older: Least::NONE, newer: Least::NONE, since_s: at_s }
    }

    fn see(&mut self, at_s: f64, delay_s: f64, load: Load) {
        if at_s - self.since_s > PERIOD_S {
            self.older = if at_s - self.since_s > 2.0 * PERIOD_S { Least::NONE } else { self.newer };
            (self.newer, self.since_s) = (Least::NONE, at_s);
        }
        self.newer.see(delay_s, load);
    }

    fn least(&self) -> Least {
        if self.older.delay_s < self.newer.delay_s { self.older } else { self.newer }
    }
}

/// A far end within the second.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// The least that a reply took on top of the base.
    extra_s: f64,
    /// Wait in the downlink's buffer of that reply, by clock.
    down_s: Option<f64>,
    base: Least,
    /// Those that nobody delayed.
    replies: u32,
    /// All of them were relayed.
    is_relayed: bool,
}

/// Follows the replies and gives the budget of each second.
#[derive(Debug, Default)]
pub struct DelayTracker {
    /// By end, and whether the request was a long packet.
    far: Recent<(u32, bool), Base, ENDS>,
    home: Recent<u64, Base, ENDS>,
    /// Of uploads' ends, as the flow table times them.
    uploads: Recent<u64, Base, ENDS>,
    heard: BTreeMap<u32, Heard>,
    rates: PerDirection<Option<Known>>,
    /// Bytes of the newest ticks.
    ticks: PerDirection<[f64; LIGHT_TICKS]>,
    next_tick: usize,
    ticks_known: usize,
    /// The most that the line has carried: its rate is no less.
    most: Load,
    /// Bytes since the last budget, and how long that is, seconds.
    passed: PerDirection<f64>,
    at_s: f64,
    budget_at_s: Option<f64>,
}

impl DelayTracker {
    /// A tick of a tenth of a second is over; `bytes`: what passed in it.
    pub fn tick(&mut self, at_s: f64, bytes: PerDirection<u64>) {
        self.at_s = at_s;
        self.budget_at_s.get_or_insert(at_s);
        for x in Direction::ALL {
            self.ticks[x][self.next_tick] = bytes[x] as f64;
            self.passed[x] += bytes[x] as f64;
        }
        self.next_tick = (self.next_tick + 1) % LIGHT_TICKS;
        self.ticks_known = LIGHT_TICKS.min(self.ticks_known + 1);
        let load = self.load();
        self.most = PerDirection::from_fn(|x| self.most[x].max(load[x]));
    }

    /// Over the last half of a second.
    fn load(&self) -> Load {
        PerDirection::from_fn(|x| self.ticks[x].iter().sum::<f64>() * 10.0 / self.ticks_known.max(1) as f64)
    }

    /// Whether nothing waits on a line that carries this.
    fn is_light(&self, load: Load) -> bool {
        Direction::ALL.into_iter().all(|x| {
            let rate = self.rates[x].map_or(self.most[x], |rate| rate.value);
            load[x] <= (LIGHT * rate).max(LIGHT_BYTES_PER_SECOND)
        })
    }

    /// The outside replied.
    pub fn reply(&mut self, reply: &Reply) {
        let Some(delay_s) = sane(reply.delay_s) else { return };
        let is_long = reply.request_bytes > SHORT_BYTES;
        let on_line_s = self.on_line_s();
        // A full packet takes longer than a short one by its time on the line.
        let by_short = self.far.get(&(reply.end, false)).filter(|_| is_long).copied();
        let (at_s, load) = (self.at_s, self.load());
        let base = self.far.entry((reply.end, is_long), || Base::new(at_s));
        base.see(at_s, delay_s, load);
        let own = base.least();
        let by_short = by_short.map(|short| {
            let least = short.least();
            Least { delay_s: least.delay_s + on_line_s, ..least }
        });
        let base = by_short.filter(|short| short.delay_s <= own.delay_s).unwrap_or(own);
        let extra_s = (delay_s - base.delay_s).max(0.0);
        let is_relayed = reply.is_relayed;
        let fresh = Heard { extra_s, down_s: reply.down_s, base, replies: 0, is_relayed };
        let heard = self.heard.entry(reply.end).or_insert(fresh);
        let replies = heard.replies + u32::from(!reply.may_be_held);
        let is_relayed = heard.is_relayed && is_relayed;
        // A delayed one, too, is an upper bound.
        if extra_s <= heard.extra_s {
            *heard = fresh;
        }
        (heard.replies, heard.is_relayed) = (replies, is_relayed);
    }

    /// The budget of the time since the last one.
    pub fn budget(&mut self, reading: &Reading<'_>) -> Budget {
        let seconds = self.at_s - self.budget_at_s.replace(self.at_s).unwrap_or(self.at_s);
        let passed = std::mem::take(&mut self.passed);
        let heard: Vec<Heard> = std::mem::take(&mut self.heard).into_values().collect();
        let is_full = |x: Direction| {
            let rate = reading.rates[x].filter(|rate| rate.provenance != Provenance::Learnt);
            rate.is_some_and(|rate| seconds > 0.0 && passed[x] / seconds >= FULL * rate.value)
        };
        let (up, down, beyond) = self.outside(&heard, reading, PerDirection::from_fn(is_full));
        self.rates = reading.rates;
        let own = reading.own_s.up.zip(reading.own_s.down).and_then(|(up, down)| sane(up + down));
        let gateway = own.map(|queue_s| Delay { base_s: 0.0, queue_s, uncertainty_s: UNCERTAIN * queue_s });
        Budget { segments: [self.at_home(reading), gateway.ok_or(Unknown::NotRead), up, down, beyond] }
    }

    /// Uplink, downlink and what is beyond.
    fn outside(
        &mut self,
        heard: &[Heard],
        reading: &Reading<'_>,
        is_full: PerDirection<bool>,
    ) -> (Part, Part, Part) {
        let all = |unknown| (Err(unknown), Err(unknown), Err(unknown));
        let proven: Vec<&Heard> = heard.iter().filter(|end| self.is_light(end.base.load)).collect();
        let least = proven.iter().min_by(|a, b| a.extra_s.total_cmp(&b.extra_s));
        let Some(least) = least else {
            return all(if heard.is_empty() { Unknown::NoReplies } else { Unknown::NoBase });
        };
        let line_s = least.extra_s;
        // A far end whose replies may all have been delayed only agrees with another one, or contradicts nothing.
        let agrees = |end: &&&Heard| end.replies > 0 || end.extra_s <= (1.0 + ALIKE) * line_s + NONE_S;
        if line_s > NONE_S && proven.iter().filter(agrees).count() < 2 && !is_full.up && !is_full.down {
            return all(Unknown::OneEnd);
        }
        // Two servers that ask the same third one are late together.
        if line_s > NONE_S && proven.iter().all(|end| end.is_relayed) {
            return all(Unknown::NoReplies);
        }
        let (up, down) = divide(least, reading, is_full);
        let accusing = proven.iter().filter(|end| end.replies >= ACCUSING_REPLIES || end.extra_s <= NONE_S);
        let delay = |end: &&Heard| Delay {
            base_s: end.base.delay_s,
            queue_s: end.extra_s - line_s,
            uncertainty_s: JITTER_S + UNCERTAIN * line_s,
        };
        let mut ends: Vec<_> = accusing.map(|end| (end.extra_s - line_s, end.replies, delay(end))).collect();
        ends.extend(self.slow_uploads(reading, line_s));
        (up, down, slowest(&ends).map(|(_, delay)| delay).ok_or(Unknown::TooFew))
    }

    /// Far ends of uploads that wait beyond the line. While segments are lost, hardly any reply tells by itself; RTT samples still do.
    fn slow_uploads(&mut self, reading: &Reading<'_>, line_s: f64) -> Vec<(f64, u32, Delay)> {
        let known_s = line_s + reading.own_s.up.unwrap_or(0.0);
        let on_line_s = self.on_line_s();
        let mut ends = BTreeMap::<u64, (f64, u32, f64)>::new();
        for flow in reading.far {
            let Some((base_s, least_s)) = timed(&mut self.uploads, flow, self.at_s) else { continue };
            let end = ends.entry(flow.host).or_insert((least_s, 0, 0.0));
            *end = (end.0.min(least_s), end.1 + flow.samples, base_s);
        }
        let delay = |(least_s, samples, base_s): (f64, u32, f64)| {
            let queue_s = (least_s - base_s - on_line_s - known_s).max(0.0);
            let uncertainty_s = JITTER_S + UNCERTAIN * known_s + delayed_s(samples);
            (queue_s, samples, Delay { base_s, queue_s, uncertainty_s })
        };
        let waits = |(queue_s, samples, _): &(f64, u32, Delay)| {
            *queue_s > if *samples >= SAMPLES { NONE_S } else { ACK_S }
        };
        ends.into_values().map(delay).filter(waits).collect()
    }

    /// A full packet's time on the uplink, seconds.
    fn on_line_s(&self) -> f64 {
        self.rates.up.map_or(0.0, |rate| FULL_BYTES / rate.value.max(1.0))
    }

    fn at_home(&mut self, reading: &Reading<'_>) -> Part {
        let own_s = reading.own_s.down.unwrap_or(0.0);
        let mut flows = Vec::new();
        for flow in reading.home {
            let Some((base_s, least_s)) = timed(&mut self.home, flow, self.at_s) else { continue };
            let queue_s = (least_s - base_s - own_s).max(0.0);
            let uncertainty_s = JITTER_S + UNCERTAIN * own_s + delayed_s(flow.samples);
            flows.push((queue_s, flow.samples, Delay { base_s, queue_s, uncertainty_s }));
        }
        if flows.is_empty() {
            return Err(Unknown::NoReplies);
        }
        // What came back at once was not delayed by anybody.
        for (queue_s, _, delay) in &mut flows {
            if *queue_s <= NONE_S {
                delay.uncertainty_s = delay.uncertainty_s.min(NONE_S);
            }
        }
        flows.retain(|(queue_s, samples, _)| *samples >= SAMPLES || *queue_s <= NONE_S);
        slowest(&flows).map(|(_, delay)| delay).ok_or(Unknown::TooFew)
    }
}

/// The least RTT of the flow's end, with this flow's, and the least within the second; `None` if the flow's are no numbers.
fn timed(ends: &mut Recent<u64, Base, ENDS>, flow: &TimedFlow, at_s: f64) -> Option<(f64, f64)> {
    let (base_s, least_s) = (sane(flow.base_s)?, sane(flow.least_s)?);
    let base = ends.entry(flow.host, || Base::new(at_s));
    base.see(at_s, base_s.min(least_s), Load::default());
    Some((base.least().delay_s, least_s))
}

/// Until the second segment comes, an ACK may be delayed: for so long, with so many RTT samples in the second.
fn delayed_s(samples: u32) -> f64 {
    (2.0 / f64::from(samples.max(1))).min(ACK_S)
}

/// The line's wait, by direction.
fn divide(least: &Heard, reading: &Reading<'_>, is_full: PerDirection<bool>) -> (Part, Part) {
    let line_s = least.extra_s;
    let delay = |queue_s: f64, uncertainty_s: f64| Ok(Delay { base_s: 0.0, queue_s, uncertainty_s });
    if line_s <= NONE_S {
        return (delay(0.0, NONE_S), delay(0.0, NONE_S));
    }
    let by_clock = least.down_s.map(|down_s| (down_s, JITTER_S));
    let by_level = || reading.hidden.down.map(|hidden| (hidden.wait_s, hidden.uncertainty_s));
    let by_load = || match (is_full.up, is_full.down) {
        (true, false) => Some((0.0, JITTER_S)),
        (false, true) => Some((line_s, JITTER_S)),
        _ => None,
    };
    let Some((down_s, uncertainty_s)) = by_clock.or_else(by_level).or_else(by_load) else {
        return (Err(Unknown::Undivided), Err(Unknown::Undivided));
    };
    let down_s = down_s.clamp(0.0, line_s);
    let uncertainty_s = uncertainty_s.min(line_s) + JITTER_S;
    (delay(line_s - down_s, uncertainty_s), delay(down_s, uncertainty_s))
}

/// The wait that the slowest part of what passes has at least: waits, how much each is of all, and whose it is.
fn slowest<T: Copy>(of: &[(f64, u32, T)]) -> Option<(f64, T)> {
    let mut sorted: Vec<_> = of.to_vec();
    sorted.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    let all: f64 = sorted.iter().map(|(_, weight, _)| f64::from(*weight)).sum();
    let mut slower = 0.0;
    sorted.into_iter().find_map(|(wait_s, weight, whose)| {
        slower += f64::from(weight);
        (slower >= SLOWEST_PART * all).then_some((wait_s, whose))
    })
}

#[cfg(test)]
mod tests;
