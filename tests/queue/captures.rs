//! The uplink queue of the paper's link against captures on both sides of it: what is known of every single packet.

use std::collections::HashMap;
use std::path::Path;

use pendulum::bpf::abi::pendulum_queue_totals;
use pendulum::replay::capture::Capture as File;
use pendulum_lab::LinkSpec;
use pendulum_lab::topology::{LAN_DEVICE, WAN_DEVICE};
use pendulum_lab::truth::Capture;

use crate::rig::{Rig, scratch, with_rig};

/// Captured of each packet: all headers.
const SNAP: u32 = 128;
const ETHERNET: usize = 14;
/// Behind the Ethernet header: source address of an IPv4 packet from the home network, 192.168.1.0/24.
const HOME: [u8; 3] = [192, 168, 1];

/// One packet on its way up.
#[derive(Clone, Copy, Debug)]
struct Passage {
    time_ns: u64,
    bytes: u32,
    ack: bool,
}

/// What identifies a packet on both sides: all of its IP and TCP headers that a router leaves alone.
type Identity = Vec<u8>;

/// The TCP packets of a capture that come from the home, in order.
fn upward(path: &Path) -> Vec<(Identity, Passage)> {
    let mut file = File::open(path).expect("a capture");
    let mut packets = Vec::new();
    while file.advance().expect("a whole capture") {
        let record = file.record().expect("a frame");
        let ip = &record.bytes[ETHERNET..];
        if ip[0] >> 4 != 4 || ip[9] != 6 || ip[12..15] != HOME {
            continue;
        }
        let header = usize::from(ip[0] & 15) * 4;
        let tcp = &ip[header..];
        let data_offset = usize::from(tcp[12] >> 4) * 4;
        let payload = usize::from(u16::from_be_bytes([ip[2], ip[3]])) - header - data_offset;
        let ack = payload == 0 && tcp[13] & 0x07 == 0;
        // Identification, addresses; ports, numbers, flags, window, options. Not TTL and its checksum.
        let identity = [&ip[4..6], &ip[12..20], &tcp[..data_offset]].concat();
        packets.push((identity, Passage { time_ns: record.time_ns, bytes: record.original_len, ack }));
    }
    packets
}

/// All frames that left through the gateway's WAN device: packets and bytes.
fn left(path: &Path) -> (u64, u64) {
    // Of wan0: "02", then the network's and the machine's number (pendulum-lab, topology.rs).
    const WAN_ADDRESS: [u8; 6] = [2, 0, 0, 0, 0, 2];
    let mut file = File::open(path).expect("a capture");
    let mut sum = (0, 0);
    while file.advance().expect("a whole capture") {
        let record = file.record().expect("a frame");
        if record.bytes[6..12] == WAN_ADDRESS {
            sum = (sum.0 + 1, sum.1 + u64::from(record.original_len));
        }
    }
    sum
}

/// What two captures tell of the buffer between them.
#[derive(Debug, Default)]
struct Truth {
    /// Index: data, ACKs.
    left_packets: [u64; 2],
    left_bytes: [u64; 2],
    dropped_packets: [u64; 2],
    sojourn_sum_ns: [u64; 2],
    max_bytes: u64,
    /// ∫ level dt, byte seconds.
    byte_seconds: f64,
}

impl Truth {
    fn of(before: &[(Identity, Passage)], after: &[(Identity, Passage)]) -> Self {
        let mut truth = Self::default();
        let mut entered: HashMap<&Identity, Vec<Passage>> = HashMap::new();
        for (identity, passage) in before.iter().rev() {
            entered.entry(identity).or_default().push(*passage);
        }
        let mut changes = Vec::new();
        for (identity, left) in after {
            let Some(came) = entered.get_mut(identity).and_then(Vec::pop) else { continue };
            let class = usize::from(left.ack);
            truth.left_packets[class] += 1;
            truth.left_bytes[class] += u64::from(left.bytes);
            let sojourn = left.time_ns.saturating_sub(came.time_ns);
            truth.sojourn_sum_ns[class] += sojourn;
            truth.byte_seconds += f64::from(left.bytes) * sojourn as f64 / 1e9;
            changes.push((came.time_ns, i64::from(left.bytes)));
            changes.push((left.time_ns, -i64::from(left.bytes)));
        }
        for passage in entered.values().flatten() {
            truth.dropped_packets[usize::from(passage.ack)] += 1;
        }
        changes.sort_unstable();
        let mut level = 0;
        for (_, change) in changes {
            level += change;
            truth.max_bytes = truth.max_bytes.max(u64::try_from(level).unwrap_or(0));
        }
        truth
    }

