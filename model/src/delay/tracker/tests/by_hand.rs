//! Each part of the tracker alone, with figures worked out by hand.

use super::*;
use crate::delay::HiddenWait;

const NO_LOAD: Load = PerDirection { up: 0.0, down: 0.0 };

fn load(up: f64, down: f64) -> Load {
    PerDirection { up, down }
}

#[test]
fn the_least_delay_and_the_lightest_load_are_kept_apart() {
    let mut least = Least::default();
    least.see(0.2, load(5.0, 5.0));
    least.see(0.1, load(20.0, 0.0));
    assert_eq!((least.delay_s, least.load), (0.1, load(5.0, 5.0)));
    least.see(0.3, load(8.0, 2.0));
    assert_eq!((least.delay_s, least.load), (0.1, load(5.0, 5.0)), "as much in all");
    least.see(0.3, load(9.0, 0.5));
    assert_eq!((least.delay_s, least.load), (0.1, load(9.0, 0.5)));
}

#[test]
fn a_period_becomes_the_older_one_and_then_goes() {
    let at = |at_s| {
        let mut seen = TwoPeriods { older: 1, newer: 2, since_s: 100.0 };
        *seen.now(at_s, 50.0) += 10;
        (seen.older, seen.newer, seen.since_s)
    };
    assert_eq!([at(150.0), at(150.1)], [(1, 12, 100.0), (2, 10, 150.1)]);
    assert_eq!([at(200.0), at(200.1)], [(2, 10, 200.0), (0, 10, 200.1)]);
}

#[test]
fn the_most_that_passed_is_of_two_periods_of_150_s() {
    let mut most = TwoPeriods::default();
    most.raise(100.0, load(9.0, 1.0));
    most.raise(140.0, load(3.0, 2.0));
    assert_eq!((most.newer, most.older), (load(9.0, 2.0), NO_LOAD));
    most.raise(151.0, load(4.0, 1.0));
    assert_eq!(Direction::ALL.map(|x| most.most(x)).iter().sum::<f64>(), 9.0 + 2.0);
    assert_eq!(most.newer, load(4.0, 1.0));
    most.raise(302.0, NO_LOAD);
    assert_eq!(most.most(Direction::Up), 4.0);
}

#[test]
fn what_may_hide_in_a_base_is_what_any_period_proved() {
    let of = |older: (f64, f64), newer: (f64, f64)| {
        let least = |(delay_s, hidden_s)| Least { delay_s, hidden_s, load: load(delay_s, 0.0) };
        let seen = TwoPeriods { older: least(older), newer: least(newer), since_s: 0.0 };
        let least = Base { seen, ..Base::new(0.0) }.least();
        (least.delay_s, least.hidden_s, least.load.up)
    };
    let inf = f64::INFINITY;
    assert_eq!(of((0.2, inf), (0.3, inf)), (0.2, 0.2, 0.2), "no more than all of it");
    assert_eq!(of((0.3, inf), (0.2, inf)), (0.2, 0.2, 0.2));
    assert_eq!([of((0.3, 0.1), (0.2, inf)), of((0.2, inf), (0.3, 0.1))], [(0.2, 0.1, 0.2); 2]);
    let mut base = Base::new(5.0);
    [0.5, 0.25, 0.75].into_iter().for_each(|line_s| base.prove(line_s));
    assert_eq!((base.seen.newer.hidden_s, base.seen.since_s), (0.25, 5.0));
}

#[test]
fn a_route_is_the_least_since_the_line_was_free() {
    let mut base = Base::new(0.0);
    let routes = [(0.3, false), (0.2, false), (0.4, false), (0.4, true), (0.5, false), (0.1, false)]
        .map(|(delay_s, is_free)| base.route(delay_s, is_free));
    assert_eq!(routes, [0.3, 0.2, 0.2, 0.4, 0.4, 0.1]);
}

fn timed(delay_s: f64, held_s: f64) -> Timed {
    Timed { at_s: 0.0, delay_s, held_s, down_s: None, up_s: None }
}

fn heard(replies: &[(f64, f64)]) -> Heard {
    Heard(replies.iter().map(|(delay_s, held_s)| timed(*delay_s, *held_s)).collect())
}

