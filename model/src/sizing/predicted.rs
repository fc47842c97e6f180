//! What a link gives, simulated packet by packet ([`crate::simulate`]).

use serde::Serialize;
use thiserror::Error;

use crate::constants::FEW;
use crate::rate::BufferSize;
use crate::segment::{Direction, PerDirection};
use crate::simulate::{
    ACK_FRAME_BYTES, BUSY_JITTER_S, CongestionControl, DATA_FRAME_BYTES, Flow, HOST_JITTER_S, Outcome,
    PAYLOAD_BYTES, Run, SimulatedLink, agree, ratio_range, simulate,
};

use super::{Advice, AdviceInput, BufferUnit};

/// What stands before the uplink. Before the downlink there always is the provider's drop-tail buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueManagement {
    /// One queue that drops what does not fit.
    #[default]
    Fifo,
    /// Cake as [`super::cake_command`] sets it up: 2 % below the link's rate, `dual-srchost`, without an ACK filter.
    Cake,
}

/// The transfers on the link, all of them long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfers {
    /// Of all senders.
    pub congestion_control: CongestionControl,
    /// Whether senders spread their segments over the round trip, as Linux does under `fq`.
    pub paced: bool,
    /// Transfers towards the home.
    pub downloads: u32,
    /// Transfers from the home.
    pub uploads: u32,
    /// Of the uplink.
    pub queue_management: QueueManagement,
}

impl Default for Transfers {
    fn default() -> Self {
        Self {
            congestion_control: CongestionControl::default(),
            paced: false,
            downloads: 1,
            uploads: 1,
            queue_management: QueueManagement::default(),
        }
    }
}

/// What the transfers get, and what they do to the queues. Its JSON is a contract.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// What stands before the uplink.
    pub aqm: QueueManagement,
    /// Payload of all downloads, bit/s.
    pub download_bps: f64,
    /// Payload of all uploads, bit/s.
    pub upload_bps: f64,
    /// `r`: download over upload.
    pub ratio: f64,
    /// Smallest and largest ratio of the simulated runs, which differ in when the transfers start.
    pub ratio_interval: [f64; 2],
    /// What both queues together add to a round trip, mean over time, seconds. With cake: to that of a flow that has nothing else waiting there, as a
    /// name look-up or a key press.
    pub queue_delay_mean_s: f64,
    /// 95th percentile over time, seconds.
    pub queue_delay_p95_s: f64,
    /// What the bytes that wait in both queues take, mean over time, seconds: what the transfers themselves wait. Without cake the same as above.
    pub transfers_queue_delay_mean_s: f64,
    /// 95th percentile over time, seconds.
    pub transfers_queue_delay_p95_s: f64,
}

/// Why nothing is predicted.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum NotPredicted {
    /// With BBR chance decides: runs with and without some milliseconds of jitter disagree.
    #[error("with BBR chance decides here: simulated runs, half of them with {:.0} ms of jitter, give r from {low:.2} to {high:.2}", BUSY_JITTER_S * 1e3)]
    Bbr {
        /// Smallest ratio of the runs.
        low: f64,
        /// Largest ratio of the runs.
        high: f64,
    },
    /// A buffer is judged by one run, which says little with BBR.
    #[error("with BBR one simulated run for each buffer says too little")]
    BbrBuffers,
    /// No measurement of BBR through cake was held out.
    #[error("BBR through cake was not compared with real kernels")]
    BbrWithCake,
    /// Cake has no buffer that could be sized.
    #[error("cake bounds its queues by delay, so no buffer is recommended")]
    NoBuffer,
    /// Too much happens each second.
    #[error(
        "a link that carries {frames_per_second:.0} frames per second is too fast to be simulated for long enough"
    )]
    TooFast {
        /// Data and acknowledgements, both ways.
        frames_per_second: f64,
    },
    /// Some direction got nothing through.
    #[error("{direction}s get nothing through, so there is no ratio", direction = if *.0 == Direction::Up { "upload" } else { "download" })]
    Starved(Direction),
    /// No transfer in some direction.
    #[error("a ratio needs a download and an upload")]
    OneWay,
}

