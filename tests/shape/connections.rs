//! Beginning and end of connections, and their places in the filter's table.

use crate::craft::{self, flag};
use crate::decisions::{ack, ethernet};
use crate::kernel::{Filter, MILLISECOND};

/// What is pending leaves although the connection ends; then the place is free for another one, or for the same ports again.
#[test]
fn the_end_of_a_connection() {
    let Some(mut filter) = Filter::for_test("the_end_of_a_connection") else { return };
    for end in [flag::ACK | flag::FIN, flag::ACK | flag::RST, flag::SYN] {
        filter.reset();
        let carrier = filter.arrive(&ethernet(&ack(10_000))).expect("it passes");
        assert!(filter.arrive(&ethernet(&ack(20_000))).is_none());
        let fin = filter.arrive(&ethernet(&ack(20_000).flags(end))).expect("it passes");
        assert_eq!(filter.depart(&carrier).expect("it leaves"), ethernet(&ack(20_000)).bytes);
        assert_eq!(filter.depart(&fin).expect("it leaves"), fin);
        filter.arrive(&ethernet(&ack(20_000).flags(end))).expect("it passes");
        let (_, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(9_000))));
        assert_eq!(fates, ["passed first"]);
    }
}

/// Of two connections in one place of the table the later one is not filtered, and does not disturb the other.
#[test]
fn two_connections_in_one_place() {
    let Some(mut filter) = Filter::for_test("two_connections_in_one_place") else { return };
    let carrier = filter.arrive(&ethernet(&ack(10_000))).expect("it passes");
    let place = filter.place_in_use().expect("the connection has a place");
    let port = (1_024..65_535)
        .find(|port| *port != craft::endpoint::HOME_PORT && filter.place_of(*port) == place)
        .expect("4,096 places, 64,000 ports");
    let other = |number: u32| ethernet(&ack(number).home_port(port));
    for number in [10_000, 20_000, 30_000] {
        let (packet, fates) = filter.fate_of(|filter| filter.arrive(&other(number)));
        assert_eq!(fates, ["passed table_full"]);
        let packet = packet.expect("it passes");
        assert_eq!(filter.depart(&packet).expect("it leaves"), packet);
    }
    filter.arrive(&ethernet(&ack(0).home_port(port).flags(flag::SYN))).expect("it passes");
    filter.arrive(&ethernet(&ack(0).home_port(port).payload(9))).expect("it passes");
    assert!(filter.arrive(&ethernet(&ack(20_000))).is_none());
    assert_eq!(filter.depart(&carrier).expect("it leaves"), ethernet(&ack(20_000)).bytes);
    filter.now += 10_001 * MILLISECOND;
    let (_, fates) = filter.fate_of(|filter| filter.arrive(&other(40_000)));
    assert_eq!(fates, ["passed first"]);
}

/// Connections differ by their addresses, too: the same ports in the same place are another connection.
#[test]
fn the_same_ports_at_another_address_are_another_connection() {
    const SOURCE: usize = 14 + 12;
    let Some(mut filter) = Filter::for_test("the_same_ports_at_another_address_are_another_connection")
    else {
        return;
    };
    let carrier = filter.arrive(&ethernet(&ack(10_000))).expect("it passes");
    let place = filter.place_in_use().expect("the connection has a place");
    let address = (1..=u16::MAX)
        .map(|n| [10, 1, (n >> 8) as u8, n as u8])
        .find(|address| filter.place_from(*address, craft::endpoint::HOME_PORT) == place)
        .expect("4,096 places, 64,000 addresses");
    let other = (SOURCE..).zip(address).fold(ack(20_000), |packet, (at, byte)| packet.patch(at, byte));
    let (packet, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&other)));
    assert_eq!(fates, ["passed table_full"]);
    let packet = packet.expect("it passes");
    assert_eq!(filter.depart(&packet).expect("it leaves"), packet);
    assert_eq!(filter.depart(&carrier).expect("it leaves"), carrier);
}

/// A FIN or RST behind a carrier that has something to say: the connection is still this one until that has left.
#[test]
fn a_connection_that_ends_is_not_forgotten_while_something_is_pending() {
    let Some(mut filter) =
        Filter::for_test("a_connection_that_ends_is_not_forgotten_while_something_is_pending")
    else {
        return;
    };
    for end in [flag::ACK | flag::FIN, flag::ACK | flag::RST, flag::SYN] {
        filter.reset();
        let carrier = filter.arrive(&ethernet(&ack(10_000))).expect("it passes");
        assert!(filter.arrive(&ethernet(&ack(20_000))).is_none());
        filter.arrive(&ethernet(&ack(20_000).flags(end))).expect("it passes");
        // FIN and SYN take a sequence number.
        let next = 1 + u32::from(end & (flag::FIN | flag::SYN) != 0);
        let (_, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(30_000).seq(next))));
        assert_eq!(fates, ["passed unsafe_carrier"]);
        assert_eq!(filter.depart(&carrier).expect("it leaves"), ethernet(&ack(20_000)).bytes);
    }
}
