//! The two settings of paper 002: one transfer in slow start (§2.4, §3.2) and many short files (§4).
//!
//! What the paper leaves open is set here, with the reason beside it; its figures could not be read off the text that the
//! project has, so the tests hold the simulation against what the paper says in words.

use std::time::Duration;

use super::buffer::Counts;
use super::equations::ReverseChannel;
use super::policy::{Policy, Service};
use super::simulation::{Moment, Network, Simulation, Source};

/// The link of one transfer: 10 Mb/s forward, 100 kb/s back, 200 ms, 1,000-byte segments, 40-byte ACKs, every segment
/// acknowledged (002 §2.4). Neither the receiver nor any buffer is a limit.
pub const LINK: Network = Network {
    forward_rate: 1_250_000.0,
    reverse_rate: 12_500.0,
    base_rtt: Duration::from_millis(200),
    segment_bytes: 1_000.0,
    ack_bytes: 40.0,
    segments_per_ack: 1,
    receiver_window: f64::INFINITY,
    reverse_capacity: None,
};

/// `δ` of 002 Figures 4 to 6.
pub const THRESHOLDS: [usize; 4] = [1, 3, 30, 500];

/// Time window of the rate estimators: "in the same order as RTT" (002 §3.2).
pub const ESTIMATOR_WINDOW: Duration = LINK.base_rtt;

/// ACKs in the small reverse buffer of 002 §4.2.
pub const SMALL_BUFFER: usize = 10;

/// Most sources in 002 Figures 11 and 12.
pub const MOST_SOURCES: usize = 20;

/// The reverse channel of [`LINK`], for 002 Eq. 1.
pub const fn reverse_channel() -> ReverseChannel {
    ReverseChannel {
        acks_per_second: LINK.reverse_rate / LINK.ack_bytes,
        base_rtt: LINK.base_rtt,
        segments_per_ack: LINK.segments_per_ack,
    }
}

/// One endless transfer over [`LINK`] from its first segment on, seen every `step` until `end` (002 Figures 4 to 9).
pub fn slow_start(policy: Policy, step: Duration, end: Duration) -> Vec<Moment> {
    let mut simulation = Simulation::new(LINK, policy, vec![Source::ENDLESS], 0);
    let mut moments = vec![simulation.moment()];
    let mut at = Duration::ZERO;
    while at + step <= end && !step.is_zero() {
        at += step;
        simulation.run_until(at);
        moments.push(simulation.moment());
    }
    moments
}

/// The strategies of 002 Figures 11 and 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// No filtering: `δ = ∞`.
    None,
    /// Classical filtering: `δ = 1`.
    Classical,
    /// Delayed filtering with all connections as one flow.
    Delayed,
    /// Per-connection delayed filtering, FIFO service.
    PerConnectionFifo,
    /// Per-connection delayed filtering, round robin.
    PerConnectionRoundRobin,
}

impl Strategy {
    /// In the paper's order.
    pub const ALL: [Self; 5] =
        [Self::None, Self::Classical, Self::Delayed, Self::PerConnectionFifo, Self::PerConnectionRoundRobin];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "no filtering",
            Self::Classical => "classical",
            Self::Delayed => "delayed, one flow",
            Self::PerConnectionFifo => "per connection, FIFO",
            Self::PerConnectionRoundRobin => "per connection, round robin",
        }
    }

    /// Its rules, with the drop policy that 002 §4.2 gives it.
    pub const fn policy(self) -> Policy {
        match self {
            Self::None => Policy::NONE,
            Self::Classical => Policy::CLASSICAL,
            Self::Delayed => Policy::delayed(ESTIMATOR_WINDOW),
            Self::PerConnectionFifo => Policy::per_connection(ESTIMATOR_WINDOW, Service::Fifo),
            Self::PerConnectionRoundRobin => Policy::per_connection(ESTIMATOR_WINDOW, Service::RoundRobin),
        }
    }
}

/// How to run [`many_files`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ManyFiles {
    /// `N`, 1 to 20 in the paper.
    pub sources: usize,
    /// What the reverse buffer does.
    pub strategy: Strategy,
    /// Its size in ACKs; `None` for the large one of 002 §4.1, 10 in §4.2.
    pub reverse_capacity: Option<usize>,
    /// 1000 s in the paper.
    pub duration: Duration,
    /// Of sizes, pauses and delays. Strategies compared with each other should share it.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ManyOutcome {
    /// Mean over the files of size over duration, bit/s: "the average throughput during a file transfer". NaN without files.
    pub mean_file_bps: f64,
    /// Payload of all files and of those under way, over the whole time, bit/s.
    pub total_bps: f64,
    /// Files that arrived.
    pub files: usize,
    /// What became of the ACKs.
    pub acks: Counts,
}

/// A file of 10 kbytes to 10 Mbytes (002 §4.1).
const FILE_SEGMENTS: (u64, u64) = (10, 10_000);
/// "Waits for a small random time".
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// "Chosen randomly with a uniform distribution between 1 and 10 ms".
const ACCESS_DELAY_S: (f64, f64) = (0.001, 0.010);
/// Forward link of the many, bytes per second: 100 Mb/s. The paper's text gives the slow channel only. With the 10 Mb/s of §2.4 twenty sources
/// are held back by the forward link and all filters come out alike, which is not what the paper reports.
const FORWARD_RATE: f64 = 12_500_000.0;
/// 128 kbytes. The paper does not say. With the 64 kbytes that TCP has without window scaling (RFC 1323) one source could not use more ACKs
/// than the channel carries; without a limit the forward queue, which loses nothing, would hide the reverse channel.
const RECEIVER_WINDOW: f64 = 128.0;

/// `N` sources of short files whose ACKs share the slow channel of [`LINK`] (002 §4, Figures 10 to 12).
pub fn many_files(run: &ManyFiles) -> ManyOutcome {
    let mut random = fastrand::Rng::with_seed(run.seed);
    let network = Network {
        forward_rate: FORWARD_RATE,
        receiver_window: RECEIVER_WINDOW,
        reverse_capacity: run.reverse_capacity,
        ..LINK
    };
    let (least, most) = ACCESS_DELAY_S;
    let sources = (0..run.sources).map(|_| Source {
        access_delay: Duration::from_secs_f64(least + (most - least) * random.f64()),
        file_segments: FILE_SEGMENTS,
        longest_pause: LONGEST_PAUSE,
    });
    let mut simulation = Simulation::new(network, run.strategy.policy(), sources.collect(), run.seed);
    simulation.run_until(run.duration);
    let bits = |segments: u64| segments as f64 * network.segment_bytes * 8.0;
    let files = simulation.transfers();
    let rates = files.iter().map(|file| bits(file.segments) / (file.end - file.begin).as_secs_f64());
    ManyOutcome {
        mean_file_bps: rates.sum::<f64>() / files.len() as f64,
        total_bps: bits(simulation.moment().acked_segments) / run.duration.as_secs_f64(),
        files: files.len(),
        acks: simulation.ack_counts(),
    }
}
