//! What a link gives, simulated packet by packet ([`crate::simulate`]).

use std::fmt;

use serde::Serialize;
use thiserror::Error;

use crate::rate::{BufferSize, in_words};
use crate::segment::{Direction, PerDirection};
use crate::simulate::{
    ACK_FRAME_BYTES, BUSY_JITTER_S, CongestionControl, DATA_FRAME_BYTES, Flow, Limit, Load, Outcome,
    PAYLOAD_BYTES, Run, SimulatedLink, agree, ratio_range, simulate,
};

use super::{Advice, AdviceInput, BufferUnit};

/// What the senders use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SenderControl {
    /// New Reno, as in the papers.
    Reno,
    /// The default of Linux, Windows and macOS.
    #[default]
    Cubic,
    /// Version 1, Linux'. Predicted only where chance does not decide.
    Bbr,
}

impl SenderControl {
    /// The name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

/// What manages the buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueManagement {
    /// One queue in each direction that drops what does not fit.
    #[default]
    Fifo,
    /// Not simulated.
    Cake,
}

/// The transfers on the link, all of them long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Of all senders.
    pub congestion_control: SenderControl,
    /// Whether senders spread their segments over the round trip, as Linux does under `fq`.
    pub paced: bool,
    /// Transfers towards the home.
    pub downloads: u32,
    /// Transfers from the home.
    pub uploads: u32,
    /// Of both directions.
    pub queue_management: QueueManagement,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            congestion_control: SenderControl::default(),
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
    /// Payload of all downloads, bit/s.
    pub download_bps: f64,
    /// Payload of all uploads, bit/s.
    pub upload_bps: f64,
    /// `r`: download over upload.
    pub ratio: f64,
    /// Smallest and largest ratio of the simulated runs, which differ in when the transfers start.
    pub ratio_interval: [f64; 2],
    /// What both queues together add to a round trip, mean over time, seconds.
    pub queue_delay_mean_s: f64,
    /// 95th percentile over time, seconds.
    pub queue_delay_p95_s: f64,
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
    /// Cake has no model here.
    #[error("cake is not simulated; docs/results/mitigations.md has what it gave on three links")]
    Cake,
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
const RUNS: u32 = 6;
/// With fewer runs of this length at least, and more frames, a fast link can be judged too.
const LEAST_RUNS: u32 = 3;
const LEAST_SECONDS: f64 = 30.0;
const MOST_FRAMES: f64 = 1_000_000.0;
/// A run need not be longer: it then has many losses on any link that is slow enough.
const MOST_SECONDS: f64 = 300.0;
/// Share of a run left out at its beginning: slow start, and the filling of the buffers.
pub(super) const SETTLING_SHARE: f64 = 0.2;
/// What the ends take for a frame, seconds.
pub(super) const HOST_S: f64 = 5e-5;

/// Simulates the link with the buffers it has, or else with those recommended.
///
/// # Errors
/// If the simulation does not cover it.
pub fn predict(input: &AdviceInput, advice: &Advice, traffic: Traffic) -> Result<Predicted, NotPredicted> {
    let link = simulated_link(input, advice, traffic)?;
    let (runs, seconds) = length(&link)?;
    let is_bbr = traffic.congestion_control == SenderControl::Bbr;
    let outcomes: Vec<Outcome> = (0..u64::from(runs))
        .map(|seed| {
            let jitter_s = if is_bbr && seed % 2 == 1 { BUSY_JITTER_S } else { HOST_S };
            let from_s = SETTLING_SHARE * seconds;
            simulate(&link, &Run { from_s, until_s: seconds, start_spread_s: 0.2, jitter_s }, seed)
        })
        .collect();
    let predicted = summary(&outcomes)?;
    match ratio_range(&outcomes) {
        Some([low, high]) if is_bbr && !agree(&outcomes) => Err(NotPredicted::Bbr { low, high }),
        _ => Ok(predicted),
    }
}

/// The link with the buffers it has, or else with those recommended, if the simulation covers it.
pub(super) fn simulated_link(
    input: &AdviceInput,
    advice: &Advice,
    traffic: Traffic,
) -> Result<SimulatedLink, NotPredicted> {
    let congestion_control = match traffic.congestion_control {
        SenderControl::Reno => CongestionControl::Reno,
        SenderControl::Cubic => CongestionControl::Cubic,
        SenderControl::Bbr => CongestionControl::Bbr,
    };
    if traffic.queue_management == QueueManagement::Cake {
        return Err(NotPredicted::Cake);
    }
    if traffic.downloads == 0 || traffic.uploads == 0 {
        return Err(NotPredicted::OneWay);
    }
    Ok(link(input, advice, traffic, congestion_control))
}

fn link(
    input: &AdviceInput,
    advice: &Advice,
    traffic: Traffic,
    congestion_control: CongestionControl,
) -> SimulatedLink {
    let rate = PerDirection {
        up: input.uplink_rate.bytes_per_second(),
        down: input.downlink_rate.bytes_per_second(),
    };
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
    let flow = |direction| Flow {
        direction,
        congestion_control,
        paced: traffic.paced,
        delayed_acks: input.delayed_acks,
        // The propagation lies behind each buffer.
        receiver_round_trip_s: half,
        sender_round_trip_s: half,
        start_s: 0.0,
        stop_s: f64::INFINITY,
        load: Load::Bulk,
        most_segments: input
            .tcp_buffer
            .map(|bytes| u32::try_from(bytes / u64::from(PAYLOAD_BYTES)).unwrap_or(u32::MAX)),
    };
    let several = |direction, count| std::iter::repeat_n(flow(direction), count as usize);
    SimulatedLink {
        rate,
        buffer: PerDirection::from_fn(|x| limit(given[x].unwrap_or(recommended[x]))),
        // A bucket of a frame, as shapers have it.
        burst: PerDirection::from_fn(|_| f64::from(DATA_FRAME_BYTES)),
        flows: several(Direction::Down, traffic.downloads)
            .chain(several(Direction::Up, traffic.uploads))
            .collect(),
        hertz: 250,
    }
}

