//! Each rule at its thresholds, with figures worked out by hand: one beside another is enough.

use super::*;
use crate::history::StandingDelay;
use crate::sample::Composition;

/// Bytes per second of a link of 2 and 8 Mbit/s.
const CAPACITY: PerDirection<Option<f64>> = PerDirection { up: Some(250_000.0), down: Some(1_000_000.0) };

const BULK: Activity = Activity { demand: Demand::Bulk, active_share: 0.9, segments: 12.0 };

fn wanting(demand: Demand) -> Activity {
    Activity { demand, ..BULK }
}

/// Ten seconds of bulk data both ways, so long in each case, and so many bytes a second that are no ACKs.
fn ten_seconds(phase_seconds: [f64; 4], up: u64, down: u64) -> Totals {
    Totals {
        seconds: 10.0,
        phase_seconds,
        load_bytes: PerDirection { up: 10 * up, down: 10 * down },
        ..Totals::default()
    }
}

fn seen(recent: &Totals) -> Circumstances<'_> {
    Circumstances {
        recent,
        activity: PerDirection { up: BULK, down: BULK },
        capacity: CAPACITY,
        switches: 0,
        period: None,
        missing: &[],
        current: None,
    }
}

fn judged(seen: &Circumstances<'_>) -> Ruling {
    judge_two_way(seen, &Thresholds::default())
}

fn figure(ruling: &Ruling, name: &str) -> Option<(f64, Option<f64>)> {
    ruling.figures.iter().find(|figure| figure.name == name).map(|figure| (figure.value, figure.threshold))
}

#[track_caller]
fn assert_figure(ruling: &Ruling, name: &str, value: f64, threshold: Option<f64>) {
    let (found, against) = figure(ruling, name).unwrap_or_else(|| panic!("no {name} in {ruling:?}"));
    assert!((found - value).abs() < 1e-9 * value.abs().max(1.0), "{name} is {found}, not {value}");
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(against.zip(threshold).map_or(against == threshold, |(a, b)| near(a, b)), "{name}: {against:?}");
}

/// What the lock costs is what the other direction does not get of its capacity.
#[test]
fn a_lock_tells_what_it_costs() {
    let mut recent = ten_seconds([9.0, 0.5, 0.3, 0.2], 200_000, 399_900);
    recent.composition.up = Composition { tcp_data: 100, ack: 300, udp: 500, other: 100 };
    let ruling = judged(&seen(&recent));
    assert_eq!((ruling.verdict, ruling.rule), (Verdict::LockedUplink, "one_buffer_never_empties"));
    assert_figure(&ruling, "uplink_bound_share", 0.9, Some(0.8));
    assert_figure(&ruling, "starved_utilization", 0.3999, Some(0.5));
    assert_figure(&ruling, "starved_bytes_per_second", 399_900.0, None);
    assert_figure(&ruling, "lost_bytes_per_second", 600_100.0, None);
    assert_figure(&ruling, "uplink_share_udp", 0.5, None);
    // 600,100 bytes are 4,800.8 kbit.
    assert_eq!(
        ruling.reason,
        "the uplink buffer never empties and downloads starve: 4.80 Mbit/s of the downlink's rate stays unused; 50 % of \
         the traffic in the uplink's buffer is UDP"
    );
    assert!(!ruling.held && ruling.missing.is_empty());

    let recent = ten_seconds([0.5, 9.0, 0.3, 0.2], 100_000, 900_000);
    let ruling = judged(&seen(&recent));
    assert_eq!(ruling.verdict, Verdict::LockedDownlink);
    assert_figure(&ruling, "downlink_bound_share", 0.9, Some(0.8));
    assert_figure(&ruling, "starved_utilization", 0.4, Some(0.5));
    assert_figure(&ruling, "starved_bytes_per_second", 100_000.0, None);
    assert_figure(&ruling, "lost_bytes_per_second", 150_000.0, None);
    assert_eq!(
        ruling.reason,
        "the downlink buffer never empties and uploads starve: 1.20 Mbit/s of the uplink's rate stays unused"
    );
}

