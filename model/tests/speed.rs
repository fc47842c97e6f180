//! How many packets the simulation passes in a second of one processor's time:
//! `cargo test --release -p pendulum-model --test speed -- --ignored --nocapture`.

use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::simulate::{CongestionControl, Flow, Limit, Load, Run, SimulatedLink, simulate};

/// Processor time of this thread, seconds (proc(5), `schedstat`): a busy machine does not count.
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let nanoseconds = text.split_whitespace().next().expect("a figure").parse::<f64>().expect("a number");
    nanoseconds / 1e9
}

fn link(congestion_control: CongestionControl) -> SimulatedLink {
    let flow = |direction| Flow {
        direction,
        congestion_control,
        paced: false,
        delayed_acks: true,
        receiver_round_trip_s: 0.02,
        sender_round_trip_s: 0.02,
        start_s: 0.0,
        stop_s: f64::INFINITY,
        load: Load::Bulk,
        most_segments: None,
    };
    SimulatedLink {
        rate: PerDirection { down: 2.4e6 / 8.0, up: 196e3 / 8.0 },
        buffer: PerDirection { down: Limit::Bytes(30_000), up: Limit::Bytes(10_000) },
        burst: PerDirection { down: 1_514.0, up: 1_514.0 },
        flows: vec![flow(Direction::Down), flow(Direction::Up)],
        hertz: 250,
    }
}

#[test]
#[ignore = "a figure of an optimised build"]
fn packets_each_second() {
    let run = Run { from_s: 60.0, until_s: 3_000.0, start_spread_s: 0.2, jitter_s: 5e-5 };
    for which in [CongestionControl::Reno, CongestionControl::Cubic, CongestionControl::Bbr] {
        let link = link(which);
        let before = processor_s();
        let frames: u64 = (0..3).map(|seed| simulate(&link, &run, seed).frames).sum();
        let rate = frames as f64 / (processor_s() - before);
        println!("{}: {:.1} million packets per second", which.name(), rate / 1e6);
        // Other work on the same core's caches takes up to half of it.
        assert!(rate >= 2e6, "{}: {rate:.0}", which.name());
    }
}
