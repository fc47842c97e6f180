//! Connection tracking by ctnetlink: which host a connection belongs to where this machine translates addresses.
//!
//! One question for one connection (`IPCTNL_MSG_CT_GET`), by the tuple that its packets from the remote end have on the
//! WAN. The kernel finds the entry whichever end opened the connection: that tuple is the reply's of what home opened, and
//! the original one of what was forwarded to home (net/netfilter/nf_conntrack_netlink.c).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use thiserror::Error;

use super::message::{Attributes, attribute, code};
use super::request::Questions;

/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET`, <linux/netfilter/nfnetlink_conntrack.h>.
const GET: u16 = 1 << 8 | 1;
/// `CTA_TUPLE_ORIG`, `CTA_TUPLE_REPLY`.
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
/// `CTA_TUPLE_IP`, `CTA_TUPLE_PROTO`.
const TUPLE_IP: u16 = 1;
const TUPLE_PROTO: u16 = 2;
/// `CTA_IP_V4_SRC` and `_DST`, `CTA_IP_V6_SRC` and `_DST`.
const V4: [u16; 2] = [1, 2];
const V6: [u16; 2] = [3, 4];
/// `CTA_PROTO_NUM`, `CTA_PROTO_SRC_PORT`, `CTA_PROTO_DST_PORT`.
const PROTO_NUM: u16 = 1;
const PORTS: [u16; 2] = [2, 3];
const TCP: u8 = 6;
/// `struct nfgenmsg`.
const NFGENMSG: usize = 4;

/// Is there where the kernel can track connections at all; holds how many it tracks in this network namespace.
const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";

/// Why connection tracking cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoConntrack {
    /// `CAP_NET_ADMIN` is missing, or netlink is not allowed.
    #[error(
        "{}: give the agent CAP_NET_ADMIN, and let it keep it with privileges.after-start = \"reattach\"",
        self.reason()
    )]
    NotAllowed,
    /// The kernel tracks connections, and cannot be asked about them.
    #[error("{}: modprobe nf_conntrack_netlink (OpenWrt: install kmod-nf-conntrack-netlink)", self.reason())]
    NoModule,
}

impl NoConntrack {
    /// The reason without the remedy.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotAllowed => "this process may not ask connection tracking, which needs CAP_NET_ADMIN",
            Self::NoModule => {
                "the kernel tracks connections, but lacks nf_conntrack_netlink to be asked about them"
            }
        }
    }
}

/// What connection tracking says of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Original {
    /// The home end's own address and port; those on the WAN where they are not translated.
    Known(SocketAddr),
    /// The connection is not tracked, or no longer.
    NotTracked,
    /// No connection of this network namespace is tracked: netfilter translates nothing here.
    NothingTracked,
}

/// A way to ask.
#[derive(Debug)]
pub struct Conntrack {
    /// None where the kernel has no connection tracking.
    questions: Option<Questions>,
}

impl Conntrack {
    /// Makes ready to ask, and asks once for a connection that there is not.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn open() -> Result<Self, NoConntrack> {
        // Without it nothing is translated. To ask nevertheless would load the module, which is not ours to do.
        if !Path::new(COUNT).exists() {
            return Ok(Self { questions: None });
        }
        let questions = Questions::open(NETLINK_NETFILTER).map_err(|error| refusal(&error))?;
        let mut conntrack = Self { questions: Some(questions) };
        let nobody = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        conntrack.original(nobody, nobody).map_err(|error| refusal(&error))?;
        Ok(conntrack)
    }

    /// Whether the kernel can track connections.
    pub fn is_there(&self) -> bool {
        self.questions.is_some()
    }

    /// The home end of the TCP connection that has these two ends on the WAN.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn original(&mut self, home: SocketAddr, remote: SocketAddr) -> io::Result<Original> {
        let Some(questions) = &mut self.questions else { return Ok(Original::NothingTracked) };
        let arriving = Tuple { source: remote, destination: home };
        match questions.ask(GET, &header(home), &Attributes::new().with_nested(REPLY, &arriving.attributes()))
        {
            Ok(entry) => Ok(original(&entry, arriving).map_or(Original::NotTracked, Original::Known)),
            Err(error) if code(&error) == Some(libc::ENOENT) => {
                Ok(if tracks_nothing() { Original::NothingTracked } else { Original::NotTracked })
            }
            Err(error) => Err(error),
        }
    }
}

/// A connection that lives is one that would be counted.
fn tracks_nothing() -> bool {
    std::fs::read_to_string(COUNT).is_ok_and(|count| count.trim() == "0")
}

/// nfnetlink says EPERM to who lacks the right, EINVAL where no module serves the subsystem.
fn refusal(error: &io::Error) -> NoConntrack {
    match code(error) {
        Some(libc::EPERM | libc::EACCES | libc::EAFNOSUPPORT) => NoConntrack::NotAllowed,
        _ => NoConntrack::NoModule,
    }
}

/// `struct nfgenmsg`: family, version 0, no resource.
fn header(end: SocketAddr) -> [u8; NFGENMSG] {
    let family = if end.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    [u8::try_from(family).unwrap_or_default(), 0, 0, 0]
}

/// The ends of a connection as the packets of one direction have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tuple {
    source: SocketAddr,
    destination: SocketAddr,
}

impl Tuple {
    fn attributes(self) -> Attributes {
        let ends = [self.source, self.destination];
        let mut addresses = Attributes::new();
        let mut ports = Attributes::new().with(PROTO_NUM, &[TCP]);
        for (index, end) in ends.into_iter().enumerate() {
            addresses = match end.ip() {
                IpAddr::V4(v4) => addresses.with(V4[index], &v4.octets()),
                IpAddr::V6(v6) => addresses.with(V6[index], &v6.octets()),
            };
            ports = ports.with(PORTS[index], &end.port().to_be_bytes());
        }
        Attributes::new().with_nested(TUPLE_IP, &addresses).with_nested(TUPLE_PROTO, &ports)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (addresses, ports) = (attribute(bytes, TUPLE_IP)?, attribute(bytes, TUPLE_PROTO)?);
        let end = |index: usize| {
            let v4 = || <[u8; 4]>::try_from(attribute(addresses, V4[index])?).ok();
            let v6 = || <[u8; 16]>::try_from(attribute(addresses, V6[index])?).ok();
            let ip = v4().map(|octets| IpAddr::V4(Ipv4Addr::from(octets)));
            let ip = ip.or_else(|| Some(IpAddr::V6(Ipv6Addr::from(v6()?))))?;
            let port = <[u8; 2]>::try_from(attribute(ports, PORTS[index])?).ok()?;
            Some(SocketAddr::new(ip, u16::from_be_bytes(port)))
        };
        Some(Self { source: end(0)?, destination: end(1)? })
    }
}

/// The home end of an entry, of which packets from the remote end have the tuple `arriving`: where those of the other
/// direction come from.
fn original(entry: &[u8], arriving: Tuple) -> Option<SocketAddr> {
    let attributes = entry.get(NFGENMSG..)?;
    let tuple = |kind| Tuple::parse(attribute(attributes, kind)?);
    let (original, reply) = (tuple(ORIGINAL)?, tuple(REPLY)?);
    if arriving == reply {
        Some(original.source)
    } else if arriving == original {
        Some(reply.source)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// The kernel's entry for a connection with these two tuples, as ctnetlink writes it.
    fn entry(original: Tuple, reply: Tuple) -> Vec<u8> {
        let attributes = Attributes::new()
            .with_nested(ORIGINAL, &original.attributes())
            .with_nested(REPLY, &reply.attributes())
            .with_u32(3, 0x18e_u32.to_be());
        [&header(original.source)[..], attributes.bytes()].concat()
    }

    fn tuple(source: &str, destination: &str) -> Tuple {
        Tuple { source: end(source), destination: end(destination) }
    }

    #[test]
    fn the_question_is_what_the_kernel_reads() {
        // Worked out by hand from nfnetlink_conntrack.h: ports in network order, all nested but the leaves.
        let bytes = tuple("198.51.100.7:443", "203.0.113.5:40000").attributes();
        let by_hand = [
            [20, 0, 1, 0x80].as_slice(),
            &[8, 0, 1, 0, 198, 51, 100, 7],
            &[8, 0, 2, 0, 203, 0, 113, 5],
            &[28, 0, 2, 0x80],
            &[5, 0, 1, 0, 6, 0, 0, 0],
            &[6, 0, 2, 0, 0x01, 0xbb, 0, 0],
            &[6, 0, 3, 0, 0x9c, 0x40, 0, 0],
        ];
        assert_eq!(bytes.bytes(), by_hand.concat());
        assert_eq!(Tuple::parse(bytes.bytes()), Some(tuple("198.51.100.7:443", "203.0.113.5:40000")));
    }

    #[test]
    fn whoever_opened_it_home_is_found() {
        let arriving = tuple("198.51.100.7:443", "203.0.113.5:40000");
        // Masqueraded: home opened it.
        let out = entry(tuple("192.168.1.7:51000", "198.51.100.7:443"), arriving);
        assert_eq!(original(&out, arriving), Some(end("192.168.1.7:51000")));
        // Forwarded to home: the remote end opened it, to a port of the gateway.
        let arriving = tuple("198.51.100.7:33333", "203.0.113.5:8080");
        let forwarded = entry(arriving, tuple("192.168.1.9:80", "198.51.100.7:33333"));
        assert_eq!(original(&forwarded, arriving), Some(end("192.168.1.9:80")));
        // Not translated: the gateway's own.
        let own = entry(tuple("203.0.113.5:8080", "198.51.100.7:33333"), arriving);
        assert_eq!(original(&own, arriving), Some(end("203.0.113.5:8080")));
        // IPv6, translated too.
        let arriving = tuple("[2001:db8:f::7]:443", "[2001:db8::5]:40000");
        let six = entry(tuple("[fd00::7]:51000", "[2001:db8:f::7]:443"), arriving);
        assert_eq!(original(&six, arriving), Some(end("[fd00::7]:51000")));
    }

    #[test]
    fn what_does_not_fit_says_nothing() {
        let arriving = tuple("198.51.100.7:443", "203.0.113.5:40000");
        let other = tuple("198.51.100.7:444", "203.0.113.5:40000");
        let whole = entry(tuple("192.168.1.7:51000", "198.51.100.7:443"), arriving);
        assert_eq!(original(&whole, other), None, "another connection");
        for length in 0..whole.len() - 8 {
            assert_eq!(original(&whole[..length], arriving), None, "cut off at {length}");
        }
    }

    #[test]
    fn refusals_name_the_reason_and_the_remedy() {
        let refusal = |code| refusal(&io::Error::from_raw_os_error(code));
        assert_eq!(refusal(libc::EPERM), NoConntrack::NotAllowed);
        assert_eq!(refusal(libc::EINVAL), NoConntrack::NoModule);
        assert_eq!(refusal(libc::EPROTONOSUPPORT), NoConntrack::NoModule);
        assert!(NoConntrack::NotAllowed.to_string().contains("CAP_NET_ADMIN"));
        assert!(NoConntrack::NoModule.to_string().contains("modprobe nf_conntrack_netlink"));
    }
}
