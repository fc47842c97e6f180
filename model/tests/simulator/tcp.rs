//! One TCP connection: NewReno congestion control (RFC 5681) with a SACK scoreboard (RFC 6675) and delayed ACKs.
//! Sequence numbers count whole segments.

use std::collections::BTreeSet;

const INITIAL_WINDOW: f64 = 3.0;
const MIN_RTO_S: f64 = 1.0;
const DUPLICATES: usize = 3;

/// Sending side.
pub(super) struct Sender {
    window: f64,
    threshold: f64,
    next_new: u64,
    acknowledged: u64,
    sacked: BTreeSet<u64>,
    lost: BTreeSet<u64>,
    retransmitted: BTreeSet<u64>,
    /// End of the recovery: the highest segment sent when it began.
    recover: Option<u64>,
    /// Segments the application has handed over; unlimited for a bulk transfer.
    pub(super) offered: u64,
    stopped: bool,
    smoothed_rtt: Option<f64>,
    rtt_variation: f64,
    backoff: f64,
    timer: u64,
    timer_wanted: bool,
    timer_running: bool,
    last_rtt: Option<f64>,
    min_rtt: Option<f64>,
}

impl Sender {
    pub(super) fn new(application_limited: bool) -> Self {
        Self {
            window: INITIAL_WINDOW,
            threshold: f64::INFINITY,
            next_new: 0,
            acknowledged: 0,
            sacked: BTreeSet::new(),
            lost: BTreeSet::new(),
            retransmitted: BTreeSet::new(),
            recover: None,
            offered: if application_limited { 0 } else { u64::MAX },
            stopped: false,
            smoothed_rtt: None,
            rtt_variation: 0.0,
            backoff: 1.0,
            timer: 0,
            timer_wanted: false,
            timer_running: false,
            last_rtt: None,
            min_rtt: None,
        }
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.offered = self.offered.min(self.next_new);
    }

    pub(super) fn last_rtt(&self) -> Option<f64> {
        self.last_rtt
    }

    pub(super) fn min_rtt(&self) -> Option<f64> {
        self.min_rtt
    }

    pub(super) fn outstanding(&self) -> u64 {
        self.next_new - self.acknowledged
    }

    /// RFC 6675 "pipe": sent, and neither known to have arrived nor to be lost.
    fn pipe(&self) -> f64 {
        let resent = self.retransmitted.iter().filter(|number| self.lost.contains(number)).count();
        (self.outstanding() as usize + resent - self.sacked.len() - self.lost.len()) as f64
    }

    /// The next segment the window allows.
    pub(super) fn next(&mut self) -> Option<u64> {
        if self.pipe() + 1.0 > self.window.max(1.0).floor() {
            return None;
        }
        let number = match self.lost.iter().find(|number| !self.retransmitted.contains(number)) {
            Some(&number) => {
                self.retransmitted.insert(number);
                number
            }
            None if self.next_new < self.offered => {
                self.next_new += 1;
                self.next_new - 1
            }
            None => return None,
        };
        if !self.timer_running {
            self.timer_wanted = true;
        }
        Some(number)
    }

    pub(super) fn acknowledged(&mut self, number: u64, sacked: &BTreeSet<u64>, rtt: f64) {
        self.measure(rtt);
        let advanced = number > self.acknowledged;
        if advanced {
            self.acknowledged = number.min(self.next_new);
            self.backoff = 1.0;
            self.timer_wanted = true;
        }
        self.sacked = sacked.iter().copied().filter(|&x| x >= self.acknowledged).collect();
        let (floor, sacked) = (self.acknowledged, &self.sacked);
        self.lost.retain(|x| *x >= floor && !sacked.contains(x));
        self.retransmitted.retain(|x| *x >= floor && !sacked.contains(x));
        self.find_losses();
        match self.recover {
            Some(end) if self.acknowledged > end => self.recover = None,
            // After a timeout the window grows by slow start while the holes are filled.
            Some(_) if advanced && self.window < self.threshold => self.window += 1.0,
            Some(_) => {}
            None if !self.lost.is_empty() => self.enter_recovery(),
            None if advanced => self.grow(),
            None => {}
        }
    }

