//! Each rule of the controller alone, with the state that it starts from written out.

use super::*;

/// Upstream, 1 MB/s to begin with: nothing is known.
fn controller() -> Controller {
    Controller::new(Direction::Up, Bounds { least: 8_000.0, most: 1.25e9 }, 1e6)
}

/// The line's rate is known as well.
fn knowing() -> Controller {
    controller().with_rate(1e6)
}

/// Two hosts that agree.
fn heard(wait: f64) -> RttSamples {
    RttSamples { wait, is_of_hop: false, passed: 10.0, hosts: 2, agreeing: 2, waiting: 2, bytes: 0.0 }
}

/// One host that nobody confirms.
fn single(wait: f64) -> RttSamples {
    RttSamples { hosts: 1, agreeing: 1, waiting: 1, ..heard(wait) }
}

/// Tried and found, rounded to bytes per second.
fn rates(controller: &Controller) -> Option<(f64, f64)> {
    controller.known.map(|known| (known.tried.round(), known.found.round()))
}

#[test]
fn a_held_ack_counts_40_ms_less() {
    for (wait, may_be_held, counts) in
        [(0.05, true, 0.01), (0.05, false, 0.05), (0.04, true, 0.0), (0.039, true, 0.039)]
    {
        let mut controller = controller();
        controller.pass(0, 1514);
        controller.waited(1, 0, wait, may_be_held);
        let (passed, left) = controller.passage.newest().expect("served");
        assert!((left - passed - counts).abs() < 1e-9, "{wait} {may_be_held}: {}", left - passed);
    }
}

#[test]
fn upstream_it_waits_after_it_passed_and_downstream_before() {
    for (direction, expected) in [(Direction::Up, (1.0, 1.25)), (Direction::Down, (0.75, 1.0))] {
        let mut controller = Controller { direction, ..controller() };
        controller.pass(0, 1514);
        controller.pass(1_000_000_000, 1514);
        controller.waited(1, 1_000_000_000, 0.25, false);
        assert_eq!(controller.passage.newest(), Some(expected));
    }
}

#[test]
fn what_a_longer_route_takes_is_no_wait_until_the_route_is_short_again() {
    let mut controller = Controller { offset: 0.25, ..controller() };
    let mut waits = |wait| {
        controller.pass(0, 1514);
        controller.waited(1, 0, wait, false);
        (controller.hosts.take().expect("heard").wait, controller.offset)
    };
    assert_eq!(waits(0.75), (0.5, 0.25));
    assert_eq!(waits(0.125), (0.0, 0.125));
    assert_eq!(waits(-1.0), (0.0, 0.0));
}

#[test]
fn what_passed_before_the_beginning_is_not_heard_of() {
    let mut controller = controller();
    controller.waited(1, 5, 0.1, false);
    assert!(controller.hosts.take().is_none(), "nothing has begun");
    controller.pass(5, 1514);
    controller.waited(1, 4, 0.1, false);
    assert!(controller.hosts.take().is_none());
    controller.waited(1, 5, 0.1, false);
    assert!(controller.hosts.take().is_some());
}

/// A policer lets nine tenths pass; where nothing is lost, nothing changes.
#[test]
fn a_rate_that_falls_is_lowered_and_one_that_stays_is_held() {
    for (lost, decision, rate) in [(0.1, Decision::Lower, 9e5), (0.0, Decision::Hold, 1e6)] {
        let mut controller = Controller { wait: Some((0.0, 0.0)), changed: 1.0, ..knowing() };
        controller.pass(0, 0);
        controller.decide(0, Own::default());
        for at in 0..100 {
            controller.pass(at * 1_000_000, 1_000);
        }
        let own = Own { bytes: 1e6, lost, ..Own::default() };
        assert_eq!(controller.decide(TICK_NS, own), decision);
        assert_eq!(rates(&controller), Some((rate, rate)));
    }
}

