use super::*;
use crate::snapshot::example;

/// A link of which a tick of 100 ms is published at each tenth of a second.
fn at(tenths: u64, level: f64, uplink_bound: f64) -> LinkSnapshot {
    let mut link = example::link("dsl");
    (link.tick_number, link.tick) = (tenths, example::tick("dsl", tenths));
    link.tick.up.queue_bytes = Some(vec![level; 10]);
    link.tick.up.queue_uncertainty_bytes = Some(vec![level / 10.0; 10]);
    link.tick.up.queue_ack_bytes = Some(vec![level / 4.0; 10]);
    link.tick.up.rtt_s = Some(0.5);
    let mut findings = (**link.findings.as_ref().unwrap()).clone();
    findings.phase_seconds = [uplink_bound, 0.0, 0.0, tenths as f64 / 10.0 - uplink_bound];
    link.findings = Some(Arc::new(findings));
    link
}

#[test]
fn a_step_has_the_means_of_ten_seconds() {
    let mut course = Course::default();
    for tenths in 1..=200 {
        // From the tenth second on the buffer is full and the uplink holds the traffic for a quarter of the time.
        let (level, bound) =
            if tenths <= 100 { (1000.0, 0.0) } else { (9000.0, (tenths - 100) as f64 / 40.0) };
        course.note(&at(tenths, level, bound));
        // A tick that is seen twice counts once.
        course.note(&at(tenths, 1e9, bound));
    }
    let [first, second] = &course.steps()[..] else { panic!("{:?}", course.steps()) };
    assert_eq!(
        (first.at_s, first.up.queue_bytes, first.up.queue_ack_bytes),
        (10.0, Some(1000.0), Some(250.0))
    );
    assert_eq!(first.up.queue_uncertainty_bytes, Some(100.0));
    assert!((first.lasted_s - 10.0).abs() < 1e-9 && (second.lasted_s - 10.0).abs() < 1e-9);
    assert_eq!((second.at_s, second.up.queue_peak_bytes, second.up.rtt_s), (20.0, Some(9000.0), Some(0.5)));
    // 12,500 bytes a second, as the example has it.
    assert_eq!(second.up.throughput_bps, Some(100_000.0));
    let shares = second.phase_share.as_ref().unwrap();
    // The first tick of a step opens it: 99 of its 100 tenths are between its ends.
    assert!((shares.uplink_bound - 0.25).abs() < 0.01, "{shares:?}");
    // Of the other buffer nothing is known: that is not empty.
    assert_eq!(
        (second.down.queue_bytes, second.down.queue_peak_bytes, second.down.rtt_s),
        (None, None, None)
    );
}

#[test]
fn a_step_has_the_found_rate_and_the_shares_of_what_was_decided() {
    let mut course = Course::default();
    for tenths in 1..=100 {
        let mut link = at(tenths, 1.0, 0.0);
        let found = link.tick.up.auto.as_mut().unwrap();
        if tenths <= 20 {
            (found.decision, found.waits_behind_s) = ("drain".into(), Some(0.1));
        } else {
            (found.decision, found.waits_behind_s) = ("hold".into(), None);
        }
        // A turn of the comparison without shaping: there is no rate.
        if tenths > 80 {
            link.tick.up.auto = None;
        }
        course.note(&link);
    }
    let [step] = &course.steps()[..] else { panic!("{:?}", course.steps()) };
    let found = step.up.auto.as_ref().unwrap();
    assert_eq!((found.rate_bps, found.waits_behind_peak_s), (9.8e6, Some(0.1)));
    assert!((found.waits_behind_s.unwrap() - 0.1).abs() < 1e-9, "what is not known is not 0: {found:?}");
    assert_eq!(found.decision_share, [("drain".into(), 0.25), ("hold".into(), 0.75)].into());
    assert_eq!(step.down.auto, None);
}

#[test]
fn what_was_not_measured_is_a_gap_and_what_is_kept_is_bounded() {
    let mut course = Course::default();
    for tenths in (1..=30).chain(100..=105) {
        course.note(&at(tenths, 1.0, 0.0));
    }
    let steps = course.steps();
    let tenths = |seconds: f64| (seconds * 10.0).round() as i64;
    let spans: Vec<_> =
        steps.iter().map(|step| (tenths(step.at_s - step.lasted_s), tenths(step.at_s))).collect();
    assert_eq!(spans, [(0, 30), (99, 105)]);
    // Ticks that come late are not a gap yet.
    for tenths in (110..11_000).step_by(10) {
        course.note(&at(tenths, 1.0, 0.0));
    }
    let steps = course.steps();
    assert_eq!((course.closed.len(), steps.len()), (KEPT, KEPT + 1));
    assert!(steps[0].at_s > 150.0);
}
