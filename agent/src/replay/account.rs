//! What became of the packets of a capture. Warnings, the reason of `unknown` and the refusal of a capture of which nothing could be used follow
//! from this one account.

use std::collections::BTreeMap;

use pendulum_model::segment::{Direction, PerDirection};
use serde::Serialize;

use super::capture::{CaptureNotes, Record};
use super::packet::{LinkType, Lost, NonTcp, Packet, outline};

/// EtherTypes that are distinguished.
const ETHERTYPES_MAX: usize = 32;

/// Lower values of an EtherType are the length of an LLC frame (IEEE 802.3 §3.2.6).
const ETHERTYPE_MIN: u16 = 0x600;

/// What uses less of a link of 64 kbit/s than 40 % leaves no queue that lasts, bytes per second.
const LIGHT_BYTES_PER_SECOND: f64 = 3_200.0;

/// Why a packet was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// A header cannot be read.
    Unreadable(&'static str),
    /// The frame carries no IP packet that is understood: its EtherType, 0 if it has none.
    NoIp(u16),
    /// Its time is not between those of its neighbours.
    OutOfOrder,
    /// The same packet has just passed.
    Copy,
    /// From a host to itself.
    Loopback,
    /// Which end is home is not known.
    UnknownAddresses,
}

impl LeftOut {
    /// The name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreadable(lost) => lost,
            Self::NoIp(_) => "no_ip",
            Self::OutOfOrder => "out_of_order",
            Self::Copy => "copy",
            Self::Loopback => "loopback",
            Self::UnknownAddresses => "unknown_addresses",
        }
    }

    /// For a sentence that begins with a number of packets.
    fn words(self, homes_named: bool) -> String {
        match self {
            Self::Unreadable(lost) => format!("with unreadable headers ({lost})"),
            Self::NoIp(0) => "without an IP header".to_owned(),
            Self::NoIp(ethertype) => match ethertype {
                ..ETHERTYPE_MIN => "in LLC frames".to_owned(),
                0x0806 => "of ARP".to_owned(),
                0x8847 | 0x8848 => {
                    "in MPLS, which is not read: capture before the labels are added".to_owned()
                }
                0x9100 => {
                    "behind a VLAN tag 0x9100, which is not read: capture on the VLAN's device".to_owned()
                }
                other => format!("of EtherType {other:#06x}, which is not read"),
            },
            Self::OutOfOrder => "with times far from those of their neighbours".to_owned(),
            Self::Copy => {
                "that are in the capture twice, as on the device any: capture on the WAN device".to_owned()
            }
            Self::Loopback => {
                "from a host to itself: capture on the WAN device, not on the loopback device".to_owned()
            }
            Self::UnknownAddresses if homes_named => {
                "between addresses of which none is given with --home PREFIX".to_owned()
            }
            Self::UnknownAddresses => "between unknown addresses; name yours with --home PREFIX".to_owned(),
        }
    }
}

/// Packets, and their bytes on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

/// The account of the WAN capture.
#[derive(Clone, Debug, Default)]
pub struct Account {
    used: PerDirection<Count>,
    left_out: BTreeMap<LeftOut, Count>,
    tunnels: PerDirection<BTreeMap<&'static str, u64>>,
    homes_named: bool,
}

impl Account {
    /// Nothing yet. `homes_named`: the user named the home addresses.
    pub fn new(homes_named: bool) -> Self {
        Self { homes_named, ..Self::default() }
    }

    /// Takes in one packet.
    pub fn note(&mut self, record: &Record<'_>, packet: &Packet, direction: Option<Direction>) {
        let bytes = record.frame().frame_bytes();
        let (Some(direction), None) = (direction, left_out(record, packet, direction)) else {
            let reason = left_out(record, packet, direction).unwrap_or(LeftOut::UnknownAddresses);
            let is_known = self.left_out.contains_key(&reason) || self.left_out.len() < ETHERTYPES_MAX;
            let reason = if is_known { reason } else { LeftOut::NoIp(0) };
            self.left_out.entry(reason).or_default().add(bytes);
            return;
        };
        self.used[direction].add(bytes);
        if let Packet::NonTcp(other) = packet
            && let Some(tunnel) = tunnel(other)
        {
            *self.tunnels[direction].entry(tunnel).or_default() += u64::from(bytes);
        }
    }

    /// Takes in what the reader has passed over.
    pub fn pass_over(&mut self, notes: &CaptureNotes) {
        for (reason, packets) in [(LeftOut::OutOfOrder, notes.out_of_order), (LeftOut::Copy, notes.copies)] {
            if packets > 0 {
                self.left_out.insert(reason, Count { packets, bytes: 0 });
            }
        }
    }

    /// Packets that were used.
    pub fn used(&self) -> u64 {
        self.used.up.packets + self.used.down.packets
    }

