//! The shaper of a link: when it begins and ends, which rate it has, where the queue stands then.

use std::time::Instant;

use pendulum_model::link::Provenance;
use pendulum_model::rate::Rate;
use pendulum_model::segment::Direction;
use tracing::warn;

use super::super::outflow::Look;
use super::LinkTask;
use crate::net::{Device, QdiscTree};
use crate::shape::{self, Measured, Seen};

impl LinkTask {
    /// Shapes the device if that is wanted, and measures the queue where it stands then.
    pub(super) fn shape(&mut self, device: &Device) {
        self.follow_rates(device.index);
        self.shaper.start(device);
        self.follow_queue(device.index);
    }

    /// Shapes no longer. The queue is the device's own again.
    pub(super) fn unshape(&mut self) {
        self.shaper.stop();
        if let Some(wan) = self.attached_to() {
            self.follow_queue(wan);
        }
    }

    /// The interface index of the device that the programs hang on.
    pub(super) fn attached_to(&self) -> Option<u32> {
        Some(self.loaded.as_ref()?.hooks.as_ref()?.ifindex)
    }

    fn follow_queue(&mut self, wan: u32) {
        let shaping = self.shaper.device().unwrap_or(0);
        let told = match &mut self.loaded {
            Some(loaded) => loaded.programs.set_shaping_device(shaping),
            None => Ok(()),
        };
        let tracked = self.queues.move_uplink(self.shaper.queue_device().unwrap_or(wan));
        if let Err(error) = told.and(tracked) {
            warn!(link = self.config.name, "the queue is not measured: {}", crate::bpf::chain(&error));
        }
    }

    /// Gives the shaper the rates that hold now.
    pub(super) fn follow_rates(&mut self, wan: u32) {
        let configured = self.config.rates[0];
        let mut seen = Seen::default();
        if configured.is_none() && self.shaper.is_wanted() {
            seen.qdisc = QdiscTree::read(wan).ok().and_then(|tree| Some(tree.rate()?.0));
            // While we shape, the queue is ours, and so is its rate. A queue that never stood says nothing about the link; and
            // without its tracepoints what enters it is counted, not what leaves.
            let is_traced = matches!(self.queues.uplink_look(), Some(Look::Traced { .. }));
            if self.shaper.queue_device().is_none() && self.queues.is_uplink_buffer() && is_traced {
                seen.learnt = self
                    .judge
                    .capacity(Direction::Up)
                    .filter(|known| known.provenance == Provenance::Learnt)
                    .and_then(|known| Rate::from_bytes_per_second(known.value));
            }
        }
        let uplink = self.uplink_rate.follow(configured, seen);
        self.shaper.set_rates([uplink, self.config.rates[1]]);
    }

    /// Begins to shape if it could not before and may now.
    fn start_late(&mut self) {
        if !self.shaper.may_start_later() || self.uplink_rate.rate().is_none() {
            return;
        }
        let devices = self.devices.borrow().clone();
        if let Some(device) = devices.by_name(&self.config.wan).filter(|device| self.is_attached_to(device)) {
            self.shape(device);
        }
    }

    pub(super) fn read_shaper(&mut self) {
        if let Some(wan) = self.attached_to() {
            self.follow_rates(wan);
            self.start_late();
        }
        let totals = self.meter.totals();
        let sweep = self.sweeper.latest();
        let measured = Measured::of(&sweep, &totals.counters);
        let moved =
            self.shaper.tick(Instant::now(), measured, shape::Reading::of(&sweep, &self.meter.recent_rtt()));
        if let Some(news) = self.shaper.news() {
            self.judge.note_shaping(&news);
        }
        if let Some(wan) = self.attached_to()
            && moved
        {
            self.follow_queue(wan);
        }
    }
}
