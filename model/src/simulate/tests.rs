//! Rules that hold for a whole run.

use proptest::prelude::*;

use super::*;

const GOODPUT_SHARE: f64 = PAYLOAD_BYTES as f64 / DATA_FRAME_BYTES as f64;

fn flow(direction: Direction, congestion_control: CongestionControl) -> Flow {
    Flow {
        receiver_round_trip_s: 0.02,
        sender_round_trip_s: 0.02,
        ..Flow::bulk(direction, congestion_control)
    }
}

fn link(rate: (f64, f64), buffer: (u64, u64), flows: Vec<Flow>) -> SimulatedLink {
    let rate = PerDirection { down: rate.0 / 8.0, up: rate.1 / 8.0 };
    SimulatedLink {
        rate,
        buffer: PerDirection { down: BufferSize::Bytes(buffer.0), up: BufferSize::Bytes(buffer.1) },
        cake: false,
        burst: PerDirection::from_fn(|x| 1_600.0 + rate[x] / 1_000.0),
        flows,
    }
}

fn pair(which: CongestionControl) -> Vec<Flow> {
    vec![flow(Direction::Down, which), flow(Direction::Up, which)]
}

fn run(seconds: f64) -> Run {
    Run { from_s: 0.2 * seconds, until_s: seconds, start_spread_s: 0.2, jitter_s: 5e-5 }
}

#[test]
fn a_download_alone_fills_the_link() {
    for which in [CongestionControl::Reno, CongestionControl::Cubic] {
        for paced in [false, true] {
            // 60,000 B of buffer are four times the 2·10^6/8·0.04 = 10,000 B of the link.
            let alone = Flow { paced, ..flow(Direction::Down, which) };
            let outcome = simulate(&link((2e6, 1e6), (60_000, 60_000), vec![alone]), &run(120.0), 1);
            let share = outcome.goodput_bps.down / (2e6 * GOODPUT_SHARE);
            assert!((0.985..1.001).contains(&share), "{which:?}: {share}");
            assert_eq!(outcome.goodput_bps.up, 0.0);
            assert_eq!(outcome.ratio(), None);
        }
    }
}

#[test]
fn a_symmetric_link_is_shared_symmetrically() {
    for which in [CongestionControl::Reno, CongestionControl::Cubic] {
        let symmetric = link((2e6, 2e6), (40_000, 40_000), pair(which));
        let ratios = (0..4).filter_map(|seed| simulate(&symmetric, &run(300.0), seed).ratio());
        let mean = ratios.map(f64::ln).sum::<f64>() / 4.0;
        assert!(mean.abs() < 0.1, "{which:?}: {}", mean.exp());
    }
}

#[test]
fn a_seed_gives_the_same_run_and_another_one_another() {
    let link = link((3e6, 5e5), (30_000, 20_000), pair(CongestionControl::Cubic));
    let outcome = |seed| simulate(&link, &run(30.0), seed);
    assert_eq!(outcome(7), outcome(7));
    assert_ne!(outcome(7), outcome(8));
}

/// 000, section 3: an oversized uplink buffer keeps the link in case 1. The upload then has its link, and the download what its window makes of
/// the upload's round-trip time, far less than its own.
#[test]
fn an_oversized_uplink_buffer_starves_the_download() {
    let oversized = link((2.4e6, 196e3), (30_000, 30_000), pair(CongestionControl::Reno));
    let locked = simulate(&oversized, &run(60.0), 1);
    assert!(locked.goodput_bps.up > 0.85 * 196e3 * GOODPUT_SHARE, "{locked:?}");
    assert!(locked.goodput_bps.down < 0.4 * 2.4e6 * GOODPUT_SHARE, "{locked:?}");
    assert!(locked.wait.up.mean_s > 10.0 * locked.wait.down.mean_s, "{locked:?}");
    // 001's remedy: a small uplink buffer.
    let small =
        simulate(&link((2.4e6, 196e3), (30_000, 6_000), pair(CongestionControl::Reno)), &run(60.0), 1);
    assert!(small.goodput_bps.down > 1.5 * locked.goodput_bps.down, "{small:?}");
}

