//! The program of the ACK filter: load, attach, tell what to do, read what was done.

use std::sync::Mutex;

use aya::Ebpf;
use aya::maps::{Array, MapData, PerCpuArray};
use aya::programs::links::LinkOrder;
use aya::programs::tc::{NlOptions, SchedClassifierLink, TcAttachOptions, TcAttachType};
use aya::programs::{Program, ProgramInfo, SchedClassifier};

use super::abi::{self, pendulum_config, pendulum_shape_control, pendulum_shape_counts};
use super::loader;
use super::map_error;
use super::programs::link_layer_abi;
use super::programs::map_of;
use super::{BpfError, ProgramStatus, SHAPE_OBJECT, SHAPE_PROGRAM as PROGRAM, statistics};
use crate::exit::chain;
use crate::net::LinkLayer;
use crate::net::clsact;
use crate::net::control::Filter;

/// Priority of the clsact filter on kernels without TCX: behind the measuring one, before the redirection.
const CLSACT_PRIORITY: u16 = 59_000;

/// The program of one link's shaper. Dropping it takes it down.
pub struct ShapePrograms {
    // Before `object`: links go before the programs they lead to.
    link: Option<SchedClassifierLink>,
    object: Ebpf,
}

impl ShapePrograms {
    /// Load the program; it is not attached yet.
    ///
    /// # Errors
    /// [`BpfError`] if the kernel refuses it.
    pub fn load(link_layer: LinkLayer) -> Result<Self, BpfError> {
        Self::load_from(SHAPE_OBJECT, link_layer, false)
    }

    /// The same from an object of the tests; with `replay_time` a packet's time is `skb->tstamp` (tests).
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_from(object: &[u8], link_layer: LinkLayer, replay_time: bool) -> Result<Self, BpfError> {
        static CONFIGS: Mutex<Vec<&pendulum_config>> = Mutex::new(Vec::new());
        let config = pendulum_config {
            link_layer: link_layer_abi(link_layer),
            replay_time: replay_time.into(),
            ..pendulum_config::default()
        };
        let config = loader::constant(&CONFIGS, config);
        let mut object = loader::load(object, |loader| {
            loader.override_global("config", config, false);
        })
        .map_err(|e| BpfError::Load { source: Box::new(e) })?;
        classifier(&mut object)?
            .load()
            .map_err(|source| BpfError::Program { program: PROGRAM, source: Box::new(source) })?;
        Ok(Self { link: None, object })
    }

    /// Attach the program to the uplink's device, behind all that is attached there.
    ///
    /// # Errors
    /// [`BpfError::Attach`] if the kernel refuses.
    pub fn attach(&mut self, device: &str) -> Result<(), BpfError> {
        let refused = |error: &dyn std::error::Error| BpfError::Attach {
            program: PROGRAM,
            device: device.to_owned(),
            reason: chain(error),
            remedy: "check that the device exists and that this process has CAP_NET_ADMIN and CAP_BPF",
        };
        // The one that somebody has taken off, before another is in its place.
        self.link = None;
        let program = classifier(&mut self.object)?;
        let tcx = TcAttachOptions::TcxOrder(LinkOrder::last());
        let id = match program.attach_with_options(device, TcAttachType::Egress, tcx) {
            Ok(id) => id,
            // The clsact qdisc is there: the redirection needs it too.
            Err(_) => {
                let options = NlOptions { priority: CLSACT_PRIORITY, ..NlOptions::default() };
                program
                    .attach_with_options(device, TcAttachType::Egress, TcAttachOptions::Netlink(options))
                    .map_err(|error| refused(&error))?
            }
        };
        self.link = Some(program.take_link(id).map_err(|error| refused(&error))?);
        Ok(())
    }

    /// Whether it was attached and not taken down again, whatever others have done since.
    pub fn is_attached(&self) -> bool {
        self.link.is_some()
    }

    /// Whether the program is on a device; `filters`: of that device, where the kernel has no TCX.
    pub(crate) fn is_on(&self, device: &str, filters: &[Filter]) -> bool {
        let id = self.object.program(PROGRAM).and_then(information).map(|info| info.id());
        let is_filter = || filters.iter().any(|filter| filter.program.as_deref() == Some(PROGRAM));
        self.is_attached()
            && match SchedClassifier::query_tcx(device, TcAttachType::Egress) {
                Ok((_, programs)) => is_filter() || programs.iter().any(|program| Some(program.id()) == id),
                // To ask for programs takes CAP_SYS_ADMIN.
                Err(_) => is_filter() || crate::kernel::is_at_least(clsact::TCX),
            }
    }

    /// Take the program down from the device; maps keep what was counted.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Say what is to be done from now on.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the kernel refuses.
    pub fn control(&mut self, control: pendulum_shape_control) -> Result<(), BpfError> {
        let name = "shape_control";
        let map = self.object.map_mut(name).ok_or(BpfError::Missing { what: "map", name })?;
        let mut map: Array<&mut MapData, pendulum_shape_control> =
            map.try_into().map_err(|e| map_error("write", name, e))?;
        map.set(0, control, 0).map_err(|e| map_error("write", name, e))
    }

    /// Whether ACKs may be withheld, as was said last.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the map cannot be read.
    pub fn withholds(&self) -> Result<bool, BpfError> {
        let name = "shape_control";
        let map: Array<&MapData, pendulum_shape_control> = map_of(&self.object, name)?;
        let control = map.get(&0, 0).map_err(|e| map_error("read", name, e))?;
        Ok(control.filter != abi::PENDULUM_FILTER_OFF)
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
            sum.held_bytes += cpu.held_bytes;
        }
        Ok(sum)
    }

    /// The program and how long it ran, as far as the kernel's BPF statistics are on.
    pub fn programs(&self) -> Vec<ProgramStatus> {
        let info = self.object.program(PROGRAM).and_then(information);
        vec![ProgramStatus {
            name: PROGRAM,
            attached: self.link.is_some(),
            runs: statistics::runs(info),
            missed: None,
        }]
    }

    /// The object itself, for tests that run a program on crafted packets (`BPF_PROG_TEST_RUN`).
    pub fn object_mut(&mut self) -> &mut Ebpf {
        &mut self.object
    }
}

fn information(program: &Program) -> Option<ProgramInfo> {
    match program {
        Program::SchedClassifier(program) => program.info().ok(),
        _ => None,
    }
}

fn classifier(object: &mut Ebpf) -> Result<&mut SchedClassifier, BpfError> {
    let missing = BpfError::Missing { what: "program", name: PROGRAM };
    let Some(program) = object.program_mut(PROGRAM) else { return Err(missing) };
    program.try_into().map_err(|_| missing)
}
