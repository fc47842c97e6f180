//! `probe = "first-hop"`: the provider's first hop is asked where nobody else tells how long packets wait.
//!
//! Its replies are measured as those of all others (`bpf/packet/requests.h`); here is only who is asked, and when. To find the hop, a packet is sent to
//! nobody whose TTL ends on the way: the router there says so (RFC 792). What it is asked then is an echo request.

use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use pendulum_model::autorate::Need;
use pendulum_model::constants::{FORGOTTEN, RECENT};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::bpf;

/// For documentation (RFC 5737): no host has it.
const NOBODY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Between two packets, at least. While others tell how long packets wait, it is [`RECENT`]: what the hop takes without a queue must be known before it is
/// needed.
const INTERVAL: Duration = Duration::from_millis(250);
/// Once it has replied so often, that is known.
const KNOWN: u32 = 3;
/// The first hop may be a modem that routes: the provider's first one is not farther away than this.
const HOPS: u8 = 4;
/// No hop of these is asked once it has been silent for so long: a full buffer holds a packet for a second or two.
const PATIENCE: Duration = Duration::from_secs(3);
/// Its usual value.
const FAR: u8 = 64;

const ECHO_REPLY: u8 = 0;
const ECHO: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
/// An ICMP header, and so much payload.
const BYTES: usize = 8 + 8;
/// Read at once: nobody's flood keeps the link's thread.
const READ_MOST: usize = 64;

/// A packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbePacket {
    /// To nobody, with this TTL.
    Who(u8),
    /// To this hop.
    Echo(Ipv4Addr),
}

/// A packet that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// The TTL of [`ProbePacket::Who`] ended at this router.
    Expired { hop: Ipv4Addr, ttl: u8 },
    /// This hop replied.
    Reply(Ipv4Addr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Search {
        ttl: u8,
    },
    Ask {
        ttl: u8,
        hop: Ipv4Addr,
        replies: u32,
    },
    /// Until [`FORGOTTEN`].
    GivenUp {
        since: Duration,
    },
}

/// Who replies: of interest when that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstHop {
    /// This one.
    Found(Ipv4Addr),
    /// None of those that may be the first.
    Missing,
}

/// Who is asked, and when.
#[derive(Debug)]
struct ProbeSchedule {
    stage: Stage,
    sent_at: Option<Duration>,
    /// The first packet since something was heard.
    waits_since: Option<Duration>,
}

impl ProbeSchedule {
    const fn new() -> Self {
        Self { stage: Stage::Search { ttl: 1 }, sent_at: None, waits_since: None }
    }

    /// The packet to be sent now, if any.
    fn next(&mut self, now: Duration, need: Need) -> Option<ProbePacket> {
        let interval = match (need, self.stage) {
            (Need::Nobody, _) => return None,
            (Need::Others, Stage::Ask { replies: KNOWN.., .. }) => RECENT,
            (Need::Others | Need::FirstHop, _) => INTERVAL,
        };
        let pause = self.sent_at.map(|at| now.saturating_sub(at));
        if pause.is_some_and(|pause| pause < interval) {
            return None;
        }
        if pause.is_some_and(|pause| pause > PATIENCE) {
            self.waits_since = None;
        }
        if self.waits_since.is_some_and(|since| now.saturating_sub(since) > PATIENCE) {
            self.go_on(now);
        }
        let packet = match self.stage {
            Stage::GivenUp { since } if now.saturating_sub(since) < FORGOTTEN => return None,
            Stage::GivenUp { .. } => {
                self.stage = Stage::Search { ttl: 1 };
                ProbePacket::Who(1)
            }
            Stage::Search { ttl } => ProbePacket::Who(ttl),
            Stage::Ask { hop, .. } => ProbePacket::Echo(hop),
        };
        self.sent_at = Some(now);
        self.waits_since.get_or_insert(now);
        Some(packet)
    }

