//! Links and traffic of paper 000, Fig. 2, simulated by [`pendulum_model::simulate`], as the detector's samples.
//!
//! It gives the detector something to be wrong about: every queue, window and round trip is known exactly, and none of the
//! detector's equations is used. Senders are Linux' New Reno, not paced.

mod truth;

use pendulum_model::rate::BufferSize;
use pendulum_model::sample::Sample;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::simulate::{self, CongestionControl, FlowLoad, Run, SimulatedLink};

use truth::Truth;

/// From an end system at home to the gateway's buffer, seconds.
const LAN_S: f64 = 0.1e-3;

/// One transfer.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) direction: Direction,
    pub(crate) start_s: f64,
    pub(crate) stop_s: f64,
    /// One-way delay between R1 and the remote end, milliseconds.
    pub(crate) remote_ms: f64,
    pub(crate) load: FlowLoad,
    pub(crate) congestion_control: CongestionControl,
}

/// The link and what runs over it. Rates in bits per second, times in milliseconds.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) down_bps: f64,
    pub(crate) up_bps: f64,
    pub(crate) propagation_ms: f64,
    pub(crate) buffer: PerDirection<BufferSize>,
    pub(crate) delayed_acks: bool,
    pub(crate) flows: Vec<Flow>,
    pub(crate) duration_s: f64,
    /// Chooses when flows start, within [`Scenario::start_spread_s`].
    pub(crate) seed: u64,
    pub(crate) start_spread_s: f64,
}

impl Scenario {
    /// Runs it and returns one sample for each 10 ms.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let run =
            Run { from_s: 0.0, until_s: self.duration_s, start_spread_s: self.start_spread_s, jitter_s: 0.0 };
        let mut truth = Truth::new(self.flows.iter().map(|flow| flow.direction));
        simulate::watch(&self.link(), &run, self.seed, &mut truth);
        truth.samples((self.duration_s * 1e9) as u64)
    }

    /// Download over upload from a moment on.
    pub(crate) fn ratio(&self, from_s: f64) -> Option<f64> {
        let run = Run { from_s, until_s: self.duration_s, start_spread_s: 0.0, jitter_s: 0.0 };
        simulate::simulate(&self.link(), &run, self.seed).ratio()
    }

    fn link(&self) -> SimulatedLink {
        let flow = |flow: &Flow| {
            // Propagation lies behind each buffer.
            let home = self.propagation_ms / 1e3 + 2.0 * LAN_S;
            let remote = (self.propagation_ms + 2.0 * flow.remote_ms) / 1e3;
            let (receiver_round_trip_s, sender_round_trip_s) = match flow.direction {
                Direction::Down => (home, remote),
                Direction::Up => (remote, home),
            };
            simulate::Flow {
                direction: flow.direction,
                congestion_control: flow.congestion_control,
                paced: false,
                delayed_acks: self.delayed_acks,
                receiver_round_trip_s,
                sender_round_trip_s,
                start_s: flow.start_s,
                stop_s: flow.stop_s,
                load: flow.load,
                most_segments: None,
                home_host: 0,
            }
        };
        SimulatedLink {
            rate: PerDirection { up: self.up_bps / 8.0, down: self.down_bps / 8.0 },
            buffer: self.buffer,
            cake: false,
            burst: PerDirection { up: 0.0, down: 0.0 },
            flows: self.flows.iter().map(flow).collect(),
        }
    }
}
