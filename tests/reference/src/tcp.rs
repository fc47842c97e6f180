//! One TCP connection of paper 002: a sender that counts ACKs, and a receiver that acknowledges every `d` segments.
//!
//! The forward path loses nothing ("router buffers in the forward direction are large enough", 002 §2), so there is no fast
//! retransmit. ACKs can be lost: more often than not a later one covers for them, and where none comes the timer expires.
//!
//! Why not the TCP of `pendulum_model::simulate`: that one is Linux'. It grows its window by the segments that an ACK covers
//! (`tcp_slow_start`), so a filter that erases ACKs does not slow it, and what the paper shows in Figures 4 to 7 and derives in
//! §2.3, growth by one segment for each ACK, does not exist there. To run the paper's experiments it would need a sender that
//! no kernel has, a connection for each file, and a buffer that erases and reorders, all of it in what the agent links.

use std::time::Duration;

/// RFC 6298 §2.1, 2.4, 2.5.
const FIRST_RTO: Duration = Duration::from_secs(3);
const LEAST_RTO: Duration = Duration::from_secs(1);
const MOST_RTO: Duration = Duration::from_secs(60);
/// How long a receiver withholds an ACK for the next segment.
pub(crate) const DELAYED_ACK: Duration = Duration::from_millis(200);

/// The sender: slow start and congestion avoidance by ACKs received, not by bytes acknowledged (RFC 2581, before RFC 3465).
#[derive(Clone, Debug)]
pub(crate) struct PlainSender {
    /// Segments to deliver.
    total: u64,
    next: u64,
    acked: u64,
    window: f64,
    threshold: f64,
    most: f64,
    smoothed: Option<(Duration, Duration)>,
    timeout: Duration,
    /// A segment whose round trip is being timed, and when it was sent.
    timed: Option<(u64, Duration)>,
    deadline: Option<Duration>,
}

impl PlainSender {
    /// A sender of `total` segments whose receiver takes `most` at a time.
    pub(crate) fn new(total: u64, most: f64) -> Self {
        Self {
            total,
            next: 0,
            acked: 0,
            window: 1.0,
            threshold: f64::INFINITY,
            most,
            smoothed: None,
            timeout: FIRST_RTO,
            timed: None,
            deadline: None,
        }
    }

    pub(crate) fn window(&self) -> f64 {
        self.window
    }

    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    pub(crate) fn is_done(&self) -> bool {
        self.acked >= self.total
    }

    /// When the retransmission timer expires; `None` if nothing is outstanding.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The next segment that the window lets out, if any.
    pub(crate) fn send(&mut self, now: Duration) -> Option<u64> {
        if self.next >= self.total || self.next - self.acked >= self.window as u64 {
            return None;
        }
        let segment = self.next;
        self.next += 1;
        self.timed.get_or_insert((segment, now));
        self.deadline.get_or_insert(now + self.timeout);
        Some(segment)
    }

    /// An ACK for all segments before `number`.
    pub(crate) fn acknowledge(&mut self, number: u64, now: Duration) {
        if number <= self.acked {
            return;
        }
        self.acked = number;
        self.next = self.next.max(number);
        if let Some((_, sent)) = self.timed.take_if(|(segment, _)| *segment < number) {
            self.note_round_trip(now.saturating_sub(sent));
        }
        let increase = if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
        self.window = (self.window + increase).min(self.most);
        self.deadline = (self.next > self.acked).then(|| now + self.timeout);
    }

    /// The retransmission timer has expired: back to the first segment that is not acknowledged, in slow start.
    pub(crate) fn expire(&mut self) {
        let outstanding = (self.next - self.acked) as f64;
        self.threshold = (outstanding / 2.0).max(2.0);
        self.window = 1.0;
        self.next = self.acked;
        // Karn: what was sent twice is not timed.
        self.timed = None;
        self.timeout = (self.timeout * 2).min(MOST_RTO);
        self.deadline = None;
    }

    /// RFC 6298 §2.2, 2.3.
    fn note_round_trip(&mut self, sample: Duration) {
        let (mean, deviation) = match self.smoothed {
            None => (sample, sample / 2),
            Some((mean, deviation)) => ((mean * 7 + sample) / 8, (deviation * 3 + mean.abs_diff(sample)) / 4),
        };
        self.smoothed = Some((mean, deviation));
        self.timeout = (mean + deviation * 4).clamp(LEAST_RTO, MOST_RTO);
    }
}

