//! A whole link, simulated packet by packet, and what the observer tells of both buffers from one point before the uplink's.

use std::collections::HashMap;
use std::time::Duration;

use fastrand::Rng;

use super::super::{Answer, Observer, Passing, Trust, Vantage};
use crate::sample::QueueSample;
use crate::segment::{Direction, PerDirection};

const MS: f64 = 1e6;
const SECOND: f64 = 1e9;

/// A buffer and the link behind it: what stood when.
struct TestBuffer {
    /// Bytes per nanosecond.
    rate: f64,
    done_ns: f64,
    /// When each packet entered, when its service began, and its bytes.
    stays: Vec<(f64, f64, f64)>,
}

impl TestBuffer {
    fn new(bytes_per_s: f64) -> Self {
        Self { rate: bytes_per_s / 1e9, done_ns: 0.0, stays: Vec::new() }
    }

    /// A packet enters; when it has left.
    fn pass(&mut self, at_ns: f64, bytes: f64) -> f64 {
        let begins = self.done_ns.max(at_ns);
        self.done_ns = begins + bytes / self.rate;
        self.stays.push((at_ns, begins, bytes));
        self.done_ns
    }

    /// Mean bytes that waited in each interval of 10 ms.
    fn means(&self, count: usize) -> Vec<f64> {
        let mut sums = vec![0.0; count];
        for &(entered, begins, bytes) in &self.stays {
            for (at, sum) in sums.iter_mut().enumerate().skip((entered / (10.0 * MS)) as usize) {
                let from = at as f64 * 10.0 * MS;
                if from >= begins {
                    break;
                }
                *sum += bytes * (begins.min(from + 10.0 * MS) - entered.max(from)) / (10.0 * MS);
            }
        }
        sums
    }
}

/// What passes the point of observation.
#[derive(Clone, Copy)]
enum Crossing {
    Leaves(Passing),
    Arrives(Passing, Option<Answer>),
}

/// The link.
#[derive(Clone, Copy)]
struct TestLink {
    /// Bytes per second.
    up: f64,
    down: f64,
    /// Without queues, to each of two hosts.
    round_trip_ms: [f64; 2],
    has_clocks: bool,
    seconds: f64,
    /// Share of each direction's rate, in bursts and between.
    busy: PerDirection<f64>,
}

/// Times of packets of 1500 bytes: bursts above the rate and pauses below it.
fn load(rng: &mut Rng, rate: f64, share: f64, seconds: f64) -> Vec<f64> {
    let mut times = Vec::new();
    let mut at = 0.3 * SECOND;
    while at < seconds * SECOND {
        for (share, length) in [(share, 0.3 + 0.6 * rng.f64()), (0.2 * share, 0.3 + 0.6 * rng.f64())] {
            let end = at + length * SECOND;
            while at < end {
                times.push(at);
                at += 1500.0 * 1e9 / (rate * share) * (0.5 + rng.f64());
            }
        }
    }
    times
}

