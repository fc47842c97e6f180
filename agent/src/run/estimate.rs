//! The buffers that no qdisc of this machine holds, from what passes the WAN device: 000 Eq. 1, `docs/design/observer.md`.
//!
//! The kernel side keeps what passes by time and which of it answers what ([`Passage`]). Where the uplink's queue is the gateway's own, the
//! time that a question spent in it is taken off before ([`OwnQueue`](super::own_queue::OwnQueue)); the rest is the model's work ([`Observer`]), the same as for a capture.

use std::collections::VecDeque;
use std::time::Duration;

use pendulum_model::observer::{Answer, End, Observer, Passing, Trust, Vantage};
use pendulum_model::sample::{MeasuredRate, QueueSample};
use pendulum_model::segment::{Direction, PerDirection};

use crate::bpf::{Arrival, BUCKET, Passage};

pub(super) const BUCKET_NS: u64 = BUCKET.as_nanos() as u64;

/// How far back levels are kept, in buckets: longer than any packet waits in a buffer.
pub(super) const BUCKETS: usize = 2048;

/// How long the level of a hidden uplink buffer waits for answers, which set it right.
const LAG: Duration = Duration::from_millis(500);

/// Lengths come in steps of this many bytes.
const LENGTH_STEP: u32 = 16;

/// What is known of the link otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownLink {
    /// Its rates, bytes per second, if the user gave them.
    pub rates: PerDirection<Option<f64>>,
    /// What a question's own time on the uplink follows from, bytes per second; `None` if that is not known, or part of its time in our own
    /// queue, because that shapes (a token bucket holds a packet until its time on the link is over).
    pub question_rate: Option<f64>,
    /// Share of the uplink's bytes that repeat what passed before, 0 to 1.
    pub repeated: f64,
}

/// Both buffers of a link, as far as no qdisc of this machine tells.
#[derive(Debug)]
pub struct LinkEstimate {
    pub(super) observer: Observer,
    /// Where the uplink's buffer stands.
    pub(super) vantage: Vantage,
    known: PerDirection<Known>,
    repeated: f64,
    /// Everything before was read.
    read_to_ns: u64,
    /// Of what passed before nothing was read: what stands in the buffers is not known until somebody has answered what was asked since.
    unread_to_ns: Option<u64>,
}

/// The newest levels of one buffer.
#[derive(Debug, Default)]
struct Known {
    /// Number of the bucket after the newest known one.
    next: u64,
    /// Oldest first.
    levels: VecDeque<Option<QueueSample>>,
}

/// One buffer of a [`LinkEstimate`].
#[derive(Clone, Copy, Debug)]
pub struct Estimate<'a> {
    of: &'a LinkEstimate,
    direction: Direction,
}

impl LinkEstimate {
    /// From `start_ns` of the monotonic clock on.
    pub fn new(start_ns: u64, vantage: Vantage) -> Self {
        let number = start_ns / BUCKET_NS;
        Self {
            observer: Observer::new(number * BUCKET_NS, vantage, LAG),
            vantage,
            known: PerDirection::from_fn(|_| Known { next: number, levels: VecDeque::new() }),
            repeated: 0.0,
            read_to_ns: start_ns,
            unread_to_ns: None,
        }
    }

    /// What is known otherwise, from now on.
    pub fn tell(&mut self, known: &KnownLink) {
        self.observer.set_rates(known.rates, known.question_rate);
        self.repeated = known.repeated.clamp(0.0, 1.0);
    }

    /// Something passed. `own_ns`: how long the question of its answer waited in our own queue, 0 if that is not the uplink's buffer;
    /// `None`: that is not known, or the server may have asked others first, and the answer tells nothing.
    pub fn push(&mut self, passage: &Passage, own_ns: Option<u64>) {
        match passage {
            Passage::Up(egress) => {
                let repeated_bytes = (f64::from(egress.bytes) * self.repeated).round() as u32;
                let passing =
                    Passing { at_ns: egress.at_ns, bytes: egress.bytes, repeated_bytes, clock: None };
                self.observer.leave(&passing, None);
            }
            Passage::Down(arrival) => self.arrive(arrival, own_ns),
            // Neither buffer lies on that way.
            Passage::Home(_) => {}
        }
    }

