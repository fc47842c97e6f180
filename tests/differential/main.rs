//! Our reading of a real capture against tshark's: two programs that share no line.
//!
//! The capture is made in the lab with real iperf3 and curl traffic over the link of paper 000, Fig. 1: two-way TCP with
//! a standing queue, losses and retransmissions. It is read by `replay`, which the test `bpf` holds equal to
//! the BPF programs in every figure.
//!
//! Needs root; says so and checks nothing where it is not given.

#[path = "../support/craft.rs"]
#[expect(dead_code, reason = "shared with tests that need all of it")]
mod craft;
#[path = "../support/pcap.rs"]
mod pcap;
mod tshark;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pendulum::bpf::abi;
use pendulum::replay::capture;
use pendulum::replay::flow::{Flow, FlowKey};
use pendulum::replay::meter::Meter;
use pendulum::replay::packet::{Packet, parse};
use pendulum_lab::lab::{Lab, LinkSpec};
use pendulum_lab::topology::{IpVersion, Role, WAN_DEVICE};
use pendulum_lab::traffic::{Transfer, TransferSpec};
use pendulum_lab::truth::Capture;
use pendulum_model::segment::{Class, Direction};
use tshark::Verdict;

/// More than buffers and link can hold of one flow: no number of bytes in flight.
const LINK_HOLDS: u32 = 1 << 24;

/// One TCP frame, by both.
struct Frame {
    number: usize,
    direction: Direction,
    class: Class,
    is_retransmitted: bool,
    is_reordered: bool,
    /// Outstanding data of the sender after this frame.
    outstanding: u32,
    /// A segment that never passed here is among it.
    is_holed: bool,
    /// The other end's newest segment acknowledges less than one before: one overtook the other on its way here.
    is_ack_overtaken: bool,
    rtt_s: Option<f64>,
    /// What this segment acknowledges may have been sent twice: tshark then counts from the first time, against Karn.
    is_ambiguous: bool,
    theirs: Verdict,
}

/// Two-way iperf3, parallel IPv6, and a dozen small downloads by curl, captured on the WAN device.
fn make_capture(directory: &Path) -> PathBuf {
    let lab = Lab::start(LinkSpec::default()).expect("the lab starts");
    let file = directory.join("wan.pcap");
    let capture = Capture::start(&lab.gateway(), WAN_DEVICE, &file, 128).expect("tcpdump starts");
    let seconds = Duration::from_secs;
    // First with socket buffers below the link's: a queue stands and nothing is lost, so that RTT is unambiguous.
    let small = |direction| TransferSpec {
        tcp_buffer_bytes: Some(12_000),
        ..TransferSpec::new(direction, seconds(5))
    };
    let lossless = [Direction::Down, Direction::Up]
        .map(|direction| Transfer::start(&lab, small(direction)).expect("iperf3 starts"));
    for transfer in lossless {
        transfer.finish(seconds(60)).expect("iperf3 ends");
    }
    let down = Transfer::start(&lab, TransferSpec::new(Direction::Down, seconds(12))).expect("iperf3 starts");
    std::thread::sleep(seconds(2));
    let up = Transfer::start(&lab, TransferSpec::new(Direction::Up, seconds(8))).expect("iperf3 starts");
    let v6 = TransferSpec { ip: IpVersion::V6, streams: 2, ..TransferSpec::new(Direction::Down, seconds(4)) };
    let v6 = Transfer::start(&lab, v6).expect("iperf3 starts");
    fetch_by_curl(&lab, directory);
    for transfer in [down, up, v6] {
        transfer.finish(seconds(60)).expect("iperf3 ends");
    }
    let counts = capture.stop().expect("tcpdump ends");
    assert_eq!(counts.dropped_by_kernel, 0, "a capture with holes proves nothing");
    lab.stop().expect("the lab is gone");
    file
}

