//! Findings of transfers that are slow although packets wait nowhere: their receiver's window limits them, or their sender.

use super::lasting::Lasting;
use super::{BloatNews, Budget, Place};
use crate::constants::{HALF, LITTLE, MOST};
use crate::findings::{Evidence, Figure, FindingKind};
use crate::link::Known;
use crate::ratio::SEGMENT_BYTES;
use crate::segment::{Direction, PerDirection};

/// A bulk transfer has no more payload the other way, as a part of its own: calls and tunnels carry more.
const BACKWARD: f64 = 0.02;

/// A sender that is silent for so many round trips has nothing to send.
const SILENT_ROUND_TRIPS: f64 = 2.0;

/// A transfer within the second.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Where its data goes.
    pub direction: Direction,
    /// Acknowledged payload, bytes per second.
    pub goodput: f64,
    /// Mean payload of a segment, bytes.
    pub segment_bytes: f64,
    /// Payload that goes the other way, bytes per second.
    pub backward: f64,
    /// The receiver's window, bytes; `None` if its scale is unknown.
    pub window_bytes: Option<f64>,
    /// From end to end and back, without queues, seconds.
    pub round_trip_s: f64,
    /// How long the sender has sent nothing, at the end of the second, seconds.
    pub silent_s: f64,
    /// Segments were sent again.
    pub retransmits: bool,
}

/// What limits a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limiter {
    Sender,
    Receiver,
}

impl Transfer {
    /// `None`: it is not slow, or it is not known what limits it.
    fn limit(&self, rate: Option<Known>) -> Option<Limiter> {
        // Calls and games send short segments.
        let is_bulk = self.goodput >= LITTLE
            && self.segment_bytes >= HALF * SEGMENT_BYTES
            && self.backward <= BACKWARD * self.goodput;
        if !is_bulk || self.goodput > HALF * rate?.value || self.round_trip_s <= 0.0 {
            return None;
        }
        let window_bytes = self.window_bytes?;
        let on_the_way = self.goodput * self.round_trip_s;
        let is_silent = self.silent_s > SILENT_ROUND_TRIPS * self.round_trip_s;
        if on_the_way >= MOST * window_bytes {
            Some(Limiter::Receiver)
        } else {
            let is_open = on_the_way <= HALF * window_bytes;
            (is_open && is_silent && !self.retransmits).then_some(Limiter::Sender)
        }
    }
}

/// Both findings of one link.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    sender: Lasting,
    receiver: Lasting,
}

impl Limits {
    /// One second. The greatest transfer that is slow counts.
    pub fn push(
        &mut self,
        at_s: f64,
        budget: &Budget,
        transfers: &[Transfer],
        rates: &PerDirection<Option<Known>>,
    ) -> Vec<BloatNews> {
        let slow = if budget.place() == Place::Nowhere { transfers } else { &[] };
        let limits = slow
            .iter()
            .filter_map(|transfer| Some((transfer.goodput, transfer.limit(rates[transfer.direction])?)));
        let greatest = limits.max_by(|(a, _), (b, _)| a.total_cmp(b));
        let goodput = |limit: Limiter| greatest.filter(|(_, of)| *of == limit).map(|(goodput, _)| goodput);
        let mut news = Vec::new();
        for (limit, lasting) in [(Limiter::Sender, &mut self.sender), (Limiter::Receiver, &mut self.receiver)]
        {
            let Some(begins) = lasting.push(at_s, goodput(limit)) else { continue };
            news.push(BloatNews {
                finding: limit.finding(),
                begins,
                evidence: limit.evidence(begins, lasting, at_s),
            });
        }
        news
    }

    /// Which hold: since when, and the mean goodput, bytes per second.
    pub fn holds(&self) -> [Option<(f64, f64)>; 2] {
        [&self.sender, &self.receiver].map(|lasting| Some((lasting.since_s()?, lasting.mean())))
    }
}

impl Limiter {
    const fn finding(self) -> FindingKind {
        match self {
            Self::Sender => FindingKind::SenderLimited,
            Self::Receiver => FindingKind::ReceiverLimited,
        }
    }

