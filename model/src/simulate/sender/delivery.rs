//! How fast segments are delivered (net/ipv4/tcp_rate.c).

use super::super::congestion::DeliveryRate;
use super::super::packet::{MICROSECOND, Time};
use super::micros;

/// What a segment keeps of the moment at which it was sent (`tcp_skb_cb.tx`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    first_sent: Time,
    delivered_at: Time,
    delivered: u32,
    app_limited: bool,
}

/// What the connection keeps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    /// When the latest sent of the segments that have arrived was sent (`first_tx_mstamp`).
    first_sent: Time,
    /// When something last arrived (`delivered_mstamp`).
    at: Time,
    /// Until so many are delivered the application was the limit (`app_limited`); zero: it is not.
    pub(super) app_limited: u32,
}

/// The sample while an acknowledgement is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Draft {
    prior: Option<Sending>,
    number: u32,
    /// Between the sendings of the first and the last segment of the sample.
    sending: i64,
}

impl Delivery {
    /// `tcp_rate_skb_sent`. `idle`: nothing was under way.
    pub(super) fn sent(&mut self, now: Time, delivered: u32, idle: bool) -> Sending {
        if idle {
            (self.first_sent, self.at) = (now, now);
        }
        Sending {
            first_sent: self.first_sent,
            delivered_at: self.at,
            delivered,
            app_limited: self.app_limited > 0,
        }
    }

    /// `tcp_rate_skb_delivered`.
    pub(super) fn arrived(&mut self, draft: &mut Draft, number: u32, sent: Time, sending: Option<Sending>) {
        let Some(sending) = sending else { return };
        if draft.prior.is_none() || (sent, number) > (self.first_sent, draft.number) {
            self.first_sent = sent;
            draft.prior = Some(sending);
            draft.number = number;
            draft.sending = micros(sending.first_sent, sent);
        }
    }

    /// `tcp_rate_gen`: `delivered` segments in all, `acked` by this acknowledgement; `shortest` round trip in microseconds: what is shorter says nothing.
    pub(super) fn sample(
        &mut self,
        draft: Draft,
        now: Time,
        delivered: u32,
        acked: u32,
        shortest: i64,
    ) -> Option<DeliveryRate> {
        if delivered > self.app_limited {
            self.app_limited = 0;
        }
        if acked > 0 {
            self.at = now;
        }
        let prior = draft.prior?;
        let interval = draft.sending.max(micros(prior.delivered_at, now));
        (interval >= shortest.max(1)).then(|| DeliveryRate {
            delivered: delivered - prior.delivered,
            interval: interval as u64,
            prior_delivered: prior.delivered,
            app_limited: prior.app_limited,
        })
    }

