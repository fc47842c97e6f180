//! Traffic that lies between two verdicts does not make the detector slow to say what really changes.

use crate::streams::{DOWN, Half, UP, acks, run, stream, tcp, udp, verdicts};
use pendulum_model::findings::Verdict;
use pendulum_model::sample::Sample;
use proptest::prelude::*;

/// What comes after traffic that lies between swinging and balanced.
#[derive(Clone, Copy, Debug)]
enum Change {
    UploadEnds,
    /// Datagrams, of which the download gets little.
    LockBegins,
}

impl Change {
    fn traffic(self) -> (Half, Half) {
        match self {
            Self::UploadEnds => (acks(5_000.0), tcp(DOWN).full(0.05)),
            Self::LockBegins => (udp(UP).full(0.35), tcp(0.17 * DOWN)),
        }
    }

    const fn verdict(self) -> Verdict {
        match self {
            Self::UploadEnds => Verdict::OneWay,
            Self::LockBegins => Verdict::LockedUplink,
        }
    }
}

/// Both buffers stand for so many seconds, then they take turns for as long, and so on until `until`.
fn between(time: f64, each: f64, half_period: f64) -> (Half, Half) {
    let swings = (time / each) as u64 % 2 == 1;
    match (swings, (time / half_period) as u64 % 2) {
        (false, _) => (tcp(UP).full(0.1), tcp(DOWN).full(0.1)),
        (true, 0) => (tcp(UP).full(0.2), tcp(0.3 * DOWN)),
        (true, _) => (tcp(0.3 * UP), tcp(DOWN).full(0.2)),
    }
}

/// How long after `from` the verdict was said; it holds to the end.
fn said_after(samples: &[Sample], verdict: Verdict, from: f64) -> f64 {
    let (detector, events) = run(samples);
    assert_eq!(detector.verdict(), verdict);
    verdicts(&events).last().map_or(f64::INFINITY, |(at, _)| at - from)
}

/// How much of the traffic before the detectors have seen to which the one that saw all of it is compared, seconds: they read half a second after one
/// another, so that one of them reads when the one that saw all does.
const SEEN_S: [usize; 5] = [20, 31, 42, 53, 64];

/// From one reading of the detector to the next, seconds.
const READING_S: f64 = 2.5;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// As soon as by a detector that has seen nothing of the traffic before but its last 20 to 64 s, or one reading later. Where its readings begin moves
    /// what it says by up to one, whatever came before: so the slowest of several counts.
    #[test]
    fn what_really_changes_is_said_as_soon_as_ever(
        change in prop_oneof![Just(Change::UploadEnds), Just(Change::LockBegins)],
        before in 100u64..400,
        each in 8.0..60.0_f64,
        half_period in 1.0..4.0_f64,
    ) {
        let from = before as f64;
        let samples = stream(before + 60, |time| match time < from {
            true => between(time, each, half_period),
            false => change.traffic(),
        });
        let damped = said_after(&samples, change.verdict(), from);
        let present = SEEN_S.map(|seen| {
            said_after(&samples[(before as usize - seen) * 100..], change.verdict(), from)
        });
        let present = present.into_iter().fold(0.0, f64::max);
        prop_assert!(damped <= present + READING_S + 0.1, "{damped} s, without what was before {present} s");
        prop_assert!(present < 40.0, "{present} s");
    }

    /// However long both take turns, the verdict is one of the two, and there are few changes in ten minutes.
    #[test]
    fn traffic_between_two_verdicts_is_not_followed_to_and_fro(
        each in 8.0..60.0_f64,
        half_period in 1.0..4.0_f64,
    ) {
        let (_, events) = run(&stream(600, |time| between(time, each, half_period)));
        let found = verdicts(&events);
        prop_assert!(found.len() <= 5, "{found:.0?}");
        let known = |verdict: &Verdict| matches!(verdict, Verdict::Balanced | Verdict::Swinging);
        prop_assert!(found.iter().all(|(_, verdict)| known(verdict)), "{found:.0?}");
    }
}

/// A lock that is over while both directions still send is given up once the rules have spoken against it for about one and a half horizons.
#[test]
fn the_end_of_a_long_lock_is_said() {
    let locked = || (udp(UP).full(0.35), tcp(0.17 * DOWN));
    let samples = stream(300, |time| match time < 200.0 {
        true => locked(),
        false => (tcp(UP).full(0.1), tcp(DOWN).full(0.1)),
    });
    let (_, events) = run(&samples);
    let found = verdicts(&events);
    let names: Vec<Verdict> = found.iter().map(|(_, verdict)| *verdict).collect();
    assert_eq!(names, [Verdict::LockedUplink, Verdict::Balanced], "{found:.0?}");
    assert!(found[1].0 < 245.0, "{found:.0?}");
}
