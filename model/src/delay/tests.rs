use super::*;
use crate::link::Provenance;

const RATE: f64 = 250_000.0;
const CONFIGURED: PerDirection<Option<Known>> = PerDirection {
    up: Some(Known { value: RATE, provenance: Provenance::Config }),
    down: Some(Known { value: RATE, provenance: Provenance::Config }),
};
const UNKNOWN_RATES: PerDirection<Option<Known>> = PerDirection { up: None, down: None };

fn flow(end: u32, base_s: f64, least_s: f64, samples: u32) -> TimedFlow {
    TimedFlow { end, packets: samples, rtt: Some(FlowRtt { base_s, least_s, samples }) }
}

/// A reply that nobody delayed, from an end without a clock.
fn prompt(end: u32, delay_s: f64) -> Reply {
    Reply { end, request_bytes: 66, delay_s, down_s: None, may_be_held: false, is_relayed: false }
}

/// What is true of a case, seconds.
#[derive(Clone, Copy)]
struct Truth {
    home_s: f64,
    gateway_s: f64,
    up_s: f64,
    down_s: f64,
    /// Of far end 1 and of far end 2, which replies once a second; `None`: it is silent.
    beyond_s: [Option<f64>; 2],
    /// Shares of the rate.
    load: PerDirection<f64>,
    rates: PerDirection<Option<Known>>,
    has_clock: bool,
    hidden: PerDirection<Option<HiddenWait>>,
    /// RTT samples of the home flow within a second.
    home_samples: u32,
}

const IDLE: Truth = Truth {
    home_s: 0.0,
    gateway_s: 0.0,
    up_s: 0.0,
    down_s: 0.0,
    beyond_s: [Some(0.0), Some(0.0)],
    load: PerDirection { up: 0.0, down: 0.02 },
    rates: CONFIGURED,
    has_clock: true,
    hidden: PerDirection { up: None, down: None },
    home_samples: 100,
};

/// One second of it.
fn second(tracker: &mut DelayTracker, from_s: f64, truth: &Truth) -> Budget {
    for tick in 0..10 {
        tracker.tick(
            from_s + f64::from(tick + 1) / 10.0,
            PerDirection::from_fn(|x| (truth.load[x] * RATE / 10.0) as u64),
        );
        for (end, extra) in (1..).zip(truth.beyond_s) {
            let Some(extra_s) = extra.filter(|_| end == 1 || tick == 5) else { continue };
            tracker.reply(&Reply {
                end,
                request_bytes: 66,
                delay_s: 0.02 + truth.up_s + truth.down_s + extra_s,
                down_s: truth.has_clock.then_some(truth.down_s + extra_s),
                may_be_held: false,
                is_relayed: false,
            });
        }
    }
    let home = [flow(1, 0.001, 0.001 + truth.home_s, truth.home_samples)];
    tracker.budget(&Reading {
        home: &home[..usize::from(truth.home_samples > 0)],
        own_s: PerDirection { up: Some(truth.gateway_s), down: Some(0.0) },
        hidden: truth.hidden,
        rates: truth.rates,
        ..Reading::default()
    })
}

/// The budget after three idle seconds and three of the case.
fn of(truth: Truth) -> Budget {
    let mut tracker = DelayTracker::default();
    for from in 0..3 {
        second(&mut tracker, f64::from(from), &Truth { rates: truth.rates, ..IDLE });
    }
    (3..6).map(|from| second(&mut tracker, f64::from(from), &truth)).last().expect("three")
}

#[test]
fn each_segment_alone_is_found() {
    let busy = PerDirection { up: 0.1, down: 0.5 };
    let full = |up, down| PerDirection { up, down };
    let cases = [
        ("home", Truth { home_s: 0.31, load: busy, ..IDLE }),
        ("gateway", Truth { gateway_s: 0.2, load: full(1.0, 0.1), ..IDLE }),
        ("uplink", Truth { up_s: 0.2, load: full(1.0, 0.1), ..IDLE }),
        // Rates unknown: both far ends show it.
        ("uplink", Truth { up_s: 0.2, load: full(1.0, 0.1), rates: UNKNOWN_RATES, ..IDLE }),
        // Nor a clock, as with QUIC: a direction that carries next to nothing holds no queue.
        (
            "uplink",
            Truth { up_s: 0.2, load: full(1.0, 0.02), rates: UNKNOWN_RATES, has_clock: false, ..IDLE },
        ),
        (
            "downlink",
            Truth { down_s: 0.2, load: full(0.02, 1.0), rates: UNKNOWN_RATES, has_clock: false, ..IDLE },
        ),
        ("downlink", Truth { down_s: 0.2, load: full(0.1, 1.0), ..IDLE }),
        // No clock, but one direction only is full.
        ("downlink", Truth { down_s: 0.2, load: full(0.1, 1.0), has_clock: false, ..IDLE }),
        // One far end, and a line that is full.
        ("downlink", Truth { down_s: 0.2, load: full(0.1, 1.0), beyond_s: [Some(0.0), None], ..IDLE }),
        ("beyond", Truth { load: busy, beyond_s: [Some(0.3), Some(0.0)], ..IDLE }),
        ("nowhere", IDLE),
        ("nowhere", Truth { load: busy, ..IDLE }),
        // Both wait, the longer is named.
        ("uplink", Truth { up_s: 0.3, home_s: 0.1, load: full(1.0, 0.1), ..IDLE }),
    ];
    for (index, (expected, truth)) in cases.into_iter().enumerate() {
        let budget = of(truth);
        assert_eq!(budget.place().name(), expected, "case {index}: {budget:?}");
        for (segment, wait_s) in [
            (Segment::Home, truth.home_s),
            (Segment::Gateway, truth.gateway_s),
            (Segment::Uplink, truth.up_s),
            (Segment::Downlink, truth.down_s),
            (Segment::Beyond, truth.beyond_s[0].unwrap_or(0.0)),
        ] {
            let delay =
                budget.part(segment).unwrap_or_else(|why| panic!("case {index}: {segment:?}: {why:?}"));
            let error_s = (delay.queue_s - wait_s).abs();
            assert!(error_s <= delay.uncertainty_s, "case {index}, {segment:?}: {delay:?}, not {wait_s}");
        }
    }
}

/// No sender has a clock. Where one direction alone is loaded the queue is there, whatever the level says; else the level tells.
#[test]
fn an_estimated_level_divides_what_both_directions_may_hold() {
    let waits = |load, wait_s, uncertainty_s| {
        let hidden = PerDirection { up: None, down: Some(HiddenWait { wait_s, uncertainty_s }) };
        let budget = of(Truth { down_s: 0.2, load, has_clock: false, hidden, ..IDLE });
        [Segment::Uplink, Segment::Downlink].map(|segment| {
            let delay = budget.part(segment).expect("known");
            [delay.queue_s, delay.uncertainty_s].map(|seconds| (seconds * 1e3).round())
        })
    };
    let full = |up, down| PerDirection { up, down };
    assert_eq!(waits(full(0.1, 1.0), 0.02, 0.05), [[0.0, 5.0], [200.0, 5.0]]);
    assert_eq!(waits(full(1.0, 1.0), 0.15, 0.01), [[50.0, 15.0], [150.0, 15.0]]);
}

