use super::*;

const RULES: Filter = Filter { dwell: Duration::from_secs(2), memory: Duration::from_secs(60) };

fn ruling(verdict: Verdict, held: bool) -> Ruling {
    Ruling { verdict, rule: "a_rule", reason: String::new(), figures: Vec::new(), held, missing: Vec::new() }
}

/// One weighing a second; returns the change, if there is one.
fn weigh(tracker: &mut VerdictTracker, second: u64, verdict: Verdict) -> Option<(Verdict, Verdict, f64)> {
    let at = Duration::from_secs(second);
    let begin = at - Duration::from_secs(1);
    tracker.pass(at - begin);
    let event = tracker.weigh(ruling(verdict, false), begin, at, RULES)?;
    match event.change {
        Change::Verdict { from, to } => Some((from, to, event.evidence.since_s)),
        _ => None,
    }
}

fn five_minutes(tracker: &mut VerdictTracker, verdict: Verdict) {
    for second in 1..=300 {
        weigh(tracker, second, verdict);
    }
}

fn held(tracker: &VerdictTracker, verdict: Verdict) -> f64 {
    tracker.held_seconds()[verdict as usize]
}

#[test]
fn time_is_booked_from_the_beginning_of_what_wins() {
    let mut tracker = VerdictTracker::default();
    // Seconds 0 to 2: enough for the first verdict, which then has held since 0.
    assert_eq!(weigh(&mut tracker, 1, Verdict::OneWay), None);
    assert_eq!(held(&tracker, Verdict::OneWay), 0.0);
    assert_eq!(weigh(&mut tracker, 2, Verdict::OneWay), Some((Verdict::Unknown, Verdict::OneWay, 0.0)));
    assert_eq!(held(&tracker, Verdict::OneWay), 2.0);
    // A second of another verdict that does not last belongs to the one that does, at once and for good.
    assert_eq!(weigh(&mut tracker, 3, Verdict::Swinging), None);
    assert_eq!(held(&tracker, Verdict::OneWay), 3.0);
    assert_eq!(weigh(&mut tracker, 4, Verdict::OneWay), None);
    assert_eq!((held(&tracker, Verdict::OneWay), held(&tracker, Verdict::Swinging)), (4.0, 0.0));
    // Another challenger does not inherit the time of the one before.
    assert_eq!(weigh(&mut tracker, 5, Verdict::Swinging), None);
    assert_eq!(weigh(&mut tracker, 6, Verdict::LockedUplink), None);
    assert_eq!(
        weigh(&mut tracker, 7, Verdict::LockedUplink),
        Some((Verdict::OneWay, Verdict::LockedUplink, 5.0))
    );
    assert_eq!((held(&tracker, Verdict::OneWay), held(&tracker, Verdict::LockedUplink)), (5.0, 2.0));
    assert_eq!(tracker.longest(), Some(Verdict::OneWay));
    for second in 8..=11 {
        assert_eq!(weigh(&mut tracker, second, Verdict::LockedUplink), None);
    }
    assert_eq!(
        (held(&tracker, Verdict::LockedUplink), tracker.longest()),
        (6.0, Some(Verdict::LockedUplink))
    );
    // No rule applies for a second: the verdict holds on.
    tracker.pass(Duration::from_secs(1));
    tracker.hold();
    assert_eq!(held(&tracker, Verdict::LockedUplink), 7.0);
    // So does a challenger's second when no rule applies after it.
    weigh(&mut tracker, 13, Verdict::Balanced);
    tracker.pass(Duration::from_secs(1));
    tracker.hold();
    assert_eq!((held(&tracker, Verdict::LockedUplink), held(&tracker, Verdict::Balanced)), (9.0, 0.0));
}

/// A lock that held for a third of the time is not hidden by the one-way traffic before and after it; one that held for less is.
#[test]
fn one_way_traffic_hides_no_lock_that_held_for_a_third_of_the_time() {
    for (locked_s, expected) in [(44, Verdict::OneWay), (45, Verdict::LockedDownlink)] {
        let mut tracker = VerdictTracker::default();
        for second in 1..=90 {
            weigh(&mut tracker, second, Verdict::OneWay);
        }
        for second in 91..=90 + locked_s {
            weigh(&mut tracker, second, Verdict::LockedDownlink);
        }
        assert_eq!(held(&tracker, Verdict::OneWay), 90.0);
        assert_eq!(tracker.longest(), Some(expected), "{locked_s}");
    }
    // Between verdicts on traffic in both directions the longest counts.
    let mut tracker = VerdictTracker::default();
    for second in 1..=20 {
        weigh(&mut tracker, second, if second <= 11 { Verdict::Swinging } else { Verdict::LockedUplink });
    }
    assert_eq!(tracker.longest(), Some(Verdict::Swinging));
}

/// A sample that speaks for 100 s of silence ends the verdict at the beginning of the silence.
#[test]
fn a_long_sample_decides_at_once_and_from_its_beginning() {
    let mut tracker = VerdictTracker::default();
    for second in 1..=30 {
        weigh(&mut tracker, second, Verdict::LockedUplink);
    }
    let (begin, at) = (Duration::from_secs(30), Duration::from_secs(130));
    tracker.pass(at - begin);
    let event = tracker.weigh(ruling(Verdict::Clear, false), begin, at, RULES).expect("a change");
    assert_eq!((event.at_s, event.evidence.since_s), (130.0, 30.0));
    assert_eq!((held(&tracker, Verdict::LockedUplink), held(&tracker, Verdict::Clear)), (30.0, 100.0));
    // Stretches without bulk data do not count for a whole capture.
    assert_eq!(tracker.longest(), Some(Verdict::LockedUplink));
}

