//! A home in which nothing but QUIC passes, before a modem's buffer: an upload fills it, and a connection opens once in two seconds.

use std::time::Duration;

use pendulum_lab::traffic::{Spin, UdpSpec};
use pendulum_model::rate::Rate;
use pendulum_model::segment::Direction;
use serde_json::Value;

use crate::modem::{MODEM, Pair, compare, number};
use crate::rig::{Rig, with_rig_of};

/// One connection opens so often.
const OPENS: Duration = Duration::from_secs(2);

/// Round trips that the agent has taken on one side.
fn round_trips(rig: &Rig, side: &str) -> u64 {
    let samples = format!("pendulum_rtt_seconds_count{{link=\"wan0\",side=\"{side}\"}} ");
    let metrics = rig.get("metrics");
    metrics.lines().find_map(|line| line.strip_prefix(&samples)).map_or(0, |count| count.parse().unwrap())
}

/// Round trips of an idle line, then an upload of more than the uplink carries until `then` is done.
fn with_upload(rig: &Rig, then: impl FnOnce(&Rig)) {
    let handshakes = rig.handshakes(OPENS);
    let queue_s = |link: &Value, segment: &str| number(link, &format!("/delay/segments/{segment}/queue_s"));
    rig.wait_for("round trips beyond the line and at home", |link| {
        ["uplink", "downlink", "home"]
            .iter()
            .all(|segment| queue_s(link, segment).is_some_and(|wait_s| wait_s < 0.03))
    });
    for side in ["wan", "lan"] {
        assert!(round_trips(rig, side) > 0, "{side}: {}", rig.get("metrics"));
    }
    std::thread::sleep(4 * OPENS);
    let rate = Rate::from_bytes_per_second(1.1 * MODEM.uplink.rate.bytes_per_second()).unwrap();
    let upload = rig.datagrams(UdpSpec::quic(Direction::Up, rate, Duration::from_secs(3600)));
    then(rig);
    drop((handshakes, upload));
}

/// The buffer is used, and its level is as the agent says. Between two replies it is book-keeping: the agent says how far off that may be.
fn check_level(rig: &Rig, length: Duration) {
    let Pair { agent, uncertainty, kernel } = compare(rig, length).mean();
    assert!(kernel > 20_000.0, "the buffer was used: {kernel} B");
    assert!(
        (agent - kernel).abs() <= uncertainty && agent > 0.5 * kernel,
        "mean {agent} ± {uncertainty} B, kernel {kernel} B"
    );
}

#[test]
fn quic_alone_shows_the_modems_queue() {
    with_rig_of("quic_alone_shows_the_modems_queue", MODEM, true, |rig| {
        with_upload(rig, |rig| {
            let link = rig.wait_for("bufferbloat", |link| !link["bufferbloat"]["up"].is_null());
            assert_eq!(link["bufferbloat"]["up"]["cause"]["kind"], "udp", "{link:#}");
            rig.wait_for("the place", |link| link["delay"]["place"] == "uplink");
            check_level(rig, Duration::from_secs(10));
        });
    });
}

/// One upload by quinn, which fills a modem of unknown rate and whose spin bit shows one reply in each round trip. What is dropped in between is not seen, so only
/// replies from a buffer that is not nearly full tell the rate. CUBIC, which backs off by less than reno, hardly ever leaves it so.
#[test]
fn quic_in_flight_shows_the_modems_queue_without_rates() {
    with_rig_of("quic_in_flight_shows_the_modems_queue_without_rates", MODEM, false, |rig| {
        let rate = |link: &Value| number(link, "/link/uplink_rate_bps").map(|bits| bits / 8.0);
        let quic = rig.quic("reno", Spin::First);
        rig.quic_transfer(&quic, Direction::Up);
        rig.wait_for("the rate", |link| rate(link).is_some());
        check_level(rig, Duration::from_secs(15));
        let rate = rate(&rig.link()).expect("it stays known");
        println!("rate: {rate:.0} B/s");
        assert!((rate / MODEM.uplink.rate.bytes_per_second() - 1.0).abs() < 0.1, "{rate} B/s");
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

/// Such a connection is timed while it opens. That was before its own queue, and says nothing of it.
#[test]
fn quic_that_does_not_spin_is_not_called_clear() {
    with_rig_of("quic_that_does_not_spin_is_not_called_clear", MODEM, false, |rig| {
        let quic = rig.quic("cubic", Spin::Never);
        rig.quic_transfer(&quic, Direction::Up);
        for _ in 0..15 {
            std::thread::sleep(Duration::from_secs(1));
            let link = rig.link();
            assert_eq!(link["verdict"], "unknown", "{link:#}");
        }
    });
}