/// All that passes, in the order of time; levels of both buffers.
fn simulate(link: &TestLink, seed: u64) -> (Vec<Crossing>, PerDirection<Vec<f64>>) {
    let mut rng = Rng::with_seed(seed);
    // The downlink's buffer is half of the way to the nearest host away, for all hosts.
    let away_ms = link.round_trip_ms.into_iter().fold(f64::INFINITY, f64::min) / 4.0;
    let mut uplink = TestBuffer::new(link.up);
    let mut downlink = TestBuffer::new(link.down);
    let mut events: Vec<(f64, Crossing)> = Vec::new();
    // What enters the downlink's buffer: when, bytes, host, and the question that it answers.
    let mut inbound: Vec<(f64, u32, usize, Option<f64>)> = Vec::new();
    for (count, at) in load(&mut rng, link.up, link.busy.up, link.seconds).into_iter().enumerate() {
        let (at, host) = (at.floor(), count % 2);
        let done = uplink.pass(at, 1500.0);
        let passing = Passing { at_ns: at as u64, bytes: 1500, repeated_bytes: 0, clock: None };
        events.push((at, Crossing::Leaves(passing)));
        inbound.push((done + (link.round_trip_ms[host] - away_ms) * MS, 66, host, Some(at)));
    }
    for (count, at) in load(&mut rng, link.down, link.busy.down, link.seconds).into_iter().enumerate() {
        inbound.push((at, 1500, count % 2, None));
    }
    inbound.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (at, bytes, host, asked) in inbound {
        let arrived = downlink.pass(at, f64::from(bytes)) + away_ms * MS;
        let sent_ms = at / MS + 1e4;
        let clock = link.has_clocks.then_some((host as u64, sent_ms as u32));
        let passing = Passing { at_ns: arrived as u64, bytes, repeated_bytes: 0, clock };
        let answer = asked.map(|asked| Answer {
            end: [host as u8 + 1; 16],
            delay_ns: arrived as u64 - asked as u64,
            question_bytes: 1500,
            ..Answer::default()
        });
        events.push((arrived.floor(), Crossing::Arrives(passing, answer)));
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let count = (link.seconds * 100.0) as usize;
    let levels = PerDirection { up: uplink.means(count), down: downlink.means(count) };
    (events.into_iter().map(|(_, event)| event).collect(), levels)
}

/// What the observer tells.
struct Estimated {
    rows: PerDirection<Vec<Option<QueueSample>>>,
    rates: PerDirection<Option<f64>>,
    base_ms: f64,
}

fn observe(link: &TestLink, events: &[Crossing], rates: PerDirection<Option<f64>>) -> Estimated {
    let mut observer = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::from_secs(2));
    observer.set_rates(rates, None);
    let mut rows = PerDirection::<Vec<_>>::default();
    let mut last = 0;
    for event in events {
        let at_ns = match event {
            Crossing::Leaves(passing) => {
                observer.leave(passing, None);
                passing.at_ns
            }
            Crossing::Arrives(passing, answer) => {
                observer.arrive(passing, answer.as_ref());
                passing.at_ns
            }
        };
        if at_ns / 10_000_000 > last {
            last = at_ns / 10_000_000;
            observer.settle(at_ns);
            for direction in [Direction::Up, Direction::Down] {
                rows[direction].extend(std::iter::from_fn(|| observer.pop(direction)));
            }
        }
    }
    observer.finish((link.seconds * SECOND) as u64);
    for direction in [Direction::Up, Direction::Down] {
        rows[direction].extend(std::iter::from_fn(|| observer.pop(direction)));
    }
    Estimated {
        rows,
        rates: PerDirection::from_fn(|x| observer.rate(x).map(|rate| rate.bytes_per_second)),
        base_ms: observer.base_round_trip().expect("answers came").seconds * 1e3,
    }
}

/// After the first seconds: root of the mean square of the error, share of rows that are known, and share that the uncertainty covers.
fn compare(rows: &[Option<QueueSample>], truth: &[f64], from_s: usize) -> (f64, f64, f64) {
    let pairs: Vec<_> = rows.iter().zip(truth).skip(from_s * 100).collect();
    let known: Vec<_> = pairs.iter().filter_map(|(row, truth)| row.map(|row| (row, **truth))).collect();
    let errors = || known.iter().map(|(row, truth)| (row.mean_bytes - truth, row.uncertainty_bytes));
    let count = known.len() as f64;
    let rms = (errors().map(|(error, _)| error * error).sum::<f64>() / count).sqrt();
    let covered = errors().filter(|(error, most)| error.abs() <= *most).count() as f64;
    (rms, count / pairs.len() as f64, covered / count)
}

fn check(link: &TestLink, seed: u64, is_configured: bool, segments: f64) {
    let (events, levels) = simulate(link, seed);
    let rates = PerDirection { up: Some(link.up), down: Some(link.down) };
    let estimated = observe(link, &events, if is_configured { rates } else { PerDirection::default() });
    let nearest = link.round_trip_ms.into_iter().fold(f64::INFINITY, f64::min);
    let farthest = link.round_trip_ms.into_iter().fold(0.0, f64::max);
    assert!(
        (nearest - 2.0..=farthest + 6.0).contains(&estimated.base_ms),
        "{} ms for {:?}",
        estimated.base_ms,
        link.round_trip_ms
    );
    for direction in [Direction::Up, Direction::Down] {
        let (rms, known, covered) = compare(&estimated.rows[direction], &levels[direction], 20);
        let what = format!(
            "{direction:?} {} B/s, {:?} ms, seed {seed}, estimated {is_configured}",
            rates[direction].unwrap_or_default(),
            link.round_trip_ms
        );
        assert!(rms <= segments * 1500.0, "{what}: RMS {rms}");
        assert!(known >= 0.95, "{what}: known {known}");
        assert!(covered >= 0.9, "{what}: covered {covered}");
    }
    if !is_configured {
        let rate = estimated.rates.up.expect("the uplink stood for half of the time");
        assert!((rate / link.up - 1.0).abs() <= 0.05, "{rate} for {}", link.up);
    }
}