#[test]
fn the_slowest_tenth_without_what_a_receiver_may_hold() {
    let of = |count: u32| {
        let replies: Vec<(f64, f64)> = (1..=count).map(|at| (f64::from(at), 0.0)).collect();
        heard(&replies).slow_s(1.0)
    };
    assert_eq!([of(0), of(1), of(9), of(10), of(19), of(20)], [0.0, 0.0, 8.0, 8.0, 17.0, 17.0]);
    assert_eq!(heard(&[(3.0, 0.5), (9.0, 8.5)]).slow_s(1.0), 1.5);
    assert_eq!(heard(&[(0.5, 0.0)]).slow_s(1.0), 0.0);
}

#[test]
fn replies_are_counted_by_the_second() {
    assert_eq!([0, 1, 3, 4, 30].map(|count| heard(&vec![(1.0, 0.0); count]).per_second()), [0, 1, 1, 2, 10]);
}

#[test]
fn how_long_a_reply_may_have_been_held() {
    let held = |may_be_held, is_relayed| {
        held_s(&Reply { end: 1, request_bytes: 0, delay_s: 0.0, down_s: None, may_be_held, is_relayed })
    };
    assert_eq!([held(false, false), held(true, false)], [0.0, 0.2]);
    assert_eq!([held(false, true), held(true, true)], [f64::INFINITY; 2]);
}

#[test]
fn the_median_of_few_figures_may_be_far_off() {
    let of = |count: usize| {
        Middle::of((1..=count).rev().map(|at| at as f64).collect()).map(|it| [it.least, it.median, it.most])
    };
    assert!(of(0).is_none());
    // Ranks below the median by half of a root of the count: (8 - 3)/2, (15 - 4)/2, (99 - 10)/2.
    assert_eq!([of(1), of(2), of(4)], [Some([1.0; 3]), Some([1.0, 1.0, 2.0]), Some([1.0, 2.0, 4.0])]);
    assert_eq!([of(9), of(16)], [Some([3.0, 5.0, 7.0]), Some([6.0, 8.0, 11.0])]);
    assert_eq!(of(100), Some([45.0, 50.0, 56.0]));
}

fn bounds(wait: (WaitBounds, Option<f64>)) -> [f64; 3] {
    let WaitBounds { least_s, likely_s, most_s } = wait.0;
    [least_s, likely_s, most_s].map(|seconds| (seconds * 1e3).round() / 1e3)
}

#[test]
fn replies_that_nobody_held_count_alone_if_they_are_three() {
    // The base is 1 s.
    assert_eq!(bounds(heard(&[(2.0, 0.0), (3.0, 0.0), (4.0, 0.0), (9.0, 0.2)]).wait(1.0)), [1.0, 2.0, 3.0]);
    assert_eq!(bounds(heard(&[(2.0, 0.0), (3.0, 0.0), (9.0, 0.2)]).wait(1.0)), [1.0, 2.0, 8.0]);
    assert_eq!(bounds(heard(&[(2.2, 0.2)]).wait(1.0)), [1.0, 1.2, 1.2]);
    // One that is late for another reason counts where others are as late.
    let late = (5.0, f64::INFINITY);
    assert_eq!(bounds(heard(&[late]).wait(1.0)), [0.0, 4.0, 4.0]);
    assert_eq!(bounds(heard(&[(6.0, 0.0), late]).wait(1.0)), [0.0, 4.0, 5.0]);
    assert_eq!(bounds(heard(&[(4.0, 0.0), late]).wait(1.0)), [3.0; 3]);
    assert_eq!(heard(&[]).wait(1.0).0, WaitBounds::ANY);
}

#[test]
fn the_clock_tells_the_median_of_what_counts() {
    let with = |down: &[f64]| {
        let replies = down.iter().map(|down_s| Timed { down_s: Some(*down_s), ..timed(1.0, 0.0) }).collect();
        Heard(replies).wait(0.0).1
    };
    assert_eq!([with(&[0.3]), with(&[0.3, 0.1, 0.2]), with(&[])], [Some(0.3), Some(0.2), None]);
}

/// Kept for three seconds, or as long as four of its own kind take, six at most.
#[test]
fn who_replies_late_is_remembered_for_longer() {
    let kept = |delay_s, at_s| {
        let mut all = BTreeMap::from([(1, heard(&[(delay_s, 0.0)]))]);
        forget(&mut all, at_s);
        !all.is_empty()
    };
    assert_eq!(
        [kept(0.1, 2.9), kept(0.1, 3.0), kept(0.75, 2.9), kept(0.75, 3.0)],
        [true, false, true, false]
    );
    assert_eq!([kept(1.0, 3.9), kept(1.0, 4.0), kept(9.0, 5.9), kept(9.0, 6.0)], [true, false, true, false]);
}

