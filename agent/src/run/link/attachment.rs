//! The programs of a link on its device: loaded, attached, and detached as the device comes and goes.

use std::sync::Arc;
use std::time::Instant;

use tracing::{info, warn};

use super::super::delays::Delays;
use super::super::entered::EnteredMeter;
use super::super::report::hooks;
use super::super::unseen::Unseen;
use super::{LinkTask, Loaded};
use crate::bpf::{self, BpfError, LinkPrograms, LoadOptions, Mechanism};
use crate::config::IngressHook;
use crate::net::clsact;
use crate::net::{Device, DeviceProblem};
use crate::snapshot::DeviceState;

impl LinkTask {
    /// Makes attachment follow the device as it is now: it may have come, gone, or been made anew.
    ///
    /// # Errors
    /// The kernel refuses the programs.
    pub(in super::super) async fn follow_device(&mut self) -> Result<(), BpfError> {
        let devices = Arc::clone(&self.devices.borrow_and_update());
        let device = match devices.usable(&self.config.wan) {
            Ok(device) => {
                self.device = DeviceState::Up;
                device
            }
            Err(DeviceProblem::Down { .. }) => {
                self.device = DeviceState::Down;
                match devices.by_name(&self.config.wan) {
                    // Attached while it is down, nothing is missed when it goes up.
                    Some(device) => device,
                    None => return Ok(()),
                }
            }
            Err(problem) => {
                self.lose_device(&problem).await;
                return Ok(());
            }
        };
        if self.is_attached_to(device) {
            return Ok(());
        }
        self.detach("its device was created again").await;
        self.attach(device).await
    }

    /// How the programs are attached to the device; none while they are not.
    pub(in super::super) fn mechanisms(&self) -> Vec<Mechanism> {
        self.loaded.as_ref().map(|loaded| loaded.programs.mechanisms().collect()).unwrap_or_default()
    }

    async fn lose_device(&mut self, problem: &DeviceProblem) {
        self.device = match problem {
            DeviceProblem::Unknown { .. } => DeviceState::Missing,
            DeviceProblem::Down { .. } => DeviceState::Down,
            DeviceProblem::Port { .. } | DeviceProblem::LinkLayer { .. } => DeviceState::Up,
        };
        self.trouble = Some(problem.to_string().into());
        // What a killed run has left, maybe under another name of the device.
        self.shaper.reconcile(None, false).await;
        if self.attached_to().is_some() {
            // What passed until now is in the maps still.
            let _ = self.read_counters();
            warn!(link = self.config.name, "{problem}; waiting for it");
            self.detach("its device cannot be used").await;
        }
    }

    pub(super) fn is_attached_to(&self, device: &Device) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| {
            loaded.link_layer == device.link_layer
                && loaded.hooks.as_ref().is_some_and(|hooks| hooks.ifindex == device.index)
        })
    }

    async fn attach(&mut self, device: &Device) -> Result<(), BpfError> {
        clsact::quiet_moment_before_attaching(device.index).await;
        for leftover in bpf::remove_leftovers(&device.name, device.index)? {
            info!(link = self.config.name, "removed what an earlier run had left: {leftover}");
        }
        let mut loaded = match self.loaded.take() {
            Some(loaded) if loaded.link_layer == device.link_layer => loaded,
            _ => self.load(device)?,
        };
        let attached = loaded.programs.attach(&device.name, device.index);
        if let Ok(bpf::AttachReport { stepped_down: Some(reason), .. }) = &attached {
            warn!(
                link = self.config.name,
                device = device.name,
                "ingress is measured by TC, not by XDP as asked for: the driver does not take the program ({reason}); generic XDP \
                 would turn receive offload off"
            );
        }
        let hooks = attached.map(|report| hooks(device, &report));
        if let Ok(hooks) = &hooks {
            info!(
                link = self.config.name,
                event = "attached",
                device = device.name,
                ifindex = hooks.ifindex,
                link_layer = &*hooks.link_layer,
                egress = &*hooks.egress,
                ingress = &*hooks.ingress,
                qdisc = device.qdisc,
                "attached"
            );
            loaded.hooks = Some(hooks.clone());
            self.trouble = None;
            let passages = loaded.programs.passages(bpf::monotonic_ns());
            if let Err(error) = self.queues.attach(hooks.ifindex, passages) {
                warn!(link = self.config.name, "the queue is not measured: {}", crate::exit::chain(&error));
            }
        }
        self.loaded = Some(loaded);
        hooks?;
        self.shape(false).await;
        Ok(())
    }

    /// Once a second: where the kernel has no TCX, filters go with a clsact qdisc that somebody deletes.
    pub(super) async fn keep_attached(&mut self) {
        let Some(device) = self.attached_device() else { return };
        let Some(loaded) = &mut self.loaded else { return };
        if loaded.programs.is_in_place(device.index) {
            return;
        }
        warn!(
            link = self.config.name,
            "somebody has taken the programs off {}: they are attached again", device.name
        );
        match loaded.programs.attach(&device.name, device.index) {
            Ok(report) => loaded.hooks = Some(hooks(&device, &report)),
            Err(_) => {
                loaded.hooks = None;
                self.follow_device_or_retry().await;
            }
        }
    }

    /// Loads programs for the device's link layer; they count from zero.
    fn load(&mut self, device: &Device) -> Result<Loaded, BpfError> {
        let programs = LinkPrograms::load(&LoadOptions {
            link_layer: device.link_layer,
            max_flows: self.config.max_flows,
            nursery: self.config.nursery,
            queue_mark: self.queues.want_marks(),
            xdp_ingress: self.config.ingress_hook == IngressHook::Xdp,
            ..LoadOptions::default()
        })?;
        self.meter.restart();
        self.counted_up = None;
        self.entered = EnteredMeter::default();
        self.program_totals.restart(&programs.programs());
        self.sweeper.restart(Instant::now());
        Ok(Loaded { programs, link_layer: device.link_layer, hooks: None })
    }

    pub(super) async fn detach(&mut self, why: &str) {
        self.shaper.reconcile(None, false).await;
        if let Some(ifindex) = self.attached_to() {
            clsact::quiet_moment_before_attaching(ifindex).await;
        }
        let Some(loaded) = &mut self.loaded else { return };
        if let Some(hooks) = loaded.hooks.take() {
            loaded.programs.detach();
            self.read_at = None;
            self.queues.detach();
            self.unseen = Unseen::default();
            self.entered = EnteredMeter::default();
            self.detection.suspend();
            self.delays = Delays::default();
            let packet_programs = loaded.programs.programs();
            self.programs =
                self.program_totals.observe(packet_programs.into_iter().chain(self.queues.programs()));
            info!(link = self.config.name, event = "detached", ifindex = hooks.ifindex, "detached: {why}");
        }
    }
}
