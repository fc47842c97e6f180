//! What is lost, and what follows (`tcp_fastretrans_alert`, `tcp_rack_detect_loss`, `tcp_cwnd_reduction`, `tcp_process_loss`).

use super::super::packet::{MICROSECOND, Time};
use super::acknowledge::News;
use super::timers::Timer;
use super::{Sender, State, Undo, micros};

/// `tp->reordering`: the threshold of duplicates.
const DUPLICATES: u32 = 3;

impl Sender {
    /// `tcp_fastretrans_alert`. Whether what was lost is to be sent again.
    pub(super) fn judge(&mut self, now: Time, news: &mut News) -> bool {
        if self.state == State::Open {
            self.undo.first_again = None;
        } else if self.una >= self.high && self.state == State::Recovery {
            self.try_undo(news, false);
            self.state = State::Open;
            // `tcp_end_cwnd_reduction`, unless undone.
            if self.undo.from.is_some() && !self.algorithm.is_bbr() {
                self.window.segments = self.window.threshold;
            }
        }
        match self.state {
            State::Recovery => {
                if self.undo.again == Some(0) && self.undo.from.is_some() {
                    self.undo_reduction(false);
                    self.keep_open();
                }
                self.find_lost(now, news);
                if self.state == State::Recovery {
                    return true;
                }
                if self.lost == 0 {
                    return false;
                }
                self.enter_recovery();
            }
            State::Loss => {
                self.process_loss(news);
                let before = self.again;
                self.find_lost(now, news);
                if self.state != State::Open && self.again >= before {
                    return true;
                }
                self.open_or_recover();
            }
            State::Open | State::Disorder => {
                if self.undo.again == Some(0) && self.undo.from.is_some() {
                    self.undo_reduction(false);
                }
                self.find_lost(now, news);
                if !self.open_or_recover() {
                    return false;
                }
            }
        }
        true
    }

    /// Enters recovery if something is lost; else the state is open or disorder. Returns whether something is lost.
    fn open_or_recover(&mut self) -> bool {
        if self.lost == 0 {
            if self.again == 0 {
                self.undo.first_again = None;
            }
            self.keep_open();
            return false;
        }
        self.enter_recovery();
        true
    }

    fn keep_open(&mut self) {
        let state = if self.sacked + self.lost > 0 { State::Disorder } else { State::Open };
        if self.state != state {
            self.state = state;
            self.high = self.next();
        }
    }

    /// `tcp_enter_recovery`.
    pub(super) fn enter_recovery(&mut self) {
        self.begin_undo();
        self.high = self.next();
        self.probe = None;
        self.window.count = 0;
        self.prior_window = self.window.segments;
        (self.reduction_delivered, self.reduction_sent) = (0, 0);
        self.window.threshold = self.algorithm.after_loss(&self.window);
        self.state = State::Recovery;
    }

    /// `tcp_init_undo`, and what `tcp_current_ssthresh` keeps.
    pub(super) fn begin_undo(&mut self) {
        let threshold = if self.state == State::Recovery {
            self.window.threshold
        } else {
            self.window.threshold.max((self.window.segments >> 1) + (self.window.segments >> 2))
        };
        self.undo = Undo {
            from: Some(self.una),
            again: (self.again > 0).then_some(self.again),
            threshold,
            window: self.window.segments,
            first_again: self.undo.first_again,
        };
    }

    /// `tcp_may_undo`, then `tcp_undo_cwnd_reduction`.
    fn try_undo(&mut self, news: &News, unmark: bool) -> bool {
        let needless =
            self.undo.again == Some(0) || self.undo.first_again.is_some_and(|first| news.echo < first);
        let may = self.undo.from.is_some() && needless;
        if may {
            self.undo_reduction(unmark);
        }
        may
    }

    fn undo_reduction(&mut self, unmark: bool) {
        if unmark {
            for segment in &mut self.board {
                segment.lost = false;
            }
            self.lost = 0;
        }
        if !self.algorithm.is_bbr() {
            self.window.segments = self.window.segments.max(self.undo.window);
        }
        self.window.threshold = self.window.threshold.max(self.undo.threshold);
        self.undo.from = None;
        self.rack.advanced = true;
    }

    /// `tcp_process_loss`, without F-RTO.
    fn process_loss(&mut self, news: &News) {
        if news.advanced && self.try_undo(news, true) {
            self.state = State::Open;
        } else if self.una >= self.high {
            self.try_undo(news, false);
            self.state = State::Open;
        }
    }

    /// `tcp_rack_mark_lost`.
    fn find_lost(&mut self, now: Time, news: &mut News) {
        if !self.rack.advanced {
            return;
        }
        self.rack.advanced = false;
        if let Some(wait) = self.detect(now) {
            // TCP_TIMEOUT_MIN: two jiffies.
            let wait = wait + self.clock.duration(2);
            self.timer = Some((Timer::Reordering, self.clock.deadline(now, wait)));
            news.set_timer = false;
        }
    }

    /// `tcp_rack_detect_loss`: marks what is lost, and says how long to wait for the rest.
    pub(super) fn detect(&mut self, now: Time) -> Option<Time> {
        let patience = self.rack.round_trip + self.reordering_window();
        let mut wait = None;
        for at in 0..self.board.len() {
            let segment = self.board[at];
            let number = self.una + at as u32;
            if segment.sacked || (segment.lost && !segment.again) {
                continue;
            }
            if (segment.sent, number) >= (self.rack.sent, self.rack.end) {
                continue;
            }
            let remaining = patience - micros(segment.sent, now);
            if remaining > 0 {
                wait = Some(wait.unwrap_or(0).max(remaining as Time * MICROSECOND));
            } else {
                self.mark_lost(at);
            }
        }
        wait
    }

    /// `tcp_rack_reo_wnd` while no reordering was seen, which a link of buffers that keep their order does not cause.
    fn reordering_window(&self) -> i64 {
        if matches!(self.state, State::Recovery | State::Loss) || self.sacked >= DUPLICATES {
            return 0;
        }
        (self.round_trip.shortest >> 2).min(self.round_trip.smoothed())
    }

    /// `tcp_cwnd_reduction`: proportional rate reduction (RFC 6937).
    pub(super) fn reduce(&mut self, delivered: u32, newly_lost: bool, advanced: bool) {
        if delivered == 0 {
            return;
        }
        self.reduction_delivered += delivered;
        let in_flight = self.in_flight();
        let (threshold, sent) = (i64::from(self.window.threshold), i64::from(self.reduction_sent));
        let room = threshold - i64::from(in_flight);
        let mut allowed = if room < 0 {
            let prior = i64::from(self.prior_window);
            (threshold * i64::from(self.reduction_delivered) + prior - 1) / prior - sent
        } else {
            let least = i64::from(delivered).max(i64::from(self.reduction_delivered) - sent);
            room.min(least + i64::from(advanced && !newly_lost))
        };
        // The first retransmission goes out in any case.
        allowed = allowed.max(i64::from(self.reduction_sent == 0));
        self.window.segments = (i64::from(in_flight) + allowed).max(1) as u32;
    }
}

#[cfg(test)]
mod tests;