fn limit(size: BufferSize) -> Limit {
    match size {
        // Less than a frame would pass nothing.
        BufferSize::Bytes(bytes) => Limit::Bytes(bytes.max(u64::from(DATA_FRAME_BYTES))),
        BufferSize::Packets(packets) => Limit::Packets(u32::try_from(packets).unwrap_or(u32::MAX).max(1)),
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

fn summary(outcomes: &[Outcome]) -> Result<Predicted, NotPredicted> {
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
    let ratios = || outcomes.iter().map(|outcome| outcome.goodput_bps.down / outcome.goodput_bps.up);
    Ok(Predicted {
        download_bps: goodput.down,
        upload_bps: goodput.up,
        ratio: goodput.down / goodput.up,
        ratio_interval: [ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max)],
        queue_delay_mean_s: mean(|outcome| outcome.wait_both.mean_s),
        queue_delay_p95_s: mean(|outcome| outcome.wait_both.p95_s),
    })
}

impl fmt::Display for Predicted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.ratio_interval;
        write!(
            out,
            "download {}, upload {} of payload, r = {:.2} ({low:.2} to {high:.2});\n  \
             both queues add {:.0} ms to a round trip on average, up to {:.0} ms for 95 % of the time",
            in_words(self.download_bps),
            in_words(self.upload_bps),
            self.ratio,
            self.queue_delay_mean_s * 1e3,
            self.queue_delay_p95_s * 1e3,
        )
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count =
            |number: u32, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let which = match self.congestion_control {
            SenderControl::Reno => "reno",
            SenderControl::Cubic => "CUBIC",
            SenderControl::Bbr => "BBR",
        };
        let paced = if self.paced { ", paced" } else { "" };
        write!(
            out,
            "{} and {} with {which}{paced}",
            count(self.downloads, "download"),
            count(self.uploads, "upload")
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn input(down: &str, up: &str) -> AdviceInput {
        let rate = |text: &str| text.parse().expect("a rate");
        AdviceInput::new(rate(down), rate(up), Duration::from_millis(40))
    }

    fn predicted(input: &AdviceInput, traffic: Traffic) -> Result<Predicted, NotPredicted> {
        predict(input, &super::super::advise(input).expect("advice"), traffic)
    }

    #[test]
    fn a_prediction_keeps_to_the_link() {
        let mut asked = input("2400kbit", "196kbit");
        asked.uplink_buffer = Some(BufferSize::Bytes(30_000));
        asked.downlink_buffer = Some(BufferSize::Bytes(30_000));
        for congestion_control in [SenderControl::Reno, SenderControl::Cubic] {
            let predicted =
                predicted(&asked, Traffic { congestion_control, ..Traffic::default() }).expect("a figure");
            assert!(predicted.download_bps < 2.4e6 && predicted.upload_bps < 196e3, "{predicted:?}");
            let [low, high] = predicted.ratio_interval;
            assert!(low <= predicted.ratio && predicted.ratio <= high, "{predicted:?}");
            // Both buffers full: 30,000/24,500 + 30,000/300,000 = 1.32 s.
            assert!(predicted.queue_delay_mean_s < predicted.queue_delay_p95_s, "{predicted:?}");
            assert!(predicted.queue_delay_p95_s <= 1.33, "{predicted:?}");
        }
    }

    #[test]
    fn the_recommended_buffer_is_better_than_an_oversized_one() {
        let mut asked = input("2400kbit", "196kbit");
        asked.downlink_buffer = Some(BufferSize::Bytes(30_000));
        let recommended = predicted(&asked, Traffic::default()).expect("a figure");
        asked.uplink_buffer = Some(BufferSize::Bytes(60_000));
        let oversized = predicted(&asked, Traffic::default()).expect("a figure");
        assert!(recommended.download_bps > oversized.download_bps, "{recommended:?} {oversized:?}");
        assert!(recommended.queue_delay_mean_s < 0.5 * oversized.queue_delay_mean_s);
    }

    #[test]
    fn what_is_not_simulated_is_not_predicted() {
        let slow = input("2400kbit", "196kbit");
        let cases = [
            (Traffic { queue_management: QueueManagement::Cake, ..Traffic::default() }, "cake"),
            (Traffic { uploads: 0, ..Traffic::default() }, "an upload"),
        ];
        for (traffic, part) in cases {
            let reason = predicted(&slow, traffic).expect_err(part).to_string();
            assert!(reason.contains(part), "{reason}");
        }
        let reason = predicted(&input("1gbit", "500mbit"), Traffic::default()).expect_err("too fast");
        assert!(matches!(reason, NotPredicted::TooFast { .. }), "{reason}");
    }

    #[test]
    fn the_work_is_bounded() {
        for (down, up) in
            [("1mbit", "200kbit"), ("8mbit", "1mbit"), ("40mbit", "10mbit"), ("70mbit", "10mbit")]
        {
            let input = input(down, up);
            let advice = super::super::advise(&input).expect("advice");
            let link = link(&input, &advice, Traffic::default(), CongestionControl::Cubic);
            let (runs, seconds) = length(&link).expect("a length");
            let frames = f64::from(runs) * seconds * frames_per_second(&link);
            assert!(
                frames <= MOST_FRAMES * 1.001 && seconds >= LEAST_SECONDS,
                "{down}: {runs} x {seconds} s"
            );
        }
    }
}
