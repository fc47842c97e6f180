//! `pendulum advise`: the mathematics is in the model; here are its options and its output.

use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use pendulum_model::rate::{BufferSize, Rate, Size, parse_duration};
use pendulum_model::sizing::{self, AdviceError, AdviceInput, BufferUnit};

use crate::exit::{Classified, Exit, Failure, answer};

/// Recommends an uplink buffer that lets downloads and uploads fill both directions of a link, and tells what it gives.
///
/// Ratios are download over upload throughput. With both buffers given they are those of the given buffers; the
/// recommendation is always for the ratio of the two rates.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Capacity from the provider, as tc writes rates: 196kbit, 2.4mbit
    #[arg(long, value_name = "RATE")]
    downlink_rate: Rate,
    /// Capacity towards the provider
    #[arg(long, value_name = "RATE")]
    uplink_rate: Rate,
    /// Round-trip time of the link without any queue: 40ms
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    rtt: Duration,
    /// Downlink buffer as it is: 30000, 30k, or 50p for packets. Without it one is recommended
    #[arg(long, value_name = "SIZE")]
    downlink_buffer: Option<BufferSize>,
    /// Uplink buffer as it is
    #[arg(long, value_name = "SIZE")]
    uplink_buffer: Option<BufferSize>,
    /// Whether receivers answer two segments with one ACK
    #[arg(long, value_name = "YES|NO", default_value = "yes")]
    delayed_acks: YesNo,
    /// What the buffers are counted in
    #[arg(long, value_name = "UNIT", default_value = "bytes")]
    unit: Unit,
    /// Smaller of the two TCP socket buffers [default: unlimited]
    #[arg(long, value_name = "SIZE")]
    tcp_buffer: Option<Size>,
    /// WAN device named in the commands
    #[arg(long, value_name = "DEV", default_value = "wan")]
    wan: String,
    /// text: for people; json: one object
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum YesNo {
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unit {
    Bytes,
    Packets,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Classified for AdviceError {
    /// Every refusal comes from a figure on the command line.
    fn exit(&self) -> Exit {
        match self {
            Self::Unit { .. } => Exit::Usage,
            Self::Setting(_) | Self::Ratio(_) => Exit::Data,
        }
    }
}

pub(super) fn advise(options: &Options) -> Result<ExitCode, Failure> {
    let advice = sizing::advise(&AdviceInput {
        downlink_buffer: options.downlink_buffer,
        uplink_buffer: options.uplink_buffer,
        delayed_acks: options.delayed_acks == YesNo::Yes,
        unit: match options.unit {
            Unit::Bytes => BufferUnit::Bytes,
            Unit::Packets => BufferUnit::Packets,
        },
        tcp_buffer: options.tcp_buffer.map(|size| size.bytes),
        device: options.wan.clone(),
        ..AdviceInput::new(options.downlink_rate, options.uplink_rate, options.rtt)
    })?;
    match options.format {
        Format::Text => answer(&advice.to_string())?,
        Format::Json => answer(&super::to_json(&advice)?)?,
    }
    Ok(ExitCode::SUCCESS)
}
