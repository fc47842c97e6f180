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

fn asked_link(input: &AdviceInput, traffic: Transfers) -> SimulatedLink {
    link(input, &super::super::advise(input).expect("advice"), traffic)
}

#[test]
fn the_simulated_link_is_the_one_that_was_asked_for() {
    let mut asked = input("2400kbit", "196kbit");
    asked.downlink_buffer = Some(BufferSize::Bytes(30_000));
    let traffic = Transfers { downloads: 2, uploads: 3, paced: true, ..Transfers::default() };
    let simulated = asked_link(&asked, traffic);
    assert_eq!((simulated.rate.down, simulated.rate.up, simulated.cake), (300_000.0, 24_500.0, false));
    assert_eq!(
        (simulated.buffer.down, simulated.buffer.up),
        (BufferSize::Bytes(30_000), BufferSize::Bytes(2_971))
    );
    assert_eq!(simulated.burst, PerDirection { up: 1_514.0, down: 1_514.0 });
    let directions: Vec<Direction> = simulated.flows.iter().map(|flow| flow.direction).collect();
    assert_eq!(directions, [[Direction::Down; 2].as_slice(), &[Direction::Up; 3]].concat());
    // Half of 40 ms on each side, and what a host takes.
    for flow in &simulated.flows {
        for seconds in [flow.receiver_round_trip_s, flow.sender_round_trip_s] {
            assert!((seconds - 0.02005).abs() < 1e-12, "{seconds}");
        }
        assert_eq!((flow.paced, flow.delayed_acks, flow.most_segments), (true, true, None));
    }
    asked.tcp_buffer = Some(64_000);
    let traffic = Transfers { queue_management: QueueManagement::Cake, ..Transfers::default() };
    let simulated = asked_link(&asked, traffic);
    assert_eq!((simulated.rate.up, simulated.cake), (24_010.0, true), "2 % less");
    assert_eq!(simulated.flows[0].most_segments, Some(44), "64,000 bytes in segments of 1,448");
}

#[test]
fn buffers_in_packets_stay_so_and_hold_one_at_least() {
    let mut asked = input("2400kbit", "196kbit");
    asked.unit = BufferUnit::Packets;
    asked.downlink_buffer = Some(BufferSize::Packets(50));
    let of = |input: &AdviceInput| asked_link(input, Transfers::default()).buffer;
    assert_eq!((of(&asked).down, of(&asked).up), (BufferSize::Packets(50), BufferSize::Packets(25)));
    asked.downlink_buffer = None;
    let bytes = super::super::advise(&asked).expect("advice").downlink_buffer_bytes;
    assert_eq!(of(&asked).down, BufferSize::Packets(bytes.div_ceil(1_500)));
    assert_eq!(
        [passable(BufferSize::Packets(0)), passable(BufferSize::Packets(2))],
        [BufferSize::Packets(1), BufferSize::Packets(2)]
    );
    assert_eq!(
        [passable(BufferSize::Bytes(9)), passable(BufferSize::Bytes(1_515))],
        [BufferSize::Bytes(1_514), BufferSize::Bytes(1_515)]
    );
}

/// Six runs of 100,000 frames, or three of 200,000; 300 s at most and 30 s at least.
#[test]
fn how_long_a_link_is_simulated() {
    let with = |frames_per_second: f64, delayed_acks| {
        let mut simulated = asked_link(&input("2400kbit", "196kbit"), Transfers::default());
        simulated.flows.iter_mut().for_each(|flow| flow.delayed_acks = delayed_acks);
        // Data and its acknowledgement take 1,580 bytes.
        simulated.rate = PerDirection { up: 0.25, down: 0.75 }.map(|part| part * frames_per_second * 1_580.0);
        let told = length(&simulated).map(|(runs, seconds)| (runs, seconds.round()));
        (super::frames_per_second(&simulated).round(), told)
    };
    assert_eq!(with(1_000.0, true), (1_500.0, Ok((6, 67.0))));
    assert_eq!(with(1_000.0, false), (2_000.0, Ok((3, 100.0))));
    assert_eq!(with(100.0, false), (200.0, Ok((6, 300.0))));
    assert_eq!([with(830.0, false).1, with(840.0, false).1], [Ok((6, 60.0)), Ok((3, 119.0))]);
    assert_eq!(with(5_000.0, false).1, Ok((3, 30.0)));
    assert!(with(5_555.0, false).1.is_ok() && with(5_560.0, false).1.is_err());
}

#[test]
fn figures_are_means_of_the_runs() {
    let run = |up: f64, down: f64, wait: f64| {
        let waits = |mean_s| crate::simulate::Wait { mean_s, p95_s: 2.0 * mean_s };
        Outcome {
            goodput_bps: PerDirection { up, down },
            wait: PerDirection { up: waits(9.0), down: waits(9.0) },
            wait_both: waits(wait),
            sparse_wait: PerDirection { up: waits(9.0), down: waits(9.0) },
            sparse_wait_both: waits(wait / 4.0),
            ..Outcome::default()
        }
    };
    let of = |outcomes: &[Outcome]| summary(outcomes, QueueManagement::Fifo);
    let told = of(&[run(1.0, 4.0, 1.0), run(3.0, 6.0, 3.0)]).expect("figures");
    assert_eq!(
        (told.upload_bps, told.download_bps, told.ratio, told.ratio_interval),
        (2.0, 5.0, 2.5, [2.0, 4.0])
    );
    assert_eq!((told.transfers_queue_delay_mean_s, told.transfers_queue_delay_p95_s), (2.0, 4.0));
    assert_eq!((told.queue_delay_mean_s, told.queue_delay_p95_s), (0.5, 1.0));
    assert_eq!(of(&[run(1.0, 4.0, 1.0), run(0.0, 6.0, 3.0)]), Err(NotPredicted::Starved(Direction::Up)));
    assert_eq!(of(&[run(1.0, 0.0, 1.0)]), Err(NotPredicted::Starved(Direction::Down)));
}

#[test]
fn one_transfer_goes_each_way_unless_told_otherwise() {
    let simulated = asked_link(&input("2400kbit", "196kbit"), Transfers::default());
    let directions: Vec<Direction> = simulated.flows.iter().map(|flow| flow.direction).collect();
    assert_eq!(directions, [Direction::Down, Direction::Up]);
}