#[test]
fn both_levels_over_a_grid_of_links() {
    for (seed, (up, down)) in
        (1..).zip([(75e3, 300e3), (125e3, 1e6), (250e3, 250e3), (300e3, 300e3), (250e3, 2.5e6), (1e6, 5e6)])
    {
        for round_trip_ms in [[10.0, 10.0], [20.0, 60.0]] {
            let busy = PerDirection { up: 1.4, down: 1.3 };
            let link = TestLink { up, down, round_trip_ms, has_clocks: true, seconds: 40.0, busy };
            // Jitter of a clock is worth more bytes on a faster link.
            let segments = 2.0 + up.max(down) * 3e-3 / 1500.0;
            check(&link, seed, true, segments);
            check(&link, seed, false, segments);
        }
    }
}

#[test]
fn an_upload_alone_does_not_need_clocks() {
    for has_clocks in [true, false] {
        let busy = PerDirection { up: 1.4, down: 0.1 };
        let link =
            TestLink { up: 125e3, down: 1e6, round_trip_ms: [20.0, 60.0], has_clocks, seconds: 40.0, busy };
        check(&link, 7, true, 3.0);
    }
}

#[test]
fn without_clocks_and_both_directions_busy_both_levels_are_right_as_far_as_they_are_known() {
    let busy = PerDirection { up: 1.4, down: 1.3 };
    let link =
        TestLink { up: 125e3, down: 500e3, round_trip_ms: [20.0; 2], has_clocks: false, seconds: 40.0, busy };
    let (events, levels) = simulate(&link, 8);
    let estimated = observe(&link, &events, PerDirection { up: Some(link.up), down: Some(link.down) });
    for (direction, segments) in [(Direction::Up, 1.0), (Direction::Down, 4.0)] {
        let (rms, known, covered) = compare(&estimated.rows[direction], &levels[direction], 20);
        assert!(rms <= segments * 1500.0, "{direction:?}: RMS {rms}");
        assert!(known >= 0.35 && covered >= 0.9, "{direction:?}: known {known}, covered {covered}");
    }
}

#[test]
fn a_standing_queue_of_ten_minutes_changes_neither_base_nor_level() {
    let (up, base_ms, wait_ms) = (125e3, 30.0, 240.0);
    let mut observer = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::from_secs(1));
    observer.set_rates(PerDirection { up: Some(up), down: Some(1e6) }, None);
    let mut seen = HashMap::<&str, f64>::new();
    // 20 questions without a queue; then 12 ms of service each and 20 in the buffer, for ten minutes.
    let mut queue = std::collections::VecDeque::new();
    for i in 0..50_000_u64 {
        let at = if i < 20 { 100 * i } else { 2000 + 12 * (i - 20) };
        let answers_at = |at: u64, wait: f64| at as f64 + base_ms + 12.0 + wait;
        queue.push_back((
            at,
            answers_at(at, if i < 20 { 0.0 } else { (12.0 * (i - 20) as f64).min(wait_ms) }),
        ));
        if (20..40).contains(&i) {
            // The burst that fills it: one more each.
            observer.leave(&Passing { at_ns: at * 1_000_000, bytes: 1500, ..Passing::default() }, None);
        }
        observer.leave(&Passing { at_ns: at * 1_000_000, bytes: 1500, ..Passing::default() }, None);
        while let Some(&(asked, arrives)) = queue.front().filter(|(_, arrives)| *arrives <= (at + 12) as f64)
        {
            queue.pop_front();
            let answer = Answer {
                end: [1; 16],
                delay_ns: ((arrives - asked as f64) * MS) as u64,
                question_bytes: 1500,
                ..Answer::default()
            };
            let passing = Passing { at_ns: (arrives * MS) as u64, bytes: 66, ..Passing::default() };
            observer.arrive(&passing, Some(&answer));
        }
        observer.settle(at * 1_000_000);
        while let Some(row) = observer.pop(Direction::Up) {
            if at > 10_000 {
                let row = row.expect("known");
                let most = seen.entry("most").or_insert(0.0);
                *most = most.max((row.mean_bytes - 125.0 * wait_ms).abs());
            }
        }
        while observer.pop(Direction::Down).is_some() {}
        let base = observer.base_round_trip().map_or(base_ms, |base| base.seconds * 1e3);
        assert!(base <= base_ms + 1.0, "{base} ms at {at} ms");
    }
    assert!(seen["most"] <= 3000.0, "{}", seen["most"]);
}

