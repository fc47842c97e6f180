use super::*;

const DWELL: Dwell = Dwell { usual: Duration::from_secs(2), degree: Duration::from_secs(3) };

fn ruling(verdict: Verdict, held: bool) -> Ruling {
    Ruling { verdict, rule: "a_rule", reason: String::new(), figures: Vec::new(), held, missing: Vec::new() }
}

/// One weighing a second; returns the change, if there is one.
fn weigh(bench: &mut Bench, second: u64, verdict: Verdict) -> Option<(Verdict, Verdict, f64)> {
    let at = Duration::from_secs(second);
    let begin = at - Duration::from_secs(1);
    bench.pass(at - begin);
    let event = bench.weigh(ruling(verdict, false), begin, at, DWELL)?;
    match event.change {
        Change::Verdict { from, to } => Some((from, to, event.evidence.since_s)),
        _ => None,
    }
}

fn held(bench: &Bench, verdict: Verdict) -> f64 {
    bench.held_seconds()[verdict as usize]
}

#[test]
fn time_is_booked_from_the_beginning_of_what_wins() {
    let mut bench = Bench::default();
    // Seconds 0 to 2: enough for the first verdict, which then has held since 0.
    assert_eq!(weigh(&mut bench, 1, Verdict::OneWay), None);
    assert_eq!(held(&bench, Verdict::OneWay), 0.0);
    assert_eq!(weigh(&mut bench, 2, Verdict::OneWay), Some((Verdict::Clear, Verdict::OneWay, 0.0)));
    assert_eq!(held(&bench, Verdict::OneWay), 2.0);
    // A second of another verdict that does not last belongs to the one that does, at once and for good.
    assert_eq!(weigh(&mut bench, 3, Verdict::Swinging), None);
    assert_eq!(held(&bench, Verdict::OneWay), 3.0);
    assert_eq!(weigh(&mut bench, 4, Verdict::OneWay), None);
    assert_eq!((held(&bench, Verdict::OneWay), held(&bench, Verdict::Swinging)), (4.0, 0.0));
    // Another challenger does not inherit the time of the one before.
    assert_eq!(weigh(&mut bench, 5, Verdict::Swinging), None);
    assert_eq!(weigh(&mut bench, 6, Verdict::LockedUplink), None);
    assert_eq!(
        weigh(&mut bench, 7, Verdict::LockedUplink),
        Some((Verdict::OneWay, Verdict::LockedUplink, 5.0))
    );
    assert_eq!((held(&bench, Verdict::OneWay), held(&bench, Verdict::LockedUplink)), (5.0, 2.0));
    assert_eq!(bench.longest(), Some(Verdict::OneWay));
    for second in 8..=11 {
        assert_eq!(weigh(&mut bench, second, Verdict::LockedUplink), None);
    }
    assert_eq!((held(&bench, Verdict::LockedUplink), bench.longest()), (6.0, Some(Verdict::LockedUplink)));
    // No rule applies for a second: the verdict holds on.
    bench.pass(Duration::from_secs(1));
    bench.hold();
    assert_eq!(held(&bench, Verdict::LockedUplink), 7.0);
    // So does a challenger's second when no rule applies after it.
    weigh(&mut bench, 13, Verdict::Balanced);
    bench.pass(Duration::from_secs(1));
    bench.hold();
    assert_eq!((held(&bench, Verdict::LockedUplink), held(&bench, Verdict::Balanced)), (9.0, 0.0));
}

/// A lock that held for a third of the time is not hidden by the one-way traffic before and after it; one that held for less is.
#[test]
fn one_way_traffic_hides_no_lock_that_held_for_a_third_of_the_time() {
    for (locked_s, expected) in [(44, Verdict::OneWay), (45, Verdict::LockedDownlink)] {
        let mut bench = Bench::default();
        for second in 1..=90 {
            weigh(&mut bench, second, Verdict::OneWay);
        }
        for second in 91..=90 + locked_s {
            weigh(&mut bench, second, Verdict::LockedDownlink);
        }
        assert_eq!(held(&bench, Verdict::OneWay), 90.0);
        assert_eq!(bench.longest(), Some(expected), "{locked_s}");
    }
    // Between verdicts on traffic in both directions the longest counts.
    let mut bench = Bench::default();
    for second in 1..=20 {
        weigh(&mut bench, second, if second <= 11 { Verdict::Swinging } else { Verdict::LockedUplink });
    }
    assert_eq!(bench.longest(), Some(Verdict::Swinging));
}