fn fetch_by_curl(lab: &Lab, directory: &Path) {
    std::fs::write(directory.join("page"), vec![b'x'; 20_000]).expect("writable");
    let server = lab.host(Role::D1);
    let mut command = server.command("python3").expect("the namespace is there");
    command.args(["-m", "http.server", "8080", "--directory"]).arg(directory);
    let _server = server.spawn(command, "http").expect("python3 starts");
    let address = Role::D1.address(IpVersion::V4).expect("D1 has an address");
    let url = format!("http://{address}:8080/page");
    for _ in 0..12 {
        // The server may not listen yet, and the link is full: curl tries again.
        let args = ["-s", "-o", "/dev/null", "--retry", "5", "--retry-connrefused", "--max-time", "30", &url];
        lab.host(Role::D2).run("curl", &args).expect("curl gets the page");
    }
}

/// The addresses of the home machines.
fn home() -> Vec<[u8; 16]> {
    let versions = [IpVersion::V4, IpVersion::V6];
    let roles = [Role::D2, Role::U2, Role::Gateway];
    let all = roles.iter().flat_map(|role| versions.map(|version| role.address(version)));
    all.flatten()
        .map(|address| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        })
        .collect()
}

/// Read a capture by both. `home`: the addresses of the machines at home.
fn read(file: &Path, home: &[[u8; 16]]) -> (Vec<Frame>, Meter) {
    let mut theirs = tshark::analyse(file).into_iter();
    let mut reader = capture::Capture::open(file).expect("a capture");
    let mut meter: Meter = Meter::default();
    let mut newest_acks: HashMap<(FlowKey, Direction), u32> = HashMap::new();
    let mut frames = Vec::new();
    let mut number = 0;
    while reader.advance().expect("whole") {
        let record = reader.record().expect("advanced to it");
        number += 1;
        let verdict = theirs.next().expect("tshark has seen as many frames");
        let frame = record.frame();
        let Packet::Tcp(segment) = parse(&frame) else {
            assert!(verdict.is_none(), "frame {number} is TCP to tshark only");
            continue;
        };
        let direction = if home.contains(&segment.source) { Direction::Up } else { Direction::Down };
        let observation = meter.observe_frame(direction, record.time_ns, &frame);
        let observed = observation.observed;
        let flow = observation.flow.map(|(_, entry)| &entry.flow);
        let key = FlowKey::of(&segment, direction);
        newest_acks.insert((key, direction), segment.ack);
        let newest_ack = newest_acks.get(&(key, direction.opposite()));
        frames.push(Frame {
            number,
            direction,
            class: observation.class,
            is_retransmitted: observed.is_some_and(|o| o.retransmitted),
            is_reordered: observed.is_some_and(|o| o.reordered),
            outstanding: flow.map_or(0, |flow| flow.outstanding(direction)),
            is_holed: flow.is_some_and(|flow| is_holed(flow, direction)),
            is_ack_overtaken: flow
                .is_some_and(|flow| newest_ack != Some(&flow.halves[direction.opposite()].ack_highest)),
            rtt_s: observed.and_then(|o| o.rtt_us).map(|us| f64::from(us) / 1e6),
            is_ambiguous: flow
                .is_some_and(|flow| flow.halves[direction.opposite()].retransmitted_segments > 0),
            theirs: verdict.unwrap_or_else(|| panic!("frame {number} is TCP to us only")),
        });
    }
    (frames, meter)
}

/// The newest gap in what was sent is not acknowledged yet.
fn is_holed(flow: &Flow, direction: Direction) -> bool {
    let (me, peer) = (&flow.halves[direction], &flow.halves[direction.opposite()]);
    me.has(abi::PENDULUM_HALF_HOLE) && me.hole_end.wrapping_sub(peer.ack_highest).cast_signed() > 0
}

