//! The rows of the flow table, of which the largest are kept.

use std::cmp::Ordering;
use std::net::{IpAddr, SocketAddr};

use pendulum_model::segment::Direction;
use serde::Serialize;

use super::super::flow::FlowKey;
use super::super::tally::{InFlight, Tally, Turns};

/// Rows in a report.
pub(super) const ROWS_MAX: usize = 1000;

/// One flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    /// Who opened the connection; home if that was not seen. `ip:port`.
    pub client: String,
    /// The other end.
    pub server: String,
    /// The way most of its payload travelled.
    pub direction: Direction,
    /// Payload acknowledged, bits per second of the flow's own time.
    pub goodput_bps: f64,
    /// Payload acknowledged, bytes.
    pub bytes: u64,
    /// First to last segment, seconds.
    pub duration_s: f64,
    /// Smallest round trip, end to end.
    pub rtt_min_s: Option<f64>,
    /// Mean round trip, end to end.
    pub rtt_mean_s: Option<f64>,
    /// Outstanding data over time, in the main direction. Of an upload with a LAN capture: before the uplink buffer.
    pub in_flight_mean_bytes: Option<f64>,
    /// Its maximum.
    pub in_flight_max_bytes: u32,
    /// The sender's mean window: goodput times mean round trip. Includes what stands in the buffer before the WAN capture,
    /// which outstanding data seen there does not.
    pub window_mean_bytes: Option<f64>,
    /// In the main direction.
    pub retransmitted_segments: u64,
    #[serde(skip)]
    key: FlowKey,
}

impl FlowReport {
    /// From the notes of the WAN capture, and those of the LAN capture if there are any.
    pub(super) fn new(key: &FlowKey, tally: &Tally, at_lan: Option<&InFlight>) -> Self {
        let socket = |address, port| SocketAddr::new(IpAddr::from(address).to_canonical(), port);
        let home = socket(key.home_addr, key.home_port);
        let remote = socket(key.remote_addr, key.remote_port);
        let (client, server) = match tally.opener {
            Some(Direction::Down) => (remote, home),
            _ => (home, remote),
        };
        let direction = tally.main_direction();
        let half = &tally.halves[direction];
        let in_flight = match (direction, at_lan) {
            (Direction::Up, Some(lan)) => lan,
            _ => &tally.in_flight,
        };
        let in_flight = &in_flight.halves[direction];
        let bytes = tally.delivered_bytes(direction);
        let rtt_mean_s = end_to_end(tally, Turns::mean_s);
        let duration_s = tally.last_ns.saturating_sub(tally.first_ns.unwrap_or(tally.last_ns)) as f64 / 1e9;
        let goodput_bps = if duration_s > 0.0 { bytes as f64 * 8.0 / duration_s } else { 0.0 };
        Self {
            client: client.to_string(),
            server: server.to_string(),
            direction,
            goodput_bps,
            bytes,
            duration_s,
            rtt_min_s: end_to_end(tally, Turns::min_s),
            rtt_mean_s,
            in_flight_mean_bytes: in_flight.mean(),
            in_flight_max_bytes: in_flight.max,
            window_mean_bytes: rtt_mean_s.map(|seconds| goodput_bps / 8.0 * seconds),
            retransmitted_segments: half.retransmitted_segments,
            key: *key,
        }
    }

    /// Most bytes first; then by their ends, so that the order is always the same.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        other.bytes.cmp(&self.bytes).then_with(|| self.key.cmp(&other.key))
    }
}

