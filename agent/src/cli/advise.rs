//! `pendulum advise`: the mathematics is in the model; here are its options and its output.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use pendulum_model::rate::{BufferSize, Rate, Size, parse_duration};
use pendulum_model::ratio::Confidence;
use pendulum_model::sizing::{
    self, Advice, AdviceError, AdviceInput, BufferUnit, CongestionControl, NotPredicted, Predicted,
    QueueManagement, Recommended, Transfers,
};
use serde::Serialize;

use super::measured::MeasuredLink;
use crate::client::{AgentUrl, Credentials};
use crate::exit::{Classified, Exit, Failure, OutputFormat, answer, to_json};

/// Recommends an uplink buffer with which downloads and uploads fill both directions of a link, and predicts its effect.
///
/// Ratios are download over upload throughput. With both buffers given they are those of the given buffers; the
/// recommendation is always for the ratio of the two rates. With `--url`, rates, round trip and device are those that a
/// running agent has measured; options given as well replace them.
///
/// A packet simulation predicts long transfers with the given buffers, or else the recommended ones.
#[derive(Debug, clap::Args)]
pub(super) struct AdviseOptions {
    /// Capacity from the provider, as tc writes rates: 196kbit, 2.4mbit
    #[arg(long, value_name = "RATE", required_unless_present = "url")]
    downlink_rate: Option<Rate>,
    /// Capacity towards the provider
    #[arg(long, value_name = "RATE", required_unless_present = "url")]
    uplink_rate: Option<Rate>,
    /// Round-trip time of the link without any queue: 40ms
    #[arg(long, value_name = "TIME", value_parser = parse_duration, required_unless_present = "url")]
    rtt: Option<Duration>,
    /// A running agent to take these from: http://127.0.0.1:9924
    #[arg(long, value_name = "URL")]
    url: Option<AgentUrl>,
    #[command(flatten)]
    credentials: Credentials,
    /// Which of the agent's links, if it has several
    #[arg(long, value_name = "NAME", requires = "url")]
    link: Option<String>,
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
    /// Congestion control of the senders that are simulated
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion_control: Control,
    /// Whether the simulated senders spread their segments over the round trip, as Linux does under fq
    #[arg(long, value_name = "YES|NO", default_value = "no")]
    paced: YesNo,
    /// Long downloads at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    downloads: u32,
    /// Long uploads at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    uploads: u32,
    /// Queue in front of the uplink in the simulation: a buffer, or cake as cake_command sets it up
    #[arg(long, value_name = "NAME", default_value = "fifo")]
    aqm: Aqm,
    /// Longest delay that the queues of the buffer found by simulation may add, for 95 % of the time
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "250ms")]
    delay_bound: Duration,
    /// WAN device named in the commands [default: the agent's, else wan]
    #[arg(long, value_name = "DEV")]
    wan: Option<String>,
    /// text: for people; json: one object
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: OutputFormat,
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
enum Control {
    Reno,
    Cubic,
    Bbr,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Aqm {
    Fifo,
    Cake,
}

/// The output: inputs, advice, and the simulation's result or why there is none.
#[derive(Serialize)]
struct AdviseOutput {
    inputs: Inputs,
    /// How far the expected figures can be trusted.
    confidence: Confidence,
    /// Which of `cake_command` and `commands` to use on this machine.
    recommended_queue: AdvisedQueue,
    cake_command: String,
    #[serde(flatten)]
    advice: Advice,
    predicted: Option<Predicted>,
    predicted_reason: Option<String>,
    recommended: Option<Recommended>,
    recommended_reason: Option<String>,
}

/// The link that the advice is for: as given, else as the agent has measured it.
#[derive(Serialize)]
struct Inputs {
    downlink_rate_bps: u64,
    uplink_rate_bps: u64,
    /// Round trip without queues, seconds.
    rtt_s: f64,
    /// As given, in bytes (`30000b`) or packets (`50p`).
    downlink_buffer: Option<String>,
    uplink_buffer: Option<String>,
    delayed_acks: bool,
    unit: BufferUnit,
    tcp_buffer_bytes: Option<u64>,
    device: String,
}

impl Inputs {
    fn of(input: &AdviceInput) -> Self {
        Self {
            downlink_rate_bps: input.downlink_rate.bits_per_second(),
            uplink_rate_bps: input.uplink_rate.bits_per_second(),
            rtt_s: input.round_trip.as_secs_f64(),
            downlink_buffer: input.downlink_buffer.map(|size| size.to_string()),
            uplink_buffer: input.uplink_buffer.map(|size| size.to_string()),
            delayed_acks: input.delayed_acks,
            unit: input.unit,
            tcp_buffer_bytes: input.tcp_buffer,
            device: input.device.clone(),
        }
    }
}

/// What to make the uplink's queue of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum AdvisedQueue {
    /// The kernel has it.
    Cake,
    /// A fifo of the recommended size.
    Fifo,
}

