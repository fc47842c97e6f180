//! Packets per second through the simulation of a link: drop-tail buffers with each congestion control, and cake before the uplink.

use std::fmt;

use anyhow::Result;
use pendulum_model::rate::BufferSize;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::simulate::{CongestionControl, Flow, HOST_JITTER_S, Run, SimulatedLink, simulate};
use serde::Serialize;

use crate::agent_cpu::processor_time;

/// Runs of each, and their length.
const RUNS: u64 = 20;
const SECONDS: f64 = 300.0;

#[derive(Serialize)]
pub(crate) struct SimulateReport {
    /// By processor time, one core.
    reno_packets_per_second: f64,
    cubic_packets_per_second: f64,
    bbr_packets_per_second: f64,
    /// With CUBIC.
    cake_packets_per_second: f64,
}

pub(crate) fn run() -> Result<SimulateReport> {
    let fifo = |congestion_control| packets_per_second(&link(congestion_control, false));
    Ok(SimulateReport {
        reno_packets_per_second: fifo(CongestionControl::Reno)?,
        cubic_packets_per_second: fifo(CongestionControl::Cubic)?,
        bbr_packets_per_second: fifo(CongestionControl::Bbr)?,
        cake_packets_per_second: packets_per_second(&link(CongestionControl::Cubic, true))?,
    })
}

fn packets_per_second(link: &SimulatedLink) -> Result<f64> {
    let run = Run { from_s: 0.2 * SECONDS, until_s: SECONDS, start_spread_s: 0.2, jitter_s: HOST_JITTER_S };
    let start = processor_time(std::process::id())?;
    let packets: u64 = (0..RUNS).map(|seed| simulate(link, &run, seed).frames).sum();
    Ok(packets as f64 / (processor_time(std::process::id())? - start))
}

/// One download beside one upload.
fn link(congestion_control: CongestionControl, cake: bool) -> SimulatedLink {
    let flow = |direction| Flow {
        receiver_round_trip_s: 0.02,
        sender_round_trip_s: 0.02,
        ..Flow::bulk(direction, congestion_control)
    };
    SimulatedLink {
        rate: PerDirection { down: 1e6, up: 125e3 },
        buffer: PerDirection { down: BufferSize::Bytes(60_000), up: BufferSize::Bytes(10_000) },
        cake,
        burst: PerDirection { down: 1_514.0, up: 1_514.0 },
        flows: vec![flow(Direction::Down), flow(Direction::Up)],
    }
}

impl fmt::Display for SimulateReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "simulation, million packets per second of one core: reno {:.1}, CUBIC {:.1}, BBR {:.1}; CUBIC with cake before the uplink {:.1}",
            self.reno_packets_per_second / 1e6,
            self.cubic_packets_per_second / 1e6,
            self.bbr_packets_per_second / 1e6,
            self.cake_packets_per_second / 1e6
        )
    }
}