    fn grow(&mut self) {
        // An application-limited window must not grow (RFC 7661).
        if (self.outstanding() as f64) + 4.0 < self.window {
            return;
        }
        self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
    }

    fn find_losses(&mut self) {
        let Some(&edge) = self.sacked.iter().rev().nth(DUPLICATES - 1) else { return };
        for number in self.acknowledged..edge {
            if !self.sacked.contains(&number) {
                self.lost.insert(number);
            }
        }
    }

    fn enter_recovery(&mut self) {
        self.threshold = (self.outstanding() as f64 / 2.0).max(2.0);
        self.window = self.threshold;
        self.recover = Some(self.next_new - 1);
    }

    fn measure(&mut self, rtt: f64) {
        self.last_rtt = Some(rtt);
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        match self.smoothed_rtt {
            None => {
                self.smoothed_rtt = Some(rtt);
                self.rtt_variation = rtt / 2.0;
            }
            Some(smoothed) => {
                self.rtt_variation += ((smoothed - rtt).abs() - self.rtt_variation) / 4.0;
                self.smoothed_rtt = Some(smoothed + (rtt - smoothed) / 8.0);
            }
        }
    }

    /// Restarts the retransmission timer if something happened that restarts it.
    pub(super) fn arm_timer(&mut self) -> Option<(u64, f64)> {
        if self.outstanding() == 0 {
            self.timer_running = false;
            self.timer += 1;
            return None;
        }
        if !std::mem::take(&mut self.timer_wanted) {
            return None;
        }
        self.timer_running = true;
        self.timer += 1;
        let rto = self.smoothed_rtt.map_or(1.0, |smoothed| smoothed + 4.0 * self.rtt_variation);
        Some((self.timer, (rto.max(MIN_RTO_S) * self.backoff).min(60.0)))
    }

    /// The timer fired; whether it was still the current one.
    pub(super) fn timeout(&mut self, stamp: u64) -> bool {
        if stamp != self.timer || self.outstanding() == 0 {
            return false;
        }
        self.threshold = (self.outstanding() as f64 / 2.0).max(2.0);
        self.window = 1.0;
        self.backoff *= 2.0;
        self.recover = Some(self.next_new - 1);
        self.lost = (self.acknowledged..self.next_new).filter(|x| !self.sacked.contains(x)).collect();
        self.retransmitted.clear();
        self.timer_wanted = true;
        true
    }
}

/// What the receiver does about a segment.
pub(super) enum Reply {
    Now,
    /// After the delayed-ACK timeout, unless a second segment comes first.
    Later(u64),
}

/// Receiving side.
pub(super) struct Receiver {
    expected: u64,
    above: BTreeSet<u64>,
    delayed_acks: bool,
    pending: u64,
    stamp: u64,
    echo_ns: u64,
}

impl Receiver {
    pub(super) fn new(delayed_acks: bool) -> Self {
        Self { expected: 0, above: BTreeSet::new(), delayed_acks, pending: 0, stamp: 0, echo_ns: 0 }
    }

    pub(super) fn delivered(&self) -> u64 {
        self.expected
    }

    pub(super) fn above(&self) -> &BTreeSet<u64> {
        &self.above
    }

    pub(super) fn receive(&mut self, number: u64, sent_ns: u64) -> Reply {
        let in_order = number == self.expected && self.above.is_empty();
        // RFC 7323: the echo is that of the earliest segment not yet acknowledged.
        if self.pending == 0 {
            self.echo_ns = sent_ns;
        }
        if number >= self.expected {
            self.above.insert(number);
            while self.above.remove(&self.expected) {
                self.expected += 1;
            }
        }
        self.pending += 1;
        if !self.delayed_acks || !in_order || self.pending >= 2 {
            return Reply::Now;
        }
        self.stamp += 1;
        Reply::Later(self.stamp)
    }

    pub(super) fn delayed_ack_due(&self, stamp: u64) -> bool {
        stamp == self.stamp && self.pending > 0
    }

    pub(super) fn acknowledge(&mut self) -> (u64, u64) {
        self.pending = 0;
        (self.expected, self.echo_ns)
    }
}
