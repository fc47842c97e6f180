//! The model against a packet-level simulation: links and traffic nobody tuned to, with the answer known beforehand.

#[path = "simulated/formulas.rs"]
mod formulas;
mod simulator;
#[path = "simulated/steady.rs"]
mod steady;

use pendulum_model::detector::{Config, Detector};
use pendulum_model::event::Event;
use pendulum_model::findings::{Change, FindingKind, Phase, Verdict};
use pendulum_model::link::Link;
use pendulum_model::rate::BufferSize;
use pendulum_model::sample::{AckBursts, Sample};
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::simulate::{CongestionControl, FlowLoad};
use simulator::{Flow, Scenario};

fn bulk(direction: Direction, remote_ms: f64) -> Flow {
    Flow {
        direction,
        start_s: 0.0,
        stop_s: f64::INFINITY,
        remote_ms,
        load: FlowLoad::Bulk,
        congestion_control: CongestionControl::Reno,
    }
}

fn bytes(down: u64, up: u64) -> PerDirection<BufferSize> {
    PerDirection { up: BufferSize::Bytes(up), down: BufferSize::Bytes(down) }
}

/// 000 §4: 2.4 Mb/s and 196 kb/s, one download and one upload, 1 ms and 5 ms away, 30,000 bytes at both ends.
fn papers_link() -> Scenario {
    Scenario {
        down_bps: 2.4e6,
        up_bps: 196e3,
        propagation_ms: 0.0,
        buffer: bytes(30_000, 30_000),
        delayed_acks: true,
        flows: vec![bulk(Direction::Down, 1.0), bulk(Direction::Up, 5.0)],
        duration_s: 60.0,
        seed: 1,
        start_spread_s: 0.0,
    }
}

fn link(scenario: &Scenario) -> Link {
    Link::with_capacity(scenario.up_bps / 8.0, scenario.down_bps / 8.0)
}

fn detect_in(samples: &[Sample], link: Link) -> (Detector, Vec<Event>) {
    let mut detector = Detector::new(Config { link, ..Config::default() });
    let events = samples.iter().flat_map(|sample| detector.push(sample)).collect();
    (detector, events)
}

fn detect(scenario: &Scenario) -> (Detector, Vec<Event>) {
    detect_in(&scenario.samples(), link(scenario))
}

fn verdicts(events: &[Event]) -> Vec<(f64, Verdict)> {
    events
        .iter()
        .filter_map(|event| match event.change {
            Change::Verdict { to, .. } => Some((event.at_s, to)),
            _ => None,
        })
        .collect()
}

#[test]
fn equal_large_buffers_lock_the_uplink() {
    let (detector, events) = detect(&papers_link());
    assert_eq!(
        verdicts(&events).iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>(),
        [Verdict::LockedUplink]
    );
    assert!(detector.run().phase_share(Phase::UplinkBound) > 0.95);
    let evidence = detector.state().evidence.expect("evidence");
    let lost =
        evidence.figures.iter().find(|figure| figure.name == "lost_bytes_per_second").expect("the loss");
    // The download gets less than half of 300,000 B/s (000 Fig. 1: about the upload's 24,500).
    assert!(lost.value > 150_000.0 && lost.value < 300_000.0, "{}", lost.value);
    assert!(evidence.reason.contains("stays unused"), "{}", evidence.reason);
}

#[test]
fn the_mirror_image_locks_the_downlink() {
    let mirrored = Scenario {
        down_bps: 196e3,
        up_bps: 2.4e6,
        flows: vec![bulk(Direction::Down, 5.0), bulk(Direction::Up, 1.0)],
        ..papers_link()
    };
    assert_eq!(detect(&mirrored).0.overall_verdict(), Verdict::LockedDownlink);
}

