//! How long the outside takes to answer: the kernel's arrivals are those of the replay's rules.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use pendulum::bpf::{Answered, Passage, PassageReader};
use pendulum::replay::capture::Capture;
use pendulum::replay::meter::Meter;
use pendulum::replay::packet::parse;
use pendulum::replay::tally::Tally;
use pendulum_model::segment::Direction;

use crate::capture::{crafted, is_home};
use crate::craft::{LinkLayer, Tcp, down, flag, up};
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
    let mut meter = Meter::<Tally>::default();
    let mut capture = Capture::open(file).expect("a capture");
    let (mut ours, mut theirs) = (Turns::new(), Turns::new());
    let mut bytes = [0, 0];
    let (mut origin, mut arrivals, mut due) = (None, None, 0);
    while capture.advance().expect("whole") {
        let record = capture.record().expect("advanced to it");
        let Some(mut frame) = crafted(&record, is_home) else { continue };
        frame.time_ns -= *origin.get_or_insert(frame.time_ns);
        frame.time_ns += READ_NS;
        let reader = arrivals.get_or_insert_with(|| kernel.programs().passages(READ_NS));
        if frame.time_ns > due {
            bytes[0] += collect(reader, frame.time_ns, &mut ours);
            due = frame.time_ns + 100_000_000;
        }
        kernel.observe(&frame).expect("a whole TCP frame is never refused");
        let direction = crate::direction(frame.direction);
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

fn collect(reader: &mut PassageReader, now_ns: u64, turns: &mut Turns) -> u64 {
    let mut bytes = 0;
    reader.read(now_ns, |passage| {
        let Passage::Down(arrival) = passage else { return };
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
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/ns3/s5/wan.pcap.zst");
    check(&file, LinkLayer::RawIp, 1000);
}

/// Answers of crafted packets.
fn read(packets: &[Tcp]) -> Vec<Answered> {
    read_with(&mut Kernel::new(LinkLayer::Ethernet), packets)
}

fn read_with(kernel: &mut Kernel, packets: &[Tcp]) -> Vec<Answered> {
    let mut reader = kernel.programs().passages(READ_NS);
    for packet in packets {
        let mut frame = packet.build(LinkLayer::Ethernet);
        frame.time_ns += READ_NS;
        kernel.observe(&frame).expect("a whole frame");
    }
    let mut answers = Vec::new();
    reader.read(READ_NS + 4_000_000_000, |passage| {
        let Passage::Down(arrival) = passage else { return };
        answers.extend(arrival.answer);
    });
    answers
}

/// The same: delay in microseconds, whether a pure ACK asked, length of question and answer.
fn answers(packets: &[Tcp]) -> Vec<(u64, bool, u32, u32)> {
    let told = |answer: &Answered| {
        let delay = (answer.at_ns - answer.asked_ns + 5000) / 1000;
        (delay / 10 * 10, answer.asked_by_ack, answer.question_bytes, answer.answer_bytes)
    };
    read(packets).iter().map(told).collect()
}

#[test]
fn an_answer_has_the_number_of_its_flows_far_end() {
    let mut kernel = Kernel::new(LinkLayer::Ethernet);
    let packets = [up().seq(1).payload(900).at(10_000), down().ack(901).at(80_000)];
    let answers = read_with(&mut kernel, &packets);
    let flows = kernel.programs().flows().expect("readable");
    let ends: Vec<u32> = flows.iter().map(|(key, _)| key.end_id(Direction::Up)).collect();
    assert_eq!(answers.iter().map(|answer| answer.end).collect::<Vec<_>>(), ends);
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

/// Bytes that left in the same slot of 1.05 ms, in steps of 16; what left in the slot before is none of them.
#[test]
fn an_answer_tells_what_left_in_its_question_s_slot_before_it() {
    let packets = [
        up().seq(1).payload(900).at(9_000),
        up().seq(901).payload(900).at(11_000),
        up().seq(1801).payload(900).at(11_000),
        up().seq(2701).payload(900).at(11_000),
        down().ack(901).at(80_000),
        down().ack(1801).at(90_000),
        down().ack(3601).at(100_000),
    ];
    let ahead: Vec<u32> = read(&packets).iter().map(|answer| answer.ahead_bytes).collect();
    assert_eq!(ahead, [0, 0, 2 * 954 / 16 * 16]);
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

/// Of the crafted packets' answers: whether each may have been held back.
fn held(packets: &[Tcp]) -> Vec<bool> {
    read(packets).iter().map(|answer| answer.may_be_held).collect()
}

/// Receivers answer each second full segment at once (RFC 5681 §4.2); for a single one they wait.
#[test]
fn the_ack_of_a_single_segment_may_be_held_back() {
    let data = |seq, at| up().seq(seq).payload(1448).at(at);
    let found = held(&[
        data(1, 10_000),
        // The first ACK of all: by how much it moves on is not known.
        down().ack(1449).at(60_000),
        data(1449, 70_000),
        down().ack(2897).at(90_000),
        data(2897, 100_000),
        data(4345, 105_000),
        down().ack(5793).at(130_000),
        // Two short ones are no more than one full one.
        up().seq(5793).payload(400).at(140_000),
        up().seq(6193).payload(400).at(150_000),
        down().ack(6593).at(190_000),
        data(6593, 200_000),
        up().seq(8041).payload(400).at(201_000),
        down().ack(8441).at(220_000),
    ]);
    assert_eq!(found, [true, true, false, true, false]);
}

#[test]
fn what_answers_an_ack_or_a_syn_is_not_held_back() {
    let found = held(&[
        up().flags(flag::SYN).seq(0).ack(0).at(10_000),
        down().flags(flag::SYN | flag::ACK).seq(0).ack(1).at(30_000),
        up().seq(1).ts(77, 1).at(100_000),
        down().seq(1).ack(1).payload(1400).ts(500, 77).at(140_000),
    ]);
    assert_eq!(found, [false, false]);
}

/// What came in, slot by slot: when the newest packet came, bytes, and its sender's clock.
fn arrivals(packets: &[Tcp], read_at_ms: &[u64]) -> Vec<(u64, u32, Option<u32>)> {
    let mut kernel = Kernel::new(LinkLayer::Ethernet);
    let mut reader = kernel.programs().passages(READ_NS);
    let mut packets = packets.iter().map(|packet| packet.build(LinkLayer::Ethernet)).peekable();
    let mut found = Vec::new();
    for ms in read_at_ms {
        while let Some(mut frame) = packets.next_if(|frame| frame.time_ns < ms * 1_000_000) {
            frame.time_ns += READ_NS;
            kernel.observe(&frame).expect("a whole frame");
        }
        reader.read(READ_NS + ms * 1_000_000, |passage| {
            let Passage::Down(arrival) = passage else { return };
            let clock = arrival.clock.map(|(_, tsval)| tsval);
            found.push(((arrival.at_ns - READ_NS) / 1000, arrival.bytes, clock));
        });
    }
    found
}

/// Of every packet that comes in, whatever it is; of none that goes out. A slot is used again after 4096 of them, 4.3 s.
#[test]
fn arrivals_are_all_bytes_by_time() {
    let found = arrivals(
        &[
            down().payload(1000).ts(7, 1).at(10_000),
            up().payload(500).at(10_010),
            down().seq(1001).payload(446).ts(8, 1).at(10_020),
            // Not TCP, and in the same slot: the slot's newest packet has no clock.
            down().protocol(17).payload(100).at(10_030),
            down().protocol(17).payload(200).at(50_000),
            down().seq(1447).payload(100).at(60_000),
            // 4096 slots after the first.
            down().seq(1547).payload(46).ts(9, 1).at(10_000 + 4_294_968),
        ],
        &[100, 5_000],
    );
    let together = 1066 + 512 + 154;
    let expected = [
        (10_030, together, None),
        (50_000, 254, None),
        (60_000, 154, None),
        (10_000 + 4_294_968, 112, Some(9)),
    ];
    assert_eq!(found, expected);
}

/// An answer that comes after more than 34 s is none: half of the time after which the clock of a question comes round.
#[test]
fn questions_are_open_for_34_seconds() {
    let asked = |after_us: u64| {
        let mut kernel = Kernel::new(LinkLayer::Ethernet);
        let mut answered = 0;
        for packet in [up().seq(1).payload(900).at(10_000), down().ack(901).at(10_000 + after_us)] {
            let mut frame = packet.build(LinkLayer::Ethernet);
            frame.time_ns += READ_NS;
            kernel.observe(&frame).expect("a whole frame");
            let from = frame.time_ns - 1_000_000;
            let mut reader = kernel.programs().passages(from);
            reader.read(from + 4_000_000_000, |passage| {
                let is_answer = matches!(passage, Passage::Down(arrival) if arrival.answer.is_some());
                answered += usize::from(is_answer);
            });
        }
        answered
    };
    // 2^23 ticks of 4.096 µs are 34.36 s.
    assert_eq!([asked(34_300_000), asked(34_400_000), asked(60_000_000)], [1, 0, 0]);
}

/// A segment that fills a gap of a moment ago was late, not lost; what it answers cannot be known either.
#[test]
fn reordering_closes_all_questions() {
    let found = answers(&[
        up().seq(1).payload(1000).at(10_000),
        up().seq(2001).payload(1000).at(11_000),
        up().seq(1001).payload(1000).at(11_500),
        down().ack(3001).at(40_000),
        up().seq(3001).payload(1000).at(50_000),
        down().ack(4001).at(70_000),
    ]);
    assert_eq!(found.iter().map(|answer| answer.0).collect::<Vec<_>>(), [20_000]);
}

/// An ACK in the middle of what was sent answers nothing; neither does the same ACK a second time.
#[test]
fn only_the_first_ack_of_exactly_the_end_answers() {
    let found = answers(&[
        up().seq(1).payload(1000).at(10_000),
        down().ack(501).at(20_000),
        down().ack(1001).at(30_000),
        down().ack(1001).window(7).at(45_000),
    ]);
    assert_eq!(found.iter().map(|answer| answer.0).collect::<Vec<_>>(), [20_000]);
    // A clock that is older than one seen before asks nothing.
    let found = answers(&[
        up().ts(77, 1).at(10_000),
        up().ts(70, 1).at(15_000),
        down().payload(100).ts(500, 70).at(30_000),
        down().seq(101).payload(100).ts(501, 77).at(40_000),
    ]);
    assert_eq!(found.iter().map(|answer| answer.0).collect::<Vec<_>>(), [30_000]);
}
