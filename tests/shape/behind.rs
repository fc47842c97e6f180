//! A queue that stands in the modem although the gateway shapes: that is said, with the rate that would do; and not where shaping works.

use std::time::Duration;

use pendulum_lab::LinkSpec;

use pendulum_lab::shaper::Shaper;
use pendulum_lab::topology::{BufferPlace, IpVersion, Role};
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

const ASKS: &str = "probe = \"first-hop\"";

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
        let Followed { rates, links, levels } = follow(rig, Direction::Up, Duration::from_secs(20));
        let [by_rate, by_link] = [&rates, &links].map(|values| {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            sorted
        });
        let of_line = [mean(&rates), by_link[links.len() / 2], by_rate[0], by_rate[rates.len() - 1]];
        let [rate, link, least, most] = of_line.map(|rate| rate / CARRIES);
        println!(
            "shaped to {rate} of the line ({least} to {most}), {link} of it published, {} B",
            mean(&levels)
        );
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
    is_followed("a_rate_is_followed_without_timestamps", Direction::Up, "", |rig| {
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
    is_followed("a_rate_is_followed_by_quic_alone", Direction::Up, "", |rig| {
        quic(rig, Direction::Up, Spin::First)
    });
}

/// The same of QUIC that tells nothing: the first hop is asked.
#[test]
fn a_rate_is_followed_by_asking_the_first_hop() {
    is_followed("a_rate_is_followed_by_asking_the_first_hop", Direction::Up, ASKS, |rig| {
        quic(rig, Direction::Up, Spin::Never)
    });
}

/// The same of the downlink.
#[test]
fn a_downlinks_rate_is_followed_by_asking_the_first_hop() {
    is_followed("a_downlinks_rate_is_followed_by_asking_the_first_hop", Direction::Down, ASKS, |rig| {
        quic(rig, Direction::Down, Spin::Never)
    });
}

/// TCP tells how long packets wait, and where nothing passes nobody needs to know.
#[test]
fn the_first_hop_is_not_asked_without_need() {
    with_cake("the_first_hop_is_not_asked_without_need", LINK, |rig| {
        rig.tells_rates = false;
        let agent = rig.agent(&format!("mode = \"enforce\"\nrate = \"auto\"\n{ASKS}"));
        until("enforcing", || shape(rig)["state"] == "enforcing");
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(probes(rig), 0.0, "nothing passes");
        let transfer = upload(rig);
        until("a rate", || (0.8..1.05).contains(&(uplink_rate(rig) / CARRIES)));
        // The upload's first overflow is answered late: then the hop is asked.
        std::thread::sleep(Duration::from_secs(10));
        let (before, seconds) = (probes(rig), 10);
        std::thread::sleep(Duration::from_secs(seconds));
        let sent = probes(rig) - before;
        println!("{before} probes until the rate was found, {sent} in {seconds} s");
        assert!(before <= 40.0 && sent <= 5.0, "{before} {sent}");
        drop(transfer);
        stop(agent);
    });
}

/// The agent goes on, and says what to do.
#[test]
fn without_its_capability_the_first_hop_is_not_asked() {
    with_cake("without_its_capability_the_first_hop_is_not_asked", LINK, |rig| {
        let file = rig.configuration(&format!("mode = \"enforce\"\nrate = \"auto\"\n{ASKS}"));
        let gateway = rig.lab.gateway();
        let mut command = gateway.command("setpriv").expect("a command");
        command
            .args(["--bounding-set", "-net_raw", env!("CARGO_BIN_EXE_pendulum"), "run", "--config"])
            .arg(file);
        let agent = gateway.spawn(command, "agent").expect("the agent starts");
        until("a word", || agent.stderr().is_ok_and(|said| said.contains("give the service CAP_NET_RAW")));
        assert_eq!((shape(rig)["state"].as_str(), probes(rig)), (Some("enforcing"), 0.0));
        stop(agent);
    });
}

/// As in any home, now and then: the hop is met on a line without a queue.
fn little_passes(rig: &Rig) {
    let far = Role::D1.address(IpVersion::V4).expect("it has one").to_string();
    rig.lab.host(Role::D2).run("ping", &["-c", "8", "-i", "0.5", &far]).expect("packets pass");
}

/// A transfer of QUIC, once it has shown the line's rate.
fn quic(rig: &Rig, direction: Direction, spin: Spin) -> Quic {
    let quic = Quic::start(&rig.lab, "cubic", spin).expect("QUIC");
    quic.transfer(&rig.lab, direction, Ends::of(direction)).expect("a transfer");
    until("the rate", || shape(rig)[link(direction)]["auto"]["link_rate_bps"].is_number());
    quic
}

/// The key of a direction in the state.
fn link(direction: Direction) -> &'static str {
    direction.pick("uplink", "downlink")
}

