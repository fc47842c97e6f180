//! What an acknowledgement does to the list of segments under way (`tcp_ack`, `tcp_sacktag_write_queue`, `tcp_clean_rtx_queue`).

use super::super::congestion::Report;
use super::super::packet::{Ack, Block, Time};
use super::delivery::Draft;
use super::{Sender, State, micros};

/// What an acknowledgement has brought (`FLAG_…`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// `FLAG_SND_UNA_ADVANCED`.
    pub(super) advanced: bool,
    /// `FLAG_DATA_SACKED`.
    pub(super) sacked: bool,
    /// `FLAG_RETRANS_DATA_ACKED`.
    again: bool,
    /// `FLAG_SET_XMIT_TIMER`.
    pub(super) set_timer: bool,
    /// The timestamp it echoes.
    pub(super) echo: u32,
    first_acked: Option<Time>,
    last_acked: Option<Time>,
    first_sacked: Option<Time>,
    last_sacked: Option<Time>,
    rate: Draft,
}

impl Sender {
    /// An acknowledgement arrives.
    pub(in super::super) fn acknowledged(&mut self, now: Time, ack: &Ack) {
        if ack.next < self.una || ack.next > self.next() {
            return;
        }
        let (delivered, lost, in_flight) = (self.delivered, self.lost_ever, self.in_flight());
        let head_sent = self.board.front().map(|segment| segment.sent);
        let mut news = News { echo: ack.echo, ..News::default() };
        if let Some(number) = ack.twice {
            self.note_needless(number);
        }
        for block in ack.sacks() {
            self.mark_sacked(now, *block, &mut news);
        }
        let had_sacked = self.sacked > 0;
        self.remove_acknowledged(now, ack.next, &mut news);
        let round_trip = self.update_round_trip(now, head_sent, &mut news);
        if self.probe.is_some_and(|probe| ack.next >= probe) {
            self.probe = None;
        }
        let dubious = self.state != State::Open || news.sacked || had_sacked || !news.advanced;
        let resends = dubious && self.judge(now, &mut news);
        if news.set_timer {
            self.set_timer(now);
        }
        let delivered = self.delivered - delivered;
        if self.algorithm.is_bbr() {
            let shortest = self.round_trip.shortest;
            let rate = self.delivery.sample(news.rate, now, self.delivered, delivered, shortest);
            let losses = self.lost_ever - lost;
            self.control(&Report {
                acked: delivered,
                losses,
                prior_in_flight: in_flight,
                round_trip,
                rate,
                ..self.report(now)
            });
        } else if self.reducing() {
            self.reduce(delivered, self.lost_ever > lost, news.advanced);
        } else if news.advanced && delivered > 0 && self.window.segments < self.most {
            // Of `tcp_is_cwnd_limited`: more than the socket buffers hold is of no use.
            let (jiffy, shortest) = (self.clock.jiffy(now), self.round_trip.shortest);
            self.algorithm.delivered(&mut self.window, delivered, jiffy, shortest);
        }
        if !self.algorithm.is_bbr() {
            self.update_pacing_rate();
        }
        if resends {
            self.retransmit(now);
        }
        self.transmit(now);
    }

    /// A duplicate is reported (`tcp_check_dsack`).
    fn note_needless(&mut self, number: u32) {
        let within = self.undo.from.is_some_and(|from| number >= from);
        if let Some(again) = self.undo.again.as_mut().filter(|_| within) {
            *again = again.saturating_sub(1);
        }
    }

    /// `tcp_sacktag_one` for each segment of a block.
    fn mark_sacked(&mut self, now: Time, block: Block, news: &mut News) {
        let (from, to) = (block.from.max(self.una), block.to.min(self.next()));
        for number in from..to {
            let at = (number - self.una) as usize;
            let segment = self.board[at];
            if segment.sacked {
                continue;
            }
            self.advance_rack(now, number, segment.sent, segment.ever_again);
            if segment.again {
                // "If the segment is not tagged as lost, we do not clear RETRANS."
                if segment.lost {
                    self.board[at].again = false;
                    self.again -= 1;
                }
            } else if !segment.ever_again {
                news.first_sacked.get_or_insert(segment.sent);
                news.last_sacked = Some(segment.sent);
            }
            if segment.lost {
                self.board[at].lost = false;
                self.lost -= 1;
            }
            let sending = self.board[at].sending.take();
            self.delivery.arrived(&mut news.rate, number, segment.sent, sending);
            self.board[at].sacked = true;
            self.sacked += 1;
            self.delivered += 1;
            news.sacked = true;
        }
    }

