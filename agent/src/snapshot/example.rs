//! A link in full use, for the tests of those who read snapshots.

use pendulum_model::link::Provenance;
use pendulum_model::sample::QueueSource;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pendulum_model::delay::{self, Budget, Place, Segment, Unknown};
use pendulum_model::findings::{Phase, Verdict};
use pendulum_model::observer::Vantage;
use pendulum_model::segment::PerDirection;
use pendulum_wire::{
    AbTest, Advice, Auto, Bufferbloat, Cause, Evidence, Figure, Link, Ratio, RttClasses, SegmentBloat,
    Shaped, TickAuto, TickHalf, TransferLimit,
};
use tokio::sync::watch;

use super::*;
use crate::config::AckFilter;

/// A snapshot in which every figure differs from zero, from its neighbours and from that of the other direction.
pub(crate) fn link(name: &str) -> LinkSnapshot {
    let now = Instant::now();
    let rate = |text: &str| text.parse().ok().map(|rate| LinkRate { rate, source: Provenance::Config });
    LinkSnapshot {
        name: name.into(),
        wan: "wan0".into(),
        device: DeviceState::Up,
        hooks: Some(Hooks {
            ifindex: 3,
            link_layer: "ethernet".into(),
            egress: "tcx".into(),
            ingress: "clsact".into(),
        }),
        trouble: None,
        read_at: Some(now),
        directions: PerDirection {
            up: DirectionSnapshot { rate: rate("200kbit"), ..direction(1_000, 12_500.0) },
            down: DirectionSnapshot { rate: None, ..direction(2_000, 250_000.0) },
        },
        stats: std::array::from_fn(|index| 100 + index as u64),
        flows: Arc::new(flows(now)),
        programs: Arc::new([ProgramStatus {
            name: "pendulum_up",
            attached: true,
            runs: Some((41, Duration::from_millis(1_500))),
            missed: Some(5),
        }]),
        maps: Arc::new([BpfMap { name: "flows".into(), entries: 3, capacity: 256 }]),
        cwnd_source: "tcp_probe",
        vantage: Some(Vantage::OwnQueue),
        delay: Some(Arc::new(delay())),
        findings: Some(Arc::new(findings())),
        tick: tick(name, 7),
        tick_number: 7,
        slot_losses: Some(SlotLosses { overwritten: 2, torn_answers: 1 }),
        unsent: Arc::new(unsent()),
        degraded: Arc::new(["the uplink's queue is read by netlink; load BTF".to_owned()]),
        shape: ShapeSnapshot {
            state: ShapeState::Enforcing,
            ack_filter: Some(AckFilter::Static),
            delta: 6,
            shaped: PerDirection { up: Some(shaped()), down: None },
            decisions: PerDirection { up: Some([60, 61, 62, 63, 64]), down: None },
            ab_test: Some(AbTest { pairs: 6, outcome: "no_difference".into(), ..AbTest::default() }),
            is_doubted: true,
            ..ShapeSnapshot::default()
        },
        readings: [ReadingHealth { failures: 2, ok: true, took: Duration::from_millis(4) }; 4],
    }
}

/// Most of it at home; nobody tells line and route apart.
fn delay() -> Delay {
    let known = |base_s, queue_s, uncertainty_s| Ok(delay::Delay { base_s, queue_s, uncertainty_s });
    let budget = Budget {
        segments: [
            known(0.001, 0.25, 0.0625),
            known(0.0, 0.03125, 0.015625),
            Err(Unknown::Undivided),
            Err(Unknown::Undivided),
            known(0.02, 0.0078125, 0.005),
        ],
        home_host: None,
        far_host: None,
        may_wait_s: 0.0,
    };
    let mut delay = Delay {
        home_bloat: Some(SegmentBloat { since_s: 64.0, delay_s: 0.25 }),
        receiver_limited: Some(TransferLimit { since_s: 32.0, goodput_bps: 1_000_000.0 }),
        ..Delay::of(&budget, Place::In(Segment::Home))
    };
    delay.segments.entry("home".into()).or_default().host = Some("192.0.2.7".to_owned());
    delay
}

/// An uplink whose rate is found.
fn shaped() -> Shaped {
    let auto = Auto {
        decision: "lower".into(),
        reason: "packets of 2 hosts wait 18 ms behind the shaper".into(),
        link_rate_bps: Some(10e6),
        waits_behind_s: Some(0.0175),
        minimum_bps: Some(300_000),
        maximum_bps: None,
    };
    Shaped { rate_bps: 9_800_000, rate_source: Some("auto".into()), auto: Some(auto) }
}