/// Without the rate of the direction that starves nobody can say what is lost, and what is missing is named.
#[test]
fn without_a_rate_a_lock_has_no_cost() {
    let recent = ten_seconds([9.0, 0.5, 0.3, 0.2], 200_000, 399_900);
    let capacity = PerDirection { down: None, ..CAPACITY };
    let ruling = judged(&Circumstances { capacity, ..seen(&recent) });
    assert_eq!(ruling.verdict, Verdict::LockedUplink);
    assert_figure(&ruling, "starved_bytes_per_second", 399_900.0, None);
    assert_eq!(
        (figure(&ruling, "starved_utilization"), figure(&ruling, "lost_bytes_per_second")),
        (None, None)
    );
    assert_eq!(ruling.missing, [Missing::DownlinkRate]);
    assert_eq!(
        ruling.reason,
        "the uplink buffer never empties and downloads starve; unknown: the downlink's rate"
    );
}

/// More than its capacity is not less than nothing lost.
#[test]
fn a_loss_is_never_below_nothing() {
    let thresholds = Thresholds { starved_utilization: 1.5, ..Thresholds::default() };
    let recent = ten_seconds([9.0, 0.5, 0.3, 0.2], 200_000, 1_200_000);
    let ruling = judge_two_way(&seen(&recent), &thresholds);
    assert_figure(&ruling, "starved_utilization", 1.2, Some(1.5));
    assert_figure(&ruling, "lost_bytes_per_second", 0.0, None);
    assert_eq!(ruling.reason, "the uplink buffer never empties and downloads starve");
}

/// The verdict with so much of the time in case 1, so many bytes a second down, and what holds at present.
fn locked_at(share: f64, down: u64, current: Option<Verdict>) -> (Verdict, bool) {
    let recent = ten_seconds([10.0 * share, 0.0, 0.0, 10.0 * (1.0 - share)], 200_000, down);
    let ruling = judged(&Circumstances { current, ..seen(&recent) });
    (ruling.verdict, ruling.held)
}

/// A share of 0.8 of the time and less than half of the capacity; 0.7 of the first and 1.3 of the second for the lock in force.
#[test]
fn a_lock_is_reached_at_its_thresholds_and_given_up_beyond_them() {
    let (locked, balanced) = (Verdict::LockedUplink, Verdict::Balanced);
    assert_eq!(locked_at(0.8, 499_000, None), (locked, false));
    assert_eq!(locked_at(0.79, 499_000, None), (balanced, false));
    assert_eq!(locked_at(0.8, 500_000, None), (balanced, false));
    // Another verdict in force makes nothing easier.
    assert_eq!(locked_at(0.79, 499_000, Some(Verdict::LockedDownlink)), (balanced, false));
    assert_eq!(locked_at(0.79, 499_000, Some(locked)), (locked, true));
    assert_eq!(locked_at(0.561, 499_000, Some(locked)), (locked, true));
    assert_eq!(locked_at(0.559, 499_000, Some(locked)), (balanced, false));
    assert_eq!(locked_at(0.9, 500_000, Some(locked)), (locked, true));
    assert_eq!(locked_at(0.9, 649_000, Some(locked)), (locked, true));
    assert_eq!(locked_at(0.9, 651_000, Some(locked)), (balanced, false));
    assert_eq!(locked_at(0.9, 499_000, Some(locked)), (locked, false));
}

#[test]
fn what_only_hysteresis_keeps_says_so() {
    let reason = |share: f64| {
        let recent = ten_seconds([10.0 * share, 0.0, 0.0, 10.0 * (1.0 - share)], 200_000, 399_900);
        judged(&Circumstances { current: Some(Verdict::LockedUplink), ..seen(&recent) }).reason
    };
    let told = "; evidence now weaker";
    assert!(reason(0.7).contains("seldom empties") && reason(0.7).contains(told));
    assert!(reason(0.9).contains("never empties") && !reason(0.9).contains(told));
}

/// With so much of ten seconds in case 1 and 2, and so many changes between them.
fn swinging_at(up: f64, down: f64, switches: usize, current: Option<Verdict>) -> Ruling {
    let rest = 10.0 - up - down;
    let recent = ten_seconds([up, down, 0.0, rest], 200_000, 900_000);
    judged(&Circumstances { switches, current, period: Some(2.45), ..seen(&recent) })
}

