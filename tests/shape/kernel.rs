//! The real filter, run on crafted packets by the kernel (`BPF_PROG_TEST_RUN`): both passes, with the queue between them
//! played by the test.

use std::sync::LazyLock;

use aya::maps::{Array, MapData};
use aya::programs::{SchedClassifier, TestRun as _, TestRunOptions};
use pendulum::bpf::abi::{
    self, pendulum_ack_state, pendulum_channel, pendulum_shape_control, pendulum_sliding_rate,
};
use pendulum::bpf::{KernelTypes, SHAPE_OBJECT, ShapePrograms};
use pendulum::net::LinkLayer;
use pendulum::snapshot::FATES;

use crate::craft::{self, CraftedFrame};

/// ifindex of loopback: TEST_RUN takes only devices that are there.
const SHAPER: u32 = 1;
const NEXT: u32 = u32::MAX;
const DROP: u32 = 2;
pub(crate) const MILLISECOND: u64 = 1_000_000;

/// `struct __sk_buff` of <linux/bpf.h> as TEST_RUN takes it.
#[repr(C)]
#[derive(Clone, Default)]
struct SkBuff {
    before_priority: [u32; 8],
    priority: u32,
    ingress_ifindex: u32,
    ifindex: u32,
    tc_index: u32,
    cb: [u32; 5],
    after_cb: [u32; 19],
    flow_keys: u64,
    tstamp: u64,
    rest: [u64; 5],
}

const _: () = assert!(std::mem::offset_of!(SkBuff, tstamp) == 152, "as in <linux/bpf.h>");

impl SkBuff {
    fn bytes(&self) -> &[u8] {
        // SAFETY: plain integers without padding, borrowed for reading.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), size_of::<Self>());
        // SAFETY: as many bytes as the structure has, of which every pattern is a value.
        unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) }
    }
}

/// What stands in the packet's own words, for others: the filter leaves it alone.
const WORDS: [u32; 5] = [1, 2, 3, 4, 5];
const PRIORITY: u32 = 6;

/// The rate of an uplink whose newest packet has just left.
pub(crate) fn rate_at(at_ns: u64) -> pendulum_sliding_rate {
    pendulum_sliding_rate { at_ns, ..Default::default() }
}

/// The filter, loaded.
pub(crate) struct Filter {
    pub(crate) programs: ShapePrograms,
    pub(crate) control: pendulum_shape_control,
    pub(crate) now: u64,
}

impl Filter {
    /// On Ethernet.
    pub(crate) fn for_test(test: &str) -> Option<Self> {
        Self::for_test_on(test, craft::LinkLayer::Ethernet)
    }

    /// None, and says so for the test, if this user may not load it.
    pub(crate) fn for_test_on(test: &str, layer: craft::LinkLayer) -> Option<Self> {
        if !pendulum_lab::is_root() {
            crate::rig::skipped(test, "needs root");
            return None;
        }
        Some(Self::new(SHAPE_OBJECT, layer))
    }

    /// Enforcing, static, δ = 1, nobody spared.
    pub(crate) fn new(object: &[u8], layer: craft::LinkLayer) -> Self {
        let layer = match layer {
            craft::LinkLayer::Ethernet => LinkLayer::Ethernet,
            craft::LinkLayer::RawIp => LinkLayer::RawIp,
        };
        let control = pendulum_shape_control {
            channel_bytes_per_s: 24_500,
            window_ns: 100 * MILLISECOND,
            carrier_ns: 2_000 * MILLISECOND,
            idle_ns: 10_000 * MILLISECOND,
            mode: abi::PENDULUM_SHAPE_ENFORCE,
            filter: abi::PENDULUM_FILTER_STATIC,
            delta: 1,
            stretch: 32,
            spared_bytes: 0,
            upper_permille: 900,
            lower_permille: 700,
            uplink_ifindex: SHAPER,
            ..pendulum_shape_control::default()
        };
        static TYPES: LazyLock<KernelTypes> = LazyLock::new(KernelTypes::keep);
        LazyLock::force(&TYPES);
        let programs = ShapePrograms::load_from(object, layer, true).expect("the programs load");
        let mut filter = Self { programs, control, now: 1_000 * MILLISECOND };
        filter.tell();
        filter
    }

    /// After a change of `control`.
    pub(crate) fn tell(&mut self) {
        self.programs.control(self.control).expect("writable");
    }

    /// Forget every connection.
    pub(crate) fn reset(&mut self) {
        let mut states = self.states();
        for place in 0..states.len() {
            if states.get(&place, 0).expect("readable").flow.home_port != 0 {
                states.set(place, pendulum_ack_state::default(), 0).expect("writable");
            }
        }
        // A packet has just left: as long as none does, nothing is withheld.
        self.set_channel(pendulum_channel { rate: rate_at(self.now), ..Default::default() });
    }

