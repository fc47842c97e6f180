//! The account of a queue against one worked out from when each packet came and left: levels, integrals, extremes, sojourns,
//! departures, exact to the nanosecond.

use std::collections::{BTreeMap, VecDeque};

use pendulum::bpf::abi::TIME_BOUNDS_US;
use pendulum_model::segment::Direction;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::native::{Figures, Kind, Script, Shown, TICK_NS, mark};

/// Of the ring (docs/design/queues.md, "History ring").
pub(crate) const BUCKET_NS: u64 = 10_000_000;
pub(crate) const RING: u64 = 512;
/// From TC to the tracepoint.
const TO_QUEUE_NS: u64 = 40_000;
/// More than 100 jiffies (of the harness) after the event before, a mark does not tell the time.
pub(crate) const JIFFY_NS: u64 = 4_000_000;
pub(crate) const NEAR_JIFFIES: u64 = 100;

/// The middle of a tick: what the account takes for the time of a mark.
pub(crate) const fn at(tick: u64) -> u64 {
    tick * TICK_NS + TICK_NS / 2
}

/// One packet that was, or is, in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    pub(crate) kind: Kind,
    bytes: u64,
    /// When TC marked it: a tick.
    pub(crate) marked: u64,
    came_ns: u64,
    /// A tick.
    pub(crate) left: Option<u64>,
}

impl Passage {
    fn left_ns(&self) -> Option<u64> {
        self.left.map(at)
    }

    /// As the account has it: whole ticks, whole microseconds.
    fn sojourn_us(&self) -> Option<u64> {
        Some((self.left? - self.marked) * TICK_NS / 1000)
    }

    /// In the queue just after this moment.
    fn stands(&self, ns: u64) -> bool {
        self.came_ns <= ns && self.left_ns().is_none_or(|left| left > ns)
    }
}

/// A FIFO on a device: the script of its events, and what is known of each packet.
pub(crate) struct Line {
    script: Script,
    direction: Direction,
    pub(crate) standing: VecDeque<usize>,
    pub(crate) passages: Vec<Passage>,
    /// Moments of the events.
    events: Vec<u64>,
    /// The clock at the newest one.
    clock_ns: Option<u64>,
    sent: [u64; 2],
}

impl Line {
    pub(crate) fn new(test: &str, direction: Direction) -> Option<Self> {
        let mut script = Script::new(test)?;
        script.say("qdisc 0 bfifo 0xffffffff 0");
        script.say("device 0 7 4026531840");
        script.say(format!("register {} 7 4026531840 0", direction as u32));
        let (standing, passages, events) = Default::default();
        Some(Self { script, direction, standing, passages, events, clock_ns: None, sent: [0; 2] })
    }

    fn holds(&mut self) {
        let bytes: u64 = self.standing.iter().map(|&i| self.passages[i].bytes).sum();
        self.script.say(format!("holds 0 {bytes} {}", self.standing.len()));
    }

    /// A packet comes: TC marks it in this tick.
    pub(crate) fn come(&mut self, tick: u64, kind: Kind, bytes: u64) {
        let clock_ns = at(tick) + TO_QUEUE_NS;
        let jiffies = |last| clock_ns / JIFFY_NS - last / JIFFY_NS;
        let is_near = self.clock_ns.is_some_and(|last| jiffies(last) <= NEAR_JIFFIES);
        let came_ns = if is_near { at(tick) } else { clock_ns };
        self.standing.push_back(self.passages.len());
        self.passages.push(Passage { kind, bytes, marked: tick, came_ns, left: None });
        self.events.push(came_ns);
        self.clock_ns = Some(clock_ns);
        self.script.say(format!("time {clock_ns}"));
        self.holds();
        let mark = mark(self.direction, kind, at(tick));
        self.script.say(format!("enqueue 0 0 {bytes} {mark}"));
    }

