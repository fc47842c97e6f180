//! The real BPF programs, run on crafted packets by the kernel (`BPF_PROG_TEST_RUN`) without any interface, and what
//! they leave in their maps in the form the capture replay uses.

use std::sync::LazyLock;

use aya::maps::{Array, HashMap, PerCpuArray, PerCpuValues};
use aya::programs::{ProgramError, SchedClassifier, TestRun as _, TestRunOptions, Xdp};
use pendulum::bpf::abi::{self, pendulum_counters, pendulum_flow, pendulum_flow_key};
use pendulum::bpf::{KernelTypes, LinkPrograms, LoadOptions};
use pendulum::net::LinkLayer;
use pendulum::replay::flow::{Flow, FlowKey};
use pendulum_model::segment::PerDirection;

use crate::craft::{self, CraftedFrame};

/// `struct __sk_buff` of <linux/bpf.h> as TEST_RUN takes it; fields that must be zero are only named by number.
#[repr(C)]
#[derive(Default)]
struct SkBuff {
    len_to_vlan_proto: [u32; 8],
    priority: u32,
    ingress_ifindex: u32,
    ifindex: u32,
    tc_index: u32,
    cb: [u32; 5],
    hash_to_family: [u32; 6],
    addresses_and_ports: [u32; 12],
    data_meta: u32,
    flow_keys: u64,
    tstamp: u64,
    wire_len: u32,
    gso_segs: u32,
    sk: u64,
    gso_size: u32,
    tstamp_type: u32,
    hwtstamp: u64,
}

const _: () = {
    assert!(std::mem::offset_of!(SkBuff, tstamp) == 152, "as in <linux/bpf.h>");
    assert!(std::mem::offset_of!(SkBuff, gso_segs) == 164, "as in <linux/bpf.h>");
    assert!(std::mem::offset_of!(SkBuff, gso_size) == 176, "as in <linux/bpf.h>");
};

impl SkBuff {
    fn bytes(&self) -> &[u8] {
        // SAFETY: plain integers without padding (asserted by the offsets and the size), borrowed for reading.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

/// All that a measurement leaves behind.
#[derive(Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) counters: PerDirection<pendulum_counters>,
    pub(crate) stats: Vec<u64>,
    pub(crate) flows: Vec<(FlowKey, Flow)>,
    pub(crate) nursery: Vec<(FlowKey, Flow)>,
}

/// The programs of one link, loaded.
pub(crate) struct Kernel {
    programs: LinkPrograms,
}

/// What is in `skb->cb` before the programs see a packet.
pub(crate) const CB_BEFORE: [u32; 5] = [1, 2, 3, 4, 5];

/// TCX_NEXT, as an unsigned return value.
const NEXT: u32 = u32::MAX;
/// XDP_PASS.
const XDP_PASS: u32 = 2;

impl Kernel {
    pub(crate) fn new(link_layer: craft::LinkLayer) -> Self {
        Self::with(LoadOptions { link_layer: layer(link_layer), replay_time: true, ..LoadOptions::default() })
    }

    pub(crate) fn with(options: LoadOptions) -> Self {
        static TYPES: LazyLock<KernelTypes> = LazyLock::new(KernelTypes::keep);
        LazyLock::force(&TYPES);
        Self { programs: LinkPrograms::load(&options).expect("the programs load") }
    }

    /// Empty all maps: far quicker than to load the programs again.
    pub(crate) fn reset(&mut self) {
        let object = self.programs.object_mut();
        for table in ["flows", "nursery"] {
            let map = object.map_mut(table).expect("there");
            let mut map: HashMap<_, pendulum_flow_key, pendulum_flow> = map.try_into().expect("a hash map");
            let keys: Vec<_> = map.keys().map(|key| key.expect("readable")).collect();
            for key in keys {
                map.remove(&key).expect("there");
            }
        }
        zero::<pendulum_counters>(object, "counters", pendulum_counters::default());
        zero::<u64>(object, "stats", 0);
        empty::<u64>(object, "requests");
        empty::<[u64; 2]>(object, "spins");
        empty::<abi::pendulum_burst>(object, "bursts");
    }

    /// Let the TC program of the frame's direction see it. `None`: TEST_RUN refuses to make an skb of it, because
    /// its IP header is cut short.
    pub(crate) fn observe(&mut self, frame: &CraftedFrame) -> Option<()> {
        self.observe_from(frame, 0).map(|_| ())
    }

    /// The same of a packet that came in through a device (`skb->ingress_ifindex`); what is in `skb->cb` then.
    pub(crate) fn observe_from(&mut self, frame: &CraftedFrame, ingress_ifindex: u32) -> Option<[u32; 5]> {
        // Ethernet and the fixed IPv6 header: frames from here on are never refused.
        const LONG_ENOUGH: usize = 14 + 40;
        let context = SkBuff {
            ingress_ifindex,
            cb: CB_BEFORE,
            tstamp: frame.time_ns,
            gso_segs: frame.gso_segs,
            gso_size: frame.gso_size,
            ..SkBuff::default()
        };
        let name = match frame.direction {
            craft::Direction::Up => "pendulum_up",
            craft::Direction::Down => "pendulum_down",
        };
        let mut out = vec![0; frame.bytes.len()];
        let mut context_out = vec![0; size_of::<SkBuff>()];
        let mut options = TestRunOptions::new();
        options.data_in = Some(&frame.bytes);
        options.data_out = Some(&mut out);
        options.ctx_out = Some(&mut context_out);
        options.ctx_in = Some(context.bytes());
        let program: &mut SchedClassifier =
            self.programs.object_mut().program_mut(name).expect("there").try_into().expect("a classifier");
        let result = match program.test_run(options) {
            Err(ProgramError::SyscallError(error))
                if error.io_error.raw_os_error() == Some(libc::EINVAL) && frame.bytes.len() < LONG_ENOUGH =>
            {
                return None;
            }
            result => result.expect("the program runs"),
        };
        assert_eq!(result.return_value, NEXT, "an observer never ends the processing of a packet");
        assert_eq!(out, frame.bytes, "an observer changes nothing");
        let cb = &context_out[std::mem::offset_of!(SkBuff, cb)..];
        let word = |at: usize| u32::from_ne_bytes(cb[4 * at..][..4].try_into().expect("four bytes"));
        Some(std::array::from_fn(word))
    }

