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
mod tests {
    use super::super::tests::{numbers, under_way};
    use super::*;

    const MS: Time = MILLISECOND;

    #[test]
    fn a_burst_is_a_millisecond_of_the_rate_and_more_for_near_hosts() {
        let burst = |rate: u64, shortest| {
            let mut sender = under_way(&[]);
            (sender.pacing.rate, sender.round_trip.shortest) = (rate, shortest);
            sender.burst_segments()
        };
        // 1,448 bytes each 1/1024 s. Two at least, 65,536 bytes at most.
        assert_eq!([0, 3, 5, 100].map(|segments| burst(segments * 1_448 * 1_024, 50_000)), [2, 3, 5, 45]);
        // 65,536 bytes, halved for each 512 µs.
        assert_eq!([511, 512, 1_024, 2_048].map(|shortest| burst(0, shortest)), [45, 22, 11, 2]);
        // Both together: 1,448 · 5 + 65,536/4 bytes.
        assert_eq!(burst(5 * 1_448 * 1_024, 1_024), 16);
    }

    #[test]
    fn a_small_burst_waits_for_the_next_acknowledgement() {
        // The first segment was sent half a round trip of 50 ms ago, and the last burst left within a millisecond.
        let defers = |now: Time, ready: Time, room, burst, state| {
            let mut sender = Sender { state, ..under_way(&[0]) };
            (sender.window.segments, sender.pacing.ready) = (20, ready);
            sender.defers(now, room, burst)
        };
        let now = 25 * MS;
        assert!(defers(now, now, 1, 2, State::Open) && defers(now, now, 5, 9, State::Disorder));
        assert!(!defers(now, now, 2, 2, State::Open), "a whole burst");
        assert!(!defers(now, now, 6, 9, State::Open), "a third of the window");
        assert!(!defers(now, now, 1, 2, State::Recovery) && !defers(now, now, 1, 2, State::Loss));
        assert!(!defers(now - 1, now, 1, 2, State::Open), "no acknowledgement is near");
        assert!(defers(now, now - MS, 1, 2, State::Open) && !defers(now, now - MS - 1, 1, 2, State::Open));
        let mut empty = under_way(&[]);
        (empty.window.segments, empty.pacing.ready) = (20, now);
        assert!(!empty.defers(now, 1, 2), "nothing is under way");
    }

    #[test]
    fn a_paced_burst_takes_its_time_less_half_of_it_that_was_saved() {
        // A segment each millisecond.
        let ready = |sent: usize, ready, paced, rate| {
            let mut sender = under_way(&vec![0; sent]);
            (sender.pacing.ready, sender.pacing.paced, sender.pacing.rate) = (ready, paced, rate);
            sender.pace(100 * MS, 4);
            sender.pacing.ready
        };
        let rate = 1_448_000;
        assert_eq!(ready(10, 100 * MS, true, rate), 104 * MS);
        assert_eq!(ready(10, 99 * MS, true, rate), 103 * MS, "a millisecond of credit");
        assert_eq!(ready(10, 90 * MS, true, rate), 102 * MS, "half of four at most");
        assert_eq!(ready(10, 103 * MS, true, rate), 107 * MS, "what is ahead goes on");
        for unpaced in
            [ready(9, 90 * MS, true, rate), ready(10, 90 * MS, false, rate), ready(10, 90 * MS, true, 0)]
        {
            assert_eq!(unpaced, 100 * MS);
        }
    }

    #[test]
    fn a_burst_waits_until_pacing_lets_it_go() {
        let mut sender = under_way(&[]);
        (sender.pacing.paced, sender.pacing.ready) = (true, 100 * MS);
        sender.transmit(100 * MS - 1);
        assert_eq!((numbers(&mut sender), sender.pacing.due), (vec![], Some(100 * MS)));
        sender.pacing.due = None;
        sender.transmit(100 * MS);
        assert_eq!((numbers(&mut sender).len(), sender.pacing.due), (10, Some(105 * MS)));
        let mut unpaced = under_way(&[]);
        unpaced.pacing.ready = 100 * MS;
        unpaced.transmit(50 * MS);
        assert_eq!(numbers(&mut unpaced).len(), 10);
    }

    #[test]
    fn window_socket_and_application_limit_what_is_sent() {
        let sent = |window, most, offered| {
            let mut sender = Sender { most, offered, ..under_way(&[0; 4]) };
            sender.window.segments = window;
            sender.transmit(MS);
            numbers(&mut sender).len()
        };
        assert_eq!(
            [sent(10, 99, 99), sent(10, 7, 99), sent(10, 99, 6), sent(4, 99, 99), sent(3, 3, 3)],
            [6, 3, 2, 0, 0]
        );
    }

    #[test]
    fn what_a_recovery_sends_is_counted() {
        let mut sender = Sender { state: State::Recovery, ..under_way(&[0; 4]) };
        sender.transmit(MS);
        assert_eq!(sender.reduction_sent, 6);
        let mut open = under_way(&[0; 4]);
        open.transmit(MS);
        assert_eq!((open.reduction_sent, open.timer.is_some()), (0, true));
    }

    #[test]
    fn lost_segments_are_sent_again_while_the_window_has_room() {
        let lost = |window, at: &[usize]| {
            let mut sender = Sender { state: State::Recovery, hint: 9, ..under_way(&[0; 9]) };
            at.iter().for_each(|at| sender.mark_lost(*at));
            sender.window.segments = window;
            sender.retransmit(50 * MS);
            (numbers(&mut sender), sender.reduction_sent, sender.hint, sender.timer.is_some())
        };
        // Six are under way.
        assert_eq!(lost(9, &[2, 4, 5]), (vec![2, 4, 5], 3, 6, false));
        assert_eq!(lost(8, &[2, 4, 5]), (vec![2, 4], 2, 5, false));
        assert_eq!(lost(6, &[2, 4, 5]), (vec![], 0, 2, false));
        // The first one sets the timer.
        assert_eq!(lost(9, &[0]), (vec![0], 1, 1, true));
    }

    #[test]
    fn a_segment_that_arrived_or_is_on_its_way_again_is_not_sent_again() {
        let mut sender = under_way(&[0; 4]);
        (0..3).for_each(|at| sender.mark_lost(at));
        sender.board[0].sacked = true;
        sender.send_again(10 * MS, 1);
        numbers(&mut sender);
        sender.hint = 0;
        sender.retransmit(50 * MS);
        assert_eq!(numbers(&mut sender), [2]);
        assert_eq!((sender.board[2].sent, sender.board[2].ever_again, sender.again), (50 * MS, true, 2));
    }

    #[test]
    fn each_copy_may_turn_out_needless() {
        let mut sender = under_way(&[0; 2]);
        sender.send_again(10 * MS, 0);
        assert_eq!((sender.undo.first_again, sender.undo.again, sender.again), (Some(10), Some(1), 1));
        sender.send_again(20 * MS, 0);
        assert_eq!((sender.undo.first_again, sender.undo.again, sender.again), (Some(10), Some(2), 1));
    }
}