#[test]
fn a_swing_needs_both_sides_and_three_changes() {
    let verdict = |up, down, switches, current| {
        let ruling = swinging_at(up, down, switches, current);
        (ruling.verdict == Verdict::Swinging, ruling.held)
    };
    let swings = Some(Verdict::Swinging);
    assert_eq!(verdict(1.0, 1.0, 3, None), (true, false));
    assert_eq!(verdict(0.99, 5.0, 3, None), (false, false));
    assert_eq!(verdict(5.0, 0.99, 3, None), (false, false));
    assert_eq!(verdict(5.0, 5.0, 2, None), (false, false));
    // In force: 0.07 of the time, and 2.1 changes, which are three.
    assert_eq!(verdict(0.71, 5.0, 3, swings), (true, true));
    assert_eq!(verdict(5.0, 0.69, 3, swings), (false, false));
    assert_eq!(verdict(5.0, 5.0, 2, swings), (false, false));
    assert_eq!(verdict(5.0, 5.0, 3, swings), (true, false));
    let ruling = swinging_at(3.0, 4.0, 7, None);
    assert_eq!(ruling.rule, "cases_1_and_2_alternate");
    assert_figure(&ruling, "uplink_bound_share", 0.3, Some(0.1));
    assert_figure(&ruling, "downlink_bound_share", 0.4, Some(0.1));
    assert_figure(&ruling, "switches", 7.0, Some(3.0));
    assert_figure(&ruling, "swing_period_s", 2.45, None);
    assert_eq!(figure(&ruling, "queue_correlation"), None);
    assert_eq!(
        ruling.reason,
        "the queue swings between both buffers about every 2.5 s: only one direction is full at a time"
    );
    // Held because one share has come down, or the number of changes. The thresholds that count then are the eased ones.
    let held = swinging_at(0.8, 4.0, 7, Some(Verdict::Swinging));
    assert_figure(&held, "uplink_bound_share", 0.08, Some(0.07));
    assert_figure(&held, "switches", 7.0, Some(2.1));
    assert!(held.held && held.reason.ends_with("evidence now weaker"));
    let thresholds = Thresholds { swing_switches: 4, ..Thresholds::default() };
    let recent = ten_seconds([4.0, 4.0, 1.0, 1.0], 200_000, 900_000);
    let ruling = judge_two_way(
        &Circumstances { switches: 3, current: Some(Verdict::Swinging), ..seen(&recent) },
        &thresholds,
    );
    assert_eq!((ruling.verdict, ruling.held), (Verdict::Swinging, true));
}

/// The case has to be known for half of the time.
#[test]
fn where_the_case_is_not_known_nothing_rests_on_it() {
    let missing = [Missing::UplinkQueue, Missing::RoundTrip];
    let ruling = |known: f64, activity: PerDirection<Activity>| {
        let recent = ten_seconds([known, 0.0, 0.0, 0.0], 200_000, 399_000);
        judged(&Circumstances { activity, missing: &missing, ..seen(&recent) })
    };
    let both = PerDirection { up: BULK, down: BULK };
    assert_eq!(ruling(5.0, both).verdict, Verdict::LockedUplink);
    let unknown = ruling(4.9, both);
    assert_eq!((unknown.verdict, unknown.rule), (Verdict::Unknown, "evidence_missing"));
    assert_eq!(unknown.missing, missing);
    assert_eq!(
        unknown.reason,
        "bulk data goes both ways, and which buffer holds it is unknown; unknown: the level of the uplink's \
         buffer, the round-trip time"
    );
    // With one direction that wants nothing it is one-way traffic, known or not.
    let one = PerDirection { up: BULK, down: wanting(Demand::None) };
    assert_eq!((ruling(9.0, one).verdict, ruling(1.0, one).verdict), (Verdict::OneWay, Verdict::OneWay));
    // What is held back wants more, too.
    let held_back = PerDirection { up: BULK, down: wanting(Demand::HeldBack) };
    assert_eq!(ruling(9.0, held_back).verdict, Verdict::LockedUplink);
}

#[test]
fn neither_locked_nor_swinging_is_balanced() {
    let mut recent = ten_seconds([2.0, 3.0, 4.0, 1.0], 200_000, 900_000);
    recent.wire_bytes = PerDirection { up: 2_000_000, down: 9_500_000 };
    let ruling = judged(&seen(&recent));
    assert_eq!((ruling.verdict, ruling.rule), (Verdict::Balanced, "neither_locked_nor_swinging"));
    for (name, value) in [
        ("uplink_bound_share", 0.2),
        ("downlink_bound_share", 0.3),
        ("balanced_share", 0.4),
        ("uplink_utilization", 0.8),
        ("downlink_utilization", 0.95),
    ] {
        assert_figure(&ruling, name, value, None);
    }
    let capacity = PerDirection { up: None, ..CAPACITY };
    let ruling = judged(&Circumstances { capacity, ..seen(&recent) });
    assert_eq!(figure(&ruling, "uplink_utilization"), None);
    assert_figure(&ruling, "downlink_utilization", 0.95, None);
}