/// QUIC on a line of unknown rate: the uplink's part after an upload whose ACKs take a tenth of the downlink. Before it the downlink carried
/// `calm` of its rate while packets waited so long in it, and in the gateway's own queue.
fn quic_upload(calm: f64, [waits_s, own_s]: [f64; 2]) -> Part {
    let quic = Truth { rates: UNKNOWN_RATES, has_clock: false, ..IDLE };
    let before =
        Truth { down_s: waits_s, gateway_s: own_s, load: PerDirection { up: 0.02, down: calm }, ..quic };
    let upload = Truth { up_s: 0.2, load: PerDirection { up: 1.0, down: 0.1 }, ..quic };
    let mut tracker = DelayTracker::default();
    let truths = [[quic; 3], [before; 3], [upload; 3]].concat();
    let budgets = (0..).zip(truths).map(|(from, truth)| second(&mut tracker, f64::from(from), &truth));
    budgets.last().expect("nine").part(Segment::Uplink)
}

#[test]
fn a_direction_that_carried_as_much_while_nothing_waited_holds_nothing() {
    let part = quic_upload(0.12, [0.0; 2]);
    assert!(part.is_ok_and(|delay| (delay.queue_s - 0.2).abs() < 0.01), "{part:?}");
    for (calm, waits_s) in [(0.05, [0.0; 2]), (0.12, [0.05, 0.0]), (0.12, [0.0, 0.05])] {
        assert_eq!(quic_upload(calm, waits_s), Err(Unknown::Undivided));
    }
}

/// A downlink carried a half of its rate, and after a quarter of an hour its rate is less than that: a download that fills it does not wait on the uplink.
#[test]
fn what_a_direction_carried_long_ago_does_not_tell_that_it_is_free() {
    let quic = Truth { rates: UNKNOWN_RATES, has_clock: false, ..IDLE };
    let of_old = Truth { load: PerDirection { up: 0.02, down: 0.5 }, ..quic };
    let full = Truth { down_s: 0.2, load: PerDirection { up: 0.1, down: 0.4 }, ..quic };
    let mut tracker = DelayTracker::default();
    let mut at_s = 0.0;
    for (seconds, truth) in [(3, &quic), (3, &of_old), (900, &quic), (4, &full)] {
        for _ in 0..seconds {
            let budget = second(&mut tracker, at_s, truth);
            assert_ne!(budget.place(), Place::In(Segment::Uplink), "after {at_s} s: {budget:?}");
            at_s += 1.0;
        }
    }
}

/// A download fills the line in a second of which the last reply came before it: those of the next second tell.
#[test]
fn a_second_whose_load_shows_in_the_next_ones_replies_was_not_free() {
    let mut tracker = DelayTracker::default();
    let quic = Truth { rates: UNKNOWN_RATES, has_clock: false, ..IDLE };
    let full = PerDirection { up: 0.02, down: 1.0 };
    let mut from_s = 0.0;
    let mut pass = |truth: &Truth| {
        from_s += 1.0;
        second(&mut tracker, from_s, truth)
    };
    for _ in 0..3 {
        pass(&quic);
    }
    pass(&Truth { load: full, ..quic });
    let budgets: Vec<Budget> = (0..4).map(|_| pass(&Truth { load: full, down_s: 0.2, ..quic })).collect();
    assert_eq!(budgets[3].place(), Place::In(Segment::Downlink), "{budgets:?}");
}

/// TCP with a clock and QUIC without one before a full modem: QUIC's reply took a little less.
#[test]
fn one_far_ends_clock_divides_the_line_for_all() {
    let mut tracker = DelayTracker::default();
    let mut budget = None;
    for from in 0..6 {
        let waits_s = if from < 3 { 0.0 } else { 0.2 };
        for tick in 1..=10 {
            let (up, down) = if from < 3 { (100, 100) } else { (12_000, 2_000) };
            tracker.tick(f64::from(from) + f64::from(tick) / 10.0, PerDirection { up, down });
            for (end, less_s, down_s) in [(1, 0.0, Some(0.0)), (2, 0.01, None)] {
                let delay_s = f64::max(0.02, 0.02 + waits_s - less_s);
                let (may_be_held, is_relayed) = (false, false);
                tracker.reply(&Reply { end, request_bytes: 66, delay_s, down_s, may_be_held, is_relayed });
            }
        }
        let own_s = PerDirection { up: Some(0.0), down: Some(0.0) };
        budget = Some(tracker.budget(&Reading { own_s, ..Reading::default() }));
    }
    let budget = budget.expect("six");
    assert!(budget.part(Segment::Uplink).is_ok_and(|delay| delay.queue_s > 0.18), "{budget:?}");
    assert!(budget.part(Segment::Downlink).is_ok_and(|delay| delay.queue_s == 0.0), "{budget:?}");
}

/// One end waits 50 ms, on the line or beyond it, and the other 300: at least 250 of them are not on the line.
#[test]
fn what_waits_beyond_is_known_although_the_line_is_not() {
    let budget = of(Truth { rates: UNKNOWN_RATES, beyond_s: [Some(0.3), Some(0.05)], ..IDLE });
    assert_eq!(budget.part(Segment::Uplink), Err(Unknown::OneEnd), "{budget:?}");
    assert_eq!((budget.place(), budget.far_host), (Place::In(Segment::Beyond), Some(1)), "{budget:?}");
    let waits = budget.part(Segment::Beyond).expect("known");
    assert!(
        (waits.queue_s - 0.275).abs() < 1e-6 && (0.025..0.04).contains(&waits.uncertainty_s),
        "{waits:?}"
    );
}