    fn hear(&mut self, now: Duration, heard: Heard) {
        match (self.stage, heard) {
            // An address of a private network is the home's: a modem that routes.
            (Stage::Search { ttl }, Heard::Expired { hop, ttl: ended }) if ttl == ended => {
                if hop.is_private() || hop.is_link_local() {
                    self.go_on(now);
                } else {
                    self.stage = Stage::Ask { ttl, hop, replies: 0 };
                }
            }
            (Stage::Ask { ttl, hop, replies }, Heard::Reply(from)) if hop == from => {
                self.stage = Stage::Ask { ttl, hop, replies: replies.saturating_add(1) };
            }
            _ => return,
        }
        self.waits_since = None;
    }

    /// The next hop, or again from the first one if the one that replied does not any more.
    fn go_on(&mut self, now: Duration) {
        self.waits_since = None;
        self.stage = match self.stage {
            Stage::Ask { replies: 1.., .. } => Stage::Search { ttl: 1 },
            Stage::Search { ttl } | Stage::Ask { ttl, .. } if ttl < HOPS => Stage::Search { ttl: ttl + 1 },
            _ => Stage::GivenUp { since: now },
        };
    }

    /// `None` while it is looked for.
    fn found(&self) -> Option<FirstHop> {
        match self.stage {
            Stage::Ask { hop, replies: 1.., .. } => Some(FirstHop::Found(hop)),
            Stage::GivenUp { .. } => Some(FirstHop::Missing),
            Stage::Ask { .. } | Stage::Search { .. } => None,
        }
    }

    fn hop(&self) -> Option<Ipv4Addr> {
        match self.stage {
            Stage::Ask { hop, .. } => Some(hop),
            Stage::Search { .. } | Stage::GivenUp { .. } => None,
        }
    }
}

/// Asks on one WAN device.
#[derive(Debug)]
pub(super) struct Prober {
    socket: Socket,
    identifier: u16,
    count: u16,
    schedule: ProbeSchedule,
    /// As last reported.
    found: Option<FirstHop>,
    /// Packets sent.
    pub(super) sent: u64,
}

impl Prober {
    /// On this device.
    ///
    /// # Errors
    /// If there is no such device, or `CAP_NET_RAW` is missing.
    pub(super) fn open(wan: &str) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW.nonblocking(), Some(Protocol::ICMPV4))?;
        socket.bind_device(Some(wan.as_bytes()))?;
        let identifier = std::process::id() as u16;
        Ok(Self { socket, identifier, count: 0, schedule: ProbeSchedule::new(), found: None, sent: 0 })
    }

    /// Ten times a second: what has come, and the next packet if one is due. What cannot be sent now is asked the next time. Returns who replies if that is
    /// news.
    pub(super) fn turn(&mut self, now: Duration, need: Need) -> Option<FirstHop> {
        let mut packet = [0; 256];
        for _ in 0..READ_MOST {
            let Ok(bytes) = (&self.socket).read(&mut packet) else { break };
            if let Some(heard) = packet.get(..bytes).and_then(|packet| read(packet, self.identifier)) {
                self.schedule.hear(now, heard);
            }
        }
        if let Some(packet) = self.schedule.next(now, need) {
            self.send(packet);
        }
        let found = self.schedule.found().filter(|found| self.found != Some(*found))?;
        self.found = Some(found);
        Some(found)
    }

    fn send(&mut self, packet: ProbePacket) {
        let (to, ttl) = match packet {
            ProbePacket::Who(ttl) => (NOBODY, ttl),
            ProbePacket::Echo(hop) => (hop, FAR),
        };
        self.count = self.count.wrapping_add(1);
        let message = echo(self.identifier, sequence(self.count, packet));
        let to = SockAddr::from(SocketAddrV4::new(to, 0));
        let sent = self.socket.set_ttl_v4(ttl.into()).and_then(|()| self.socket.send_to(&message, &to));
        self.sent += u64::from(sent.is_ok());
    }

    /// The number by which replies of the hop are known, once it was found.
    pub(super) fn hop(&self) -> Option<u32> {
        self.schedule.hop().map(|hop| bpf::address_number(hop.into()))
    }
}

/// The lowest three bits tell the TTL, 0 of an echo request to a hop.
const fn sequence(count: u16, packet: ProbePacket) -> u16 {
    let ttl = match packet {
        ProbePacket::Who(ttl) => ttl as u16,
        ProbePacket::Echo(_) => 0,
    };
    count << 3 | ttl
}

