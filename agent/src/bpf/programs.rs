//! The programs and maps of one link.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aya::Ebpf;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray};
use aya::programs::{Program, ProgramInfo};
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_wire::BpfMap;

use super::abi::{
    self, pendulum_config, pendulum_counters, pendulum_flow, pendulum_flow_key, pendulum_ports,
};
use super::arrivals::{PassageReader, Slots};
use super::attach::{self, AttachReport, Attachment, Hook, Mechanism};
use super::history::mapping;
use super::ports::PortCounts;
use super::{BpfError, PACKET_OBJECT, batch, loader, map_error, statistics};
use crate::net::LinkLayer;
use crate::net::control::read_filters;

/// How to load.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// What a frame of the device starts with.
    pub link_layer: LinkLayer,
    /// Capacity of the flow table, in flows.
    pub max_flows: u32,
    /// Capacity of the table of flows that were seen one way only.
    pub nursery: u32,
    /// Measure ingress by XDP instead of TC.
    pub xdp_ingress: bool,
    /// Take a packet's time from `skb->tstamp` instead of the clock; for tests on captures.
    pub replay_time: bool,
    /// Write class and time into each packet, for [`super::QueuePrograms`].
    pub queue_mark: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            link_layer: LinkLayer::Ethernet,
            max_flows: 16_384,
            nursery: 4096,
            xdp_ingress: false,
            replay_time: false,
            queue_mark: false,
        }
    }
}

/// One program's state.
#[derive(Clone, Copy, Debug)]
pub struct ProgramStatus {
    /// Its name in the object.
    pub name: &'static str,
    /// Whether it is attached to a device now.
    pub attached: bool,
    /// How often it ran and how long in all; `None` unless [`super::enable_statistics`] holds.
    pub runs: Option<(u64, Duration)>,
    /// Events that it was not run for, because another run of it on the same processor was not over (`recursion_misses` of
    /// `struct bpf_prog_info`, Linux 5.12). `None`: not known, or a program that is never left out (TC, XDP).
    pub missed: Option<u64>,
}

/// The loaded programs and maps of one link. Dropping it takes everything down.
pub struct LinkPrograms {
    // Before `object`: links go before the programs they lead to.
    attachment: Option<Attachment>,
    object: Ebpf,
    slots: Slots,
    options: LoadOptions,
    /// The hook of ingress: the one that was asked for, or what it stepped down to.
    ingress: Hook,
    flows_seen: AtomicU32,
    nursed_seen: AtomicU32,
}

/// As the programs name it. A device whose frames they cannot read is refused before.
pub(super) fn link_layer_abi(link_layer: LinkLayer) -> u32 {
    match link_layer {
        LinkLayer::RawIp => abi::PENDULUM_LINK_RAW_IP,
        LinkLayer::Ethernet | LinkLayer::Unknown(_) => abi::PENDULUM_LINK_ETHERNET,
    }
}

impl LinkPrograms {
    /// Load the programs and make the maps; nothing is attached yet.
    ///
    /// # Errors
    /// [`BpfError::Load`] and [`BpfError::Program`] if the kernel refuses.
    pub fn load(options: &LoadOptions) -> Result<Self, BpfError> {
        static CONFIGS: Mutex<Vec<&pendulum_config>> = Mutex::new(Vec::new());
        let config = pendulum_config {
            link_layer: link_layer_abi(options.link_layer),
            replay_time: options.replay_time.into(),
            queue_mark: options.queue_mark.into(),
        };
        let config = loader::constant(&CONFIGS, config);
        let mut object = loader::load(PACKET_OBJECT, |loader| {
            loader
                .override_global("config", config, false)
                .map_max_entries("flows", options.max_flows)
                .map_max_entries("nursery", options.nursery);
        })
        .map_err(|e| BpfError::Load { source: Box::new(e) })?;
        for hook in Self::hooks(options) {
            let name = hook.program();
            let failed = |e| BpfError::Program { program: name, source: Box::new(e) };
            match object.program_mut(name) {
                Some(Program::SchedClassifier(program)) => program.load().map_err(failed)?,
                Some(Program::Xdp(program)) => program.load().map_err(failed)?,
                _ => return Err(BpfError::Missing { what: "program", name }),
            }
        }
        let slots = Slots {
            egress: Arc::new(mapping(&object, "egress")?),
            arrivals: Arc::new(mapping(&object, "arrivals")?),
            home_replies: Arc::new(mapping(&object, "home_replies")?),
        };
        Ok(Self {
            attachment: None,
            object,
            slots,
            options: *options,
            ingress: Self::hooks(options)[1],
            flows_seen: AtomicU32::new(0),
            nursed_seen: AtomicU32::new(0),
        })
    }

