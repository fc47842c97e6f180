//! A link whose rate changes all the time: it has opportunities for a packet each, as a cellular link does, and a drop-tail buffer.

use super::*;

/// What one run showed. Times in seconds.
struct RunFigures {
    /// Share of the opportunities that were used, since the fifth second.
    used: f64,
    /// Each packet: when it entered the hidden buffer, and how much later than the next opportunity it left.
    waits: Vec<(f64, f64)>,
    /// Each decision: when, the rate, and the packets that stood in the hidden buffer.
    told: Vec<(f64, f64, usize)>,
}

impl RunFigures {
    fn wait_p95(&self) -> f64 {
        let mut waits: Vec<f64> = self.waits.iter().filter(|it| it.0 > 5.0).map(|it| it.1).collect();
        waits.sort_by(f64::total_cmp);
        waits[waits.len() * 95 / 100]
    }

    fn rates(&self, from: f64, to: f64) -> impl Iterator<Item = f64> {
        self.told.iter().filter(move |it| (from..to).contains(&it.0)).map(|it| it.1)
    }
}

/// An upload that always has something to send. `rate`: bytes per second at a time. Until `answered` its packets are answered; from
/// then on they are none of TCP.
fn upload(seconds: f64, answered: f64, rate: impl Fn(f64) -> f64) -> RunFigures {
    upload_to(seconds, answered, &mut [], rate)
}

/// Linux holds the ACK of a single segment back for so long, in seconds, if no second one comes (`TCP_DELACK_MIN`).
const DELAYED_ACK: f64 = 0.04;

/// The same to ends that hold ACKs back: of each, what is held, and until when.
fn upload_to(
    seconds: f64,
    answered: f64,
    held: &mut [Option<(u64, f64)>],
    rate: impl Fn(f64) -> f64,
) -> RunFigures {
    const ROUND_TRIP: f64 = 0.04;
    const BUFFER_PACKETS: usize = 200;
    let mut given = 0.0;
    let opportunities: Vec<f64> = (0..(seconds * 1e3) as u64 + 20_000)
        .map(|millisecond| millisecond as f64 / 1e3)
        .filter(|at| {
            given += rate(*at) / 1e3;
            let is_one = given >= FULL_FRAME_BYTES;
            given -= if is_one { FULL_FRAME_BYTES } else { 0.0 };
            is_one
        })
        .collect();
    let mut controller = Controller::new(Direction::Up, Bounds { least: 8_000.0, most: 1.25e9 }, 125e6);
    let mut link = Loop::new(1.0, ROUND_TRIP);
    let mut outcome = RunFigures { used: 0.0, waits: Vec::new(), told: Vec::new() };
    let mut standing: VecDeque<f64> = VecDeque::new();
    let (mut now, mut tick, mut next, mut used, mut asked, mut number) = (0.0, 0.0, 0, 0, 0, 0);
    while now < seconds {
        let at_ns = (now * 1e9) as u64;
        controller.pass(at_ns, FULL_FRAME_BYTES as u32);
        asked += u64::from(now < answered);
        while standing.front().is_some_and(|leaves| *leaves <= now) {
            standing.pop_front();
        }
        let is_full = standing.len() >= BUFFER_PACKETS;
        link.note_lost(now, is_full);
        if !is_full {
            let soonest = opportunities.partition_point(|at| *at < now);
            next = soonest.max(next);
            let Some(leaves) = opportunities.get(next).copied() else { break };
            next += 1;
            used += usize::from((5.0..seconds).contains(&leaves));
            standing.push_back(leaves);
            outcome.waits.push((now, leaves - opportunities[soonest]));
            if now < answered {
                number += 1;
                let end = number % held.len().max(2) as u64;
                let mut heard = leaves + ROUND_TRIP + 0.003 * link.chance();
                let mut may_be_held = false;
                if let Some(held) = held.get_mut(end as usize) {
                    // The second one is answered at once, and with it the first one.
                    match held.take().filter(|first: &(u64, f64)| first.1 > heard) {
                        Some((first, until)) => {
                            link.answers.entry((until * 1e9) as u64).or_default().retain(|it| it.1 != first);
                        }
                        None => {
                            heard += DELAYED_ACK;
                            may_be_held = true;
                            *held = Some((at_ns, heard));
                        }
                    }
                }
                let answers = link.answers.entry((heard * 1e9) as u64).or_default();
                answers.push((end, at_ns, heard - now - ROUND_TRIP, may_be_held));
            }
        }
        now += FULL_FRAME_BYTES / controller.rate().min(125e6);
        while tick <= now {
            let now_ns = (tick * 1e9) as u64;
            for (end, at_ns, wait, may_be_held) in link.answers_until(now_ns) {
                controller.waited(end, at_ns, wait, may_be_held);
            }
            let own = Own {
                bytes: 20_000.0,
                lost: link.lost(),
                asked: std::mem::take(&mut asked),
                ..Own::default()
            };
            controller.decide(now_ns, own);
            let stand = standing.iter().filter(|leaves| **leaves > tick).count();
            outcome.told.push((tick, controller.rate(), stand));
            tick += TICK_NS as f64 / 1e9;
        }
    }
    let all = opportunities.iter().filter(|at| (5.0..seconds).contains(*at)).count();
    outcome.used = used as f64 / all as f64;
    outcome
}