#[test]
fn it_decides_when_time_has_passed() {
    let mut controller = Controller { wait: Some((0.0, 0.0)), ..knowing() };
    let own = Own { bytes: 1e6, lost: 0.1, ..Own::default() };
    assert_eq!(controller.decide(TICK_NS, own), Decision::Hold, "the first");
    controller.pass(TICK_NS, 1_000_000);
    assert_eq!(controller.decide(TICK_NS, own), Decision::Hold, "the same moment");
    assert_eq!(rates(&controller), Some((1e6, 1e6)));
    assert_eq!(controller.usage.len(), 0);
}

#[test]
fn the_highest_rate_counts_after_a_second_and_fades_in_an_hour() {
    let mut controller = Controller { proven: 5e5, peak: 1e6, ..knowing() };
    controller.step(10.0, 0.5, 0.0, Own::default());
    let faded = 5e5 * (1.0 - 0.5 / 3600.0);
    assert!((controller.proven - (faded + (1e6 - faded) / 2.0)).abs() < 1e-6, "{}", controller.proven);
    assert!((controller.peak - 0.95e6).abs() < 1e-6, "half a second of ten");
    controller.proven = 2e6;
    controller.step(11.0, 1.0, 0.0, Own::default());
    assert!((controller.proven - 2e6 * (1.0 - 1.0 / 3600.0)).abs() < 1e-6, "{}", controller.proven);
    controller.proven = 0.0;
    controller.step(13.0, 2.0, 0.0, Own::default());
    assert!((controller.proven - 1e6).abs() < 1e-6, "{}", controller.proven);
}

#[test]
fn it_was_used_up_if_nine_tenths_passed_and_a_queue_stands_here() {
    // In a tenth of a second 100,000 B might pass. A packet that is about to pass counts.
    let used = |passed: f64, bytes| {
        let mut controller = knowing();
        controller.step(10.0, 0.1, passed - FULL_FRAME_BYTES, Own { bytes, ..Own::default() });
        controller.used_at == 10.0
    };
    assert_eq!(
        [used(90_001.0, 5_001.0), used(89_999.0, 5_001.0), used(90_001.0, 5_000.0)],
        [true, false, false]
    );
}

#[test]
fn who_is_needed_depends_on_what_passes_and_who_told_lately() {
    let need = |passed: f64, told_at| {
        let mut controller = Controller { told_at, ..knowing() };
        controller.step(10.0, 1.0, passed, Own::default());
        controller.need()
    };
    assert_eq!(need(0.0, 0.0), Need::Nobody);
    assert_eq!([need(LITTLE, 8.9), need(LITTLE, 9.0)], [Need::FirstHop, Need::Others]);
    assert_eq!(need(LITTLE - 1.0, 0.0), Need::Others);
}

#[test]
fn a_wait_is_known_for_a_second() {
    for (since, is_known) in [(9.0, true), (8.9, false)] {
        let tried = TriedRate { tried: 1.2e6, found: 1e6 };
        let mut controller =
            Controller { wait: Some((0.0, since)), raises: 2, known: Some(tried), changed: 9.5, ..knowing() };
        controller.step(10.0, 0.1, 0.0, Own::default());
        assert_eq!(controller.wait().is_some(), is_known);
        // What was only tried goes with it.
        let left = if is_known { (Some((1.2e6, 1e6)), 2) } else { (Some((1e6, 1e6)), 0) };
        assert_eq!((rates(&controller), controller.raises), left);
    }
}

/// 100,000 B each tenth of a second: of the downlink those that wait count, of the uplink the segments, and QUIC if it has replied.
#[test]
fn the_share_that_shows_waits() {
    let share = |direction, asked, spin_bytes, spin_replied| {
        let mut controller = Controller { direction, ..knowing() };
        let heard = RttSamples { bytes: 25_000.0, ..heard(0.1) };
        controller.note(0.1, 1e5, Some(heard), Own { asked, spin_bytes, spin_replied, ..Own::default() });
        (controller.share * 1e5).round()
    };
    assert_eq!(share(Direction::Down, 0, 0.0, false), 25_000.0);
    assert_eq!(share(Direction::Up, 10, 0.0, false), 15_140.0);
    assert_eq!(share(Direction::Up, 10, 3e4, true), 45_140.0);
    assert_eq!(share(Direction::Up, 10, 3e4, false), 15_140.0);
    assert_eq!(share(Direction::Up, 99, 0.0, false), 100_000.0, "all at most");
}

