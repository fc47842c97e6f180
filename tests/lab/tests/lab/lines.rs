//! What lines in the wires do beside delaying: other clocks for the hosts, and a word when they end.

use std::process::Command;
use std::time::{Duration, Instant};

use pendulum_lab::clock::{HostClock, HostClocks};
use pendulum_lab::delay::Delays;
use pendulum_lab::lab::{Lab, LinkSpec};
use pendulum_lab::topology::Role;
use pendulum_lab::traffic::{Transfer, TransferSpec};
use pendulum_lab::truth::{counter, read_sockets};
use pendulum_model::segment::Direction;

use super::{can_run, seconds};

/// Seconds and TSval of each segment from D1 that the gateway's wan0 sees in a download.
fn stamps(d1: HostClock) -> (Lab, Vec<(f64, u32)>) {
    let clocks = HostClocks { d1, ..HostClocks::LINUX };
    let lab = Lab::start(LinkSpec { clocks, ..LinkSpec::FIG1 }).unwrap();
    let download = Transfer::start(&lab, TransferSpec::new(Direction::Down, seconds(60))).unwrap();
    let deadline = Instant::now() + seconds(20);
    while !read_sockets(&lab.host(Role::D1)).unwrap().iter().any(|socket| socket.sends_bulk()) {
        assert!(Instant::now() < deadline, "no data");
        std::thread::sleep(Duration::from_millis(20));
    }
    // 400 full frames of 2.4 Mb/s last two seconds.
    let filter = "src 198.18.1.2 and tcp and greater 1000";
    let shown = lab.gateway().run("tcpdump", &["-n", "-tt", "-c", "400", "-i", "wan0", filter]).unwrap();
    drop(download);
    let stamp = |line: &str| {
        let at = line.split_ascii_whitespace().next()?.parse().ok()?;
        let value = line.split_once("TS val ")?.1.split_ascii_whitespace().next()?.parse().ok()?;
        Some((at, value))
    };
    (lab, shown.lines().filter_map(stamp).collect())
}

/// Ticks per second between the first and the last.
fn ticks_per_second(stamps: &[(f64, u32)]) -> f64 {
    let (first, last) = (stamps[0], stamps[stamps.len() - 1]);
    f64::from(last.1.wrapping_sub(first.1)) / (last.0 - first.0)
}

#[test]
fn a_coarse_clock_ticks_a_hundred_times_a_second_and_harms_no_segment() {
    if !can_run() {
        return;
    }
    let (lab, stamps) = stamps("10ms".parse().unwrap());
    assert_eq!(stamps.len(), 400);
    // A sender's stamps and their arrivals differ by a queue of at most 0.1 s at either end.
    let rate = ticks_per_second(&stamps);
    assert!((90.0..110.0).contains(&rate), "{rate}");
    for role in [Role::D1, Role::D2] {
        let host = lab.host(role);
        let snmp = host.inside(|| std::fs::read_to_string("/proc/thread-self/net/snmp")).unwrap().unwrap();
        assert_eq!(counter(&snmp, "Tcp", "InCsumErrors"), Some(0), "{role}");
    }
    // D1 gets its own clock back: with another's its round trips would be nonsense.
    let sockets = read_sockets(&lab.host(Role::D1)).unwrap();
    for socket in sockets.iter().filter(|socket| socket.sends_bulk()) {
        assert!(socket.rtt < seconds(2), "{socket:?}");
    }
}

#[test]
fn a_host_without_timestamps_sends_none_and_linux_a_thousand_a_second() {
    if !can_run() {
        return;
    }
    let (_lab, without) = stamps(HostClock::None);
    assert_eq!(without, []);
    let (_lab, plain) = stamps(HostClock::Linux);
    let rate = ticks_per_second(&plain);
    assert!((900.0..1100.0).contains(&rate), "{rate}");
}

fn link(namespace: &str, args: &[&str]) {
    let done = Command::new("ip").args(["-n", namespace, "link"]).args(args).status().unwrap();
    assert!(done.success(), "{args:?}");
}

#[test]
fn a_line_lives_through_a_device_that_was_down_and_says_when_one_is_gone() {
    if !can_run() {
        return;
    }
    let delays = Delays { d1_access: Duration::from_millis(2), ..Delays::NONE };
    let lab = Lab::start(LinkSpec { delays, ..LinkSpec::FIG1 }).unwrap();
    let middle = format!("pdl-{}-d1-r1", lab.id());
    let ping = || lab.host(Role::D2).run("ping", &["-c", "3", "-i", "0.1", "-w", "10", "198.18.1.2"]);
    ping().unwrap();
    for state in ["down", "up"] {
        link(&middle, &["set", "end0", state]);
        std::thread::sleep(Duration::from_millis(200));
    }
    ping().unwrap();
    lab.check().unwrap();
    link(&middle, &["delete", "end0"]);
    let deadline = Instant::now() + seconds(10);
    let ended = loop {
        match lab.check() {
            Err(ended) => break ended,
            Ok(()) => assert!(Instant::now() < deadline, "not a word"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(ended.namespace, middle);
    assert!(ended.to_string().contains("removed"), "{ended}");
}
