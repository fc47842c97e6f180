//! Round trips of protocols other than TCP: what `bpf/packet/requests.h` does for live traffic.

mod spin;

use pendulum_model::segment::{Direction, PerDirection};

use super::flow::FlowKey;
use super::packet::{Request, RequestKind};
use crate::bpf::abi;
use spin::Spins;

/// Time is kept in ticks of 4.096 µs that come round after 68 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks(u32);

impl Ticks {
    const MASK: u32 = 0xff_ffff;
    const NS: u32 = 4096;
    /// A reply that comes later is none, and as long a request that was repeated counts from its first packet.
    const LIFETIME: u32 = 1 << 21;

    fn at(now_ns: u64) -> Self {
        Self((now_ns / u64::from(Self::NS)) as u32 & Self::MASK)
    }

    fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & Self::MASK
    }

    fn is_recent(self, now: Self) -> bool {
        now.since(self) < Self::LIFETIME
    }
}

/// A request of two datagrams (QUIC's first flight) is one. A repetition comes later.
const FLIGHT_TICKS: u32 = 1 << 12;

/// A request in its place.
#[derive(Clone, Copy, Debug)]
struct OpenRequest {
    tag: u32,
    at: Ticks,
    bytes: u32,
    /// It has its reply.
    is_over: bool,
    is_repeated: bool,
}

/// How long a reply took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestReply {
    /// From the request to the reply, microseconds.
    pub us: u32,
    /// Link-layer length of the request.
    pub request_bytes: u32,
    /// No more than an upper bound: its sender may have waited.
    pub may_be_held: bool,
    /// For any time: the server may have asked other servers first, or the request was repeated.
    pub is_relayed: bool,
}

impl RequestReply {
    fn new(asked: Ticks, now: Ticks, request_bytes: u32) -> Self {
        let us = (u64::from(now.since(asked)) * u64::from(Ticks::NS) / 1000) as u32;
        Self { us: us.max(1), request_bytes, may_be_held: false, is_relayed: false }
    }
}

/// Requests whose reply is awaited.
#[derive(Clone, Debug)]
pub struct Requests {
    places: Vec<Option<OpenRequest>>,
    spins: Spins,
    /// Requests whose place another one took while their reply was awaited.
    pub lost: u64,
    /// Bytes of connections that spin, and packets of them that replied.
    pub spun: PerDirection<(u64, u64)>,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            places: vec![None; abi::PENDULUM_REQUESTS as usize],
            spins: Spins::default(),
            lost: 0,
            spun: PerDirection::default(),
        }
    }
}

impl Requests {
    /// A request or reply of so many link-layer bytes passes. If it replies to one that was asked: how long that took.
    pub fn observe(
        &mut self,
        direction: Direction,
        now_ns: u64,
        key: &FlowKey,
        request: &Request,
        wire_bytes: u64,
    ) -> Option<RequestReply> {
        let now = Ticks::at(now_ns);
        let bytes = u32::try_from(wire_bytes).unwrap_or(u32::MAX);
        let identified = |direction: Direction, identifier: u32| {
            hash(key, u64::from(identifier) << 32 | (request.kind as u64) << 1 | direction as u64)
        };
        if request.kind == RequestKind::Spin {
            let value = request.replies == Some(1);
            let (spins, reply) = self.spins.take(connection(key), direction, now, value, bytes);
            if spins {
                let (bytes, replies) = &mut self.spun[direction];
                (*bytes, *replies) = (*bytes + wire_bytes, *replies + u64::from(reply.is_some()));
            }
            return reply;
        }
        let reply = request
            .replies
            .and_then(|identifier| self.take(identified(direction.opposite(), identifier), now, request));
        if let Some(identifier) = request.asks {
            self.ask(identified(direction, identifier), now, bytes);
            if request.kind == RequestKind::Quic {
                self.lost += u64::from(self.spins.open(connection(key), direction, now, bytes));
            }
        }
        reply
    }

