//! Follows replies and flows, and gives the budget of each second.

use std::collections::{BTreeMap, VecDeque};

use super::bounds::{EndWait, Slowest, WaitBounds, slowest};
use super::{Budget, Delay, FlowRtt, NOTICED_S, Part, Reading, Reply, TimedFlow, Unknown};
use crate::constants::{
    BLIND, FEW, FORGOTTEN, HALF, HEARD_S, HELD_BACK_MOST_S, LITTLE, MEASURED_WITHIN, MOST, NO_QUEUE_S, SLIGHT,
};
use crate::link::{Known, Provenance};
use crate::recent::Recent;
use crate::sample::sane;
use crate::segment::{Direction, FULL_FRAME_BYTES, PerDirection};

/// A base is the least of the last two of these periods, seconds.
const PERIOD_S: f64 = FORGOTTEN.as_secs() as f64 / 2.0;
/// Far ends and home hosts whose base is remembered.
const MAX_ENDS: usize = 4096;
const TICKS_PER_SECOND: f64 = 10.0;
/// Over so many the load is taken.
const LOAD_TICKS: usize = (HALF * TICKS_PER_SECOND) as usize;
/// After so many with little load, what was queued before has drained.
const DRAINED_TICKS: usize = (HEARD_S * TICKS_PER_SECOND) as usize;

/// What the line carries, bytes per second.
type Load = PerDirection<f64>;

/// The least delay within a period, and the lightest load under which there was any: that one had no queue, and the least is nearer to what the
/// end itself takes.
#[derive(Clone, Copy, Debug)]
struct Least {
    delay_s: f64,
    load: Load,
    /// No more of it can be a queue on the line.
    hidden_s: f64,
}

impl Default for Least {
    fn default() -> Self {
        let load = PerDirection { up: f64::INFINITY, down: f64::INFINITY };
        Self { delay_s: f64::INFINITY, load, hidden_s: f64::INFINITY }
    }
}

impl Least {
    fn see(&mut self, delay_s: f64, load: Load) {
        if load.up + load.down < self.load.up + self.load.down {
            self.load = load;
        }
        self.delay_s = self.delay_s.min(delay_s);
    }
}

/// What was seen in this period and in the one before.
#[derive(Clone, Copy, Debug, Default)]
struct TwoPeriods<T> {
    older: T,
    newer: T,
    /// When the newer period began.
    since_s: f64,
}

impl<T: Copy + Default> TwoPeriods<T> {
    fn from(at_s: f64) -> Self {
        Self { since_s: at_s, ..Self::default() }
    }

    /// What is of now.
    fn now(&mut self, at_s: f64, period_s: f64) -> &mut T {
        if at_s - self.since_s > period_s {
            let older = if at_s - self.since_s > 2.0 * period_s { T::default() } else { self.newer };
            *self = Self { older, ..Self::from(at_s) };
        }
        &mut self.newer
    }
}

impl TwoPeriods<Load> {
    /// It is forgotten sooner than a base, which a queue on a slower line would become.
    fn raise(&mut self, at_s: f64, load: Load) {
        let most = self.now(at_s, HALF * PERIOD_S);
        *most = PerDirection::from_fn(|x| most[x].max(load[x]));
    }

    fn most(&self, x: Direction) -> f64 {
        self.older[x].max(self.newer[x])
    }
}

/// The least delay of an end.
#[derive(Clone, Copy, Debug)]
struct Base {
    seen: TwoPeriods<Least>,
    /// The least since the line was last free: a longer route is no queue on the line.
    route_s: f64,
    /// The end has replied while the line carried so little that nothing waited.
    was_met_free: bool,
}

impl Base {
    fn new(at_s: f64) -> Self {
        Self { seen: TwoPeriods::from(at_s), route_s: f64::INFINITY, was_met_free: false }
    }

    fn see(&mut self, at_s: f64, delay_s: f64, load: Load) {
        self.seen.now(at_s, PERIOD_S).see(delay_s, load);
    }

    /// It was seen while packets waited no longer than `line_s` on the line, whatever the load.
    fn prove(&mut self, line_s: f64) {
        let least = &mut self.seen.newer;
        least.hidden_s = least.hidden_s.min(line_s);
    }

    /// How long it takes without queues on the line, seconds; `is_free`: nothing waits there.
    fn route(&mut self, delay_s: f64, is_free: bool) -> f64 {
        self.route_s = if is_free { delay_s } else { self.route_s.min(delay_s) };
        self.route_s
    }

    fn least(&self) -> Least {
        let TwoPeriods { older, newer, .. } = self.seen;
        let least = if older.delay_s < newer.delay_s { older } else { newer };
        Least { hidden_s: least.delay_s.min(older.hidden_s).min(newer.hidden_s), ..least }
    }
}

/// What an end's newest replies tell.
#[derive(Clone, Debug, Default)]
struct Heard(Vec<Timed>);

/// A reply, seconds.
#[derive(Clone, Copy, Debug)]
struct Timed {
    at_s: f64,
    /// Without the request's own time on the uplink.
    delay_s: f64,
    /// The receiver may have delayed it by so much.
    held_s: f64,
    down_s: Option<f64>,
    /// The request's wait on the uplink.
    up_s: Option<f64>,
}

