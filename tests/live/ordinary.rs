//! Traffic with which nothing is wrong, before a modem's buffer whose rate is unknown: nobody is blamed, no buffer is called bloated.

use std::time::Duration;

use pendulum_lab::traffic::UdpSpec;
use pendulum_model::rate::Rate;
use pendulum_model::segment::Direction;
use serde_json::Value;

use crate::modem::MODEM;
use crate::rig::{Rig, with_rig_of};

/// Verdicts that blame a buffer.
const BLAMES: [&str; 4] = ["swinging", "locked_uplink", "locked_downlink", "ack_compression"];
/// Findings that say that packets wait, or that a transfer is slow although they do not.
const BLOATS: [&str; 5] = ["bufferbloat", "home_bloat", "beyond_bloat", "sender_limited", "receiver_limited"];
/// How long each kind of traffic lasts: three times what a verdict needs, twice what bufferbloat needs (docs/design/detector.md).
const LASTS: Duration = Duration::from_secs(16);
/// WireGuard's usual port, and the payload of its data packets on a path of 1,500 bytes: the tunnel's MTU of 1,420 and 32 bytes of its own.
const WIREGUARD_PORT: u16 = 51_820;
const WIREGUARD_BYTES: u16 = 1_452;
/// A segment of video by RTP.
const VIDEO_BYTES: u16 = 1_100;

/// Datagrams of this size at this part of a direction's rate.
fn part_of_the_link(direction: Direction, part: f64, port: u16, payload_bytes: u16) -> UdpSpec {
    let whole = match direction {
        Direction::Down => MODEM.downlink.rate,
        Direction::Up => MODEM.uplink.rate,
    };
    let rate = Rate::from_bytes_per_second(whole.bytes_per_second() * part).unwrap();
    UdpSpec { port, payload_bytes, ..UdpSpec::quic(direction, rate, LASTS) }
}

/// Runs the traffic; nothing that the agent tells of in the meantime blames anybody.
fn check(rig: &Rig, what: &str, traffic: impl FnOnce(&Rig)) {
    let before = rig.events().len();
    traffic(rig);
    let blames = |event: &Value| {
        BLOATS.iter().any(|finding| event["finding"] == *finding)
            || BLAMES.iter().any(|verdict| event["to"] == *verdict)
    };
    let blaming: Vec<Value> = rig.events().into_iter().skip(before).filter(blames).collect();
    assert!(blaming.is_empty(), "{what}: {blaming:#?}");
    let link = rig.link();
    assert_eq!(link["vantage"], "before_uplink_buffer", "{what}");
    println!("{what}: {}", link["verdict"]);
}

#[test]
fn ordinary_traffic_before_a_modem_blames_nobody() {
    with_rig_of("ordinary_traffic_before_a_modem_blames_nobody", MODEM, false, |rig| {
        check(rig, "idle", |_| std::thread::sleep(LASTS));
        check(rig, "pages", |rig| {
            // Each takes the downlink for about a second.
            for _ in 0..4 {
                rig.fetch(250_000);
                std::thread::sleep(LASTS / 5);
            }
        });
        check(rig, "a video call", |rig| {
            let _both = [
                rig.datagrams(part_of_the_link(Direction::Up, 0.75, 5004, VIDEO_BYTES)),
                rig.datagrams(part_of_the_link(Direction::Down, 0.4, 5004, VIDEO_BYTES)),
            ];
            std::thread::sleep(LASTS);
        });
        check(rig, "a VPN", |rig| {
            let _both = [
                rig.datagrams(part_of_the_link(Direction::Up, 0.6, WIREGUARD_PORT, WIREGUARD_BYTES)),
                rig.datagrams(part_of_the_link(Direction::Down, 0.6, WIREGUARD_PORT, WIREGUARD_BYTES)),
            ];
            std::thread::sleep(LASTS);
        });
        // It was not asleep: the next one deserves it.
        let download = rig.transfer(Direction::Down);
        let datagrams = rig.datagrams_up();
        rig.wait_for("a lock", |link| link["verdict"] == "locked_uplink");
        drop((datagrams, download));
    });
}
