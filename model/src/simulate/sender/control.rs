//! Where BBR takes over: it sets window and pacing rate itself, by rate samples.

use super::super::congestion::Report;
use super::super::packet::{MICROSECOND, Time};
use super::Sender;
use super::delivery::Sending;

impl Sender {
    /// While nothing is acknowledged.
    pub(super) fn report(&self, now: Time) -> Report {
        Report {
            jiffy: self.clock.jiffy(now),
            in_flight: self.in_flight(),
            prior_in_flight: 0,
            delivered: self.delivered,
            delivered_at: self.delivery.at(),
            lost: self.lost_ever,
            acked: 0,
            losses: 0,
            state: self.state,
            round_trip: None,
            held: self.pacing.ready.saturating_sub(now) / MICROSECOND,
            rate: None,
        }
    }

    /// `init`, when the connection begins.
    pub(super) fn begin_control(&mut self, now: Time) {
        let (round_trip, jiffy) = (self.round_trip.smoothed(), self.clock.jiffy(now));
        if let Some(bbr) = self.algorithm.bbr() {
            bbr.begin(round_trip, jiffy);
            self.pacing.rate = bbr.pacing_rate;
        }
    }

    /// `cong_control`.
    pub(super) fn control(&mut self, report: &Report) {
        let limit = (self.delivered + self.in_flight()).max(1);
        let Some(bbr) = self.algorithm.bbr() else { return };
        if bbr.acknowledged(&mut self.window, report) {
            self.delivery.app_limited = limit;
        }
        self.pacing.rate = bbr.pacing_rate;
    }

    /// `set_state` at a retransmission timeout, before the state changes.
    pub(super) fn control_timed_out(&mut self) {
        let report = Report { losses: 1, ..self.report(0) };
        if let Some(bbr) = self.algorithm.bbr() {
            bbr.timed_out(&report);
        }
    }

    /// A segment is about to be sent: what it keeps for a rate sample.
    pub(super) fn note_sending(&mut self, now: Time) -> Option<Sending> {
        let is_idle = self.board.is_empty();
        self.algorithm.is_bbr().then(|| self.delivery.sent(now, self.delivered, is_idle))
    }

    /// `tcp_rate_check_app_limited`: the application hands over data while there is room for more than was there.
    pub(super) fn note_application_limit(&mut self) {
        let in_flight = self.in_flight();
        let has_sent_all = self.next() >= self.offered;
        if has_sent_all && in_flight < self.window.segments && self.lost <= self.again {
            self.delivery.app_limited = (self.delivered + in_flight).max(1);
        }
    }
}