impl Heard {
    fn hear(&mut self, at_s: f64, delay_s: f64, up_s: Option<f64>, reply: &Reply) {
        self.0.push(Timed { at_s, delay_s, held_s: held_s(reply), down_s: reply.down_s, up_s });
    }

    /// A tenth of the packets waited for at least so long, seconds; 0 without replies.
    fn slow_s(&self, base_s: f64) -> f64 {
        let mut delays: Vec<f64> = self.0.iter().map(|reply| reply.delay_s - reply.held_s).collect();
        delays.sort_by(f64::total_cmp);
        let tenth = (SLIGHT * delays.len() as f64) as usize;
        delays.iter().rev().nth(tenth).map_or(0.0, |delay_s| (delay_s - base_s).max(0.0))
    }

    /// Replies in a second.
    fn per_second(&self) -> u32 {
        (self.0.len() as f64 / HEARD_S).ceil() as u32
    }

    /// What the packets waited; the wait in the downlink's buffer, by clock.
    fn wait(&self, base_s: f64) -> (WaitBounds, Option<f64>) {
        // Those that nobody delayed are exact: if there are enough, they count alone.
        let are_enough = self.0.iter().filter(|reply| reply.held_s == 0.0).count() >= FEW;
        // One that is late for another reason tells only where all are.
        let own = self.0.iter().filter(|reply| reply.held_s.is_finite()).map(|reply| reply.delay_s);
        let latest_s = own.reduce(f64::max).unwrap_or(f64::INFINITY);
        let counts = |reply: &&Timed| reply.held_s == 0.0 || (!are_enough && reply.delay_s <= latest_s);
        let middle =
            |of: fn(&Timed) -> Option<f64>| Middle::of(self.0.iter().filter(counts).filter_map(of).collect());
        let Some(delay) = middle(|reply| Some(reply.delay_s)) else { return (WaitBounds::ANY, None) };
        let least_s = middle(|reply| Some(reply.delay_s - reply.held_s)).map_or(0.0, |delay| delay.least);
        let wait = WaitBounds {
            least_s: least_s - base_s,
            likely_s: delay.median - base_s,
            most_s: delay.most - base_s,
        };
        (wait.and(WaitBounds::ANY), middle(|reply| reply.down_s).map(|down| down.median))
    }
}

/// The receiver may have delayed it by so much, seconds.
fn held_s(reply: &Reply) -> f64 {
    match reply {
        Reply { is_relayed: true, .. } => f64::INFINITY,
        Reply { may_be_held: true, .. } => HELD_BACK_MOST_S,
        _ => 0.0,
    }
}

/// The median of figures, and how far off it may be: a few replies meet a queue that comes and goes by chance.
struct Middle {
    least: f64,
    median: f64,
    most: f64,
}

impl Middle {
    /// By a standard deviation of the median's rank; `None` without figures.
    fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let last = figures.len().checked_sub(1)?;
        let below = ((last as f64 - (figures.len() as f64).sqrt()) / 2.0).max(0.0) as usize;
        Some(Self { least: figures[below], median: figures[last / 2], most: figures[last - below] })
    }
}

/// A far end, with what its flows tell.
#[derive(Clone, Copy, Debug)]
struct Far {
    end: EndWait,
    /// So much of its base may be a queue on the line.
    hidden_s: f64,
    /// That is no queue, or a slight part of the wait at most.
    is_proven: bool,
    /// The slowest tenth of its packets waited for at least so long, with what may hide in its base.
    slow_s: f64,
    /// It replied more often than one host that thinks.
    is_steady: bool,
    /// The wait in the downlink's buffer, by clock.
    down_s: Option<f64>,
}

impl Far {
    /// With what may hide in its base.
    fn wait(&self) -> WaitBounds {
        let wait = self.end.wait;
        WaitBounds { most_s: wait.most_s + self.hidden_s, ..wait }
    }
}

/// The wait on the line.
#[derive(Clone, Copy, Debug)]
struct Line {
    wait: WaitBounds,
    /// The most of it that hides in no base.
    grown_s: f64,
    /// The downlink's part, by clock.
    down_s: Option<f64>,
    /// Several ends, or a full direction, show that it is the line.
    is_sure: bool,
    /// Only more than this waits beyond: if one end alone shows the line, others may have met it at other moments, as where the queue swings.
    ever_s: f64,
}

/// Replies of one second.
#[derive(Debug, Default)]
struct SecondReplies {
    count: usize,
    /// The longest that one of them waited for certain.
    longest_s: f64,
}