#[test]
fn a_symmetric_link_with_different_delays_swings() {
    let symmetric = Scenario { up_bps: 2.4e6, duration_s: 120.0, ..papers_link() };
    let samples = symmetric.samples();
    let (detector, events) = detect_in(&samples, link(&symmetric));
    let found = verdicts(&events);
    assert_eq!(found.len(), 1, "no flapping: {found:?}");
    assert_eq!(detector.verdict(), Verdict::Swinging);
    let period = detector.run_swing_period().expect("a period");
    // A period has two changes between cases 1 and 2.
    let mut cases: Vec<Phase> = cases_with_hindsight(&samples).into_iter().map(|(case, _)| case).collect();
    cases.retain(|case| matches!(case, Phase::UplinkBound | Phase::DownlinkBound));
    cases.dedup();
    let truth = 2.0 * symmetric.duration_s / cases.len() as f64;
    assert!((period / truth - 1.0).abs() < 0.1, "{period} {truth}");
    // 000 §2.2: "a period of around 2 s in our case", with the TCP of its day on the same link.
    assert!((1.0..4.0).contains(&truth), "{truth}");
    assert!(detector.run().queues.correlation().expect("both move") < -0.5);
    // Eq. 5 tells the same story as the queues.
    assert!(detector.state().window_agreement.expect("comparable") > 0.7);
}

#[test]
fn phases_are_found_without_seeing_the_downlink_queue() {
    let symmetric = Scenario { up_bps: 2.4e6, duration_s: 120.0, ..papers_link() };
    let mut samples = symmetric.samples();
    let (seen, _) = detect_in(&samples, link(&symmetric));
    for sample in &mut samples {
        sample.link.down.queue = None;
    }
    let (blind, _) = detect_in(&samples, link(&symmetric));
    assert_eq!(blind.verdict(), Verdict::Swinging);
    for phase in [Phase::UplinkBound, Phase::DownlinkBound] {
        let (one, two) = (seen.run().phase_share(phase), blind.run().phase_share(phase));
        assert!((one - two).abs() < 0.15, "{phase}: {one} seen, {two} by windows");
    }
}

#[test]
fn a_perfectly_symmetric_setup_compresses_acks() {
    let same = vec![bulk(Direction::Down, 1.0), bulk(Direction::Up, 1.0)];
    let buffer = bytes(100_000, 100_000);
    let scenario = Scenario { up_bps: 2.4e6, delayed_acks: false, flows: same, buffer, ..papers_link() };
    // 000 §2.1: the queues rise and fall together, and ACKs come in bursts of ten and more.
    let share_of_long_bursts = |samples: &[Sample]| {
        let bursts = |sample: &Sample| Direction::ALL.map(|x| sample.link[x].ack_bursts);
        let bursts: Vec<_> = samples.iter().flat_map(bursts).collect();
        let sum = |part: fn(&AckBursts) -> u64| bursts.iter().map(part).sum::<u64>() as f64;
        sum(|bursts| bursts.segments_in_long_bursts) / sum(|bursts| bursts.segments)
    };
    let samples = scenario.samples();
    let (detector, _) = detect_in(&samples, link(&scenario));
    assert!(detector.run().queues.correlation().expect("both move") > 0.9);
    let long = share_of_long_bursts(&samples);
    assert!(long > 0.9, "{long}");
    assert_eq!(detector.verdict(), Verdict::AckCompression);
    // Smaller buffers hold shorter bursts: in phase still, and no compression worth its name.
    let small = Scenario { buffer: bytes(30_000, 30_000), ..scenario.clone() };
    let samples = small.samples();
    assert!(share_of_long_bursts(&samples) < 0.2, "{}", share_of_long_bursts(&samples));
    assert_eq!(detect_in(&samples, link(&small)).0.verdict(), Verdict::Balanced);
    // 000 Fig. 4: delayed ACKs make it disappear. With half as many ACKs the bursts are shorter; in buffers of this size they remain.
    let delayed = Scenario { delayed_acks: true, ..scenario };
    assert!(share_of_long_bursts(&delayed.samples()) < 0.9 * long);
}

#[test]
fn one_direction_is_one_way() {
    for direction in Direction::ALL {
        let scenario = Scenario { flows: vec![bulk(direction, 1.0)], ..papers_link() };
        let (detector, events) = detect(&scenario);
        assert_eq!(detector.verdict(), Verdict::OneWay, "{direction:?}");
        assert_eq!(verdicts(&events).len(), 1);
        let phase = if direction == Direction::Up { Phase::UplinkBound } else { Phase::DownlinkBound };
        assert!(detector.run().phase_share(phase) > 0.95);
    }
}