    fn arrive(&mut self, arrival: &Arrival, own_ns: Option<u64>) {
        let answer = arrival.answer.zip(own_ns);
        let Some((answered, own_queue_ns)) = answer else {
            let passing = Passing {
                at_ns: arrival.at_ns,
                bytes: arrival.bytes,
                clock: arrival.clock,
                ..Passing::default()
            };
            self.observer.arrive(&passing, None);
            return;
        };
        if self.unread_to_ns.is_some_and(|unread_to_ns| answered.asked_ns >= unread_to_ns) {
            self.unread_to_ns = None;
        }
        // What came together with the answer came before it, for all that can be known.
        let at_ns = answered.at_ns;
        let together = beside(answered.answer_bytes, arrival.bytes);
        if let Some(bytes) = together {
            self.observer.arrive(&Passing { at_ns, bytes, ..Passing::default() }, None);
        }
        let answer = Answer {
            end: end_of(answered.end),
            delay_ns: at_ns.saturating_sub(answered.asked_ns),
            question_bytes: answered.question_bytes,
            ahead_bytes: answered.ahead_bytes,
            own_queue_ns,
        };
        let bytes = arrival.bytes - together.unwrap_or(0);
        let passing = Passing { at_ns, bytes, clock: arrival.clock, ..Passing::default() };
        self.observer.arrive(&passing, Some(&answer));
    }

    /// Everything before `read_to_ns` was reported.
    pub fn settle(&mut self, read_to_ns: u64) {
        self.read_to_ns = read_to_ns;
        self.observer.settle(read_to_ns);
        for direction in Direction::ALL {
            let known = &mut self.known[direction];
            while let Some(level) = self.observer.pop(direction) {
                known.levels.push_back(level.filter(|_| self.unread_to_ns.is_none()));
                known.next += 1;
            }
            let excess = known.levels.len().saturating_sub(BUCKETS);
            known.levels.drain(..excess);
        }
    }

    /// Begins anew at `start_ns`, after a time in which nothing was read. Delays without queue and rates stay known.
    pub fn restart(&mut self, start_ns: u64) {
        let number = start_ns / BUCKET_NS;
        self.observer.restart(number * BUCKET_NS);
        self.known = PerDirection::from_fn(|_| Known { next: number, levels: VecDeque::new() });
        self.read_to_ns = start_ns;
        self.unread_to_ns = Some(start_ns);
    }

    /// One direction's buffer; `None` if it is not estimated, because it is the gateway's own.
    pub fn of(&self, direction: Direction) -> Option<Estimate<'_>> {
        self.observer.covers(direction).then_some(Estimate { of: self, direction })
    }
}

/// One estimate for each vantage, the place at which the uplink's queue has been: it moves with each A/B interval, and what either place has learnt stays.
#[derive(Debug)]
pub struct VantageEstimates {
    /// For the place where the queue is.
    pub current: LinkEstimate,
    other: Option<LinkEstimate>,
}

impl VantageEstimates {
    /// From `start_ns` of the monotonic clock on; the queue is behind the gateway until [`Self::stand_at`].
    pub fn new(start_ns: u64) -> Self {
        Self { current: LinkEstimate::new(start_ns, Vantage::BeforeUplinkBuffer), other: None }
    }

    /// Where the queue is since `since_ns`. Returns whether it was elsewhere before.
    pub fn stand_at(&mut self, vantage: Vantage, since_ns: u64) -> bool {
        if self.current.vantage == vantage {
            return false;
        }
        let mut next = self.other.take().unwrap_or_else(|| LinkEstimate::new(since_ns, vantage));
        next.restart(since_ns);
        self.other = Some(std::mem::replace(&mut self.current, next));
        true
    }
}

impl Estimate<'_> {
    /// Number of the bucket after the newest one whose level is known: a level shows when the packets that met it have
    /// come out, or when answers have set it right.
    pub fn known_to(&self) -> u64 {
        self.of.known[self.direction].next
    }

    /// What stood in the buffer during a bucket; while that has not shown yet, what stood there last. `None` if it is not
    /// known, or too long ago.
    pub fn sample(&self, number: u64) -> Option<QueueSample> {
        let known = &self.of.known[self.direction];
        let first = known.next - known.levels.len() as u64;
        if number < known.next {
            return *known.levels.get(usize::try_from(number.checked_sub(first)?).ok()?)?;
        }
        let last = (*known.levels.back()?)?;
        Some(QueueSample { min_bytes: last.mean_bytes, max_bytes: last.mean_bytes, ..last })
    }

    /// What the estimate rests on.
    pub fn trust(&self) -> Trust {
        self.of.observer.trust(self.direction, self.of.read_to_ns)
    }

    /// The direction's rate, as measured while the buffer held a queue.
    pub fn rate(&self) -> Option<MeasuredRate> {
        self.of.observer.rate(self.direction)
    }
}

