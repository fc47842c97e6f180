//! How large the buffers should be, and what that gives: the mathematics behind `pendulum advise`.

mod predicted;
mod recommended;
#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

use crate::rate::{BufferSize, Rate};
use crate::ratio::{
    Caveat, Confidence, FAST_RETRANSMIT_SEGMENTS, Prediction, RatioError, SEGMENT_BYTES, Setting,
    SettingError, packets, paper, refined,
};
use crate::segment::{Direction, FULL_FRAME_BYTES, PerDirection};

pub use predicted::{NotPredicted, Predicted, QueueManagement, Transfers, predict};

pub use crate::simulate::CongestionControl;
pub use recommended::{DELAY_BOUND, Recommended, recommend};

/// What buffers are counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferUnit {
    /// `bfifo`; what 000 recommends.
    #[default]
    Bytes,
    /// `pfifo`, and most hardware.
    Packets,
}

/// The link advice is asked for.
#[derive(Clone, Debug)]
pub struct AdviceInput {
    /// `C_d`.
    pub downlink_rate: Rate,
    /// `C_u`.
    pub uplink_rate: Rate,
    /// `2·T_p`: the round trip without queues.
    pub round_trip: Duration,
    /// `B_d`; `None`: a size is recommended.
    pub downlink_buffer: Option<BufferSize>,
    /// `B_u` as it is now; `None`: the ratios are those of the recommended one.
    pub uplink_buffer: Option<BufferSize>,
    /// One ACK for two segments.
    pub delayed_acks: bool,
    /// What the buffers are counted in.
    pub unit: BufferUnit,
    /// `B_TCP`, bytes; `None`: unlimited.
    pub tcp_buffer: Option<u64>,
    /// The WAN device, for the commands.
    pub device: String,
}

impl AdviceInput {
    /// A link with nothing known but rates and round trip: delayed ACKs, buffers in bytes, device `wan`.
    pub fn new(downlink_rate: Rate, uplink_rate: Rate, round_trip: Duration) -> Self {
        Self {
            downlink_rate,
            uplink_rate,
            round_trip,
            downlink_buffer: None,
            uplink_buffer: None,
            delayed_acks: true,
            unit: BufferUnit::Bytes,
            tcp_buffer: None,
            device: "wan".to_owned(),
        }
    }
}

/// The answer. Its JSON is a contract: exactly these fields; what only people read is in [`Advice::explanation`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// r by 000 Eq. 6–11, for the given buffers or else the recommended ones. `None` where the formula has no answer.
    pub paper_ratio: Option<f64>,
    /// r by the refined model, for the same buffers.
    pub refined_ratio: f64,
    /// `k = C_d/C_u`: both links full.
    pub wanted_ratio: f64,
    /// Recommended `B_u` if the buffer counts bytes.
    pub uplink_buffer_bytes: u64,
    /// Recommended `B_u` if it counts packets (000 Fig. 11), which is not the same amount: ACKs take slots too.
    pub uplink_buffer_packets: u64,
    /// `B_d`, given or recommended.
    pub downlink_buffer_bytes: u64,
    /// Expected download with the recommended buffers, data on the wire, bit/s.
    pub download_bps: f64,
    /// Expected upload, likewise.
    pub upload_bps: f64,
    /// Longest time a packet can wait in both recommended buffers together, seconds.
    pub max_queue_delay_s: f64,
    /// `tc` commands that apply the recommendation.
    pub commands: Vec<String>,
    /// Why, and how sure.
    #[serde(skip)]
    pub explanation: Explanation,
}

/// What the text says beside the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Whether the ratios are those of buffers the user gave.
    pub ratios_of_given_buffers: bool,
    /// What the buffers count, which decides the formula that the throughputs come from.
    pub unit: BufferUnit,
    /// How sure that is.
    pub confidence: Confidence,
    /// What it leaves out, for either formula.
    pub caveats: Vec<Caveat>,
    /// 001 Eq. 6, one-way traffic, packets.
    pub one_way_packets: PerDirection<u64>,
    /// The rates, for the share of each link.
    pub rates: PerDirection<Rate>,
    /// Whether `B_d` was recommended rather than given.
    pub downlink_recommended: bool,
    /// The buffer that gives r = k is smaller than can work: what was recommended instead is the smallest that can.
    pub uplink_at_minimum: bool,
}

