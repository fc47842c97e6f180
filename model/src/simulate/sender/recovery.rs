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
mod tests {
    use super::super::super::packet::MILLISECOND;
    use super::super::tests::under_way;
    use super::*;

    const MS: Time = MILLISECOND;

    /// A recovery from a window of 20 to 10 with so many segments under way.
    fn reducing(in_flight: usize, delivered: u32, sent: u32) -> Sender {
        let mut sender =
            Sender { state: State::Recovery, prior_window: 20, ..under_way(&vec![0; in_flight]) };
        (sender.window.threshold, sender.window.segments) = (10, 20);
        (sender.reduction_delivered, sender.reduction_sent) = (delivered, sent);
        sender
    }

    #[test]
    fn above_the_threshold_its_share_of_what_arrives_is_sent() {
        // ⌈10 · 3/20⌉ = 2 of three that arrived, less what was sent.
        for (sent, window) in [(0, 17), (1, 16), (2, 15)] {
            let mut sender = reducing(15, 0, sent);
            sender.reduce(3, false, true);
            assert_eq!((sender.window.segments, sender.reduction_delivered), (window, 3));
        }
        let mut sender = reducing(15, 17, 3);
        sender.reduce(3, false, true);
        assert_eq!(sender.window.segments, 15 + 10 - 3);
    }

    #[test]
    fn below_it_what_arrives_and_one_more_while_nothing_new_is_lost() {
        let window = |in_flight, before, sent, delivered, lost, advanced| {
            let mut sender = reducing(in_flight, before, sent);
            sender.reduce(delivered, lost, advanced);
            sender.window.segments
        };
        assert_eq!(window(5, 0, 1, 2, false, true), 8);
        assert_eq!([window(5, 0, 1, 2, true, true), window(5, 0, 1, 2, false, false)], [7, 7]);
        assert_eq!(window(5, 3, 1, 2, true, true), 9, "what arrived before and was not used");
        assert_eq!(window(5, 9, 1, 2, false, true), 10, "up to the threshold");
        assert_eq!(
            [window(10, 0, 1, 2, false, true), window(10, 0, 0, 2, false, true)],
            [10, 11],
            "the first copy goes out"
        );
        assert_eq!(window(5, 3, 1, 0, false, true), 20, "nothing arrived");
    }

    #[test]
    fn a_quarter_of_the_shortest_round_trip_may_be_out_of_order() {
        let window = |state, sacked, shortest| {
            let mut sender = Sender { state, sacked, ..under_way(&[0; 5]) };
            sender.round_trip.shortest = shortest;
            sender.reordering_window()
        };
        assert_eq!([window(State::Open, 0, 40_000), window(State::Disorder, 2, 40_000)], [10_000, 10_000]);
        assert_eq!(window(State::Open, 0, 400_000), 50_000, "one round trip at most");
        for none in [
            window(State::Disorder, 3, 40_000),
            window(State::Recovery, 0, 40_000),
            window(State::Loss, 0, 40_000),
        ] {
            assert_eq!(none, 0);
        }
    }

    /// The one sent at 30 ms has arrived after 50 ms; 60 ms after their sending others are lost.
    #[test]
    fn what_was_sent_before_one_that_arrived_is_lost_a_quarter_of_a_round_trip_later() {
        let detect = |now: Time| {
            let mut sender = under_way(&[0, 20, 30, 30, 40]);
            sender.round_trip.shortest = 40_000;
            (sender.board[2].sacked, sender.sacked) = (true, 1);
            (sender.rack.sent, sender.rack.end, sender.rack.round_trip) = (30 * MS, 2, 50_000);
            let wait = sender.detect(now * MS);
            (wait.map(|wait| wait / MS), sender.board.iter().map(|it| it.lost).collect::<Vec<_>>())
        };
        assert_eq!(detect(59), (Some(21), vec![false; 5]));
        assert_eq!(detect(60), (Some(20), vec![true, false, false, false, false]));
        assert_eq!(detect(80), (None, vec![true, true, false, false, false]));
        assert_eq!(detect(999), (None, vec![true, true, false, false, false]), "not what was sent later");
    }

    #[test]
    fn what_is_lost_already_is_lost_again_only_if_it_was_sent_again() {
        let mut sender = under_way(&[0, 0, 90]);
        (0..2).for_each(|at| sender.mark_lost(at));
        sender.send_again(30 * MS, 1);
        (sender.rack.sent, sender.rack.end, sender.rack.round_trip) = (90 * MS, 2, 10_000);
        assert_eq!(sender.detect(200 * MS), None);
        assert_eq!((sender.lost, sender.lost_ever, sender.again), (2, 3, 0));
    }

