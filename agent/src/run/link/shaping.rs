//! The shaper of a link: when it begins and ends, which rate it has, where the queue stands then.

use std::time::Duration;

use pendulum_model::observer::Vantage;
use pendulum_model::segment::{Direction, PerDirection};
use tracing::warn;

use super::super::outflow::Look;
use super::super::queues::Elsewhere;
use super::LinkTask;
use crate::bpf;
use crate::net::{Device, QdiscTree};
use crate::shape::{Behind, MeasuredTraffic, OtherRates, RepliedTraffic, TrialTurn};

impl LinkTask {
    /// Makes the shaper what it is to be on the device, if the programs are there, and measures the queue where it stands then.
    pub(super) async fn shape(&mut self, mends: bool) {
        let device = self.attached_device();
        if let Some(device) = &device {
            self.follow_rates(device.index);
        }
        self.shaper.reconcile(device.as_ref(), mends).await;
        self.follow_queue();
    }

    /// The device that the programs are attached to, as it is now.
    pub(super) fn attached_device(&self) -> Option<Device> {
        let devices = self.devices.borrow();
        devices.by_name(&self.config.wan).filter(|device| self.is_attached_to(device)).cloned()
    }

    /// The interface index of the device that the programs are attached to.
    pub(super) fn attached_to(&self) -> Option<u32> {
        Some(self.loaded.as_ref()?.hooks.as_ref()?.ifindex)
    }

    fn follow_queue(&mut self) {
        let Some(wan) = self.attached_to() else { return };
        let (shaping, passes) = self.shaper.device().unwrap_or_default();
        let result = match &mut self.loaded {
            Some(loaded) => loaded.programs.set_shaping_device(shaping, passes),
            None => Ok(()),
        };
        let tracked = self.queues.move_uplink(if passes { shaping } else { wan });
        if let Err(error) = result.and(tracked) {
            warn!(link = self.config.name, "the queue is not measured: {}", crate::exit::chain(&error));
        }
    }

    /// Gives the shaper the rates that hold now.
    pub(super) fn follow_rates(&mut self, wan: u32) {
        let configured = self.config.rates.up;
        let mut seen = OtherRates::default();
        if configured.is_none() && self.shaper.is_wanted() {
            seen.qdisc = QdiscTree::read(wan).ok().and_then(|tree| Some(tree.rate()?.0));
            // While we shape, the queue is ours, and so is its rate. A queue that never stood says nothing about the link; and
            // without its tracepoints what enters it is counted, not what leaves. Behind it the observer sees the line's own.
            let is_traced = matches!(self.queues.uplink_look(), Some(Look::Traced { .. }));
            seen.learnt = match self.shaper.device() {
                Some((_, true)) => None,
                _ if self.queues.is_uplink_buffer() => {
                    self.detection.detector.measured_rate(Direction::Up).filter(|_| is_traced)
                }
                _ => self.queues.rate(Direction::Up),
            };
        }
        let uplink = self.uplink_rate.follow(configured, seen);
        self.shaper.set_rates(PerDirection { up: uplink, down: self.config.rates.down });
    }

    /// Ten times a second: a shaper that finds its rate follows what passed since the tick before.
    pub(super) fn follow_passing(&mut self, repeated: f64) {
        if !self.shaper.follows() {
            return;
        }
        let own = PerDirection {
            up: self.queues.own_level(Direction::Up, repeated, self.meter.asked()),
            down: self.queues.own_level(Direction::Down, 0.0, RepliedTraffic::default()),
        };
        let seen = self
            .queues
            .elsewhere
            .iter()
            .flat_map(|elsewhere| elsewhere.seen())
            .chain(self.delays.waited())
            .copied();
        for change in self.shaper.follow(bpf::monotonic_ns(), seen, own) {
            self.detection.note_rate(&change);
        }
    }

    pub(super) async fn read_shaper(&mut self) {
        let device = self.attached_device();
        if let Some(device) = &device {
            self.follow_rates(device.index);
        }
        let totals = self.meter.totals();
        let sweep = self.sweeper.latest();
        let measured = MeasuredTraffic::of(&sweep, &totals.counters, self.queues.uplink_bytes());
        let reading = TrialTurn::of(&sweep, &self.meter.recent_rtt());
        let up = &totals.counters.up;
        let counted = (up.bytes.iter().sum(), up.payload_bytes);
        let [passed, sent] = match self.counted_up.replace(counted) {
            Some(before) => [counted.0 - before.0, counted.1 - before.1].map(|more: u64| more as f64),
            None => [0.0; 2],
        };
        let is_own = |elsewhere: &Elsewhere| elsewhere.link().vantage == Vantage::OwnQueue;
        let waits_s = self.delays.least_up_s().filter(|_| self.queues.elsewhere.as_ref().is_some_and(is_own));
        let behind = Behind {
            delay: waits_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            passed,
            payload: [sent, reading.goodput.up],
        };
        self.shaper.tick(device.as_ref(), measured, reading, &behind).await;
        self.follow_queue();
        if let Some(why) = self.shaper.effect() {
            self.detection.note_ineffective(why.as_deref());
        }
        if let Some(news) = self.shaper.news() {
            self.detection.note_shaping(&news);
        }
    }
}