    fn mean_sojourn_s(&self, class: usize) -> f64 {
        self.sojourn_sum_ns[class] as f64 / 1e9 / self.left_packets[class] as f64
    }
}

/// What the ring has reported over the same time.
#[derive(Debug, Default)]
struct Ours {
    totals: pendulum_queue_totals,
    max_bytes: u64,
    byte_seconds: f64,
    lost: u64,
}

#[test]
fn levels_and_sojourns_are_those_of_captures_on_both_sides() {
    with_rig("levels_and_sojourns_are_those_of_captures_on_both_sides", LinkSpec::FIG1, |rig| {
        let (_guard, directory) = scratch();
        let (lan, wan) = (directory.join("lan.pcap"), directory.join("wan.pcap"));
        let ours = observe(rig, &lan, &wan);
        let truth = Truth::of(&upward(&lan), &upward(&wan));
        println!("truth {truth:?}\nours  {ours:?}");
        compare(&truth, &ours);
        let total = |pair: [u64; 2]| pair[0] + pair[1];
        let totals = &ours.totals;
        let (ours, all) = ((total(totals.dequeued_packets), total(totals.dequeued_bytes)), left(&wan));
        assert_eq!(ours, all, "packets and bytes that left");
    });
}

fn observe(rig: &Rig, lan: &Path, wan: &Path) -> Ours {
    let gateway = rig.lab.gateway();
    let before = Capture::start(&gateway, LAN_DEVICE, lan, SNAP).expect("a capture");
    let after = Capture::start(&gateway, WAN_DEVICE, wan, SNAP).expect("a capture");
    let start = rig.state().totals;
    let mut reader = rig.reader();
    let mut ours = Ours::default();
    let mut collect = |reader: &mut pendulum::bpf::RingReader| {
        reader.read(|interval| {
            ours.max_bytes = ours.max_bytes.max(interval.max_bytes.into());
            ours.byte_seconds += interval.mean_bytes * pendulum::bpf::BUCKET.as_secs_f64();
        });
    };
    let transfers = rig.two_way(4);
    rig.finish(transfers, || collect(&mut reader));
    std::thread::sleep(std::time::Duration::from_millis(30));
    collect(&mut reader);
    ours.lost = reader.lost();
    ours.totals = rig.state().totals.since(&start);
    let dropped = [before, after].map(|capture| capture.stop().expect("it stops").dropped_by_kernel);
    assert_eq!(dropped, [0, 0], "tcpdump lost packets");
    ours
}

fn compare(truth: &Truth, ours: &Ours) {
    let near = |ours: f64, truth: f64, relative: f64, absolute: f64| {
        (ours - truth).abs() <= truth.abs() * relative + absolute
    };
    assert!(truth.left_packets.iter().all(|packets| *packets > 50), "both classes passed: {truth:?}");
    assert!(truth.max_bytes > 20_000, "the buffer filled: {truth:?}");
    assert_eq!(ours.lost, 0, "every bucket was read");
    for class in [0, 1] {
        assert_eq!(ours.totals.dequeued_packets[class], truth.left_packets[class], "left, class {class}");
        assert_eq!(
            ours.totals.dropped_packets[class], truth.dropped_packets[class],
            "dropped, class {class}"
        );
    }
    // One packet may be between the two captures and the queue when the other leaves.
    assert!(near(ours.max_bytes as f64, truth.max_bytes as f64, 0.0, 1514.0), "highest level");
    assert!(near(ours.byte_seconds, truth.byte_seconds, 0.02, 10.0), "integral of the level");
    for class in [0, 1] {
        let measured = ours.totals.sojourn_packets[class];
        assert_eq!(measured, truth.left_packets[class], "timed, class {class}");
        let mean = ours.totals.sojourn_sum_us[class] as f64 / 1e6 / measured as f64;
        let truth = truth.mean_sojourn_s(class);
        println!("class {class}: mean sojourn {mean:.6} s, truth {truth:.6} s");
        assert!(near(mean, truth, 0.005, 0.001), "class {class}: mean sojourn {mean}, truth {truth}");
    }
}
