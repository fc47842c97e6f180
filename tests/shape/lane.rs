//! The shaper on real devices, with real TCP.

use pendulum_lab::LinkSpec;
use pendulum_lab::topology::{IpVersion, Role, WAN_DEVICE};

use crate::rig::{Rig, value, with_rig};

const SECONDS: u64 = 6;
const LANE: &str = "mode = \"enforce\"\nack-filter = \"off\"";
const FILTER: &str = "mode = \"enforce\"\nack-filter = \"static\"\ndelta = 1";

/// Without shaping the download falls to a seventh of this link; see `pendulum-lab run fig1`.
#[test]
fn lane_and_filter_on_the_paper_s_link() {
    with_rig("lane_and_filter_on_the_paper_s_link", LinkSpec::FIG1, |rig| {
        let before = rig.inventory();
        let agent = rig.agent(LANE);
        let lane = rig.two_way(SECONDS);
        assert!(lane.down > 1.8e6, "the lane keeps the download up: {lane:?}");
        stop(agent);
        assert_eq!(rig.inventory(), before, "everything is as it was");

        let agent = rig.agent(FILTER);
        let filter = rig.two_way(SECONDS);
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        println!("lane {lane:?}, lane and filter {filter:?}");
        assert!(filter.down > 1.8e6, "so does the lane with the filter: {filter:?}");
        assert!(filter.up > lane.up, "the filter leaves more of the uplink to data: {lane:?} {filter:?}");
        check_counts(rig);
        check_state(rig);
        stop(agent);
        assert_eq!(rig.inventory(), before, "everything is as it was");
    });
}

fn stop(mut agent: pendulum_lab::process::Process) {
    let status = agent.stop(libc::SIGTERM, std::time::Duration::from_secs(10)).expect("it stops");
    assert!(status.success(), "{status}: {}", agent.stderr().unwrap_or_default());
}

/// Every ACK withheld has gone out in a carrier, or was replaced by a newer one.
fn check_counts(rig: &Rig) {
    let metrics = rig.metrics();
    let acks = |action: &str, reason: &str| {
        let labels = [format!("action=\"{action}\""), format!("reason=\"{reason}\"")];
        value(&metrics, "pendulum_ack_filter_acks_total", &[&labels[0], &labels[1]])
    };
    let held = acks("held", "redundant");
    assert!(held > 50.0, "{held} ACKs withheld");
    let accounted =
        acks("rewritten", "newest") + acks("released", "superseded") + acks("released", "carrier_lost");
    assert_eq!(held, accounted);
    assert_eq!(acks("released", "carrier_lost"), 0.0);
    assert_eq!(value(&metrics, "pendulum_shaping", &["link="]), 1.0);
}

fn check_state(rig: &Rig) {
    let link = &rig.state()["links"][0];
    assert_eq!(link["shape"]["state"], "enforcing", "{}", link["shape"]);
    assert_eq!(link["shape"]["uplink"]["rate_bps"], 192_080);
    let up = &link["directions"]["up"];
    // The queue is the shaper's, and each packet is measured once although it passes twice.
    assert_eq!(up["queue"]["qdisc"], "htb", "{up}");
    let measured: u64 =
        up["segments"].as_object().expect("classes").values().filter_map(|n| n.as_u64()).sum();
    let ifb = rig.gateway(&["tc", "-s", "-j", "qdisc", "show", "dev", &shaper(rig)]).expect("qdiscs");
    let qdiscs: serde_json::Value = serde_json::from_str(&ifb).expect("JSON");
    let root = qdiscs.as_array().and_then(|all| all.iter().find(|q| q["root"] == true)).expect("a root");
    let figure = |name: &str| root[name].as_u64().unwrap_or(0);
    let held = link["shape"]["held_acks"].as_u64().expect("a number");
    let passed = figure("packets") + figure("drops") + held;
    assert!(measured.abs_diff(passed) <= 3, "{measured} measured, {passed} came to the shaper: {root}");
}

fn shaper(rig: &Rig) -> String {
    let links = rig.gateway(&["ip", "-o", "link", "show", "type", "ifb"]).expect("links");
    links.split(':').nth(1).expect("one ifb").trim().to_owned()
}

/// Killed, the agent leaves packets flowing, and `--cleanup` leaves nothing of it.
#[test]
fn a_killed_agent_leaves_packets_flowing() {
    with_rig("a_killed_agent_leaves_packets_flowing", LinkSpec::FIG1, |rig| {
        let before = rig.inventory();
        let mut agent = rig.agent(FILTER);
        ping(rig);
        agent.stop(libc::SIGKILL, std::time::Duration::from_secs(5)).expect("it dies");
        ping(rig);
        assert_ne!(rig.inventory(), before, "the shaper stands without the agent");
        let removed = rig.gateway(&[env!("CARGO_BIN_EXE_pendulum"), "run", "--cleanup"]).expect("cleanup");
        assert!(removed.contains("removed device pdl-up"), "{removed}");
        assert_eq!(rig.inventory(), before);
        ping(rig);
        let again = rig.gateway(&[env!("CARGO_BIN_EXE_pendulum"), "run", "--cleanup"]).expect("cleanup");
        assert_eq!(again, "nothing was left\n");

        // The next start does the same.
        let mut agent = rig.agent(FILTER);
        agent.stop(libc::SIGKILL, std::time::Duration::from_secs(5)).expect("it dies");
        let agent = rig.agent("mode = \"off\"");
        assert_eq!(rig.inventory().matches("pdl-up").count(), 0);
        assert!(agent.stderr().expect("its log").contains("removed what an earlier run had left"));
        stop(agent);
        assert_eq!(rig.inventory(), before);
    });
}

fn ping(rig: &Rig) {
    let far = Role::R1.address(IpVersion::V4).expect("an address").to_string();
    rig.lab.host(Role::D2).run("ping", &["-c", "2", "-i", "0.2", "-W", "2", &far]).expect("packets pass");
}

/// What redirects already is left alone, and the agent says why it does not shape.
#[test]
fn what_stands_in_the_way_is_refused() {
    with_rig("what_stands_in_the_way_is_refused", LinkSpec::FIG1, |rig| {
        for command in [
            "ip link add other type ifb",
            "ip link set other up",
            "tc qdisc add dev other root pfifo",
            "tc qdisc add dev wan0 clsact",
            "tc filter add dev wan0 egress u32 match u32 0 0 action mirred egress redirect dev other",
        ] {
            let words: Vec<&str> = command.split_ascii_whitespace().collect();
            rig.gateway(&words).expect(command);
        }
        let before = rig.inventory();
        let agent = rig.agent(LANE);
        let shape = &rig.state()["links"][0]["shape"];
        assert_eq!(shape["state"], "refused");
        let reason = shape["reason"].as_str().expect("a reason");
        assert!(reason.contains(&format!("redirects what {WAN_DEVICE} sends")), "{reason}");
        stop(agent);
        assert_eq!(rig.inventory(), before);
    });
}
