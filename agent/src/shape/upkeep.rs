//! A shaper that runs: it follows the link, and takes its turns in a comparison.

use std::time::Instant;

use pendulum_model::rate::Rate;
use pendulum_model::segment::Direction;
use tracing::{info, warn};

use super::{Active, Comparison, Measured, Outcome, RESIZE, Reading, Shaper, plan};
use crate::bpf;
use crate::config::Shape;

impl Shaper {
    /// The link's rates are others now (configuration, or learnt). The queue keeps what it holds.
    pub fn set_rates(&mut self, rates: [Option<Rate>; 2]) {
        if rates == self.rates {
            return;
        }
        self.rates = rates;
        self.resize(true);
        self.tell_kernel();
    }

    /// Once a second: reads what was done, follows what is measured, goes on with the comparison. Whether the queue
    /// stands on another device now.
    pub fn tick(&mut self, now: Instant, measured: Measured, reading: Reading) -> bool {
        self.measured = measured;
        let Some(active) = &mut self.active else { return false };
        match active.programs.counts() {
            Ok(counts) => active.counts = counts,
            Err(error) => warn!(link = self.link, "{}", bpf::chain(&error)),
        }
        match active.programs.acknowledging() {
            Ok(connections) => active.acknowledging = connections,
            Err(error) => warn!(link = self.link, "{}", bpf::chain(&error)),
        }
        if now.duration_since(active.resized) >= RESIZE {
            active.resized = now;
            self.resize(false);
        }
        self.follow_acks(&reading);
        let moved = self.take_turns(now, reading);
        self.tell_kernel();
        moved
    }

    fn follow_acks(&mut self, reading: &Reading) {
        let Some(active) = &mut self.active else { return };
        let acks = active.turn(&self.settings);
        let Some(uplink) = &mut active.uplink else { return };
        active.uploads = plan::has_upload(uplink.line(), reading.goodput[Direction::Up as usize]);
        let line = uplink.line().with_turns(acks.filter(|_| active.uploads), &self.measured);
        if let Err(error) = uplink.change_turn(line) {
            warn!(link = self.link, "cannot change the shaper's classes: {error}");
        }
    }

    /// What the comparison has come to, each time that changes.
    pub fn news(&mut self) -> Option<Comparison> {
        self.news.take()
    }

    fn take_turns(&mut self, now: Instant, reading: Reading) -> bool {
        let Some(active) = &mut self.active else { return false };
        let Some(test) = &mut active.test else { return false };
        if !test.observe(now, reading) {
            return false;
        }
        let shapes = test.shapes();
        let comparison = test.comparison();
        if comparison.outcome != active.told {
            active.told = comparison.outcome;
            let statement = comparison.statement();
            match comparison.outcome {
                Outcome::Hurts | Outcome::NoDifference => {
                    warn!(link = self.link, "{statement}; consider mode = \"off\", or another rate-percent");
                }
                Outcome::Helps | Outcome::Undecided => info!(link = self.link, "{statement}"),
            }
            self.news = Some(comparison);
        }
        if !shapes {
            active.quiesce(&self.settings, &self.measured);
        } else if let Err(error) = active.redirect(true) {
            warn!(link = self.link, "cannot redirect packets again: {error}");
        }
        true
    }

    fn resize(&mut self, now: bool) {
        let Some(active) = &mut self.active else { return };
        let (mtu, acks) = (active.mtu, active.turn(&self.settings).filter(|_| active.uploads));
        let lines = [
            plan::uplink(&self.settings, self.rates, &self.measured, mtu)
                .map(|line| line.with_turns(acks, &self.measured)),
            plan::downlink(&self.settings, self.rates, &self.measured, mtu),
        ];
        for (shaping, line) in [&mut active.uplink, &mut active.downlink].into_iter().zip(lines) {
            let (Some(shaping), Some(line)) = (shaping, line) else { continue };
            if !(now && line != *shaping.line() || line.differs(shaping.line())) {
                continue;
            }
            match shaping.change(line) {
                Ok(()) => info!(
                    link = self.link,
                    rate = %line.rate,
                    buffer_bytes = line.data_bytes,
                    "the shaper follows the link"
                ),
                Err(error) => warn!(link = self.link, "cannot change the shaper: {error}"),
            }
        }
    }
}

impl Active {
    /// How many ACKs may go before data does, if they take turns.
    pub(super) fn turn(&self, settings: &Shape) -> Option<u32> {
        plan::turn(settings, self.filter, self.delta, self.acknowledging)
    }
}
