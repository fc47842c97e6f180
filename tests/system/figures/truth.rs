//! Readings of everything on a quiet link.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pendulum::replay::capture::Capture;
use pendulum::replay::meter::Meter;
use pendulum::replay::packet::{Packet, parse};
use pendulum_lab::agent::Agent;
use pendulum_lab::lab::Lab;
use pendulum_lab::netns::Host;
use pendulum_lab::topology::WAN_DEVICE;
use pendulum_lab::truth::{LinkCounters, QueueReading};
use pendulum_model::segment::Direction;
use serde_json::Value;

/// Longer than the agent takes to read its counters again.
const PAUSE: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(60);

/// What kernel and agent say at one moment.
pub(super) struct Reading {
    pub(super) link: LinkCounters,
    pub(super) queue: QueueReading,
    /// The link's entry in `/api/v1/state`.
    pub(super) state: Value,
    pub(super) metrics: String,
}

impl Reading {
    fn take(lab: &Lab, agent: &Agent) -> Self {
        let gateway = lab.gateway();
        let state: Value = serde_json::from_str(&agent.get("/api/v1/state").unwrap()).unwrap();
        Self {
            link: LinkCounters::take(&gateway, WAN_DEVICE).unwrap(),
            queue: QueueReading::take(&gateway, WAN_DEVICE).unwrap(),
            state: state["links"][0].clone(),
            metrics: agent.get("/metrics").unwrap(),
        }
    }

    /// Waits until nothing passes any more.
    pub(super) fn when_quiet(lab: &Lab, agent: &Agent) -> Self {
        let deadline = Instant::now() + PATIENCE;
        let mut earlier = Self::take(lab, agent);
        loop {
            std::thread::sleep(PAUSE);
            let now = Self::take(lab, agent);
            if now.link == earlier.link
                && now.queue.backlog_packets == 0
                && ["up", "down"].iter().all(|way| now.segments(way) == earlier.segments(way))
            {
                return now;
            }
            assert!(Instant::now() < deadline, "the link does not become quiet");
            earlier = now;
        }
    }

    /// Segments of all classes.
    pub(super) fn segments(&self, direction: &str) -> u64 {
        let classes = self.state["directions"][direction]["segments"].as_object().unwrap();
        classes.values().map(|count| count.as_u64().unwrap()).sum()
    }

    pub(super) fn bytes(&self, direction: &str) -> u64 {
        self.state["directions"][direction]["bytes"].as_u64().unwrap()
    }
}

/// `retrans:NOW/TOTAL` of a socket.
pub(super) fn retransmitted_by_ss(host: &Host, local: SocketAddr) -> u64 {
    let text = host.run("ss", &["-tinHO", "state", "connected", "src", &local.to_string()]).unwrap();
    let word = text.split_ascii_whitespace().find_map(|word| word.strip_prefix("retrans:"));
    word.map_or(0, |counts| counts.rsplit_once('/').unwrap().1.parse().unwrap())
}

/// The capture of one of the gateway's devices.
struct Side {
    reader: Capture,
    /// The direction of what comes in there.
    direction: Direction,
    own_mac: [u8; 6],
    /// Time and direction of the frame that is next, if there is one.
    next: Option<(u64, Direction)>,
}

impl Side {
    fn open(file: &Path, direction: Direction, own_mac: [u8; 6]) -> Self {
        let mut side = Self { reader: Capture::open(file).unwrap(), direction, own_mac, next: None };
        side.advance();
        side
    }

    /// Steps to the next frame that the hooks of the WAN device see as it is seen here.
    fn advance(&mut self) {
        self.next = None;
        while self.next.is_none() && self.reader.advance().unwrap() {
            let record = self.reader.record().unwrap();
            let comes_in = record.bytes[6..12] != self.own_mac;
            let is_tcp = matches!(parse(&record.frame()), Packet::Tcp(_));
            let direction = match (self.direction, comes_in, is_tcp) {
                // What comes in at the LAN device goes up; all but multicast reports, which are for the gateway itself.
                (Direction::Up, true, true) => Some(Direction::Up),
                (Direction::Down, true, _) => Some(Direction::Down),
                // The gateway's own multicast reports.
                (Direction::Down, false, false) => Some(Direction::Up),
                _ => None,
            };
            self.next = direction.map(|direction| (record.time_ns, direction));
        }
    }
}

/// Measures what came in at the WAN and at the LAN device, in the order of time.
pub(super) fn replay(files: &[PathBuf; 2]) -> Meter {
    let [wan, lan] = files;
    let mut sides = [
        Side::open(wan, Direction::Down, [0x02, 0, 0, 0, 0, 0x02]),
        Side::open(lan, Direction::Up, [0x02, 0, 0, 0, 0x03, 0x01]),
    ];
    let mut meter: Meter = Meter::default();
    loop {
        let earliest =
            sides.iter_mut().filter(|side| side.next.is_some()).min_by_key(|side| side.next.unwrap().0);
        let Some(side) = earliest else { return meter };
        let ((time_ns, direction), record) = (side.next.unwrap(), side.reader.record().unwrap());
        meter.observe_frame(direction, time_ns, &record.frame());
        side.advance();
    }
}