    /// `tcp_clean_rtx_queue`.
    fn remove_acknowledged(&mut self, now: Time, next: u32, news: &mut News) {
        while self.una < next {
            let Some(segment) = self.board.pop_front() else { break };
            let number = self.una;
            self.una += 1;
            news.advanced = true;
            self.repeats = 0;
            if segment.ever_again {
                news.again = true;
                self.again -= u32::from(segment.again);
            } else if !segment.sacked {
                news.first_acked.get_or_insert(segment.sent);
                news.last_acked = Some(segment.sent);
            }
            if segment.sacked {
                self.sacked -= 1;
            } else {
                self.delivered += 1;
                // `tcp_skb_spurious_retrans`: it echoes a stamp from before the copy was sent.
                if !segment.ever_again || news.echo >= super::stamp(segment.sent) {
                    self.advance_rack(now, number, segment.sent, segment.ever_again);
                }
            }
            self.delivery.arrived(&mut news.rate, number, segment.sent, segment.sending);
            self.lost -= u32::from(segment.lost);
            self.hint = self.hint.saturating_sub(1);
        }
    }

    /// `tcp_ack_update_rtt`. Returns the round-trip time for congestion control.
    fn update_round_trip(&mut self, now: Time, head_sent: Option<Time>, news: &mut News) -> Option<i64> {
        let unambiguous = !news.again;
        let since = |moment: Option<Time>| moment.map(|moment| micros(moment, now));
        let acked = since(news.first_acked.filter(|_| unambiguous));
        let sacked = since(news.first_sacked);
        let mut for_window = since(news.last_acked.filter(|_| unambiguous));
        if let Some(last) = since(news.last_sacked) {
            for_window = Some(last);
        }
        let mut measured = acked.or(sacked);
        if measured.is_none() && news.advanced {
            let by_stamp = i64::from(super::stamp(now).saturating_sub(news.echo)) * 1_000;
            measured = Some(by_stamp.max(1));
            for_window = measured;
        }
        if let Some(measured) = measured {
            if let Some(last) = for_window {
                self.round_trip.note_shortest(last);
            }
            let (una, next) = (self.una, self.next());
            self.round_trip.sample(measured, una, next);
            self.doublings = 0;
        }
        let since_head = since(head_sent);
        news.set_timer =
            news.advanced || sacked.is_some_and(|sacked| since_head.is_some_and(|head| sacked > head));
        for_window
    }