/// Ten seconds in which a queue of 200 ms stood in one buffer for so long, and in the other one for so long; the rest is not known.
fn delayed(full: f64, opposite: f64, load: u64) -> Totals {
    let mut recent = ten_seconds([0.0; 4], load, 200_000);
    recent.delay.down = StandingDelay { known_seconds: full, above_seconds: full, integral: 0.2 * full };
    recent.delay.up = StandingDelay { known_seconds: 10.0, above_seconds: opposite, integral: opposite };
    recent
}

/// An upload that is starved by a queue of ACKs in the downlink's buffer, say.
fn starving_at(full: f64, opposite: f64, load: u64, current: Option<Verdict>) -> Ruling {
    let recent = delayed(full, opposite, load);
    let activity = PerDirection { up: BULK, down: wanting(Demand::None) };
    judged(&Circumstances { activity, current, ..seen(&recent) })
}

#[test]
fn a_queue_that_stands_for_half_of_the_time_starves_the_other_way() {
    let verdict = |full, opposite, load, current| {
        let ruling = starving_at(full, opposite, load, current);
        (ruling.verdict == Verdict::LockedDownlink, ruling.held)
    };
    let locked = Some(Verdict::LockedDownlink);
    // 0.5 of the time, less than 0.1 in the other buffer, less than half of 250,000.
    assert_eq!(verdict(5.0, 0.99, 124_000, None), (true, false));
    assert_eq!(verdict(4.9, 0.99, 124_000, None), (false, false));
    assert_eq!(verdict(5.0, 1.0, 124_000, None), (false, false));
    assert_eq!(verdict(5.0, 0.99, 125_000, None), (false, false));
    // In force: 0.35, 0.13, and 0.65 of 250,000.
    assert_eq!(verdict(3.6, 0.5, 124_000, locked), (true, true));
    assert_eq!(verdict(3.4, 0.5, 124_000, locked), (false, false));
    assert_eq!(verdict(6.0, 1.2, 124_000, locked), (true, true));
    assert_eq!(verdict(6.0, 1.4, 124_000, locked), (false, false));
    assert_eq!(verdict(6.0, 0.5, 162_000, locked), (true, true));
    assert_eq!(verdict(6.0, 0.5, 163_000, locked), (false, false));
    assert_eq!(verdict(6.0, 0.5, 124_000, locked), (true, false));

    let ruling = starving_at(6.0, 0.5, 100_000, None);
    assert_eq!(ruling.rule, "standing_queue_starves");
    assert_figure(&ruling, "downlink_delayed_share", 0.6, Some(0.5));
    assert_figure(&ruling, "downlink_delay_s", 0.2, None);
    assert_figure(&ruling, "lost_bytes_per_second", 150_000.0, None);
    assert!(
        ruling.reason.starts_with("the downlink buffer holds a long queue and uploads starve: 1.20 Mbit/s")
    );
}

/// The same in the uplink.
#[test]
fn a_queue_of_the_uplink_starves_downloads() {
    let mut recent = ten_seconds([0.0; 4], 20_000, 100_000);
    recent.delay.up = StandingDelay { known_seconds: 8.0, above_seconds: 6.0, integral: 2.0 };
    let activity = PerDirection { up: wanting(Demand::None), down: wanting(Demand::HeldBack) };
    let ruling = judged(&Circumstances { activity, ..seen(&recent) });
    assert_eq!((ruling.verdict, ruling.rule), (Verdict::LockedUplink, "standing_queue_starves"));
    assert_figure(&ruling, "uplink_delayed_share", 0.6, Some(0.5));
    assert_figure(&ruling, "uplink_delay_s", 0.25, None);
    // Whoever wants nothing does not starve.
    let activity = PerDirection { up: BULK, down: wanting(Demand::Application(5.0)) };
    let ruling = judged(&Circumstances { activity, ..seen(&recent) });
    assert_eq!(ruling.verdict, Verdict::OneWay);
}