    /// Up to `count` packets leave at once, chained.
    pub(crate) fn leave(&mut self, tick: u64, count: usize) {
        let mut chain = String::new();
        let count = count.min(self.standing.len());
        for index in self.standing.drain(..count) {
            let passage = &mut self.passages[index];
            passage.left = Some(tick);
            self.sent[0] += passage.bytes;
            self.sent[1] += 1;
            chain +=
                &format!(" {} {}", passage.bytes, mark(self.direction, passage.kind, at(passage.marked)));
        }
        if count > 0 {
            self.events.push(at(tick));
            self.clock_ns = Some(at(tick));
        }
        self.script.say(format!("time {}", at(tick)));
        self.holds();
        self.script.say(format!("has_sent 0 {} {}", self.sent[0], self.sent[1]));
        self.script.say(format!("dequeue 0 0 {count}{chain}"));
    }

    pub(crate) fn show(&mut self) -> Shown {
        self.script.say(format!("show {}", self.direction as u32));
        self.script.run_once()
    }

    /// Sums over the packets of one kind (all if `None`).
    fn sum(&self, kind: Option<Kind>, of: impl Fn(&Passage) -> u64) -> u64 {
        self.passages.iter().filter(|p| kind.is_none_or(|kind| p.kind == kind)).map(of).sum()
    }

    /// ∫ level dt from `from` to `to` in byte or packet nanoseconds: what each packet adds while it stands.
    fn integral(&self, from: u64, to: u64, kind: Option<Kind>, of: impl Fn(&Passage) -> u64) -> u64 {
        self.sum(kind, |p| {
            let left = p.left_ns().unwrap_or(u64::MAX);
            of(p) * left.min(to).saturating_sub(p.came_ns.max(from))
        })
    }

    fn level(&self, ns: u64, of: impl Fn(&Passage) -> u64) -> u64 {
        self.sum(None, |p| if p.stands(ns) { of(p) } else { 0 })
    }

    /// What a bucket must say, by its number.
    fn bucket(&self, number: u64) -> BTreeMap<&'static str, u64> {
        let (start, end) = (number * BUCKET_NS, (number + 1) * BUCKET_NS);
        let inside = || self.events.iter().copied().filter(|ns| (start..end).contains(ns));
        let last = inside().max().expect("a bucket with an event");
        // The level just before the bucket, and after each of its events.
        let moments = || inside().chain([start - 1]);
        let bytes = |ns| self.level(ns, |p| p.bytes);
        let packets = |ns| self.level(ns, |_| 1);
        let longest = |kind| {
            let left =
                |p: &&Passage| p.kind == kind && p.left_ns().is_some_and(|ns| (start..=last).contains(&ns));
            self.passages.iter().filter(left).filter_map(Passage::sojourn_us).max().unwrap_or(0)
        };
        let ack = Some(Kind::Ack);
        BTreeMap::from([
            ("last_ns", last),
            ("bytes_ns", self.integral(start, last, None, |p| p.bytes)),
            ("ack_bytes_ns", self.integral(start, last, ack, |p| p.bytes)),
            ("packets_ns", self.integral(start, last, None, |_| 1)),
            ("min_bytes", moments().map(bytes).min().expect("one at least")),
            ("max_bytes", moments().map(bytes).max().expect("one at least")),
            ("min_packets", moments().map(packets).min().expect("one at least")),
            ("max_packets", moments().map(packets).max().expect("one at least")),
            ("bytes", bytes(last)),
            ("packets", packets(last)),
            ("ack_bytes", self.sum(ack, |p| if p.stands(last) { p.bytes } else { 0 })),
            ("ack_packets", self.sum(ack, |p| u64::from(p.stands(last)))),
            ("sojourn_max_us.data", longest(Kind::Data)),
            ("sojourn_max_us.ack", longest(Kind::Ack)),
        ])
    }

    /// Totals up to a moment.
    fn totals(&self, ns: u64) -> BTreeMap<String, u64> {
        let mut totals = BTreeMap::new();
        for (kind, name) in [(Kind::Data, "data"), (Kind::Ack, "ack")] {
            let left = |p: &Passage| u64::from(p.left_ns().is_some_and(|left| left <= ns));
            let came = |p: &Passage| u64::from(p.came_ns <= ns);
            let mut put = |what: &str, sum| totals.insert(format!("{what}.{name}"), sum);
            put("enqueued_bytes", self.sum(Some(kind), |p| came(p) * p.bytes));
            put("enqueued_packets", self.sum(Some(kind), came));
            put("dequeued_bytes", self.sum(Some(kind), |p| left(p) * p.bytes));
            put("dequeued_packets", self.sum(Some(kind), left));
            put("dropped_bytes", 0);
            put("dropped_packets", 0);
            put("sojourn_packets", self.sum(Some(kind), left));
            put("sojourn_sum_us", self.sum(Some(kind), |p| left(p) * p.sojourn_us().unwrap_or(0)));
        }
        totals
    }

    /// All in which the programs' account differs from this one.
    fn differences(&self, shown: &Shown) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut numbers: Vec<u64> = self.events.iter().map(|ns| ns / BUCKET_NS).collect();
        numbers.dedup();
        // A later one in the same place takes it when it is over; the newest is not.
        let open = numbers.pop().expect("an event");
        let is_kept = |n: &u64| !numbers.iter().any(|later| later > n && later % RING == n % RING);
        let kept: Vec<u64> = numbers.iter().copied().filter(is_kept).chain([open]).collect();
        let buckets: Vec<&Figures> = shown.ring.iter().chain([&shown.queue]).collect();
        let told: Vec<u64> = buckets.iter().map(|bucket| bucket.get("number")).collect();
        if told != kept {
            return vec![format!("buckets {told:?}, not {kept:?}")];
        }
        for (number, bucket) in kept.iter().zip(buckets) {
            let expected = self.bucket(*number);
            let totals = self.totals(expected["last_ns"]);
            let named = expected.iter().map(|(name, figure)| (*name, figure));
            for (name, figure) in named.chain(totals.iter().map(|(name, figure)| (name.as_str(), figure))) {
                if bucket.get(name) != *figure {
                    wrong.push(format!("bucket {number}: {name} is {}, not {figure}", bucket.get(name)));
                }
            }
        }
        for bucket in &shown.ring {
            if bucket.get("place") != bucket.get("number") % RING {
                wrong.push(format!("{bucket:?} is not in its place"));
            }
        }
        wrong.extend(self.sojourns_differ(shown));
        wrong
    }

    /// The histograms: of each packet that left, in the first slot whose bound is not below its time.
    fn sojourns_differ(&self, shown: &Shown) -> Option<String> {
        for (kind, told) in [Kind::Data, Kind::Ack].into_iter().zip(&shown.sojourns) {
            let mut slots = [0; 47];
            let times = self.passages.iter().filter(|p| p.kind == kind).filter_map(Passage::sojourn_us);
            for us in times.clone() {
                slots[TIME_BOUNDS_US.iter().position(|bound| us <= u64::from(*bound)).unwrap_or(46)] += 1;
            }
            let told = (told.get("sum_us"), told.row("slots"));
            if told != (times.sum(), slots) {
                return Some(format!("sojourns of {kind:?}: {told:?}, not {slots:?}"));
            }
        }
        None
    }
}