/// The same link with cake in the place of the uplink's buffer: ACKs have a queue of their own, and others wait for a frame or two (62 ms each).
#[test]
fn cake_frees_the_download_of_the_upload_s_queue() {
    let oversized = link((2.4e6, 196e3), (30_000, 30_000), pair(CongestionControl::Reno));
    let locked = simulate(&oversized, &run(60.0), 1);
    let with = simulate(&SimulatedLink { cake: true, ..oversized }, &run(60.0), 1);
    assert!(with.goodput_bps.down > 2.0 * locked.goodput_bps.down, "{with:?}");
    assert!(with.sparse_wait.up.p95_s < 0.13, "{with:?}");
    assert!(with.sparse_wait.up.mean_s < with.wait.up.mean_s, "{with:?}");
    assert_eq!(locked.sparse_wait, locked.wait);
    // CoDel makes the upload lose something, and the link is never idle for that.
    assert!(with.dropped.up > 0 && with.sent_bps.up > 0.97 * 196e3, "{with:?}");
}

/// 000, Eq. 1 and 4: the round-trip time is the sum of both waits, and the download's rate its window by that. With windows that `B_TCP`
/// fixes at W segments each, nothing is lost and the rates follow: the uplink's buffer alone holds the traffic, both have the same round-trip time,
/// so the download is as fast as the upload, which has the link less the download's ACKs.
#[test]
fn fixed_windows_give_equal_rates_in_case_1() {
    let fixed = |direction| Flow { most_segments: Some(16), ..flow(direction, CongestionControl::Reno) };
    let flows = vec![fixed(Direction::Down), fixed(Direction::Up)];
    let outcome = simulate(&link((4e6, 4e5), (1_000_000, 1_000_000), flows), &run(200.0), 3);
    assert_eq!(outcome.dropped, PerDirection { up: 0, down: 0 });
    let ratio = outcome.ratio().expect("an upload");
    assert!((ratio - 1.0).abs() < 0.03, "{ratio}");
    // Of each pair of segments up, 2·1514 B, the same number down asks for one ACK of 66 B.
    let expected = 4e5 * 2.0 * f64::from(PAYLOAD_BYTES) / f64::from(2 * DATA_FRAME_BYTES + ACK_FRAME_BYTES);
    let error = outcome.goodput_bps.up / expected - 1.0;
    assert!(error.abs() < 0.03, "{} {expected}", outcome.goodput_bps.up);
}

#[test]
fn two_downloads_fill_the_link_together() {
    let near = Flow {
        receiver_round_trip_s: 0.0,
        sender_round_trip_s: 0.01,
        ..flow(Direction::Down, CongestionControl::Reno)
    };
    let both = vec![near, near];
    let outcome = simulate(&link((4e6, 4e6), (40_000, 40_000), both), &run(120.0), 5);
    assert!(outcome.goodput_bps.down > 0.97 * 4e6 * GOODPUT_SHARE, "{outcome:?}");
}

/// Counts what a run shows.
#[derive(Default)]
struct Count {
    last: u64,
    taken: PerDirection<u64>,
    dropped: PerDirection<u64>,
    left: PerDirection<u64>,
    datagrams: u64,
    segments: u32,
    sent: u32,
    acked: u32,
    round_trips: Vec<f64>,
}

impl Watch for Count {
    fn reached(&mut self, at: u64, direction: Direction, frame: &Packet, is_taken: bool) {
        assert!(at >= self.last);
        self.last = at;
        let count = if is_taken { &mut self.taken } else { &mut self.dropped };
        count[direction] += 1;
        match frame.content {
            Content::Data(data) => {
                self.segments += 1;
                self.sent = self.sent.max(data.number + 1);
            }
            Content::Ack(_) | Content::Greeting(_) => {}
            Content::Datagram => self.datagrams += 1,
        }
    }

    fn left(&mut self, at: u64, direction: Direction, _: &Packet) {
        assert!(at >= self.last);
        self.last = at;
        self.left[direction] += 1;
    }

    fn acknowledged(&mut self, at: u64, _: usize, next: u32, round_trip_s: f64) {
        assert!(at >= self.last);
        self.last = at;
        self.acked = self.acked.max(next);
        self.round_trips.push(round_trip_s);
    }
}

#[test]
fn who_looks_on_sees_every_frame_and_changes_nothing() {
    let link = link((3e6, 5e5), (30_000, 20_000), pair(CongestionControl::Cubic));
    let mut count = Count::default();
    let seen = watch(&link, &run(30.0), 7, &mut count);
    assert_eq!(seen, simulate(&link, &run(30.0), 7));
    assert_eq!(count.dropped, seen.dropped);
    assert_eq!(count.left.up + count.left.down, seen.frames);
    for x in Direction::ALL {
        // What has not left stands in a buffer of at most 30,000 bytes.
        let waiting = count.taken[x] - count.left[x];
        assert!(waiting * u64::from(ACK_FRAME_BYTES) <= 30_000, "{waiting}");
    }
}