#[test]
fn the_share_stays_as_it_was_while_nobody_replies_or_nothing_passes() {
    let mut controller = Controller { share: 0.25, ..knowing() };
    controller.note(0.1, 1e5, None, Own { asked: 50, ..Own::default() });
    assert_eq!(controller.share, 0.25);
    let mut controller = Controller { share: 0.25, ..knowing() };
    controller.note(0.1, 0.0, Some(heard(0.1)), Own { asked: 50, ..Own::default() });
    assert_eq!(controller.share, 0.25);
}

#[test]
fn what_passes_is_counted_over_two_ticks_or_six_packets() {
    let mut controller = knowing();
    let mut note = |passed| controller.note(0.1, passed, None, Own::default());
    assert_eq!(note(4e5), (4e6, (4e5 + FULL_FRAME_BYTES) / 1e5));
    assert_eq!(note(5e4), (4.5e5 / 0.2, (4.5e5 + FULL_FRAME_BYTES) / 2e5));
    assert_eq!(note(7e4), (1.2e5 / 0.2, (1.2e5 + FULL_FRAME_BYTES) / 2e5));
    // 20,000 B/s: six packets take 0.4542 s, which are five ticks.
    let mut slow = Controller { rate: 20_000.0, ..knowing() };
    let passing = (0..9).map(|tick| slow.note(0.1, if tick < 5 { 1e4 } else { 0.0 }, None, Own::default()).0);
    let passing: Vec<f64> = passing.map(f64::round).collect();
    assert_eq!(passing[3..], [1e5, 1e5, 8e4, 6e4, 4e4, 2e4]);
    assert_eq!(slow.usage.len(), 5);
}

#[test]
fn whose_wait_is_believed() {
    /// What differs from one host of a tenth of what passes, while nothing is known.
    struct Case {
        heard: RttSamples,
        share: f64,
        is_known: bool,
        is_doubtful: bool,
        used_at: f64,
        passing: f64,
    }
    let none = Case {
        heard: single(0.1),
        share: 0.1,
        is_known: false,
        is_doubtful: false,
        used_at: 0.0,
        passing: 0.0,
    };
    let believes = |case: Case| {
        let known = case.is_known.then_some(TriedRate::found(1e6));
        let (share, used_at) = (case.share, case.used_at);
        let mut controller =
            Controller { known, is_doubtful: case.is_doubtful, share, used_at, ..controller() };
        controller.believe(10.0, case.heard, 0.1, case.passing).map(|heard| heard.wait)
    };
    assert_eq!(believes(Case { ..none }), Some(0.1), "no longer than a packet takes");
    let none = Case { heard: single(0.2), ..none };
    assert_eq!(believes(Case { ..none }), None);
    assert_eq!(believes(Case { heard: heard(0.2), ..none }), Some(0.2), "two agree");
    assert_eq!(believes(Case { heard: RttSamples { is_of_hop: true, ..single(0.2) }, ..none }), Some(0.2));
    assert_eq!(believes(Case { share: 0.5, ..none }), Some(0.2), "half of what passes");
    assert_eq!(believes(Case { share: 0.49, ..none }), None);
    // Of a known rate a quarter, if it is used up or half of it passes.
    let known = Case { is_known: true, share: 0.25, ..none };
    assert_eq!(believes(Case { ..known }), None, "not used up");
    assert_eq!(believes(Case { used_at: 9.0, ..known }), Some(0.2));
    assert_eq!(believes(Case { used_at: 8.9, ..known }), None);
    assert_eq!(believes(Case { passing: 5e5, ..known }), Some(0.2));
    assert_eq!(believes(Case { passing: 4.9e5, ..known }), None);
    assert_eq!(believes(Case { used_at: 9.0, share: 0.24, ..known }), None);
    // Where one host alone has measured it, the wait of a small part is none of the line's.
    let doubtful = Case { is_doubtful: true, ..known };
    assert_eq!(believes(Case { ..doubtful }), Some(0.0));
    assert_eq!(believes(Case { share: 0.5, ..doubtful }), Some(0.2));
}