#[test]
fn packet_buffers_of_equal_length_lock_the_uplink() {
    // 000 §4.1, the right end of Fig. 11: 50 packets at both ends.
    let limit = PerDirection { up: BufferSize::Packets(50), down: BufferSize::Packets(50) };
    let scenario = Scenario { buffer: limit, duration_s: 90.0, ..papers_link() };
    assert_eq!(detect(&scenario).0.verdict(), Verdict::LockedUplink);
}

/// Datagrams at 1.2 times the uplink's rate beside a download that had the link for itself for 20 s.
#[test]
fn a_udp_upload_locks_the_uplink() {
    let mut scenario = Scenario { duration_s: 80.0, ..papers_link() };
    scenario.flows[1] = Flow { load: FlowLoad::Datagrams(29_400.0), start_s: 20.0, ..scenario.flows[1] };
    let (detector, events) = detect(&scenario);
    let found = verdicts(&events);
    let names: Vec<Verdict> = found.iter().map(|(_, verdict)| *verdict).collect();
    assert_eq!(names, [Verdict::OneWay, Verdict::LockedUplink], "{found:?}");
    assert!(found[1].0 < 40.0, "{found:?}");
    let evidence = detector.state().evidence.expect("evidence");
    assert!(evidence.reason.contains("of the traffic in the uplink's buffer is UDP"), "{}", evidence.reason);
    let bloat = detector.state().directions.up.bufferbloat.expect("30,000 bytes at 24,500 a second");
    assert!((0.8..1.25).contains(&bloat.delay_s), "{bloat:?}");
}

/// The same datagrams with nothing the other way starve nobody.
#[test]
fn a_udp_upload_alone_is_one_way() {
    let mut scenario = papers_link();
    scenario.flows = vec![Flow { load: FlowLoad::Datagrams(29_400.0), ..bulk(Direction::Up, 5.0) }];
    let mut samples = scenario.samples();
    // Nothing else measures a round trip here.
    samples.iter_mut().for_each(|sample| sample.round_trip = Some(0.01));
    let (detector, _) = detect_in(&samples, link(&scenario));
    assert_eq!(detector.verdict(), Verdict::OneWay);
    assert!(detector.state().directions.up.bufferbloat.is_some());
}

#[test]
fn an_application_limited_download_is_no_pendulum() {
    // 120 kb/s of application data beside a bulk upload: the standing uplink queue is the upload's own.
    let mut scenario = Scenario { duration_s: 120.0, ..papers_link() };
    scenario.flows[0].load = FlowLoad::Application(15_000.0);
    let (detector, events) = detect(&scenario);
    assert_eq!(detector.verdict(), Verdict::OneWay, "{:?}", verdicts(&events));
}

#[test]
fn an_upload_that_comes_and_goes_is_followed() {
    // 000 Fig. 1: a download from 0 s, an upload from 30 to 60 s.
    let mut scenario = Scenario { duration_s: 90.0, propagation_ms: 5.0, ..papers_link() };
    (scenario.flows[1].start_s, scenario.flows[1].stop_s) = (30.0, 60.0);
    let (_, events) = detect(&scenario);
    let found = verdicts(&events);
    let names: Vec<Verdict> = found.iter().map(|(_, verdict)| *verdict).collect();
    assert_eq!(names, [Verdict::OneWay, Verdict::LockedUplink, Verdict::OneWay], "{found:?}");
    // Recognised within the 20 s that the paper's upload lasts, and given up within as long.
    assert!(found[1].0 > 30.0 && found[1].0 < 50.0 && found[2].0 > 60.0 && found[2].0 < 80.0, "{found:?}");
}