    const fn hooks(options: &LoadOptions) -> [Hook; 2] {
        [Hook::Egress, if options.xdp_ingress { Hook::Xdp } else { Hook::Ingress }]
    }

    /// Hang the programs on a device of this network namespace. What hung before is taken down first.
    ///
    /// # Errors
    /// [`BpfError::Attach`] and [`BpfError::Clsact`] if the kernel refuses; then nothing of ours is left there.
    pub fn attach(&mut self, device: &str, ifindex: u32) -> Result<AttachReport, BpfError> {
        self.attachment = None;
        let attachment = attach::attach(&mut self.object, device, ifindex, Self::hooks(&self.options))?;
        self.ingress = attachment.report.hooks.last().map_or(self.ingress, |(hook, _)| *hook);
        let report = attachment.report.clone();
        self.attachment = Some(attachment);
        Ok(report)
    }

    /// How each program is attached; none while they are not.
    pub(crate) fn mechanisms(&self) -> impl Iterator<Item = Mechanism> {
        self.attachment
            .iter()
            .flat_map(|attachment| &attachment.report.hooks)
            .map(|(_, mechanism)| *mechanism)
    }

    /// Whether all filters are where they were attached. TCX links stay for as long as this process holds them.
    pub(crate) fn is_in_place(&self, ifindex: u32) -> bool {
        let hooks = self.attachment.iter().flat_map(|attachment| &attachment.report.hooks);
        let mut filters = hooks.filter(|(_, mechanism)| *mechanism == Mechanism::Clsact).peekable();
        if filters.peek().is_none() {
            return true;
        }
        // What cannot be read may be there.
        let Ok(found) = read_filters(ifindex) else { return true };
        filters.all(|(hook, _)| found.iter().any(|filter| filter.program.as_deref() == Some(hook.program())))
    }

    /// Take the programs down from the device; maps keep what was measured.
    pub fn detach(&mut self) {
        self.attachment = None;
    }

    /// A reader of what passes in both directions, from `now_ns` on: the monotonic clock's time, or the capture's.
    pub fn passages(&self, now_ns: u64) -> PassageReader {
        PassageReader::new(self.slots.clone(), now_ns)
    }

    /// The device from which uplink packets come back after they were shaped: those are not measured again. 0: none. `passes`: whether what is
    /// sent passes it at present.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the kernel refuses.
    pub fn set_shaping_device(&mut self, ifindex: u32, passes: bool) -> Result<(), BpfError> {
        let name = "shaping_device";
        let map = self.object.map_mut(name).ok_or(BpfError::Missing { what: "map", name })?;
        let mut map: Array<&mut MapData, u32> = map.try_into().map_err(|e| map_error("write", name, e))?;
        for (index, value) in [ifindex, passes.into()].into_iter().enumerate() {
            map.set(index as u32, value, 0).map_err(|e| map_error("write", name, e))?;
        }
        Ok(())
    }

    /// The link's counters since load.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the map cannot be read.
    pub fn counters(&self) -> Result<PerDirection<pendulum_counters>, BpfError> {
        let map: PerCpuArray<&MapData, pendulum_counters> = self.map("counters")?;
        let mut sums = PerDirection::<pendulum_counters>::default();
        for direction in Direction::ALL {
            let cpus = map.get(&(direction as u32), 0).map_err(|e| map_error("read", "counters", e))?;
            for cpu in cpus.iter() {
                sums[direction].add(cpu);
            }
        }
        Ok(sums)
    }

    /// What is no TCP, by protocol and port, since load.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the map cannot be read.
    pub fn ports(&self) -> Result<PerDirection<PortCounts>, BpfError> {
        let map: PerCpuArray<&MapData, pendulum_ports> = self.map("ports")?;
        let mut counts = PerDirection::<PortCounts>::default();
        for direction in Direction::ALL {
            let cpus = map.get(&(direction as u32), 0).map_err(|e| map_error("read", "ports", e))?;
            counts[direction] = PortCounts::of(&cpus);
        }
        Ok(counts)
    }

