//! TCP sockets by `ss -ti`: bytes delivered, congestion window and round-trip time, as the kernel itself has them.

use std::time::Duration;

use super::TruthError;
use crate::netns::Host;

/// One TCP socket at one moment. Fields that ss leaves out are zero there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SocketReading {
    /// Own address and port, as ss prints them.
    pub local: String,
    /// The other end's.
    pub peer: String,
    /// Congestion control in use.
    pub congestion_control: String,
    /// Payload bytes received in order so far (`tcpi_bytes_received`). What waits behind a hole is not in it yet, so it
    /// stands still after a loss and then jumps by up to a window.
    pub received_bytes: u64,
    /// Payload bytes acknowledged by the other end so far.
    pub acked_bytes: u64,
    /// Segments delivered so far, as this end knows from ACKs and SACKs, each once (`tcpi_delivered`): no jumps after a loss.
    pub delivered_segments: u64,
    /// Payload bytes sent so far, those sent again included (`tcpi_bytes_sent`).
    pub sent_bytes: u64,
    /// Payload bytes sent again so far.
    pub retransmitted_bytes: u64,
    /// Segments sent again so far (`tcpi_total_retrans`).
    pub retransmitted_segments: u64,
    /// Congestion window, segments.
    pub cwnd_segments: u64,
    /// Largest segment's payload, bytes.
    pub mss_bytes: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
}

impl SocketReading {
    /// Payload delivered so far, bytes, if all segments are full: right for bulk data only.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_segments * self.mss_bytes
    }

    /// Payload bytes sent and not yet acknowledged: highest sequence sent less highest ACK, as the agent counts it.
    pub fn outstanding_bytes(&self) -> u64 {
        self.sent_bytes.saturating_sub(self.retransmitted_bytes).saturating_sub(self.acked_bytes)
    }

    /// Whether one of its ends has this TCP port.
    pub fn has_port(&self, port: u16) -> bool {
        let ends = [&self.local, &self.peer];
        ends.iter().any(|end| end.rsplit_once(':').is_some_and(|(_, p)| p.parse() == Ok(port)))
    }

    /// Whether this socket sends bulk data. iperf3's control connection sends next to nothing.
    pub fn sends_bulk(&self) -> bool {
        self.acked_bytes > 10_000
    }
}

/// Reads all TCP sockets of a host that are connected or connecting; listening ones are not among them.
///
/// # Errors
/// If ss fails.
pub fn read_sockets(host: &Host) -> Result<Vec<SocketReading>, TruthError> {
    let text = host.run("ss", &["-tinHO", "state", "connected"])?;
    Ok(text.lines().filter_map(parse).collect())
}

/// One line of `ss -tinHO`: state, two queues, two addresses, then the congestion control's name among words and `key:value` pairs.
fn parse(line: &str) -> Option<SocketReading> {
    let mut words = line.split_ascii_whitespace();
    // With `state connected` ss still prints the state, because that class holds several.
    let (local, peer) = (words.nth(3)?, words.next()?);
    let mut reading = SocketReading { local: local.into(), peer: peer.into(), ..SocketReading::default() };
    for word in words {
        let Some((key, value)) = word.split_once(':') else {
            // The first bare word is the algorithm, unless it is one of the option flags that come before it.
            if reading.congestion_control.is_empty()
                && !matches!(word, "ts" | "sack" | "ecn" | "ecnseen" | "fastopen")
            {
                reading.congestion_control = word.into();
            }
            continue;
        };
        let number = || value.parse().unwrap_or(0);
        match key {
            "bytes_received" => reading.received_bytes = number(),
            "bytes_acked" => reading.acked_bytes = number(),
            "delivered" => reading.delivered_segments = number(),
            "bytes_sent" => reading.sent_bytes = number(),
            "bytes_retrans" => reading.retransmitted_bytes = number(),
            // Now unacknowledged, and in all: `retrans:0/12`.
            "retrans" => {
                reading.retransmitted_segments =
                    value.split('/').nth(1).and_then(|total| total.parse().ok()).unwrap_or(0);
            }
            "cwnd" => reading.cwnd_segments = number(),
            "mss" => reading.mss_bytes = number(),
            "rtt" => {
                let millis = value.split('/').next()?.parse::<f64>().unwrap_or(0.0);
                reading.rtt = Duration::try_from_secs_f64(millis / 1000.0).unwrap_or_default();
            }
            _ => {}
        }
    }
    Some(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_s_line_is_read() {
        let line = "ESTAB 0      0      [::ffff:198.18.2.2]:5300  [::ffff:192.168.1.3]:50734 ts sack reno wscale:10,10 rto:204 \
                    rtt:1204.5/0.006 ato:40 mss:1448 pmtu:1500 cwnd:10 bytes_received:262181 bytes_retrans:1448 segs_out:8 send 1bps delivered:77";
        let reading = parse(line).unwrap();
        assert_eq!(reading.local, "[::ffff:198.18.2.2]:5300");
        assert_eq!(reading.peer, "[::ffff:192.168.1.3]:50734");
        assert_eq!(reading.congestion_control, "reno");
        assert_eq!((reading.received_bytes, reading.retransmitted_bytes), (262_181, 1448));
        assert_eq!((reading.cwnd_segments, reading.mss_bytes), (10, 1448));
        assert_eq!(reading.delivered_segments, 77);
        assert_eq!(reading.rtt, Duration::from_micros(1_204_500));
    }

    #[test]
    fn a_sender_s_line_tells_what_is_outstanding() {
        let line = "ESTAB 0 52128 192.168.1.3:50734 198.18.2.2:5300 ts sack reno rtt:1204.5/30.1 mss:1448 cwnd:36 bytes_sent:562000 \
                    bytes_retrans:2896 bytes_acked:500001 unacked:41 retrans:0/2 lost:1 sacked:3 delivered:350";
        let reading = parse(line).unwrap();
        assert_eq!(reading.outstanding_bytes(), 562_000 - 2896 - 500_001);
        assert_eq!(reading.retransmitted_segments, 2);
        assert!(reading.sends_bulk());
    }

    #[test]
    fn a_cut_line_is_no_socket() {
        assert_eq!(parse("ESTAB 0 0 1.2.3.4:5"), None);
        assert_eq!(parse(""), None);
    }
}