/// An echo request (RFC 792).
fn echo(identifier: u16, sequence: u16) -> [u8; BYTES] {
    let mut message = [0; BYTES];
    message[0] = ECHO;
    message[4..6].copy_from_slice(&identifier.to_be_bytes());
    message[6..8].copy_from_slice(&sequence.to_be_bytes());
    let sum = message.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    message[2..4].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    message
}

/// An IPv4 packet with an ICMP message, if it is about one of ours.
fn read(packet: &[u8], identifier: u16) -> Option<Heard> {
    let (source, _, message) = unwrap_ipv4(packet)?;
    match *message.first_chunk::<8>()? {
        [ECHO_REPLY, _, _, _, a, b, _, _] if u16::from_be_bytes([a, b]) == identifier => {
            Some(Heard::Reply(source))
        }
        [TIME_EXCEEDED, 0, ..] => {
            let (_, to, ours) = unwrap_ipv4(message.get(8..)?)?;
            let [kind, _, _, _, a, b, _, low] = *ours.first_chunk::<8>()?;
            let is_ours = to == NOBODY && kind == ECHO && u16::from_be_bytes([a, b]) == identifier;
            is_ours.then_some(Heard::Expired { hop: source, ttl: low & 7 })
        }
        _ => None,
    }
}

/// Where an IPv4 packet comes from and goes to, and what is in it.
fn unwrap_ipv4(packet: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr, &[u8])> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let address = |at: usize| packet.get(at..)?.first_chunk::<4>().copied().map(Ipv4Addr::from);
    Some((address(12)?, address(16)?, packet.get(header..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEM: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 1);
    const HOP: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
    const OTHER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Asked ten times a second from `from_s` to `to_s`; `hears`: what comes for each packet before the next turn. Returns the packets with their times.
    fn run(
        schedule: &mut ProbeSchedule,
        [from_s, to_s]: [u64; 2],
        hears: impl Fn(ProbePacket) -> Option<Heard>,
    ) -> Vec<(Duration, ProbePacket)> {
        let mut sent = Vec::new();
        for turn in from_s * 10..to_s * 10 {
            let now = at(turn * 100);
            if let Some(packet) = schedule.next(now, Need::FirstHop) {
                sent.push((now, packet));
                if let Some(heard) = hears(packet) {
                    schedule.hear(now, heard);
                }
            }
        }
        sent
    }

    /// The modem routes, the hop behind it replies.
    fn behind_a_modem(packet: ProbePacket) -> Option<Heard> {
        match packet {
            ProbePacket::Who(1) => Some(Heard::Expired { hop: MODEM, ttl: 1 }),
            ProbePacket::Who(2) => Some(Heard::Expired { hop: HOP, ttl: 2 }),
            ProbePacket::Echo(hop) => Some(Heard::Reply(hop)),
            ProbePacket::Who(_) => None,
        }
    }

    #[test]
    fn the_providers_first_hop_is_asked_and_no_modem() {
        let mut schedule = ProbeSchedule::new();
        let sent = run(&mut schedule, [0, 10], behind_a_modem);
        assert_eq!(
            sent[..2].iter().map(|it| it.1).collect::<Vec<_>>(),
            [ProbePacket::Who(1), ProbePacket::Who(2)]
        );
        assert!(sent[2..].iter().all(|it| it.1 == ProbePacket::Echo(HOP)), "{sent:?}");
        assert!(sent.windows(2).all(|pair| pair[1].0 - pair[0].0 >= INTERVAL), "{sent:?}");
        assert_eq!(schedule.found(), Some(FirstHop::Found(HOP)));
    }

    /// The nearest hop drops what is sent to it; the next one replies.
    #[test]
    fn a_hop_that_does_not_reply_is_passed_over() {
        let mut schedule = ProbeSchedule::new();
        run(&mut schedule, [0, 10], |packet| match packet {
            ProbePacket::Who(ttl) => Some(Heard::Expired { hop: if ttl == 1 { HOP } else { OTHER }, ttl }),
            ProbePacket::Echo(hop) => (hop == OTHER).then_some(Heard::Reply(hop)),
        });
        assert_eq!(schedule.found(), Some(FirstHop::Found(OTHER)));
    }

    #[test]
    fn where_nobody_replies_it_is_tried_again_after_ten_minutes() {
        let mut schedule = ProbeSchedule::new();
        let mut sent = run(&mut schedule, [0, 20], |_| None);
        assert_eq!(schedule.found(), Some(FirstHop::Missing));
        sent.append(&mut run(&mut schedule, [20, 620], |_| None));
        let [Some(last), Some(again)] = [|at: &Duration| *at < FORGOTTEN, |at: &Duration| *at > FORGOTTEN]
            .map(|is_it| sent.iter().map(|it| it.0).filter(is_it).max())
        else {
            panic!("{sent:?}")
        };
        assert!(last < at(15_000) && again > last + FORGOTTEN, "{last:?} {again:?}");
    }

    /// A pause is no silence of the hop's; a hop that is gone is looked for anew.
    #[test]
    fn a_hop_stays_the_hop_until_it_does_not_reply_while_it_is_asked() {
        let mut schedule = ProbeSchedule::new();
        run(&mut schedule, [0, 5], behind_a_modem);
        // The last packet before the pause had no reply.
        schedule.waits_since = schedule.sent_at;
        let sent = run(&mut schedule, [100, 101], behind_a_modem);
        assert!(sent.iter().all(|it| it.1 == ProbePacket::Echo(HOP)), "{sent:?}");
        let sent = run(&mut schedule, [101, 106], |_| None);
        assert!(sent.iter().any(|it| it.1 == ProbePacket::Who(1)), "{sent:?}");
    }

    /// What the hop takes without a queue is known before it is needed; nothing is sent where nothing passes.
    #[test]
    fn while_others_tell_it_is_asked_once_in_ten_seconds() {
        let mut schedule = ProbeSchedule::new();
        let mut sent = Vec::new();
        for turn in 0..400 {
            let now = at(turn * 100);
            if let Some(packet) = schedule.next(now, Need::Others) {
                sent.push(now);
                behind_a_modem(packet).into_iter().for_each(|heard| schedule.hear(now, heard));
            }
            assert_eq!(schedule.next(now + RECENT, Need::Nobody), None);
        }
        assert!(sent[4] < at(1_500) && sent[5] >= sent[4] + RECENT && sent.len() <= 9, "{sent:?}");
    }

    fn ipv4(source: Ipv4Addr, to: Ipv4Addr, message: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[12..16].copy_from_slice(&source.octets());
        packet[16..20].copy_from_slice(&to.octets());
        packet.extend_from_slice(message);
        packet
    }

    #[test]
    fn what_is_about_our_packets_is_understood_and_nothing_else() {
        let who = echo(7, sequence(5, ProbePacket::Who(3)));
        let sum: u32 = who.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum of RFC 1071");
        let expired = |to: Ipv4Addr| {
            let message = [[TIME_EXCEEDED, 0, 0, 0, 0, 0, 0, 0].as_slice(), &ipv4(OTHER, to, &who)].concat();
            ipv4(HOP, OTHER, &message)
        };
        let packet = expired(NOBODY);
        assert_eq!(read(&expired(HOP), 7), None, "of a packet to somebody");
        assert_eq!(read(&packet, 7), Some(Heard::Expired { hop: HOP, ttl: 3 }));
        assert_eq!(read(&packet, 8), None, "of another program");
        let mut reply = echo(7, sequence(6, ProbePacket::Echo(HOP)));
        assert_eq!(read(&ipv4(HOP, OTHER, &reply), 7), None, "a request");
        reply[0] = ECHO_REPLY;
        assert_eq!(read(&ipv4(HOP, OTHER, &reply), 7), Some(Heard::Reply(HOP)));
        assert_eq!(read(&ipv4(HOP, OTHER, &reply), 8), None);
        for length in 0..packet.len() {
            assert!(length >= 56 || read(&packet[..length], 7).is_none(), "{length} bytes");
        }
    }
}
