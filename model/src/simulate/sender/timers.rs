//! The retransmission timer and the two that share its place (`tcp_write_timer_handler`).

use super::super::packet::{MICROSECOND, MILLISECOND, Time};
use super::{Sender, State};

/// `icsk_pending`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// Retransmission timeout.
    Retransmission,
    /// Tail loss probe (RFC 8985, section 7).
    Probe,
    /// End of the reordering window.
    Reordering,
}

impl Sender {
    /// When the next of the timers fires.
    pub(in super::super) fn deadline(&self) -> Option<Time> {
        let timer = self.timer.map(|(_, at)| at);
        self.pacing.due.map_or(timer, |due| Some(timer.map_or(due, |at| at.min(due))))
    }

    /// A timer fires.
    pub(in super::super) fn expire(&mut self, now: Time) {
        if self.pacing.due.take_if(|due| *due <= now).is_some() {
            self.retransmit(now);
            self.transmit(now);
        }
        let Some((timer, _)) = self.timer.take_if(|(_, at)| *at <= now) else { return };
        if self.board.is_empty() {
            return;
        }
        match timer {
            Timer::Retransmission => self.time_out(now),
            Timer::Probe => self.send_probe(now),
            Timer::Reordering => self.end_reordering(now),
        }
    }

    fn timeout(&self) -> Time {
        let timeout = self.round_trip.timeout() as Time * MICROSECOND;
        let timeout = self.clock.duration(self.clock.of_duration(timeout));
        (timeout << self.doublings.min(16)).min(120_000 * MILLISECOND)
    }

    /// `tcp_rearm_rto`.
    pub(super) fn rearm(&mut self, now: Time) {
        let Some(head) = self.board.front() else {
            self.timer = None;
            return;
        };
        let timeout = match self.timer {
            Some((Timer::Probe | Timer::Reordering, _)) => {
                (head.sent + self.timeout()).saturating_sub(now).max(MICROSECOND)
            }
            _ => self.timeout(),
        };
        self.timer = Some((Timer::Retransmission, self.clock.deadline(now, timeout)));
    }

    /// `tcp_set_xmit_timer`.
    pub(super) fn set_timer(&mut self, now: Time) {
        if !self.schedule_probe(now, true) {
            self.rearm(now);
        }
    }

    /// `tcp_schedule_loss_probe`.
    pub(super) fn schedule_probe(&mut self, now: Time, advancing: bool) -> bool {
        let Some(head) = self.board.front() else { return false };
        if self.state != State::Open {
            return false;
        }
        let smoothed = self.round_trip.smoothed() as Time * MICROSECOND;
        let margin = if self.board.len() == 1 { 200 * MILLISECOND } else { self.clock.duration(2) };
        let timeout = self.timeout();
        let most = if advancing { timeout } else { (head.sent + timeout).saturating_sub(now) };
        let wait = if most > 0 { (2 * smoothed + margin).min(most) } else { 2 * smoothed + margin };
        self.timer = Some((Timer::Probe, self.clock.deadline(now, wait)));
        true
    }

    /// `tcp_send_loss_probe`: new data, if there is any and the socket buffers have room for it.
    fn send_probe(&mut self, now: Time) {
        if self.probe.is_none() {
            if (self.board.len() as u32) < self.most && self.next() < self.offered {
                self.send_new(now, false);
            } else {
                let last = self.board.len() - 1;
                self.send_again(now, last);
            }
            self.probe = Some(self.next());
            self.timer = None;
        } else {
            self.timer = Some((Timer::Probe, now));
        }
        self.rearm(now);
    }

    /// `tcp_rack_reo_timeout`.
    fn end_reordering(&mut self, now: Time) {
        let before = self.in_flight();
        self.detect(now);
        if self.in_flight() != before {
            if self.state != State::Recovery {
                self.enter_recovery();
                if !self.algorithm.is_bbr() {
                    self.reduce(1, true, false);
                }
            }
            self.retransmit(now);
        }
        if self.timer.is_none() {
            self.timer = Some((Timer::Reordering, now));
            self.rearm(now);
        }
    }

    /// `tcp_retransmit_timer` and `tcp_enter_loss`.
    fn time_out(&mut self, now: Time) {
        self.mark_old_lost(now);
        let fresh = matches!(self.state, State::Open | State::Disorder);
        if fresh || self.una >= self.high || (self.state == State::Loss && self.repeats == 0) {
            self.begin_undo();
            self.window.threshold = self.algorithm.after_loss(&self.window);
        }
        self.algorithm.timed_out();
        self.window.segments = self.in_flight() + 1;
        self.window.count = 0;
        self.control_timed_out();
        self.state = State::Loss;
        self.high = self.next();
        self.probe = None;
        self.hint = 0;
        self.send_again(now, 0);
        self.doublings += 1;
        self.repeats += 1;
        self.timer = None;
        self.rearm(now);
    }

    /// `tcp_timeout_mark_lost`: all but those sent within the last round trip.
    fn mark_old_lost(&mut self, now: Time) {
        for at in 0..self.board.len() {
            let segment = self.board[at];
            let fresh = super::micros(segment.sent, now) < self.rack.round_trip;
            if !segment.sacked && (at == 0 || !fresh) {
                self.mark_lost(at);
            }
        }
    }
}

#[cfg(test)]
mod tests;
