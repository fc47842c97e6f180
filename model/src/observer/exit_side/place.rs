//! When each packet entered: by its own wait, or between those of its neighbours.

use super::super::rules::RULES;
use super::ExitSide;

impl ExitSide {
    /// Nothing more has come out before `now_ns`: what can be placed now is placed.
    pub(in crate::observer) fn settle(&mut self, now_ns: u64) {
        let is_idle = self.is_idle(now_ns as f64);
        let due = now_ns.saturating_sub((RULES.half * RULES.second_ns) as u64) as f64;
        while self.pending.front().is_some_and(|p| is_idle || p.entered_ns.is_some() || p.left_ns < due) {
            self.place_first();
        }
        // What is still to come out entered after what came out last.
        if is_idle {
            self.placed.0 = self.placed.0.max(now_ns as f64 - self.unseen_ns());
            self.standing.track.doubt(0.0);
        }
        self.standing.hold((self.placed.0 - self.away_ns).max(0.0) as u64);
    }

    /// Nothing comes any more: everything up to `now_ns` is known.
    pub(in crate::observer) fn finish(&mut self, now_ns: u64) {
        while !self.pending.is_empty() {
            self.place_first();
        }
        self.settle(now_ns);
        self.standing.hold(now_ns);
    }

    /// The oldest packet that is not placed enters and leaves the buffer.
    pub(super) fn place_first(&mut self) {
        let Some(packet) = self.pending.pop_front() else { return };
        let ahead = self.pending.iter().take(RULES.values_max).find(|packet| packet.entered_ns.is_some());
        let next = ahead.and_then(|packet| Some((packet.entered_ns?, packet.left_ns)));
        // Between two that were measured it waited about as long as they did.
        let doubt_ns = ahead.filter(|_| packet.entered_ns.is_none()).map_or(packet.doubt_ns, |ahead| {
            let waited = |entered: f64, left: f64| left - entered;
            let changed_ns = waited(self.placed.0, self.placed.1)
                - waited(ahead.entered_ns.unwrap_or(ahead.left_ns), ahead.left_ns);
            packet.doubt_ns.min(ahead.doubt_ns + changed_ns.abs() / 2.0)
        });
        let entered = packet.entered_ns.unwrap_or_else(|| match next {
            // As far between its neighbours' entries as between their departures.
            Some((entered, left)) if left > self.placed.1 => {
                let share = (packet.left_ns - self.placed.1) / (left - self.placed.1);
                self.placed.0 + share * (entered - self.placed.0)
            }
            // It waited as long as the one before.
            _ => packet.left_ns - (self.placed.1 - self.placed.0),
        });
        let latest = next.map_or(packet.left_ns, |(entered, _)| entered.min(packet.left_ns));
        let entered = entered.min(latest).max(self.placed.0).min(packet.left_ns);
        self.placed = (entered.max(self.placed.0), packet.left_ns);
        self.standing.track.doubt(doubt_ns);
        let there = |here_ns: f64| (here_ns - self.away_ns).max(0.0) as u64;
        self.standing.enter(there(entered), [(there(packet.left_ns), packet.bytes)]);
    }
}
