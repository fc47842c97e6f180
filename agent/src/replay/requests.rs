//! Round trips of protocols other than TCP: what `bpf/packet/requests.h` does for live traffic.

use pendulum_model::segment::Direction;

use super::flow::FlowKey;
use super::packet::{Request, RequestKind};
use crate::bpf::abi;

/// Time is kept in ticks of 4.096 µs that come round after 68 s.
const TICK_SHIFT: u32 = 12;
const TICK_MASK: u32 = 0xff_ffff;

/// A reply that comes later is none, and as long a request that was repeated counts from its first packet.
const LIFETIME_TICKS: u32 = 1 << 21;

/// A request of two datagrams (QUIC's first flight) is one. A repetition comes later.
const FLIGHT_TICKS: u32 = 1 << 12;

/// A request in its place.
#[derive(Clone, Copy, Debug)]
struct OpenRequest {
    tag: u32,
    ticks: u32,
    bytes: u32,
    /// It has its reply.
    is_over: bool,
    is_repeated: bool,
}

impl OpenRequest {
    fn age(self, ticks: u32) -> u32 {
        ticks.wrapping_sub(self.ticks) & TICK_MASK
    }

    fn is_recent(self, ticks: u32) -> bool {
        self.age(ticks) < LIFETIME_TICKS
    }
}

/// How long a reply took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestReply {
    /// From the request to the reply, microseconds.
    pub us: u32,
    /// Link-layer length of the request.
    pub request_bytes: u32,
    /// The server may have asked other servers first, or the request was repeated: no more than an upper bound.
    pub is_relayed: bool,
}

/// Requests whose reply is awaited.
#[derive(Clone, Debug)]
pub struct Requests {
    places: Vec<Option<OpenRequest>>,
    /// Requests whose place another one took while their reply was awaited.
    pub lost: u64,
}

impl Default for Requests {
    fn default() -> Self {
        Self { places: vec![None; abi::PENDULUM_REQUESTS as usize], lost: 0 }
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
        let ticks = (now_ns >> TICK_SHIFT) as u32 & TICK_MASK;
        let reply = request.replies.and_then(|identifier| {
            let hash = hash(key, direction.opposite(), request.kind, identifier);
            self.take(hash, ticks, request)
        });
        if let Some(identifier) = request.asks {
            self.ask(hash(key, direction, request.kind, identifier), ticks, wire_bytes);
        }
        reply
    }

    fn place(&mut self, hash: u64) -> &mut Option<OpenRequest> {
        let index = hash as usize % self.places.len();
        &mut self.places[index]
    }

    fn take(&mut self, hash: u64, ticks: u32, reply: &Request) -> Option<RequestReply> {
        let place = self.place(hash);
        let awaited = place.as_mut().filter(|awaited| {
            awaited.tag == (hash >> 32) as u32 && !awaited.is_over && awaited.is_recent(ticks)
        })?;
        awaited.is_over = true;
        let awaited = *awaited;
        if reply.again {
            *place = None;
            return None;
        }
        let us = (u64::from(awaited.age(ticks)) * 4096 / 1000) as u32;
        // Karn: of a request that was repeated, the reply does not tell which packet it answers.
        let is_relayed = reply.kind == RequestKind::Dns || awaited.is_repeated;
        Some(RequestReply { us: us.max(1), request_bytes: awaited.bytes, is_relayed })
    }

    fn ask(&mut self, hash: u64, ticks: u32, wire_bytes: u64) {
        let tag = (hash >> 32) as u32;
        let place = self.place(hash);
        match place {
            Some(awaited) if awaited.tag == tag && awaited.is_recent(ticks) => {
                awaited.is_repeated |= awaited.age(ticks) >= FLIGHT_TICKS;
            }
            _ => {
                let is_lost = place.is_some_and(|awaited| !awaited.is_over && awaited.is_recent(ticks));
                let bytes = u32::try_from(wire_bytes).unwrap_or(u32::MAX);
                *place = Some(OpenRequest { tag, ticks, bytes, is_over: false, is_repeated: false });
                self.lost += u64::from(is_lost);
            }
        }
    }
}

/// Of the request `identifier` that passed in this direction.
fn hash(key: &FlowKey, direction: Direction, kind: RequestKind, identifier: u32) -> u64 {
    let [a, b] = key.home_port.to_be_bytes();
    let [c, d] = key.remote_port.to_be_bytes();
    let addresses = [key.home_addr, key.remote_addr].concat();
    let words = addresses.as_chunks::<4>().0.iter().copied().chain([[a, b, c, d]]).map(u32::from_ne_bytes);
    let first = u64::from(identifier) << 32 | (kind as u64) << 1 | direction as u64;
    words.fold(first, |hash, word| {
        let hash = (hash ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ hash >> 32
    })
}

#[cfg(test)]
mod tests {
    use super::super::meter::{Meter, MeterConfig};
    use super::super::packet::{Frame, LinkType};
    use super::super::tests::craft::{Direction as Way, LinkLayer};
    use super::super::tests::direction;
    use super::super::tests::exchanges::exchanges;
    use super::*;

    #[test]
    fn each_exchange_is_timed() {
        for exchange in exchanges() {
            let mut meter = Meter::<()>::new(MeterConfig::default());
            let mut timed = Vec::new();
            for message in &exchange.messages {
                let crafted = message.build(LinkLayer::Ethernet);
                let direction = direction(crafted.direction);
                let frame = Frame::whole(LinkType::Ethernet, &crafted.bytes);
                let observation = meter.observe_frame(direction, crafted.time_ns, &frame);
                timed.extend(observation.reply.map(|(_, reply)| (crafted.direction, reply)));
            }
            assert_eq!(timed.len(), exchange.replies.len(), "{}: {timed:?}", exchange.name);
            for ((direction, reply), (expected, us, is_relayed)) in timed.iter().zip(&exchange.replies) {
                assert_eq!((direction, reply.is_relayed), (expected, *is_relayed), "{}", exchange.name);
                assert!(reply.us.abs_diff(*us) <= 5, "{}: {reply:?}, not {us}", exchange.name);
            }
            let samples = Direction::ALL.map(|x| meter.counters(x).rtt.iter().sum::<u64>());
            let of = |way| timed.iter().filter(|(to, reply)| *to == way && !reply.is_relayed).count() as u64;
            assert_eq!(samples, [of(Way::Down), of(Way::Up)], "{}", exchange.name);
        }
    }
}