/// Why there is no advice.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum AdviceError {
    /// A figure no link can have.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// No buffer can do it.
    #[error(transparent)]
    Ratio(#[from] RatioError),
    /// A buffer in packets where bytes are asked for, or the other way round.
    #[error("the {direction} buffer is given as {given}, but buffers count {unit} here; {remedy}")]
    Unit {
        /// `uplink` or `downlink`.
        direction: &'static str,
        /// As given.
        given: BufferSize,
        /// What is counted.
        unit: &'static str,
        /// What to do.
        remedy: &'static str,
    },
}

/// 001 Eq. 6: `2·t_p·C/(8·MTU)` packets keep a link busy for one transfer in one direction; `rate` in bytes per
/// second, `round_trip` = 2·t_p in seconds. At least 1.
pub fn one_way_packets(rate: f64, round_trip: f64) -> u64 {
    (round_trip * rate / SEGMENT_BYTES).ceil().max(1.0) as u64
}

/// Buffers for r = k, and what they give.
///
/// # Errors
/// If a figure is impossible, a buffer is given in the wrong unit, or no buffer gives the ratio.
pub fn advise(input: &AdviceInput) -> Result<Advice, AdviceError> {
    let capacity = PerDirection {
        up: input.uplink_rate.bytes_per_second(),
        down: input.downlink_rate.bytes_per_second(),
    };
    let round_trip = input.round_trip.as_secs_f64();
    let given = PerDirection {
        up: input.uplink_buffer.map(|size| bytes_of(size, "uplink", input.unit)).transpose()?,
        down: input.downlink_buffer.map(|size| bytes_of(size, "downlink", input.unit)).transpose()?,
    };
    let empty = Setting::new(capacity, PerDirection::default(), round_trip / 2.0)?
        .with_delayed_acks(input.delayed_acks)
        .with_tcp_buffer(input.tcp_buffer.map_or(f64::INFINITY, |bytes| bytes as f64));
    let wanted = empty.k();
    let downlink = given.down.unwrap_or_else(|| comfortable_downlink(&empty, wanted));
    let with_downlink = empty.with_buffer(Direction::Down, downlink);
    let exact = paper::uplink_buffer_for(&with_downlink, wanted)?;
    // As `bfifo` counts: a limit below a full packet passes nothing.
    let uplink = exact.max(FULL_FRAME_BYTES).round();
    let slots = packets::uplink_slots_needed(downlink / SEGMENT_BYTES, input.delayed_acks).ceil();
    let recommended_bytes = if input.unit == BufferUnit::Packets { slots * SEGMENT_BYTES } else { uplink };
    let recommended = with_downlink.with_buffer(Direction::Up, recommended_bytes);
    let asked = given.up.map_or(recommended, |bytes| with_downlink.with_buffer(Direction::Up, bytes));

    let by_paper = paper::predict(&asked).ok();
    let now = by_formula(&asked, input.unit);
    let then = by_formula(&recommended, input.unit);
    let mut caveats = then.caveats.clone();
    for caveat in by_paper.iter().flat_map(|prediction| &prediction.caveats).chain(&now.caveats) {
        if !caveats.contains(caveat) {
            caveats.push(*caveat);
        }
    }
    Ok(Advice {
        paper_ratio: by_paper.map(|prediction| prediction.ratio),
        refined_ratio: now.ratio,
        wanted_ratio: wanted,
        uplink_buffer_bytes: uplink as u64,
        uplink_buffer_packets: slots as u64,
        downlink_buffer_bytes: downlink.round() as u64,
        download_bps: then.throughput.down * 8.0,
        upload_bps: then.throughput.up * 8.0,
        max_queue_delay_s: recommended_bytes / capacity.up + downlink / capacity.down,
        commands: commands(input, uplink as u64, slots as u64, given.down.is_none().then_some(downlink)),
        explanation: Explanation {
            ratios_of_given_buffers: given.up.is_some(),
            unit: input.unit,
            confidence: then.confidence,
            caveats,
            one_way_packets: PerDirection::from_fn(|x| one_way_packets(capacity[x], round_trip)),
            rates: PerDirection { up: input.uplink_rate, down: input.downlink_rate },
            downlink_recommended: given.down.is_none(),
            uplink_at_minimum: exact < FULL_FRAME_BYTES,
        },
    })
}

