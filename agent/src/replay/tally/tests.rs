//! Notes on crafted conversations, in figures worked out by hand.

use super::super::meter::Meter;
use super::super::packet::{Frame, LinkType};
use super::super::table::Entry;
use super::super::tests::craft::{LinkLayer, Tcp, down, up};
use super::super::tests::direction;
use super::*;

/// The notes after these packets of one conversation.
fn tally(packets: &[Tcp]) -> Tally {
    let mut meter = Meter::<Tally>::default();
    for packet in packets {
        let crafted = packet.build(LinkLayer::RawIp);
        let direction = direction(crafted.direction);
        let frame = Frame::whole(LinkType::RawIp, &crafted.bytes);
        let seen = meter.observe_frame(direction, crafted.time_ns, &frame);
        if let (Some(segment), Some(observed), Some((_, Entry { flow, note }))) =
            (seen.segment, seen.observed, seen.flow)
        {
            note.note(direction, crafted.time_ns, &segment, &observed, flow);
        }
    }
    meter.table.drain().remove(0).1.note
}

fn delivered(packets: &[Tcp]) -> [u64; 2] {
    let tally = tally(packets);
    Direction::ALL.map(|x| tally.delivered_bytes(x))
}

const SYN_ACK: u8 = flag::SYN | flag::ACK;

#[test]
fn who_sends_the_syn_opens_and_who_answers_it_does_not() {
    let opener = |packets: &[Tcp]| tally(packets).opener;
    assert_eq!(opener(&[up().flags(flag::SYN), down().flags(SYN_ACK)]), Some(Direction::Up));
    assert_eq!(opener(&[down().flags(flag::SYN), up().flags(SYN_ACK)]), Some(Direction::Down));
    // The capture begins with the answer.
    assert_eq!(opener(&[down().flags(SYN_ACK), up()]), Some(Direction::Up));
    assert_eq!(opener(&[up().flags(SYN_ACK), down()]), Some(Direction::Down));
    assert_eq!(opener(&[up().payload(10), down()]), None);
    // The first word counts.
    let packets = [down().flags(SYN_ACK), up(), down().flags(flag::SYN).seq(9_000)];
    assert_eq!(opener(&packets), Some(Direction::Up));
}

#[test]
fn without_acknowledgements_what_passed_once_is_delivered() {
    let data = |seq| up().flags(0).seq(seq).payload(100);
    assert_eq!(delivered(&[data(1), data(101), data(101), data(1), data(201)]), [300, 0]);
    let tally = tally(&[data(1), data(101), data(1)]);
    let [sent, none] = tally.halves.both();
    assert_eq!((sent.payload_bytes, sent.repeated_bytes, sent.retransmitted_segments), (300, 100, 1));
    // 40 bytes of headers each.
    assert_eq!((sent.fresh_bytes, sent.acked_bytes), (420, 0));
    assert_eq!((none.payload_bytes, none.fresh_bytes, none.retransmitted_segments), (0, 0, 0));
}

#[test]
fn what_is_acknowledged_is_delivered_however_often_it_passed() {
    let packets = [
        down().seq(1).payload(1000),
        up().ack(1),
        down().seq(1001).payload(1000).at(10),
        down().seq(1001).payload(1000).at(300_000),
        up().ack(2001),
        up().ack(2001),
        // Never acknowledged.
        down().seq(2001).payload(500),
    ];
    // The first ACK tells where the acknowledged bytes begin.
    assert_eq!(delivered(&packets), [0, 2000]);
    assert_eq!(tally(&packets).halves.down.payload_bytes, 3500);
}

/// SYN and FIN take a sequence number each and carry nothing.
#[test]
fn the_ends_of_a_connection_are_no_payload() {
    let fin = flag::FIN | flag::ACK;
    let packets = [
        up().flags(flag::SYN).seq(0).ack(0),
        down().flags(SYN_ACK).seq(0).ack(1),
        up().seq(1).ack(1).payload(300),
        down().seq(1).ack(301).payload(700),
        up().flags(fin).seq(301).ack(701),
        // The FIN is acknowledged alone, and again with the other one.
        down().seq(701).ack(302),
        down().flags(fin).seq(701).ack(302),
        up().seq(302).ack(702),
        up().seq(302).ack(702),
    ];
    assert_eq!(delivered(&packets), [300, 700]);
    // Payload and FIN in one segment, acknowledged together.
    let packets = [
        down().seq(1).ack(1).payload(10),
        up().seq(1).ack(11).payload(10),
        up().flags(fin).seq(11).ack(11).payload(5),
        down().seq(11).ack(17),
    ];
    assert_eq!(delivered(&packets)[0], 15);
    // After the FIN, an ACK of less than all: that is payload alone.
    let packets =
        [up().seq(1).payload(100), down().ack(1), up().flags(fin).seq(101).payload(50), down().ack(101)];
    assert_eq!(delivered(&packets)[0], 100);
}

