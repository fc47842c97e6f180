//! The spin bit of open QUIC connections: what `bpf/packet/spin.h` does for live traffic.

use pendulum_model::segment::Direction;

use super::{RequestReply, Ticks};
use crate::bpf::abi;

/// 25 ms: a side that sent nothing for longer may have held its reply (`max_ack_delay`, RFC 9000 §18.2).
const DELAY_TICKS: u32 = 25_000_000 / Ticks::NS;
/// 200 ms: if it sent nothing for longer, that tells nothing. As long may the ACK of a single segment be held.
const HELD_TICKS: u32 = 200_000_000 / Ticks::NS;

/// Who does not spin sends any value: so many edges must come in their order before one counts.
const EDGES: u8 = 8;

/// A connection whose side `from` is to reply to the newest edge, by showing `value`.
#[derive(Clone, Copy, Debug)]
struct OpenConnection {
    hash: u64,
    /// The client sends in this direction.
    client: Direction,
    from: Direction,
    value: bool,
    edges: u8,
    asked: Ticks,
    asked_bytes: u32,
    /// When `from` sent its newest packet, or the edge came.
    seen: Ticks,
}

/// Open connections.
#[derive(Clone, Debug)]
pub(super) struct Spins(Vec<Option<OpenConnection>>);

impl Default for Spins {
    fn default() -> Self {
        Self(vec![None; abi::PENDULUM_REQUESTS as usize])
    }
}

impl Spins {
    fn place(&mut self, hash: u64) -> &mut Option<OpenConnection> {
        let index = hash as usize % self.0.len();
        &mut self.0[index]
    }

    /// An Initial passes: the client's opens a connection, whose first edge is the client's to 1. Whether that takes the place of another
    /// one that spins.
    pub(super) fn open(&mut self, hash: u64, direction: Direction, now: Ticks, bytes: u32) -> bool {
        let place = self.place(hash);
        let open = place.filter(|connection| connection.asked.is_recent(now));
        if open.is_some_and(|other| other.hash == hash && other.client != direction) {
            return false;
        }
        *place = Some(OpenConnection {
            hash,
            client: direction,
            from: direction,
            value: true,
            edges: 0,
            asked: now,
            asked_bytes: bytes,
            seen: now,
        });
        open.is_some_and(|other| other.hash != hash && other.edges == EDGES)
    }

    /// A packet of a connection passes. Whether the connection spins, and if the packet's value replies to an edge: how long that took.
    pub(super) fn take(
        &mut self,
        hash: u64,
        direction: Direction,
        now: Ticks,
        value: bool,
        bytes: u32,
    ) -> (bool, Option<RequestReply>) {
        let place = self.place(hash);
        let Some(connection) = place.as_mut().filter(|connection| connection.hash == hash) else {
            return (false, None);
        };
        let spins = connection.edges == EDGES;
        if connection.from != direction {
            // The server reflects its value, the client inverts it.
            if (value == connection.value) == (connection.from == connection.client) {
                *place = None;
            }
            return (spins, None);
        }
        if value != connection.value {
            connection.seen = now;
            return (spins, None);
        }
        let held = now.since(connection.seen);
        let reply = (spins && held <= HELD_TICKS).then(|| RequestReply {
            may_be_held: held > DELAY_TICKS,
            ..RequestReply::new(connection.asked, now, connection.asked_bytes)
        });
        connection.edges = EDGES.min(connection.edges + 1);
        connection.from = direction.opposite();
        connection.value = value != (connection.from == connection.client);
        (connection.asked, connection.asked_bytes, connection.seen) = (now, bytes, now);
        (connection.edges == EDGES, reply)
    }
}