/// The receiver.
#[derive(Clone, Debug)]
pub(crate) struct PlainReceiver {
    segments_per_ack: u32,
    next: u64,
    unacknowledged: u32,
    deadline: Option<Duration>,
}

impl PlainReceiver {
    /// A receiver that acknowledges every `segments_per_ack` segments.
    pub(crate) fn new(segments_per_ack: u32) -> Self {
        Self { segments_per_ack, next: 0, unacknowledged: 0, deadline: None }
    }

    /// When it acknowledges what it has withheld so far.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// A segment arrives; returns the ACK to send now.
    pub(crate) fn receive(&mut self, segment: u64, now: Duration) -> Option<u64> {
        let repeated = segment != self.next;
        if !repeated {
            self.next += 1;
            self.unacknowledged += 1;
        }
        if repeated || self.unacknowledged >= self.segments_per_ack {
            return Some(self.acknowledge());
        }
        self.deadline.get_or_insert(now + DELAYED_ACK);
        None
    }

    /// The ACK for everything received.
    pub(crate) fn acknowledge(&mut self) -> u64 {
        self.unacknowledged = 0;
        self.deadline = None;
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(200);

    fn send_all(sender: &mut PlainSender, now: Duration) -> Vec<u64> {
        std::iter::from_fn(|| sender.send(now)).collect()
    }

    #[test]
    fn each_ack_of_slow_start_lets_two_segments_out() {
        let mut sender = PlainSender::new(100, f64::INFINITY);
        assert_eq!(send_all(&mut sender, Duration::ZERO), [0]);
        sender.acknowledge(1, RTT);
        assert_eq!(send_all(&mut sender, RTT), [1, 2]);
        sender.acknowledge(2, RTT * 2);
        sender.acknowledge(3, RTT * 2);
        assert_eq!(send_all(&mut sender, RTT * 2), [3, 4, 5, 6]);
    }

    #[test]
    fn an_ack_for_many_segments_grows_the_window_by_one() {
        let mut sender = PlainSender::new(100, 4.0);
        send_all(&mut sender, Duration::ZERO);
        sender.acknowledge(1, RTT);
        send_all(&mut sender, RTT);
        sender.acknowledge(3, RTT);
        assert_eq!(sender.window(), 3.0);
        assert_eq!(send_all(&mut sender, RTT), [3, 4, 5]);
    }

    #[test]
    fn a_timeout_starts_over_and_an_ack_skips_what_had_arrived() {
        let mut sender = PlainSender::new(8, 4.0);
        send_all(&mut sender, Duration::ZERO);
        assert_eq!(sender.deadline(), Some(FIRST_RTO));
        sender.expire();
        assert_eq!(send_all(&mut sender, FIRST_RTO), [0]);
        assert_eq!(sender.deadline(), Some(FIRST_RTO * 3));
        sender.acknowledge(8, FIRST_RTO + RTT);
        assert!(sender.is_done() && sender.deadline().is_none());
    }

    /// RFC 6298 §2.2, 2.3: of 2 s, 2 + 4 · 1; then of 2.8 s, mean (7 · 2 + 2.8) / 8 and deviation (3 · 1 + 0.8) / 4.
    #[test]
    fn the_timeout_is_the_mean_and_four_deviations() {
        let mut sender = PlainSender::new(8, 4.0);
        sender.note_round_trip(Duration::from_secs(2));
        assert_eq!(sender.timeout, Duration::from_secs(6));
        sender.note_round_trip(Duration::from_millis(2_800));
        assert_eq!(sender.timeout, Duration::from_millis(2_100 + 4 * 950));
    }

    #[test]
    fn an_odd_segment_waits_for_the_next_or_the_timer() {
        let mut receiver = PlainReceiver::new(2);
        assert_eq!(receiver.receive(0, Duration::ZERO), None);
        assert_eq!(receiver.deadline(), Some(DELAYED_ACK));
        assert_eq!(receiver.receive(1, Duration::ZERO), Some(2));
        assert_eq!(receiver.receive(0, Duration::ZERO), Some(2));
        assert_eq!(receiver.deadline(), None);
    }
}