/// Frames simulated in all: a tenth of a second of work.
const FRAMES: f64 = 600_000.0;
const RUNS: u32 = 2 * LEAST_RUNS;
/// With fewer runs of this length at least, and more frames, a fast link can be judged too.
const LEAST_RUNS: u32 = FEW as u32;
const LEAST_SECONDS: f64 = 30.0;
const MOST_FRAMES: f64 = 1_000_000.0;
/// A run need not be longer: it then has many losses on any link that is slow enough.
pub(super) const MOST_SECONDS: f64 = 300.0;
/// Share of a run left out at its beginning: slow start, and the filling of the buffers.
pub(super) const SETTLING_SHARE: f64 = 0.2;
/// Transfers start within this time, seconds.
pub(super) const START_SPREAD_S: f64 = 0.2;
/// What the ends take for a frame, seconds.
const HOST_S: f64 = 5e-5;

/// Simulates the link with the buffers it has, or else with those recommended.
///
/// # Errors
/// If the simulation does not cover it.
pub fn predict(input: &AdviceInput, advice: &Advice, traffic: Transfers) -> Result<Predicted, NotPredicted> {
    let link = simulated_link(input, advice, traffic)?;
    let (runs, seconds) = length(&link)?;
    let is_bbr = traffic.congestion_control == CongestionControl::Bbr;
    let outcomes: Vec<Outcome> = (0..u64::from(runs))
        .map(|seed| {
            let jitter_s = if is_bbr && seed % 2 == 1 { BUSY_JITTER_S } else { HOST_JITTER_S };
            let from_s = SETTLING_SHARE * seconds;
            simulate(&link, &Run { from_s, until_s: seconds, start_spread_s: START_SPREAD_S, jitter_s }, seed)
        })
        .collect();
    let predicted = summary(&outcomes, traffic.queue_management)?;
    let [low, high] = predicted.ratio_interval;
    if is_bbr && !agree(&outcomes) { Err(NotPredicted::Bbr { low, high }) } else { Ok(predicted) }
}

/// The link with the buffers it has, or else with those recommended, if the simulation covers it.
pub(super) fn simulated_link(
    input: &AdviceInput,
    advice: &Advice,
    traffic: Transfers,
) -> Result<SimulatedLink, NotPredicted> {
    if traffic.downloads == 0 || traffic.uploads == 0 {
        return Err(NotPredicted::OneWay);
    }
    if (traffic.congestion_control, traffic.queue_management)
        == (CongestionControl::Bbr, QueueManagement::Cake)
    {
        return Err(NotPredicted::BbrWithCake);
    }
    Ok(link(input, advice, traffic))
}

fn link(input: &AdviceInput, advice: &Advice, traffic: Transfers) -> SimulatedLink {
    let with_cake = traffic.queue_management == QueueManagement::Cake;
    let up = if with_cake {
        super::below(input.uplink_rate) as f64 / 8.0
    } else {
        input.uplink_rate.bytes_per_second()
    };
    let rate = PerDirection { up, down: input.downlink_rate.bytes_per_second() };
    let recommended = match input.unit {
        BufferUnit::Bytes => PerDirection {
            up: BufferSize::Bytes(advice.uplink_buffer_bytes),
            down: BufferSize::Bytes(advice.downlink_buffer_bytes),
        },
        BufferUnit::Packets => PerDirection {
            up: BufferSize::Packets(advice.uplink_buffer_packets),
            down: BufferSize::Packets(
                (advice.downlink_buffer_bytes as f64 / super::SEGMENT_BYTES).ceil() as u64
            ),
        },
    };
    let given = PerDirection { up: input.uplink_buffer, down: input.downlink_buffer };
    let half = input.round_trip.as_secs_f64() / 2.0 + HOST_S;
    // All are of one home host. With a host each it would be the same: cake then shares among hosts as it does among flows here.
    let flow = |direction| Flow {
        paced: traffic.paced,
        delayed_acks: input.delayed_acks,
        // The propagation lies behind each buffer.
        receiver_round_trip_s: half,
        sender_round_trip_s: half,
        most_segments: input
            .tcp_buffer
            .map(|bytes| u32::try_from(bytes / u64::from(PAYLOAD_BYTES)).unwrap_or(u32::MAX)),
        ..Flow::bulk(direction, traffic.congestion_control)
    };
    let several = |direction, count| std::iter::repeat_n(flow(direction), count as usize);
    SimulatedLink {
        rate,
        buffer: PerDirection::from_fn(|x| passable(given[x].unwrap_or(recommended[x]))),
        cake: with_cake,
        // A bucket of a frame, as shapers have it.
        burst: PerDirection::from_fn(|_| f64::from(DATA_FRAME_BYTES)),
        flows: several(Direction::Down, traffic.downloads)
            .chain(several(Direction::Up, traffic.uploads))
            .collect(),
    }
}