    /// `tcp_rack_advance`.
    fn advance_rack(&mut self, now: Time, number: u32, sent: Time, ever_again: bool) {
        let round_trip = micros(sent, now);
        if ever_again && round_trip < self.round_trip.shortest {
            // The first copy has arrived, not this one.
            return;
        }
        self.rack.advanced = true;
        self.rack.round_trip = round_trip;
        if (sent, number) > (self.rack.sent, self.rack.end) {
            self.rack.sent = sent;
            self.rack.end = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::packet::MILLISECOND;
    use super::super::tests::{numbers, under_way};
    use super::super::timers::Timer;
    use super::*;

    const MS: Time = MILLISECOND;

    /// Round-trip times that the timeout and the window learn, microseconds, and whether the timer is set. All at 100 ms.
    fn learnt(news: News, head_sent: Option<Time>) -> (Option<i64>, i64, bool) {
        let mut sender = under_way(&[0; 5]);
        let (mut news, before) = (news, sender.round_trip.smoothed());
        sender.doublings = 3;
        let for_window = sender.update_round_trip(100 * MS, head_sent, &mut news);
        // The smoothed time goes an eighth of the way.
        let measured = 8 * (sender.round_trip.smoothed() - before) + before;
        assert_eq!(sender.doublings == 0, measured != before);
        (for_window, if measured == before { 0 } else { measured }, news.set_timer)
    }

    #[test]
    fn a_round_trip_is_that_of_the_first_for_the_timeout_and_of_the_last_for_the_window() {
        let acked =
            News { advanced: true, first_acked: Some(10 * MS), last_acked: Some(20 * MS), ..News::default() };
        assert_eq!(learnt(acked, None), (Some(80_000), 90_000, true));
        // What arrived out of order is the latest.
        let both = News { first_sacked: Some(30 * MS), last_sacked: Some(34 * MS), ..acked };
        assert_eq!(learnt(both, None), (Some(66_000), 90_000, true));
        let sacked = News { advanced: false, first_acked: None, last_acked: None, ..both };
        assert_eq!(learnt(sacked, None), (Some(66_000), 70_000, false));
        assert_eq!(learnt(News::default(), None), (None, 0, false));
    }

    #[test]
    fn after_a_copy_the_echo_tells_the_round_trip() {
        let acked = News {
            advanced: true,
            again: true,
            first_acked: Some(10 * MS),
            last_acked: Some(20 * MS),
            echo: 66,
            ..News::default()
        };
        assert_eq!(learnt(acked, None), (Some(34_000), 34_000, true));
        let sacked = News { first_sacked: Some(30 * MS), last_sacked: Some(34 * MS), ..acked };
        assert_eq!(learnt(sacked, None), (Some(66_000), 70_000, true));
        assert_eq!(learnt(News { advanced: false, ..acked }, None), (None, 0, false), "nothing new");
        assert_eq!(learnt(News { echo: 100, ..acked }, None).0, Some(1), "within a tick");
    }

    #[test]
    fn what_was_sent_before_the_copy_of_the_first_sets_the_timer() {
        let sacked = News { first_sacked: Some(30 * MS), last_sacked: Some(30 * MS), ..News::default() };
        for (head, sets) in
            [(None, false), (Some(29 * MS), false), (Some(30 * MS), false), (Some(31 * MS), true)]
        {
            assert_eq!(learnt(sacked, head).2, sets, "{head:?}");
        }
    }

    #[test]
    fn the_timer_is_set_anew_when_what_was_sent_before_a_copy_arrives() {
        let timer = |from| {
            let mut sender = under_way(&[100; 8]);
            (sender.window.segments, sender.window.threshold) = (8, 8);
            let sack = |from, to| Ack::new(0, 50, None, &[Block { from, to }]);
            sender.acknowledged(150 * MS, &sack(1, 5));
            assert_eq!((sender.state, sender.board[0].again), (State::Recovery, true));
            let before = sender.timer.map(|(_, due)| due / MS);
            sender.acknowledged(180 * MS, &sack(from, from + 1));
            assert_eq!(sender.timer.map(|(timer, _)| timer), Some(Timer::Retransmission));
            (before, sender.timer.map(|(_, due)| due / MS))
        };
        // 252 ms after the copy; then 50 + 30/8 + 200 ms, in jiffies of 4 ms, after what arrived 80 ms after it was sent.
        assert_eq!(timer(5), (Some(400), Some(436)));
        assert_eq!(timer(1), (Some(400), Some(400)), "nothing new");
    }

    #[test]
    fn the_newest_sent_of_what_arrived_leads() {
        let rack = |number, sent: Time, again| {
            let mut sender = under_way(&[0; 5]);
            (sender.rack.sent, sender.rack.end, sender.round_trip.shortest) = (20 * MS, 2, 50_000);
            sender.advance_rack(100 * MS, number, sent * MS, again);
            let rack = sender.rack;
            (rack.sent / MS, rack.end, rack.round_trip, rack.advanced)
        };
        assert_eq!(rack(1, 30, false), (30, 1, 70_000, true));
        assert_eq!(rack(3, 20, false), (20, 3, 80_000, true));
        assert_eq!(rack(1, 20, false), (20, 2, 80_000, true));
        assert_eq!(rack(9, 10, false), (20, 2, 90_000, true));
        // A copy that would have been faster than any: the first one has arrived.
        assert_eq!(rack(1, 51, true), (20, 2, 0, false));
        assert_eq!(rack(1, 50, true), (50, 1, 50_000, true));
        assert_eq!(rack(1, 51, false), (51, 1, 49_000, true));
    }

    #[test]
    fn a_copy_reported_twice_was_needless() {
        let again = |from, again, number| {
            let mut sender = under_way(&[0; 5]);
            (sender.undo.from, sender.undo.again) = (from, again);
            sender.note_needless(number);
            sender.undo.again
        };
        assert_eq!(
            [again(Some(2), Some(2), 2), again(Some(2), Some(2), 1), again(None, Some(2), 2)],
            [Some(1), Some(2), Some(2)]
        );
        assert_eq!([again(Some(2), Some(0), 3), again(Some(2), None, 3)], [Some(0), None]);
    }

    #[test]
    fn what_arrives_out_of_order_is_counted_once() {
        let mut sender = under_way(&[0, 10, 20, 30, 40]);
        (1..3).for_each(|at| sender.mark_lost(at));
        sender.send_again(50 * MS, 2);
        let mut news = News::default();
        // It ends beyond what was sent.
        for _ in 0..2 {
            sender.mark_sacked(100 * MS, Block { from: 1, to: 9 }, &mut news);
            assert_eq!((sender.sacked, sender.lost, sender.again, sender.delivered), (4, 0, 0, 5));
        }
        assert!(news.sacked && !news.advanced);
        // What was sent again says nothing of the round trip.
        assert_eq!((news.first_sacked, news.last_sacked), (Some(10 * MS), Some(40 * MS)));
        let mut sender = under_way(&[0, 10]);
        sender.send_again(50 * MS, 1);
        sender.mark_sacked(100 * MS, Block { from: 1, to: 2 }, &mut news);
        assert_eq!((sender.again, sender.board[1].again), (1, true), "a copy of what was not lost stays");
    }

    #[test]
    fn what_is_acknowledged_leaves_the_list() {
        let mut sender = under_way(&[0, 10, 20, 30, 40]);
        (sender.repeats, sender.hint) = (2, 3);
        sender.mark_lost(0);
        sender.send_again(50 * MS, 0);
        sender.mark_lost(1);
        let mut news = News { echo: 50, ..News::default() };
        sender.mark_sacked(90 * MS, Block { from: 2, to: 3 }, &mut news);
        sender.hint = 3;
        let delivered = sender.delivered;
        sender.remove_acknowledged(100 * MS, 4, &mut news);
        assert_eq!(
            (sender.una, sender.board.len(), sender.sacked, sender.lost, sender.again),
            (4, 1, 0, 0, 0)
        );
        assert_eq!((sender.delivered - delivered, sender.repeats, sender.hint), (3, 0, 0));
        assert!(news.advanced && news.again);
        // Neither the copy, nor what had arrived before.
        assert_eq!((news.first_acked, news.last_acked), (Some(10 * MS), Some(30 * MS)));
        assert_eq!(sender.rack.sent, 50 * MS, "the copy");
        let mut none = News::default();
        sender.remove_acknowledged(100 * MS, 4, &mut none);
        assert!(!none.advanced);
    }

    #[test]
    fn an_echo_from_before_the_copy_is_of_the_first_one() {
        for (echo, rack) in [(49, 0), (50, 50)] {
            let mut sender = under_way(&[0, 10]);
            sender.send_again(50 * MS, 0);
            sender.remove_acknowledged(150 * MS, 1, &mut News { echo, ..News::default() });
            assert_eq!(sender.rack.sent, rack * MS);
        }
    }

    #[test]
    fn nonsense_changes_nothing() {
        let mut sender = under_way(&[0; 5]);
        sender.acknowledged(50 * MS, &Ack::new(3, 0, None, &[]));
        numbers(&mut sender);
        let (una, next) = (sender.una, sender.next());
        for beyond in [una - 1, next + 1] {
            sender.acknowledged(60 * MS, &Ack::new(beyond, 0, None, &[]));
            assert_eq!((sender.una, sender.next(), numbers(&mut sender)), (una, next, vec![]));
        }
    }

    #[test]
    fn the_window_grows_by_what_arrived_unless_the_socket_buffers_are_full() {
        for (most, window) in [(99, 12), (10, 10)] {
            let mut sender = Sender { most, ..under_way(&[0; 10]) };
            sender.acknowledged(50 * MS, &Ack::new(2, 0, None, &[]));
            assert_eq!(sender.window.segments, window);
        }
    }
}
