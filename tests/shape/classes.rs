//! What the filter leaves alone.

use crate::craft::{self, Tcp, flag};
use crate::decisions::{ack, ethernet};
use crate::kernel::Filter;

/// What is no pure ACK passes on both passes as it came, its words and its class too, with a filter that is on.
#[test]
fn everything_else_passes_untouched() {
    let Some(mut filter) = Filter::for_test("everything_else_passes_untouched") else { return };
    let packets: [Tcp; 18] = [
        ack(1).payload(100),
        craft::up().v6().payload(100),
        craft::up().flags(flag::SYN),
        craft::up().v6().flags(flag::SYN),
        ack(1).flags(flag::SYN | flag::ACK),
        craft::up().flags(flag::SYN | flag::ECE | flag::CWR),
        craft::up().flags(flag::SYN).payload(10),
        craft::up().flags(flag::SYN | flag::FIN),
        ack(1).flags(flag::ACK | flag::FIN),
        ack(1).flags(flag::ACK | flag::RST),
        ack(1).flags(flag::ACK | flag::URG),
        ack(1).flags(0),
        ack(1).fragment(0x2000),
        ack(1).ip_options(&[1, 1, 1, 0]),
        ack(1).vlan(0x8100, 7),
        ack(1).pppoe(),
        ack(1).protocol(17),
        ack(1).v6().extension(0, &[0; 6]),
    ];
    for packet in packets {
        let (queued, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&packet)));
        let queued = queued.expect("it passes");
        assert_eq!(fates, [""; 0]);
        assert_eq!(filter.depart(&queued).expect("it passes"), queued);
    }
}