/// A rate that changes five times a second, by a factor of up to 1.27, between 50 and 750 kB/s.
pub(super) fn walk(seed: u64) -> impl Fn(f64) -> f64 {
    let mut link = Loop::new(1.0, 0.04);
    link.random = seed;
    let steps: Vec<f64> = std::iter::successors(Some(312e3), move |rate: &f64| {
        Some((rate * 2f64.powf(0.7 * link.chance() - 0.35)).clamp(50e3, 750e3))
    })
    .take(600)
    .collect();
    move |at| steps[((at * 5.0) as usize).min(steps.len() - 1)]
}

#[test]
fn a_rate_that_walks_is_used_and_little_waits() {
    let (mut used, mut waited) = (0.0, 0.0);
    for seed in 1..=8 {
        let outcome = upload(60.0, 60.0, walk(seed));
        let what = format!("seed {seed}: {:.3} used, {:.3} s", outcome.used, outcome.wait_p95());
        println!("{what}");
        assert!(outcome.used >= 0.75 && outcome.wait_p95() <= 0.12, "{what}");
        used += outcome.used / 8.0;
        waited += outcome.wait_p95() / 8.0;
    }
    println!("{used:.3} used, {waited:.3} s");
    assert!(used >= 0.83 && waited <= 0.08, "{used:.3} used, {waited:.3} s");
}

/// Two and a half seconds without an opportunity: what stands there is no more than what was sent before answers were late.
#[test]
fn an_outage_lets_little_stand_and_is_over_soon() {
    let capacity = 190e3;
    let is_out = |at: f64| (20.0..22.5).contains(&at);
    let outcome = upload(40.0, 40.0, |at| if is_out(at) { 0.0 } else { capacity });
    let (_, _, stood) = outcome.told.iter().find(|it| it.0 >= 22.45).expect("told");
    assert!((*stood as f64) * FULL_FRAME_BYTES < 0.5 * capacity, "{stood} packets");
    let back = outcome.rates(22.5, 40.0).take_while(|rate| *rate < 0.9 * capacity).count();
    assert!(back <= 30, "{back} tenths of a second until the rate was back");
}

/// From the twentieth second on nothing but UDP is sent, which nobody answers: no outage.
#[test]
fn what_nobody_answers_keeps_its_rate() {
    let outcome = upload(60.0, 20.0, |_| 190e3);
    let before = outcome.rates(15.0, 20.0).sum::<f64>() / 50.0;
    for rate in outcome.rates(21.0, 60.0) {
        assert!((rate / before - 1.0).abs() < 0.15, "{rate} after {before}");
    }
}

/// Between two segments of a flow there is more than the time for which its receiver holds an ACK back, most of the time with two flows
/// and always with twelve: answers are late by that, and none waits.
#[test]
fn acks_that_are_held_back_are_no_queue() {
    let triangle = |at: f64| 62.5e3 + 125e3 * (1.0 - ((at / 15.0) % 2.0 - 1.0).abs());
    for flows in [1, 2, 6, 12] {
        let outcome = upload_to(60.0, 60.0, &mut vec![None; flows], triangle);
        let settled: Vec<_> = outcome.told.iter().filter(|it| it.0 >= 15.0).collect();
        let used = settled.iter().map(|(at, rate, _)| (rate / triangle(*at)).min(1.0)).sum::<f64>();
        let stood = settled.iter().map(|it| it.2).max().expect("told");
        let used = used / settled.len() as f64;
        let what = format!("{flows} flows: {used:.3} of the rate, at most {stood} packets stood");
        println!("{what}");
        assert!(used >= 0.9 && stood <= 25, "{what}");
    }
}