/// Locked on the uplink for half a minute.
fn findings() -> Findings {
    let mut phase_transitions = [[0; 4]; 4];
    phase_transitions[Phase::UplinkBound as usize][Phase::DownlinkBound as usize] = 5;
    phase_transitions[Phase::Idle as usize][Phase::UplinkBound as usize] = 1;
    Findings {
        at: Duration::from_secs(100),
        phase: Some((Phase::UplinkBound, Duration::from_secs(88))),
        verdict: Verdict::LockedUplink,
        verdict_since: Duration::from_secs(70),
        phase_seconds: [60.5, 20.25, 3.0, 9.0],
        phase_transitions,
        rejected_samples: 3,
        sent: Arc::new(sent()),
    }
}

fn sent() -> Link {
    Link {
        phase_source: Some("queue_and_windows".into()),
        phase_share: Some([0.85, 0.1, 0.03, 0.02].into()),
        horizon_s: Some(12.5),
        severity: Some("warning".into()),
        evidence: Some(Evidence {
            rule: "one_buffer_never_empties".into(),
            reason: "the uplink buffer never empties and downloads starve".to_owned(),
            figures: vec![
                Figure::against("uplink_bound_share", 0.85, 0.8),
                Figure::new("lost_bytes_per_second", 256_000.0),
            ],
            since_s: 70.0,
            held_since_s: None,
            missing: vec!["base_round_trip".into()],
        }),
        swing_period_s: Some(2.5),
        queue_correlation: Some(-0.75),
        queue_lag_s: Some(0.3),
        throughput_ratio: Some(Ratio { measured: Some(1.25), predicted: Some(1.5) }),
        round_trip_s: Some(0.0625),
        base_round_trip_s: Some(0.04),
        base_round_trip_proven: Some(false),
        bulk: Some(PerDirection { up: true, down: false }),
        unfair: Some(PerDirection { up: false, down: true }),
        standing_delay_s: PerDirection { up: Some(0.35), down: None },
        bufferbloat: PerDirection {
            up: Some(Bufferbloat {
                since_s: 60.0,
                delay_s: 0.35,
                cause: Some(Cause { kind: "udp".into(), share: 0.87 }),
                help: "shape it".into(),
            }),
            down: None,
        },
        round_trip_classes: PerDirection {
            up: None,
            down: Some(RttClasses {
                near_flows: 1,
                far_flows: 2,
                near_round_trip_s: 0.03,
                far_round_trip_s: 0.1,
                near_share: 0.8,
                near_far_ratio: 4.0,
            }),
        },
        advice: Some(Advice {
            uplink_buffer_bytes: 6_000,
            downlink_buffer_bytes: 70_000,
            wanted_ratio: 3.5,
            ..Advice::default()
        }),
        ..Link::default()
    }
}

/// Tick `number`, in which the uplink's queue grew and the downlink's was not seen.
pub(crate) fn tick(link: &str, number: u64) -> Tick {
    let up = TickHalf {
        queue_bytes: Some((0..10).map(|step| 20_000.0 + 100.0 * f64::from(step)).collect()),
        queue_uncertainty_bytes: Some(vec![0.0; 10]),
        queue_ack_bytes: Some(vec![660.0; 10]),
        source: Some("tracepoint".into()),
        throughput_bps: 1e5,
        rtt_s: Some(1.25),
        auto: Some(TickAuto { rate_bps: 9_800_000, waits_behind_s: Some(0.0175), decision: "lower".into() }),
    };
    Tick {
        link: link.to_owned(),
        at_s: number as f64 / 10.0,
        step_s: 0.01,
        up,
        down: TickHalf { throughput_bps: 2e6, ..TickHalf::default() },
        phase: Some("uplink_bound".into()),
        verdict: Some("locked_uplink".into()),
        skipped: 0,
    }
}

fn unsent() -> Unsent {
    let unsent = Unsent::default();
    unsent.count_event();
    unsent.count_ticks(4);
    unsent
}

/// A board with these links.
pub(crate) fn board(links: Vec<LinkSnapshot>) -> Board {
    Board::new(links.into_iter().map(|link| watch::channel(Arc::new(link)).1).collect())
}

/// QUIC, and a little TCP.
fn entered() -> Entered {
    let top_port = TopPort { name: "UDP port 443".to_owned(), protocol: 17, port: Some(443), share: 0.75 };
    Entered {
        composition: Composition { tcp_data: 1_000, ack: 0, udp: 7_000, other: 0 },
        top_port: Some(top_port),
    }
}

