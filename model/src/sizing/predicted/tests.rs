//! What is predicted, and what is not.

use std::time::Duration;

use super::*;

fn input(down: &str, up: &str) -> AdviceInput {
    let rate = |text: &str| text.parse().expect("a rate");
    AdviceInput::new(rate(down), rate(up), Duration::from_millis(40))
}

fn predicted(input: &AdviceInput, traffic: Transfers) -> Result<Predicted, NotPredicted> {
    predict(input, &super::super::advise(input).expect("advice"), traffic)
}

#[test]
fn a_prediction_keeps_to_the_link() {
    let mut asked = input("2400kbit", "196kbit");
    asked.uplink_buffer = Some(BufferSize::Bytes(30_000));
    asked.downlink_buffer = Some(BufferSize::Bytes(30_000));
    for congestion_control in [CongestionControl::Reno, CongestionControl::Cubic] {
        let predicted =
            predicted(&asked, Transfers { congestion_control, ..Transfers::default() }).expect("a figure");
        assert!(predicted.download_bps < 2.4e6 && predicted.upload_bps < 196e3, "{predicted:?}");
        let [low, high] = predicted.ratio_interval;
        assert!(low <= predicted.ratio && predicted.ratio <= high, "{predicted:?}");
        // Both buffers full: 30,000/24,500 + 30,000/300,000 = 1.32 s.
        assert!(predicted.queue_delay_mean_s < predicted.queue_delay_p95_s, "{predicted:?}");
        assert!(predicted.queue_delay_p95_s <= 1.33, "{predicted:?}");
    }
}

#[test]
fn the_recommended_buffer_is_better_than_an_oversized_one() {
    let mut asked = input("2400kbit", "196kbit");
    asked.downlink_buffer = Some(BufferSize::Bytes(30_000));
    let recommended = predicted(&asked, Transfers::default()).expect("a figure");
    asked.uplink_buffer = Some(BufferSize::Bytes(60_000));
    let oversized = predicted(&asked, Transfers::default()).expect("a figure");
    assert!(recommended.download_bps > oversized.download_bps, "{recommended:?} {oversized:?}");
    assert!(recommended.queue_delay_mean_s < 0.5 * oversized.queue_delay_mean_s);
}

#[test]
fn cake_keeps_its_rate_and_spares_others_the_transfers_queue() {
    let mut asked = input("2400kbit", "196kbit");
    asked.uplink_buffer = Some(BufferSize::Bytes(30_000));
    asked.downlink_buffer = Some(BufferSize::Bytes(30_000));
    let with = |queue_management| {
        predicted(&asked, Transfers { queue_management, ..Transfers::default() }).expect("a figure")
    };
    let (fifo, cake) = (with(QueueManagement::Fifo), with(QueueManagement::Cake));
    // 2 % below the link's rate.
    assert!(cake.upload_bps < 192_080.0, "{cake:?}");
    assert!(cake.download_bps > fifo.download_bps, "{cake:?} {fifo:?}");
    // The uplink makes others wait for a frame or two, 63 ms each; the downlink's buffer holds 0.1 s.
    assert!(cake.queue_delay_p95_s < 0.1 + 2.0 * 0.063, "{cake:?}");
    assert!(cake.transfers_queue_delay_mean_s > cake.queue_delay_mean_s, "{cake:?}");
    assert_eq!(fifo.transfers_queue_delay_p95_s, fifo.queue_delay_p95_s);
    let text = cake.to_string();
    assert!(text.contains("of whatever else is sent") && text.contains("transfers' own"), "{text}");
    assert!(!fifo.to_string().contains("transfers' own"), "{fifo}");
}

#[test]
fn what_is_not_simulated_is_not_predicted() {
    let slow = input("2400kbit", "196kbit");
    let cases = [
        (
            Transfers {
                congestion_control: CongestionControl::Bbr,
                queue_management: QueueManagement::Cake,
                ..Transfers::default()
            },
            "BBR through cake",
        ),
        (Transfers { uploads: 0, ..Transfers::default() }, "an upload"),
    ];
    for (traffic, part) in cases {
        let reason = predicted(&slow, traffic).expect_err(part).to_string();
        assert!(reason.contains(part), "{reason}");
    }
    let reason = predicted(&input("1gbit", "500mbit"), Transfers::default()).expect_err("too fast");
    assert!(matches!(reason, NotPredicted::TooFast { .. }), "{reason}");
}

#[test]
fn the_work_is_bounded() {
    for (down, up) in [("1mbit", "200kbit"), ("8mbit", "1mbit"), ("40mbit", "10mbit"), ("70mbit", "10mbit")] {
        let input = input(down, up);
        let advice = super::super::advise(&input).expect("advice");
        let link = link(&input, &advice, Transfers::default());
        let (runs, seconds) = length(&link).expect("a length");
        let frames = f64::from(runs) * seconds * frames_per_second(&link);
        assert!(frames <= MOST_FRAMES * 1.001 && seconds >= LEAST_SECONDS, "{down}: {runs} x {seconds} s");
    }
}