/// Seven packets by hand. Ticks of 250 are 1,024 µs.
#[test]
fn a_queue_worked_out_by_hand() {
    let Some(mut line) = Line::new("a_queue_worked_out_by_hand", Direction::Up) else { return };
    // Bucket 102 begins at 1.02 s, in tick 249,023: all of this lies in it.
    let t = 249_100;
    line.come(t, Kind::Data, 1000);
    line.come(t + 250, Kind::Ack, 66);
    line.come(t + 500, Kind::Data, 500);
    line.leave(t + 750, 1);
    line.leave(t + 1250, 2);
    // And this in bucket 103, which ends in tick 253,906.
    line.come(t + 3000, Kind::Ack, 54);
    line.leave(t + 3250, 1);
    let shown = line.show();
    let [bucket] = shown.ring.as_slice() else { panic!("{:?}", shown.ring) };
    assert_eq!(bucket.get("number"), 102);
    let us = 1000;
    // The first packet finds no event to tell its mark's time by: it enters by the clock, 40 µs behind TC.
    let first = 3072 - 40;
    assert_eq!(bucket.get("bytes_ns"), (1000 * first + 66 * 4096 + 500 * 3072) * us, "size · time of each");
    assert_eq!(bucket.get("ack_bytes_ns"), 66 * 4096 * us, "of ACKs alone");
    assert_eq!(bucket.get("packets_ns"), (first + 4096 + 3072) * us);
    assert_eq!((bucket.get("min_bytes"), bucket.get("max_bytes")), (0, 1566));
    assert_eq!((bucket.get("min_packets"), bucket.get("max_packets")), (0, 3));
    assert_eq!(bucket.pair("sojourn_max_us"), [3072, 4096], "the longest of each class");
    assert_eq!(bucket.pair("sojourn_sum_us"), [6144, 4096]);
    assert_eq!(bucket.level(), [0; 4]);
    let open = &shown.queue;
    assert_eq!(open.get("number"), 103);
    assert_eq!((open.get("bytes_ns"), open.get("ack_bytes_ns")), (54 * 1024 * us, 54 * 1024 * us));
    assert_eq!((open.get("min_bytes"), open.get("max_bytes")), (0, 54));
    assert_eq!(open.pair("sojourn_max_us"), [0, 1024], "of those that left in this bucket");
    assert_eq!(open.pair("sojourn_sum_us"), [6144, 5120], "totals go on");
    assert_eq!(open.pair("dequeued_packets"), [2, 2]);
    assert_eq!(open.row::<5>("events"), [0, 0, 0, 1, 0], "one qdisc was met, and nothing went wrong");
    assert_eq!(line.differences(&shown), [""; 0]);
}