    fn evidence(self, begins: bool, lasting: &Lasting, at_s: f64) -> Evidence {
        let (share, needed) = lasting.shares();
        let mut figures = vec![Figure::against("limited_share", share, needed)];
        figures.extend(begins.then(|| Figure::new("goodput", lasting.mean())));
        let mbps = lasting.mean() * 8.0 / 1e6;
        let reason = match (self, begins) {
            (Self::Sender, true) => format!(
                "a transfer gets {mbps:.1} Mbit/s and packets wait nowhere: its sender pauses while the receiver's window is open"
            ),
            (Self::Receiver, true) => format!(
                "a transfer gets {mbps:.1} Mbit/s and packets wait nowhere: its receiver's window allows no more"
            ),
            (Self::Sender, false) => "no transfer is limited by its sender".to_owned(),
            (Self::Receiver, false) => "no transfer is limited by its receiver's window".to_owned(),
        };
        Evidence::new("transfer_limit", reason, figures, lasting.since_s().unwrap_or(at_s))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Delay, Segment, Unknown};
    use super::*;
    use crate::link::Provenance;

    const RATES: PerDirection<Option<Known>> = PerDirection {
        up: Some(Known { value: 1e6, provenance: Provenance::Config }),
        down: Some(Known { value: 5e6, provenance: Provenance::Config }),
    };

    fn budget(beyond_s: f64) -> Budget {
        let delay = |queue_s| Ok(Delay { base_s: 0.01, queue_s, uncertainty_s: 0.005 });
        let mut segments = [delay(0.0); Segment::ALL.len()];
        segments[Segment::Beyond as usize] = delay(beyond_s);
        Budget { segments, home_host: None, far_host: None, may_wait_s: 0.0 }
    }

    /// 64 kB of window and a round trip of 100 ms: no more than 640 kB/s on a line of 5 MB/s.
    const SMALL_WINDOW: Transfer = Transfer {
        direction: Direction::Down,
        goodput: 630_000.0,
        segment_bytes: 1_448.0,
        backward: 0.0,
        window_bytes: Some(65_535.0),
        round_trip_s: 0.1,
        silent_s: 0.07,
        retransmits: false,
    };
    /// A server that sends 50 kB each 300 ms.
    const SLOW_SENDER: Transfer = Transfer {
        goodput: 166_000.0,
        window_bytes: Some(1e6),
        round_trip_s: 0.03,
        silent_s: 0.2,
        ..SMALL_WINDOW
    };

    /// What begins within a minute of this.
    fn said(of: impl Fn(u32) -> Vec<Transfer>, beyond_s: f64) -> Vec<FindingKind> {
        let mut limits = Limits::default();
        let mut news = Vec::new();
        for second in 0..60 {
            news.extend(limits.push(second.into(), &budget(beyond_s), &of(second), &RATES));
        }
        news.into_iter().filter(|news| news.begins).map(|news| news.finding).collect()
    }

    #[test]
    fn a_window_or_a_sender_that_limits_a_transfer_is_named() {
        assert_eq!(said(|_| vec![SMALL_WINDOW], 0.0), [FindingKind::ReceiverLimited]);
        assert_eq!(said(|_| vec![SLOW_SENDER], 0.0), [FindingKind::SenderLimited]);
        let smaller = Transfer { goodput: 50_000.0, ..SLOW_SENDER };
        assert_eq!(said(|_| vec![smaller, SMALL_WINDOW], 0.0), [FindingKind::ReceiverLimited]);
    }

    /// A little below and above each figure that a slow bulk transfer and its limit have.
    #[test]
    fn a_slow_transfer_and_its_limit_have_edges() {
        let limit = |transfer: Transfer| transfer.limit(RATES[transfer.direction]);
        let (sender, receiver) = (Some(Limiter::Sender), Some(Limiter::Receiver));
        let goodput = |goodput| limit(Transfer { goodput, ..SLOW_SENDER });
        assert_eq!([5_500.0, 6_500.0, 2.4e6, 2.6e6].map(goodput), [None, sender, sender, None]);
        let segment = |segment_bytes| limit(Transfer { segment_bytes, ..SLOW_SENDER });
        assert_eq!([700.0, 800.0].map(segment), [None, sender]);
        let backward = |part| limit(Transfer { backward: part * SLOW_SENDER.goodput, ..SLOW_SENDER });
        assert_eq!([0.018, 0.022].map(backward), [sender, None]);
        let silent = |round_trips| limit(Transfer { silent_s: round_trips * 0.03, ..SLOW_SENDER });
        assert_eq!([1.8, 2.2].map(silent), [None, sender]);
        let window = |part| {
            let window_bytes = Some(SMALL_WINDOW.goodput * SMALL_WINDOW.round_trip_s / part);
            limit(Transfer { window_bytes, silent_s: 0.3, ..SMALL_WINDOW })
        };
        assert_eq!([0.45, 0.55, 0.75, 0.85].map(window), [sender, None, None, receiver]);
    }