impl AdvisedQueue {
    /// By the running kernel's list of modules below `modules`: loaded, built in, or to be loaded.
    fn of_kernel(loaded: &str, modules: &Path) -> Self {
        let listed = |name: &str| {
            std::fs::read_to_string(modules.join(name)).is_ok_and(|list| list.contains("/sch_cake.ko"))
        };
        let is_loaded = loaded.lines().any(|line| line.starts_with("sch_cake "));
        if is_loaded || listed("modules.builtin") || listed("modules.dep") { Self::Cake } else { Self::Fifo }
    }

    /// On this machine.
    fn here() -> Self {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let loaded = std::fs::read_to_string("/proc/modules").unwrap_or_default();
        Self::of_kernel(&loaded, &Path::new("/lib/modules").join(release.trim()))
    }
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

pub(super) fn advise(options: &AdviseOptions) -> Result<ExitCode, Failure> {
    let measured = match &options.url {
        Some(url) => Some(MeasuredLink::ask(url, &options.credentials, options.link.as_deref())?),
        None => match options.credentials.first_given() {
            Some(option) => {
                let reason = format!("{option}: no agent is asked");
                return Err(Failure::new(Exit::Usage, format!("{reason}; name one with --url")));
            }
            None => None,
        },
    };
    let input = input(options, measured.as_ref())?;
    let advice = sizing::advise(&input)?;
    let traffic = traffic(options);
    let outcome = sizing::predict(&input, &advice, traffic);
    let recommended_queue = AdvisedQueue::here();
    let cake_command = sizing::cake_command(&input);
    let best = sizing::recommend(&input, &advice, traffic, options.delay_bound);
    match options.format {
        OutputFormat::Text => {
            let measured = measured.map_or_else(String::new, |measured| format!("{measured}\n"));
            let predicted = match outcome {
                Ok(predicted) => format!("Simulated, {traffic}:\n  {predicted}."),
                Err(reason) => format!("Not predicted: {reason}."),
            };
            let best = best.map_or_else(|_| String::new(), |best| format!("Best by simulation: {best}.\n"));
            let cake = match recommended_queue {
                AdvisedQueue::Cake => format!(
                    "Recommended, since this kernel has cake (add the line's framing, tc-cake(8)):\n  {cake_command}\n\n\
                     Without cake:\n\n"
                ),
                AdvisedQueue::Fifo => String::new(),
            };
            answer(&format!("{measured}{cake}{advice}\n{predicted}\n{best}"))?;
        }
        OutputFormat::Json => {
            let (predicted, predicted_reason) = or_reason(outcome);
            let (recommended, recommended_reason) = or_reason(best);
            let answered = AdviseOutput {
                inputs: Inputs::of(&input),
                confidence: advice.explanation.confidence,
                recommended_queue,
                cake_command,
                advice,
                predicted,
                predicted_reason,
                recommended,
                recommended_reason,
            };
            answer(&to_json(&answered)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn or_reason<T>(answer: Result<T, NotPredicted>) -> (Option<T>, Option<String>) {
    match answer {
        Ok(figures) => (Some(figures), None),
        Err(reason) => (None, Some(reason.to_string())),
    }
}

fn traffic(options: &AdviseOptions) -> Transfers {
    Transfers {
        congestion_control: match options.congestion_control {
            Control::Reno => CongestionControl::Reno,
            Control::Cubic => CongestionControl::Cubic,
            Control::Bbr => CongestionControl::Bbr,
        },
        paced: options.paced == YesNo::Yes,
        downloads: options.downloads,
        uploads: options.uploads,
        queue_management: match options.aqm {
            Aqm::Fifo => QueueManagement::Fifo,
            Aqm::Cake => QueueManagement::Cake,
        },
    }
}

/// Options replace measured values.
fn input(options: &AdviseOptions, measured: Option<&MeasuredLink>) -> Result<AdviceInput, Failure> {
    let unknown = |what: &str, option: &str| match measured {
        Some(measured) => measured.unknown(what, option),
        None => {
            Failure::new(Exit::Usage, format!("the {what} is unknown; give {option}, or an agent with --url"))
        }
    };
    let chosen = |given: Option<Rate>, found: fn(&MeasuredLink) -> Option<Rate>| {
        given.or_else(|| measured.and_then(found))
    };
    let downlink_rate = chosen(options.downlink_rate, |measured| measured.downlink_rate)
        .ok_or_else(|| unknown("downlink rate", "--downlink-rate"))?;
    let uplink_rate = chosen(options.uplink_rate, |measured| measured.uplink_rate)
        .ok_or_else(|| unknown("uplink rate", "--uplink-rate"))?;
    let round_trip = options.rtt.or_else(|| measured.and_then(|measured| measured.round_trip));
    let round_trip = round_trip.ok_or_else(|| unknown("round trip without queues", "--rtt"))?;
    let device = options.wan.clone().or_else(|| measured.map(|measured| measured.wan.clone()));
    Ok(AdviceInput {
        downlink_buffer: options.downlink_buffer,
        uplink_buffer: options.uplink_buffer,
        delayed_acks: options.delayed_acks == YesNo::Yes,
        unit: match options.unit {
            Unit::Bytes => BufferUnit::Bytes,
            Unit::Packets => BufferUnit::Packets,
        },
        tcp_buffer: options.tcp_buffer.map(|size| size.bytes),
        device: device.unwrap_or_else(|| "wan".to_owned()),
        ..AdviceInput::new(downlink_rate, uplink_rate, round_trip)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_bound_is_that_of_the_running_agent() {
        #[derive(clap::Parser)]
        struct Alone {
            #[command(flatten)]
            options: AdviseOptions,
        }
        let parsed = <Alone as clap::Parser>::parse_from(["advise", "--url", "http://127.0.0.1:9924"]);
        assert_eq!(parsed.options.delay_bound, sizing::DELAY_BOUND);
    }

    #[test]
    fn cake_is_recommended_where_the_kernel_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let found = |loaded: &str| AdvisedQueue::of_kernel(loaded, directory.path());
        assert_eq!(found("sch_cakes 1 0\nact_mirred 16384 2\n"), AdvisedQueue::Fifo);
        assert_eq!(found("act_mirred 16384 2\nsch_cake 40960 1 - Live 0x0\n"), AdvisedQueue::Cake);
        for list in ["modules.builtin", "modules.dep"] {
            let file = directory.path().join(list);
            std::fs::write(&file, "kernel/net/sched/sch_fq.ko.xz:\n").unwrap();
            assert_eq!(found(""), AdvisedQueue::Fifo, "{list}");
            std::fs::write(&file, "kernel/net/sched/sch_cake.ko.xz:\n").unwrap();
            assert_eq!(found(""), AdvisedQueue::Cake, "{list}");
            std::fs::remove_file(&file).unwrap();
        }
    }
}
