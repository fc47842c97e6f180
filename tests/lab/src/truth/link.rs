//! Device counters by `ip -s -j link`.

use serde::Deserialize;

use super::TruthError;
use crate::netns::Host;

/// What a device has sent and received since it was made, in link-layer bytes. A super-packet of an offload counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
}

#[derive(Deserialize)]
struct Link {
    stats64: Stats,
}

#[derive(Deserialize)]
struct Stats {
    rx: Counts,
    tx: Counts,
}

#[derive(Deserialize)]
struct Counts {
    bytes: u64,
    packets: u64,
}

impl LinkCounters {
    /// Reads a device's counters now.
    ///
    /// # Errors
    /// If ip fails or the device is not there.
    pub fn take(host: &Host, device: &str) -> Result<Self, TruthError> {
        let json = host.run("ip", &["-s", "-j", "link", "show", "dev", device])?;
        parse(&json).map_err(|reason| TruthError::Format {
            tool: "ip -s -j link",
            device: device.into(),
            reason,
        })
    }
}

fn parse(json: &str) -> Result<LinkCounters, String> {
    let links: Vec<Link> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let Stats { rx, tx } = links.into_iter().next().ok_or("no device is listed")?.stats64;
    Ok(LinkCounters {
        received_bytes: rx.bytes,
        received_packets: rx.packets,
        sent_bytes: tx.bytes,
        sent_packets: tx.packets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_are_read() {
        let json = r#"[{"ifindex":2,"ifname":"wan0","stats64":{"rx":{"bytes":150,"packets":1,"errors":0},
            "tx":{"bytes":300,"packets":2,"errors":0}}}]"#;
        let expected =
            LinkCounters { received_bytes: 150, received_packets: 1, sent_bytes: 300, sent_packets: 2 };
        assert_eq!(parse(json), Ok(expected));
        assert!(parse("[]").is_err());
    }
}