/// Both ends' turnarounds together; one alone if the other was never measured.
fn end_to_end(tally: &Tally, pick: fn(&Turns) -> Option<f64>) -> Option<f64> {
    let [up, down] = tally.halves.both();
    match (pick(&up.turns), pick(&down.turns)) {
        (Some(home), Some(remote)) => Some(home + remote),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::super::flow::Flow;
    use super::*;
    use crate::bpf::abi;

    const KEY: FlowKey = FlowKey {
        home_addr: Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets(),
        remote_addr: Ipv4Addr::new(198, 51, 100, 2).to_ipv6_mapped().octets(),
        home_port: 1111,
        remote_port: 2222,
    };

    /// So many bytes outstanding on the way up, and twice as many on the way down.
    fn in_flight(bytes: u32) -> InFlight {
        let mut flow = Flow::default();
        for (half, bytes) in flow.halves.both_mut().into_iter().zip([bytes, 2 * bytes]) {
            half.set(abi::PENDULUM_HALF_SEQ);
            half.set(abi::PENDULUM_HALF_ACK);
            half.seq_next = bytes;
        }
        let mut in_flight = InFlight::default();
        in_flight.note(10, &flow);
        in_flight.note(20, &flow);
        in_flight
    }

    /// Two seconds, in which home sent and the other end sent as much as is given.
    fn tally(up: u64, down: u64) -> Tally {
        let mut tally = Tally::default();
        (tally.first_ns, tally.last_ns) = (Some(1_000_000_000), 3_000_000_000);
        tally.in_flight = in_flight(100);
        for (half, (bytes, lost)) in tally.halves.both_mut().into_iter().zip([(up, 3), (down, 7)]) {
            half.payload_bytes = bytes;
            half.acked_bytes = bytes;
            half.retransmitted_segments = lost;
        }
        tally
    }

    #[test]
    fn a_row_tells_the_direction_of_most_payload() {
        for (tally, direction, bytes, outstanding, lost) in
            [(tally(800, 400), Direction::Up, 800, 100, 3), (tally(400, 600), Direction::Down, 600, 200, 7)]
        {
            let row = FlowReport::new(&KEY, &tally, None);
            assert_eq!((row.direction, row.bytes, row.retransmitted_segments), (direction, bytes, lost));
            assert_eq!(
                (row.in_flight_max_bytes, row.in_flight_mean_bytes),
                (outstanding, Some(outstanding.into()))
            );
            assert_eq!((row.duration_s, row.goodput_bps), (2.0, bytes as f64 * 4.0));
            // Nobody answered in a time that was measured.
            assert_eq!((row.rtt_min_s, row.rtt_mean_s, row.window_mean_bytes), (None, None, None));
        }
    }

    /// What an upload has outstanding stands before the uplink buffer, too: that shows at the LAN.
    #[test]
    fn an_upload_is_followed_at_the_lan_and_a_download_at_the_wan() {
        let at_lan = in_flight(1_000);
        let upload = FlowReport::new(&KEY, &tally(800, 400), Some(&at_lan));
        assert_eq!((upload.in_flight_max_bytes, upload.in_flight_mean_bytes), (1_000, Some(1_000.0)));
        let download = FlowReport::new(&KEY, &tally(400, 600), Some(&at_lan));
        assert_eq!((download.in_flight_max_bytes, download.in_flight_mean_bytes), (200, Some(200.0)));
    }

    #[test]
    fn the_client_is_the_opener_and_home_if_nobody_knows() {
        let (home, remote) = ("192.0.2.1:1111", "198.51.100.2:2222");
        for (opener, client, server) in
            [(None, home, remote), (Some(Direction::Up), home, remote), (Some(Direction::Down), remote, home)]
        {
            let mut tally = tally(1, 2);
            tally.opener = opener;
            let row = FlowReport::new(&KEY, &tally, None);
            assert_eq!((row.client.as_str(), row.server.as_str()), (client, server));
        }
    }

    #[test]
    fn a_single_packet_has_no_rate() {
        let mut tally = tally(800, 400);
        tally.last_ns = 1_000_000_000;
        let row = FlowReport::new(&KEY, &tally, None);
        assert_eq!((row.duration_s, row.goodput_bps, row.bytes), (0.0, 0.0, 800));
    }

    #[test]
    fn the_largest_come_first_and_equal_ones_by_their_ends() {
        let row = |bytes, home_port| FlowReport::new(&FlowKey { home_port, ..KEY }, &tally(bytes, 0), None);
        let mut rows = [row(5, 3), row(9, 2), row(5, 1), row(7, 9)];
        rows.sort_by(FlowReport::order);
        let order: Vec<_> = rows.iter().map(|row| (row.bytes, row.key.home_port)).collect();
        assert_eq!(order, [(9, 2), (7, 9), (5, 1), (5, 3)]);
    }
}