/// Each far end replies four times in three seconds, without a clock, on a line of unknown rate that carries a download. `waits`: what the replies
/// had to wait, seconds.
fn few_replies(waits: [[f64; 4]; 2]) -> Budget {
    let mut tracker = DelayTracker::default();
    for from in 0..3 {
        second(&mut tracker, f64::from(from), &Truth { rates: UNKNOWN_RATES, has_clock: false, ..IDLE });
    }
    let silent = Truth {
        beyond_s: [None, None],
        load: PerDirection { up: 0.02, down: 1.0 },
        rates: UNKNOWN_RATES,
        ..IDLE
    };
    second(&mut tracker, 3.0, &silent);
    second(&mut tracker, 4.0, &silent);
    for (end, waits) in (1..).zip(waits) {
        for wait_s in waits {
            tracker.reply(&prompt(end, 0.02 + wait_s));
        }
    }
    // A queue may stand still for a moment.
    for tick in 1..=10 {
        let down = if tick == 8 { 0 } else { (RATE / 10.0) as u64 };
        tracker.tick(5.0 + f64::from(tick) / 10.0, PerDirection { up: 500, down });
    }
    let home = [flow(1, 0.001, 0.001, 100)];
    let own_s = PerDirection { up: Some(0.0), down: Some(0.0) };
    tracker.budget(&Reading { home: &home, own_s, ..Reading::default() })
}

/// A queue of 20 to 120 ms comes and goes: the ends' medians, 50 and 100 ms, differ by chance, and both bounds tell of the 70 ms between.
#[test]
fn few_replies_bound_a_queue_that_comes_and_goes() {
    let budget = few_replies([[0.04, 0.05, 0.06, 0.1], [0.05, 0.1, 0.11, 0.12]]);
    assert_eq!(budget.place(), Place::In(Segment::Downlink), "{budget:?}");
    let line = budget.part(Segment::Downlink).expect("known");
    assert!((line.queue_s - 0.07).abs() <= line.uncertainty_s, "{line:?}");
    // One of the routes has a queue that comes and goes: it is not the line.
    let budget = few_replies([[0.0, 0.001, 0.0, 0.001], [0.06, 0.1, 0.2, 0.3]]);
    assert_eq!(budget.place(), Place::In(Segment::Beyond), "{budget:?}");
}

/// An upload to host 1 keeps 1.2 s queued in the modem. After lost packets it pauses for a second, in which host 2 replies for the first time, from behind
/// what is still queued. That hides in host 2's base: it must not make the queue one of host 1's. All that host 2 waits, the line explains.
#[test]
fn a_pause_that_does_not_drain_the_queue_proves_no_base() {
    for (rates, place) in [(CONFIGURED, Place::In(Segment::Uplink)), (UNKNOWN_RATES, Place::Unknown)] {
        let full = Truth {
            up_s: 1.2,
            load: PerDirection { up: 1.0, down: 0.02 },
            beyond_s: [Some(0.0), None],
            rates,
            ..IDLE
        };
        let mut tracker = DelayTracker::default();
        for from in 0..3 {
            second(&mut tracker, f64::from(from), &Truth { rates, beyond_s: [Some(0.0), None], ..IDLE });
        }
        (3..10).for_each(|from| _ = second(&mut tracker, f64::from(from), &full));
        let pause = Truth { up_s: 0.6, load: IDLE.load, beyond_s: [Some(0.0), Some(0.0)], ..full };
        second(&mut tracker, 10.0, &pause);
        for from in 11..20 {
            let both = Truth { beyond_s: [Some(0.0), Some(0.0)], ..full };
            let budget = second(&mut tracker, f64::from(from), &both);
            assert!(from < 13 || budget.place() == place, "{from}: {budget:?}");
            assert_ne!(budget.place(), Place::In(Segment::Beyond), "{from}: {budget:?}");
        }
    }
}

/// The uplink holds a queue of 0.1 s in each second second. Most of host 1's packets meet it, most of host 2's do not. A queue beyond the
/// line, which only host 1 meets, is longer and stays.
#[test]
fn two_hosts_that_meet_a_swinging_queue_at_other_moments_do_not_differ() {
    for (beyond_s, expected) in [(0.0, Place::Unknown), (0.15, Place::In(Segment::Beyond))] {
        let mut tracker = DelayTracker::default();
        for from in 0..3 {
            second(&mut tracker, f64::from(from), &Truth { rates: UNKNOWN_RATES, ..IDLE });
        }
        let mut place = Place::Nowhere;
        for tick in 30..200_u32 {
            let at_s = f64::from(tick + 1) / 10.0;
            let is_full = tick / 10 % 2 == 0;
            tracker.tick(at_s, PerDirection { up: RATE as u64 / 10, down: RATE as u64 / 20 });
            for (end, often) in [(1, is_full), (2, !is_full)] {
                let extra_s = if end == 1 { beyond_s } else { 0.0 };
                let delay_s = 0.02 + extra_s + if is_full { 0.1 } else { 0.0 };
                let reply = prompt(end, delay_s);
                (0..if often { 3 } else { 1 }).for_each(|_| _ = tracker.reply(&reply));
            }
            if tick % 10 == 9 {
                let budget = tracker.budget(&Reading {
                    own_s: PerDirection { up: Some(0.0), down: Some(0.0) },
                    rates: UNKNOWN_RATES,
                    ..Reading::default()
                });
                place = budget.place();
                assert!(beyond_s > 0.0 || place != Place::In(Segment::Beyond), "{at_s}: {budget:?}");
            }
        }
        assert_eq!(place, expected);
    }
}

/// An upload begins with a burst, and its host's base of 20 ms was never seen under little load. What hides in it is no more than 20 ms.
#[test]
fn no_more_hides_in_a_base_than_all_of_it() {
    for up_s in [0.8, 0.1] {
        let full =
            Truth { up_s, load: PerDirection { up: 1.0, down: 0.02 }, beyond_s: [Some(0.0), None], ..IDLE };
        let mut tracker = DelayTracker::default();
        (0..3).for_each(|from| _ = second(&mut tracker, f64::from(from), &Truth { up_s: 0.0, ..full }));
        let budget = (3..9).map(|from| second(&mut tracker, f64::from(from), &full)).last().expect("six");
        let uplink = budget.part(Segment::Uplink).expect("known");
        assert!((up_s..up_s + 0.02).contains(&uplink.queue_s) && uplink.uncertainty_s < 0.02, "{budget:?}");
    }
}

/// Requests alone are more than a line of unknown rate counts as idle. A host replies within 20 ms in all: no packet waits longer on the line, and no
/// more hides in another host's base.
#[test]
fn what_took_little_in_all_waited_no_longer_on_the_line() {
    let mut tracker = DelayTracker::default();
    let load = PerDirection { up: 0.1, down: 0.1 };
    let far = |extra_s| Truth { load, rates: UNKNOWN_RATES, beyond_s: [Some(extra_s), Some(0.0)], ..IDLE };
    let budget = (0..6).map(|from| second(&mut tracker, f64::from(from), &far(0.05))).last().expect("six");
    assert_eq!(budget.place(), Place::Nowhere, "{budget:?}");
    let budget = (6..9).map(|from| second(&mut tracker, f64::from(from), &far(0.25))).last().expect("three");
    assert_eq!(budget.place(), Place::In(Segment::Beyond), "{budget:?}");
}

