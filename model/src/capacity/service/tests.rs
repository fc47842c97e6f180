use super::*;

fn feed(rate: &mut ServiceRate, from_s: f64, seconds: f64, bytes_per_s: f64, frame: f64) {
    let step = frame / bytes_per_s;
    for i in 0..(seconds / step) as u32 {
        rate.add((from_s + f64::from(i) * step) * 1e9, step * 1e9, frame);
    }
}

#[test]
fn a_rate_needs_a_second_and_thirty_two_frames() {
    let mut rate = ServiceRate::default();
    feed(&mut rate, 0.0, 0.9, 300_000.0, 1500.0);
    assert_eq!(rate.rate(), None);
    assert!((rate.rough().expect("a guess") * 1e9 - 300_000.0).abs() < 1.0);
    feed(&mut rate, 0.9, 0.2, 300_000.0, 1500.0);
    assert!((rate.rate().expect("a rate") * 1e9 - 300_000.0).abs() < 1.0);
    // 24,500 bytes a second: a second holds 16 frames only.
    let mut slow = ServiceRate::default();
    feed(&mut slow, 0.0, 1.5, 24_500.0, 1500.0);
    assert_eq!(slow.rate(), None);
    feed(&mut slow, 1.5, 1.0, 24_500.0, 1500.0);
    assert!((slow.rate().expect("a rate") * 1e9 - 24_500.0).abs() < 1.0);
}

#[test]
fn it_follows_a_link_that_becomes_slower_or_faster() {
    for after in [150_000.0, 600_000.0] {
        let mut rate = ServiceRate::default();
        feed(&mut rate, 0.0, 30.0, 300_000.0, 1500.0);
        feed(&mut rate, 30.0, 2.5, after, 1500.0);
        let found = rate.rate().expect("a rate") * 1e9;
        assert!((found - after).abs() < 0.01 * after, "{found} for {after}");
        assert!(rate.newest_ns() > 32.4e9);
    }
}

#[test]
fn nonsense_is_left_out() {
    let mut rate = ServiceRate::default();
    for (busy, bytes) in [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
        rate.add(1.0, busy, bytes);
    }
    assert_eq!((rate.rough(), rate.newest_ns()), (None, 0.0));
}

/// Spans of a second, newest last, of so many frames.
fn seconds(frames: &[u32]) -> ServiceRate {
    let mut rate = ServiceRate::default();
    for (at, frames) in frames.iter().enumerate() {
        rate.add(at as f64 * 1e9, 1e9, f64::from(*frames) * FULL_FRAME_BYTES);
    }
    rate
}

fn frames(rate: &ServiceRate) -> Option<u32> {
    rate.rate().map(|rate| (rate * 1e9 / FULL_FRAME_BYTES * 100.0).round() as u32)
}

#[test]
fn a_rate_is_of_ten_seconds_or_as_long_as_32_frames_take() {
    assert_eq!(seconds(&[100; 10]).spans.len(), 10);
    assert_eq!(seconds(&[100; 11]).spans.len(), 10);
    // Two frames a second: 17 seconds without the oldest hold 32 of them.
    assert_eq!([16, 17].map(|count| seconds(&vec![2; count]).spans.len()), [16, 16]);
    assert_eq!(seconds(&[2; 40]).spans.len(), 16);
    let mut many = ServiceRate::default();
    (0..SPANS_MAX + 5).for_each(|_| many.add(0.0, 1.0, 1.0));
    assert_eq!((many.spans.len(), many.busy_ns, many.bytes), (SPANS_MAX, SPANS_MAX as f64, SPANS_MAX as f64));
}

#[test]
fn a_single_span_is_kept_however_long() {
    let mut rate = ServiceRate::default();
    rate.add(0.0, 50e9, 1e9);
    assert_eq!(rate.rate(), Some(0.02));
}

#[test]
fn the_first_guess_needs_a_tenth_of_both() {
    let rough = |busy_ns, frames: f64| {
        let mut rate = ServiceRate::default();
        rate.add(0.0, busy_ns, frames * FULL_FRAME_BYTES);
        rate.rough().is_some()
    };
    assert_eq!([rough(1e8, 3.3), rough(0.99e8, 9.0), rough(9e8, 3.1)], [true, false, false]);
}

#[test]
fn a_rate_that_differs_by_8_percent_for_a_second_replaces_the_old_one() {
    assert_eq!(frames(&seconds(&[100, 100, 108])), Some(10_267));
    assert_eq!(frames(&seconds(&[100, 100, 109])), Some(10_900));
    assert_eq!(frames(&seconds(&[100, 100, 91])), Some(9_100));
    // Each needs a second and 32 frames.
    assert_eq!(frames(&seconds(&[20, 40])), Some(4_000));
    assert_eq!(frames(&seconds(&[100, 100, 31])), Some(6_550), "with the second before");
    assert_eq!(frames(&seconds(&[100, 100, 32])), Some(3_200));
    let mut short = ServiceRate::default();
    short.add(0.0, 0.9e9, 90.0 * FULL_FRAME_BYTES);
    short.add(1e9, 1e9, 200.0 * FULL_FRAME_BYTES);
    assert_eq!(short.spans.len(), 2);
}

#[test]
fn a_part_of_the_time_is_near_the_rate() {
    // 100 frames in the mean.
    let rate = seconds(&[100, 97, 103, 100]);
    assert_eq!([rate.share_within(0.029), rate.share_within(0.031)], [0.5, 1.0]);
}

#[test]
fn a_link_has_become_slower_by_more_than_8_percent_by_what_is_as_new() {
    let slower = |frames: u32, end_s: f64| {
        let mut now = ServiceRate::default();
        now.add(end_s * 1e9, 1e9, f64::from(frames) * FULL_FRAME_BYTES);
        now.is_slower_than(&seconds(&[100, 100]))
    };
    assert_eq!(
        [slower(91, 1.0), slower(93, 1.0), slower(91, 0.9), slower(120, 1.0)],
        [true, false, false, false]
    );
    assert!(!ServiceRate::default().is_slower_than(&seconds(&[100])));
    let mut late = ServiceRate::default();
    late.add(5.0, 1.0, 1.0);
    late.add(3.0, 1.0, 1.0);
    assert_eq!(late.newest_ns(), 5.0);
}
