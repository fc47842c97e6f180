//! A qdisc that the test makes up, and its events one by one (`native/harness.c`).

use pendulum_model::segment::Direction;

use crate::native::{Kind, Script, Shown, mark};

/// `TC_H_ROOT`: the parent of a root qdisc.
pub(crate) const ROOT: &str = "0xffffffff";

// `enum pendulum_queue_event`: places in `events`.
pub(crate) const DRIFT: usize = 0;
pub(crate) const UNMARKED: usize = 1;
pub(crate) const REQUEUED: usize = 2;
pub(crate) const ADOPTED: usize = 3;
pub(crate) const LONG_CHAIN: usize = 4;
pub(crate) const UNKNOWN_ACK: usize = 5;

// `enum pendulum_queue_flag`.
pub(crate) const EXACT: u64 = 1;
pub(crate) const DROPS_INSIDE: u64 = 2;
pub(crate) const AQM: u64 = 4;
pub(crate) const CAKE: u64 = 8;

/// Device 0 is registered for the uplink; its root is qdisc 0.
pub(crate) struct Bench(pub(crate) Script);

impl Bench {
    pub(crate) fn new(test: &str, kind: &str) -> Option<Self> {
        Self::with(test, kind, ROOT, 0)
    }

    pub(crate) fn with(test: &str, kind: &str, parent: &str, qdisc_flags: u32) -> Option<Self> {
        let mut script = Script::new(test)?;
        script.say(format!("qdisc 0 {kind} {parent} {qdisc_flags}"));
        script.say("device 0 7 4026531840");
        script.say("register 0 7 4026531840 0");
        let mut bench = Self(script);
        bench.clock(1000);
        Some(bench)
    }

    pub(crate) fn say(&mut self, command: impl AsRef<str>) -> &mut Self {
        self.0.say(command);
        self
    }

    pub(crate) fn clock(&mut self, ms: u64) -> &mut Self {
        self.say(format!("time {}", ms * 1_000_000))
    }

    /// What stands in the queue, then the event of a packet that came: TC marked it just before.
    pub(crate) fn enqueue(&mut self, holds: [u32; 2], bytes: u32, mark: u32) -> &mut Self {
        self.say(format!("holds 0 {} {}", holds[0], holds[1]));
        self.say(format!("enqueue 0 0 {bytes} {mark}"))
    }

    /// What stands in the queue and what it has sent, then the event of packets that left: bytes and mark of each.
    pub(crate) fn dequeue(&mut self, holds: [u32; 2], sent: [u32; 2], packets: &[(u32, u32)]) -> &mut Self {
        self.say(format!("holds 0 {} {}", holds[0], holds[1]));
        self.say(format!("has_sent 0 {} {}", sent[0], sent[1]));
        let chain: String = packets.iter().map(|(bytes, mark)| format!(" {bytes} {mark}")).collect();
        self.say(format!("dequeue 0 0 {}{chain}", packets.len()))
    }

    pub(crate) fn show(&mut self) -> Shown {
        self.say("show 0");
        self.0.run_once()
    }
}

pub(crate) fn data(ms: u64) -> u32 {
    mark(Direction::Up, Kind::Data, ms * 1_000_000)
}

pub(crate) fn ack(ms: u64) -> u32 {
    mark(Direction::Up, Kind::Ack, ms * 1_000_000)
}

pub(crate) fn events(shown: &Shown) -> [u64; 6] {
    shown.queue.row("events")
}