/// A buffer of the other direction that stands by the case, not by its delay, is a full one as well.
#[test]
fn two_full_buffers_starve_nobody() {
    let activity = PerDirection { up: BULK, down: wanting(Demand::None) };
    // Of 4 known seconds the uplink's buffer stood for 0.3 and 0.5, alone or with the other one.
    for (phases, locked) in [([0.3, 0.0, 0.0, 3.7], true), ([0.2, 0.0, 0.3, 3.5], false)] {
        let recent = Totals { phase_seconds: phases, ..delayed(6.0, 0.0, 100_000) };
        let ruling = judged(&Circumstances { activity, ..seen(&recent) });
        assert_eq!(ruling.verdict == Verdict::LockedDownlink, locked, "{phases:?}");
    }
}

#[test]
fn without_a_rate_starving_is_unknown() {
    let recent = delayed(6.0, 0.5, 100_000);
    let activity = PerDirection { up: BULK, down: wanting(Demand::None) };
    let capacity = PerDirection { up: None, ..CAPACITY };
    let missing = [Missing::UplinkRate];
    let ruling = judged(&Circumstances { activity, capacity, missing: &missing, ..seen(&recent) });
    assert_eq!((ruling.verdict, ruling.missing.as_slice()), (Verdict::Unknown, &missing[..]));
    assert_eq!(
        ruling.reason,
        "the downlink holds a standing queue, and whether the other direction starves is unknown; unknown: the uplink's rate"
    );
}

#[test]
fn one_way_traffic_is_called_by_its_way() {
    let thresholds = Thresholds::default();
    // Both buffers are seen, and empty.
    let mut recent = ten_seconds([0.0; 4], 100_000, 100_000);
    recent.wire_bytes = recent.load_bytes;
    let empty = StandingDelay { known_seconds: 10.0, ..StandingDelay::default() };
    recent.delay = PerDirection { up: empty, down: empty };
    let ruling = |up, down| {
        let activity = PerDirection { up: wanting(up), down: wanting(down) };
        judge_one_way(&Circumstances { activity, ..seen(&recent) }, &thresholds)
    };
    let up = ruling(Demand::Bulk, Demand::None);
    assert_eq!((up.verdict, up.rule), (Verdict::OneWay, "bulk_data_one_way"));
    assert_eq!(up.reason, "bulk data goes up only; a standing queue is normal then");
    let down = ruling(Demand::Application(9.0), Demand::HeldBack);
    assert_eq!(
        down.reason,
        "bulk data goes down only; a standing queue is normal then (the other direction is limited by its application)"
    );
    let none = ruling(Demand::None, Demand::Untold);
    assert_eq!((none.verdict, none.rule), (Verdict::Clear, "no_bulk_data"));
    assert_eq!(none.missing, [Missing::DownloadDemand]);
    assert_eq!(
        none.reason,
        "no direction carries bulk data; unknown: whether the download's datagrams are held back"
    );
    assert_figure(&none, "upload_active_share", 0.9, Some(0.8));
    assert_figure(&none, "download_window_segments", 12.0, Some(2.0));
    assert_eq!(none.figures.len(), 4);
}

/// In phase and in long bursts both ways: it comes before a swing.
#[test]
fn ack_compression_comes_first() {
    let mut recent = ten_seconds([4.0, 4.0, 1.0, 1.0], 200_000, 900_000);
    for level in [0.0, 1_000.0, 5_000.0] {
        recent.queues.add([level, 3.0 * level], 1.0);
    }
    for x in Direction::ALL {
        recent.ack_bursts[x].add(12, 3);
    }
    let ruling = judged(&Circumstances { switches: 9, ..seen(&recent) });
    assert_eq!((ruling.verdict, ruling.rule), (Verdict::AckCompression, "in_phase_with_long_ack_bursts"));
    assert_figure(&ruling, "queue_correlation", 1.0, Some(0.3));
    // What swings in phase is reported with its correlation.
    recent.ack_bursts = PerDirection::default();
    let ruling = judged(&Circumstances { switches: 9, ..seen(&recent) });
    assert_eq!(ruling.verdict, Verdict::Swinging);
    assert_figure(&ruling, "queue_correlation", 1.0, None);
}
