//! The programs of ACK lane and ACK filter: load, attach, tell what to do, read what was done.

use std::time::Duration;

use aya::maps::{Array, MapData, PerCpuArray};
use aya::programs::links::LinkOrder;
use aya::programs::tc::{NlOptions, SchedClassifierLink, TcAttachOptions, TcAttachType};
use aya::programs::{BtfTracePoint, Program, ProgramInfo, SchedClassifier};
use aya::{Btf, Ebpf, EbpfLoader};

use super::abi::{self, pendulum_channel, pendulum_config, pendulum_shape_control, pendulum_shape_counts};
use super::attach::{chain, remove_filter};
use super::programs::{map_error, map_of};
use super::queue::{first_line, own_netns};
use super::{BpfError, LinkLayer, ProgramStatus, SHAPE_OBJECT};

/// Priority of the clsact filter on kernels without TCX: behind the measuring one, before the redirection.
const CLSACT_PRIORITY: u16 = 59_000;

/// Where a shaping program hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeHook {
    /// TC egress of the WAN device: both passes of the uplink.
    Uplink,
    /// TC ingress of the WAN device: the shaped downlink.
    Downlink,
}

impl ShapeHook {
    /// Its program.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Uplink => "pendulum_shape",
            Self::Downlink => "pendulum_shape_in",
        }
    }

    const fn side(self) -> TcAttachType {
        match self {
            Self::Uplink => TcAttachType::Egress,
            Self::Downlink => TcAttachType::Ingress,
        }
    }
}

/// The programs of one link's shaper. Dropping it takes everything down.
pub struct ShapePrograms {
    // Before `object`: links go before the programs they lead to.
    links: Vec<(ShapeHook, SchedClassifierLink)>,
    object: Ebpf,
    confirms: Result<(), String>,
    traced: [&'static str; 2],
}

impl ShapePrograms {
    /// Load the programs; nothing is attached yet but the tracepoints that see ACKs enter a queue, and those dropped in it to
    /// make room; with `dry_run` the one that sees them leave instead of the latter.
    ///
    /// # Errors
    /// [`BpfError`] if the kernel refuses the TC programs.
    pub fn load(link_layer: LinkLayer, dry_run: bool) -> Result<Self, BpfError> {
        Self::load_for(link_layer, dry_run, false)
    }

    /// The same; with `replay_time` a packet's time is `skb->tstamp` (tests).
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_for(link_layer: LinkLayer, dry_run: bool, replay_time: bool) -> Result<Self, BpfError> {
        let config = pendulum_config {
            link_layer: match link_layer {
                LinkLayer::Ethernet => abi::PENDULUM_LINK_ETHERNET,
                LinkLayer::RawIp => abi::PENDULUM_LINK_RAW_IP,
            },
            replay_time: replay_time.into(),
            ..pendulum_config::default()
        };
        let btf = Btf::from_sys_fs();
        let mut object = EbpfLoader::new()
            .btf(btf.as_ref().ok())
            .override_global("config", &config, true)
            .load(SHAPE_OBJECT)
            .map_err(|e| BpfError::Load { source: Box::new(e) })?;
        for hook in [ShapeHook::Uplink, ShapeHook::Downlink] {
            let name = hook.program();
            classifier(&mut object, name)?
                .load()
                .map_err(|source| BpfError::Program { program: name, source: Box::new(source) })?;
        }
        let traced = match dry_run {
            true => [("pendulum_ack_enqueue", "qdisc_enqueue"), ("pendulum_ack_dequeue", "qdisc_dequeue")],
            false => [("pendulum_ack_enqueue", "qdisc_enqueue"), ("pendulum_ack_drop", "kfree_skb")],
        };
        let confirms = match &btf {
            Ok(btf) => traced
                .into_iter()
                .try_for_each(|(program, tracepoint)| trace(&mut object, btf, program, tracepoint)),
            Err(error) => Err(format!("the kernel has no BTF: {error}")),
        };
        Ok(Self { links: Vec::new(), object, confirms, traced: traced.map(|(program, _)| program) })
    }

    /// Whether it is seen that an ACK has entered the queue. Without that none may be withheld.
    ///
    /// # Errors
    /// Why not.
    pub fn confirms_enqueue(&self) -> Result<(), &str> {
        self.confirms.as_ref().copied().map_err(String::as_str)
    }