/// Counts how often both gave which class.
fn confusion<'a>(frames: impl Iterator<Item = &'a Frame>) -> BTreeMap<(&'static str, &'static str), usize> {
    let mut counts = BTreeMap::new();
    for frame in frames {
        *counts.entry((frame.class.name(), frame.theirs.class())).or_default() += 1;
    }
    counts
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn a_real_capture_reads_as_tshark_reads_it() {
    if !pendulum_lab::is_root() {
        println!("SKIPPED a_real_capture_reads_as_tshark_reads_it: network namespaces need root");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = make_capture(directory.path());
    let (frames, meter) = read(&file, &home());
    println!("{} TCP frames", frames.len());
    assert!(frames.len() > 2000, "there was traffic");
    classes_agree(&frames);
    retransmissions_agree(&frames);
    outstanding_data_agrees(&frames);
    round_trip_times_agree(&frames);
    let segments: u64 = Direction::ALL.map(|d| meter.counters[d].segments.iter().sum::<u64>()).iter().sum();
    assert_eq!(segments, frames.len() as u64, "each frame is counted once");
}

/// A single byte sent again while it is unacknowledged (iperf3's control messages). To tshark it is a keep-alive and no
/// retransmission: it looks at the sequence number only.
fn is_repeated_byte(frame: &Frame) -> bool {
    frame.theirs.is_keep_alive && frame.theirs.payload == 1 && frame.is_retransmitted
}

/// Exact for everything with payload or flags; at most 3 in 100 pure ACKs may be of another kind: most are DSACKs when
/// nothing is outstanding, which answer a needless retransmission and are no duplicate ACKs by RFC 5681.
fn classes_agree(frames: &[Frame]) {
    println!("single bytes sent again: {}", frames.iter().filter(|f| is_repeated_byte(f)).count());
    let confusion = confusion(frames.iter().filter(|f| !is_repeated_byte(f)));
    println!("(ours, tshark's): {confusion:?}");
    let is_ack = |name: &str| matches!(name, "ack" | "dup_ack" | "sack" | "window_update");
    // tshark knows zero-window probes with a byte only; Linux sends them without, and it calls those keep-alives.
    let is_probe = |name: &str| matches!(name, "keep_alive" | "zero_window_probe");
    let (mut acks, mut other_acks) = (0, 0);
    for ((ours, theirs), count) in confusion {
        if is_ack(ours) && is_ack(theirs) {
            acks += count;
            other_acks += if ours == theirs { 0 } else { count };
        } else if !(is_probe(ours) && is_probe(theirs)) {
            assert_eq!(ours, theirs, "{count} frames");
        }
    }
    assert!(other_acks * 100 <= acks * 3, "{other_acks} of {acks} pure ACKs are of another kind");
    assert!(frames.iter().any(|f| f.class == Class::DupAck), "the link was full enough to lose something");
}

/// The same frames repeat old data. Which of them are late and which sent again, both can only guess.
fn retransmissions_agree(frames: &[Frame]) {
    let is_data = |f: &&Frame| f.theirs.payload > 0 && !f.theirs.has(Verdict::SYN) && !is_repeated_byte(f);
    let data = || frames.iter().filter(is_data);
    let ours = data().filter(|f| f.is_retransmitted || f.is_reordered).count();
    let theirs = data().filter(|f| f.theirs.is_retransmission || f.theirs.is_out_of_order).count();
    let both = data()
        .filter(|f| f.is_retransmitted || f.is_reordered)
        .filter(|f| f.theirs.is_retransmission || f.theirs.is_out_of_order)
        .count();
    println!("retransmitted or reordered: ours {ours}, tshark's {theirs}, both {both}");
    assert!(ours > 0, "a full drop-tail buffer makes TCP send again");
    assert!(both * 100 >= ours.max(theirs) * 95, "at least 95 % in common");
}

/// The same number to the byte, in at least 98 of 100 data frames; but where segments were lost on their way to us, the receiver
/// tells what came after them, and tshark takes that off. It counts from the newest ACK, ours from the highest.
fn outstanding_data_agrees(frames: &[Frame]) {
    let data: Vec<(&Frame, u32)> = frames
        .iter()
        .filter(|f| f.theirs.payload > 0)
        .filter_map(|f| Some((f, f.theirs.bytes_in_flight?)))
        // After some retransmissions tshark's number wraps below zero.
        .filter(|(f, theirs)| *theirs < LINK_HOLDS && !f.is_ack_overtaken)
        .collect();
    let (holed, whole): (Vec<_>, Vec<_>) = data.into_iter().partition(|(f, _)| f.is_holed);
    let same = whole.iter().filter(|(f, theirs)| f.outstanding == *theirs).count();
    println!(
        "outstanding data: {same} of {} frames to the byte; {} more with a gap",
        whole.len(),
        holed.len()
    );
    for (frame, theirs) in whole.iter().filter(|(f, theirs)| f.outstanding != *theirs).take(5) {
        println!("  frame {}: ours {}, tshark's {theirs}", frame.number, frame.outstanding);
    }
    assert!(whole.len() > 500 && same * 100 >= whole.len() * 98);
    let below: Vec<_> = holed.iter().filter(|(f, theirs)| f.outstanding < *theirs).collect();
    for (frame, theirs) in below.iter().take(5) {
        println!("  frame {} with a gap: ours {}, tshark's {theirs}", frame.number, frame.outstanding);
    }
    let (below, all) = (below.len(), holed.len());
    assert!(below * 100 <= all, "with a gap ours is never the smaller: {below} of {all}");
}

/// An ACK overtakes one before it. To tshark the older one counts, as it came last.
#[test]
fn after_an_overtaken_ack_tshark_has_more_in_flight() {
    use craft::{LinkLayer, Tcp, down, flag, up};
    let data = |seq| up().seq(seq).payload(1_000);
    let ack = |ack| down().ack(ack);
    let opening = [up().seq(0).flags(flag::SYN), down().seq(0).flags(flag::SYN | flag::ACK)];
    // 3001 to 4000 is lost before it comes here.
    let before = [data(1), data(1_001), data(2_001), data(4_001)];
    let after = [ack(2_001), ack(1_001), data(5_001), ack(2_001), data(6_001)];
    let segments: Vec<Tcp> = opening.into_iter().chain(before).chain(after).collect();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("overtaken.pcap");
    let seconds = (0..).step_by(1_000_000_000);
    let bytes = segments.iter().map(|segment| segment.build(LinkLayer::Ethernet).bytes);
    let frames: Vec<(u64, Vec<u8>)> = seconds.zip(bytes).collect();
    std::fs::write(&file, pcap::pcap(1, &frames)).expect("writable");
    let address = Ipv4Addr::from(craft::endpoint::HOME_V4).to_ipv6_mapped().octets();
    let (frames, _) = read(&file, &[address]);
    let data = frames.iter().filter(|f| f.theirs.payload > 0).skip(4);
    let found: Vec<_> =
        data.map(|f| (f.outstanding, f.theirs.bytes_in_flight, f.is_holed, f.is_ack_overtaken)).collect();
    assert_eq!(found, [(4_000, Some(5_000), true, true), (5_000, Some(5_000), true, false)]);
}

/// Where both have a sample at the same ACK. By timestamps, ours starts at the first segment that carries what is echoed,
/// theirs at the last that is acknowledged: with delayed ACKs ours is the longer, by up to the time between two
/// segments. On the WAN side, where a queue stands, that is little.
fn round_trip_times_agree(frames: &[Frame]) {
    // What comes down answers what went up: it times the WAN side.
    for (side, answers) in [("wan", Direction::Down), ("lan", Direction::Up)] {
        let sampled = frames.iter().filter(|f| f.direction == answers && !f.is_ambiguous);
        let pairs: Vec<(f64, f64)> = sampled.filter_map(|f| Some((f.rtt_s?, f.theirs.ack_rtt_s?))).collect();
        assert!(pairs.len() > 50, "{side}: {} samples", pairs.len());
        let ours = median(pairs.iter().map(|p| p.0).collect());
        let theirs = median(pairs.iter().map(|p| p.1).collect());
        let longer = median(pairs.iter().map(|p| p.0 - p.1).collect());
        let shorter = pairs.iter().filter(|(ours, theirs)| *ours < theirs - 0.001).count();
        println!("{side}: {} samples at the same ACK, medians {ours:.4} s and {theirs:.4} s", pairs.len());
        println!("{side}: ours is longer by {longer:.4} s (median), shorter in {shorter}");
        assert!(shorter * 100 <= pairs.len(), "{side}: {shorter} of {} samples are too short", pairs.len());
        assert!(longer <= 0.040, "{side}: no longer than a delayed ACK");
        let close =
            pairs.iter().filter(|(ours, theirs)| (ours - theirs).abs() <= 0.010 + 0.1 * theirs).count();
        println!("{side}: {close} within 10 ms + 10 %");
        assert!(close * 100 >= pairs.len() * 90, "{side}: only {close} of {} samples agree", pairs.len());
    }
}