    fn place(&mut self, hash: u64) -> &mut Option<OpenRequest> {
        let index = hash as usize % self.places.len();
        &mut self.places[index]
    }

    fn take(&mut self, hash: u64, now: Ticks, reply: &Request) -> Option<RequestReply> {
        let place = self.place(hash);
        let awaited = place.as_mut().filter(|awaited| {
            awaited.tag == (hash >> 32) as u32 && !awaited.is_over && awaited.at.is_recent(now)
        })?;
        awaited.is_over = true;
        let awaited = *awaited;
        if reply.again {
            *place = None;
            return None;
        }
        // Karn: of a request that was repeated, the reply does not tell which packet it answers.
        let is_relayed = reply.kind == RequestKind::Dns || awaited.is_repeated;
        let reply = RequestReply::new(awaited.at, now, awaited.bytes);
        Some(RequestReply { may_be_held: is_relayed, is_relayed, ..reply })
    }

    fn ask(&mut self, hash: u64, at: Ticks, bytes: u32) {
        let tag = (hash >> 32) as u32;
        let place = self.place(hash);
        match place {
            Some(awaited) if awaited.tag == tag && awaited.at.is_recent(at) => {
                awaited.is_repeated |= at.since(awaited.at) >= FLIGHT_TICKS;
            }
            _ => {
                let is_lost = place.is_some_and(|awaited| !awaited.is_over && awaited.at.is_recent(at));
                *place = Some(OpenRequest { tag, at, bytes, is_over: false, is_repeated: false });
                self.lost += u64::from(is_lost);
            }
        }
    }
}

fn connection(key: &FlowKey) -> u64 {
    hash(key, RequestKind::Spin as u64)
}

/// Of what `first` stands for, between these ends.
fn hash(key: &FlowKey, first: u64) -> u64 {
    let [a, b] = key.home_port.to_be_bytes();
    let [c, d] = key.remote_port.to_be_bytes();
    let addresses = [key.home_addr, key.remote_addr].concat();
    let words = addresses.as_chunks::<4>().0.iter().copied().chain([[a, b, c, d]]).map(u32::from_ne_bytes);
    words.fold(first, |hash, word| {
        let hash = (hash ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ hash >> 32
    })
}

#[cfg(test)]
mod tests {
    use super::super::meter::Meter;
    use super::super::packet::{Frame, LinkType};
    use super::super::tests::craft::{Direction as Way, LinkLayer};
    use super::super::tests::direction;
    use super::super::tests::exchanges::exchanges;
    use super::*;

    #[test]
    fn each_exchange_is_timed() {
        for exchange in exchanges() {
            let mut meter = Meter::<()>::default();
            let mut timed = Vec::new();
            for message in &exchange.messages {
                let crafted = message.build(LinkLayer::Ethernet);
                let direction = direction(crafted.direction);
                let frame = Frame::whole(LinkType::Ethernet, &crafted.bytes);
                let observation = meter.observe_frame(direction, crafted.time_ns, &frame);
                timed.extend(observation.reply.map(|(_, reply)| (crafted.direction, reply)));
            }
            assert_eq!(timed.len(), exchange.replies.len(), "{}: {timed:?}", exchange.name);
            for ((direction, reply), (expected, us, may_be_held)) in timed.iter().zip(&exchange.replies) {
                assert_eq!((direction, reply.may_be_held), (expected, *may_be_held), "{}", exchange.name);
                assert!(reply.us.abs_diff(*us) <= 5, "{}: {reply:?}, not {us}", exchange.name);
            }
            let samples = Direction::ALL.map(|x| meter.counters[x].rtt.iter().sum::<u64>());
            let of = |way| timed.iter().filter(|(to, reply)| *to == way && !reply.may_be_held).count() as u64;
            assert_eq!(samples, [of(Way::Down), of(Way::Up)], "{}", exchange.name);
        }
    }
}