const FREE: Part = Ok(Delay { base_s: 0.0, queue_s: 0.0, uncertainty_s: 0.01 });
const WAITS: Part = Ok(Delay { base_s: 0.0, queue_s: 1.2, uncertainty_s: 0.01 });
const SILENT: Part = Err(Unknown::NoReplies);

/// A second's budget with these parts.
fn budget_of(segments: [Part; 5]) -> Budget {
    Budget { segments, home_host: None, far_host: None, may_wait_s: 0.0 }
}

#[test]
fn what_waits_on_the_line_in_an_unknown_direction_is_not_beyond() {
    let beyond = |up| budget_of([FREE, FREE, up, FREE, FREE]).may_be_beyond(Direction::Up);
    let of = [WAITS, SILENT, Err(Unknown::OneEnd), Err(Unknown::Undivided)].map(beyond);
    assert_eq!(of, [false, true, true, false]);
    assert!(!budget_of([FREE, FREE, SILENT, FREE, FREE]).may_be_beyond(Direction::Down));
}

#[test]
fn the_most_on_the_line_is_both_waits_and_the_larger_doubt() {
    let part = |queue_s, uncertainty_s| Ok(Delay { base_s: 0.5, queue_s, uncertainty_s });
    let most = |up, down| budget_of([WAITS, WAITS, up, down, WAITS]).line_most_s();
    assert_eq!(most(part(0.25, 0.125), part(0.5, 0.0625)), Some(0.875));
    assert_eq!(most(part(0.25, 0.0), part(0.5, 0.25)), Some(1.0));
    assert_eq!([most(SILENT, FREE), most(FREE, SILENT)], [None; 2]);
}

#[test]
fn the_gateway_s_own_wait_is_that_of_both_queues() {
    let gateway = |up, down| {
        let own_s = PerDirection { up, down };
        DelayTracker::default().budget(&Reading { own_s, ..Reading::default() }).part(Segment::Gateway)
    };
    assert_eq!(
        gateway(Some(0.5), Some(0.25)),
        Ok(Delay { base_s: 0.0, queue_s: 0.75, uncertainty_s: 0.1875 })
    );
    assert_eq!([gateway(None, Some(0.0)), gateway(Some(0.0), None)], [Err(Unknown::NotRead); 2]);
}

#[test]
fn one_second_changes_no_place() {
    let mut steady = SteadyPlace::default();
    assert_eq!(steady.place(), Place::Unknown);
    let home = [WAITS, FREE, FREE, FREE, FREE];
    let up = [FREE, FREE, WAITS, FREE, FREE];
    let said = [home, home, home, up, home, [FREE; 5], up, up, up].map(|segments| {
        steady.push(&budget_of(segments), false);
        steady.place()
    });
    use Place::Unknown;
    let [home, up] = [Segment::Home, Segment::Uplink].map(Place::In);
    assert_eq!(said, [Unknown, Unknown, home, home, home, home, Unknown, up, up]);
}

/// A reply each fourth second at least, or each fifth: the uplink's wait, or silence.
#[test]
fn a_place_outlasts_seconds_without_a_reply_but_not_many() {
    let place = |each: u32| {
        let mut steady = SteadyPlace::default();
        for second in 0..30 {
            let [line, other] = if second % each == 0 { [WAITS, FREE] } else { [SILENT, SILENT] };
            steady.push(&budget_of([SILENT, FREE, line, other, other]), false);
        }
        steady.place()
    };
    let uplink = Place::In(Segment::Uplink);
    assert_eq!([place(1), place(3), place(4), place(5)], [uplink, uplink, uplink, Place::Unknown]);
}

/// Three free seconds, then one in which nobody replies, while so many bytes pass each tenth of a second.
#[test]
fn nothing_waits_is_not_said_of_what_passes_without_a_reply() {
    for (bytes, place) in [(0, Place::Nowhere), (500, Place::Nowhere), (10_000, Place::Unknown)] {
        let mut tracker = DelayTracker::default();
        let mut steady = SteadyPlace::default();
        for second in 0..4 {
            let is_heard = second < 3;
            for tick in 0..10 {
                let up = if is_heard { 0 } else { bytes };
                tracker.tick(f64::from(second) + f64::from(tick) / 10.0, PerDirection { up, down: 0 });
            }
            let part = if is_heard { FREE } else { SILENT };
            steady.push(&budget_of([part, FREE, part, part, part]), tracker.carries_little());
        }
        assert_eq!(steady.place(), place, "{bytes}");
    }
}

/// Two far ends reply at once, then an upload begins and nobody replies: what they told holds for a second, or while little passes.
#[test]
fn quick_replies_of_seconds_ago_do_not_tell_that_the_line_is_free() {
    for (up, places) in [(0.001, [Place::Nowhere, Place::Nowhere]), (1.0, [Place::Unknown, Place::Unknown])] {
        let mut tracker = DelayTracker::default();
        let silent = Truth {
            beyond_s: [None, None],
            load: PerDirection { up, down: 0.001 },
            rates: UNKNOWN_RATES,
            ..IDLE
        };
        for from in 0..4 {
            let place =
                second(&mut tracker, f64::from(from), &Truth { rates: UNKNOWN_RATES, ..IDLE }).place();
            assert_eq!(place, Place::Nowhere, "{from}");
        }
        let found = [4, 5].map(|from| second(&mut tracker, f64::from(from), &silent).place());
        assert_eq!(found, places, "{up}");
    }
}

/// The budget of home: host 1 replies to QUIC twice a second, at once. So does host 2; after 3 s its replies come each `every` ticks and `late_s` later.
fn quic_at_home(late_s: f64, every: u32, is_relayed: bool) -> (Part, Option<u32>) {
    let mut tracker = DelayTracker::default();
    let mut budget = None;
    for tick in 1..=80_u32 {
        tracker.tick(f64::from(tick) / 10.0, PerDirection::from_fn(|_| 200));
        let is_late = tick >= 30;
        let late_s = if is_late { late_s } else { 0.0 };
        let hosts = [(1, 0.0, 5, false), (2, late_s, if is_late { every } else { 5 }, is_relayed && is_late)];
        for (end, late_s, every, is_relayed) in hosts {
            if tick % every == 0 {
                let delay_s = 0.001 + late_s;
                let may_be_held = is_relayed;
                tracker.home_reply(&Reply {
                    end,
                    request_bytes: 1_242,
                    delay_s,
                    down_s: None,
                    may_be_held,
                    is_relayed,
                });
            }
        }
        if tick % 10 == 0 {
            let own_s = PerDirection { up: Some(0.0), down: Some(0.0) };
            budget = Some(tracker.budget(&Reading { own_s, ..Reading::default() }));
        }
    }
    let budget = budget.expect("eight seconds");
    (budget.part(Segment::Home), budget.home_host)
}