#[test]
fn flows_of_one_end_are_put_together() {
    let flow = |end, packets, base_s| TimedFlow {
        end,
        packets,
        rtt: Some(FlowRtt { base_s, least_s: 0.1, samples: 1 }),
    };
    let ends = by_end(&[
        flow(1, 3, 0.1),
        flow(2, 5, 0.1),
        flow(1, 4, f64::NAN),
        TimedFlow { rtt: None, ..flow(2, 1, 0.0) },
    ]);
    let told: Vec<(u32, u32, usize)> =
        ends.iter().map(|(end, (packets, rtts))| (*end, *packets, rtts.len())).collect();
    assert_eq!(told, [(1, 7, 1), (2, 6, 1)]);
}

/// A far end that waits for so long, with nothing hidden.
fn far(number: u32, least_s: f64, most_s: f64) -> Far {
    let wait = WaitBounds { least_s, likely_s: most_s, most_s };
    let end = EndWait { number, base_s: 0.02, wait, packets: 10 };
    Far { end, hidden_s: 0.0, is_proven: true, slow_s: 0.0, is_steady: true, down_s: None }
}

const NOT_FULL: PerDirection<bool> = PerDirection { up: false, down: false };

fn found(ends: &[Far], is_full: PerDirection<bool>) -> Option<([f64; 4], bool)> {
    line(ends, is_full)
        .map(|line| ([line.wait.least_s, line.wait.most_s, line.grown_s, line.ever_s], line.is_sure))
}

#[test]
fn the_line_holds_no_more_than_the_end_that_waits_least() {
    assert_eq!(found(&[], NOT_FULL), None);
    assert_eq!(found(&[far(1, 0.0, f64::INFINITY)], NOT_FULL), None, "it did not reply");
    assert_eq!(
        found(&[far(1, 0.25, 0.5), far(2, 0.75, 1.0)], NOT_FULL),
        Some(([0.25, 0.5, 0.5, 0.5], false))
    );
    let hiding = Far { hidden_s: 0.75, slow_s: 2.0, ..far(1, 0.25, 0.5) };
    assert_eq!(found(&[hiding, far(2, 1.0, 3.0)], NOT_FULL), Some(([0.25, 1.25, 0.5, 2.0], false)));
    assert_eq!(
        found(&[hiding, far(2, 1.0, 1.2)], NOT_FULL),
        Some(([1.0, 1.2, 1.2, 1.2], false)),
        "what hides counts"
    );
}

#[test]
fn two_ends_that_wait_alike_or_a_full_direction_make_it_sure() {
    let full = |up, down| PerDirection { up, down };
    assert!(found(&[far(1, 0.25, 0.5)], full(true, false)).is_some_and(|(_, is_sure)| is_sure));
    assert!(found(&[far(1, 0.25, 0.5)], full(false, true)).is_some_and(|(_, is_sure)| is_sure));
    // Within a quarter and 5 ms.
    let alike = |least_s| {
        found(&[far(1, 0.25, 0.4), far(2, least_s, 0.9)], NOT_FULL).is_some_and(|(_, is_sure)| is_sure)
    };
    assert_eq!([alike(0.504), alike(0.506)], [true, false]);
    // Without a certain wait what it may be counts.
    let free = |most_s| {
        found(&[far(1, 0.0, 0.004), far(2, 0.0, most_s)], NOT_FULL).is_some_and(|(_, is_sure)| is_sure)
    };
    assert_eq!([free(0.0099), free(0.0101)], [true, false]);
    // The largest certain wait of those that agree, and no more than the least of the most.
    assert_eq!(found(&[far(1, 0.25, 0.4), far(2, 0.3, 0.9)], NOT_FULL), Some(([0.3, 0.4, 0.4, 0.4], true)));
    assert_eq!(found(&[far(1, 0.25, 0.4), far(2, 0.45, 0.9)], NOT_FULL), Some(([0.4, 0.4, 0.4, 0.4], true)));
}