/// A sample that speaks for 100 s of silence ends the verdict at the beginning of the silence.
#[test]
fn a_long_sample_decides_at_once_and_from_its_beginning() {
    let mut bench = Bench::default();
    for second in 1..=30 {
        weigh(&mut bench, second, Verdict::LockedUplink);
    }
    let (begin, at) = (Duration::from_secs(30), Duration::from_secs(130));
    bench.pass(at - begin);
    let event = bench.weigh(ruling(Verdict::Clear, false), begin, at, DWELL).expect("a change");
    assert_eq!((event.at_s, event.evidence.since_s), (130.0, 30.0));
    assert_eq!((held(&bench, Verdict::LockedUplink), held(&bench, Verdict::Clear)), (30.0, 100.0));
    // Stretches without bulk data do not count for a whole capture.
    assert_eq!(bench.longest(), Some(Verdict::LockedUplink));
}

#[test]
fn time_that_nobody_looked_at_belongs_to_no_verdict() {
    let mut bench = Bench::default();
    weigh(&mut bench, 1, Verdict::OneWay);
    weigh(&mut bench, 2, Verdict::OneWay);
    weigh(&mut bench, 500, Verdict::OneWay);
    assert_eq!(held(&bench, Verdict::OneWay), 3.0);
}

#[test]
fn hysteresis_is_dated_from_its_beginning() {
    let mut bench = Bench::default();
    weigh(&mut bench, 1, Verdict::LockedUplink);
    weigh(&mut bench, 2, Verdict::LockedUplink);
    let mut kept = |second, held| {
        let at = Duration::from_secs(second);
        bench.weigh(ruling(Verdict::LockedUplink, held), at, at, DWELL);
        bench.evidence().and_then(|evidence| evidence.held_since_s)
    };
    assert_eq!(
        [kept(3, false), kept(4, true), kept(5, true), kept(6, false)],
        [None, Some(4.0), Some(4.0), None]
    );
}

/// The newest figures say one thing for 10 s and another for the next 10 s, for ten minutes.
#[test]
fn what_comes_and_goes_is_followed_ever_more_slowly() {
    let mut bench = Bench::default();
    let turns = |second: u64| if second % 20 < 10 { Verdict::Swinging } else { Verdict::Balanced };
    let changes: Vec<_> = (1..=600)
        .filter_map(|second| weigh(&mut bench, second, turns(second)))
        .map(|change| change.1)
        .collect();
    // The first verdict, and the first of the other kind. To return takes 24 s.
    assert_eq!(changes, [Verdict::Swinging, Verdict::Balanced]);
    let doubt = |bench: &Bench| bench.evidence().map(|evidence| evidence.reason).unwrap_or_default();
    assert_eq!(doubt(&bench), "; for 1 s the newest figures would be swinging, which was given up before");
    // It is followed for good, since 600 s; a year later as at first.
    let back = (601..=700).find_map(|second| weigh(&mut bench, second, Verdict::Swinging).map(|_| second));
    assert!(back.is_some_and(|second| (610..=640).contains(&second)), "{back:?}");
    assert_eq!(doubt(&bench), "");
    let back = (31_536_000..).find_map(|second| weigh(&mut bench, second, Verdict::Balanced).map(|_| second));
    assert_eq!(back, Some(31_536_001));
}

/// Locks, and the ends of traffic, are not put off.
#[test]
fn a_lock_is_never_put_off() {
    let mut bench = Bench::default();
    let turns = |second: u64| match second % 20 {
        0..10 => Verdict::LockedUplink,
        _ => Verdict::Balanced,
    };
    let changes: Vec<_> = (1..=600).filter_map(|second| weigh(&mut bench, second, turns(second))).collect();
    // Given up once, and said again; to give it up once more takes 24 s of the other.
    assert_eq!(changes.iter().map(|change| change.2).collect::<Vec<_>>(), [0.0, 9.0, 19.0]);
    assert_eq!(bench.verdict(), Some(Verdict::LockedUplink));
    // It was given up before, and is said again after the usual 2 s.
    let mut locked = Bench { damping: bench.damping.clone(), ..Bench::default() };
    locked.damping.give_up(Verdict::LockedUplink, Duration::from_secs(601));
    weigh(&mut locked, 602, Verdict::Balanced);
    weigh(&mut locked, 603, Verdict::LockedUplink);
    assert!(weigh(&mut locked, 604, Verdict::LockedUplink).is_some());
    let mut ended = Bench { damping: bench.damping.clone(), ..Bench::default() };
    weigh(&mut ended, 605, Verdict::Clear);
    assert_eq!(weigh(&mut ended, 606, Verdict::Clear), None);
    assert_eq!(ended.verdict(), Some(Verdict::Clear));
}