/// No rate is configured. A connection is opened on an idle link, and then an upload fills the buffer for good.
#[test]
fn the_first_packets_of_an_idle_link_prove_the_delay_without_queue_before_a_rate_is_known() {
    let (base_ms, service_ms) = (30.0, 12.0);
    for began_idle_ms in [100, 1500, 4000] {
        let mut observer = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::from_secs(1));
        let mut done_ms = 0.0_f64;
        let mut answers = std::collections::VecDeque::new();
        // A short question; one more after a round trip; then 300 full packets, one each 6 ms.
        let questions = [(0, 66), (50, 66)].into_iter().chain((0..300).map(|i| (60 + 6 * i, 1500)));
        for (at, bytes) in questions.map(|(at, bytes)| (began_idle_ms + at, bytes)) {
            done_ms = done_ms.max(at as f64) + service_ms * f64::from(bytes) / 1500.0;
            answers.push_back((at, done_ms + base_ms, bytes));
            observer.leave(&Passing { at_ns: at * 1_000_000, bytes, ..Passing::default() }, None);
            while let Some((asked, arrives, question_bytes)) =
                answers.pop_front_if(|(_, arrives, _)| *arrives <= at as f64)
            {
                let delay_ns = ((arrives - asked as f64) * MS) as u64;
                let answer = Answer { end: [1; 16], delay_ns, question_bytes, ..Answer::default() };
                let passing = Passing { at_ns: (arrives * MS) as u64, bytes: 66, ..Passing::default() };
                observer.arrive(&passing, Some(&answer));
            }
        }
        let base = observer.base_round_trip().expect("answers came");
        assert!(base.is_proven, "{began_idle_ms} ms");
        assert!((base.seconds * 1e3 - base_ms).abs() < 1.0, "{} ms", base.seconds * 1e3);
    }
}

/// A host answers at once while nothing waits. Then packets without a clock keep 150 ms at the provider, and a flow of that host begins behind them: its
/// clock has the queue in its smallest reading. What its answers take longer than that says is no queue of the uplink.
#[test]
fn a_queue_that_hides_in_a_clock_is_not_the_uplinks() {
    [1_000, 3_000].into_iter().for_each(hide_in_a_clock);
}

fn hide_in_a_clock(begin_ms: u64) {
    let mut observer = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::ZERO);
    let ms = |ms: u64| ms * MS as u64;
    let ask = |observer: &mut Observer, at_ms: u64| {
        observer.leave(&Passing { at_ns: ms(at_ms), bytes: 60, ..Passing::default() }, None);
    };
    let answered = |delay_ms: u64| Answer {
        end: [7; 16],
        delay_ns: ms(delay_ms),
        question_bytes: 60,
        ..Answer::default()
    };
    ask(&mut observer, begin_ms);
    observer
        .arrive(&Passing { at_ns: ms(begin_ms + 20), bytes: 60, ..Passing::default() }, Some(&answered(20)));
    for at_ms in (begin_ms + 1_000..begin_ms + 11_000).step_by(5) {
        // A quarter of what comes belongs to the flow that began last.
        let is_timed = at_ms >= begin_ms + 2_000 && at_ms % 20 == 0;
        let clock = is_timed.then_some((1, (at_ms - 155) as u32));
        let answer = is_timed.then(|| answered(170 + at_ms / 20 % 3));
        if at_ms >= begin_ms + 1_800 {
            ask(&mut observer, at_ms);
        }
        observer.arrive(
            &Passing { at_ns: ms(at_ms), bytes: 1_500, clock, ..Passing::default() },
            answer.as_ref(),
        );
    }
    observer.finish(ms(begin_ms + 11_000));
    assert_eq!(observer.rate(Direction::Up), None);
    let levels = std::iter::from_fn(|| observer.pop(Direction::Up)).flatten();
    let highest = levels.map(|level| level.mean_bytes - level.uncertainty_bytes).fold(0.0, f64::max);
    assert!(highest < 1.0, "{begin_ms}: {highest}");
}