    /// Hang a program on the device, behind all that hangs there.
    ///
    /// # Errors
    /// [`BpfError::Attach`] if the kernel refuses.
    pub fn attach(&mut self, hook: ShapeHook, device: &str) -> Result<(), BpfError> {
        let refused = |error: &dyn std::error::Error| BpfError::Attach {
            program: hook.program(),
            device: device.to_owned(),
            reason: chain(error),
            remedy: "check that the device exists and that this process has CAP_NET_ADMIN and CAP_BPF",
        };
        let program = classifier(&mut self.object, hook.program())?;
        let tcx = TcAttachOptions::TcxOrder(LinkOrder::last());
        let id = match program.attach_with_options(device, hook.side(), tcx) {
            Ok(id) => id,
            // The clsact qdisc is there: the redirection needs it too.
            Err(_) => {
                let options = NlOptions { priority: CLSACT_PRIORITY, ..NlOptions::default() };
                program
                    .attach_with_options(device, hook.side(), TcAttachOptions::Netlink(options))
                    .map_err(|error| refused(&error))?
            }
        };
        let link = program.take_link(id).map_err(|error| refused(&error))?;
        self.links.push((hook, link));
        Ok(())
    }

    /// Take the programs down from the device; maps keep what was counted.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Say what is to be done from now on. The network namespace is the calling thread's.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the kernel refuses.
    pub fn control(&mut self, control: pendulum_shape_control) -> Result<(), BpfError> {
        let name = "shape_control";
        let control = pendulum_shape_control { netns: own_netns()?, ..control };
        let map = self.object.map_mut(name).ok_or(BpfError::Missing { what: "map", name })?;
        let mut map: Array<&mut MapData, pendulum_shape_control> =
            map.try_into().map_err(|e| map_error("write", name, e))?;
        map.set(0, control, 0).map_err(|e| map_error("write", name, e))
    }

    /// What was done since load, over all CPUs.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the map cannot be read.
    pub fn counts(&self) -> Result<pendulum_shape_counts, BpfError> {
        let name = "shape_counts";
        let map: PerCpuArray<&MapData, pendulum_shape_counts> = map_of(&self.object, name)?;
        let cpus = map.get(&0, 0).map_err(|e| map_error("read", name, e))?;
        let mut sum = pendulum_shape_counts::default();
        for cpu in cpus.iter() {
            sum.acks.iter_mut().zip(cpu.acks).for_each(|(sum, more)| *sum += more);
            sum.lane_packets += cpu.lane_packets;
            sum.held_bytes += cpu.held_bytes;
            sum.sparse_packets += cpu.sparse_packets;
        }
        Ok(sum)
    }

    /// Connections whose ACKs left the queue within the last one to two seconds, of those that the filter follows.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the map cannot be read.
    pub fn acknowledging(&self) -> Result<u32, BpfError> {
        let name = "channel";
        let map: Array<&MapData, pendulum_channel> = map_of(&self.object, name)?;
        let channel = map.get(&0, 0).map_err(|e| map_error("read", name, e))?;
        Ok(channel.active.max(channel.active_before))
    }

    /// The programs and how long they ran, as far as the kernel's BPF statistics are on.
    pub fn programs(&self) -> Vec<ProgramStatus> {
        let tc = [ShapeHook::Uplink, ShapeHook::Downlink]
            .map(|hook| (hook.program(), self.links.iter().any(|(other, _)| *other == hook)));
        tc.into_iter()
            .chain(self.traced.map(|name| (name, self.confirms.is_ok())))
            .map(|(name, attached)| {
                let info = self.object.program(name).and_then(information);
                ProgramStatus {
                    name,
                    attached,
                    run_count: info.as_ref().map_or(0, ProgramInfo::run_count),
                    run_time: info.as_ref().map_or(Duration::ZERO, ProgramInfo::run_time),
                }
            })
            .collect()
    }

    /// The object itself, for tests that run a program on crafted packets (`BPF_PROG_TEST_RUN`).
    pub fn object_mut(&mut self) -> &mut Ebpf {
        &mut self.object
    }
}

fn information(program: &Program) -> Option<ProgramInfo> {
    match program {
        Program::SchedClassifier(program) => program.info().ok(),
        Program::BtfTracePoint(program) => program.info().ok(),
        _ => None,
    }
}

fn classifier<'a>(object: &'a mut Ebpf, name: &'static str) -> Result<&'a mut SchedClassifier, BpfError> {
    let missing = BpfError::Missing { what: "program", name };
    let Some(program) = object.program_mut(name) else { return Err(missing) };
    program.try_into().map_err(|_| missing)
}

fn trace(object: &mut Ebpf, btf: &Btf, name: &'static str, tracepoint: &str) -> Result<(), String> {
    let program: &mut BtfTracePoint = object
        .program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or_else(|| format!("the object has no program {name}"))?;
    program.load(tracepoint, btf).and_then(|()| program.attach().map(drop)).map_err(|e| first_line(&e))
}

/// Take down shaping filters that an earlier run left on a device when it crashed (kernels without TCX only). Answers what was removed.
pub fn remove_shape_leftovers(device: &str, ifindex: u32) -> Vec<String> {
    [ShapeHook::Uplink, ShapeHook::Downlink]
        .into_iter()
        .filter_map(|hook| remove_filter(device, ifindex, hook.side(), hook.program()))
        .collect()
}