fn direction(base: u64, throughput: f64) -> DirectionSnapshot {
    let mut counters = abi::pendulum_counters {
        segments: std::array::from_fn(|class| base + class as u64),
        bytes: std::array::from_fn(|class| 100 * (base + class as u64)),
        payload_bytes: 90 * base,
        marked_segments: [base + 1, base + 2, base + 3, base + 4],
        retransmitted_segments: base + 5,
        reordered_segments: base + 6,
        burst_segments: (base + 20) * base / 1_000,
        rtt_sum_us: 40_000 * base,
        ..abi::pendulum_counters::default()
    };
    // 1 for the uplink, 2 for the downlink.
    let way = base / 1_000;
    counters.bursts[way as usize] = base;
    counters.bursts[20] = way;
    counters.rtt[abi::time_slot(40_000)] = base;
    let mut rtt = RecentRtt { sum_us: 400_000 * way, ..RecentRtt::default() };
    // All between 31.25 and 44.194 ms; or eight between 62.5 and 88.388 ms, and two between 100 and 125 ms.
    for (us, count) in if way == 1 { [(40_000, 10), (80_000, 0)] } else { [(80_000, 8), (120_000, 2)] } {
        rtt.slots[abi::time_slot(us)] = count;
    }
    DirectionSnapshot {
        counters,
        entered: if base == 1_000 { entered() } else { Entered::default() },
        unseen_ratio: Some(0.25 * way as f64),
        throughput,
        second: Some(Passed { throughput, goodput: 0.96 * throughput }),
        rtt,
        rate: None,
        queue: (base == 1_000).then(queue),
        other_queue: None,
        cwnd_bytes: (base == 1_000).then_some(14_480),
    }
}

fn queue() -> QueueSnapshot {
    let mut queue = QueueSnapshot {
        source: QueueSource::Tracepoint,
        qdisc: "tbf".into(),
        bytes: 4_542,
        packets: 4,
        ack_bytes: Some(66),
        ack_packets: Some(1),
        peak_bytes: 6_056,
        lowest_bytes: 3_028,
        uncertainty_bytes: Some(0.0),
        standing_bytes: Some(3_028.0),
        limit_bytes: Some(30_000),
        drops: [7, 3, 2, 1],
        events: [16, 15, 14, 13, 12, 11],
        lost_buckets: 6,
        ..QueueSnapshot::default()
    };
    queue.sojourns[1].slots[abi::time_slot(40_000)] = 5;
    queue.sojourns[1].sum_us = 200_000;
    queue
}

fn flows(now: Instant) -> FlowSweep {
    FlowSweep {
        at: now,
        rows: (1..=3).map(|number| row(number, now)).collect(),
        totals: PerDirection {
            up: FlowTotals { in_flight_bytes: 4_321, active: 2, goodput: 12_000.0 },
            down: FlowTotals { in_flight_bytes: 5_432, active: 3, goodput: 240_000.0 },
        },
        evicted: 7,
        expired: 9,
    }
}

/// Flow `number` is the busiest if the number is high; flow 1 has carried the most bytes.
fn row(number: u16, now: Instant) -> FlowRow {
    let mapped = |last: u32| [0, 0, 0xffff_u32.to_be(), (0xc000_0200 + last).to_be()];
    let half = |scale: u64| HalfRow {
        wire_bytes: scale * 1_000_000 / u64::from(number),
        payload_bytes: scale * 900_000,
        fresh_bytes: scale * 1_000,
        segments: 700 * scale,
        data_segments: 600 * scale,
        delivered_bytes: scale * 890_000,
        acknowledgements: 100 + 200 * scale,
        first_seen_ns: 1_000_000_000 * scale,
        last_seen_ns: 8_000_000_000 + 500_000_000 * scale,
        rtt_sum_us: 80_000 * scale,
        rtt_samples: 3 - scale as u32,
        rtt_min_us: 30_000 * scale as u32 + u32::from(number),
        rtt_last_us: 50_000 * scale as u32,
        rtt_fresh: None,
        window_bytes: None,
        retransmitted_fresh: 0,
        retransmitted_segments: 4 * scale as u32,
        reordered_segments: scale as u32,
        in_flight_bytes: 2_896 * scale as u32,
        in_flight_max_bytes: 14_480 * scale as u32,
        opened: true,
        wire_rate: f32::from(number) * 1_000.0 * scale as f32,
        goodput: f32::from(number) * 900.0 * scale as f32,
        data_at: Some(now),
    };
    FlowRow {
        key: abi::pendulum_flow_key {
            home_addr: mapped(u32::from(number)),
            remote_addr: mapped(100),
            home_port: (40_000 + number).to_be(),
            remote_port: 443_u16.to_be(),
        },
        halves: PerDirection { up: half(1), down: half(2) },
        changed_at: now,
        is_closed: false,
    }
}
