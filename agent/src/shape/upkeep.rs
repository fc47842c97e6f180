//! A shaper that runs: it follows the link, takes its turns in a comparison, and is watched.

use std::time::{Duration, Instant};

use pendulum_model::autorate::Need;
use pendulum_model::segment::{Direction, PerDirection};
use tracing::{info, warn};

use super::behind::DeviceCounts;
use super::desired::{HANDLE, side};
use super::probe::{FirstHop, Prober};
use super::{
    Behind, Comparison, MeasuredTraffic, OwnLevel, Passing, RateChange, Shaper, TrialOutcome, TrialTurn,
    conflict,
};
use crate::bpf;
use crate::config::Probe;
use crate::net::Device;
use crate::net::control::read_filters;
use crate::snapshot::ShapeState;

impl Shaper {
    /// Once a second, on the device while it is there: looks and mends, reads what was done, goes on with the comparison.
    pub async fn tick(
        &mut self,
        device: Option<&Device>,
        measured: MeasuredTraffic,
        reading: TrialTurn,
        behind: &Behind,
    ) {
        self.measured = measured;
        self.reconcile(device, true).await;
        let Some(device) = device else { return };
        self.watch(device, behind);
        if self.take_turns(Instant::now(), reading) {
            self.reconcile(Some(device), false).await;
        }
    }

    fn watch(&mut self, device: &Device, behind: &Behind) {
        let shaped = |x: Direction| self.in_place[x].as_ref().filter(|place| place.redirects);
        let places = PerDirection::from_fn(|x| shaped(x).map(|place| (place.ifindex, place.sent)));
        let rate = shaped(Direction::Up).and_then(|place| place.cake.rate);
        let Some(active) = &mut self.active else { return };
        let sent = DeviceCounts::read(device.index, places);
        let suspects = |direction| {
            let filters = read_filters(device.index).unwrap_or_default();
            let others: Vec<_> = filters.iter().filter(|filter| !filter.is_of_this_program()).collect();
            conflict::suspects(side(direction), &bpf::tcx_programs(&device.name), &others)
        };
        match active.watch.observe(Instant::now(), behind, sent, rate, suspects) {
            Some(Some(why)) => warn!(link = self.link, "shaping does not work: {why}"),
            Some(None) => info!(link = self.link, "shaping works again"),
            None => {}
        }
    }

    /// Whether rates are found, so that [`Self::follow`] needs to know what passes.
    pub fn follows(&self) -> bool {
        self.follower.is_some() && self.redirects()
    }

    /// The line's rate, bytes per second: the outer `None` without `rate = "auto"`, the inner one until it is found.
    pub fn found(&self, direction: Direction) -> Option<Option<f64>> {
        Some(self.follower.as_ref()?.capacity(direction))
    }

    /// Ten times a second, while [`Self::follows`]: takes in what passed and waited since the tick before, and sets the rates. What the kernel
    /// refuses is tried again at the next tick. Answers what has changed by more than 10 % since the last report.
    pub fn follow(
        &mut self,
        now_ns: u64,
        seen: impl IntoIterator<Item = (Direction, Passing)>,
        own: PerDirection<OwnLevel>,
    ) -> Vec<RateChange> {
        let Some(follower) = &mut self.follower else { return Vec::new() };
        let changes = follower.tick(now_ns, Instant::now(), seen, own);
        let need = follower.need();
        self.probe(Duration::from_nanos(now_ns), need);
        for direction in Direction::ALL {
            let Ok(cake) = self.cake(direction) else { continue };
            if let Some(place) = self.in_place[direction].as_mut().filter(|place| place.cake != cake)
                && cake.change(place.ifindex, HANDLE).is_ok()
            {
                place.cake = cake;
            }
        }
        changes
    }

    /// Asks the first hop, if that is allowed and it is to be asked.
    fn probe(&mut self, now: Duration, need: Need) {
        if self.settings.probe == Probe::Off {
            return;
        }
        let (link, wan) = (&self.link, &self.wan);
        let prober = self.prober.get_or_insert_with(|| {
            Prober::open(wan).map_err(|error| {
                warn!(
                    link,
                    "probe = \"first-hop\" is not followed: no ICMP socket on {wan}: {error}; give the service CAP_NET_RAW \
                     (docs/guide/auto.md) and restart it"
                );
            })
        });
        let Ok(prober) = prober else { return };
        match prober.turn(now, need) {
            Some(FirstHop::Found(hop)) => info!(link, "the provider's first hop replies: {hop}"),
            Some(FirstHop::Missing) => warn!(
                link,
                "probe = \"first-hop\": no router of the provider replies to ping; tried again in ten minutes"
            ),
            None => {}
        }
    }

    /// The number of the first hop's address, while it is asked.
    pub fn first_hop(&self) -> Option<u32> {
        self.prober.as_ref()?.as_ref().ok()?.hop()
    }

    /// What the comparison has come to, each time that changes.
    pub fn news(&mut self) -> Option<Comparison> {
        self.news.take()
    }

    /// Why the shaper does not work, or, as the inner `None`, that it does again; each time that changes.
    pub fn effect(&mut self) -> Option<Option<String>> {
        let (state, why) = self.state();
        let ineffective = state == ShapeState::Ineffective;
        let changed = std::mem::replace(&mut self.told_ineffective, ineffective) != ineffective;
        changed.then(|| why.filter(|_| ineffective))
    }

    /// Whether shaping begins or pauses with this second.
    fn take_turns(&mut self, now: Instant, reading: TrialTurn) -> bool {
        let Some(active) = &mut self.active else { return false };
        let shaped = active.shapes();
        let Some(trial) = &mut active.trial else { return false };
        if !trial.observe(now, reading) {
            return false;
        }
        let comparison = trial.comparison();
        if comparison.outcome != active.reported {
            active.reported = comparison.outcome;
            let statement = comparison.statement();
            match comparison.outcome {
                TrialOutcome::Hurts | TrialOutcome::NoDifference => {
                    let remedy = match trial.declined() {
                        Some(_) => "the link is left alone, and the comparison starts again after some hours",
                        None => "consider mode = \"auto\" or \"off\", or another rate-percent",
                    };
                    warn!(link = self.link, "{statement}; {remedy}");
                }
                TrialOutcome::Helps | TrialOutcome::Undecided => info!(link = self.link, "{statement}"),
            }
            self.news = Some(comparison);
        }
        active.shapes() != shaped
    }
}
