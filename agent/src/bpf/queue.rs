//! The queue tracepoints: `bpf/queue/queue.bpf.c`, loaded, attached, read. What they measure is documented in `docs/design/queues.md`.

use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use aya::maps::{Array, MapData, PerCpuArray};
use aya::programs::{BtfTracePoint, Program, ProgramError};
use aya::{BtfError, Ebpf};
use pendulum_model::sample::QueueSource;
use pendulum_model::segment::{Direction, PerDirection};

use super::abi::{
    self, pendulum_bucket, pendulum_departure, pendulum_queue, pendulum_queue_device, pendulum_sojourn,
};
use super::arrivals::Departures;
use super::history::{Mapping, RingReader, mapping};
use super::loader::{self, KernelTypes};
use super::map_error;
use super::programs::map_of;
use super::{BpfError, ProgramStatus, QUEUE_OBJECT, statistics};
use crate::exit::chain;
use crate::net::QdiscTree;

/// Program and tracepoint. The last one may be missing: then drops come from the qdisc's own counter.
const TRACEPOINTS: [(&str, &str); 3] = [
    ("pendulum_enqueue", "qdisc_enqueue"),
    ("pendulum_dequeue", "qdisc_dequeue"),
    ("pendulum_drop", "kfree_skb"),
];

/// Qdiscs that keep no level of their own for the whole queue: it is counted per CPU, or in several children.
const SCATTERED: [&str; 5] = ["pfifo_fast", "mq", "mqprio", "taprio", "noqueue"];

/// How the level of a device's queue is known best, by the qdisc's kind and by what the tracepoints found it to be.
pub fn source_of(tree: &QdiscTree, state: &pendulum_queue) -> QueueSource {
    let scattered = tree.root().is_none_or(|root| SCATTERED.contains(&root.kind.as_str()));
    let met = state.qdisc != 0;
    if scattered || met && state.flags & abi::PENDULUM_QUEUE_EXACT == 0 {
        QueueSource::Netlink
    } else {
        QueueSource::Tracepoint
    }
}

/// Bits of `enum pendulum_queue_flag` that only netlink tells: what stands below the root.
pub fn flags_of(tree: &QdiscTree) -> u32 {
    let mut flags = 0;
    for (kind, flag) in [
        ("fq_codel", abi::PENDULUM_QUEUE_AQM | abi::PENDULUM_QUEUE_DROPS_INSIDE),
        ("cake", abi::PENDULUM_QUEUE_AQM | abi::PENDULUM_QUEUE_DROPS_INSIDE | abi::PENDULUM_QUEUE_CAKE),
        ("codel", abi::PENDULUM_QUEUE_AQM),
        ("pie", abi::PENDULUM_QUEUE_AQM),
        ("sfq", abi::PENDULUM_QUEUE_DROPS_INSIDE),
    ] {
        if tree.has(kind) {
            flags |= flag;
        }
    }
    flags
}

/// Time spent in a queue, of both classes: data, pure ACKs.
pub type Sojourns = [pendulum_sojourn; abi::PENDULUM_QUEUE_CLASSES as usize];

/// The tracepoint programs and their maps, for the two queues of one link. Dropping it takes everything down.
pub struct QueuePrograms {
    object: Ebpf,
    queues: Arc<Mapping<pendulum_queue>>,
    history: Arc<Mapping<pendulum_bucket>>,
    departures: Arc<Mapping<pendulum_departure>>,
    tracked: PerDirection<Option<pendulum_queue_device>>,
    drops: Result<(), String>,
}

impl QueuePrograms {
    /// Load and attach. Nothing is measured before [`Self::track`].
    ///
    /// # Errors
    /// [`BpfError`] if this kernel has no BTF, or refuses the tracepoints of enqueue and dequeue.
    pub fn load() -> Result<Self, BpfError> {
        // Without them loading fails too, and does not say why.
        let _types = KernelTypes::keep();
        let no_types = |e: BtfError| BpfError::Load { source: Box::new(e.into()) };
        loader::with_types(|_| ()).map_err(no_types)?;
        let mut object =
            loader::load(QUEUE_OBJECT, |_| {}).map_err(|e| BpfError::Load { source: Box::new(e) })?;
        let mut drops = Ok(());
        for (name, tracepoint) in TRACEPOINTS {
            let program: &mut BtfTracePoint = object
                .program_mut(name)
                .and_then(|program| program.try_into().ok())
                .ok_or(BpfError::Missing { what: "program", name })?;
            let attached = loader::with_types(|types| program.load(tracepoint, types))
                .map_err(no_types)?
                .and_then(|()| program.attach().map(drop));
            match attached {
                Ok(()) => {}
                Err(error) if tracepoint == "kfree_skb" => drops = Err(first_line(&error)),
                Err(error) => return Err(BpfError::Program { program: name, source: Box::new(error) }),
            }
        }
        let queues = Arc::new(mapping(&object, "queues")?);
        let history = Arc::new(mapping(&object, "history")?);
        let departures = Arc::new(mapping(&object, "departures")?);
        Ok(Self { object, queues, history, departures, tracked: PerDirection::default(), drops })
    }