/// What an application offers passes, no more; after the end nothing new is sent, and all of it arrives.
#[test]
fn an_application_gets_its_rate_until_it_stops() {
    let load = FlowLoad::Application(20_000.0);
    let flow = Flow { load, stop_s: 50.0, ..flow(Direction::Down, CongestionControl::Reno) };
    let mut count = Count::default();
    let outcome = watch(&link((2e6, 1e6), (60_000, 60_000), vec![flow]), &run(60.0), 1, &mut count);
    let segments = 50.0 * 20_000.0 / f64::from(PAYLOAD_BYTES);
    assert!((f64::from(count.sent) - segments).abs() <= 5.0, "{} {segments}", count.sent);
    assert_eq!(count.acked, count.sent);
    // None is dropped, none sent again.
    assert_eq!((outcome.dropped.down, count.segments), (0, count.sent));
    // Nothing queues: 40 ms of delay, and at most as much again for a delayed ACK.
    assert!(count.round_trips.iter().all(|seconds| (0.039..0.1).contains(seconds)));
}

#[test]
fn datagrams_keep_their_rate_and_fill_the_buffer() {
    // 1.2 times the uplink's rate.
    let load = FlowLoad::Datagrams(150_000.0);
    let flow = Flow { load, ..flow(Direction::Up, CongestionControl::Reno) };
    let mut count = Count::default();
    let outcome = watch(&link((2e6, 1e6), (60_000, 60_000), vec![flow]), &run(60.0), 1, &mut count);
    let frames = 60.0 * 150_000.0 / f64::from(DATA_FRAME_BYTES);
    assert!((count.datagrams as f64 - frames).abs() <= 0.01 * frames, "{} {frames}", count.datagrams);
    let share = outcome.sent_bps.up / 1e6;
    assert!((0.99..1.01).contains(&share), "{share}");
    assert!((outcome.dropped.up as f64 / frames - 1.0 / 6.0).abs() < 0.02, "{}", outcome.dropped.up);
    assert_eq!(outcome.goodput_bps.up, 0.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// No link carries more than its rate, no buffer more than its limit, and no segment counts twice.
    #[test]
    fn nothing_is_made_of_nothing(
        rate in (5e5..1e7_f64, 1e5..4e6_f64),
        buffer in (2_000_u64..120_000, 2_000_u64..120_000),
        flows in (0..3_usize, 0..3_usize),
        cubic in any::<bool>(),
        paced in any::<bool>(),
        delayed_acks in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let which = if cubic { CongestionControl::Cubic } else { CongestionControl::Reno };
        let of = |direction, count| {
            std::iter::repeat_n(Flow { paced, delayed_acks, ..flow(direction, which) }, count)
        };
        let flows: Vec<Flow> = of(Direction::Down, flows.0 + 1).chain(of(Direction::Up, flows.1)).collect();
        let uploads = flows.iter().filter(|flow| flow.direction == Direction::Up).count();
        let link = link(rate, buffer, flows);
        let seconds = 20.0;
        let outcome = simulate(&link, &run(seconds), seed);
        for x in Direction::ALL {
            let bits = link.rate[x] * 8.0;
            // What a bucket lets pass at once, over the 16 s that are measured.
            let most = bits + link.burst[x] * 8.0 / (0.8 * seconds);
            prop_assert!(outcome.sent_bps[x] <= most * 1.001, "{} {most}", outcome.sent_bps[x]);
            // Data that left the buffer before the measured stretch may arrive in it.
            prop_assert!(outcome.goodput_bps[x] <= most * GOODPUT_SHARE * 1.01);
            let BufferSize::Bytes(limit) = link.buffer[x] else { unreachable!() };
            let longest = limit as f64 / link.rate[x];
            prop_assert!(outcome.wait[x].mean_s <= longest && outcome.wait[x].p95_s <= longest * 1.001);
        }
        // A buffer of 2,000 B that the other direction's ACKs keep full may starve its own data altogether; what has no sender carries none.
        prop_assert!(uploads == 0 || outcome.goodput_bps.down + outcome.goodput_bps.up > 0.0);
        prop_assert!(uploads > 0 || (outcome.goodput_bps.down > 0.0 && outcome.goodput_bps.up == 0.0));
    }
}
