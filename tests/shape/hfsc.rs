//! A WAN device whose own qdisc limits without saying to what: hfsc. The rate is learnt from what leaves its queue. Many kernels
//! have it stop for ever if clsact is added while packets wait in it.

use pendulum_lab::LinkSpec;
use pendulum_lab::topology::{IpVersion, Role, WAN_DEVICE};

use crate::rig::{Rig, skipped, stop, until, with_cake};

const RATE_BPS: f64 = 200_000.0;
const QUEUE: &str = "mode = \"enforce\"\nack-filter = \"off\"";

fn with_hfsc(test: &str, rate_bps: f64, action: impl FnOnce(&mut Rig)) {
    with_cake(test, LinkSpec::FIG1, |rig| {
        let limit = format!(
            "tc qdisc replace dev {WAN_DEVICE} root handle 7: hfsc default 1 \
             && tc class add dev {WAN_DEVICE} parent 7: classid 7:1 hfsc sc rate {rate_bps}bit ul rate {rate_bps}bit \
             && tc qdisc add dev {WAN_DEVICE} parent 7:1 bfifo limit 20000"
        );
        match rig.gateway(&["sh", "-c", &limit]) {
            Ok(_) => action(rig),
            Err(reason) => skipped(test, &format!("no hfsc in this kernel: {}", reason.replace('\n', " "))),
        }
    });
}

fn shape(rig: &Rig) -> serde_json::Value {
    rig.state()["links"][0]["shape"].take()
}

#[test]
fn the_rate_may_be_learnt() {
    with_hfsc("hfsc::the_rate_may_be_learnt", RATE_BPS, |rig| {
        rig.tells_rates = false;
        let agent = rig.agent(QUEUE);
        assert_eq!(shape(rig)["state"], "refused");
        let goodput = std::thread::scope(|scope| {
            let traffic = scope.spawn(|| rig.two_way(20));
            until("a rate that was learnt", || shape(rig)["state"] == "enforcing");
            traffic.join().expect("its thread")
        });
        let found = shape(rig);
        println!("{found} {goodput:?}");
        assert_eq!(found["uplink"]["rate_source"], "learnt", "{found}");
        // A percent of it is left free, so that hfsc's queue stands no longer.
        let rate = found["uplink"]["rate_bps"].as_f64().expect("a rate");
        assert!((0.96 * RATE_BPS..=RATE_BPS).contains(&rate), "{found}");
        // Five seconds without, fifteen with: packets pass in both. The download's ACKs take a quarter; had packets passed before only, a quarter
        // would be left at most.
        assert!(goodput.up > 0.5 * RATE_BPS, "{goodput:?}");
        stop(agent);
        let left = rig.inventory();
        assert!(!left.contains("pdl-up") && !left.contains("clsact") && left.contains("hfsc"), "{left}");
    });
}

/// Nothing is added while it would stop what waits; as soon as nothing waits, it is.
#[test]
fn a_queue_that_would_never_send_again_is_left_alone() {
    with_hfsc("hfsc::a_queue_that_would_never_send_again_is_left_alone", 8_000.0, |rig| {
        let remote = Role::D1.address(IpVersion::V4).expect("an endpoint");
        // Fifteen packets, of which each takes a second.
        let flood = format!("ping -q -c 15 -i 0.002 -s 1000 {remote} > /dev/null 2>&1 &");
        rig.gateway(&["sh", "-c", &flood]).expect("ping");
        let agent = rig.agent(QUEUE);
        let found = shape(rig);
        assert_eq!(found["state"], "refused", "{found}");
        assert!(found["reason"].as_str().is_some_and(|reason| reason.contains("hfsc")), "{found}");
        until("the queue is empty", || shape(rig)["state"] == "enforcing");
        let classes = rig.gateway(&["tc", "-s", "class", "show", "dev", WAN_DEVICE]).expect("classes");
        let sent = classes.split("7:1").nth(1).and_then(|class| class.split(" pkt").next());
        let sent =
            sent.and_then(|text| text.rsplit(' ').next()).and_then(|number| number.parse::<u32>().ok());
        assert!(sent >= Some(15), "hfsc goes on sending: {classes}");
        rig.gateway(&["ping", "-c", "2", "-W", "10", &remote.to_string()]).expect("packets pass");
        stop(agent);
        let left = rig.inventory();
        assert!(!left.contains("clsact"), "{left}");
    });
}
