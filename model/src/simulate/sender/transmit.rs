//! What is sent, and when (`tcp_write_xmit`, `tcp_xmit_retransmit_queue`).

use super::super::congestion::INITIAL_WINDOW;
use super::super::packet::{Data, MICROSECOND, MILLISECOND, PAYLOAD_BYTES, SECOND, Time};
use super::{Sender, SentSegment, State, stamp};

/// `sk_gso_max_size`.
const LARGEST_BURST_BYTES: u64 = 65_536;
/// `tcp_tso_win_divisor`.
const WINDOW_PARTS: u32 = 3;

impl Sender {
    /// There is something to send: sends what the window allows.
    pub(in super::super) fn start(&mut self, now: Time) {
        self.transmit(now);
    }

    /// `tcp_write_xmit`.
    pub(super) fn transmit(&mut self, now: Time) {
        let burst = self.burst_segments();
        let mut sent = 0;
        while !self.waits_for_pacing(now) {
            let room = self.window.segments.saturating_sub(self.in_flight());
            let room = room.min(self.most.saturating_sub(self.board.len() as u32));
            let room = room.min(self.offered.saturating_sub(self.next()));
            if room == 0 || self.defers(now, room, burst) {
                break;
            }
            let together = room.min(burst);
            for left in (0..together).rev() {
                // `__tcp_transmit_skb` sets PSH on a burst, and TSO leaves it to its last segment; `tcp_push` sets it at the end of what was written.
                let push = left == 0 && (together > 1 || self.next() + 1 == self.offered);
                self.send_new(now, push);
            }
            self.pace(now, together);
            sent += together;
        }
        if sent > 0 {
            if self.reducing() {
                self.reduction_sent += sent;
            }
            self.schedule_probe(now, false);
        }
    }

    /// `tcp_pacing_check`: whether the next burst has to wait; then the timer sends it.
    fn waits_for_pacing(&mut self, now: Time) -> bool {
        let waits = self.pacing.paced && self.pacing.ready > now;
        if waits {
            self.pacing.due.get_or_insert(self.pacing.ready);
        }
        waits
    }

    /// `tcp_update_skb_after_send`: a burst has left.
    fn pace(&mut self, now: Time, segments: u32) {
        let before = self.pacing.ready;
        self.pacing.ready = before.max(now);
        // "Original sch_fq does not pace first 10 MSS."
        if self.pacing.paced && self.pacing.rate > 0 && self.next() >= INITIAL_WINDOW {
            let bytes = u64::from(segments) * u64::from(PAYLOAD_BYTES);
            let length = bytes * SECOND / self.pacing.rate;
            let credit = self.pacing.ready - before;
            self.pacing.ready += length - credit.min(length / 2);
        }
    }

    /// `tcp_tso_autosize`: segments of one burst.
    fn burst_segments(&self) -> u32 {
        let mut bytes = self.pacing.rate >> 10;
        let halvings = self.round_trip.shortest >> 9;
        if halvings < 32 {
            bytes += LARGEST_BURST_BYTES >> halvings;
        }
        let segments = bytes.min(LARGEST_BURST_BYTES) / u64::from(PAYLOAD_BYTES);
        segments.max(self.algorithm.least_burst()) as u32
    }

    /// `tcp_tso_should_defer`: whether what the window allows waits for the next acknowledgement, to go out in a larger burst.
    fn defers(&self, now: Time, room: u32, burst: u32) -> bool {
        if matches!(self.state, State::Recovery | State::Loss) || now > self.pacing.ready + MILLISECOND {
            return false;
        }
        if room >= burst || room >= self.window.segments / WINDOW_PARTS {
            return false;
        }
        let half = self.round_trip.smoothed() as Time * MICROSECOND / 2;
        self.board.front().is_some_and(|head| now - head.sent >= half)
    }

    /// Sends the next segment, with PSH or without it.
    pub(super) fn send_new(&mut self, now: Time, push: bool) {
        let number = self.next();
        let was_empty = self.board.is_empty();
        let sending = self.note_sending(now);
        self.board.push_back(SentSegment {
            sent: now,
            push,
            sacked: false,
            lost: false,
            again: false,
            ever_again: false,
            sending,
        });
        self.out.push(Data { number, stamp: stamp(now), push });
        if was_empty {
            self.rearm(now);
        }
    }

    /// Sends a segment again, by its place in the board.
    pub(super) fn send_again(&mut self, now: Time, at: usize) {
        let sending = self.note_sending(now);
        let segment = &mut self.board[at];
        segment.sent = now;
        segment.sending = sending;
        segment.ever_again = true;
        self.again += u32::from(!segment.again);
        segment.again = true;
        let push = segment.push;
        self.undo.first_again.get_or_insert(stamp(now));
        self.undo.again = Some(self.undo.again.unwrap_or(0) + 1);
        self.out.push(Data { number: self.una + at as u32, stamp: stamp(now), push });
    }

    /// `tcp_xmit_retransmit_queue`.
    pub(super) fn retransmit(&mut self, now: Time) {
        let mut at = self.hint.min(self.board.len());
        let mut head = false;
        while at < self.board.len() && self.again < self.lost {
            let segment = self.board[at];
            if segment.lost && !segment.sacked && !segment.again {
                if self.in_flight() >= self.window.segments {
                    break;
                }
                if self.waits_for_pacing(now) {
                    break;
                }
                self.send_again(now, at);
                self.pace(now, 1);
                head |= at == 0;
                if self.reducing() {
                    self.reduction_sent += 1;
                }
            }
            at += 1;
        }
        self.hint = at;
        if head && !matches!(self.timer, Some((super::timers::Timer::Reordering, _))) {
            self.timer = None;
            self.rearm(now);
        }
    }
}

#[cfg(test)]
mod tests;