/// Packets that the first hop was sent.
fn probes(rig: &Rig) -> f64 {
    value(&rig.metrics(), "pendulum_shape_probes_total", &[])
}

/// A transfer that goes on until what `start` returns is dropped, on a line whose rate nobody tells and which falls to a half; `settings`: of the shaper.
fn is_followed<T>(name: &str, direction: Direction, settings: &str, start: impl Fn(&mut Rig) -> T) {
    const BOTTLENECK: Shaper = Shaper {
        rate: Rate::from_bits_per_second(2_000_000).expect("not zero"),
        buffer: BufferSize::Bytes(125_000),
    };
    let spec = match direction {
        Direction::Up => LinkSpec { uplink: BOTTLENECK, ..LINK },
        Direction::Down => LinkSpec { downlink: BOTTLENECK, ..LINK },
    };
    with_cake(name, spec, |rig| {
        rig.tells_rates = false;
        let downlink = direction == Direction::Down;
        let agent =
            rig.agent(&format!("mode = \"enforce\"\nrate = \"auto\"\ndownlink = {downlink}\n{settings}"));
        until("enforcing", || shape(rig)["state"] == "enforcing");
        if settings == ASKS {
            little_passes(rig);
        }
        // What the ACKs take is little of what the downlink has carried once.
        let page = TransferSpec { bytes: Some(500_000), ..TransferSpec::new(Direction::Down, TRAFFIC) };
        Transfer::start(&rig.lab, page).expect("it starts").finish(TRAFFIC).expect("a page");
        let transfer = start(rig);
        let (host, device) = rig.lab.queue(direction);
        for part in [1.0, 0.5] {
            let carries = part * BOTTLENECK.rate.bits_per_second() as f64;
            let (burst, limit) = (BOTTLENECK.burst_bytes(), BOTTLENECK.buffer_bytes());
            let words =
                format!("qdisc change dev {device} root tbf rate {carries}bit burst {burst} limit {limit}");
            host.run("tc", &words.split(' ').collect::<Vec<_>>()).expect("the line changes");
            std::thread::sleep(Duration::from_secs(5));
            let Followed { rates, levels, .. } = follow(rig, direction, Duration::from_secs(5));
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

/// Of each reading: the rate that a direction is shaped to and the line's as published, bit/s, and the bytes in the line's buffer.
struct Followed {
    rates: Vec<f64>,
    links: Vec<f64>,
    levels: Vec<f64>,
}

/// Reads four times a second.
fn follow(rig: &Rig, direction: Direction, time: Duration) -> Followed {
    const STEP: Duration = Duration::from_millis(250);
    let (host, device) = rig.lab.queue(direction);
    let mut followed = Followed { rates: Vec::new(), links: Vec::new(), levels: Vec::new() };
    for _ in 0..time.div_duration_f64(STEP) as usize {
        std::thread::sleep(STEP);
        let reading = QueueReading::take(&host, device).expect("a reading");
        let shaped = shape(rig)[link(direction)].clone();
        followed.rates.push(shaped["rate_bps"].as_f64().expect("a rate"));
        followed.links.push(shaped["auto"]["link_rate_bps"].as_f64().expect("the line's rate"));
        followed.levels.push(reading.backlog_bytes as f64);
    }
    followed
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