    /// The one place of the table that is in use.
    pub(crate) fn place_in_use(&mut self) -> Option<u32> {
        let states = self.states();
        (0..states.len()).find(|place| states.get(place, 0).expect("readable").flow.home_port != 0)
    }

    /// Where the table has the connection with this port at home.
    pub(crate) fn place_of(&self, home_port: u16) -> u32 {
        self.place_from(craft::endpoint::HOME_V4, home_port)
    }

    /// Where it has the connection with this address and port at home: the kernel's hash, over the words of the flow.
    pub(crate) fn place_from(&self, home: [u8; 4], home_port: u16) -> u32 {
        let word = |octets: [u8; 4]| u64::from(u32::from_ne_bytes(octets));
        let ports = u64::from(home_port.to_be()) | u64::from(craft::endpoint::REMOTE_PORT.to_be()) << 16;
        let [home, remote] = [home, craft::endpoint::REMOTE_V4].map(word);
        let mapped = word([0, 0, 0xff, 0xff]);
        let factors = std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |factor| {
            Some(factor.wrapping_mul(0x9ddf_ea08_eb38_2d69))
        });
        let words = [0, 0, mapped, home, 0, 0, mapped, remote, ports].into_iter().zip(factors);
        let hash = words.fold(0_u64, |hash, (word, factor)| hash.wrapping_add(word.wrapping_mul(factor)));
        (hash >> 40) as u32 & (abi::PENDULUM_ACK_FLOWS - 1)
    }

    pub(crate) fn set_channel(&mut self, state: pendulum_channel) {
        self.channel().set(0, state, 0).expect("writable");
    }

    /// The uplink's use as the program has it.
    pub(crate) fn channel_now(&mut self) -> pendulum_channel {
        self.channel().get(&0, 0).expect("readable")
    }

    fn channel(&mut self) -> Array<&mut MapData, pendulum_channel> {
        self.programs.object_mut().map_mut("channel").expect("there").try_into().expect("an array")
    }

    fn states(&mut self) -> Array<&mut MapData, pendulum_ack_state> {
        self.programs.object_mut().map_mut("ack_states").expect("there").try_into().expect("an array")
    }

    /// First pass. None: withheld.
    pub(crate) fn arrive(&mut self, frame: &CraftedFrame) -> Option<Vec<u8>> {
        let (passes, bytes) = self.pass(&frame.bytes, 0);
        assert_eq!(bytes, frame.bytes, "the first pass changes nothing");
        passes.then_some(bytes)
    }

    /// Second pass. None: it has been overtaken.
    pub(crate) fn depart(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let (passes, bytes) = self.pass(packet, SHAPER);
        passes.then_some(bytes)
    }

    fn pass(&mut self, bytes: &[u8], ingress_ifindex: u32) -> (bool, Vec<u8>) {
        let context =
            SkBuff { tstamp: self.now, priority: PRIORITY, ingress_ifindex, cb: WORDS, ..SkBuff::default() };
        let (verdict, bytes, context) = self.run(bytes, &context);
        assert_eq!((context.priority, context.cb), (PRIORITY, WORDS), "both are others'");
        (verdict == NEXT, bytes)
    }

    fn run(&mut self, bytes: &[u8], context: &SkBuff) -> (u32, Vec<u8>, SkBuff) {
        // A carrier may become longer.
        let mut out = vec![0; bytes.len() + 40];
        let mut context_out = vec![0; size_of::<SkBuff>()];
        let mut options = TestRunOptions::new();
        options.data_in = Some(bytes);
        options.data_out = Some(&mut out);
        options.ctx_in = Some(context.bytes());
        options.ctx_out = Some(&mut context_out);
        let program: &mut SchedClassifier = self
            .programs
            .object_mut()
            .program_mut("pendulum_shape")
            .expect("there")
            .try_into()
            .expect("a classifier");
        let result = program.test_run(options).expect("the program runs");
        let verdict = result.return_value;
        assert!(verdict == NEXT || verdict == DROP, "verdict {verdict}");
        out.truncate(result.data_size_out as usize);
        (verdict, out, SkBuff::read(&context_out))
    }

    /// What the next action adds to the fates: one of them, as a rule.
    pub(crate) fn fate_of<T>(&mut self, action: impl FnOnce(&mut Self) -> T) -> (T, Vec<String>) {
        let before = self.programs.counts().expect("readable").acks;
        let result = action(self);
        let after = self.programs.counts().expect("readable").acks;
        let changed =
            FATES.into_iter().zip(before.iter().zip(after)).filter(|(_, (before, after))| *before != after);
        (result, changed.map(|((action, reason), _)| format!("{action} {reason}")).collect())
    }
}