#[test]
fn a_near_flow_takes_more_than_a_far_one() {
    // 003: 30 ms against 100 ms over one buffer.
    let flows = vec![bulk(Direction::Down, 15.0), bulk(Direction::Down, 50.0)];
    let scenario = Scenario { down_bps: 8e6, up_bps: 8e6, flows, duration_s: 120.0, ..papers_link() };
    let samples = scenario.samples();
    let data = |id| {
        let of_flow = samples.iter().flat_map(|sample| &sample.flows).filter(|flow| flow.id == id);
        of_flow.map(|flow| flow.data_bytes).sum::<u64>()
    };
    assert!(data(0) > 2 * data(1), "{} {}", data(0), data(1));
    let (detector, events) = detect_in(&samples, link(&scenario));
    assert_eq!(detector.verdict(), Verdict::OneWay);
    // The far one catches up at times; the finding holds for most of the run.
    let unfair = unfair_seconds(&events, scenario.duration_s);
    assert!(unfair > 0.5 * scenario.duration_s, "{unfair}");
    let same = vec![bulk(Direction::Down, 15.0), bulk(Direction::Down, 15.5)];
    let (_, events) = detect(&Scenario { flows: same, ..scenario });
    assert_eq!(unfair_seconds(&events, 120.0), 0.0);
}

/// How long downloads were said to share unfairly, of a run that ends at `end_s`.
fn unfair_seconds(events: &[Event], end_s: f64) -> f64 {
    let (mut seconds, mut since) = (0.0, None);
    for event in events {
        match event.change {
            Change::Finding { finding: FindingKind::RttUnfairness, .. } => since = Some(event.at_s),
            Change::FindingEnded { finding: FindingKind::RttUnfairness, .. } => {
                seconds += since.take().map_or(0.0, |since| event.at_s - since);
            }
            _ => {}
        }
    }
    seconds + since.map_or(0.0, |since| end_s - since)
}

#[test]
fn unknown_capacities_are_learnt() {
    let scenario = Scenario { up_bps: 2.4e6, ..papers_link() };
    let (detector, _) = detect_in(&scenario.samples(), Link::default());
    for direction in Direction::ALL {
        let learnt = detector.capacity(direction).expect("a standing queue").value;
        assert!((learnt / 300_000.0 - 1.0).abs() < 0.02, "{direction:?}: {learnt}");
    }
    assert_eq!(detector.verdict(), Verdict::Swinging);
}

/// The case of each sample with hindsight: lowest level over one round trip *around* it, and the round trip.
fn cases_with_hindsight(samples: &[Sample]) -> Vec<(Phase, f64)> {
    let mut round_trip = 0.0;
    let mut cases = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        round_trip = sample.round_trip.unwrap_or(round_trip);
        let half = (round_trip / 2.0 / 0.01) as usize;
        let around = &samples[index.saturating_sub(half)..(index + half + 1).min(samples.len())];
        let stands = |x: Direction| {
            let levels = around.iter().map(|sample| sample.link[x].queue.expect("seen").min_bytes);
            levels.fold(f64::INFINITY, f64::min) >= 1500.0
        };
        cases.push((Phase::of(stands(Direction::Up), stands(Direction::Down)), round_trip));
    }
    cases
}

#[test]
fn changes_are_reported_within_two_round_trips() {
    let scenario = Scenario { up_bps: 2.4e6, ..papers_link() };
    let samples = scenario.samples();
    let (_, events) = detect_in(&samples, link(&scenario));
    let cases = cases_with_hindsight(&samples);
    let mut checked = 0;
    for index in 1..cases.len() {
        let (case, round_trip) = cases[index];
        // Two round trips as they are by then: a queue that builds up makes them longer.
        let due = (index..cases.len()).find(|&later| (later - index) as f64 * 0.01 >= 2.0 * cases[later].1);
        // A case that does not last two round trips is over before it must be reported.
        let Some(due) = due.filter(|due| cases[index..=*due].iter().all(|(later, _)| *later == case)) else {
            continue;
        };
        // Nor is anything due before a round trip was measured.
        if cases[index - 1].0 == case || round_trip == 0.0 {
            continue;
        }
        checked += 1;
        let (changed, due) = (samples[index].at.as_secs_f64(), samples[due].at.as_secs_f64());
        let reported =
            events.iter().rev().filter(|event| event.at_s <= due).find_map(|event| match event.change {
                Change::Phase { to, .. } => Some(to),
                _ => None,
            });
        assert_eq!(reported, Some(case), "changed at {changed} s, due at {due} s, RTT {round_trip} s");
    }
    assert!(checked > 10, "{checked}");
}