/// What came together with an answer of this length; `None` if it is nothing but the step of lengths.
fn beside(answer_bytes: u32, bytes: u32) -> Option<u32> {
    Some(bytes.saturating_sub(answer_bytes)).filter(|rest| *rest >= LENGTH_STEP)
}

fn end_of(hash: u32) -> End {
    let mut end = [0; 16];
    end[12..].copy_from_slice(&hash.to_be_bytes());
    end
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::own_queue::tests::{MS, RATE, question};
    use super::*;
    use crate::bpf::Answered;

    fn arrival(at_ns: u64, asked_ns: u64) -> Passage {
        let answer = Answered { at_ns, ..question(asked_ns) };
        Passage::Down(Arrival { at_ns, bytes: 1500, packets: 1, answer: Some(answer), clock: None })
    }

    fn known_link(up: Option<f64>) -> KnownLink {
        KnownLink { rates: PerDirection { up: None, down: Some(RATE) }, question_rate: up, repeated: 0.0 }
    }

    fn own_queue(start_ns: u64, up: Option<f64>) -> LinkEstimate {
        let mut link = LinkEstimate::new(start_ns, Vantage::OwnQueue);
        link.tell(&known_link(up));
        for i in 1..20 {
            let at = start_ns + i * 100 * MS;
            link.push(&arrival(at, at - 20 * MS), Some(0));
            link.settle(at + 50 * MS);
        }
        link
    }

    fn down(link: &LinkEstimate) -> Estimate<'_> {
        link.of(Direction::Down).expect("estimated")
    }

    /// An idle link answers after 20 ms, then a queue of 40 packets builds up and stays.
    #[test]
    fn a_queue_shows_in_the_delay_of_answers() {
        let start = 100_000 * MS;
        let mut link = own_queue(start, Some(RATE));
        assert!(link.of(Direction::Up).is_none(), "it is our own");
        assert_eq!(down(&link).trust(), Trust::Confirmed);
        let burst = start + 2000 * MS;
        // The link is full: a packet every 5 ms. The question waited 300 ms at home, and its answer 200 ms in the buffer.
        for i in 0..400 {
            let at = burst + i * 5 * MS;
            let waited = (i * 5).min(200);
            link.push(&arrival(at, at - (20 + waited + 300) * MS), Some(300 * MS));
            link.settle(at);
        }
        let newest = down(&link).known_to() - 1;
        let level = down(&link).sample(newest - 5).expect("known").mean_bytes;
        assert!((level - 60_000.0).abs() < 3_000.0, "{level}");
        assert!(down(&link).sample(newest + 50).is_some(), "carried on");
        assert!(down(&link).sample(burst / (10 * MS) - 10).expect("known").max_bytes < 3_000.0);
    }

    #[test]
    fn what_comes_with_an_answer_is_told_from_the_step_of_its_length() {
        for (bytes, expected) in
            [(64, None), (1_488, None), (1_503, None), (1_504, Some(16)), (3_000, Some(1_512))]
        {
            assert_eq!(beside(1_488, bytes), expected, "{bytes}");
        }
    }

    /// The link stops for 40 ms while 200 ms stand in the buffer: that is no idle link.
    #[test]
    fn a_pause_of_the_link_does_not_empty_the_buffer() {
        let start = 100_000 * MS;
        let mut link = own_queue(start, None);
        let burst = start + 2000 * MS;
        let mut pause = 0;
        for i in 0..200 {
            pause += if i == 100 { 40 } else { 0 };
            let at = burst + (i * 5 + pause) * MS;
            let waited = (i * 5).min(200) + if i < 140 { pause } else { 0 };
            link.push(&arrival(at, at - (20 + waited) * MS), Some(0));
            link.settle(at);
        }
        // Just after the pause, before a packet that came in since has come out.
        let number = (burst + (110 * 5 + 40) * MS) / (10 * MS);
        let level = down(&link).sample(number).expect("known").mean_bytes;
        assert!((level - 60_000.0).abs() < 6_000.0, "{level}");
    }

    /// The buffer may have filled while nobody looked: no answer, no level.
    #[test]
    fn after_a_time_in_which_nothing_was_read_an_answer_is_needed() {
        let start = 100_000 * MS;
        let mut link = own_queue(start, Some(RATE));
        let again = start + 20_000 * MS;
        link.restart(again);
        for i in 1..10 {
            let at = again + i * 100 * MS;
            // Asked before, so that nobody knows what it met.
            let asked = if i < 6 { again - 50 * MS } else { at - 20 * MS };
            link.push(&arrival(at, asked), Some(0));
            link.settle(at + 50 * MS);
            assert_eq!(down(&link).sample(down(&link).known_to()).is_some(), i >= 6, "answer {i}");
        }
    }

    /// Packets of 1500 bytes enter a modem of 300 bytes per millisecond every 4 ms until 200 ms of work stand in it, then every 5 ms.
    /// Answers come 20 ms after they have left, with their sender's time; no rates are configured.
    pub(in super::super) fn fill_a_modem(link: &mut LinkEstimate, start: u64) {
        link.tell(&KnownLink::default());
        // A packet each 100 ms: answered at once.
        let sparse = (0..20).map(|i| (start + i * 100 * MS, 5));
        let filling = (0..200).map(|i| (start + 2000 * MS + i * 4 * MS, 5 + i));
        let full = (0..5000).map(|i| (start + 2800 * MS + i * 5 * MS, 205));
        let mut events: Vec<(u64, Passage)> = Vec::new();
        for (entered, served_ms) in sparse.chain(filling).chain(full) {
            let egress = crate::bpf::Egress { at_ns: entered, bytes: 1500, packets: 1 };
            events.push((entered, Passage::Up(egress)));
            let at_ns = entered + (20 + served_ms) * MS;
            let answer =
                Answered { end: 1, at_ns, question_bytes: 1500, answer_bytes: 64, ..question(entered) };
            // Its sender stamps it in milliseconds, 10 ms before it comes.
            let clock = Some((7, (at_ns / MS) as u32 - 10));
            let back = Arrival { at_ns, bytes: 66, packets: 1, answer: Some(answer), clock };
            events.push((at_ns, Passage::Down(back)));
        }
        events.sort_by_key(|(at_ns, _)| *at_ns);
        for (at_ns, passage) in &events {
            link.push(passage, Some(0));
            link.settle(*at_ns);
        }
    }

    #[test]
    fn what_stands_in_a_modem_is_found_without_its_rate() {
        let start = 100_000 * MS;
        let mut link = LinkEstimate::new(start, Vantage::BeforeUplinkBuffer);
        fill_a_modem(&mut link, start);
        let up = link.of(Direction::Up).expect("hidden");
        let level = up.sample(up.known_to() - 1).expect("known");
        // 40 packets of 5 ms: 60,000 bytes.
        assert!((level.mean_bytes - 60_000.0).abs() < 3_000.0, "{level:?}");
        assert!((level.mean_bytes - 60_000.0).abs() <= level.uncertainty_bytes, "{level:?}");
        let rate = up.rate().expect("measured").bytes_per_second;
        assert!((rate / RATE - 1.0).abs() < 0.05, "{rate}");
        let base = link.observer.base_round_trip().expect("answers came").seconds;
        assert!((0.018..0.026).contains(&base), "{base}");
        let empty = up.sample(start / BUCKET_NS + 190);
        assert!(empty.is_none_or(|level| level.mean_bytes <= level.uncertainty_bytes + 1500.0), "{empty:?}");
    }
    /// Two A/B intervals: the modem's rate and delay are known again at once; its level is not, until somebody has answered.
    #[test]
    fn what_a_place_has_learnt_survives_intervals_at_the_other() {
        let start = 100_000 * MS;
        let mut places = VantageEstimates::new(start);
        fill_a_modem(&mut places.current, start);
        let learnt = |places: &VantageEstimates| {
            let link = &places.current;
            (
                link.of(Direction::Up).and_then(|up| up.rate()).map(|rate| rate.bytes_per_second),
                link.observer.base_round_trip(),
            )
        };
        let before = learnt(&places);
        assert!(before.0.is_some() && before.1.is_some(), "{before:?}");
        let shaped = start + 30_000 * MS;
        assert!(places.stand_at(Vantage::OwnQueue, shaped));
        assert!(!places.stand_at(Vantage::OwnQueue, shaped + MS));
        assert_eq!(learnt(&places), (None, None), "another place");
        places.current.settle(shaped + 10_000 * MS);
        assert!(places.stand_at(Vantage::BeforeUplinkBuffer, shaped + 10_000 * MS));
        let after = learnt(&places);
        let same_rate =
            after.0.zip(before.0).is_some_and(|(after, before)| (after / before - 1.0).abs() < 1e-3);
        assert!(same_rate && after.1 == before.1, "{after:?} for {before:?}");
        let up = places.current.of(Direction::Up).expect("hidden");
        assert_eq!(up.sample(up.known_to()), None);
    }
}
