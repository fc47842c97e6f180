//! What a controller knows of the own queue.

/// Our own queue since the decision before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Own {
    /// The most that stood in it, bytes.
    pub bytes: f64,
    /// Share of what passed that was lost on the way, 0 to 1; what our own queue dropped is none of it.
    pub lost: f64,
    /// Packets that left for the link to which an answer is expected: those of TCP. None where answers do not depend on our packets (downlink).
    pub asked: u64,
    /// Bytes that passed of QUIC connections that spin, which tell their wait once in a round trip.
    pub spin_bytes: f64,
    /// Whether one of them has done so.
    pub spin_replied: bool,
    /// Whether anything of TCP came from the link, answers that do not tell how long they took among it: then there is no outage.
    pub replied: bool,
}