#[test]
fn the_first_measured_rate_is_doubtful_if_one_host_measured_it() {
    for (heard, is_doubtful) in [(heard(0.1), false), (single(0.1), true)] {
        let mut controller = controller();
        controller.learn((10.0, 0.1), 4e5, 4e5, heard);
        assert_eq!((rates(&controller), controller.is_doubtful), (Some((4e5, 4e5)), is_doubtful));
    }
}

#[test]
fn of_a_doubtful_rate_less_than_half_replaces_it() {
    for (measured, doubtful, left) in [(4.9e5, true, 4.9e5), (5e5, true, 9.5e5), (4.9e5, false, 9.5e5)] {
        let mut controller = Controller { is_doubtful: doubtful, used_at: 10.0, ..knowing() };
        controller.learn((10.0, 0.1), measured, 1e6, single(0.1));
        assert_eq!(rates(&controller), Some((left, left)), "{measured}");
        assert_eq!(controller.is_doubtful, doubtful, "one host says nothing new of that");
    }
    let mut controller = Controller { is_doubtful: true, ..knowing() };
    controller.learn((10.0, 0.1), 1e6, 1e6, heard(0.1));
    assert!(!controller.is_doubtful, "two wait");
}

#[test]
fn a_measured_rate_rises_to_twice_what_was_known_or_to_what_was_proven() {
    for (measured, proven, rate) in [(1.5e6, 0.0, 1.5e6), (3e6, 0.0, 2e6), (3e6, 2.5e6, 2.5e6)] {
        let mut controller = Controller { proven, ..knowing() };
        controller.learn((10.0, 0.1), measured, 1e6, heard(0.1));
        assert_eq!(rates(&controller), Some((rate, rate)));
    }
}

/// A tenth of the known rate was measured. How far it falls.
#[test]
fn how_far_a_rate_falls() {
    let fall = |controller: Controller, heard: RttSamples, passing| {
        let mut controller = Controller { proven: 1e6, ..controller };
        controller.learn((10.0, 0.1), 1e5, passing, heard);
        rates(&controller).expect("known").0
    };
    let waits = |wait| VecDeque::from([(9.5, wait)]);
    let used = || Controller { used_at: 10.0, waits: waits(0.02), ..knowing() };
    // The wait grew by 60 ms, 40 more than noise, which explain a third.
    assert_eq!(fall(used(), heard(0.08), 1e6), 333_333.0);
    assert_eq!(fall(Controller { waits: waits(0.0), ..used() }, heard(0.08), 1e6), 250_000.0);
    // One that does not grow: a half each second, if it is the line's without doubt.
    assert_eq!(fall(used(), heard(0.03), 0.0), 950_000.0);
    assert_eq!(fall(used(), single(0.03), 5e5), 950_000.0);
    assert_eq!(fall(used(), single(0.03), 4.9e5), 1e6);
    // Never below a twentieth of what was proven, or a half where it was not used up.
    assert_eq!(fall(used(), heard(9.0), 1e6), 1e5);
    assert_eq!(fall(Controller { used_at: 9.0, ..used() }, heard(9.0), 1e6), 1e5);
    assert_eq!(fall(Controller { used_at: 8.9, ..used() }, heard(9.0), 1e6), 5e5);
    let mut controller = Controller { proven: 4e6, ..used() };
    controller.learn((10.0, 0.1), 1e5, 1e6, heard(9.0));
    assert_eq!(rates(&controller), Some((2e5, 2e5)));
    controller.proven = 1e9;
    controller.learn((10.0, 0.1), 1e5, 1e6, heard(9.0));
    assert_eq!(rates(&controller), Some((2e5, 2e5)), "it does not rise");
}

