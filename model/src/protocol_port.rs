//! What carries bytes that are no TCP, as a person would call it.

use std::fmt;

use serde::Serialize;

/// An IP protocol other than TCP, and for UDP the port at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ProtocolPort {
    /// IP protocol number (IANA "Assigned Internet Protocol Numbers").
    pub protocol: u8,
    /// UDP port of the remote end; `None` for other protocols, and for UDP whose header was not seen.
    pub port: Option<u16>,
}

impl ProtocolPort {
    /// The IP protocol number of UDP (RFC 768).
    pub const UDP: u8 = 17;

    /// The protocol's name, if it has one that is in common use.
    pub const fn protocol_name(&self) -> Option<&'static str> {
        Some(match self.protocol {
            1 => "ICMP",
            4 => "IPv4 in IP",
            Self::UDP => "UDP",
            41 => "IPv6 in IP",
            47 => "GRE",
            50 => "ESP",
            58 => "ICMPv6",
            132 => "SCTP",
            _ => return None,
        })
    }
}

impl fmt::Display for ProtocolPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol_name() {
            Some(name) => f.write_str(name)?,
            None => write!(f, "IP protocol {}", self.protocol)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, " port {port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriers_are_called_what_people_call_them() {
        let name = |protocol, port| ProtocolPort { protocol, port }.to_string();
        assert_eq!(name(17, Some(443)), "UDP port 443");
        assert_eq!(name(17, None), "UDP");
        assert_eq!(name(50, None), "ESP");
        assert_eq!(name(99, None), "IP protocol 99");
    }

    /// Numbers as IANA assigned them; one beside each has no name.
    #[test]
    fn protocols_have_the_names_of_their_numbers() {
        let known = [
            (1, "ICMP"),
            (4, "IPv4 in IP"),
            (17, "UDP"),
            (41, "IPv6 in IP"),
            (47, "GRE"),
            (50, "ESP"),
            (58, "ICMPv6"),
            (132, "SCTP"),
        ];
        for (protocol, name) in known {
            assert_eq!(ProtocolPort { protocol, port: None }.protocol_name(), Some(name));
            assert_eq!(ProtocolPort { protocol: protocol + 1, port: None }.protocol_name(), None);
        }
    }
}