#[test]
fn the_clock_of_the_least_or_of_those_that_agree_tells_the_downlink() {
    let told = |ends: &[Far]| line(ends, NOT_FULL).and_then(|line| line.down_s);
    let with = |far: Far, down_s| Far { down_s: Some(down_s), ..far };
    assert_eq!(told(&[with(far(1, 0.2, 0.4), 0.3), with(far(2, 0.2, 0.5), 0.1)]), Some(0.3));
    assert_eq!(
        told(&[far(1, 0.2, 0.4), with(far(2, 0.2, 0.5), 0.1), with(far(3, 0.2, 0.5), 0.2)]),
        Some(0.1)
    );
    assert_eq!(told(&[far(1, 0.2, 0.4), with(far(2, 0.9, 1.0), 0.1)]), None);
}

/// A line of 100 to 300 ms: 200 ms, and 105 ms of doubt.
fn divided(
    is_sure: bool,
    down_s: Option<f64>,
    level: Option<(f64, f64)>,
    holds_it: (bool, bool),
) -> [Option<(f64, f64)>; 2] {
    let wait = WaitBounds { least_s: 0.1, likely_s: 0.3, most_s: 0.3 };
    let line = Line { wait, grown_s: 0.3, down_s, is_sure, ever_s: 0.3 };
    let down = level.map(|(wait_s, uncertainty_s)| HiddenWait { wait_s, uncertainty_s });
    let reading = Reading { hidden: PerDirection { up: None, down }, ..Reading::default() };
    let (up, down) = divide(&line, &reading, PerDirection { up: holds_it.0, down: holds_it.1 });
    let ms = |seconds: f64| (seconds * 1e3).round();
    [up, down].map(|part| part.ok().map(|delay| (ms(delay.queue_s), ms(delay.uncertainty_s))))
}

#[test]
fn clock_load_and_level_divide_the_line_in_that_order() {
    let neither = (false, false);
    assert_eq!(
        divided(true, Some(0.15), Some((0.05, 0.0)), (true, false)),
        [Some((50.0, 105.0)), Some((150.0, 105.0))]
    );
    assert_eq!(divided(true, Some(0.9), None, neither), [Some((0.0, 105.0)), Some((200.0, 105.0))]);
    assert_eq!(
        divided(true, None, Some((0.05, 0.0)), (true, false)),
        [Some((200.0, 105.0)), Some((0.0, 105.0))]
    );
    assert_eq!(
        divided(true, None, Some((0.05, 0.0)), (false, true)),
        [Some((0.0, 105.0)), Some((200.0, 105.0))]
    );
    for both in [neither, (true, true)] {
        assert_eq!(
            divided(true, None, Some((0.05, 0.01)), both),
            [Some((150.0, 115.0)), Some((50.0, 115.0))]
        );
        assert_eq!(divided(true, None, None, both), [None; 2]);
    }
    assert_eq!(
        divided(true, None, Some((0.05, 9.0)), neither),
        [Some((150.0, 305.0)), Some((50.0, 305.0))],
        "no more than all of it"
    );
    assert_eq!(divided(false, Some(0.15), None, neither), [None; 2]);
}

#[test]
fn what_nobody_notices_may_be_in_either() {
    let of = |most_s| {
        let wait = WaitBounds { least_s: 0.0, likely_s: most_s, most_s };
        let line = Line { wait, grown_s: most_s, down_s: None, is_sure: false, ever_s: most_s };
        divide(&line, &Reading::default(), NOT_FULL).0.map(|delay| (delay.queue_s, delay.uncertainty_s))
    };
    assert_eq!([of(0.02), of(0.03)], [Ok((0.0, 0.025)), Err(Unknown::Undivided)]);
}

/// Ticks of a tenth of a second with so many bytes, on a line of unknown rate.
fn ticked(bytes: &[(u64, u64)]) -> DelayTracker {
    let mut tracker = DelayTracker::default();
    for (at, (up, down)) in bytes.iter().enumerate() {
        tracker.tick(at as f64 / 10.0, PerDirection { up: *up, down: *down });
    }
    tracker
}