/// When something passes, in milliseconds, what, and what it answers if it comes from outside.
type LinkEvent = (u64, Passing, Option<Answer>);

fn leaves(ms: u64, bytes: u32) -> LinkEvent {
    (ms, Passing { at_ns: ms * 1_000_000, bytes, ..Passing::default() }, None)
}

/// The reply of `end` to what was sent at `sent_ms`.
fn replies(sent_ms: u64, end: u8, question_bytes: u32, delay_ms: u64) -> LinkEvent {
    let ms = sent_ms + delay_ms;
    let answer =
        Answer { end: [end; 16], delay_ns: delay_ms * 1_000_000, question_bytes, ..Answer::default() };
    (ms, Passing { at_ns: ms * 1_000_000, bytes: 60, ..Passing::default() }, Some(answer))
}

/// All of it passes, in the order of time.
fn play(link: &mut Observer, mut events: Vec<LinkEvent>) {
    events.sort_by_key(|event| event.0);
    for (_, packet, answer) in events {
        match answer {
            None => link.leave(&packet, None),
            Some(answer) => link.arrive(&packet, Some(&answer)),
        }
    }
}

/// A packet of 1,000 bytes each 10 ms into an uplink of 100 bytes per millisecond keeps 500 ms standing from 3 s on. One host answered before; the other
/// is first heard in the queue, and would tell of none. Once the first has been silent for 10 s, the level is no longer confirmed.
#[test]
fn a_host_that_is_new_in_a_standing_queue_does_not_outvote_one_that_is_proven() {
    let ns = |ms: u64| ms * 1_000_000;
    let mut link = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::ZERO);
    link.set_rates(PerDirection { up: Some(1e5), down: Some(1e7) }, None);
    let reply = |end: u8, bytes: u32, delay_ms: u64| Answer {
        end: [end; 16],
        delay_ns: ns(delay_ms),
        question_bytes: bytes,
        ..Answer::default()
    };
    // When, how many bytes of the uplink, or whose reply.
    let mut events: Vec<(u64, u32, Option<Answer>)> = Vec::new();
    for ms in (0..3_000).step_by(100) {
        events.extend([(ms, 100, None), (ms + 21, 0, Some(reply(1, 100, 21)))]);
    }
    events.push((3_000, 50_000, None));
    for ms in (3_000..21_000).step_by(10) {
        events.push((ms, 1_000, None));
        if ms % 50 == 0 {
            let (end, base_ms) = if ms % 100 == 0 && ms < 9_000 { (1, 20) } else { (2, 40) };
            let delay_ms = base_ms + 500 + 10;
            events.push((ms + delay_ms, 0, Some(reply(end, 1_000, delay_ms))));
        }
    }
    events.sort_by_key(|event| event.0);
    for (ms, bytes, answer) in events {
        if ms == 15_000 {
            assert_eq!(link.trust(Direction::Up, ns(ms)), Trust::Confirmed);
        }
        match answer {
            None => link.leave(&Passing { at_ns: ns(ms), bytes, ..Passing::default() }, None),
            Some(answer) => {
                link.arrive(&Passing { at_ns: ns(ms), bytes: 60, ..Passing::default() }, Some(&answer));
            }
        }
    }
    assert_eq!(link.trust(Direction::Up, ns(21_000)), Trust::NeverEmpty);
    link.finish(ns(21_000));
    let levels: Vec<f64> = std::iter::from_fn(|| link.pop(Direction::Up))
        .skip(500)
        .take(300)
        .map(|sample| sample.expect("replies tell the level").mean_bytes)
        .collect();
    assert_eq!(levels.len(), 300);
    for level in levels {
        assert!((45_000.0..=55_000.0).contains(&level), "{level} bytes");
    }
}