/// Less than a frame would pass nothing.
fn passable(size: BufferSize) -> BufferSize {
    match size {
        BufferSize::Bytes(bytes) => BufferSize::Bytes(bytes.max(u64::from(DATA_FRAME_BYTES))),
        BufferSize::Packets(packets) => BufferSize::Packets(packets.max(1)),
    }
}

/// Number of runs, and seconds of each.
fn length(link: &SimulatedLink) -> Result<(u32, f64), NotPredicted> {
    let frames_per_second = frames_per_second(link);
    let seconds = |frames: f64, runs: u32| frames / f64::from(runs) / frames_per_second;
    let usual = seconds(FRAMES, RUNS);
    if usual >= 2.0 * LEAST_SECONDS {
        return Ok((RUNS, usual.min(MOST_SECONDS)));
    }
    if seconds(MOST_FRAMES, LEAST_RUNS) < LEAST_SECONDS {
        return Err(NotPredicted::TooFast { frames_per_second });
    }
    Ok((LEAST_RUNS, seconds(FRAMES, LEAST_RUNS).max(LEAST_SECONDS)))
}

/// At most: both links full of data, and an acknowledgement for each segment or each two.
pub(super) fn frames_per_second(link: &SimulatedLink) -> f64 {
    let delayed = link.flows.iter().all(|flow| flow.delayed_acks);
    let per_segment = if delayed { 1.5 } else { 2.0 };
    (link.rate.up + link.rate.down) / f64::from(DATA_FRAME_BYTES + ACK_FRAME_BYTES) * per_segment
}

fn summary(outcomes: &[Outcome], aqm: QueueManagement) -> Result<Predicted, NotPredicted> {
    let mean = |figure: fn(&Outcome) -> f64| outcomes.iter().map(figure).sum::<f64>() / outcomes.len() as f64;
    let goodput = PerDirection {
        up: mean(|outcome| outcome.goodput_bps.up),
        down: mean(|outcome| outcome.goodput_bps.down),
    };
    for direction in Direction::ALL {
        if outcomes.iter().any(|outcome| outcome.goodput_bps[direction] <= 0.0) {
            return Err(NotPredicted::Starved(direction));
        }
    }
    Ok(Predicted {
        aqm,
        download_bps: goodput.down,
        upload_bps: goodput.up,
        ratio: goodput.down / goodput.up,
        ratio_interval: ratio_range(outcomes).unwrap_or_default(),
        queue_delay_mean_s: mean(|outcome| outcome.sparse_wait_both.mean_s),
        queue_delay_p95_s: mean(|outcome| outcome.sparse_wait_both.p95_s),
        transfers_queue_delay_mean_s: mean(|outcome| outcome.wait_both.mean_s),
        transfers_queue_delay_p95_s: mean(|outcome| outcome.wait_both.p95_s),
    })
}

#[cfg(test)]
mod tests;
