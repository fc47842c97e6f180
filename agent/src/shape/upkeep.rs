//! A shaper that runs: it follows the link, takes its turns in a comparison, and is watched.

use std::time::Instant;

use pendulum_model::rate::Rate;
use pendulum_model::segment::{Direction, PerDirection};
use tracing::{info, warn};

use super::device;
use super::{Behind, Measured, OwnLevel, Passing, RateChange, ShapeError, ShapeReading, Shaper};
use crate::snapshot::{Comparison, Outcome};

impl Shaper {
    /// The link's rates are others now (configuration, or learnt). The queue keeps what it holds.
    pub fn set_rates(&mut self, rates: [Option<Rate>; 2]) {
        if rates == self.rates {
            return;
        }
        self.rates = rates;
        self.follow_rates();
        self.tell_kernel();
    }

    /// Once a second: reads what was done, follows what is measured, goes on with the comparison. Whether the queue
    /// stands on another device now.
    pub async fn tick(
        &mut self,
        now: Instant,
        measured: Measured,
        reading: ShapeReading,
        behind: &Behind,
    ) -> bool {
        self.measured = measured;
        // What could not be changed before.
        self.follow_rates();
        let Some(active) = &mut self.active else { return false };
        let counts = active.programs.counts().map(|counts| active.counts = counts);
        active.report(&self.link, "ACKs are not counted", counts.map_err(|error| crate::exit::chain(&error)));
        let shapes = active.shapings.up.is_some() && active.shapes();
        let rate = active.shapings.up.as_ref().and_then(|uplink| uplink.cake().rate);
        if let Some(told) = active.watch.observe(now, behind, rate.filter(|_| shapes)) {
            match told {
                Some(why) => warn!(link = self.link, "shaping does not work: {why}"),
                None => info!(link = self.link, "shaping works again"),
            }
            self.effect = Some(told.map(str::to_owned));
        }
        let moved = self.take_turns(now, reading).await;
        self.tell_kernel();
        moved
    }

    /// Whether rates are found, so that [`Self::follow`] wants to be told what passes.
    pub fn follows(&self) -> bool {
        self.follower.is_some()
            && self.active.as_ref().is_some_and(|active| active.shapings.up.is_some() && active.shapes())
    }

    /// The uplink's rate, bytes per second, as found; none without `rate = "auto"`, the inner one until it is.
    pub fn found_uplink(&self) -> Option<Option<f64>> {
        Some(self.follower.as_ref()?.followed(Direction::Up).capacity)
    }

    /// Ten times a second, while [`Self::follows`]: takes in what passed and waited since the tick before, and sets the rates. What the kernel
    /// refuses is tried again at the next tick. Answers what has changed by more than 10 % since it was last told.
    pub fn follow(
        &mut self,
        now_ns: u64,
        seen: &[(Direction, Passing)],
        own: PerDirection<OwnLevel>,
    ) -> Vec<RateChange> {
        let Some(follower) = &mut self.follower else { return Vec::new() };
        let changes = follower.tick(now_ns, Instant::now(), seen, own);
        self.follow_rates();
        changes
    }

    /// What the comparison has come to, each time that changes.
    pub fn news(&mut self) -> Option<Comparison> {
        self.news.take()
    }

    /// Why the shaper does not work, or, as the inner `None`, that it does again; each time that changes.
    pub fn effect(&mut self) -> Option<Option<String>> {
        self.effect.take()
    }

    async fn take_turns(&mut self, now: Instant, reading: ShapeReading) -> bool {
        let Some(active) = &mut self.active else { return false };
        let shaped = active.shapes();
        let Some(trial) = &mut active.trial else { return false };
        if !trial.observe(now, reading) {
            return false;
        }
        let comparison = trial.comparison();
        if comparison.outcome != active.told {
            active.told = comparison.outcome;
            let statement = comparison.statement();
            match comparison.outcome {
                Outcome::Hurts | Outcome::NoDifference => {
                    let remedy = match trial.declined() {
                        Some(_) => "the link is left alone, and the comparison begins anew after some hours",
                        None => "consider mode = \"auto\" or \"off\", or another rate-percent",
                    };
                    warn!(link = self.link, "{statement}; {remedy}");
                }
                Outcome::Helps | Outcome::Undecided => info!(link = self.link, "{statement}"),
            }
            self.news = Some(comparison);
        }
        if active.shapes() == shaped {
            return false;
        }
        if shaped {
            active.quiesce(&self.settings, &self.measured).await;
        } else {
            let redirected = active.redirect(true).map_err(|error| error.to_string());
            active.report(&self.link, "packets are not redirected again", redirected);
        }
        true
    }

    fn follow_rates(&mut self) {
        let follows = self.follower.is_some();
        for direction in Direction::ALL {
            let wanted = self.wanted(direction);
            let Some(active) = &mut self.active else { return };
            let Some(shaping) = &mut active.shapings[direction] else { continue };
            let changed = match wanted {
                // What was known holds.
                Err(ShapeError::NoUplinkRate(_) | ShapeError::NoDownlinkRate) => continue,
                Ok(cake) if cake == *shaping.cake() => Ok(()),
                Ok(cake) => {
                    let fits = active.port.fits(direction, &cake).map_err(|error| error.to_string());
                    let mut change = || shaping.change(cake).map_err(|error| error.to_string());
                    fits.and_then(|()| change()).inspect(|()| {
                        if !follows {
                            let rate = cake.rate.map(|rate| rate.to_string());
                            info!(link = self.link, rate, "the shaper follows the link");
                        }
                    })
                }
                Err(error) => Err(error.to_string()),
            };
            active.report(&self.link, device::keeps(direction), changed);
        }
    }
}
