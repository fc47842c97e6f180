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
mod tests;