/// The same uplink. One host answers until 6 s, another from 3 s on, when too much is sent to prove that nothing waits. Then 150,000 bytes enter, of which
/// the buffer holds two thirds, and the first host is heard no more: for such a wait the other one's delay without queue is short, so that it tells the level.
#[test]
fn a_full_buffer_that_silences_one_host_is_told_by_another() {
    let mut link = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::ZERO);
    link.set_rates(PerDirection { up: Some(1e5), down: Some(1e7) }, None);
    let mut events = Vec::new();
    for ms in (0..3_000).step_by(100) {
        events.extend([leaves(ms, 100), replies(ms, 1, 100, 21)]);
    }
    for ms in (3_000..6_000).step_by(10) {
        events.extend([leaves(ms, 600), replies(ms, if ms % 20 == 0 { 1 } else { 2 }, 600, 46)]);
    }
    events.push(leaves(6_000, 150_000));
    for ms in (6_010..14_000).step_by(10) {
        events.extend([leaves(ms, 1_000), replies(ms, 2, 1_000, 1_050)]);
    }
    play(&mut link, events);
    link.finish(14_000 * MS as u64);
    let levels: Vec<_> = std::iter::from_fn(|| link.pop(Direction::Up)).skip(900).take(350).collect();
    for level in levels {
        let level = level.expect("replies tell the level").mean_bytes;
        assert!((90_000.0..=110_000.0).contains(&level), "{level} bytes");
    }
}

/// Nothing has a clock, and next to nothing goes up. 100 ms stand in the downlink's buffer for seconds: answers tell, and a quarter of it is in doubt.
#[test]
fn answers_tell_the_downlinks_queue_while_the_uplink_is_light() {
    let ns = |ms: u64| ms * 1_000_000;
    let mut link = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::ZERO);
    link.set_rates(PerDirection { up: Some(1e5), down: Some(3e5) }, None);
    let mut events = Vec::new();
    // When one arrives, after how long a wait, and whether it answers a question.
    let idle = (0..30).map(|i| (100 * i + 125, 0, true));
    let busy = (0..1_000).map(|i| (4_000 + 5 * i, (5 * i).min(100), i % 4 == 0));
    for (ms, wait_ms, is_answer) in idle.chain(busy) {
        let answer = is_answer.then(|| {
            let delay_ns = ns(25 + wait_ms);
            let asked = Passing { at_ns: ns(ms) - delay_ns, bytes: 60, ..Passing::default() };
            events.push((asked, Direction::Up, None));
            Answer { end: [1; 16], delay_ns, question_bytes: 60, ..Answer::default() }
        });
        events.push((Passing { at_ns: ns(ms), bytes: 1_500, ..Passing::default() }, Direction::Down, answer));
    }
    events.sort_by_key(|(packet, ..)| packet.at_ns);
    for (packet, direction, answer) in events {
        link.pass(direction, &packet, answer.as_ref());
    }
    link.finish(ns(9_000));
    for (direction, expected) in [(Direction::Up, 0.0), (Direction::Down, 30_000.0)] {
        for row in std::iter::from_fn(|| link.pop(direction)).skip(500).take(350) {
            let row = row.expect("answers tell");
            assert!((row.mean_bytes - expected).abs() <= 0.05 * expected, "{direction:?}: {row:?}");
            let doubt = row.uncertainty_bytes / expected.max(5_000.0);
            assert!((0.25 * expected / 30_000.0..0.35).contains(&doubt), "{direction:?}: {row:?}");
        }
    }
}

/// The uplink is idle but for a question each 0.1 s, and the newest reply of thirty is late: where that makes waits uncertain by more than 50 ms, the level is unknown.
#[test]
fn a_level_is_unknown_if_waits_are_uncertain_by_more_than_50_ms() {
    // 1.65 times the root of a twentieth of its square.
    for (late_ms, is_known) in [(128, true), (144, false)] {
        let mut link = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::ZERO);
        link.set_rates(PerDirection { up: Some(1e5), down: Some(1e7) }, None);
        let mut events = vec![leaves(3_100, 100)];
        for number in 0..30 {
            let delay_ms = if number == 29 { 21 + late_ms } else { 21 };
            events.extend([leaves(100 * number, 100), replies(100 * number, 1, 100, delay_ms)]);
        }
        play(&mut link, events);
        link.finish(3_200 * MS as u64);
        let newest = std::iter::from_fn(|| link.pop(Direction::Up)).last().flatten();
        assert_eq!(newest.is_some(), is_known, "{late_ms} ms: {newest:?}");
    }
}

