//! The sending end: Linux' TCP with SACK, timestamps, RACK, tail loss probes and proportional rate reduction
//! (net/ipv4/tcp_input.c, tcp_output.c, tcp_recovery.c, tcp_timer.c).
//!
//! Everything is counted in full segments. Names in backticks are the kernel's.

mod acknowledge;
mod control;
mod delivery;
mod recovery;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;

use std::collections::VecDeque;

use super::clock::Jiffies;
use super::congestion::{Algorithm, State, Window};
use super::packet::{Data, MICROSECOND, MILLISECOND, Time};
use super::round_trip::RoundTrip;

use delivery::{Delivery, Sending};
use timers::Timer;

/// What a sender knows of a segment under way.
#[derive(Clone, Copy, Debug)]
struct SentSegment {
    /// When it was last sent.
    sent: Time,
    /// With the PSH flag, which stays when it is sent again (`tcp_fragment`).
    push: bool,
    /// Selectively acknowledged (`TCPCB_SACKED_ACKED`).
    sacked: bool,
    /// Taken for lost (`TCPCB_LOST`).
    lost: bool,
    /// Sent again, and that copy is not known to be lost (`TCPCB_SACKED_RETRANS`).
    again: bool,
    /// Ever sent again (`TCPCB_EVER_RETRANS`).
    ever_again: bool,
    /// For a rate sample, until it arrives; only BBR asks for it.
    sending: Option<Sending>,
}

/// `tp->rack`: the latest sent of the segments that have arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Rack {
    sent: Time,
    end: u32,
    /// Microseconds.
    round_trip: i64,
    advanced: bool,
}

/// What can be undone when a recovery turns out needless.
#[derive(Clone, Copy, Debug, Default)]
struct Undo {
    /// `undo_marker`.
    from: Option<u32>,
    /// `undo_retrans`: segments sent again that have not been reported as needless; `None`: none was sent again.
    again: Option<u32>,
    threshold: u32,
    window: u32,
    /// `retrans_stamp`, milliseconds.
    first_again: Option<u32>,
}

/// Pacing inside of TCP (`tcp_pacing_check`).
#[derive(Clone, Copy, Debug, Default)]
struct Pacing {
    paced: bool,
    /// Bytes of payload per second.
    rate: u64,
    /// `tcp_wstamp_ns`: when the next burst may leave; without pacing when the last one left.
    ready: Time,
    /// When the timer fires that sends what had to wait.
    due: Option<Time>,
}

#[derive(Debug, Default)]
pub(super) struct Sender {
    clock: Jiffies,
    /// Segments that the socket buffers allow under way.
    most: u32,
    /// Segments that the application has handed over so far.
    offered: u32,
    algorithm: Algorithm,
    window: Window,
    pacing: Pacing,
    round_trip: RoundTrip,
    /// Doublings of the timeout (`icsk_backoff`), and timeouts since something was acknowledged (`icsk_retransmits`).
    doublings: u32,
    repeats: u32,
    /// The first segment that is not acknowledged; those from there to the last one sent.
    una: u32,
    board: VecDeque<SentSegment>,
    sacked: u32,
    lost: u32,
    again: u32,
    /// Segments that have arrived so far; the connection's first (`SYN`) is one.
    delivered: u32,
    delivery: Delivery,
    /// Segments taken for lost so far (`tp->lost`).
    lost_ever: u32,
    state: State,
    /// `high_seq`: recovery ends here.
    high: u32,
    prior_window: u32,
    reduction_delivered: u32,
    reduction_sent: u32,
    rack: Rack,
    undo: Undo,
    /// `tlp_high_seq`.
    probe: Option<u32>,
    timer: Option<(Timer, Time)>,
    /// Where the next segment to retransmit is looked for, as an offset in the board.
    hint: usize,
    out: Vec<Data>,
}

impl Sender {
    /// `most` segments may be under way.
    pub(super) fn new(clock: Jiffies, algorithm: Algorithm, most: u32, paced: bool) -> Self {
        Self {
            clock,
            most,
            pacing: Pacing { paced: paced || algorithm.is_bbr(), ..Pacing::default() },
            algorithm,
            delivered: 1,
            ..Self::default()
        }
    }

    /// The handshake is over; `round_trip` is what it took.
    pub(super) fn connected(&mut self, now: Time, round_trip: Time) {
        self.round_trip = RoundTrip::new((round_trip / MICROSECOND) as i64);
        self.update_pacing_rate();
        self.begin_control(now);
    }

    /// Congestion window, segments.
    #[cfg(test)]
    fn window(&self) -> u32 {
        self.window.segments
    }

    /// The application hands over so many segments more.
    pub(super) fn offer(&mut self, segments: u32) {
        self.note_application_limit();
        self.offered = self.offered.saturating_add(segments);
    }

    /// The application has nothing more than what was sent already.
    pub(super) fn stop(&mut self) {
        self.offered = self.offered.min(self.next());
    }

    /// What is to be sent, oldest first; the caller takes it out.
    pub(super) fn outgoing(&mut self) -> std::vec::Drain<'_, Data> {
        self.out.drain(..)
    }

    /// The next segment that has never been sent.
    fn next(&self) -> u32 {
        self.una + self.board.len() as u32
    }

    /// `tcp_packets_in_flight`.
    fn in_flight(&self) -> u32 {
        (self.board.len() as u32 + self.again).saturating_sub(self.sacked + self.lost)
    }

    fn reducing(&self) -> bool {
        self.state == State::Recovery
    }

    /// `tcp_update_pacing_rate`: 1.2 windows, or two in slow start, for each round trip. Bursts are sized by it even when nothing is paced.
    fn update_pacing_rate(&mut self) {
        let percent = if self.window.segments < self.window.threshold / 2 { 200 } else { 120 };
        let segments = u64::from(self.window.segments.max(self.board.len() as u32));
        let bytes = segments * u64::from(super::packet::PAYLOAD_BYTES);
        self.pacing.rate = bytes * 10_000 * percent / self.round_trip.smoothed().max(1) as u64;
    }
}

impl Sender {
    /// `tcp_mark_skb_lost`: a copy sent again is lost too.
    fn mark_lost(&mut self, at: usize) {
        let segment = &mut self.board[at];
        if segment.again {
            segment.again = false;
            self.again -= 1;
            self.lost_ever += u32::from(segment.lost);
        }
        if !segment.lost {
            segment.lost = true;
            self.lost += 1;
            self.lost_ever += 1;
        }
        self.hint = self.hint.min(at);
    }
}

/// Microseconds from one moment to a later one.
fn micros(from: Time, to: Time) -> i64 {
    (to.saturating_sub(from) / MICROSECOND) as i64
}

/// The clock of the timestamps.
pub(super) fn stamp(now: Time) -> u32 {
    (now / MILLISECOND) as u32
}