/// The `tc` command that makes cake the uplink's queue, 2 % below the link's rate so that the queue is here.
pub fn cake_command(input: &AdviceInput) -> String {
    let rate = below(input.uplink_rate);
    format!("tc qdisc replace dev {} root cake bandwidth {rate}bit nat dual-srchost", input.device)
}

/// 2 % below a rate, bit/s.
fn below(rate: Rate) -> u64 {
    (rate.bits_per_second() / 100 * 98).max(1)
}

fn by_formula(setting: &Setting, unit: BufferUnit) -> Prediction {
    match unit {
        BufferUnit::Bytes => refined::predict(setting),
        BufferUnit::Packets => packets::predict(setting),
    }
}

/// `B_d` in bytes if none is given: enough to keep the downlink busy one way (001 Eq. 6), and so much that the matching
/// uplink buffer holds a few segments.
fn comfortable_downlink(setting: &Setting, wanted: f64) -> f64 {
    let gamma = paper::gamma_of_ratio(wanted, paper::a_of(setting));
    let uplink = FAST_RETRANSMIT_SEGMENTS * SEGMENT_BYTES + setting.in_flight(Direction::Up);
    let down = Direction::Down;
    (gamma * uplink - setting.in_flight(down))
        .max(setting.in_flight(down))
        .max(FAST_RETRANSMIT_SEGMENTS * SEGMENT_BYTES)
}

fn bytes_of(size: BufferSize, direction: &'static str, unit: BufferUnit) -> Result<f64, AdviceError> {
    let refused = |unit, remedy| AdviceError::Unit { direction, given: size, unit, remedy };
    match (size, unit) {
        (BufferSize::Bytes(bytes), BufferUnit::Bytes) => Ok(bytes as f64),
        (BufferSize::Packets(packets), BufferUnit::Packets) => Ok(packets as f64 * SEGMENT_BYTES),
        (BufferSize::Packets(_), BufferUnit::Bytes) => {
            Err(refused("bytes", "add --unit packets or give bytes"))
        }
        (BufferSize::Bytes(_), BufferUnit::Packets) => {
            Err(refused("packets", "write it with the suffix p, such as 50p, or use --unit bytes"))
        }
    }
}

/// The gateway becomes the bottleneck (2 % below the link rate, so that the queue stands here) with a leaf of the
/// recommended size.
fn commands(input: &AdviceInput, uplink: u64, slots: u64, downlink: Option<f64>) -> Vec<String> {
    let device = &input.device;
    let leaf = |bytes: u64, packets: u64| match input.unit {
        BufferUnit::Bytes => format!("bfifo limit {bytes}"),
        BufferUnit::Packets => format!("pfifo limit {packets}"),
    };
    let shape = |device: &str, rate: Rate, leaf: String| {
        [
            format!("tc qdisc replace dev {device} root handle 1: htb default 1"),
            format!("tc class replace dev {device} parent 1: classid 1:1 htb rate {}bit", below(rate)),
            format!("tc qdisc replace dev {device} parent 1:1 handle 10: {leaf}"),
        ]
    };
    let mut commands = shape(device, input.uplink_rate, leaf(uplink, slots)).to_vec();
    if let Some(bytes) = downlink {
        let ifb = "ifb-pendulum";
        commands.push(format!("ip link add {ifb} type ifb"));
        commands.push(format!("ip link set {ifb} up"));
        commands.push(format!("tc qdisc replace dev {device} clsact"));
        commands.push(format!(
            "tc filter replace dev {device} ingress matchall action mirred egress redirect dev {ifb}"
        ));
        let packets = (bytes / SEGMENT_BYTES).ceil() as u64;
        commands.extend(shape(ifb, input.downlink_rate, leaf(bytes.round() as u64, packets)));
    }
    commands
}