#[test]
fn time_that_nobody_looked_at_belongs_to_no_verdict() {
    let mut tracker = VerdictTracker::default();
    weigh(&mut tracker, 1, Verdict::OneWay);
    weigh(&mut tracker, 2, Verdict::OneWay);
    weigh(&mut tracker, 500, Verdict::OneWay);
    assert_eq!(held(&tracker, Verdict::OneWay), 3.0);
}

#[test]
fn hysteresis_is_dated_from_its_beginning() {
    let mut tracker = VerdictTracker::default();
    weigh(&mut tracker, 1, Verdict::LockedUplink);
    weigh(&mut tracker, 2, Verdict::LockedUplink);
    let mut kept = |second, held| {
        let at = Duration::from_secs(second);
        tracker.weigh(ruling(Verdict::LockedUplink, held), at, at, RULES);
        tracker.evidence(RULES.dwell).and_then(|evidence| evidence.held_since_s)
    };
    assert_eq!(
        [kept(3, false), kept(4, true), kept(5, true), kept(6, false)],
        [None, Some(4.0), Some(4.0), None]
    );
}

/// The newest figures say one thing for 10 s and another for the next 10 s, for ten minutes.
#[test]
fn what_comes_and_goes_is_not_followed() {
    let mut tracker = VerdictTracker::default();
    let turns = |second: u64| if second % 20 < 10 { Verdict::Swinging } else { Verdict::Balanced };
    let changes: Vec<_> = (1..=600)
        .filter_map(|second| weigh(&mut tracker, second, turns(second)))
        .map(|change| (change.1, change.2))
        .collect();
    // Neither ever weighs twice what the other does.
    assert_eq!(changes, [(Verdict::Swinging, 0.0)]);
    let doubt = |tracker: &VerdictTracker| {
        tracker.evidence(RULES.dwell).map(|evidence| evidence.reason).unwrap_or_default()
    };
    assert_eq!(doubt(&tracker), "");
    // Followed within the memory once it is one of them for good.
    weigh(&mut tracker, 610, Verdict::Balanced);
    assert_eq!(doubt(&tracker), "");
    weigh(&mut tracker, 611, Verdict::Balanced);
    assert_eq!(doubt(&tracker), "; for 2 s the newest figures would be balanced");
    let other = (612..=720).find_map(|second| weigh(&mut tracker, second, Verdict::Balanced).map(|_| second));
    assert!(other.is_some_and(|second| (640..=690).contains(&second)), "{other:?}");
    assert_eq!(doubt(&tracker), "");
}

/// Locks, and the ends of traffic, need no weight.
#[test]
fn a_lock_is_never_put_off() {
    let mut tracker = VerdictTracker::default();
    let turns = |second: u64| match second % 20 {
        0..10 => Verdict::LockedUplink,
        _ => Verdict::Balanced,
    };
    let changes: Vec<_> = (1..=600).filter_map(|second| weigh(&mut tracker, second, turns(second))).collect();
    // Of equal weight the lock is the one that holds.
    assert_eq!(changes, [(Verdict::Unknown, Verdict::LockedUplink, 0.0)]);
    let mut tracker = VerdictTracker::default();
    five_minutes(&mut tracker, Verdict::Balanced);
    weigh(&mut tracker, 301, Verdict::LockedUplink);
    assert!(weigh(&mut tracker, 302, Verdict::LockedUplink).is_some());
    weigh(&mut tracker, 303, Verdict::Clear);
    assert!(weigh(&mut tracker, 304, Verdict::Clear).is_some());
}

/// What was said of other traffic does not count.
#[test]
fn from_no_traffic_or_evidence_every_verdict_follows_at_once() {
    for end in [Verdict::Clear, Verdict::Unknown] {
        let mut tracker = VerdictTracker::default();
        five_minutes(&mut tracker, end);
        weigh(&mut tracker, 301, Verdict::Balanced);
        assert!(weigh(&mut tracker, 302, Verdict::Balanced).is_some());
    }
}

/// Round trips of 0.1 s need 5 s of evidence. One of 2 s needs six of them, and the activity six instead of those that were looked at.
#[test]
fn that_nothing_is_found_takes_as_many_of_the_longest_round_trips() {
    let mut detector = Detector::new(super::super::Config::default());
    let thorough = |detector: &Detector, since| {
        detector.thorough(Duration::from_secs(since), Duration::from_secs(4)).as_secs_f64()
    };
    for second in 1..=20 {
        let round_trip = if second == 5 { 2.0 } else { 0.1 };
        let at = Duration::from_secs(second);
        let span = Duration::from_secs(1);
        detector.push(&crate::sample::Sample {
            at,
            span,
            round_trip: Some(round_trip),
            ..Default::default()
        });
    }
    assert_eq!([thorough(&detector, 5), thorough(&detector, 4)], [5.0, 12.0 + 8.0]);
}

#[test]
fn another_verdict_must_outweigh_the_present_one_three_times() {
    let allows = |seconds: f64, verdict, current| {
        let mut weights = Weights::default();
        weights.0[current as usize] = 1.0;
        weights.0[verdict as usize] = seconds;
        weights.allow(verdict, current)
    };
    assert_eq!(
        [3.0, 3.1].map(|seconds| allows(seconds, Verdict::Balanced, Verdict::Swinging)),
        [false, true]
    );
    // What starves, and what is over, needs no weight.
    assert!(
        allows(0.0, Verdict::LockedUplink, Verdict::Swinging)
            && allows(0.0, Verdict::Clear, Verdict::LockedUplink)
    );
    assert!(allows(0.0, Verdict::Balanced, Verdict::Unknown));
}