    /// Run the program of the frame's direction on it, without a look at what comes out: from any thread. `from`: the
    /// device it came in through, and its length on the wire; 0: nothing is known of either.
    pub(crate) fn run(&self, frame: &CraftedFrame, from: (u32, u32)) {
        let context = SkBuff {
            tstamp: frame.time_ns,
            gso_segs: frame.gso_segs,
            gso_size: frame.gso_size,
            ingress_ifindex: from.0,
            wire_len: from.1,
            ..SkBuff::default()
        };
        let name = match frame.direction {
            craft::Direction::Up => "pendulum_up",
            craft::Direction::Down => "pendulum_down",
        };
        let program: &SchedClassifier =
            self.programs.object().program(name).expect("there").try_into().expect("a classifier");
        let mut options = TestRunOptions::new();
        options.data_in = Some(&frame.bytes);
        options.ctx_in = Some(context.bytes());
        assert_eq!(program.test_run(options).expect("the program runs").return_value, NEXT);
    }

    pub(crate) fn links(&self) -> &LinkPrograms {
        &self.programs
    }

    /// Let the XDP program see a frame of at least 14 bytes; TEST_RUN takes no shorter one.
    pub(crate) fn observe_xdp(&mut self, bytes: &[u8]) {
        let mut options = TestRunOptions::new();
        options.data_in = Some(bytes);
        let program: &mut Xdp =
            self.programs.object_mut().program_mut("pendulum_xdp").expect("there").try_into().expect("XDP");
        let result = program.test_run(options).expect("the program runs");
        assert_eq!(result.return_value, XDP_PASS);
    }

    pub(crate) fn stats(&self) -> Vec<u64> {
        self.programs.stats().expect("readable").to_vec()
    }

    /// Segments by class of both directions together.
    pub(crate) fn segments(&self) -> Vec<u64> {
        let PerDirection { up, down } = self.programs.counters().expect("readable");
        up.segments.iter().zip(&down.segments).map(|(a, b)| a + b).collect()
    }

    pub(crate) fn state(&self) -> State {
        State {
            counters: self.programs.counters().expect("readable"),
            stats: self.stats(),
            flows: sorted(self.programs.flows().expect("readable")),
            nursery: sorted(self.programs.nursery().expect("readable")),
        }
    }

    /// Places of the table of requests that are taken.
    pub(crate) fn open_requests(&self) -> usize {
        let map = self.programs.object().map("requests").expect("there");
        let requests: Array<_, u64> = map.try_into().expect("an array");
        requests.iter().filter(|word| *word.as_ref().expect("readable") != 0).count()
    }

    pub(crate) fn programs(&mut self) -> &mut LinkPrograms {
        &mut self.programs
    }
}

fn empty<T: aya::Pod + Default>(object: &mut aya::Ebpf, name: &str) {
    let mut map: Array<_, T> = object.map_mut(name).expect("there").try_into().expect("an array");
    for index in 0..map.len() {
        map.set(index, T::default(), 0).expect("writable");
    }
}

fn zero<T: aya::Pod>(object: &mut aya::Ebpf, name: &str, value: T) {
    let mut map: PerCpuArray<_, T> =
        object.map_mut(name).expect("there").try_into().expect("a per-CPU array");
    let cpus = aya::util::nr_cpus().expect("readable");
    for index in 0..map.len() {
        map.set(index, PerCpuValues::try_from(vec![value; cpus]).expect("one for each CPU"), 0)
            .expect("writable");
    }
}

pub(crate) const fn layer(link_layer: craft::LinkLayer) -> LinkLayer {
    match link_layer {
        craft::LinkLayer::Ethernet => LinkLayer::Ethernet,
        craft::LinkLayer::RawIp => LinkLayer::RawIp,
    }
}

fn sorted(entries: Vec<(pendulum_flow_key, pendulum_flow)>) -> Vec<(FlowKey, Flow)> {
    let mut entries: Vec<_> = entries.iter().map(|(k, f)| (key(k), flow(f))).collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

fn address(words: [u32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (four, word) in bytes.chunks_exact_mut(4).zip(words) {
        four.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn key(key: &pendulum_flow_key) -> FlowKey {
    FlowKey {
        home_addr: address(key.home_addr),
        remote_addr: address(key.remote_addr),
        home_port: u16::from_be(key.home_port),
        remote_port: u16::from_be(key.remote_port),
    }
}

fn flow(flow: &pendulum_flow) -> Flow {
    Flow { halves: PerDirection::from_fn(|x| *flow.half(x)) }
}

/// Names of the reasons, by `enum pendulum_stat`.
pub(crate) use pendulum::bpf::abi::names::LOST;

/// This thread runs on that processor from here on: what the maps keep for each processor has one writer.
pub(crate) fn pin(cpu: usize) {
    // SAFETY: a set of this thread's own, and calls that only read it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
    }
}
