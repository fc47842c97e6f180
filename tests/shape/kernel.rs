//! The real filter, run on crafted packets by the kernel (`BPF_PROG_TEST_RUN`): both passes, with the queue between them
//! played by the test.

use std::collections::{BTreeSet, VecDeque};

use aya::maps::{Array, MapData};
use aya::programs::{SchedClassifier, TestRun as _, TestRunOptions};
use pendulum::bpf::abi::{self, pendulum_ack_state, pendulum_channel, pendulum_shape_control};
use pendulum::bpf::{LinkLayer, ShapePrograms};
use pendulum::shape::FATES;

use crate::craft::{self, CraftedFrame};

/// ifindex of loopback: TEST_RUN takes only devices that are there.
const SHAPER: u32 = 1;
const NEXT: u32 = u32::MAX;
const DROP: u32 = 2;
pub(crate) const LANE: u32 = 0x7e0d_0010;
pub(crate) const SPARSE: u32 = 0x7e0d_0030;
pub(crate) const TURN: u32 = 0x7e0d_0040;
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

/// A packet that stands in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) bytes: Vec<u8>,
    cb: [u32; 5],
    pub(crate) priority: u32,
}

/// The next that leaves: from the lane, as long as any stands there.
pub(crate) fn next_of(queue: &mut VecDeque<Queued>) -> Option<Queued> {
    let at = queue.iter().position(|packet| packet.priority == LANE).unwrap_or(0);
    queue.remove(at)
}

/// Where the filter keeps the connection of a packet that it has tagged.
fn place(cb: &[u32; 5]) -> Option<u32> {
    (cb[3] >> 24 == 0x5c).then_some(cb[3] & 0xffff)
}

/// The filter, loaded.
pub(crate) struct Filter {
    programs: ShapePrograms,
    pub(crate) control: pendulum_shape_control,
    pub(crate) now: u64,
    /// `skb->priority` of what comes, which it leaves with.
    pub(crate) own_priority: u32,
    /// Of the connections met, in the table.
    places: BTreeSet<u32>,
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
        Some(Self::new(layer))
    }

    /// Enforcing, static, δ = 1, nobody spared.
    fn new(layer: craft::LinkLayer) -> Self {
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
            // The kernel drops the packet of each run: the tracepoints must not take that for a queue's drop.
            queue_ifindex: 0,
            netns: 0,
            lane_priority: LANE,
            merge_sack: 0,
            sparse_priority: SPARSE,
            sparse_bytes: 6_056,
            sparse_idle_ns: 10_000 * MILLISECOND,
            ..pendulum_shape_control::default()
        };
        let programs = ShapePrograms::load_for(layer, false, true).expect("the programs load");
        let mut filter =
            Self { programs, control, now: 1_000 * MILLISECOND, own_priority: 6, places: BTreeSet::new() };
        filter.tell();
        filter
    }

    /// After a change of `control`.
    pub(crate) fn tell(&mut self) {
        self.programs.control(self.control).expect("writable");
    }

    /// Forget every connection.
    pub(crate) fn reset(&mut self) {
        for place in std::mem::take(&mut self.places) {
            self.states().set(place, pendulum_ack_state::default(), 0).expect("writable");
        }
        self.set_channel(pendulum_channel::default());
    }

    pub(crate) fn set_channel(&mut self, state: pendulum_channel) {
        self.channel().set(0, state, 0).expect("writable");
    }

    fn channel(&mut self) -> Array<&mut MapData, pendulum_channel> {
        self.programs.object_mut().map_mut("channel").expect("there").try_into().expect("an array")
    }

    fn states(&mut self) -> Array<&mut MapData, pendulum_ack_state> {
        self.programs.object_mut().map_mut("ack_states").expect("there").try_into().expect("an array")
    }

    /// First pass. None: withheld.
    pub(crate) fn arrive(&mut self, frame: &CraftedFrame) -> Option<Queued> {
        let context =
            SkBuff { tstamp: self.now, priority: self.own_priority, cb: [9; 5], ..SkBuff::default() };
        let (verdict, bytes, context) = self.run(&frame.bytes, &context);
        assert_eq!(bytes, frame.bytes, "the first pass changes nothing");
        // What is withheld belongs to a connection met before.
        if let Some(place) = place(&context.cb) {
            self.places.insert(place);
        }
        (verdict == NEXT).then_some(Queued { bytes, cb: context.cb, priority: context.priority })
    }

    /// The queue has taken it: what the tracepoint does then.
    pub(crate) fn confirm(&mut self, packet: &Queued) {
        if let Some(place) = place(&packet.cb) {
            let serial = packet.cb[2];
            let mut state = self.states().get(&place, 0).expect("readable");
            state.enqueued_serial = serial;
            self.states().set(place, state, 0).expect("writable");
        }
    }

    /// The queue has dropped it: what the tracepoint does then.
    pub(crate) fn drop(&mut self, packet: &Queued) {
        if let Some(place) = place(&packet.cb) {
            let mut state = self.states().get(&place, 0).expect("readable");
            state.dropped_serial = packet.cb[2];
            self.states().set(place, state, 0).expect("writable");
            if state.flags & abi::PENDULUM_ACK_PENDING != 0 && state.pending_serial == packet.cb[2] {
                let channel = self.channel().get(&0, 0).expect("readable");
                self.set_channel(pendulum_channel { overflow_ns: self.now, ..channel });
            }
        }
    }

    /// First pass and into the queue.
    pub(crate) fn enqueue(&mut self, frame: &CraftedFrame) -> Option<Queued> {
        let packet = self.arrive(frame)?;
        self.confirm(&packet);
        Some(packet)
    }

    /// Second pass. None: it has been overtaken.
    pub(crate) fn depart(&mut self, packet: &Queued) -> Option<Vec<u8>> {
        let context = SkBuff {
            tstamp: self.now,
            priority: packet.priority,
            ingress_ifindex: SHAPER,
            cb: packet.cb,
            ..SkBuff::default()
        };
        let (verdict, bytes, context) = self.run(&packet.bytes, &context);
        assert_eq!(context.priority, self.own_priority, "the packet's own priority is given back");
        (verdict == NEXT).then_some(bytes)
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

    /// What the next deed adds to the fates: one of them, as a rule.
    pub(crate) fn fate_of<T>(&mut self, deed: impl FnOnce(&mut Self) -> T) -> (T, Vec<String>) {
        let before = self.programs.counts().expect("readable").acks;
        let result = deed(self);
        let after = self.programs.counts().expect("readable").acks;
        let changed =
            FATES.into_iter().zip(before.iter().zip(after)).filter(|(_, (before, after))| *before != after);
        (result, changed.map(|((action, reason), _)| format!("{action} {reason}")).collect())
    }
}
