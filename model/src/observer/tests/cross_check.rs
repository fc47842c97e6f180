//! Ends that were first heard at different times: which of them tells how long the queue was.

use super::super::base::Split;
use super::super::cross_check::{Correction, CrossChecks};

const MS: f64 = 1e6;
const FIRST: [u8; 16] = [1; 16];
const LATER: [u8; 16] = [2; 16];

fn split(queue_ms: f64, is_proven: bool) -> Split {
    Split { queue_ns: queue_ms * MS, base_ns: 20.0 * MS, proven_ns: is_proven.then_some(0.0) }
}

/// A question of 10 ms ago waited for `queue_ms`.
fn judge(
    cross_checks: &mut CrossChecks,
    end: [u8; 16],
    now_ms: f64,
    queue_ms: f64,
    is_proven: bool,
) -> Option<Correction> {
    cross_checks.judge(end, &split(queue_ms, is_proven), (now_ms - 10.0) * MS, now_ms * MS)
}

/// The first end tells of 500 ms from 0 on, every 20 ms; the other of `tells_ms` from 100 ms on. What becomes of the other one's word.
fn beside(tells_ms: f64, is_proven: bool) -> Vec<Option<Correction>> {
    let mut cross_checks = CrossChecks::default();
    let mut judgements = Vec::new();
    for step in 0..40 {
        let now_ms = 20.0 * f64::from(step);
        let first = judge(&mut cross_checks, FIRST, now_ms, 500.0, false);
        if is_proven && now_ms > 100.0 {
            assert!(!first.is_some_and(|first| first.is_best), "another one is proven");
        } else {
            assert!(first.is_some_and(|first| first.is_best && first.missing_ns == 0.0));
        }
        if now_ms >= 100.0 {
            judgements.push(judge(&mut cross_checks, LATER, now_ms + 5.0, tells_ms, is_proven));
        }
    }
    judgements
}

#[test]
fn an_end_heard_later_lacks_what_the_first_one_tells() {
    let judgements = beside(200.0, false);
    // Seven comparisons are not enough.
    assert!(judgements[..7].iter().all(Option::is_none));
    for judgement in &judgements[7..] {
        let judgement = judgement.expect("eight comparisons");
        assert!(!judgement.is_best);
        assert!((judgement.missing_ns - 300.0 * MS).abs() < 1.0);
    }
    // Likewise if its delay without queue was taken for too small.
    let judgement = beside(800.0, false).pop().flatten().expect("a judgement");
    assert!((judgement.missing_ns + 300.0 * MS).abs() < 1.0);
}

#[test]
fn a_delayed_acknowledgement_is_no_difference() {
    for tells_ms in [465.0, 535.0] {
        let judgement = beside(tells_ms, false).pop().flatten().expect("a judgement");
        assert_eq!(judgement.missing_ns, 0.0);
    }
}

#[test]
fn a_proven_end_is_believed_at_once() {
    for judgement in beside(200.0, true) {
        let judgement = judgement.expect("it is proven");
        assert!(judgement.is_best && judgement.missing_ns == 0.0);
    }
}

#[test]
fn when_the_best_end_falls_silent_the_other_goes_on_with_what_it_lacks() {
    let mut cross_checks = CrossChecks::default();
    for step in 0..20 {
        let now_ms = 20.0 * f64::from(step);
        judge(&mut cross_checks, FIRST, now_ms, 500.0, false);
        judge(&mut cross_checks, LATER, now_ms + 5.0, 200.0, false);
    }
    let soon = judge(&mut cross_checks, LATER, 3_000.0, 200.0, false).expect("compared");
    assert!(!soon.is_best);
    let late = judge(&mut cross_checks, LATER, 11_000.0, 200.0, false).expect("compared");
    assert!(late.is_best && (late.missing_ns - 300.0 * MS).abs() < 1.0);
    // The first one is the better of both as soon as it is heard again.
    assert!(judge(&mut cross_checks, FIRST, 11_100.0, 500.0, false).is_some_and(|first| first.is_best));
    assert!(judge(&mut cross_checks, LATER, 11_105.0, 200.0, false).is_some_and(|later| !later.is_best));
}

#[test]
fn questions_of_different_times_are_not_compared() {
    let mut cross_checks = CrossChecks::default();
    judge(&mut cross_checks, FIRST, 0.0, 500.0, false);
    for step in 0..20 {
        let now_ms = 100.0 + 20.0 * f64::from(step);
        assert!(judge(&mut cross_checks, LATER, now_ms, 200.0, false).is_none());
    }
}

/// A torrent: 5,000 other ends are heard once each, after the differences of one are known.
#[test]
fn many_ends_do_not_wipe_the_differences_of_one() {
    let mut cross_checks = CrossChecks::default();
    let now_ms = |step: u32| 20.0 * f64::from(step);
    for step in 0..20 {
        judge(&mut cross_checks, FIRST, now_ms(step), 500.0, false);
        judge(&mut cross_checks, LATER, now_ms(step) + 5.0, 200.0, false);
    }
    for other in 0..5_000_u32 {
        let mut end = [3; 16];
        end[..4].copy_from_slice(&other.to_le_bytes());
        judge(&mut cross_checks, end, now_ms(20), 100.0, false);
        if other % 1_000 == 0 {
            judge(&mut cross_checks, FIRST, now_ms(20), 500.0, false);
            let later = judge(&mut cross_checks, LATER, now_ms(20) + 5.0, 200.0, false);
            let missing_ns = later.expect("still known").missing_ns;
            assert!((missing_ns - 300.0 * MS).abs() < 1.0, "after {other} ends: {missing_ns}");
        }
    }
}