/// What stays of a wait while twice as much would have drained is a longer route, and the rate is what it was before.
#[test]
fn a_wait_that_does_not_drain_is_a_route() {
    let route = |controller: &mut Controller, passed, wait| {
        controller.route(RttSamples { passed, ..heard(wait) }).map(|known| known.tried)
    };
    let mut controller = knowing();
    controller.pass(0, 0);
    assert_eq!(route(&mut controller, 1.0, 0.25), None);
    // The rate falls, and 125,000 B pass in half a second, which take a quarter of one: the other quarter is spare.
    controller.known = Some(TriedRate::found(5e5));
    controller.pass(1_250_000_000, 125_000);
    let told = [1.5, 1.749, 1.751].map(|passed| route(&mut controller, passed, 0.25));
    assert_eq!(told, [None, None, Some(1e6)]);
    // A short wait: 40 ms.
    let mut controller = knowing();
    let told = [1.0, 1.079, 1.081].map(|passed| route(&mut controller, passed, 0.03));
    assert_eq!(told, [None, None, Some(1e6)]);
}

#[test]
fn a_wait_that_changes_by_half_starts_anew() {
    for (wait, is_the_same) in [(0.375, true), (0.376, false), (0.125, true), (0.124, false)] {
        let mut controller = knowing();
        controller.route(heard(0.25));
        assert_eq!(controller.route(heard(wait)).map(|known| known.tried), None);
        assert_eq!(controller.stays.is_some(), is_the_same, "{wait}");
    }
}

#[test]
fn a_route_is_taken_off_the_wait() {
    let mut controller = Controller { raises: 3, offset: 0.1, ..knowing() };
    controller.pass(0, 1514);
    controller.passage.serve(0.0, 0.1, 1514.0);
    let stay = Stay { passed: 9.0, sum: 1514.0, wait: 0.25, known: TriedRate::found(2e6), spare: 0.0 };
    controller.stays = Some(stay);
    controller.follow((11.0, 0.1), heard(0.25), 0.005, 0.0, 0.0);
    assert_eq!((rates(&controller), controller.raises), (Some((2e6, 2e6)), 0));
    assert!((controller.offset - 0.35).abs() < 1e-9);
    assert_eq!((controller.wait(), controller.passage.newest()), (Some(0.0), None));
    assert!(controller.stays.is_none());
}

/// A packet each 2 ms leaves the buffer, of which each waits longer: 757 kB/s, of which a tenth is lost later.
#[test]
fn while_a_queue_stands_its_service_less_what_is_lost_is_learnt() {
    for (lost, rate) in [(0.0, 757e3), (0.1, 0.9 * 757e3), (0.9, 0.5 * 757e3)] {
        let mut controller = controller();
        for number in 0..200 {
            let at = f64::from(number) * 0.001;
            controller.pass((at * 1e9) as u64, 1514);
            let sum = controller.passage.at(at).0;
            controller.passage.serve(at, 2.0 * at + 0.1, sum);
        }
        controller.follow((1.0, 0.1), heard(0.1), 0.005, 1e6, lost);
        let found = rates(&controller).expect("measured").1;
        assert!((found / rate - 1.0).abs() < 0.01, "{lost}: {found}");
        assert_eq!(controller.waits, [(1.0, 0.1)]);
    }
}

#[test]
fn waits_are_remembered_for_a_second() {
    let mut controller = controller();
    [8.9, 9.0, 9.5, 10.0].into_iter().for_each(|at| controller.remember(at, 0.1));
    assert_eq!(controller.waits, [(9.0, 0.1), (9.5, 0.1), (10.0, 0.1)]);
}

/// All of 1 MB/s is used, half a second after the last raise.
fn growing(controller: Controller) -> Controller {
    let usage = VecDeque::from([[0.1, 1e5, 1e5, 0.0, 0.0]]);
    Controller { used_at: 10.0, changed: 9.5, raised: 1.1, usage, ..controller }
}

fn grown(mut controller: Controller, believed: RttSamples, passing: f64) -> Option<(f64, f64)> {
    controller.grow(10.0, Some(believed), 0.005, passing, true);
    rates(&controller)
}

