//! A queue that stands in the modem although the gateway shapes: that is said, with the rate that would do; and not where shaping works.

use std::time::Duration;

use pendulum_lab::LinkSpec;

use pendulum_lab::shaper::Shaper;
use pendulum_lab::topology::{BufferPlace, Role};
use pendulum_lab::traffic::{Ends, Quic, Spin, Transfer, TransferSpec};
use pendulum_lab::truth::QueueReading;
use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::segment::Direction;

use crate::rig::{Rig, stop, until, value, with_cake};

const LINK: LinkSpec = LinkSpec { uplink_buffer_at: BufferPlace::Modem, ..LinkSpec::FIG1 };

/// 1.2 times what the line carries. `rate-percent` takes one per cent off.
const TOO_HIGH: &str = "235kbit";

/// Bits per second that the line carries.
const CARRIES: f64 = 196e3;

const TRAFFIC: Duration = Duration::from_secs(70);

fn upload(rig: &Rig) -> Transfer {
    Transfer::start(&rig.lab, TransferSpec::new(Direction::Up, TRAFFIC)).expect("a transfer starts")
}

fn shape(rig: &Rig) -> serde_json::Value {
    rig.state()["links"][0]["shape"].clone()
}

/// The rate that the reason names, bit/s.
fn advised(reason: &str) -> Option<f64> {
    let rest = reason.split_once("it carried ")?.1;
    let mut words = rest.split([' ', ':']);
    let number: f64 = words.next()?.parse().ok()?;
    match words.next()? {
        "kbit/s" => Some(number * 1e3),
        "Mbit/s" => Some(number * 1e6),
        _ => None,
    }
}

#[test]
fn a_rate_above_what_the_line_carries_is_reported_with_the_rate_that_would_do() {
    with_cake("a_rate_above_what_the_line_carries_is_reported_with_the_rate_that_would_do", LINK, |rig| {
        rig.told_uplink = Some(TOO_HIGH);
        let agent = rig.agent("mode = \"enforce\"");
        until("enforcing", || shape(rig)["state"] == "enforcing");
        let transfer = upload(rig);
        until("ineffective", || shape(rig)["state"] == "ineffective");
        let reason = || shape(rig)["reason"].as_str().map(str::to_owned).unwrap_or_default();
        // Known after twenty seconds of waiting, or after twenty more.
        until("the rate that would do", || advised(&reason()).is_some());
        let reason = reason();
        println!("{reason}");
        let rate = advised(&reason).expect("a rate");
        assert!((0.85..1.05).contains(&(rate / CARRIES)), "{rate}: {reason}");
        drop(transfer);
        stop(agent);
    });
}

#[test]
fn a_right_rate_is_not_ineffective() {
    with_cake("a_right_rate_is_not_ineffective", LINK, |rig| {
        let agent = rig.agent("mode = \"enforce\"");
        until("enforcing", || shape(rig)["state"] == "enforcing");
        let transfer = upload(rig);
        for _ in 0..12 {
            std::thread::sleep(Duration::from_secs(1));
            let told = shape(rig);
            assert_eq!(told["state"], "enforcing", "{told}");
        }
        drop(transfer);
        stop(agent);
    });
}

/// Nobody tells a rate: it is held while the link is idle, found once an upload fills the modem, and the modem's buffer is then empty.
#[test]
fn a_rate_that_nobody_configured_is_found() {
    with_cake("a_rate_that_nobody_configured_is_found", LINK, |rig| {
        rig.tells_rates = false;
        let agent = rig.agent("mode = \"enforce\"\nrate = \"auto\"");
        until("enforcing", || shape(rig)["state"] == "enforcing");
        std::thread::sleep(Duration::from_secs(2));
        let idle = shape(rig)["uplink"].clone();
        assert_eq!(
            (&idle["rate_bps"], idle["auto"]["waits_behind_s"].is_null()),
            (&1_000_000_000.into(), true),
            "{idle}"
        );
        let transfer = upload(rig);
        until("a rate", || (0.8..1.05).contains(&(uplink_rate(rig) / CARRIES)));
        // What the buffer held when the rate was found drains.
        std::thread::sleep(Duration::from_secs(5));
        // The shaper tries more again and again, and drains what that left: only the mean of several turns is a rate.
        let Followed { rates, mut links, levels } = follow(rig, Duration::from_secs(20));
        links.sort_by(f64::total_cmp);
        let [rate, link] = [mean(&rates), links[links.len() / 2]].map(|rate| rate / CARRIES);
        println!("shaped to {rate} of the line, {link} of it published, {} B", mean(&levels));
        assert!((0.9..1.1).contains(&rate) && (0.95..1.05).contains(&link), "{rates:?}, {links:?}");
        // Of 30,000 that it has.
        assert!(mean(&levels) < 7_000.0, "{levels:?}");
        let name = "pendulum_shape_rate_bytes_per_second";
        until("the metric of that rate", || {
            let before = uplink_rate(rig);
            let metric = value(&rig.metrics(), name, &["direction=\"up\""]) * 8.0;
            (metric / before - 1.0).abs() < 1e-6
        });
        drop(transfer);
        stop(agent);
    });
}