    /// Packets that were left out, by reason.
    pub fn left_out(&self) -> BTreeMap<&'static str, u64> {
        let mut by_name = BTreeMap::new();
        for (reason, count) in &self.left_out {
            *by_name.entry(reason.name()).or_default() += count.packets;
        }
        by_name
    }

    /// What was left out, most first, for people.
    pub fn describe_left_out(&self) -> String {
        let mut all: Vec<_> = self.left_out.iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(count.packets));
        let parts = all.iter().take(3).map(|(reason, count)| {
            let packets = if count.packets == 1 { "packet" } else { "packets" };
            format!("{} {packets} {}", count.packets, reason.words(self.homes_named))
        });
        parts.collect::<Vec<_>>().join("; ")
    }

    /// Of each direction, the tunnel that carries more than half of its bytes, and the part that it carries.
    fn tunnelled(&self) -> impl Iterator<Item = (Direction, &'static str, f64)> {
        Direction::ALL.into_iter().filter_map(|x| {
            let (tunnel, bytes) = self.tunnels[x].iter().max_by_key(|(_, bytes)| **bytes)?;
            let part = *bytes as f64 / self.used[x].bytes.max(1) as f64;
            (part > 0.5).then_some((x, *tunnel, part))
        })
    }

    /// Why `clear` cannot be said of this capture, if it cannot.
    pub fn doubt(&self, duration_s: f64) -> Option<String> {
        let left_out: u64 = self.left_out.values().map(|count| count.bytes).sum();
        if left_out > self.used.up.bytes + self.used.down.bytes {
            return Some(format!("most of the capture was left out: {}", self.describe_left_out()));
        }
        self.tunnelled().find_map(|(x, tunnel, part)| {
            let rate = part * self.used[x].bytes as f64 / duration_s.max(1e-9);
            (rate >= LIGHT_BYTES_PER_SECOND).then(|| {
                format!(
                    "{:.0} % of the bytes {} are in {tunnel}, which is not opened",
                    part * 100.0,
                    x.name()
                )
            })
        })
    }

    /// What the user should know.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self
            .left_out
            .iter()
            // What every Ethernet carries is no news.
            .filter(|(reason, _)| !matches!(reason, LeftOut::NoIp(..ETHERTYPE_MIN | 0x0806)))
            .map(|(reason, count)| {
                let were = if count.packets == 1 { "packet was" } else { "packets were" };
                format!("{} {were} left out, {}", count.packets, reason.words(self.homes_named))
            })
            .collect();
        warnings.extend(self.tunnelled().map(|(x, tunnel, part)| {
            format!(
                "{:.0} % of the bytes {} are in {tunnel}: its connections are not seen; capture on the tunnel's own device to \
                 judge them",
                part * 100.0,
                x.name()
            )
        }));
        warnings
    }
}

/// Why a packet is of no use, if it is not.
fn left_out(record: &Record<'_>, packet: &Packet, direction: Option<Direction>) -> Option<LeftOut> {
    let ends = match packet {
        Packet::Tcp(segment) => (segment.source, segment.destination),
        // A later fragment has no TCP header, and that is as it should be.
        Packet::Lost(lost) if *lost != Lost::Fragment => return Some(LeftOut::Unreadable(lost.name())),
        Packet::NonTcp(_) | Packet::Lost(_) => match outline(&record.frame()) {
            Some(outline) => (outline.source, outline.destination),
            None => return Some(LeftOut::NoIp(ethertype(record))),
        },
    };
    match direction {
        _ if ends.0 == ends.1 => Some(LeftOut::Loopback),
        None => Some(LeftOut::UnknownAddresses),
        Some(_) => None,
    }
}

fn ethertype(record: &Record<'_>) -> u16 {
    let at = match record.link_type {
        LinkType::Ethernet => 12,
        LinkType::LinuxSll => 14,
        LinkType::LinuxSll2 => 0,
        LinkType::RawIp | LinkType::Ppp | LinkType::PppEther | LinkType::Null => return 0,
    };
    record.bytes.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, u16::from_be_bytes)
}

/// What carries other packets, by protocol number or the ports that IANA has given it.
fn tunnel(packet: &NonTcp) -> Option<&'static str> {
    let by_port = |port: &u16| match port {
        500 | 4_500 => Some("IPsec"),
        1_194 => Some("OpenVPN"),
        1_701 => Some("L2TP"),
        2_152 => Some("GTP"),
        4_789 | 8_472 => Some("VXLAN"),
        6_081 => Some("Geneve"),
        51_820 => Some("WireGuard"),
        _ => None,
    };
    match packet.protocol? {
        4 => Some("IP in IP"),
        41 => Some("IPv6 in IP"),
        47 => Some("GRE"),
        50 => Some("IPsec"),
        115 => Some("L2TP"),
        137 => Some("MPLS in IP"),
        _ => packet.udp?.ports?.iter().find_map(by_port),
    }
}