/// 110 ms wait in the downlink for certain. Two of ten packets of home may wait for longer: that is where most may wait.
#[test]
fn what_may_wait_longer_at_home_keeps_the_line_from_being_named() {
    let place = |home_s: f64| {
        let mut tracker = DelayTracker::default();
        for from in 0..3 {
            second(&mut tracker, f64::from(from), &IDLE);
        }
        let full = Truth { down_s: 0.11, load: PerDirection { up: 0.1, down: 1.0 }, home_samples: 0, ..IDLE };
        for from in 3..6 {
            second(&mut tracker, f64::from(from), &full);
        }
        tracker.tick(6.1, PerDirection::default());
        let home = [flow(1, 0.001, 0.001, 8), flow(2, 0.001, 0.001 + home_s, 2)];
        let own_s = PerDirection { up: Some(0.0), down: Some(0.0) };
        let budget = tracker.budget(&Reading { home: &home, own_s, ..Reading::default() });
        (budget.part(Segment::Home), budget.place())
    };
    assert_eq!(place(0.24), (Err(Unknown::TooFew), Place::Unknown));
    assert_eq!(place(0.1), (Err(Unknown::TooFew), Place::In(Segment::Downlink)));
    assert_eq!(place(0.0).1, Place::In(Segment::Downlink));
}

/// Rates are unknown, and requests load the line more than a line of unknown rate may be loaded to count as free. That nothing waits there is
/// shown by the end that was heard before.
#[test]
fn a_base_is_proven_by_another_end_that_waits_for_nothing() {
    let mut tracker = DelayTracker::default();
    let one = Truth { beyond_s: [Some(0.0), None], rates: UNKNOWN_RATES, ..IDLE };
    let requests = PerDirection { up: 0.08, down: 0.02 };
    let queue = |beyond_s, waits_s: f64| Truth {
        beyond_s: [Some(beyond_s), Some(0.0)],
        up_s: waits_s,
        load: requests,
        ..one
    };
    for from in 0..3 {
        second(&mut tracker, f64::from(from), &one);
    }
    let mut of = |from: u32, truth: Truth| {
        let budgets = (from..from + 4).map(|from| second(&mut tracker, f64::from(from), &truth));
        budgets.last().expect("four")
    };
    assert_eq!(of(3, queue(0.0, 0.0)).place(), Place::Nowhere);
    // The first end is slow: the second one, heard under load only, shows that the line is not.
    assert_eq!(of(7, queue(0.3, 0.0)).place(), Place::In(Segment::Beyond));
    // The second end was never heard while the line was free.
    let mut tracker = DelayTracker::default();
    for from in 0..3 {
        second(&mut tracker, f64::from(from), &one);
    }
    let budgets = (3..7).map(|from| second(&mut tracker, f64::from(from), &queue(0.0, 0.3)));
    assert_eq!(budgets.last().expect("four").part(Segment::Beyond), Err(Unknown::OneEnd));
}

/// More ends than are remembered reply within a second, on a free line: the base of one that was forgotten is not made up, and none is lost for it.
#[test]
fn a_base_that_was_forgotten_is_not_proven() {
    let mut tracker = DelayTracker::default();
    for from in 0..3 {
        second(&mut tracker, f64::from(from), &IDLE);
    }
    let reply = |end| Reply {
        end,
        request_bytes: 66,
        delay_s: 0.02,
        down_s: Some(0.0),
        may_be_held: false,
        is_relayed: false,
    };
    for end in (1_000..6_000).rev().chain([1, 2]) {
        for _ in 0..3 {
            tracker.reply(&reply(end));
        }
    }
    let full = Truth { up_s: 0.3, load: PerDirection { up: 1.0, down: 0.1 }, ..IDLE };
    let budgets =
        (3..9).map(|from| second(&mut tracker, f64::from(from), if from < 4 { &IDLE } else { &full }));
    assert_eq!(budgets.last().expect("six").place(), Place::In(Segment::Uplink));
}

/// A server thinks for 40 ms while the line has little load, and for less later: its base stays proven. The other end waits beyond the line.
#[test]
fn a_shorter_delay_than_a_proven_one_is_proven() {
    let mut tracker = DelayTracker::default();
    for from in 0..3 {
        second(&mut tracker, f64::from(from), &Truth { beyond_s: [Some(0.0), Some(0.04)], ..IDLE });
    }
    let load = PerDirection { up: 0.1, down: 0.7 };
    let slow = Truth { beyond_s: [Some(0.3), Some(0.0)], load, ..IDLE };
    let budgets = (3..8).map(|from| second(&mut tracker, f64::from(from), &slow));
    assert_eq!(budgets.last().expect("five").place(), Place::In(Segment::Beyond));
}

/// A host that replies seldom is not left out: packets wait there, or that is unknown.
#[test]
fn a_host_that_replies_seldom_is_part_of_home() {
    let (waits, host) = quic_at_home(0.3, 10, false);
    assert!(waits.is_ok_and(|delay| (delay.queue_s - 0.3).abs() < 0.01), "{waits:?}");
    assert_eq!(host, Some(2));
    // Twice within the 3 s, or to repeated requests: an upper bound only.
    assert_eq!(quic_at_home(0.3, 20, false).0, Err(Unknown::TooFew));
    assert_eq!(quic_at_home(0.3, 10, true).0, Err(Unknown::TooFew));
    let (free, _) = quic_at_home(0.0, 10, false);
    assert!(free.is_ok_and(|delay| delay.queue_s == 0.0), "{free:?}");
}

#[test]
fn bases_are_reported() {
    let budget = of(Truth { home_s: 0.31, ..IDLE });
    assert!((budget.part(Segment::Home).expect("known").base_s - 0.001).abs() < 1e-9);
    // Without the packet's own time on the line.
    assert!((budget.part(Segment::Beyond).expect("known").base_s - (0.02 - 66.0 / RATE)).abs() < 1e-9);
    // One of a hundred ACKs a second may be delayed by 10 ms.
    assert!((budget.queue_s().expect("known") - 0.305).abs() < 1e-9);
}