    /// When something last arrived, microseconds.
    pub(super) fn at(&self) -> u64 {
        self.at / MICROSECOND
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::packet::MILLISECOND;
    use super::*;

    fn told(rate: Option<DeliveryRate>) -> Option<(u32, u64)> {
        rate.map(|rate| (rate.delivered, rate.interval))
    }

    #[test]
    fn acknowledgements_that_were_held_back_do_not_look_like_a_faster_link() {
        // A segment each 10 ms; the acknowledgements of ten of them arrive together, 200 ms after the first was sent.
        let mut delivery = Delivery::default();
        let sendings: Vec<(Time, Sending)> =
            (0..10).map(|n| (n * 10 * MILLISECOND, delivery.sent(n * 10 * MILLISECOND, 1, n == 0))).collect();
        let now = 200 * MILLISECOND;
        let mut draft = Draft::default();
        for (number, (sent, sending)) in sendings.into_iter().enumerate() {
            delivery.arrived(&mut draft, number as u32, sent, Some(sending));
        }
        let rate = delivery.sample(draft, now, 11, 10, 50_000);
        assert_eq!(told(rate), Some((10, 200_000)));
        // What was sent at 110 and 190 ms arrives at once at 201 ms: the time between the sendings counts.
        let first = delivery.sent(210 * MILLISECOND, 11, false);
        let last = delivery.sent(290 * MILLISECOND, 11, false);
        let mut draft = Draft::default();
        delivery.arrived(&mut draft, 10, 210 * MILLISECOND, Some(first));
        delivery.arrived(&mut draft, 11, 290 * MILLISECOND, Some(last));
        let rate = delivery.sample(draft, 291 * MILLISECOND, 13, 2, 50_000);
        assert_eq!(told(rate), Some((2, 200_000)));
    }

    #[test]
    fn an_interval_shorter_than_any_round_trip_is_no_sample() {
        let mut delivery = Delivery::default();
        let sending = delivery.sent(0, 1, true);
        let mut draft = Draft::default();
        delivery.arrived(&mut draft, 0, 0, Some(sending));
        let rate = delivery.sample(draft, 40 * MILLISECOND, 2, 1, 50_000);
        assert_eq!(rate, None);
    }

    #[test]
    fn the_latest_sent_of_what_arrives_gives_the_sample() {
        let mut delivery = Delivery { first_sent: 5, at: 7, app_limited: 3 };
        let sending =
            |delivered| Sending { first_sent: 1_000, delivered_at: 2_000, delivered, app_limited: false };
        let mut draft = Draft::default();
        for (number, sent, delivered) in
            [(4, 20_000, 1), (5, 20_000, 2), (5, 20_000, 3), (6, 19_000, 4), (1, 21_000, 5)]
        {
            delivery.arrived(&mut draft, number, sent, Some(sending(delivered)));
        }
        assert_eq!(
            (draft.prior.map(|prior| prior.delivered), draft.number, draft.sending, delivery.first_sent),
            (Some(5), 1, 20, 21_000)
        );
        let mut draft = Draft::default();
        delivery.arrived(&mut draft, 4, 30_000, Some(sending(1)));
        delivery.arrived(&mut draft, 4, 30_000, Some(sending(2)));
        assert_eq!(draft.prior.map(|prior| prior.delivered), Some(1), "the same is none later");
        delivery.arrived(&mut draft, 9, 99_000, None);
        assert_eq!(draft.number, 4);
    }

    #[test]
    fn what_the_application_limits_is_marked_until_that_is_delivered() {
        let mut delivery = Delivery { first_sent: 5, at: 7, app_limited: 10 };
        let sent = delivery.sent(50, 9, false);
        assert_eq!((sent.first_sent, sent.delivered_at, sent.delivered, sent.app_limited), (5, 7, 9, true));
        let sent = delivery.sent(50, 9, true);
        assert_eq!((sent.first_sent, sent.delivered_at), (50, 50), "nothing was under way");
        for (delivered, acked, left) in [(10, 0, (10, 50)), (11, 1, (0, 9_000))] {
            assert_eq!(delivery.sample(Draft::default(), 9_000, delivered, acked, 1), None);
            assert_eq!((delivery.app_limited, delivery.at), left);
        }
        assert!(!delivery.sent(50, 9, false).app_limited);
    }

    #[test]
    fn the_longer_of_both_intervals_counts() {
        let sampled = |sending, delivered_at: Time, shortest| {
            let prior = Some(Sending { first_sent: 0, delivered_at, delivered: 4, app_limited: true });
            let rate =
                Delivery::default().sample(Draft { prior, number: 0, sending }, 90_000, 9, 1, shortest);
            rate.map(|rate| (rate.delivered, rate.interval, rate.prior_delivered, rate.app_limited))
        };
        assert_eq!(sampled(60, 40_000, 60), Some((5, 60, 4, true)));
        assert_eq!(sampled(40, 30_000, 60), Some((5, 60, 4, true)));
        assert_eq!([sampled(60, 40_000, 61), sampled(0, 90_000, 0)], [None, None]);
    }
}