#[test]
fn the_load_is_a_mean_of_half_a_second() {
    assert_eq!(ticked(&[]).mean_load(), NO_LOAD);
    assert_eq!(ticked(&[(100, 50), (300, 50)]).mean_load(), load(2_000.0, 500.0));
    assert_eq!(
        ticked(&[(9_000, 0), (100, 0), (100, 0), (100, 0), (100, 0), (100, 0)]).mean_load(),
        load(1_000.0, 0.0)
    );
    // What may have left a queue: the highest load of three seconds upstream, the lowest tick of half a second downstream.
    assert_eq!(ticked(&[(100, 700), (300, 500), (100, 900)]).load(), load(2_000.0, 5_000.0));
    let mut long = vec![(500, 0); 5];
    long.extend([(0, 300); 30]);
    // After 26 of the thirty the mean that had five of the 500 is 30 ticks old.
    assert_eq!(ticked(&long[..34]).load().up, 5_000.0);
    assert_eq!(ticked(&long).load(), load(4_000.0, 3_000.0));
}

#[test]
fn a_direction_is_free_while_it_carries_little() {
    let since = |bytes: &[(u64, u64)]| ticked(bytes).free_since_s.up;
    // 6,000 B/s, and a packet alone is no burst.
    assert_eq!([since(&[(600, 0)]), since(&[(601, 0)])], [Some(0.0), None]);
    assert_eq!(since(&[(0, 0), (0, 0), (1_514, 0)]), Some(0.0));
    assert_eq!(since(&[(0, 0), (0, 0), (1_515, 0)]), None);
    // A tenth of what has passed in half a second: 9,000 B/s.
    let after = |bytes| since(&[[(9_000, 0); 1].as_slice(), [(bytes, 0); 5].as_slice()].concat());
    assert_eq!([after(900), after(901)], [Some(0.5), None]);
    assert!(ticked(&[(0, 0)]).carries_little() && !ticked(&[(0, 9_000)]).carries_little());
}

#[test]
fn half_of_a_known_rate_or_6_kb_a_second_is_little() {
    assert_eq!([light(100_000.0), light(12_000.0), light(9_000.0)], [50_000.0, 6_000.0, 6_000.0]);
    let mut line = RatedLine::new();
    assert_eq!(line.tracker.light(Direction::Up), 12_500.0);
    assert!(line.tracker.is_light(load(12_500.0, 12_500.0)) && !line.tracker.is_light(load(0.0, 12_501.0)));
    assert_eq!(line.tracker.on_line_s(2_500.0), 0.1);
    line.tracker.rates = PerDirection { up: None, down: None };
    // A tenth of what has passed.
    line.tracker.most.newer = load(200_000.0, 1_000.0);
    assert_eq!(Direction::ALL.map(|x| line.tracker.light(x)).iter().sum::<f64>(), 26_000.0);
    assert_eq!(line.tracker.on_line_s(2_500.0), 0.0);
}

#[test]
fn what_has_passed_while_nothing_waited_is_free() {
    let mut tracker = DelayTracker::default();
    tracker.carried.newer = load(20_000.0, 7_000.0);
    let free = |x, bytes| tracker.is_free_in(x, PerDirection { up: bytes, down: bytes });
    assert_eq!([free(Direction::Up, 20_000.0), free(Direction::Up, 20_001.0)], [true, false]);
    assert_eq!([free(Direction::Down, 7_000.0), free(Direction::Down, 7_001.0)], [true, false]);
}

#[test]
fn two_free_seconds_in_a_row_tell_what_the_first_carried() {
    let noted = |seconds: &[(usize, f64, f64)]| {
        let mut tracker = DelayTracker::default();
        for (at, (count, longest_s, waits_s)) in seconds.iter().enumerate() {
            tracker.replies = SecondReplies { count: *count, longest_s: *longest_s };
            tracker.note_free(*waits_s, load(1_000.0 * (at + 1) as f64, 0.0));
        }
        tracker.carried.most(Direction::Up)
    };
    let free = (3, 0.0, 0.0);
    assert_eq!([noted(&[free]), noted(&[free, free]), noted(&[free, free, free])], [0.0, 1_000.0, 2_000.0]);
    for busy in [(2, 0.0, 0.0), (3, 0.03, 0.0), (3, 0.0, 0.03)] {
        assert_eq!([noted(&[free, busy]), noted(&[busy, free])], [0.0, 0.0], "{busy:?}");
    }
    assert_eq!(noted(&[(3, 0.029, 0.0), (3, 0.0, 0.029)]), 1_000.0);
}