#[test]
fn a_rate_is_raised_in_growing_steps() {
    let grow = |raises, peak| grown(Controller { raises, peak, ..growing(knowing()) }, heard(0.0), 1e6);
    // A tenth, two, four; a fifth above what passed at most.
    assert_eq!(grow(0, 0.0), Some((1.1e6, 1e6)));
    assert_eq!(grow(1, 0.0), Some((1.2e6, 1e6)));
    assert_eq!(grow(2, 0.0), Some((1.2e6, 1e6)));
    assert_eq!(grow(2, 2e6), Some((1.4e6, 1e6)));
    // Less than half of what passed lately: twice as much at once.
    assert_eq!(grow(0, 2e6), Some((1.1e6, 1e6)));
    assert_eq!(grow(0, 2.1e6), Some((2e6, 1e6)));
    let mut controller = Controller { raises: 1, ..growing(knowing()) };
    controller.grow(10.0, Some(heard(0.0)), 0.005, 1e6, true);
    assert_eq!((controller.raises, controller.changed), (2, 10.0));
    assert!((controller.raised - 1.2).abs() < 1e-9);
}

#[test]
fn a_rate_is_raised_if_packets_sent_since_the_last_raise_show_no_queue() {
    // A queue of 5 ms shows after 50 ms at a tenth too much.
    let grow = |passed| grown(growing(knowing()), RttSamples { passed, ..heard(0.0) }, 1e6);
    assert_eq!(grow(9.549), Some((1e6, 1e6)));
    assert_eq!(grow(9.551), Some((1.1e6, 1e6)));
}

#[test]
fn a_rate_that_is_not_used_up_is_not_raised() {
    let grow = |is_used, newest: f64| {
        let usage = VecDeque::from([[0.1, 1e5, newest / 10.0, 0.0, 0.0]]);
        let mut controller = Controller { usage, ..growing(knowing()) };
        controller.grow(10.0, Some(heard(0.0)), 0.005, 5e5, is_used);
        rates(&controller)
    };
    assert_eq!(
        [grow(true, 9.1e5), grow(false, 1e6), grow(true, 8.9e5)].map(|it| it.map(|it| it.0)),
        [Some(1.1e6), Some(1e6), Some(1e6)]
    );
}

#[test]
fn an_unknown_rate_begins_with_what_passes() {
    let usage = VecDeque::from([[0.1, 1e5, 1e5, 0.0, 0.0]]);
    let controller = Controller { usage, ..growing(controller()) };
    // What passed is more than the rate by a packet or two: that is tried, and not known.
    assert_eq!(grown(controller, heard(0.0), 1.05e6), Some((1.155e6, 1e6)));
    let fast = VecDeque::from([[0.1, 1e5, 4e4, 0.0, 0.0]]);
    let controller = Controller { usage: fast, rate: 4.4e5, ..growing(knowing()) };
    assert_eq!(
        grown(controller, heard(0.0), 4.1e5),
        Some((1e6, 1e6)),
        "twice what passes, and never less than known"
    );
}

#[test]
fn a_rate_that_one_host_measured_is_doubled_once_others_reply() {
    let grow = |heard: RttSamples| {
        let usage = VecDeque::from([[0.1, 1e5, 2e5, 0.0, 0.0]]);
        grown(Controller { is_doubtful: true, usage, ..growing(knowing()) }, heard, 1e6)
    };
    assert_eq!(grow(heard(0.0)), Some((2e6, 1e6)));
    assert_eq!(grow(single(0.0)), Some((1.1e6, 1e6)));
}

#[test]
fn what_was_tried_is_given_up_after_a_second_without_use() {
    let tried = Some(TriedRate { tried: 1.2e6, found: 1e6 });
    for (used_at, changed, left) in [(9.0, 0.0, 1.2e6), (0.0, 9.0, 1.2e6), (8.9, 8.9, 1e6)] {
        let mut controller = Controller { known: tried, used_at, changed, raises: 2, ..knowing() };
        controller.grow(10.0, None, 0.005, 0.0, false);
        assert_eq!(
            (rates(&controller), controller.raises),
            (Some((left, 1e6)), if left > 1e6 { 2 } else { 0 })
        );
    }
}