    /// Measure the root qdisc of a device of the calling thread's network namespace. `flags` tell of the qdiscs below
    /// the root (`enum pendulum_queue_flag`). What was tracked in this direction before no longer is; totals go on.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the kernel refuses.
    pub fn track(&mut self, direction: Direction, ifindex: u32, flags: u32) -> Result<(), BpfError> {
        let device =
            pendulum_queue_device { ifindex, netns: own_netns()?, flags, ..pendulum_queue_device::default() };
        if self.tracked[direction]
            .is_some_and(|old| (old.ifindex, old.netns) != (device.ifindex, device.netns))
        {
            self.untrack(direction)?;
            self.forget_qdisc(direction)?;
        }
        self.register(direction, device)?;
        self.tracked[direction] = Some(device);
        Ok(())
    }

    /// Stop measuring in this direction. The device may be gone already.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the kernel refuses.
    pub fn untrack(&mut self, direction: Direction) -> Result<(), BpfError> {
        if self.tracked[direction].take().is_none() {
            return Ok(());
        }
        self.register(direction, pendulum_queue_device::default())
    }

    /// The queue's newest state: no system call.
    pub fn state(&self, direction: Direction) -> pendulum_queue {
        self.queues.read(direction as usize)
    }

    /// A reader of the direction's history, from the first bucket that is not over yet.
    pub fn reader(&self, direction: Direction) -> RingReader {
        RingReader::new(Arc::clone(&self.history), Arc::clone(&self.queues), direction)
    }

    /// When packets left the queue of the uplink.
    pub fn departures(&self) -> Departures {
        Departures::new(Arc::clone(&self.departures))
    }

    /// Time in the queue since load.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the map cannot be read.
    pub fn sojourns(&self) -> Result<PerDirection<Sojourns>, BpfError> {
        let name = "sojourns";
        let map: PerCpuArray<&MapData, pendulum_sojourn> = map_of(&self.object, name)?;
        let mut sums = [[pendulum_sojourn::default(); 2]; 2];
        for (index, sum) in (0u32..).zip(sums.as_flattened_mut()) {
            let cpus = map.get(&index, 0).map_err(|e| map_error("read", name, e))?;
            for cpu in cpus.iter() {
                sum.sum_us += cpu.sum_us;
                sum.slots.iter_mut().zip(cpu.slots).for_each(|(sum, more)| *sum += more);
            }
        }
        let [up, down] = sums;
        Ok(PerDirection { up, down })
    }

    /// Whether drops are traced; if not, the kernel's reason.
    ///
    /// # Errors
    /// The reason.
    pub fn traces_drops(&self) -> Result<(), &str> {
        self.drops.as_ref().copied().map_err(String::as_str)
    }

    /// The programs and how long they ran, as far as the kernel's BPF statistics are on.
    pub fn programs(&self) -> Vec<ProgramStatus> {
        let info = |name| match self.object.program(name)? {
            Program::BtfTracePoint(program) => program.info().ok(),
            _ => None,
        };
        let attached = |name| name != "pendulum_drop" || self.drops.is_ok();
        let status = |(name, _)| {
            let info = info(name);
            ProgramStatus {
                name,
                attached: attached(name),
                runs: statistics::runs(info),
                missed: self.missed(name),
            }
        };
        TRACEPOINTS.into_iter().map(status).collect()
    }

    fn missed(&self, name: &str) -> Option<u64> {
        match self.object.program(name)? {
            Program::BtfTracePoint(program) => statistics::recursion_misses(program.fd().ok()?.as_fd()),
            _ => None,
        }
    }

    /// The object itself, for tests and benchmarks.
    pub fn object_mut(&mut self) -> &mut Ebpf {
        &mut self.object
    }

    /// The next qdisc is the first one of its device: what it did before is not counted.
    fn forget_qdisc(&mut self, direction: Direction) -> Result<(), BpfError> {
        let name = "queues";
        let state = pendulum_queue { qdisc: 0, ops: 0, ..self.state(direction) };
        let map = self.object.map_mut(name).ok_or(BpfError::Missing { what: "map", name })?;
        let mut map: Array<&mut MapData, pendulum_queue> =
            map.try_into().map_err(|e| map_error("write", name, e))?;
        map.set(direction as u32, state, 0).map_err(|e| map_error("write", name, e))
    }

    fn register(&mut self, direction: Direction, device: pendulum_queue_device) -> Result<(), BpfError> {
        let name = "queue_devices";
        let map = self.object.map_mut(name).ok_or(BpfError::Missing { what: "map", name })?;
        let mut map: Array<&mut MapData, pendulum_queue_device> =
            map.try_into().map_err(|e| map_error("write", name, e))?;
        map.set(direction as u32, device, 0).map_err(|e| map_error("write", name, e))
    }
}

/// The inode number of the calling thread's network namespace, which the kernel side knows it by.
pub(super) fn own_netns() -> Result<u32, BpfError> {
    let source = match std::fs::metadata("/proc/thread-self/ns/net") {
        Ok(metadata) => match u32::try_from(metadata.ino()) {
            Ok(inode) => return Ok(inode),
            Err(error) => std::io::Error::other(error),
        },
        Err(error) => error,
    };
    Err(BpfError::Map { action: "find this network namespace for", map: "queue_devices", source })
}

/// The verifier's log is for the debug level, not for a table.
pub(super) fn first_line(error: &ProgramError) -> String {
    let text = chain(error);
    // aya announces the log even where there is none.
    text.lines().next().unwrap_or_default().trim_end().trim_end_matches(". Verifier output:").to_owned()
}
