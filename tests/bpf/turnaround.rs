//! How long the outside takes to answer: the kernel's arrivals are those of the replay's rules.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use pendulum::replay::capture::Capture;
use pendulum::replay::meter::{Meter, MeterConfig};
use pendulum::replay::packet::parse;
use pendulum::replay::tally::Tally;
use pendulum_model::segment::Direction;

use crate::capture::{crafted, is_home};
use crate::craft::{self, LinkLayer, Tcp, down, up};
use crate::kernel::Kernel;

/// Length of a slot of arrivals.
const SLOT_NS: u64 = 1 << 20;
/// Both ends of a delay are known to a tick of 4.096 µs, the replay's to a microsecond.
const TOLERANCE_US: u64 = 10;
/// Where the replay begins to read: the ring's first slot is the time before everything.
const READ_NS: u64 = 2_000_000_000;

/// Delay in microseconds and length of the question, by slot.
type Turns = BTreeMap<u64, (u64, u32)>;

/// The newest turn of each slot, and the bytes that came in, by both. Times in the file begin at `epoch_ns`.
fn both(file: &Path, link_layer: LinkLayer) -> ([Turns; 2], [u64; 2]) {
    let mut kernel = Kernel::new(link_layer);
    let mut meter = Meter::<Tally>::new(MeterConfig::default());
    let mut capture = Capture::open(file).expect("a capture");
    let (mut ours, mut theirs) = (Turns::new(), Turns::new());
    let mut bytes = [0, 0];
    let (mut origin, mut arrivals, mut due) = (None, None, 0);
    while capture.advance().expect("whole") {
        let record = capture.record().expect("advanced to it");
        let Some(mut frame) = crafted(&record, is_home) else { continue };
        frame.time_ns -= *origin.get_or_insert(frame.time_ns);
        frame.time_ns += READ_NS;
        let reader = arrivals.get_or_insert_with(|| kernel.programs().arrivals(READ_NS));
        if frame.time_ns > due {
            bytes[0] += collect(reader, frame.time_ns, &mut ours);
            due = frame.time_ns + 100_000_000;
        }
        kernel.observe(&frame).expect("a whole TCP frame is never refused");
        let direction = match frame.direction {
            craft::Direction::Up => Direction::Up,
            craft::Direction::Down => Direction::Down,
        };
        let captured = record.frame();
        let observation = meter.observe_packet(direction, frame.time_ns, &captured, parse(&captured));
        if direction == Direction::Down {
            bytes[1] += u64::from(captured.frame_bytes());
        }
        let (Some(segment), Some(observed), Some((_, entry))) =
            (observation.segment, observation.observed, observation.flow)
        else {
            continue;
        };
        let turn = entry.note.note(direction, frame.time_ns, &segment, &observed, &entry.flow);
        if let (Direction::Down, Some(turn)) = (direction, turn) {
            theirs.insert(frame.time_ns / SLOT_NS, (turn.us.into(), turn.question_bytes));
        }
    }
    let mut reader = arrivals.expect("there were packets");
    bytes[0] += collect(&mut reader, due + 1_000_000_000, &mut ours);
    ([ours, theirs], bytes)
}

fn collect(reader: &mut pendulum::bpf::ArrivalReader, now_ns: u64, turns: &mut Turns) -> u64 {
    let mut bytes = 0;
    reader.read(now_ns, |arrival| {
        bytes += u64::from(arrival.bytes);
        if let Some(answer) = arrival.answer {
            let delay = (answer.at_ns - answer.asked_ns) / 1000;
            turns.insert(answer.at_ns / SLOT_NS, (delay, answer.question_bytes));
        }
    });
    bytes
}

fn check(file: &Path, link_layer: LinkLayer, at_least: usize) {
    let ([ours, theirs], bytes) = both(file, link_layer);
    assert_eq!(bytes[0], bytes[1], "bytes that came in");
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "slots with an answer");
    for (slot, ((delay, asked), (wanted, asked_by))) in
        ours.iter().map(|(slot, ours)| (slot, (*ours, theirs[slot])))
    {
        assert!(delay.abs_diff(wanted) <= TOLERANCE_US, "slot {slot}: {delay} µs, the replay {wanted} µs");
        assert_eq!(asked, (asked_by / 16).min(127) * 16, "slot {slot}: length of the question");
    }
    println!("{}: {} slots with an answer", file.display(), ours.len());
    assert!(ours.len() > at_least, "{} answers", ours.len());
}

#[test]
fn turnarounds_of_the_lab_are_the_replays() {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(include_bytes!("../data/two-way.pcap.zst")).expect("writable");
    check(file.path(), LinkLayer::Ethernet, 100);
}

#[test]
fn turnarounds_of_the_simulator_are_the_replays() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/ns3/s5/wan.pcap.zst");
    if !file.exists() {
        println!("SKIPPED turnarounds_of_the_simulator_are_the_replays: {} is not there", file.display());
        return;
    }
    check(&file, LinkLayer::RawIp, 1000);
}

/// Answers of crafted packets: delay in microseconds, whether a pure ACK asked, length of question and answer.
fn answers(packets: &[Tcp]) -> Vec<(u64, bool, u32, u32)> {
    let mut kernel = Kernel::new(LinkLayer::Ethernet);
    let mut reader = kernel.programs().arrivals(READ_NS);
    for packet in packets {
        let mut frame = packet.build(LinkLayer::Ethernet);
        frame.time_ns += READ_NS;
        kernel.observe(&frame).expect("a whole frame");
    }
    let mut answers = Vec::new();
    reader.read(READ_NS + 4_000_000_000, |arrival| {
        answers.extend(arrival.answer.map(|answer| {
            let delay = (answer.at_ns - answer.asked_ns + 5000) / 1000;
            (delay / 10 * 10, answer.asked_by_ack, answer.question_bytes, answer.answer_bytes)
        }));
    });
    answers
}

#[test]
fn data_asks_for_an_ack_and_an_ack_for_data() {
    let found = answers(&[
        up().seq(1).payload(900).at(10_000),
        up().seq(901).payload(900).at(60_000),
        // It waited for the second segment: that is the one it answers.
        down().ack(1801).at(80_000),
        // A download: the ACK's clock comes back with data.
        up().seq(1801).ts(77, 1).at(100_000),
        down().seq(1).ack(1801).payload(1400).ts(500, 77).at(140_000),
        down().seq(1401).ack(1801).payload(1400).ts(500, 77).at(150_000),
    ]);
    assert_eq!(found, [(20_000, false, 944, 48), (40_000, true, 64, 1456)]);
}

#[test]
fn a_retransmission_closes_all_questions() {
    let found = answers(&[
        up().seq(1).payload(1000).at(10_000),
        up().seq(1001).payload(1000).at(11_000),
        up().seq(1).payload(1000).at(400_000),
        down().ack(2001).at(420_000),
        up().seq(2001).payload(1000).at(430_000),
        down().ack(3001).at(450_000),
    ]);
    assert_eq!(found.iter().map(|answer| answer.0).collect::<Vec<_>>(), [20_000]);
}
