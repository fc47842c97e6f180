//! Connections of TCP, and our own queue of each, for closed loops.

use std::collections::VecDeque;

/// CoDel's, seconds (RFC 8289, section 4.2 and 4.3). As in cake, one and a half packets may always wait.
const TARGET: f64 = 0.005;
const INTERVAL: f64 = 0.1;
const TARGET_PACKETS: f64 = 1.5;
/// Connections without an answer for so long begin again, seconds.
const TIMEOUT: f64 = 1.0;
/// Slow start ends when the round trip is so many times the one without queues, as HyStart has it (RFC 9406, simplified).
const LONGER: f64 = 1.3;

/// How a connection's window changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Congestion {
    /// RFC 9438: falls to 0.7.
    Cubic,
    /// RFC 5681: falls to a half.
    Reno,
}

/// Times in seconds; `entered`: the queue in which it stands.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its connection.
    pub flow: usize,
    /// When it was sent.
    pub sent: f64,
    /// When it entered the queue in which it stands.
    pub entered: f64,
    /// What it waited elsewhere.
    pub waited: f64,
}

/// A connection's sender.
#[derive(Debug)]
pub struct Flow {
    congestion: Congestion,
    window: f64,
    threshold: f64,
    most: f64,
    fell: f64,
    flying: usize,
    /// Packets that are left to send; `None`: always some.
    left: Option<usize>,
    heard: f64,
    /// Lost packets that are not sent again yet, and when one was sent again last.
    missing: usize,
    repeated: f64,
}

impl Flow {
    /// A connection that starts `now`; `left`: packets to send.
    pub fn new(congestion: Congestion, left: Option<usize>, now: f64) -> Self {
        let (window, threshold, repeated) = (10.0, 1e9, f64::MIN);
        Self {
            congestion,
            window,
            threshold,
            most: 0.0,
            fell: now,
            flying: 0,
            left,
            heard: now,
            missing: 0,
            repeated,
        }
    }

    /// Whether it still has something to do.
    pub fn is_active(&self) -> bool {
        self.left != Some(0) || self.flying > 0
    }

    /// Whether the ACK of a packet sent then tells how long it took: after a packet was sent again, earlier ones do not (Karn's rule).
    pub fn tells(&self, sent: f64) -> bool {
        sent > self.repeated
    }

    /// Whether a packet is sent now.
    pub fn sends(&mut self, now: f64) -> bool {
        if (self.flying as f64) + 1.0 > self.window || self.left == Some(0) {
            return false;
        }
        self.left = self.left.map(|left| left - 1);
        self.flying += 1;
        if let Some(missing) = self.missing.checked_sub(1) {
            (self.missing, self.repeated) = (missing, now);
        }
        true
    }

    /// `usual`: the round trip without queues.
    pub fn acknowledged(&mut self, now: f64, round_trip: f64, usual: f64) {
        self.flying = self.flying.saturating_sub(1);
        self.heard = now;
        if self.window < self.threshold && round_trip > LONGER * usual {
            self.threshold = self.window;
        }
        self.window += match self.congestion {
            _ if self.window < self.threshold => 1.0,
            Congestion::Reno => 1.0 / self.window,
            Congestion::Cubic => {
                let root = (self.most * 0.3 / 0.4).cbrt();
                let target = 0.4 * (now - self.fell + round_trip - root).powi(3) + self.most;
                // Not slower than Reno would grow.
                ((target - self.window) / self.window).clamp(0.53 / self.window, 0.5)
            }
        };
    }

    /// One that was sent then is known to be lost.
    pub fn lost(&mut self, now: f64, sent: f64) {
        self.flying = self.flying.saturating_sub(1);
        self.left = self.left.map(|left| left + 1);
        self.heard = now;
        self.missing += 1;
        if sent < self.fell {
            return;
        }
        self.most = self.window;
        self.window *= if self.congestion == Congestion::Cubic { 0.7 } else { 0.5 };
        self.window = self.window.max(2.0);
        (self.threshold, self.fell) = (self.window, now);
    }

    /// After a time without an answer all that was sent counts as lost.
    pub fn time_out(&mut self, now: f64) {
        if self.flying > 0 && now - self.heard > TIMEOUT {
            (self.threshold, self.window, self.most) = ((self.window / 2.0).max(2.0), 2.0, self.window);
            (self.missing, self.flying, self.heard, self.fell) = (self.flying, 0, now, now);
        }
    }
}

/// Our own queue of one connection.
#[derive(Debug, Default)]
pub struct Codel {
    /// What is queued.
    pub packets: VecDeque<Packet>,
    above_since: Option<f64>,
    next: f64,
    count: u32,
    drops: bool,
}

impl Codel {
    /// The next packet, and those that are dropped before it. `packet`: the time that one takes at the present rate, seconds.
    pub fn take(&mut self, now: f64, packet: f64, dropped: &mut Vec<Packet>) -> Option<Packet> {
        let target = TARGET.max(TARGET_PACKETS * packet);
        let interval = INTERVAL + target - TARGET;
        loop {
            let packet = self.packets.pop_front()?;
            if now - packet.entered < target || self.packets.is_empty() {
                (self.above_since, self.drops) = (None, false);
                return Some(packet);
            }
            let since = *self.above_since.get_or_insert(now);
            let begins = !self.drops && now - since > interval;
            let goes_on = self.drops && now >= self.next;
            if !begins && !goes_on {
                return Some(packet);
            }
            self.count = if self.drops { self.count + 1 } else { self.count.saturating_sub(2).max(1) };
            self.drops = true;
            self.next = now + interval / f64::from(self.count).sqrt();
            dropped.push(packet);
        }
    }
}