/// Little's law: the integral of the level is the sum of size · time over the packets, of all and of ACKs alone.
#[test]
fn the_integral_is_size_times_time_of_every_packet() {
    let Some(mut line) = Line::new("the_integral_is_size_times_time…", Direction::Down) else { return };
    for i in 0..40 {
        let kind = if i % 3 == 0 { Kind::Ack } else { Kind::Data };
        line.come(300_000 + 700 * i, kind, 60 + 17 * i);
        if i % 4 == 3 {
            line.leave(300_000 + 700 * i + 350, 3);
        }
    }
    line.leave(400_000, 64);
    let shown = line.show();
    // From the newest event of a bucket on, its last level holds until the next one begins.
    let starts: Vec<u64> =
        shown.ring.iter().chain([&shown.queue]).map(|b| b.get("number") * BUCKET_NS).collect();
    for (name, last, kind) in [("bytes_ns", "bytes", None), ("ack_bytes_ns", "ack_bytes", Some(Kind::Ack))] {
        let between =
            shown.ring.iter().zip(&starts[1..]).map(|(b, next)| b.get(last) * (next - b.get("last_ns")));
        let within = shown.ring.iter().chain([&shown.queue]).map(|b| b.get(name));
        let sum = line.sum(kind, |p| p.bytes * (p.left_ns().expect("all left") - p.came_ns));
        assert_eq!(between.sum::<u64>() + within.sum::<u64>(), sum, "{name}");
    }
    assert_eq!(line.differences(&shown), [""; 0]);
}

/// `true`: one comes, an ACK or not, of so many bytes; else so many leave. After so many ticks.
type Step = (bool, bool, u64, usize, u64);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // No packet leaves before it has come: to the tracepoint it takes 40 µs, 10 ticks.
    let gap = prop_oneof![8 => 12_u64..4_000, 1 => 4_000_u64..90_000, 1 => 97_000_u64..300_000];
    prop::collection::vec((any::<bool>(), any::<bool>(), 54_u64..1515, 0_usize..70, gap), 1..150)
}

#[test]
fn any_passage_of_packets_is_accounted_for() {
    if Line::new("any_passage_of_packets_is_accounted_for", Direction::Up).is_none() {
        return;
    }
    // No file of failures beside the sources: what is found becomes a test of its own.
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    runner
        .run(&(any::<bool>(), steps()), |(up, steps)| {
            let direction = if up { Direction::Up } else { Direction::Down };
            let mut line = Line::new("", direction).expect("as before");
            let mut tick = 1_000_000;
            line.come(tick, Kind::Data, 100);
            for (comes, is_ack, bytes, count, gap) in steps {
                tick += gap;
                let kind = if is_ack { Kind::Ack } else { Kind::Data };
                if comes {
                    line.come(tick, kind, bytes);
                } else if !line.standing.is_empty() {
                    line.leave(tick, count.clamp(1, 64));
                }
            }
            let shown = line.show();
            let wrong = line.differences(&shown);
            prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
            prop_assert_eq!(shown.queue.row::<5>("events"), [0, 0, 0, 1, 0]);
            Ok(())
        })
        .expect("the account is exact");
}