/// Follows the replies and gives the budget of each second.
#[derive(Debug, Default)]
pub struct DelayTracker {
    far: Recent<u32, Base, MAX_ENDS>,
    home: Recent<u32, Base, MAX_ENDS>,
    /// Newest replies of far ends, and of hosts at home to what is no TCP.
    heard: BTreeMap<u32, Heard>,
    heard_at_home: BTreeMap<u32, Heard>,
    rates: PerDirection<Option<Known>>,
    /// Bytes of the newest ticks.
    ticks: PerDirection<[f64; LOAD_TICKS]>,
    next_tick: usize,
    ticks_known: usize,
    /// The uplink's load at each of the newest ticks.
    up_loads: VecDeque<f64>,
    /// Since when a direction has carried so little that nothing waits there.
    free_since_s: PerDirection<Option<f64>>,
    /// The most that has passed.
    most: TwoPeriods<Load>,
    replies: SecondReplies,
    /// What each direction carried in the second before, if nothing waited then.
    free_before: Option<Load>,
    /// The most that each has carried in a second in which nothing waited that hides in no base.
    carried: TwoPeriods<Load>,
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
        self.next_tick = (self.next_tick + 1) % LOAD_TICKS;
        self.ticks_known = LOAD_TICKS.min(self.ticks_known + 1);
        let load = self.mean_load();
        self.most.raise(at_s, load);
        self.up_loads.truncate(DRAINED_TICKS - 1);
        self.up_loads.push_front(load.up);
        self.free_since_s = PerDirection::from_fn(|x| {
            // A packet alone may take up more than its share of a tick.
            let of_tick = bytes[x] as f64;
            let burst = if of_tick > FULL_FRAME_BYTES { of_tick * TICKS_PER_SECOND } else { 0.0 };
            (load[x].max(burst) <= self.light(x)).then(|| self.free_since_s[x].unwrap_or(at_s))
        });
    }

    /// Whether each direction carries so little that nothing waits there.
    pub fn carries_little(&self) -> bool {
        self.free_since_s.both().into_iter().all(Option::is_some)
    }

    /// The load that may have left a queue. What enters a modem may be queued for seconds: the highest load of that time counts. A queue at the provider
    /// sends all the time: the lowest tick of half a second shows whether it was empty for once.
    fn load(&self) -> Load {
        let known = &self.ticks.down[..self.ticks_known];
        let least = known.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let up = self.up_loads.iter().copied().fold(0.0, f64::max);
        PerDirection { up, down: least * TICKS_PER_SECOND }
    }

    fn mean_load(&self) -> Load {
        let known = self.ticks_known.max(1) as f64;
        PerDirection::from_fn(|x| self.ticks[x].iter().sum::<f64>() * TICKS_PER_SECOND / known)
    }

    /// Whether nothing waits on a line that carries this.
    fn is_light(&self, load: Load) -> bool {
        Direction::ALL.into_iter().all(|x| load[x] <= self.light(x))
    }

    /// The most that a direction carries while nothing waits in it, bytes per second. An unknown rate may have fallen to a part of what passed, or that
    /// filled a buffer.
    fn light(&self, x: Direction) -> f64 {
        self.rates[x].map_or((SLIGHT * self.most.most(x)).max(LITTLE), |rate| light(rate.value))
    }

    /// The outside replied. Returns how long the request waited on the uplink and the reply in the downlink's buffer, seconds: a clock tells that of the
    /// reply, or nothing waits the other way. What little the uplink carries beside a download are its ACKs: who lowers the download shortens their queue too.
    pub fn reply(&mut self, reply: &Reply) -> PerDirection<Option<f64>> {
        let Some(delay_s) = sane(reply.delay_s) else { return PerDirection::default() };
        // A line that lets bursts pass sends a packet at once.
        let delay_s = (delay_s - self.on_line_s(reply.request_bytes.into())).max(0.0);
        let (at_s, load) = (self.at_s, self.load());
        let is_light = self.is_light(load);
        let base = self.far.entry(reply.end, || Base::new(at_s));
        let before_s = base.least().delay_s;
        if before_s.is_finite() && before_s - delay_s > NOTICED_S {
            // A queue hid in that base: what passed meanwhile has not passed freely.
            self.carried = TwoPeriods::default();
        }
        base.see(at_s, delay_s, load);
        base.was_met_free |= is_light;
        self.replies.count += 1;
        self.replies.longest_s = self.replies.longest_s.max(delay_s - held_s(reply) - base.least().delay_s);
        // What stood there has drained by then.
        let is_free =
            self.free_since_s.map(|since_s| since_s.is_some_and(|since_s| at_s - since_s >= HEARD_S));
        let is_prompt = !reply.may_be_held && !reply.is_relayed;
        let route_s = base.route(delay_s, is_free.up && is_free.down && is_prompt);
        let waits_s = (delay_s - route_s).max(0.0);
        let told_s = |is_free: bool, waits_s: f64| {
            reply.down_s.or(is_free.then_some(waits_s)).filter(|_| !reply.is_relayed)
        };
        let up = told_s(is_free.down, 0.0).map(|down_s| (waits_s - down_s).max(0.0));
        self.heard.entry(reply.end).or_default().hear(at_s, delay_s, up, reply);
        PerDirection { up, down: told_s(is_free.up || self.mean_load().up <= SLIGHT * load.down, waits_s) }
    }

    /// Whether a far end has ever replied on a line without a queue. Before that, what it takes by itself may be a queue.
    pub fn was_met_free(&self, end: u32) -> bool {
        self.far.get(&end).is_some_and(|base| base.was_met_free)
    }

    /// The least that requests waited on the uplink within the last second, seconds; `None` if too few replies tell.
    pub fn least_up_s(&self) -> Option<f64> {
        let waits: Vec<f64> = self.of_last_second().filter_map(|reply| reply.up_s).collect();
        waits.iter().copied().reduce(f64::min).filter(|_| waits.len() >= FEW)
    }

    /// What far ends replied within the last second.
    fn of_last_second(&self) -> impl Iterator<Item = &Timed> {
        let replies = self.heard.values().flat_map(|heard| &heard.0);
        replies.filter(|reply| self.at_s - reply.at_s < BLIND.as_secs_f64())
    }

    /// A host at home replied to what is no TCP.
    pub fn home_reply(&mut self, reply: &Reply) {
        let Some(delay_s) = sane(reply.delay_s) else { return };
        let at_s = self.at_s;
        self.home.entry(reply.end, || Base::new(at_s)).see(at_s, delay_s, Load::default());
        self.heard_at_home.entry(reply.end).or_default().hear(at_s, delay_s, None, reply);
    }

    /// A packet's own time on the uplink, seconds; 0 while the rate is unknown.
    fn on_line_s(&self, bytes: f64) -> f64 {
        self.rates.up.map_or(0.0, |rate| bytes / rate.value.max(1.0))
    }

    /// The budget of the time since the last one.
    pub fn budget(&mut self, reading: &Reading<'_>) -> Budget {
        let seconds = self.at_s - self.budget_at_s.replace(self.at_s).unwrap_or(self.at_s);
        let load =
            std::mem::take(&mut self.passed).map(|bytes| if seconds > 0.0 { bytes / seconds } else { 0.0 });
        let (up, down, beyond) = self.outside(reading, load);
        self.rates = reading.rates;
        let own = reading.own_s.up.zip(reading.own_s.down).and_then(|(up, down)| sane(up + down));
        let gateway =
            own.map(|queue_s| Delay { base_s: 0.0, queue_s, uncertainty_s: MEASURED_WITHIN * queue_s });
        let home = self.at_home(reading);
        let segments = [home.part, gateway.ok_or(Unknown::NotRead), up, down, beyond.part];
        let may_wait_s = home.may_wait_s.max(beyond.may_wait_s);
        Budget { segments, home_host: home.whose, far_host: beyond.whose, may_wait_s }
    }

    /// Uplink, downlink and what is beyond; `load`: of the whole second.
    fn outside(&mut self, reading: &Reading<'_>, load: Load) -> (Part, Part, Slowest) {
        let ends = self.far_ends(reading);
        let is_full = PerDirection::from_fn(|x: Direction| {
            let rate = reading.rates[x].filter(|rate| rate.provenance != Provenance::Learnt);
            rate.is_some_and(|rate| load[x] >= MOST * rate.value)
        });
        let found = line(&ends, is_full);
        // What waits in our own queue has not reached the line.
        let own_s = reading.own_s.up.unwrap_or(0.0);
        self.note_free(found.map_or(f64::INFINITY, |line| line.grown_s + own_s), load);
        let Some(mut line) = found else {
            let why = Unknown::NoReplies;
            return (Err(why), Err(why), Slowest::unknown(why));
        };
        let is_short = line.wait.most_s < NOTICED_S;
        let is_known = (is_short && self.is_heard_now(reading)) || (line.is_sure && line.wait.least_s > 0.0);
        let doubt = (!is_known).then(|| match ends.iter().any(|far| far.is_proven) {
            _ if is_short => Unknown::NoReplies,
            false => Unknown::NoBase,
            true if !line.is_sure => Unknown::OneEnd,
            // Each reply may be late for another reason.
            true => Unknown::NoReplies,
        });
        if doubt.is_some() {
            line.wait.least_s = 0.0;
        }
        // What comes from an end that waits no longer than ever met no other queue. One whose base was forgotten has none.
        let is_free =
            |far: &&Far| far.is_steady && far.end.base_s.is_finite() && far.end.wait.most_s < NO_QUEUE_S;
        for far in ends.iter().filter(is_free) {
            self.far.entry(far.end.number, || Base::new(self.at_s)).prove(line.wait.most_s);
        }
        let line_s = line.wait.delay(0.0).queue_s;
        let beyond = |far: Far| {
            let hidden_s = if far.is_proven { 0.0 } else { far.hidden_s };
            let most_s = far.wait().most_s - line.wait.least_s;
            let least_s = if far.is_steady { far.end.wait.least_s - line.ever_s } else { 0.0 };
            let likely_s = far.end.wait.likely_s + hidden_s - line_s;
            EndWait { wait: WaitBounds { least_s, likely_s, most_s }.and(WaitBounds::ANY), ..far.end }
        };
        let beyond = slowest(&ends.into_iter().map(beyond).collect::<Vec<_>>());
        if let Some(why) = doubt {
            // However much waits on the line: what an end waits on top of that waits beyond. Only if that is more, it is the longest wait.
            let is_longer = |delay: Delay| delay.queue_s - delay.uncertainty_s > line.wait.most_s;
            let is_certain = beyond.part.is_ok_and(is_longer);
            return (Err(why), Err(why), if is_certain { beyond } else { Slowest::unknown(why) });
        }
        // A direction is full that carries its rate; without one, if nothing waits in the other.
        let is_free = PerDirection::from_fn(|x| self.is_free_in(x, load));
        let holds_it = PerDirection::from_fn(|x| is_full[x] || (!is_free[x] && is_free[x.opposite()]));
        let (up, down) = divide(&line, reading, holds_it);
        (up, down, beyond)
    }

    /// Whether a far end has told of the present. While much passes, a queue grows within a second.
    fn is_heard_now(&self, reading: &Reading<'_>) -> bool {
        self.carries_little()
            || reading.far.iter().any(|flow| flow.rtt.is_some())
            || self.of_last_second().next().is_some()
    }

    /// Learns what the line carries while nothing waits on it: in this second and in the next, whose replies may tell of a burst at its end.
    fn note_free(&mut self, waits_s: f64, load: Load) {
        let SecondReplies { count, longest_s } = std::mem::take(&mut self.replies);
        let is_free = count >= FEW && waits_s.max(longest_s) < NOTICED_S;
        let before = std::mem::replace(&mut self.free_before, is_free.then_some(load));
        self.carried.raise(self.at_s, before.filter(|_| is_free).unwrap_or_default());
    }

    /// Whether nothing waits in a direction that carries this for a second: it has carried as much while nothing waited, or little of its rate.
    fn is_free_in(&self, x: Direction, load: Load) -> bool {
        load[x] <= light(self.rates[x].map_or(0.0, |rate| rate.value)).max(self.carried.most(x))
    }

    /// The far ends that replied, or were sent data.
    fn far_ends(&mut self, reading: &Reading<'_>) -> Vec<Far> {
        let (at_s, load, on_line_s) = (self.at_s, self.load(), self.on_line_s(FULL_FRAME_BYTES));
        let own_s = reading.own_s.up.unwrap_or(0.0);
        let mut flows = by_end(reading.far);
        forget(&mut self.heard, at_s);
        let mut heard = self.heard.clone();
        for (end, (_, rtts)) in &flows {
            heard.entry(*end).or_default();
            let base = self.far.entry(*end, || Base::new(at_s));
            rtts.iter().for_each(|rtt| base.see(at_s, rtt.base_s, load));
        }
        let far = |(number, heard): (u32, Heard)| {
            let least = self.far.get(&number).map_or_else(Least::default, Base::least);
            let (packets, rtts) = flows.remove(&number).unwrap_or_default();
            let (wait, down_s) = heard.wait(least.delay_s);
            let samples = rtts.iter().map(|rtt| rtt.samples as usize).max().unwrap_or(0);
            let is_steady = heard.0.len().max(samples) >= FEW;
            let bounds =
                rtts.into_iter().map(|rtt| WaitBounds::of_flow(rtt, least.delay_s, own_s, on_line_s));
            let wait = bounds.fold(wait, WaitBounds::and);
            let packets = packets.max(heard.per_second());
            let end = EndWait { number, base_s: least.delay_s, wait, packets };
            let was_light = self.is_light(least.load);
            let hidden_s = if was_light { 0.0 } else { least.hidden_s };
            let is_slight = wait.most_s.is_finite() && hidden_s <= SLIGHT * wait.most_s;
            let slow_s = heard.slow_s(least.delay_s) + hidden_s;
            Far { end, hidden_s, slow_s, is_proven: hidden_s < NO_QUEUE_S || is_slight, is_steady, down_s }
        };
        heard.into_iter().map(far).collect()
    }

    fn at_home(&mut self, reading: &Reading<'_>) -> Slowest {
        let (at_s, own_s) = (self.at_s, reading.own_s.down.unwrap_or(0.0));
        let mut flows = by_end(reading.home);
        forget(&mut self.heard_at_home, at_s);
        for number in self.heard_at_home.keys() {
            flows.entry(*number).or_default();
        }
        let mut ends = Vec::new();
        for (number, (packets, rtts)) in flows {
            let base = self.home.entry(number, || Base::new(at_s));
            rtts.iter().for_each(|rtt| base.see(at_s, rtt.base_s.min(rtt.least_s), Load::default()));
            let base_s = base.least().delay_s;
            let heard = self.heard_at_home.get(&number);
            let wait = heard.map_or(WaitBounds::ANY, |heard| heard.wait(base_s).0.less(own_s));
            // One that thinks is no host behind a queue.
            let is_steady = heard.is_some_and(|heard| heard.0.len() >= FEW);
            let wait = if is_steady { wait } else { WaitBounds { least_s: 0.0, ..wait } };
            let bounds = rtts.iter().map(|rtt| WaitBounds::of_flow(*rtt, base_s, own_s, 0.0));
            let replies = heard.map_or(0, Heard::per_second);
            let packets = rtts.iter().map(|rtt| rtt.samples).sum::<u32>().max(packets).max(replies);
            ends.push(EndWait { number, base_s, wait: bounds.fold(wait, WaitBounds::and), packets });
        }
        slowest(&ends)
    }
}

