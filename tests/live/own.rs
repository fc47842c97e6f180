//! The uplink's buffer on the gateway itself, filled by datagrams: it is in full sight.

use pendulum_lab::LinkSpec;
use pendulum_model::segment::Direction;

use crate::modem::number;
use crate::rig::with_rig_of;

/// What is found of datagrams at the link's rate beside a download, rates configured or not.
fn check(test: &str, told: bool) {
    with_rig_of(test, LinkSpec::FIG1, told, |rig| {
        let download = rig.transfer(Direction::Down);
        let datagrams = rig.datagrams_up();
        let locked = rig.wait_for("a verdict", |link| link["verdict"] == "locked_uplink");
        // 30,000 bytes take 1.22 s at 196 kbit/s; it is a mean, and begins with a buffer that fills.
        let bloated = rig.wait_for("bufferbloat", |link| {
            number(link, "/bufferbloat/up/delay_s").is_some_and(|seconds| seconds > 0.9)
        });
        let kernel = rig.kernel_queue(Direction::Up).backlog_bytes as f64;
        let metrics = rig.get("metrics");
        let placed = rig.wait_for("the place", |link| link["delay"]["place"] == "gateway");
        drop((datagrams, download));
        let waits_s = number(&placed, "/delay/segments/gateway/queue_s").unwrap();
        assert!((0.9..1.3).contains(&waits_s), "{}", placed["delay"]);

        let reason = locked["evidence"]["reason"].as_str().unwrap();
        assert!(reason.contains("% of the traffic in the uplink's buffer is UDP"), "{reason}");
        assert_eq!(bloated["vantage"], "own_queue");
        let queue = &bloated["directions"]["up"]["queue"];
        assert!(["tracepoint", "netlink"].iter().any(|source| queue["source"] == *source), "{queue}");
        assert_eq!(queue["uncertainty_bytes"], 0.0, "it is read, not estimated: {queue}");
        // Of what enters, the datagrams are the link's rate; the download's ACKs are what is left.
        let udp = number(queue, "/composition/udp").unwrap();
        assert!((0.8..=1.0).contains(&udp), "{queue}");
        assert_eq!(queue["top_port"]["name"], "UDP port 443");

        let bloat = &bloated["bufferbloat"]["up"];
        assert_eq!(bloat["cause"]["kind"], "udp", "{bloat}");
        let delay = number(bloat, "/delay_s").unwrap();
        assert!(kernel > 20_000.0 && delay < 1.3, "{delay} s, {kernel} B");
        assert!(!bloat["help"].as_str().unwrap().is_empty());
        assert_eq!(bloated["bufferbloat"]["down"], serde_json::Value::Null);
        let shown = "pendulum_finding{link=\"wan0\",direction=\"up\",finding=\"bufferbloat\"} 1\n";
        assert!(metrics.contains(shown), "{metrics}");
    });
}

#[test]
fn datagrams_that_fill_the_gateway_s_own_buffer_lock_the_download() {
    check("datagrams_that_fill_the_gateway_s_own_buffer_lock_the_download", true);
}

#[test]
fn datagrams_that_fill_the_gateway_s_own_buffer_lock_the_download_without_rates() {
    check("datagrams_that_fill_the_gateway_s_own_buffer_lock_the_download_without_rates", false);
}