    #[test]
    fn they_end_with_the_transfer() {
        let mut limits = Limits::default();
        let mut course = Vec::new();
        for second in 0..60 {
            let transfers = if second < 30 { vec![SMALL_WINDOW] } else { vec![] };
            let news = limits.push(second.into(), &budget(0.0), &transfers, &RATES);
            course.extend(news.iter().map(|news| (second, news.begins)));
            let holds = limits.holds()[1].is_some();
            assert_eq!(holds, course.last().is_some_and(|(_, begins)| *begins));
        }
        assert_eq!(course, [(11, true), (46, false)]);
    }

    /// Where packets wait, where that is unknown, and where it is not known what the window is, nothing is said.
    #[test]
    fn what_is_not_known_is_not_said() {
        assert_eq!(said(|_| vec![SMALL_WINDOW], 0.2), []);
        assert_eq!(said(|_| vec![Transfer { window_bytes: None, ..SMALL_WINDOW }], 0.0), []);
        let mut limits = Limits::default();
        let mut unknown = budget(0.0);
        unknown.segments[Segment::Beyond as usize] = Err(Unknown::OneEnd);
        for second in 0..60 {
            assert_eq!(limits.push(second.into(), &unknown, &[SMALL_WINDOW], &RATES), []);
            assert_eq!(
                limits.push(second.into(), &budget(0.0), &[SMALL_WINDOW], &PerDirection::default()),
                []
            );
        }
    }

    #[test]
    fn ordinary_traffic_is_limited_by_nobody() {
        let idle = Transfer { goodput: 200.0, segment_bytes: 100.0, ..SLOW_SENDER };
        assert_eq!(said(|_| vec![idle], 0.0), [], "idle connections");
        let page = Transfer { goodput: 1e6, ..SLOW_SENDER };
        assert_eq!(
            said(|second| if second % 4 == 0 { vec![page] } else { vec![] }, 0.0),
            [],
            "web, video in pieces"
        );
        let call = Transfer {
            goodput: 150_000.0,
            segment_bytes: 1_100.0,
            backward: 100_000.0,
            silent_s: 0.07,
            ..SLOW_SENDER
        };
        assert_eq!(said(|_| vec![call], 0.0), [], "a video call over TCP");
        let vpn = Transfer { goodput: 300_000.0, segment_bytes: 1_400.0, backward: 12_000.0, ..SLOW_SENDER };
        assert_eq!(said(|_| vec![vpn], 0.0), [], "a tunnel over TCP that carries a download");
        let speed_test = Transfer { goodput: 4.6e6, window_bytes: Some(4e5), ..SMALL_WINDOW };
        assert_eq!(said(|_| vec![speed_test], 0.0), [], "a speed test");
        let lossy = Transfer { retransmits: true, ..SLOW_SENDER };
        assert_eq!(said(|_| vec![lossy], 0.0), [], "a policer beyond the line");
        let paced = Transfer { silent_s: 0.002, ..SLOW_SENDER };
        assert_eq!(said(|_| vec![paced], 0.0), [], "a bottleneck beyond the line that BBR keeps empty");
    }

    #[test]
    fn the_sentence_tells_the_goodput() {
        for (transfer, said) in
            [(SMALL_WINDOW, "a transfer gets 5.0 Mbit/s"), (SLOW_SENDER, "a transfer gets 1.3 Mbit/s")]
        {
            let mut limits = Limits::default();
            let news =
                (0..12).flat_map(|at| limits.push(at.into(), &budget(0.0), &[transfer], &RATES)).next();
            let evidence = news.expect("it begins").evidence;
            assert!(evidence.reason.starts_with(said), "{}", evidence.reason);
            assert_eq!(evidence.figure("goodput"), Some(transfer.goodput));
        }
    }
}
