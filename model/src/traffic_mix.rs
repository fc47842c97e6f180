//! What fills a buffer: the shares of what entered it, by kind.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Name;
use crate::findings::Figure;
use crate::sample::Composition;
use crate::segment::Direction;

named! {
    /// A kind of traffic, as it matters to a queue.
    pub enum Kind {
        /// TCP segments with data.
        TcpData = "tcp_data",
        /// Pure TCP ACKs.
        Ack = "ack",
        /// UDP: QUIC, WireGuard, voice and video.
        Udp = "udp",
        /// ESP, ICMP and everything else.
        Other = "other",
    }
}

impl Kind {
    const fn figure_name(self, buffer: Direction) -> &'static str {
        const UPLINK: [&str; 4] =
            ["uplink_share_tcp_data", "uplink_share_ack", "uplink_share_udp", "uplink_share_other"];
        const DOWNLINK: [&str; 4] =
            ["downlink_share_tcp_data", "downlink_share_ack", "downlink_share_udp", "downlink_share_other"];
        buffer.pick(UPLINK, DOWNLINK)[self as usize]
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::TcpData => "TCP data",
            Self::Ack => "TCP ACKs",
            Self::Udp => "UDP",
            Self::Other => "neither TCP nor UDP",
        })
    }
}

/// The main traffic in a buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// `tcp_data`, `ack`, `udp` or `other`.
    pub kind: Name,
    /// Its share of the bytes that entered, 0 to 1.
    pub share: f64,
}

/// The kind with the largest share of what entered a buffer, and that share; `None` if nothing is known to have entered.
pub(crate) fn largest(composition: &Composition) -> Option<(Kind, f64)> {
    let shares = composition.shares()?.map(|(_, share)| share);
    Kind::ALL.into_iter().zip(shares).max_by(|one, two| one.1.total_cmp(&two.1))
}

/// "; 87 % of the traffic in the uplink's buffer is UDP", the end of a sentence; empty if that is not known.
pub(crate) fn main_traffic(composition: &Composition, buffer: Direction) -> String {
    largest(composition).map_or(String::new(), |(kind, share)| {
        format!("; {:.0} % of the traffic in the {}link's buffer is {kind}", share * 1e2, buffer.name())
    })
}

/// The shares as figures for evidence; empty if they are not known.
pub(crate) fn figures(composition: &Composition, buffer: Direction) -> impl Iterator<Item = Figure> + use<> {
    let shares = composition.shares().into_iter().flatten();
    Kind::ALL
        .into_iter()
        .zip(shares)
        .map(move |(kind, (_, share))| Figure::new(kind.figure_name(buffer), share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_by_hand() {
        let composition = Composition { tcp_data: 50, ack: 60, udp: 870, other: 20 };
        assert_eq!(largest(&composition), Some((Kind::Udp, 0.87)));
        let words = main_traffic(&composition, Direction::Up);
        assert_eq!(words, "; 87 % of the traffic in the uplink's buffer is UDP");
        let shares = [
            ("downlink_share_tcp_data", 0.05),
            ("downlink_share_ack", 0.06),
            ("downlink_share_udp", 0.87),
            ("downlink_share_other", 0.02),
        ];
        assert!(
            figures(&composition, Direction::Down).eq(shares.map(|(name, share)| Figure::new(name, share)))
        );
        let names: Vec<_> = figures(&composition, Direction::Up).map(|figure| figure.name).collect();
        assert_eq!(
            names,
            ["uplink_share_tcp_data", "uplink_share_ack", "uplink_share_udp", "uplink_share_other"]
        );
        assert_eq!(largest(&Composition::default()), None);
        assert_eq!(main_traffic(&Composition::default(), Direction::Up), "");
        assert_eq!(figures(&Composition::default(), Direction::Up).count(), 0);
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("json"), kind.name());
        }
    }
}
