//! The shaper on real devices, with real TCP.

use pendulum_lab::LinkSpec;
use pendulum_lab::topology::{IpVersion, Role, WAN_DEVICE};

use crate::rig::{Rig, stop, until, value, with_rig};

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
    assert_eq!(link["shape"]["uplink"]["rate_bps"], 194_040);
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

/// With SACK merged, fewer ACKs leave if data goes after one of each connection.
#[test]
fn acks_and_data_take_turns_while_sack_is_merged() {
    with_rig("acks_and_data_take_turns_while_sack_is_merged", LinkSpec::FIG1, |rig| {
        let agent = rig.agent("mode = \"enforce\"\nmerge-sack = true");
        let (goodput, classes) = std::thread::scope(|scope| {
            let traffic = scope.spawn(|| rig.two_way(SECONDS));
            // The number of connections is known after a second or two.
            std::thread::sleep(std::time::Duration::from_secs(4));
            let classes = rig.gateway(&["tc", "class", "show", "dev", &shaper(rig)]).expect("classes");
            (traffic.join().expect("its thread"), classes)
        });
        // One download, and iperf3's connections that control it: 66 bytes each, of which a quarter is not refilled meanwhile.
        let lane = classes.lines().find(|line| line.contains("7e0d:40 ")).expect(&classes);
        // Three quarters of 194,040 bit/s, in whole bytes.
        assert!(lane.contains("ceil 145496bit"), "{lane}");
        let burst = lane.split("cburst ").nth(1).and_then(|rest| rest.split('b').next()).expect(lane);
        assert!(burst.parse::<u32>().is_ok_and(|bytes| (5..=80).contains(&bytes)), "{lane}");
        assert!(goodput.down > 1.8e6 && goodput.up > 130_000.0, "{goodput:?}");
        stop(agent);
    });
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

        // The next start does the same, and leaves a filter of the user's where it is.
        let user =
            "tc filter add dev wan0 egress prio 7 protocol ip u32 match ip protocol 99 0xff flowid 1:1";
        rig.gateway(&["tc", "qdisc", "add", "dev", "wan0", "clsact"]).expect("a clsact qdisc");
        rig.gateway(&user.split(' ').collect::<Vec<_>>()).expect("a filter");
        let before = rig.inventory();
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

/// Turns with and without shaping, on real TCP. Which is better is not asked here: turns are too short for that.
#[test]
fn turns_with_and_without_are_compared() {
    with_rig("turns_with_and_without_are_compared", LinkSpec::FIG1, |rig| {
        let before = rig.inventory();
        let agent = rig.agent(&format!("{FILTER}\nab-test = \"5s\""));
        let mut states = std::collections::BTreeSet::new();
        let mut test = serde_json::Value::Null;
        std::thread::scope(|scope| {
            let traffic = scope.spawn(|| rig.two_way(25));
            while !traffic.is_finished() {
                let shape = rig.state()["links"][0]["shape"].take();
                states.insert(shape["state"].as_str().expect("a state").to_owned());
                test = shape["ab_test"].clone();
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
        });
        println!("{test}");
        assert!(states.contains("enforcing") && states.contains("observing"), "{states:?}");
        // Twenty seconds are two pairs of turns.
        assert!(test["pairs"].as_u64() >= Some(2), "{test}");
        for half in ["with", "without"] {
            for figure in ["download_bps", "upload_bps", "rtt_s"] {
                assert!(test[half][figure].as_f64() > Some(0.0), "{half}.{figure}: {test}");
            }
        }
        let change = test["change"].as_f64().expect("a mean");
        let [low, high] = [0, 1].map(|i| test["confidence_interval"][i].as_f64().expect("a bound"));
        assert!(low <= change && change <= high && (-2.0..=2.0).contains(&change), "{test}");
        stop(agent);
        assert_eq!(rig.inventory(), before);
    });
}

/// Without a rate in the configuration it waits for one; what the device's own qdisc shapes to is one, and is followed.
#[test]
fn the_rate_may_come_from_the_device_s_qdisc() {
    with_rig("the_rate_may_come_from_the_device_s_qdisc", LinkSpec::FIG1, |rig| {
        rig.tells_rates = false;
        let root = |rig: &Rig, qdisc: &str| {
            let command = format!("tc qdisc replace dev {WAN_DEVICE} root {qdisc}");
            rig.gateway(&command.split(' ').collect::<Vec<_>>()).expect(&command);
        };
        let shape = |rig: &Rig| rig.state()["links"][0]["shape"].take();
        root(rig, "pfifo");
        let agent = rig.agent(LANE);
        let waiting = shape(rig);
        assert_eq!(waiting["state"], "refused");
        assert!(waiting["reason"].as_str().expect("a reason").contains("not known yet"), "{waiting}");
        for (qdisc, rate) in [
            ("tbf rate 200kbit burst 2000 limit 30000", 198_000),
            ("tbf rate 150kbit burst 2000 limit 30000", 148_500),
        ] {
            root(rig, qdisc);
            until("the rate of the qdisc", || shape(rig)["uplink"]["rate_bps"] == rate);
            let found = shape(rig);
            assert_eq!(found["state"], "enforcing");
            assert_eq!(found["uplink"]["rate_source"], "qdisc");
        }
        ping(rig);
        stop(agent);
        let left = rig.inventory();
        assert!(!left.contains("pdl-up"), "{left}");
    });
}
