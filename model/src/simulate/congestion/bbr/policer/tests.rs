use super::super::tests::report;
use super::*;

/// Rounds of 100 ms in each of which `delivered` segments arrive and `lost` are lost.
fn rounds(delivered: u32, lost: u32, count: u32) -> (Policer, Vec<Finding>) {
    let mut policer = Policer::default();
    let mut report = report();
    policer.reset(&report);
    let found = (0..count).map(|_| {
        report.delivered += delivered;
        report.lost += lost;
        report.losses = lost;
        report.delivered_at += 100_000;
        policer.sample(&report, true, true)
    });
    let found = found.collect();
    (policer, found)
}

#[test]
fn two_lossy_intervals_of_the_same_rate_are_a_policer_for_48_rounds() {
    let (policer, found) = rounds(10, 3, 8);
    assert_eq!(found.last(), Some(&Finding::Policed), "{found:?}");
    // Ten segments in 100 ms.
    let expected = bandwidth(10, 100_000);
    let rate = policer.bandwidth().expect("a rate");
    assert!(rate.abs_diff(expected) <= expected / 50, "{rate} {expected}");
    let (policer, found) = rounds(10, 3, 8 + 48);
    assert_eq!((found.last(), policer.bandwidth()), (Some(&Finding::Over), None));
}

#[test]
fn few_losses_are_none() {
    // A tenth of what is delivered; a fifth would be too many.
    assert!(rounds(10, 1, 60).1.iter().all(|found| *found == Finding::Nothing));
}

/// An interval that began at 1 s with nothing, of so many rounds.
fn interval(rounds: u32) -> Policer {
    Policer { sampling: true, rounds, since: 1_000, ..Policer::default() }
}

/// 50 of 256 are lost, in 400 ms.
fn lossy() -> Report {
    Report { delivered: 256, lost: 50, losses: 1, delivered_at: 1_400_000, ..report() }
}

#[test]
fn an_interval_begins_with_a_loss_and_lasts_four_to_sixteen_rounds() {
    let mut policer = Policer::default();
    assert_eq!(policer.sample(&Report { losses: 0, ..lossy() }, true, true), Finding::Nothing);
    assert!(!policer.sampling);
    policer.sample(&lossy(), true, true);
    assert_eq!(
        (policer.sampling, policer.since, policer.delivered, policer.lost, policer.rounds),
        (true, 1_400, 256, 50, 1)
    );
    let told = |rounds, new_round| {
        let mut policer = interval(rounds);
        policer.sample(&lossy(), new_round, true);
        (policer.bandwidth > 0, policer.sampling, policer.rounds)
    };
    assert_eq!([told(2, true), told(3, false)], [(false, true, 3), (false, true, 3)]);
    assert_eq!([told(3, true), told(15, true)], [(true, true, 0), (true, true, 0)]);
    assert_eq!(told(16, true), (false, false, 0), "too long");
    let mut quiet = interval(5);
    quiet.sample(&Report { losses: 0, ..lossy() }, true, true);
    assert_eq!((quiet.rounds, quiet.bandwidth), (6, 0), "it ends with a loss");
}

#[test]
fn what_the_application_limits_is_no_policer() {
    let rate = Some(super::super::super::DeliveryRate {
        delivered: 1,
        interval: 1,
        prior_delivered: 0,
        app_limited: true,
    });
    let mut policer = interval(5);
    assert_eq!(policer.sample(&Report { rate, ..lossy() }, true, true), Finding::Nothing);
    assert_eq!((policer.sampling, policer.rounds, policer.since), (false, 0, 1_400));
}

#[test]
fn a_fifth_must_be_lost_in_some_time() {
    let measured = |report: Report| {
        let mut policer = interval(5);
        policer.end(&report);
        policer.bandwidth
    };
    assert_eq!(measured(lossy()), bandwidth(256, 400_000));
    assert_eq!(measured(Report { lost: 49, ..lossy() }), 0);
    assert_eq!(measured(Report { delivered: 0, ..lossy() }), 0);
    assert_eq!(measured(Report { delivered_at: 1_000_999, ..lossy() }), 0);
    // What came before the interval does not count.
    let mut later = Policer { delivered: 156, lost: 30, ..interval(5) };
    later.end(&lossy());
    assert_eq!(later.bandwidth, bandwidth(100, 400_000));
}

#[test]
fn two_rates_agree_within_an_eighth_or_4_kilobits() {
    let compared = |before, measured| {
        let mut policer = Policer { bandwidth: before, rounds: 9, ..Policer::default() };
        let found = policer.compare(measured, &lossy());
        assert_eq!(
            (found == Finding::Policed, policer.bandwidth().is_some()),
            (policer.in_use, policer.in_use)
        );
        (policer.in_use, policer.bandwidth, policer.rounds)
    };
    assert_eq!(compared(80_000, 90_000), (true, 85_000, 0));
    assert_eq!(compared(80_000, 70_000), (true, 75_000, 0));
    assert_eq!(compared(80_000, 90_001), (false, 90_001, 0));
    assert_eq!(compared(0, 90_000), (false, 90_000, 0), "the first");
    // 5 are 427 B/s, 6 are 512.
    assert_eq!([compared(10, 15), compared(10, 16)], [(true, 12, 0), (false, 16, 0)]);
}

#[test]
fn it_is_used_for_48_rounds_of_probing() {
    let after = |rounds, new_round, probing| {
        let mut policer = Policer { in_use: true, bandwidth: 9, rounds, ..Policer::default() };
        (policer.sample(&lossy(), new_round, probing), policer.rounds)
    };
    assert_eq!(after(46, true, true), (Finding::Nothing, 47));
    assert_eq!(after(47, true, true), (Finding::Over, 0));
    assert_eq!([after(47, false, true), after(47, true, false)], [(Finding::Nothing, 47); 2]);
}