/// The most that a direction of this rate carries while nothing waits in it; both in bytes per second.
fn light(rate: f64) -> f64 {
    (HALF * rate).max(LITTLE)
}

/// Replies of long ago tell nothing. Who replies late replies seldom: some round trips count, if they take no more than twice as long.
fn forget(heard: &mut BTreeMap<u32, Heard>, at_s: f64) {
    let counts_s = |reply: &Timed| ((FEW + 1) as f64 * reply.delay_s).clamp(HEARD_S, HEARD_S / HALF);
    heard.values_mut().for_each(|heard| heard.0.retain(|reply| at_s - reply.at_s < counts_s(reply)));
    heard.retain(|_, heard| !heard.0.is_empty());
}

/// Packets and RTT of each end's flows.
fn by_end(flows: &[TimedFlow]) -> BTreeMap<u32, (u32, Vec<FlowRtt>)> {
    let mut ends = BTreeMap::<u32, (u32, Vec<FlowRtt>)>::new();
    for flow in flows {
        let (packets, rtts) = ends.entry(flow.end).or_default();
        *packets += flow.packets;
        rtts.extend(flow.rtt.filter(|rtt| sane(rtt.base_s).and(sane(rtt.least_s)).is_some()));
    }
    ends
}

/// What waits on the line: no more than the end that waits least, with all that may hide in its base; `None` if no end replied. That other ends wait
/// about as long shows that it is the line, whatever hides in their bases.
fn line(ends: &[Far], is_full: PerDirection<bool>) -> Option<Line> {
    let heard = || ends.iter().filter(|far| far.end.wait.most_s.is_finite());
    let least = heard().min_by(|a, b| a.wait().most_s.total_cmp(&b.wait().most_s))?;
    let most_s = least.wait().most_s;
    let is_alike = |a_s: f64, b_s: f64| a_s <= (1.0 + MEASURED_WITHIN) * b_s + NO_QUEUE_S;
    let agrees = |wait: WaitBounds| {
        let shown_s = if wait.least_s > 0.0 { wait.least_s } else { wait.most_s };
        is_alike(shown_s, least.end.wait.most_s) && is_alike(least.end.wait.most_s, wait.most_s)
    };
    let agree = || ends.iter().filter(|far| agrees(far.end.wait));
    let least_s = agree().map(|far| far.end.wait.least_s).fold(0.0, f64::max).min(most_s);
    let is_sure = agree().count() > 1 || is_full.up || is_full.down;
    // The packets of all of them wait before the downlink.
    let down_s = least.down_s.or_else(|| agree().filter_map(|far| far.down_s).reduce(f64::min));
    let ever_s = if is_sure { most_s } else { most_s.max(least.slow_s) };
    let wait = WaitBounds { least_s, ..least.wait() };
    Some(Line { wait, grown_s: least.end.wait.most_s, down_s, is_sure, ever_s })
}

