//! Into which class each packet goes.

use crate::craft::{self, Tcp, flag};
use crate::decisions::{ack, ethernet};
use crate::kernel::{Filter, LANE, MILLISECOND, SPARSE, TURN};

/// What is no pure ACK is no business of the lane: it goes among the data, or into the class of short connections.
#[test]
fn everything_else_passes_untouched() {
    let Some(mut filter) = Filter::for_test("everything_else_passes_untouched") else { return };
    let data = |packet: Tcp| (packet, 6);
    let sparse = |packet: Tcp| (packet, SPARSE);
    for (packet, class) in [
        sparse(ack(1).payload(100)),
        sparse(craft::up().v6().payload(100)),
        sparse(craft::up().flags(flag::SYN)),
        sparse(craft::up().v6().flags(flag::SYN)),
        sparse(ack(1).flags(flag::SYN | flag::ACK)),
        sparse(craft::up().flags(flag::SYN | flag::ECE | flag::CWR)),
        sparse(craft::up().flags(flag::SYN).payload(10)),
        sparse(craft::up().flags(flag::SYN | flag::FIN)),
        sparse(ack(1).flags(flag::ACK | flag::FIN)),
        sparse(ack(1).flags(flag::ACK | flag::RST)),
        sparse(ack(1).flags(flag::ACK | flag::URG)),
        sparse(ack(1).flags(0)),
        data(ack(1).fragment(0x2000)),
        data(ack(1).ip_options(&[1, 1, 1, 0])),
        data(ack(1).vlan(0x8100, 7)),
        data(ack(1).pppoe()),
        data(ack(1).protocol(17)),
        data(ack(1).v6().extension(0, &[0; 6])),
    ] {
        for own in [6, 0] {
            filter.own_priority = own;
            let (queued, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&packet)));
            let queued = queued.expect("it passes");
            let class = if class == 6 { own } else { class };
            assert_eq!((queued.priority, fates.as_slice()), (class, [].as_slice()));
            assert_eq!(filter.depart(&queued).expect("it passes"), queued.bytes);
        }
    }
}

/// Once long, a connection stays among the data, small packets too: those in front must not be overtaken.
#[test]
fn a_connection_is_sparse_until_it_has_sent_much() {
    let Some(mut filter) = Filter::for_test("a_connection_is_sparse_until_it_has_sent_much") else { return };
    filter.control.sparse_bytes = 3_000;
    filter.tell();
    let mut class = |after_ms: u64, packet: Tcp| {
        filter.now += after_ms * MILLISECOND;
        filter.arrive(&ethernet(&packet)).expect("it passes").priority
    };
    let data = |bytes: usize| craft::up().home_port(999).payload(bytes);
    assert_eq!(class(0, craft::up().home_port(999).flags(flag::SYN)), SPARSE);
    assert_eq!(class(0, data(1_400)), SPARSE);
    assert_eq!(class(0, data(1_000)), SPARSE);
    assert_eq!(class(0, data(1_400)), 6, "more than 3,000 bytes");
    assert_eq!(class(0, data(1)), 6, "no smaller one overtakes it");
    assert_eq!(class(0, craft::up().home_port(999).flags(flag::ACK | flag::FIN)), 6);
    assert_eq!(class(0, data(0)), LANE, "its ACKs go into the lane all the time");
    assert_eq!(class(0, data(1_400).home_port(998)), SPARSE, "another connection");
    assert_eq!(class(9_900, data(1)), 6);
    assert_eq!(class(10_100, data(1_400)), SPARSE, "after a silence it begins anew");
    // One super-packet counts with all its bytes.
    assert_eq!(class(0, data(2_800)), 6);
}

/// Past slow start a connection's ACKs take turns with the data, all of them and for good: the lane goes first, so none overtakes another.
#[test]
fn acks_take_turns_once_their_connection_is_past_slow_start() {
    let Some(mut filter) = Filter::for_test("acks_take_turns_once_their_connection_is_past_slow_start")
    else {
        return;
    };
    filter.control.spared_bytes = 10_000;
    filter.control.turn_priority = TURN;
    filter.tell();
    let class =
        |filter: &mut Filter, packet: Tcp| filter.arrive(&ethernet(&packet)).expect("it passes").priority;
    assert_eq!(class(&mut filter, ack(1)), LANE);
    assert_eq!(class(&mut filter, ack(10_000)), LANE);
    assert_eq!(class(&mut filter, ack(5_000)), LANE, "behind");
    assert_eq!(class(&mut filter, ack(1_u32.wrapping_sub(500))), LANE, "before the first");
    assert_eq!(class(&mut filter, ack(10_001)), TURN);
    for packet in [
        ack(10_001),
        ack(10_002).sack(&[(20_000, 21_000)]),
        ack(10_003).flags(flag::ACK | flag::ECE),
        ack(10_004).window(0),
        ack(9_000),
    ] {
        assert_eq!(class(&mut filter, packet), TURN, "it stays");
    }
    let queued = filter.arrive(&ethernet(&ack(10_010).flags(flag::ACK | flag::ECE))).expect("it passes");
    assert_eq!(filter.depart(&queued).expect("it passes"), queued.bytes);
    assert_eq!(class(&mut filter, ack(20_000).home_port(999)), LANE, "another connection");
    // Silent for so long, it may be a new connection.
    filter.now += 11_000 * MILLISECOND;
    assert_eq!(class(&mut filter, ack(10_005)), LANE);
    filter.control.turn_priority = 0;
    filter.tell();
    assert_eq!(class(&mut filter, ack(60_000)), LANE);
}
