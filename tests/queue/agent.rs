//! The running agent on the paper's link: what its metrics and its API say of the uplink queue.

use std::time::Duration;

use pendulum_lab::LinkSpec;
use pendulum_lab::agent;
use pendulum_lab::topology::WAN_DEVICE;
use serde_json::Value;

use crate::rig::{Rig, with_rig};

const LISTEN: &str = "127.0.0.1:9924";

#[test]
fn metrics_and_api_tell_of_the_queue() {
    with_rig("metrics_and_api_tell_of_the_queue", LinkSpec::FIG1, |rig| {
        // The agent brings its own programs.
        rig.programs.detach();
        let gateway = rig.lab.gateway();
        let mut command = gateway.command(env!("CARGO_BIN_EXE_pendulum")).expect("a command");
        command.args(["run", "--wan", WAN_DEVICE, "--listen", LISTEN, "--downlink-rate", "2400kbit"]);
        let agent = gateway.spawn(command, "agent").expect("the agent starts");
        wait_for(rig);
        let drops_before = rig.root().drops;
        // Long enough for the estimate, whose first figures a slow machine has late.
        let transfers = rig.two_way(8);
        let mut highest = 0.0f64;
        let mut ack_bytes = 0.0f64;
        let mut highest_down = 0.0f64;
        rig.finish(transfers, || {
            let state = fetch(rig, "api/v1/state");
            let state: Value = serde_json::from_str(&state).expect("JSON");
            let queue = &state["links"][0]["directions"]["up"]["queue"];
            highest = highest.max(queue["bytes"].as_f64().unwrap_or(0.0));
            ack_bytes = ack_bytes.max(queue["ack_bytes"].as_f64().unwrap_or(0.0));
            assert_eq!(queue["source"], "tracepoint", "{queue}");
            assert_eq!(queue["limit_bytes"], 30_000, "{queue}");
            assert_eq!(queue["qdisc"], "tbf", "{queue}");
            let down = &state["links"][0]["directions"]["down"]["queue"];
            if !down.is_null() {
                assert_eq!((&down["source"], &down["qdisc"]), (&"estimate".into(), &Value::Null), "{down}");
                highest_down = highest_down.max(down["bytes"].as_f64().expect("a figure"));
            }
        });
        assert!(highest > 15_000.0, "the highest level seen is {highest}");
        assert!(highest_down > 3_000.0, "the highest level estimated at the provider is {highest_down}");
        assert!(ack_bytes > 0.0, "no ACK was seen waiting");
        // Histograms and drops are read once a second.
        std::thread::sleep(Duration::from_millis(1500));
        let metrics = fetch(rig, "metrics");
        let value = |name: &str, labels: &[&str]| value(&metrics, name, labels);
        let up = "direction=\"up\"";
        assert_eq!(value("pendulum_queue_bytes", &[up]), 0.0);
        assert_eq!(value("pendulum_queue_limit_bytes", &[up]), 30_000.0);
        assert_eq!(value("pendulum_source_info", &[up, "what=\"queue\"", "source=\"tracepoint\""]), 1.0);
        assert_eq!(value("pendulum_source_info", &[up, "what=\"rate\"", "source=\"qdisc\""]), 1.0);
        assert_eq!(value("pendulum_link_rate_bytes_per_second", &[up]), 24_500.0);
        assert!(value("pendulum_queue_sojourn_seconds_count", &[up, "class=\"data\""]) > 20.0);
        assert!(value("pendulum_queue_sojourn_seconds_count", &[up, "class=\"ack\""]) > 20.0);
        let down = "direction=\"down\"";
        assert_eq!(value("pendulum_source_info", &[down, "what=\"queue\"", "source=\"estimate\""]), 1.0);
        assert_eq!(value("pendulum_source_info", &[down, "what=\"rate\"", "source=\"config\""]), 1.0);
        assert!(value("pendulum_queue_bytes", &[down]) < 3_000.0, "the link is idle");
        // What the tracepoint missed is taken over from the qdisc's own count.
        let dropped = f64::from(rig.root().drops - drops_before);
        let told = ["overlimit", "aqm", "ack_filter", "other"]
            .map(|reason| value("pendulum_queue_drops_total", &[up, &format!("reason=\"{reason}\"")]));
        assert_eq!(told.iter().sum::<f64>(), dropped, "{told:?}");
        drop(agent);
    });
}

fn fetch(rig: &Rig, path: &str) -> String {
    agent::ask(&rig.lab.gateway(), &format!("/{path}")).expect("the agent answers")
}

fn wait_for(rig: &Rig) {
    for _ in 0..100 {
        if agent::ask(&rig.lab.gateway(), "/readyz").is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the agent does not get ready");
}

/// The one sample of a family with all these labels.
fn value(metrics: &str, name: &str, labels: &[&str]) -> f64 {
    let wanted = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
            && labels.iter().all(|label| line.contains(label))
    };
    let lines: Vec<&str> = metrics.lines().filter(wanted).collect();
    let [line] = lines.as_slice() else { panic!("{name} {labels:?}: {lines:?}") };
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}