    /// Events by reason since load; the index is `enum pendulum_stat`.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the map cannot be read.
    pub fn stats(&self) -> Result<[u64; abi::PENDULUM_STATS as usize], BpfError> {
        let map: PerCpuArray<&MapData, u64> = self.map("stats")?;
        let mut sums = [0; abi::PENDULUM_STATS as usize];
        for (index, sum) in (0u32..).zip(&mut sums) {
            let cpus = map.get(&index, 0).map_err(|e| map_error("read", "stats", e))?;
            *sum = cpus.iter().sum();
        }
        Ok(sums)
    }

    /// All flows that were seen both ways.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the map cannot be read.
    pub fn flows(&self) -> Result<Vec<(pendulum_flow_key, pendulum_flow)>, BpfError> {
        self.entries("flows", &self.flows_seen)
    }

    /// All flows that were seen one way only.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the map cannot be read.
    pub fn nursery(&self) -> Result<Vec<(pendulum_flow_key, pendulum_flow)>, BpfError> {
        self.entries("nursery", &self.nursed_seen)
    }

    fn entries(
        &self,
        name: &'static str,
        seen: &AtomicU32,
    ) -> Result<Vec<(pendulum_flow_key, pendulum_flow)>, BpfError> {
        let Some(Map::LruHashMap(map)) = self.object.map(name) else {
            return Err(BpfError::Missing { what: "map", name });
        };
        let expected = usize::try_from(seen.load(Ordering::Relaxed)).unwrap_or(0);
        let entries = batch::entries(map.fd().as_fd(), expected).map_err(|source| BpfError::Map {
            action: "read",
            map: name,
            source,
        })?;
        seen.store(u32::try_from(entries.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        Ok(entries)
    }

    /// Forget flows. One that is not there (evicted, or gone before) is no error. Answers how many were there.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the kernel refuses for another reason.
    pub fn remove_flows(&mut self, keys: &[pendulum_flow_key]) -> Result<usize, BpfError> {
        let map = self.object.map_mut("flows").ok_or(BpfError::Missing { what: "map", name: "flows" })?;
        let mut map: HashMap<&mut MapData, pendulum_flow_key, pendulum_flow> =
            map.try_into().map_err(|e| map_error("delete from", "flows", e))?;
        let mut removed = 0;
        for key in keys {
            match map.remove(key) {
                Ok(()) => removed += 1,
                Err(MapError::KeyNotFound) => {}
                Err(MapError::SyscallError(e)) if e.io_error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(e) => return Err(map_error("delete from", "flows", e)),
            }
        }
        Ok(removed)
    }

    /// The state of each program that was loaded.
    pub fn programs(&self) -> Vec<ProgramStatus> {
        [Hook::Egress, self.ingress]
            .iter()
            .map(|hook| {
                let name = hook.program();
                let info = self.program_info(name);
                ProgramStatus {
                    name,
                    attached: self.attachment.as_ref().is_some_and(|a| a.is_attached(name)),
                    runs: statistics::runs(info),
                    missed: None,
                }
            })
            .collect()
    }

    fn program_info(&self, name: &str) -> Option<ProgramInfo> {
        match self.object.program(name)? {
            Program::SchedClassifier(program) => program.info().ok(),
            Program::Xdp(program) => program.info().ok(),
            _ => None,
        }
    }

    /// How full the flow tables were when [`Self::flows`] and [`Self::nursery`] last read them.
    pub fn maps(&self) -> [BpfMap; 2] {
        let fill = |name: &'static str, seen: &AtomicU32, capacity| BpfMap {
            name: name.into(),
            entries: seen.load(Ordering::Relaxed),
            capacity,
        };
        [
            fill("flows", &self.flows_seen, self.options.max_flows),
            fill("nursery", &self.nursed_seen, self.options.nursery),
        ]
    }

    /// The object itself, for tests that run programs in several threads.
    pub fn object(&self) -> &Ebpf {
        &self.object
    }

    /// The object itself, for tests that run a program on crafted packets (`BPF_PROG_TEST_RUN`).
    pub fn object_mut(&mut self) -> &mut Ebpf {
        &mut self.object
    }

    fn map<'a, T>(&'a self, name: &'static str) -> Result<T, BpfError>
    where
        T: TryFrom<&'a Map, Error = MapError>,
    {
        map_of(&self.object, name)
    }
}

/// A map of an object, to be read.
pub(super) fn map_of<'a, T>(object: &'a Ebpf, name: &'static str) -> Result<T, BpfError>
where
    T: TryFrom<&'a Map, Error = MapError>,
{
    let map = object.map(name).ok_or(BpfError::Missing { what: "map", name })?;
    T::try_from(map).map_err(|e| map_error("read", name, e))
}