/// 15 ms of queue are wanted upstream; what is too much drains within a fifth of a second.
#[test]
fn the_rate_corrects_the_queue_behind() {
    // All that passed until 1.0 s has left then; at 1.1 s so many bytes stand there.
    let settled = |standing: f64, wait, is_trusted| {
        let mut controller = Controller { wait, is_trusted, ..knowing() };
        controller.pass(0, 1514);
        controller.passage.serve(0.0, 1.0, 1514.0);
        controller.pass(1_050_000_000, (standing + 1e5) as u32);
        controller.settle(1.1);
        controller.rate().round()
    };
    let wait = Some((0.1, 1.0));
    assert_eq!(settled(15_000.0, wait, true), 1e6);
    assert_eq!(settled(35_000.0, wait, true), 9e5);
    assert_eq!(settled(5_000.0, wait, true), 1.05e6);
    assert_eq!(settled(9e5, wait, true), 5e4, "the least");
    assert_eq!(settled(35_000.0, wait, false), 1.075e6, "nobody that counts says so");
    assert_eq!(settled(35_000.0, None, true), 1e6);
}

#[test]
fn downstream_a_part_is_left_unused() {
    let settled = |priority, wait: Option<f64>| {
        let wait = wait.map(|wait| (wait, 1.0));
        let mut controller =
            Controller { direction: Direction::Down, wait, ..knowing() }.with_priority(priority);
        controller.settle(1.1);
        controller.rate().round()
    };
    assert_eq!(settled(Priority::Balanced, None), 970_000.0);
    assert_eq!(settled(Priority::Balanced, Some(0.015)), 970_000.0);
    assert_eq!(settled(Priority::Balanced, Some(0.035)), 870_000.0);
    assert_eq!(settled(Priority::Balanced, Some(1.0)), 500_000.0);
    assert_eq!(
        [settled(Priority::Latency, Some(0.005)), settled(Priority::Latency, Some(0.025))],
        [920_000.0, 820_000.0]
    );
    assert_eq!(
        [settled(Priority::Throughput, Some(0.05)), settled(Priority::Throughput, Some(0.07))],
        [990_000.0, 890_000.0]
    );
}

/// At 20,000 B/s a packet takes 75.7 ms, and six of them are the time in which a queue drains.
#[test]
fn on_a_slow_link_a_packet_may_stand_behind() {
    let mut controller = Controller { wait: Some((0.0, 1.0)), ..controller().with_rate(20_000.0) };
    controller.settle(1.1);
    assert!((controller.rate() - 20_000.0 * 7.0 / 6.0).abs() < 1e-6, "{}", controller.rate());
}

#[test]
fn the_known_rate_is_not_what_is_only_tried() {
    for (tried, found, told) in [(1.2e6, 1e6, 1e6), (1e6, 1.2e6, 1e6)] {
        let controller = Controller { known: Some(TriedRate { tried, found }), ..controller() };
        assert_eq!(controller.capacity(), Some(told));
    }
}

#[test]
fn each_reason_in_words() {
    let reason = |grounds: Grounds| grounds.to_string();
    let lower = Grounds {
        decision: Decision::Lower,
        wait: Some(0.05),
        hosts: 1,
        is_of_hop: false,
        share: 0.6,
        lost: 0.0,
    };
    assert_eq!(reason(Grounds { wait: None, ..lower }), "no host shows the queue behind the shaper");
    for decision in [Decision::Lower, Decision::Drain] {
        let lower = Grounds { decision, ..lower };
        assert_eq!(reason(lower), "packets of one host, 60 % of the traffic, wait 50 ms behind the shaper");
        assert_eq!(reason(Grounds { hosts: 2, ..lower }), "packets of 2 hosts wait 50 ms behind the shaper");
        let hop = Grounds { is_of_hop: true, hosts: 2, ..lower };
        assert_eq!(reason(hop), "packets to the first hop wait 50 ms behind the shaper");
        assert_eq!(reason(Grounds { lost: 0.031, ..hop }), "3.1 % of the packets are lost on the way");
        assert_eq!(reason(Grounds { lost: 0.03, ..hop }), reason(hop));
    }
    for (decision, why) in [
        (Decision::Hold, "nothing says that it is wrong"),
        (Decision::Raise, "packets wait here and nowhere else"),
        (Decision::Outage, "nobody replies"),
    ] {
        assert_eq!(reason(Grounds { decision, lost: 0.5, ..lower }), why);
    }
}
