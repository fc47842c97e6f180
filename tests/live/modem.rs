//! The uplink's buffer out of sight, in a modem behind the gateway: the agent's reading beside the kernel's.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pendulum_lab::LinkSpec;
use pendulum_lab::topology::BufferPlace;
use pendulum_model::segment::Direction;
use serde_json::Value;

use crate::rig::{Rig, with_rig_of};

pub(crate) const MODEM: LinkSpec = LinkSpec { uplink_buffer_at: BufferPlace::Modem, ..LinkSpec::FIG1 };

/// The agent's level is as old as this: answers may come in until then.
const LAG: Duration = Duration::from_millis(600);

/// Between two readings.
const STEP: Duration = Duration::from_millis(50);

/// Bytes per second of the uplink.
const UP_RATE: f64 = 24_500.0;

/// Bytes per second of the downlink.
const DOWN_RATE: f64 = 300_000.0;

/// Two full packets with their headers.
const TWO_PACKETS: f64 = 3028.0;

/// What was read of the modem's buffer: by the agent beside the kernel, and bytes per second that the kernel says have left.
pub(crate) struct Seen {
    pairs: Vec<Pair>,
    carried: f64,
}

/// The modem's buffer by the agent and by the kernel, and how far the agent says it may be off.
pub(crate) struct Pair {
    pub(crate) agent: f64,
    pub(crate) uncertainty: f64,
    pub(crate) kernel: f64,
}

pub(crate) fn number(link: &Value, pointer: &str) -> Option<f64> {
    link.pointer(pointer).and_then(Value::as_f64)
}

/// Reads both for this long.
pub(crate) fn compare(rig: &Rig, length: Duration) -> Seen {
    let sent = || (Instant::now(), rig.kernel_queue(Direction::Up).sent_bytes);
    let before = sent();
    let mut kernel: VecDeque<(Instant, f64)> = VecDeque::new();
    let mut pairs = Vec::new();
    let end = Instant::now() + length;
    while Instant::now() < end {
        kernel.push_back((Instant::now(), rig.kernel_queue(Direction::Up).backlog_bytes as f64));
        let asked = Instant::now();
        let link = rig.link();
        let then = kernel.iter().rev().find(|(at, _)| asked.duration_since(*at) >= LAG);
        if let (Some((_, kernel)), Some(agent), Some(uncertainty)) = (
            then,
            number(&link, "/directions/up/queue/bytes"),
            number(&link, "/directions/up/queue/uncertainty_bytes"),
        ) {
            pairs.push(Pair { agent, uncertainty, kernel: *kernel });
        }
        std::thread::sleep(STEP);
    }
    let after = sent();
    let carried = (after.1 - before.1) as f64 / (after.0 - before.0).as_secs_f64();
    Seen { pairs, carried }
}

fn mean(figures: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = figures.len() as f64;
    figures.sum::<f64>() / count
}

impl Seen {
    /// Means of all readings.
    pub(crate) fn mean(&self) -> Pair {
        assert!(self.pairs.len() >= 10, "{} readings", self.pairs.len());
        let of = |figure: fn(&Pair) -> f64| mean(self.pairs.iter().map(figure));
        let means = Pair {
            agent: of(|pair| pair.agent),
            uncertainty: of(|pair| pair.uncertainty),
            kernel: of(|pair| pair.kernel),
        };
        println!(
            "mean {:.0} ± {:.0} B, kernel {:.0} B of {} readings",
            means.agent,
            means.uncertainty,
            means.kernel,
            self.pairs.len()
        );
        means
    }
}

/// An upload fills the modem, a download starves beside it: what the agent shows is what the kernel holds.
fn check_tcp(test: &str, told: bool) {
    with_rig_of(test, MODEM, told, |rig| {
        let idle = rig.link();
        assert_eq!(idle["vantage"], "before_uplink_buffer", "{idle:#}");
        let upload = rig.transfer(Direction::Up);
        rig.wait_for("the modem's buffer", |link| {
            link["directions"]["up"]["queue"]["source"] == "estimate"
                && number(link, "/directions/up/queue/bytes").is_some_and(|bytes| bytes > 15_000.0)
        });
        let download = rig.transfer(Direction::Down);
        rig.wait_for("a verdict", |link| link["verdict"] == "locked_uplink");
        let seen = compare(rig, Duration::from_secs(5));
        let Pair { agent, kernel, .. } = seen.mean();
        let rms = mean(seen.pairs.iter().map(|pair| (pair.agent - pair.kernel).powi(2))).sqrt();
        let carried = seen.carried;
        println!("told {told}: RMS {rms:.0} B");
        assert!(kernel > 10_000.0, "the buffer was used: {kernel} B");
        // The token bucket holds the packet that is being sent, which a link's buffer does not.
        assert!((agent - kernel).abs() < 2.0 * TWO_PACKETS, "mean {agent} B, kernel {kernel} B");
        assert!(rms < 3.0 * TWO_PACKETS, "RMS {rms} B");
        let link = rig.link();
        let [rate, down_rate] = ["uplink_rate_bps", "downlink_rate_bps"]
            .map(|name| number(&link["link"], &format!("/{name}")).map(|bits| bits / 8.0));
        println!("the link carried {carried:.0} B/s, its rate is {rate:?}, the downlink's {down_rate:?}");
        assert!(
            (carried / UP_RATE - 1.0).abs() < 0.02,
            "the link has another rate than it is to have: {carried} B/s"
        );
        assert!(rate.is_some_and(|rate| (rate / UP_RATE - 1.0).abs() < 0.05), "{rate:?} B/s");
        // A download that starves comes in short bursts, which its shaper lets pass faster than it serves a queue.
        assert!(down_rate.is_none_or(|rate| (rate / DOWN_RATE - 1.0).abs() < 0.05), "{down_rate:?} B/s");
        // Of one far end and without rates nobody knows whether its queue is the line's.
        let help = if told { "shape the uplink" } else { "it may wait beyond the line" };
        rig.wait_for(help, |link| {
            link["bufferbloat"]["up"]["help"].as_str().is_some_and(|said| said.contains(help))
        });
        drop((upload, download));
        let metrics = rig.get("metrics");
        let name = "pendulum_queue_uncertainty_bytes{link=\"wan0\",direction=\"up\"}";
        assert!(metrics.contains(name), "{metrics}");
    });
}

#[test]
fn an_upload_that_fills_the_modem_is_seen() {
    check_tcp("an_upload_that_fills_the_modem_is_seen", true);
}

#[test]
fn an_upload_that_fills_the_modem_is_seen_without_rates() {
    check_tcp("an_upload_that_fills_the_modem_is_seen_without_rates", false);
}

/// Datagrams at the link's rate fill the modem; a download beside them starves. That is found, and who does it.
#[test]
fn datagrams_that_fill_the_modem_lock_the_download() {
    with_rig_of("datagrams_that_fill_the_modem_lock_the_download", MODEM, true, |rig| {
        let download = rig.transfer(Direction::Down);
        let datagrams = rig.datagrams_up();
        let started = Instant::now();
        let locked = rig.wait_for("a verdict", |link| link["verdict"] == "locked_uplink");
        println!("locked_uplink {:.1} s after both had begun", started.elapsed().as_secs_f64());
        drop((datagrams, download));
        let reason = locked["evidence"]["reason"].as_str().unwrap();
        assert!(reason.contains("UDP"), "{reason}");
        let udp = number(&locked, "/directions/up/queue/composition/udp").unwrap();
        assert!(udp > 0.5, "{udp}");
    });
}
