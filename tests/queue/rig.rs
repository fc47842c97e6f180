//! A lab whose uplink queue is measured: programs on the gateway's `wan0`, real traffic through it.

use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use pendulum::bpf::abi::pendulum_queue;
use pendulum::bpf::{KernelTypes, LinkPrograms, LoadOptions, QueuePrograms, RingReader};
use pendulum::net::{Qdisc, QdiscTree};
use pendulum_lab::topology::WAN_DEVICE;
use pendulum_lab::traffic::{Transfer, TransferSpec};
use pendulum_lab::{Lab, LinkSpec};
use pendulum_model::segment::Direction;

/// Transfers end late on a full buffer: iperf3's last exchange waits in it.
const PATIENCE: Duration = Duration::from_secs(60);

/// One lab at a time: two would share the processors, and a slow tcpdump loses packets.
static ALONE: Mutex<()> = Mutex::new(());

/// Why a test cannot run here; printed as the test groups expect it.
pub(crate) fn skipped(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
}

/// Call `action` with a measured lab. Says so and returns if this user may not build one.
pub(crate) fn with_rig(test: &str, spec: LinkSpec, action: impl FnOnce(&mut Rig)) {
    if !pendulum_lab::is_root() {
        return skipped(test, "needs root");
    }
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let lab = Lab::start(spec).expect("the lab starts");
    let mut rig = Rig::new(lab);
    action(&mut rig);
    let Rig { lab, programs, queues, .. } = rig;
    drop((programs, queues));
    lab.stop().expect("the lab goes away");
    drop(alone);
}

/// The same with a lab that nothing measures yet.
pub(crate) fn with_lab(test: &str, spec: LinkSpec, action: impl FnOnce(&Lab)) {
    if !pendulum_lab::is_root() {
        return skipped(test, "needs root");
    }
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let lab = Lab::start(spec).expect("the lab starts");
    action(&lab);
    lab.stop().expect("the lab goes away");
    drop(alone);
}

/// The measured lab.
pub(crate) struct Rig {
    pub(crate) lab: Lab,
    pub(crate) programs: LinkPrograms,
    pub(crate) queues: QueuePrograms,
    pub(crate) ifindex: u32,
}

impl Rig {
    fn new(lab: Lab) -> Self {
        static TYPES: LazyLock<KernelTypes> = LazyLock::new(KernelTypes::keep);
        LazyLock::force(&TYPES);
        let gateway = lab.gateway();
        let (programs, queues, ifindex) = gateway
            .inside(|| {
                let ifindex = ifindex(WAN_DEVICE);
                let options = LoadOptions { queue_mark: true, ..LoadOptions::default() };
                let mut programs = LinkPrograms::load(&options).expect("the packet programs load");
                programs.attach(WAN_DEVICE, ifindex).expect("and attach");
                let mut queues = QueuePrograms::load().expect("the queue programs load");
                queues.track(Direction::Up, ifindex, 0).expect("the device is registered");
                (programs, queues, ifindex)
            })
            .expect("inside the gateway");
        Self { lab, programs, queues, ifindex }
    }

    pub(crate) fn tc(&self, arguments: &str) -> Result<String, String> {
        let arguments: Vec<&str> = arguments.split_ascii_whitespace().collect();
        self.lab.gateway().run("tc", &arguments).map_err(|error| error.to_string())
    }

    /// Tell the programs what stands below the root now.
    pub(crate) fn track(&mut self) {
        let flags = pendulum::bpf::flags_of(&self.tree());
        let (gateway, ifindex, queues) = (self.lab.gateway(), self.ifindex, &mut self.queues);
        gateway
            .inside(|| queues.track(Direction::Up, ifindex, flags))
            .expect("inside")
            .expect("the device is registered");
    }

    pub(crate) fn tree(&self) -> QdiscTree {
        let ifindex = self.ifindex;
        self.lab.gateway().inside(|| QdiscTree::read(ifindex)).expect("inside").expect("netlink answers")
    }

    pub(crate) fn root(&self) -> Qdisc {
        self.tree().root().expect("a root qdisc").clone()
    }

    pub(crate) fn state(&self) -> pendulum_queue {
        self.queues.state(Direction::Up)
    }

    pub(crate) fn reader(&self) -> RingReader {
        self.queues.reader(Direction::Up)
    }

    /// Reno both ways for whole seconds.
    pub(crate) fn two_way(&self, seconds: u64) -> [Transfer; 2] {
        [Direction::Up, Direction::Down].map(|direction| {
            let spec = TransferSpec::new(direction, Duration::from_secs(seconds));
            Transfer::start(&self.lab, spec).expect("a transfer starts")
        })
    }

    /// Wait for transfers to end and the queue to run empty.
    pub(crate) fn finish(&self, mut transfers: [Transfer; 2], mut meanwhile: impl FnMut()) {
        let end = Instant::now() + PATIENCE;
        while transfers.iter_mut().any(|transfer| !transfer.is_finished().expect("it can be asked")) {
            assert!(Instant::now() < end, "the transfers do not end");
            std::thread::sleep(Duration::from_millis(50));
            meanwhile();
        }
        // An answer to what the other direction still holds may be on its way after the queue has run empty.
        let mut before = None;
        let mut quiet = 0;
        for _ in 0..400 {
            let now = self.root();
            let is_quiet =
                now.backlog_packets == 0 && before.replace(now.sent_packets) == Some(now.sent_packets);
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet == 25 {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the queue does not run empty: {:?}", self.root());
    }

    /// The qdisc's own figures and ours, if nothing happened while both were read. Several readings in a row, with nothing but the
    /// kernel's answer between: to go into the gateway takes a slow machine longer than the queue holds still.
    pub(crate) fn both(&self) -> Option<(Qdisc, pendulum_queue)> {
        const READINGS: u32 = 5;
        let (queues, ifindex) = (&self.queues, self.ifindex);
        let read = || {
            let before = queues.state(Direction::Up);
            let tree = QdiscTree::read(ifindex).expect("netlink answers");
            let after = queues.state(Direction::Up);
            let held_still = before.last_ns == after.last_ns && before.drops == after.drops;
            held_still.then(|| (tree.root().expect("a root qdisc").clone(), after))
        };
        self.lab.gateway().inside(|| (0..READINGS).find_map(|_| read())).expect("inside")
    }

    /// The same, after as many attempts as it takes.
    pub(crate) fn both_at_rest(&self) -> (Qdisc, pendulum_queue) {
        for _ in 0..200 {
            if let Some(both) = self.both() {
                return both;
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        panic!("the queue never rests")
    }
}

pub(crate) fn ifindex(device: &str) -> u32 {
    let name = std::ffi::CString::new(device).expect("a device name");
    // SAFETY: a string that ends with a zero byte.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert_ne!(index, 0, "{device} is there");
    index
}

/// A directory for captures that goes away with the test.
pub(crate) fn scratch() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let path = directory.path().to_owned();
    (directory, path)
}