/// The same uplink, its rate unknown, holds 100 ms when one host is first heard, and 500 ms from the next packet on, when another is: each has in its base what stood
/// then, and what both say together fits no link.
#[test]
fn of_two_hosts_that_were_new_in_a_queue_one_is_asked() {
    let mut link = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::ZERO);
    link.set_rates(PerDirection { up: None, down: Some(1e7) }, None);
    let mut events = vec![leaves(0, 10_000), leaves(1, 1_000), replies(1, 1, 1_000, 130), leaves(5, 40_000)];
    // From 3 s to 6 s it is 700 ms: a buffer that is always full tells no rate.
    events.push(leaves(3_000, 20_000));
    for ms in (10..6_000).chain(6_200..12_000).step_by(10) {
        let wait_ms = if (3_000..6_000).contains(&ms) { 700 } else { 500 };
        events
            .extend([leaves(ms, 1_000), replies(ms, if ms % 20 == 0 { 1 } else { 2 }, 1_000, 30 + wait_ms)]);
    }
    play(&mut link, events);
    link.finish(12_000 * MS as u64);
    let rate = link.rate(Direction::Up).expect("the link is busy");
    assert!((rate.bytes_per_second / 1e5 - 1.0).abs() < 0.02, "{rate:?}");
    assert!((11.0..=13.0).contains(&rate.measured_at.as_secs_f64()), "{rate:?}");
    let levels: Vec<f64> = std::iter::from_fn(|| link.pop(Direction::Up))
        .skip(700)
        .take(400)
        .map(|sample| sample.expect("replies tell the level").mean_bytes)
        .collect();
    assert!(levels.iter().all(|level| (35_000.0..=55_000.0).contains(level)), "{levels:?}");
}

/// 100 bytes per millisecond that nobody told. One host is heard before anything waits, and then once in five seconds; the other is first heard behind
/// 60 ms, and then all the time: what hides in its base is the same in each of its answers, so it tells the rate, and a level nearly as high as it is.
#[test]
fn of_a_host_that_was_new_in_a_queue_the_differences_are_right() {
    let ns = |ms: u64| ms * 1_000_000;
    let mut link = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::from_secs(2));
    link.set_rates(PerDirection { up: None, down: Some(1e7) }, None);
    let mut events = Vec::new();
    let mut done_ms = 0;
    for ms in [2_500].into_iter().chain((3_000..20_000).step_by(10)) {
        // 60 ms are ahead of the second host's first packet; for two seconds 3,000 bytes enter each 20 ms, then as many as leave.
        let burst = match ms {
            2_500 => 200,
            3_000 => 6_200,
            ..5_000 if ms % 20 == 0 => 3_000,
            ..5_000 => continue,
            _ => 1_000,
        };
        done_ms = ms.max(done_ms) + burst / 100;
        let end = if ms == 2_500 || ms % 5_000 == 0 { 1 } else { 2 };
        events.push((ms, Passing { at_ns: ns(ms), bytes: burst as u32, ..Passing::default() }, None));
        let arrives_ms = done_ms + 30;
        let delay_ns = ns(arrives_ms - ms);
        // The newest packet of each burst asks.
        let answer = Answer {
            end: [end; 16],
            delay_ns,
            question_bytes: 200,
            ahead_bytes: burst as u32 - 200,
            ..Answer::default()
        };
        events.push((
            arrives_ms,
            Passing { at_ns: ns(arrives_ms), bytes: 60, ..Passing::default() },
            Some(answer),
        ));
    }
    events.sort_by_key(|event| event.0);
    let mut known_ms = None;
    for (ms, packet, answer) in events {
        match answer {
            None => link.leave(&packet, None),
            Some(answer) => link.arrive(&packet, Some(&answer)),
        }
        if let Some(rate) = link.rate(Direction::Up).filter(|_| known_ms.is_none()) {
            known_ms = Some(ms);
            assert!((rate.bytes_per_second / 1e5 - 1.0).abs() < 0.02, "{} B/s", rate.bytes_per_second);
        }
    }
    assert!(known_ms.is_some_and(|ms| ms < 6_000), "{known_ms:?}");
    link.finish(ns(20_000));
    let levels: Vec<_> = std::iter::from_fn(|| link.pop(Direction::Up)).skip(700).take(1_100).collect();
    let known = levels.iter().flatten().count();
    assert!(known > 1_090, "{known} of {}", levels.len());
    let stands = (done_ms - 20_000) as f64 * 100.0;
    for level in levels.iter().flatten() {
        assert!((level.mean_bytes - stands).abs() <= level.uncertainty_bytes, "{level:?}, truth {stands}");
        assert!(level.uncertainty_bytes < 0.2 * stands, "{level:?}");
    }
}