/// A start far above the link: most of what passes is dropped there, and is none of what the link carries.
#[test]
fn a_buffer_that_overflows_at_the_start_is_over_soon() {
    let capacity = 312e3;
    let outcome = upload(20.0, 20.0, |_| capacity);
    for (at, rate, stood) in outcome.told.iter().filter(|it| it.0 >= 3.0) {
        assert!((0.4..1.6).contains(&(rate / capacity)) && *stood < 30, "{at}: {rate}, {stood} packets");
    }
}

/// An outage before the link's rate was measured once: what passed before is gone back to.
#[test]
fn an_outage_at_the_start_is_recovered_from() {
    let mut controller = Controller::new(Direction::Up, Bounds { least: 8_000.0, most: 1.25e9 }, 312e3);
    let (mut now_ns, mut decisions) = (0u64, Vec::new());
    for tick in 0..40u64 {
        let is_answered = !(10..20).contains(&tick);
        let count = (controller.rate() * 0.1 / FULL_FRAME_BYTES) as u64;
        for packet in 0..count {
            let at_ns = now_ns + packet * TICK_NS / count;
            controller.pass(at_ns, FULL_FRAME_BYTES as u32);
            if is_answered {
                controller.waited(1, at_ns, 0.002, false);
            }
        }
        now_ns += TICK_NS;
        let own = Own { bytes: 20_000.0, asked: count, ..Own::default() };
        decisions.push(controller.decide(now_ns, own));
    }
    assert!(decisions[10..20].contains(&Decision::Outage), "{decisions:?}");
    assert!(controller.rate() > 0.9 * 312e3, "{}", controller.rate());
}

/// A first burst is answered late: little passes meanwhile, because there is little to send. That is no rate of the link.
#[test]
fn a_first_burst_that_is_answered_late_says_nothing_of_the_rate() {
    let mut controller = Controller::new(Direction::Up, Bounds { least: 8_000.0, most: 1.25e9 }, 125e6);
    let mut now_ns = 0u64;
    for tick in 0..20u64 {
        let count = if tick == 5 { 20 } else { 1 };
        for packet in 0..count {
            let at_ns = now_ns + packet * 1_000_000;
            controller.pass(at_ns, 200);
            if tick < 5 {
                controller.waited(1, at_ns, 0.002, false);
            }
        }
        now_ns += TICK_NS;
        controller.decide(now_ns, Own { asked: count, ..Own::default() });
        assert_eq!((controller.capacity(), controller.rate()), (None, 125e6), "tick {tick}");
    }
}

/// The shaper limits what passes from the beginning, and nobody replies any more before a rate was found: what passed stays known when the outage is over.
#[test]
fn an_outage_before_a_rate_is_found_leaves_what_passed() {
    const RATE: f64 = 1e6;
    let mut controller = Controller::new(Direction::Up, Bounds { least: 8_000.0, most: 1.25e9 }, RATE);
    let mut decisions = Vec::new();
    for tick in 0..60u64 {
        for packet in 0..66 {
            let at_ns = tick * TICK_NS + packet * 1_500_000;
            controller.pass(at_ns, FULL_FRAME_BYTES as u32);
            if tick == 0 && (1..4).contains(&packet) {
                controller.waited(1, at_ns, 0.002, false);
            }
        }
        let own = Own { bytes: 0.02 * RATE, asked: 66, ..Own::default() };
        decisions.push(controller.decide((tick + 1) * TICK_NS, own));
    }
    assert!(decisions.contains(&Decision::Outage), "{decisions:?}");
    assert!(controller.capacity().is_some_and(|known| known > HALF * RATE), "{:?}", controller.capacity());
    assert!(controller.rate() > HALF * RATE, "{}", controller.rate());
}