#[test]
fn the_main_direction_is_that_of_most_payload() {
    let main = |up_bytes: usize, down_bytes: usize| {
        tally(&[up().payload(up_bytes), down().payload(down_bytes)]).main_direction()
    };
    assert_eq!(main(11, 10), Direction::Up);
    assert_eq!(main(10, 11), Direction::Down);
    assert_eq!(main(10, 10), Direction::Down);
}

#[test]
fn first_and_newest_segment_bound_the_flow() {
    let tally = tally(&[up().at(5), down().at(9), up().at(20)]);
    assert_eq!((tally.first_ns, tally.last_ns), (Some(5_000), 20_000));
    // The first packet of a capture passes at time 0.
    let from_zero = self::tally(&[up().at(0), down().at(9), up().at(20)]);
    assert_eq!((from_zero.first_ns, from_zero.last_ns), (Some(0), 20_000));
}

/// The old level holds until the new one comes.
#[test]
fn the_mean_level_weighs_each_level_with_its_time() {
    let mut level = Level::default();
    level.set(10, 0);
    assert_eq!(level.mean(), None);
    level.set(100, 1000);
    assert_eq!((level.mean(), level.level), (None, 1000));
    level.set(300, 400);
    // 1000 for 200 ns.
    assert_eq!(level.mean(), Some(1000.0));
    level.set(600, 0);
    // 200 · 1000 + 300 · 400 over 500 ns.
    assert_eq!(level.mean(), Some(640.0));
    level.set(1100, 50);
    // Empty for as long again: it counts.
    assert_eq!(level.mean(), Some(320.0));
    assert_eq!((level.max, level.level), (1000, 50));
    // One that comes late takes no time and gives none back.
    level.set(900, 70);
    level.set(1200, 0);
    assert_eq!(level.mean(), Some((320_000.0 + 70.0 * 100.0) / 1100.0));
}

#[test]
fn outstanding_data_is_followed_in_both_directions() {
    let tally = tally(&[
        up().seq(1).payload(300).at(1_000),
        down().seq(1).ack(1).payload(100).at(2_000),
        down().seq(101).ack(301).at(4_000),
        up().seq(301).ack(101).at(7_000),
    ]);
    let [sent, received] = tally.in_flight.halves.both();
    // Known once the other end has acknowledged anything: 300 bytes for 2 of 5 ms.
    assert_eq!((sent.max, sent.level, sent.mean()), (300, 0, Some(120.0)));
    // Home had acknowledged byte 1 from the start: 100 bytes all the time.
    assert_eq!((received.max, received.level, received.mean()), (100, 0, Some(100.0)));
}

#[test]
fn turns_have_a_smallest_a_newest_and_a_mean() {
    let mut turns = Turns::default();
    assert_eq!((turns.mean_s(), turns.min_s(), turns.last_us), (None, None, None));
    for us in [30_000, 10_000, 20_000, 40_000] {
        turns.add(us);
    }
    assert_eq!((turns.mean_s(), turns.min_s(), turns.last_us), (Some(0.025), Some(0.01), Some(40_000)));
}

/// The time an end took belongs to that end, which is the one that answers.
#[test]
fn an_answer_is_noted_with_who_gave_it() {
    let tally = tally(&[
        up().flags(flag::SYN).seq(0).ack(0).at(1_000),
        down().flags(SYN_ACK).seq(0).ack(1).at(21_000),
        up().seq(1).ack(1).at(21_300),
    ]);
    let [home, remote] = tally.halves.both();
    assert_eq!((home.turns.last_us, remote.turns.last_us), (Some(300), Some(20_000)));
}

/// Three segments of 100 bytes, sent at 0, 1 and 2 ms, and what answers the one that ends at 301 at 50 ms.
fn answered(order: [u32; 3]) -> Option<u32> {
    let mut packets: Vec<Tcp> =
        (0..).zip(order).map(|(ms, seq)| up().seq(seq).payload(100).at(10_000 + 1_000 * ms)).collect();
    packets.push(down().ack(301).at(60_000));
    tally(&packets).halves.down.turns.min_us
}

/// A segment out of its order spoils the answer, be it late or sent again: what the receiver then answers is not the newest.
#[test]
fn a_segment_out_of_order_is_not_timed() {
    assert_eq!(answered([1, 101, 201]), Some(48_000));
    assert_eq!(answered([1, 201, 101]), None, "reordered");
    assert_eq!(answered([101, 201, 101]), None, "sent again");
}