#[test]
fn what_nothing_shows_is_unknown_with_the_reason() {
    let one_end = [Some(0.3), None];
    let cases = [
        // One far end and a line that has room: the route, or a radio link that is slower than configured.
        (Segment::Beyond, Unknown::OneEnd, Truth { beyond_s: one_end, ..IDLE }),
        (Segment::Downlink, Unknown::OneEnd, Truth { beyond_s: one_end, ..IDLE }),
        (Segment::Uplink, Unknown::OneEnd, Truth { beyond_s: one_end, rates: UNKNOWN_RATES, ..IDLE }),
        (Segment::Uplink, Unknown::NoReplies, Truth { beyond_s: [None, None], ..IDLE }),
        (Segment::Beyond, Unknown::NoReplies, Truth { beyond_s: [None, None], ..IDLE }),
        (Segment::Home, Unknown::NoReplies, Truth { home_samples: 0, ..IDLE }),
        // A host at home that delays its ACK.
        (Segment::Home, Unknown::TooFew, Truth { home_s: 0.04, home_samples: 3, ..IDLE }),
        (
            Segment::Uplink,
            Unknown::Undivided,
            Truth { up_s: 0.1, down_s: 0.1, has_clock: false, rates: UNKNOWN_RATES, ..IDLE },
        ),
        (
            Segment::Uplink,
            Unknown::Undivided,
            Truth {
                up_s: 0.1,
                load: PerDirection { up: 1.0, down: 1.0 },
                has_clock: false,
                rates: UNKNOWN_RATES,
                ..IDLE
            },
        ),
    ];
    for (index, (segment, why, truth)) in cases.into_iter().enumerate() {
        let budget = of(truth);
        assert_eq!(budget.part(segment), Err(why), "case {index}: {budget:?}");
        assert_eq!(budget.place(), Place::Unknown, "case {index}: {budget:?}");
    }
    let nothing = DelayTracker::default().budget(&Reading::default());
    assert_eq!(nothing.part(Segment::Gateway), Err(Unknown::NotRead));
    assert_eq!((nothing.place(), nothing.queue_s()), (Place::Unknown, None));
}

/// First heard while 300 ms wait on the line: its base has them, and by it the line would be free and the other end slow.
#[test]
fn an_end_that_is_new_under_load_acquits_nobody() {
    let mut tracker = DelayTracker::default();
    let silent = Truth { beyond_s: [Some(0.0), None], ..IDLE };
    for from in 0..3 {
        second(&mut tracker, f64::from(from), &silent);
    }
    let full = Truth { up_s: 0.3, load: PerDirection { up: 1.0, down: 0.1 }, ..IDLE };
    let mut place = Place::Unknown;
    for from in 3..6 {
        let beyond_s = [Some(0.0), (from > 3).then_some(0.0)];
        place = second(&mut tracker, f64::from(from), &Truth { beyond_s, ..full }).place();
    }
    assert_eq!(place, Place::In(Segment::Uplink));
    // Nobody was ever heard on a free line: nothing is known, and nothing is said.
    let mut tracker = DelayTracker::default();
    let budgets = (0..3).map(|from| second(&mut tracker, f64::from(from), &full));
    assert_eq!(budgets.last().expect("three").part(Segment::Uplink), Err(Unknown::NoBase));
}

/// The rate is unknown, and requests alone are more than a line of unknown rate counts as idle. A download shows later that it carries more.
#[test]
fn a_base_is_proven_once_the_line_has_carried_more() {
    let mut tracker = DelayTracker::default();
    let far_away = [Some(0.1), Some(0.1)];
    let load = PerDirection { up: 0.02, down: 0.04 };
    let requests = Truth { load, rates: UNKNOWN_RATES, beyond_s: far_away, ..IDLE };
    for from in 0..3 {
        let budget = second(&mut tracker, f64::from(from), &requests);
        assert_eq!(budget.part(Segment::Beyond), Err(Unknown::NoBase));
    }
    let load = PerDirection { up: 0.02, down: 0.5 };
    let slow = Truth { beyond_s: [Some(0.3), far_away[1]], load, ..requests };
    let budget = (3..6).map(|from| second(&mut tracker, f64::from(from), &slow)).last().expect("three");
    assert_eq!(budget.place(), Place::In(Segment::Beyond), "{budget:?}");
}

/// Requests and their replies: each reply acknowledges one segment, and may have been delayed. Quick ones show that the line is free, and those
/// that took as long as the other end's that it is not; late ones show nothing.
#[test]
fn replies_that_may_be_delayed_agree_or_acquit_and_never_accuse() {
    let place = |held_extra_s: f64, bulk_extra_s: Option<f64>| {
        let mut tracker = DelayTracker::default();
        let mut budget = None;
        for from in 0..6 {
            for tick in 1..=10 {
                let bytes = if from < 3 { 100 } else { 20_000 };
                tracker.tick(f64::from(from) + f64::from(tick) / 10.0, PerDirection { up: 100, down: bytes });
                let extra = |extra_s: f64| if from < 3 { 0.0 } else { extra_s };
                let reply = |end, extra_s, may_be_held| Reply {
                    end,
                    request_bytes: 66,
                    delay_s: 0.02 + extra(extra_s),
                    down_s: Some(extra(extra_s)),
                    may_be_held,
                    is_relayed: false,
                };
                tracker.reply(&reply(1, held_extra_s, true));
                if let Some(extra_s) = bulk_extra_s {
                    tracker.reply(&reply(2, extra_s, false));
                }
            }
            let own_s = PerDirection { up: Some(0.0), down: Some(0.0) };
            let home = [flow(1, 0.001, 0.001, 100)];
            budget = Some(tracker.budget(&Reading { home: &home, own_s, ..Reading::default() }));
        }
        budget.expect("six").place().name()
    };
    assert_eq!(place(0.0, None), "nowhere");
    assert_eq!(place(0.0, Some(0.2)), "beyond");
    assert_eq!(place(0.2, Some(0.2)), "downlink");
    assert_eq!(place(0.3, Some(0.1)), "unknown");
    // No receiver delays an ACK for so long; but the line may hold more than what is beyond for certain.
    assert_eq!(place(0.35, Some(0.1)), "unknown");
    assert_eq!(place(0.45, Some(0.1)), "beyond");
    assert_eq!(place(0.04, None), "unknown");
}

/// An upload that loses segments beyond the line: no reply tells by itself, RTT samples do. Few of them are nothing, since ACKs may be delayed.
#[test]
fn an_upload_that_waits_beyond_the_line_shows_in_its_rtt_samples() {
    let place = |samples, least_s| {
        let mut tracker = DelayTracker::default();
        let mut budget = None;
        for from in 0..4 {
            for tick in 1..=10 {
                let at_s = f64::from(from) + f64::from(tick) / 10.0;
                tracker.tick(at_s, PerDirection { up: 5_000, down: 100 });
                let down_s = Some(0.0);
                tracker.reply(&Reply {
                    end: 1,
                    request_bytes: 66,
                    delay_s: 0.02,
                    down_s,
                    may_be_held: true,
                    is_relayed: false,
                });
            }
            let own_s = PerDirection { up: Some(0.05), down: Some(0.0) };
            let home = [flow(1, 0.001, 0.001, 100)];
            let far = [flow(7, 0.02, least_s, samples)];
            budget = Some(tracker.budget(&Reading {
                home: &home,
                far: &far,
                own_s,
                rates: CONFIGURED,
                ..Reading::default()
            }));
        }
        budget.expect("four").place().name()
    };
    assert_eq!(place(20, 0.02 + 0.05 + 0.7), "beyond");
    assert_eq!(place(5, 0.02 + 0.05 + 0.7), "beyond");
    // Up to 200 ms of them may be delayed ACKs: 50 ms at the gateway, and none or 190 ms beyond.
    assert_eq!(place(5, 0.02 + 0.05 + 0.19), "unknown");
    assert_eq!(place(200, 0.02 + 0.05), "gateway");
}