/// Nobody tells a rate, and an upload's ends put no timestamps into TCP, as Windows does: the downlink carries little, so all waits on the uplink. The rate is found,
/// and followed when the line falls to a half.
#[test]
fn a_rate_is_followed_without_timestamps() {
    is_followed("a_rate_is_followed_without_timestamps", |rig| {
        rig.lab
            .host(Role::U1)
            .set_sysctl("net.ipv4.tcp_timestamps", "0")
            .expect("the endpoint's own setting");
        upload(rig)
    });
}

/// The same of QUIC alone, whose replies come once in a round trip.
#[test]
fn a_rate_is_followed_by_quic_alone() {
    is_followed("a_rate_is_followed_by_quic_alone", |rig| {
        let quic = Quic::start(&rig.lab, "cubic", Spin::First).expect("QUIC");
        quic.transfer(&rig.lab, Direction::Up, Ends::of(Direction::Up)).expect("a transfer");
        until("the rate", || shape(rig)["uplink"]["auto"]["link_rate_bps"].is_number());
        quic
    });
}

/// An upload that goes on until what `start` returns is dropped, on a line whose rate nobody tells and which falls to a half.
fn is_followed<T>(name: &str, start: impl Fn(&mut Rig) -> T) {
    const UPLINK: Shaper = Shaper {
        rate: Rate::from_bits_per_second(2_000_000).expect("not zero"),
        buffer: BufferSize::Bytes(125_000),
    };
    with_cake(name, LinkSpec { uplink: UPLINK, ..LINK }, |rig| {
        rig.tells_rates = false;
        let agent = rig.agent("mode = \"enforce\"\nrate = \"auto\"");
        until("enforcing", || shape(rig)["state"] == "enforcing");
        // What the ACKs take is little of what the downlink has carried once.
        let page = TransferSpec { bytes: Some(500_000), ..TransferSpec::new(Direction::Down, TRAFFIC) };
        Transfer::start(&rig.lab, page).expect("it starts").finish(TRAFFIC).expect("a page");
        let transfer = start(rig);
        let (host, device) = rig.lab.queue(Direction::Up);
        for part in [1.0, 0.5] {
            let carries = part * UPLINK.rate.bits_per_second() as f64;
            let (burst, limit) = (UPLINK.burst_bytes(), UPLINK.buffer_bytes());
            let words =
                format!("qdisc change dev {device} root tbf rate {carries}bit burst {burst} limit {limit}");
            host.run("tc", &words.split(' ').collect::<Vec<_>>()).expect("the line changes");
            std::thread::sleep(Duration::from_secs(10));
            let Followed { rates, levels, .. } = follow(rig, Duration::from_secs(5));
            let (rate, level) = (mean(&rates) / carries, mean(&levels));
            println!("{rate} of the line, {level} B");
            // Of 125,000 that it has.
            assert!((0.8..1.1).contains(&rate) && level < 15_000.0, "{rates:?} {levels:?}");
        }
        drop(transfer);
        stop(agent);
    });
}

/// The rate that the uplink is shaped to, bit/s.
fn uplink_rate(rig: &Rig) -> f64 {
    shape(rig)["uplink"]["rate_bps"].as_f64().expect("a rate")
}

/// Of each reading: the rate that the uplink is shaped to and the line's as published, bit/s, and the bytes in the modem.
struct Followed {
    rates: Vec<f64>,
    links: Vec<f64>,
    levels: Vec<f64>,
}

/// Reads four times a second.
fn follow(rig: &Rig, time: Duration) -> Followed {
    const STEP: Duration = Duration::from_millis(250);
    let (host, device) = rig.lab.queue(Direction::Up);
    let mut followed = Followed { rates: Vec::new(), links: Vec::new(), levels: Vec::new() };
    for _ in 0..time.div_duration_f64(STEP) as usize {
        std::thread::sleep(STEP);
        let reading = QueueReading::take(&host, device).expect("a reading");
        let uplink = shape(rig)["uplink"].clone();
        followed.rates.push(uplink["rate_bps"].as_f64().expect("a rate"));
        followed.links.push(uplink["auto"]["link_rate_bps"].as_f64().expect("the line's rate"));
        followed.levels.push(reading.backlog_bytes as f64);
    }
    followed
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