    #[test]
    fn a_recovery_begins_with_half_a_window_and_keeps_what_it_may_undo() {
        let mut sender = Sender { probe: Some(3), ..under_way(&[0; 20]) };
        (sender.window.segments, sender.window.threshold, sender.window.count) = (20, 12, 5);
        (sender.reduction_delivered, sender.reduction_sent) = (7, 8);
        sender.enter_recovery();
        assert_eq!((sender.state, sender.high, sender.probe), (State::Recovery, 20, None));
        assert_eq!((sender.prior_window, sender.window.threshold, sender.window.count), (20, 10, 0));
        assert_eq!((sender.reduction_delivered, sender.reduction_sent), (0, 0));
        // Three quarters of the window are more than its threshold.
        assert_eq!((sender.undo.window, sender.undo.threshold, sender.undo.from), (20, 15, Some(0)));
        assert_eq!(sender.undo.again, None);
        sender.again = 2;
        sender.begin_undo();
        assert_eq!(
            (sender.undo.threshold, sender.undo.again),
            (10, Some(2)),
            "in a recovery the threshold is what it is"
        );
        (sender.state, sender.window.threshold) = (State::Open, 40);
        sender.begin_undo();
        assert_eq!(sender.undo.threshold, 40);
    }

    #[test]
    fn what_proves_needless_is_undone() {
        let undone = |from: Option<u32>, again, first_again, echo, unmark| {
            let mut sender = reducing(5, 0, 0);
            sender.mark_lost(1);
            sender.undo = Undo { from, again, threshold: 16, window: 24, first_again };
            sender.window.segments = 7;
            let mut news = News::default();
            news.echo = echo;
            let undone = sender.try_undo(&news, unmark);
            assert_eq!(undone, sender.window.segments == 24 && sender.window.threshold == 16);
            (undone, sender.lost, sender.board[1].lost, sender.undo.from)
        };
        let kept = (false, 1, true, Some(0));
        // All copies were reported as needless, or what arrived was sent before the first of them.
        assert_eq!(undone(Some(0), Some(0), None, 0, false), (true, 1, true, None));
        assert_eq!(undone(Some(0), Some(0), None, 0, true), (true, 0, false, None));
        assert_eq!(undone(Some(0), Some(1), Some(100), 99, false), (true, 1, true, None));
        assert_eq!(undone(Some(0), Some(1), Some(100), 100, false), kept);
        assert_eq!(undone(Some(0), Some(1), None, 0, true), kept);
        assert_eq!(undone(None, Some(0), None, 0, false), (false, 1, true, None));
        // It does not shrink what is larger already.
        let mut sender = reducing(5, 0, 0);
        sender.undo = Undo { from: Some(0), again: Some(0), threshold: 6, window: 8, first_again: None };
        sender.try_undo(&News::default(), false);
        assert_eq!((sender.window.segments, sender.window.threshold), (20, 10));
    }

    #[test]
    fn without_anything_lost_the_state_is_open_or_disorder() {
        for (sacked, state, high) in [(0, State::Open, 5), (1, State::Disorder, 9)] {
            let mut sender = Sender { high: 9, state: State::Disorder, sacked, ..under_way(&[0; 5]) };
            sender.undo.first_again = Some(4);
            assert!(!sender.open_or_recover());
            assert_eq!((sender.state, sender.high, sender.undo.first_again), (state, high, None));
        }
        let mut sender = Sender { again: 1, ..under_way(&[0; 5]) };
        sender.undo.first_again = Some(4);
        assert!(!sender.open_or_recover() && sender.undo.first_again.is_some(), "a copy is on its way");
        sender.mark_lost(0);
        assert!(sender.open_or_recover() && sender.state == State::Recovery);
    }

    #[test]
    fn a_recovery_ends_at_its_threshold_when_all_of_it_is_acknowledged() {
        let judged = |state, una| {
            let mut sender = Sender { una, high: 5, ..under_way(&[0; 5]) };
            sender.undo = Undo { from: Some(0), again: Some(1), ..Undo::default() };
            (sender.state, sender.window.segments, sender.window.threshold) = (state, 20, 10);
            sender.judge(100 * MS, &mut News::default());
            (sender.state, sender.window.segments)
        };
        assert_eq!(
            [judged(State::Recovery, 4), judged(State::Recovery, 5)],
            [(State::Recovery, 20), (State::Open, 10)]
        );
        // What was no recovery leaves the window as it is.
        assert_eq!([judged(State::Disorder, 5), judged(State::Loss, 5)], [(State::Open, 20); 2]);
    }
}