/// One of many far ends thinks for seconds; a receiver delays the ACK of a single segment.
#[test]
fn a_late_answer_is_no_queue() {
    let mut tracker = DelayTracker::default();
    for from in 0..3 {
        second(&mut tracker, f64::from(from), &IDLE);
    }
    let late = |end, delay_s, may_be_held| Reply {
        end,
        request_bytes: 66,
        delay_s,
        down_s: None,
        may_be_held,
        is_relayed: false,
    };
    tracker.reply(&late(1, 0.06, true));
    tracker.reply(&late(2, 3.0, false));
    let budget = second(&mut tracker, 3.0, &IDLE);
    assert_eq!(budget.place(), Place::Nowhere, "{budget:?}");
    // Alone in its second, and late: the other end shows that the line is free, and one reply accuses nobody.
    tracker.reply(&late(2, 3.0, false));
    let alone = second(&mut tracker, 4.0, &Truth { beyond_s: [Some(0.0), None], ..IDLE });
    assert_eq!(alone.place(), Place::Nowhere, "{alone:?}");
}

/// At 196 kbit/s a full packet takes 62 ms: that is no queue, although only handshakes were seen without load.
#[test]
fn a_long_packets_time_on_the_line_is_no_queue() {
    let rate = Known { value: 24_500.0, provenance: Provenance::Config };
    let rates = PerDirection { up: Some(rate), down: Some(rate) };
    let mut tracker = DelayTracker::default();
    let reading =
        Reading { own_s: PerDirection { up: Some(0.0), down: Some(0.0) }, rates, ..Reading::default() };
    let reply = |request_bytes, delay_s| Reply {
        end: 1,
        request_bytes,
        delay_s,
        down_s: Some(0.0),
        may_be_held: false,
        is_relayed: false,
    };
    tracker.tick(0.1, PerDirection { up: 66, down: 66 });
    tracker.reply(&reply(66, 0.02));
    tracker.budget(&reading);
    for tick in 2..12 {
        tracker.tick(f64::from(tick) / 10.0, PerDirection { up: 2_450, down: 66 });
        tracker.reply(&reply(1514, 0.02 + 0.0618));
    }
    let up = tracker.budget(&reading).part(Segment::Uplink).expect("known");
    assert!(up.queue_s <= 0.001, "{up:?}");
    for tick in 12..42 {
        tracker.tick(f64::from(tick) / 10.0, PerDirection { up: 2_450, down: 66 });
        tracker.reply(&reply(1514, 0.02 + 0.0618 + 0.5));
    }
    let up = tracker.budget(&reading).part(Segment::Uplink).expect("full");
    assert!((up.queue_s - 0.5).abs() <= up.uncertainty_s, "{up:?}");
}

/// A route that has become longer is its own base ten minutes later.
#[test]
fn a_longer_route_is_a_base_in_the_end() {
    let mut tracker = DelayTracker::default();
    let longer = Truth { beyond_s: [Some(0.1), Some(0.0)], ..IDLE };
    second(&mut tracker, 0.0, &IDLE);
    let soon = (1..4).map(|from| second(&mut tracker, f64::from(from), &longer));
    assert_eq!(soon.last().expect("three").place(), Place::In(Segment::Beyond));
    let late = (3..700).map(|from| second(&mut tracker, f64::from(from) * 1.0 + 1.0, &longer));
    assert_eq!(late.last().expect("many").place(), Place::Nowhere);
}

/// Half of a torrent's hundred ends are slow: that is said. One of them is: that is nobody's delay.
#[test]
fn what_is_said_of_many_ends_is_what_a_tenth_of_the_traffic_has() {
    let place = |slow: u32| {
        let mut tracker = DelayTracker::default();
        let mut budget = None;
        for from in 0..3 {
            for tick in 0..10 {
                tracker
                    .tick(f64::from(from) + f64::from(tick + 1) / 10.0, PerDirection { up: 500, down: 500 });
                for end in 0..100 {
                    let extra_s = if from > 0 && end < slow { 0.4 } else { 0.0 };
                    let delay_s = 0.03 + extra_s;
                    tracker.reply(&prompt(end, delay_s));
                }
            }
            let own_s = PerDirection { up: Some(0.0), down: Some(0.0) };
            budget = Some(tracker.budget(&Reading { own_s, rates: CONFIGURED, ..Reading::default() }));
        }
        budget.expect("three").part(Segment::Beyond).expect("known").queue_s
    };
    assert!(place(1) < 0.01);
    assert!(place(50) > 0.39);
}

/// Two servers that may have asked others first, once a second: the extra delay of each, as the line would have it.
fn relayed(extra_s: [f64; 2], direct_s: Option<f64>) -> Budget {
    let mut tracker = DelayTracker::default();
    let reply = |end, extra_s, is_relayed| Reply {
        end,
        request_bytes: 80,
        delay_s: 0.02 + extra_s,
        down_s: None,
        may_be_held: is_relayed,
        is_relayed,
    };
    (0..6)
        .map(|second| {
            let now = |waits: f64| if second < 3 { 0.0 } else { waits };
            for tick in 1..=10 {
                tracker.tick(f64::from(second) + f64::from(tick) / 10.0, PerDirection::from_fn(|_| 200));
            }
            tracker.reply(&reply(1, now(extra_s[0]), true));
            tracker.reply(&reply(2, now(extra_s[1]), true));
            if let Some(extra_s) = direct_s {
                tracker.reply(&reply(3, now(extra_s), false));
            }
            tracker.budget(&Reading { rates: CONFIGURED, ..Reading::default() })
        })
        .last()
        .expect("six seconds")
}

/// A resolver that asks both of the provider's servers, whose cache is cold: no queue, whatever they take. That one of them replies at once
/// shows that the line is free.
#[test]
fn servers_that_ask_others_only_show_that_a_line_is_free() {
    assert_eq!(relayed([0.09, 0.08], None).part(Segment::Uplink), Err(Unknown::NoReplies));
    assert!(relayed([0.09, 0.0], None).part(Segment::Uplink).is_ok_and(|delay| delay.queue_s == 0.0));
    // A server that replies by itself says the same as they do: they agree.
    let waits = relayed([0.2, 0.21], Some(0.2));
    assert_eq!(waits.part(Segment::Uplink), Err(Unknown::Undivided), "{waits:?}");
    assert!(relayed([0.09, 0.08], Some(0.0)).part(Segment::Uplink).is_ok_and(|delay| delay.queue_s == 0.0));
}

