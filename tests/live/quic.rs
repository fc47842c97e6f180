//! A home in which nothing but QUIC passes, before a modem's buffer: an upload fills it, and a connection opens once in two seconds.

use std::time::Duration;

use pendulum_lab::traffic::UdpSpec;
use pendulum_model::rate::Rate;
use pendulum_model::segment::Direction;
use serde_json::Value;

use crate::modem::{MODEM, compare, mean, number};
use crate::rig::{Rig, with_rig_of};

/// One connection opens so often.
const OPENS: Duration = Duration::from_secs(2);

/// Round trips of an idle line, then an upload of more than the uplink carries until `then` is done.
fn with_upload(rig: &Rig, then: impl FnOnce(&Rig)) {
    let handshakes = rig.handshakes(OPENS);
    let queue_s = |link: &Value, segment: &str| number(link, &format!("/delay/segments/{segment}/queue_s"));
    rig.wait_for("round trips beyond the line and at home", |link| {
        ["uplink", "downlink", "home"]
            .iter()
            .all(|segment| queue_s(link, segment).is_some_and(|wait_s| wait_s < 0.03))
    });
    let metrics = rig.get("metrics");
    for side in ["wan", "lan"] {
        let samples = format!("pendulum_rtt_seconds_count{{link=\"wan0\",side=\"{side}\"}} ");
        let count = metrics.lines().find_map(|line| line.strip_prefix(&samples));
        assert!(count.is_some_and(|count| count != "0"), "{side}: {metrics}");
    }
    std::thread::sleep(4 * OPENS);
    let rate = Rate::from_bytes_per_second(1.1 * MODEM.uplink.rate.bytes_per_second()).unwrap();
    let upload = rig.datagrams(UdpSpec::quic(Direction::Up, rate, Duration::from_secs(3600)));
    then(rig);
    drop((handshakes, upload));
}

#[test]
fn quic_alone_shows_the_modems_queue() {
    with_rig_of("quic_alone_shows_the_modems_queue", MODEM, true, |rig| {
        with_upload(rig, |rig| {
            let link = rig.wait_for("bufferbloat", |link| !link["bufferbloat"]["up"].is_null());
            assert_eq!(link["bufferbloat"]["up"]["cause"]["kind"], "udp", "{link:#}");
            rig.wait_for("the place", |link| link["delay"]["place"] == "uplink");
            let pairs = compare(rig, Duration::from_secs(10)).pairs;
            let agent = mean(pairs.iter().map(|pair| pair.agent));
            let kernel = mean(pairs.iter().map(|pair| pair.kernel));
            let uncertainty = mean(pairs.iter().map(|pair| pair.uncertainty));
            println!(
                "mean {agent:.0} B, kernel {kernel:.0} B, ± {uncertainty:.0} B of {} readings",
                pairs.len()
            );
            assert!(kernel > 20_000.0, "the buffer was used: {kernel} B");
            // Between two connections, two seconds apart, the level is book-keeping: the agent says how far off it may be.
            assert!(
                (agent - kernel).abs() <= uncertainty && agent > 0.5 * kernel,
                "mean {agent} ± {uncertainty} B, kernel {kernel} B"
            );
        });
    });
}

/// Two connections in a wait of 1.2 s do not prove that the buffer was never empty between them: no rate, no level, and no verdict.
#[test]
fn quic_alone_without_rates_is_unknown() {
    with_rig_of("quic_alone_without_rates_is_unknown", MODEM, false, |rig| {
        with_upload(rig, |rig| {
            std::thread::sleep(Duration::from_secs(20));
            let link = rig.link();
            println!("{} {} {}", link["verdict"], link["delay"]["place"], link["directions"]["up"]["queue"]);
            assert!(["unknown", "one_way"].contains(&link["verdict"].as_str().unwrap()), "{link:#}");
            assert!(["unknown", "uplink"].contains(&link["delay"]["place"].as_str().unwrap()), "{link:#}");
        });
    });
}