/// The line's wait, by direction.
fn divide(line: &Line, reading: &Reading<'_>, holds_it: PerDirection<bool>) -> (Part, Part) {
    let Delay { queue_s: line_s, uncertainty_s: line_uncertainty_s, .. } = line.wait.delay(0.0);
    let delay = |queue_s: f64, uncertainty_s: f64| Ok(Delay { base_s: 0.0, queue_s, uncertainty_s });
    let by_clock = line.down_s.map(|down_s| (down_s, 0.0));
    let by_level = || reading.hidden.down.map(|hidden| (hidden.wait_s, hidden.uncertainty_s));
    let by_load = || match (holds_it.up, holds_it.down) {
        (true, false) => Some((0.0, 0.0)),
        (false, true) => Some((line_s, 0.0)),
        _ => None,
    };
    let known = by_clock.or_else(by_load).or_else(by_level).filter(|_| line.is_sure);
    let Some((down_s, uncertainty_s)) = known else {
        // However little it is, it may be in either.
        let part = if line.wait.most_s < NOTICED_S {
            delay(0.0, NO_QUEUE_S + line.wait.most_s)
        } else {
            Err(Unknown::Undivided)
        };
        return (part, part);
    };
    let down_s = down_s.clamp(0.0, line_s);
    let uncertainty_s = line_uncertainty_s + uncertainty_s.min(line_s);
    (delay(line_s - down_s, uncertainty_s), delay(down_s, uncertainty_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::Segment;

    mod by_hand;

    const RATE: f64 = 25_000.0;

    /// A line whose rate is known, and replies with what their requests waited in our own queue taken off.
    struct RatedLine {
        tracker: DelayTracker,
        at_s: f64,
    }

    impl RatedLine {
        fn new() -> Self {
            let rate = Some(Known::config(RATE));
            let rates = PerDirection { up: rate, down: rate };
            let mut tracker = DelayTracker::default();
            tracker.budget(&Reading { rates, ..Reading::default() });
            Self { tracker, at_s: 0.0 }
        }

        fn tick(&mut self, up: u64) {
            self.tick_both(up, 0);
        }

        fn tick_both(&mut self, up: u64, down: u64) {
            self.at_s += 0.1;
            self.tracker.tick(self.at_s, PerDirection { up, down });
        }

        fn hear(&mut self, end: u32, delay_s: f64, down_s: Option<f64>) -> Option<f64> {
            let (may_be_held, is_relayed) = (false, false);
            self.tracker.reply(&Reply { end, request_bytes: 0, delay_s, down_s, may_be_held, is_relayed }).up
        }

        /// The wait on a busy uplink, if the downlink's is known.
        fn busy(&mut self, delay_s: f64, down_s: f64) -> f64 {
            self.tick(2_500);
            self.hear(7, delay_s, Some(down_s)).expect("known")
        }

        /// Seconds in which so many bytes leave in each tick, and replies of one end take so long.
        fn run(&mut self, seconds: usize, bytes: u64, delay_s: f64) -> Option<f64> {
            for _ in 0..seconds * 10 {
                self.tick(bytes);
                self.hear(7, delay_s, Some(0.0));
            }
            self.tracker.least_up_s()
        }
    }

    #[test]
    fn what_waits_on_a_busy_uplink_shows() {
        let mut line = RatedLine::new();
        assert_eq!(line.run(3, 100, 0.04), Some(0.0));
        let waits = line.run(4, 2_500, 0.34).expect("replies");
        assert!((waits - 0.3).abs() < 1e-9, "{waits}");
        // The queue at the provider is not it.
        assert!((0..20).all(|_| line.busy(0.34, 0.3) < 1e-9));
        assert!(line.tracker.least_up_s().is_some_and(|waits| waits < 1e-9));
    }

    #[test]
    fn few_replies_tell_nothing_of_a_second() {
        let mut line = RatedLine::new();
        assert_eq!(line.run(1, 2_500, 0.04), Some(0.0));
        (0..8).for_each(|_| line.tick(2_500));
        assert_eq!(line.tracker.least_up_s(), None);
        line.tick_both(2_500, 2_500);
        (0..3).for_each(|_| assert_eq!(line.hear(7, 0.05, None), None));
        assert_eq!(line.tracker.least_up_s(), None);
    }

    /// A reply without a clock: a downlink that carries little for as long as a queue may take to drain holds none.
    #[test]
    fn what_no_clock_tells_waits_on_the_uplink_while_the_downlink_carries_little() {
        for (down, expected) in [(500, Some(300)), (2_500, None)] {
            let mut line = RatedLine::new();
            assert_eq!(line.run(4, 100, 0.04), Some(0.0));
            let mut waits = None;
            for _ in 0..40 {
                line.tick_both(2_500, down);
                waits = line.hear(7, 0.34, None).map(|wait_s| (wait_s * 1e3).round() as u32);
            }
            assert_eq!(waits, expected, "{down} bytes");
        }
    }

    /// The same of a download: it is its own wait, if the uplink carries no more than its ACKs.
    #[test]
    fn what_no_clock_tells_of_a_download_waits_in_the_downlink_while_the_uplink_carries_its_acks() {
        for (up, expected) in [(1_000, Some(300)), (2_500, None)] {
            let mut line = RatedLine { tracker: DelayTracker::default(), at_s: 0.0 };
            assert_eq!(line.run(4, 100, 0.04), Some(0.0));
            let mut waits = None;
            for _ in 0..40 {
                line.tick_both(up, 12_500);
                let reply = Reply {
                    end: 7,
                    request_bytes: 0,
                    delay_s: 0.34,
                    down_s: None,
                    may_be_held: false,
                    is_relayed: false,
                };
                waits = line.tracker.reply(&reply).down.map(|wait_s| (wait_s * 1e3).round() as u32);
            }
            assert_eq!(waits, expected, "{up} bytes");
        }
    }

    /// Who is first heard behind a queue takes less as it drains, and yet longer than without it.
    #[test]
    fn who_is_first_heard_behind_a_queue_was_not_met_without_one() {
        let mut line = RatedLine { tracker: DelayTracker::default(), at_s: 0.0 };
        assert!(!line.tracker.was_met_free(7), "never heard");
        line.run(3, 2_500, 0.54);
        line.run(1, 1_250, 0.34);
        assert!(!line.tracker.was_met_free(7));
        // What was queued has drained.
        line.run(4, 100, 0.04);
        assert!(line.tracker.was_met_free(7));
        line.run(10, 2_500, 0.54);
        assert!(line.tracker.was_met_free(7), "once is enough");
    }

    /// The rate is unknown, and falls to a half while it is used up: the queue that grows is no longer route.
    #[test]
    fn half_of_what_was_carried_is_not_little_of_an_unknown_rate() {
        let mut line = RatedLine { tracker: DelayTracker::default(), at_s: 0.0 };
        assert_eq!(line.run(4, 100, 0.04), Some(0.0));
        line.run(5, 2_500, 0.04);
        let waits = line.run(8, 1_250, 0.54).expect("replies");
        assert!((waits - 0.5).abs() < 1e-9, "{waits}");
    }

    /// The same for longer than a base is remembered: the queue that never drained is no base.
    #[test]
    fn a_queue_that_stands_longer_than_memory_is_not_taken_for_the_route() {
        let mut line = RatedLine { tracker: DelayTracker::default(), at_s: 0.0 };
        let mut denied = |seconds, bytes, delay_s| {
            let is_denied = |_: &usize| {
                line.run(1, bytes, delay_s);
                let part = line.tracker.budget(&Reading::default()).part(Segment::Uplink);
                part.is_ok_and(|delay| delay.queue_s < 0.1)
            };
            (0..seconds).filter(is_denied).collect::<Vec<_>>()
        };
        assert!(!denied(60, 100, 0.04).is_empty());
        assert!(!denied(60, 2_500, 0.04).is_empty());
        // The newest replies are told from those before.
        denied(5, 1_250, 0.54);
        let when = denied(1_500, 1_250, 0.54);
        assert!(when.is_empty(), "{when:?}");
    }

    /// An upload begins with a burst that fills the modem, of a rate that nobody told. Who is first heard behind that queue proves no base, and nothing
    /// waits beyond on his word.
    #[test]
    fn a_burst_into_the_modem_is_no_rate_that_the_line_has_carried() {
        let mut line = RatedLine { tracker: DelayTracker::default(), at_s: 0.0 };
        assert_eq!(line.run(4, 100, 0.04), Some(0.0));
        // A line of 12.5 kB in a tick.
        line.run(1, 25_000, 0.54);
        line.run(3, 12_500, 0.94);
        line.tracker.budget(&Reading::default());
        for _ in 0..40 {
            line.tick(12_500);
            line.hear(7, 0.94, None);
            line.hear(8, 0.94, None);
        }
        let budget = line.tracker.budget(&Reading::default());
        assert!(budget.part(Segment::Beyond).is_err(), "{budget:?}");
        assert!(budget.part(Segment::Uplink).is_err(), "{budget:?}");
    }

    /// At a download's start a quarter of a second waits at the provider, and the estimate of that is too high by a fifth; the time in our own queue
    /// as well. A reply comes at once, although the packet before it waited for 8 ms.
    #[test]
    fn a_queue_elsewhere_that_was_reported_too_long_is_no_wait_here() {
        let mut line = RatedLine::new();
        line.busy(0.24, 0.24);
        line.busy(0.04, 0.06);
        for down_s in [0.0, 0.01, 0.02, 0.03] {
            let waits = line.busy(0.04 + down_s, down_s);
            assert!(waits < 0.01, "{waits}");
        }
        let waits = line.busy(0.12, 0.0);
        assert!((0.07..0.081).contains(&waits), "{waits}");
        line.busy(0.04, 0.008);
        for (delay_s, down_s) in [(0.041, 0.0), (0.05, 0.01), (0.09, 0.05)] {
            let waits = line.busy(delay_s, down_s);
            assert!(waits <= 0.0011, "{waits}");
        }
    }

    /// A handshake takes 20 ms, and the first answer to data comes only after a burst of it has waited for 300 ms.
    #[test]
    fn a_handshake_bounds_what_the_first_burst_meets() {
        let mut line = RatedLine::new();
        line.tick(2_500);
        assert_eq!(line.hear(7, 0.02, None), None);
        assert!((line.busy(0.32, 0.0) - 0.3).abs() < 1e-9);
        let other = line.hear(8, 0.32, Some(0.0));
        assert_eq!(other, Some(0.0), "nothing is known of another end");
    }

    /// Three seconds without load show it; a pause after a burst shows what still waits, and so do replies that are late for another reason.
    #[test]
    fn a_longer_route_is_no_queue() {
        let mut line = RatedLine::new();
        line.run(3, 100, 0.04);
        let late = Reply {
            end: 7,
            request_bytes: 0,
            delay_s: 0.24,
            down_s: Some(0.0),
            may_be_held: false,
            is_relayed: false,
        };
        for late in [Reply { may_be_held: true, ..late }, Reply { is_relayed: true, ..late }] {
            line.tick(100);
            line.tracker.reply(&late);
        }
        let waits = line.run(3, 2_500, 0.24).expect("replies");
        assert!((waits - 0.2).abs() < 1e-9, "{waits}");
        let waits = line.run(2, 100, 0.24).expect("replies");
        assert!((waits - 0.2).abs() < 1e-9, "{waits}");
        assert_eq!(line.run(3, 100, 0.24), Some(0.0));
        assert_eq!(line.run(3, 2_500, 0.24), Some(0.0));
        // An hour of load makes no queue a route.
        let waits = line.run(3_600, 2_500, 0.54).expect("replies");
        assert!((waits - 0.3).abs() < 1e-9, "{waits}");
    }

    /// A torrent: 5,000 other ends reply once each while one is heard on.
    #[test]
    fn many_ends_do_not_wipe_what_is_known_of_one() {
        let mut line = RatedLine::new();
        line.run(3, 2_500, 0.04);
        for other in 0..5_000 {
            line.hear(1_000 + other, 0.04, Some(0.0));
            if other % 1_000 == 0 {
                let waits = line.hear(7, 0.34, Some(0.0)).expect("known");
                assert!((waits - 0.3).abs() < 1e-9, "{waits} s after {other} ends");
            }
        }
    }
}