/// QUIC alone before a modem of 196 kbit/s: one connection each second. The first packet passes at once, since the line was idle; a full line needs no
/// more replies to be where packets wait.
#[test]
fn one_reply_a_second_shows_the_queue_of_a_full_line() {
    let rate = Known { value: 24_500.0, provenance: Provenance::Config };
    let rates = PerDirection { up: Some(rate), down: Some(rate) };
    let mut tracker = DelayTracker::default();
    let mut budget = None;
    for from in 0..6 {
        let (bytes, delay_s) = if from < 3 { (120, 0.02) } else { (2_450, 1.2) };
        for tick in 1..=10 {
            tracker.tick(f64::from(from) + f64::from(tick) / 10.0, PerDirection { up: bytes, down: 60 });
        }
        tracker.reply(&Reply {
            end: 1,
            request_bytes: 1_228,
            delay_s,
            down_s: None,
            may_be_held: false,
            is_relayed: false,
        });
        let own_s = PerDirection { up: Some(0.0), down: Some(0.0) };
        let reading = Reading { own_s, rates, ..Reading::default() };
        // Two of the last three seconds had a reply.
        budget = (from != 4).then(|| tracker.budget(&reading)).or(budget);
    }
    assert_eq!(budget.expect("six").place(), Place::In(Segment::Uplink), "{budget:?}");
}

/// Nothing is named that nobody notices, and a free segment may hide no more than that.
#[test]
fn a_place_is_named_from_what_is_noticed_on() {
    let place = |queue_s: f64, uncertainty_s: f64| {
        let delay = |queue_s| Ok(Delay { base_s: 0.01, queue_s, uncertainty_s });
        let mut segments = [delay(0.0); Segment::ALL.len()];
        segments[Segment::Home as usize] = delay(queue_s);
        Budget { segments, home_host: None, far_host: None, may_wait_s: 0.0 }.place()
    };
    assert_eq!(
        [0.028, 0.032].map(|queue_s| place(queue_s, 0.001)),
        [Place::Nowhere, Place::In(Segment::Home)]
    );
    assert_eq!(
        [0.027, 0.033].map(|uncertainty_s| place(0.0, uncertainty_s)),
        [Place::Nowhere, Place::Unknown]
    );
}

/// A host whose QUIC tells one round trip in a second and a fifth waits beyond the line, by no more than two replies in three seconds.
#[test]
fn who_replies_late_replies_seldom() {
    let mut tracker = DelayTracker::default();
    for from in 0..3 {
        second(&mut tracker, f64::from(from), &IDLE);
    }
    let mut places = Vec::new();
    for tick in 30..150_u32 {
        let at_s = f64::from(tick + 1) / 10.0;
        tracker.tick(at_s, PerDirection { up: RATE as u64 / 20, down: RATE as u64 / 1000 });
        if tick % 2 == 0 {
            tracker.reply(&prompt(2, 0.02));
        }
        if tick % 12 == 0 {
            tracker.reply(&prompt(1, 1.2));
        }
        if tick % 10 == 9 {
            let own_s = PerDirection { up: Some(0.0), down: Some(0.0) };
            let reading =
                Reading { home: &[flow(1, 0.001, 0.001, 9)], own_s, rates: CONFIGURED, ..Reading::default() };
            places.push(tracker.budget(&reading).place());
        }
    }
    let beyond = Place::In(Segment::Beyond);
    assert!(places[4..].iter().all(|place| *place == beyond), "{places:?}");
}

/// QUIC has no clock, the rates are unknown, and requests alone are more than counts as idle: as much has passed the uplink while nothing waited. A
/// download fills the downlink, and hosts that take long anyhow wait for it alike.
#[test]
fn hosts_that_wait_alike_show_the_line_whatever_hides_in_their_bases() {
    let mut tracker = DelayTracker::default();
    let load = PerDirection { up: 0.1, down: 0.1 };
    let beyond_s = [Some(0.03), Some(0.05)];
    let calm = Truth { load, rates: UNKNOWN_RATES, beyond_s, has_clock: false, ..IDLE };
    (0..3).for_each(|from| _ = second(&mut tracker, f64::from(from), &calm));
    let full = Truth { load: PerDirection { down: 1.0, ..load }, down_s: 0.2, ..calm };
    let budget = (3..9).map(|from| second(&mut tracker, f64::from(from), &full)).last().expect("six");
    assert_eq!(budget.place(), Place::In(Segment::Downlink), "{budget:?}");
    let downlink = budget.part(Segment::Downlink).expect("known");
    assert!((downlink.queue_s - 0.2).abs() <= downlink.uncertainty_s, "{budget:?}");
}

/// An upload has filled the modem before the agent began. What it carried proves nothing once its queue has drained: a later upload beside a
/// download is not told apart from it.
#[test]
fn what_passed_while_a_queue_hid_in_the_bases_has_not_passed_freely() {
    let mut tracker = DelayTracker::default();
    let alone = Truth {
        load: PerDirection { up: 1.0, down: 0.02 },
        up_s: 0.4,
        rates: UNKNOWN_RATES,
        has_clock: false,
        ..IDLE
    };
    (0..4).for_each(|from| _ = second(&mut tracker, f64::from(from), &alone));
    let idle = Truth { load: IDLE.load, up_s: 0.0, ..alone };
    (4..10).for_each(|from| _ = second(&mut tracker, f64::from(from), &idle));
    let both = Truth { load: PerDirection { up: 1.0, down: 0.5 }, ..alone };
    for from in 10..20 {
        let budget = second(&mut tracker, f64::from(from), &both);
        assert_ne!(budget.place(), Place::In(Segment::Downlink), "{from}: {budget:?}");
    }
}

/// An upload fills the modem, and of four requests to host 2 two were lost there and repeated after a second: those waited no longer than the others.
#[test]
fn a_request_that_was_repeated_did_not_wait_for_its_reply() {
    let mut tracker = DelayTracker::default();
    (0..3).for_each(|from| _ = second(&mut tracker, f64::from(from), &IDLE));
    let full =
        Truth { up_s: 0.4, load: PerDirection { up: 1.0, down: 0.02 }, beyond_s: [Some(0.0), None], ..IDLE };
    for from in 3..12 {
        let budget = second(&mut tracker, f64::from(from), &full);
        let is_relayed = from % 2 == 0;
        tracker.reply(&Reply { is_relayed, ..prompt(2, if is_relayed { 1.5 } else { 0.42 }) });
        assert!(from < 6 || budget.place() == Place::In(Segment::Uplink), "{from}: {budget:?}");
    }
}
