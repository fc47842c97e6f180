//! The wall clock is stepped while the agent measures. Only in the guests, whose clock is their own.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::agent::Agent;
use crate::netns::run;
use crate::rig::{is_possible, pair};
use crate::tcp::{Transfer, set_congestion_control};

const DAY: i64 = 86_400;
/// 125,000 bytes per second through a buffer of 30,000: nothing waits for longer than a quarter of a second.
const RATE_BPS: f64 = 1e6;
const LONGEST_WAIT_S: f64 = 30_000.0 * 8.0 / RATE_BPS;
/// The bucket's burst and one frame more than the rate, within the 300 ms that a rate is taken over.
const BURST_BPS: f64 = (2_000.0 + 1_514.0) * 8.0 / 0.3;

/// Seconds since 1970 by the clock that is stepped.
fn wall() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}

fn step(seconds: i64) {
    let to = wall() + seconds;
    run(Command::new("date").args(["-u", "-s", &format!("@{to}")]));
    assert!((wall() - to).abs() < 10, "the clock was not stepped");
}

/// What must go on evenly across a step.
struct Look {
    uptime_s: f64,
    bytes: u64,
    up: Value,
    phase_seconds: f64,
    link: Value,
}

fn look(agent: &Agent<'_>) -> Look {
    let state = agent.json("/api/v1/state");
    let link = state["links"][0].clone();
    let phases = link["phase_seconds"].as_object().unwrap().values().map(|seconds| seconds.as_f64().unwrap());
    Look {
        uptime_s: state["uptime_s"].as_f64().unwrap(),
        bytes: link["directions"]["up"]["bytes"].as_u64().unwrap(),
        up: link["directions"]["up"].clone(),
        phase_seconds: phases.sum(),
        link,
    }
}

/// Looks for so long, and compares each look with the one before.
fn watch(agent: &Agent<'_>, seconds: f64) {
    let begin = Instant::now();
    let first = look(agent);
    let mut before = look(agent);
    while begin.elapsed().as_secs_f64() < seconds {
        std::thread::sleep(Duration::from_millis(200));
        let now = look(agent);
        let passed = now.uptime_s - before.uptime_s;
        assert!((0.0..30.0).contains(&passed), "{passed} s have passed between two looks");
        assert!(now.bytes >= before.bytes);
        assert!(now.phase_seconds >= before.phase_seconds);
        assert!(now.phase_seconds <= now.uptime_s + 1.0, "{} of {} s", now.phase_seconds, now.uptime_s);
        let rate = now.up["throughput_bps"].as_f64().unwrap();
        // A reading may come late by a little.
        assert!((0.0..=1.2 * RATE_BPS + BURST_BPS).contains(&rate), "{rate} bit/s");
        for pointer in ["/rtt/mean_s", "/rtt/p95_s"] {
            let seconds = now.up.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0);
            assert!((0.0..=4.0 * LONGEST_WAIT_S).contains(&seconds), "{pointer}: {seconds}");
        }
        let held = now.link["phase_for_s"].as_f64().unwrap_or(0.0);
        assert!((0.0..=now.uptime_s).contains(&held), "{held} s in this phase");
        before = now;
    }
    assert!(before.bytes > first.bytes + 50_000, "the transfer is measured meanwhile");
}

/// Sum and count of the time that packets have spent in the uplink's queue.
fn sojourn(agent: &Agent<'_>) -> (f64, f64) {
    let (_, metrics) = agent.get("/metrics").unwrap();
    let sum = |name: &str| {
        let start = format!("pendulum_queue_sojourn_seconds_{name}{{link=\"wan0\",direction=\"up\"");
        let lines = metrics.lines().filter(|line| line.starts_with(&start));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    (sum("sum"), sum("count"))
}

/// Lets the watchdog's messages pile up no further, and waits for the next one.
fn wait_alive(socket: &UnixDatagram) {
    let mut message = [0; 1024];
    socket.set_nonblocking(true).unwrap();
    while socket.recv(&mut message).is_ok() {}
    socket.set_nonblocking(false).unwrap();
    loop {
        let length = socket.recv(&mut message).expect("the service manager hears nothing more");
        if message[..length].starts_with(b"WATCHDOG=1") {
            return;
        }
    }
}

#[test]
fn a_stepped_clock_changes_no_figure() {
    let test = "a_stepped_clock_changes_no_figure";
    if std::env::var_os("PENDULUM_IN_VM").is_none() {
        eprintln!("SKIPPED {test}: only a guest's clock may be stepped");
        return;
    }
    let Some((gateway, provider)) = pair(test) else { return };
    let shaper = "qdisc add dev wan0 root tbf rate 1mbit burst 2000 limit 30000";
    if !is_possible(test, gateway.command("tc").args(shaper.split(' '))) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let notify = directory.path().join("notify");
    let socket = UnixDatagram::bind(&notify).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let log = directory.path().join("events.jsonl");
    let file = directory.path().join("pendulum.toml");
    let config = format!(
        "[[link]]\nwan = \"wan0\"\nuplink-rate = \"1mbit\"\ndownlink-rate = \"1gbit\"\n[events]\nlog = \"{}\"\n",
        log.display()
    );
    std::fs::write(&file, config).unwrap();
    let environment = [("NOTIFY_SOCKET", notify.to_str().unwrap()), ("WATCHDOG_USEC", "4000000")];
    let mut agent = Agent::start_with(&gateway, &["--config", file.to_str().unwrap()], &environment);
    agent.wait_attached("wan0", gateway.index("wan0"));

    let transfer = Transfer::between(&gateway, &provider, "192.0.2.2:5201");
    set_congestion_control(&transfer.sending, "cubic");
    let stop = Arc::new(AtomicBool::new(false));
    let sender = {
        let (stop, stream) = (Arc::clone(&stop), transfer.sending.try_clone().unwrap());
        std::thread::spawn(move || {
            use std::io::Write as _;
            while !stop.load(Ordering::Relaxed) {
                (&stream).write_all(&[0x55; 4_096]).unwrap();
            }
        })
    };
    let phase = |agent: &Agent<'_>| agent.link("wan0")["phase"].clone();
    agent.wait_until("the uplink's buffer stands", |agent| phase(agent) == "uplink_bound");
    let (before, begin) = (look(&agent), Instant::now());
    let sojourn_before = sojourn(&agent);
    for seconds in [DAY, -2 * DAY, DAY] {
        step(seconds);
        watch(&agent, 2.0);
        assert_eq!(phase(&agent), "uplink_bound", "after {seconds} s: {:#}", agent.link("wan0"));
        wait_alive(&socket);
    }
    let (after, passed) = (look(&agent), begin.elapsed().as_secs_f64());
    let rate = (after.bytes - before.bytes) as f64 * 8.0 / passed;
    println!("{rate:.0} bit/s over {passed:.1} s with three steps");
    assert!((0.8 * RATE_BPS..1.1 * RATE_BPS + 30_000.0 * 8.0 / passed).contains(&rate), "{rate} bit/s");
    assert!(
        (after.uptime_s - before.uptime_s - passed).abs() < 2.0,
        "{} s",
        after.uptime_s - before.uptime_s
    );
    let (sum, count) = sojourn(&agent);
    let mean = (sum - sojourn_before.0) / (count - sojourn_before.1);
    println!("{mean:.3} s in the queue in the mean, of {} packets", count - sojourn_before.1);
    assert!(mean > 0.0 && mean <= LONGEST_WAIT_S * 1.1, "{mean} s in the queue");
    assert_eq!(agent.link("wan0")["flow_table"]["flows"], 1, "a day did not pass: the flow is not forgotten");

    // The next event comes at a time before that of the one before it.
    step(-DAY);
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    transfer.finish();
    agent.wait_until("the buffer is empty", |agent| phase(agent) == "idle");
    step(DAY);
    let events = agent.json("/api/v1/events?limit=1000")["events"].clone();
    let events = events.as_array().unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let at: Vec<f64> = events.iter().map(|event| event["at_s"].as_f64().unwrap()).collect();
    assert!(at.is_sorted(), "{at:?}");
    let times: Vec<&str> = events.iter().map(|event| event["time"].as_str().unwrap()).collect();
    assert!(!times.is_sorted(), "`time` is the wall clock's, with its steps: {times:?}");
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.lines().count() >= events.len(), "{logged}");
    wait_alive(&socket);
    assert!(agent.end("TERM").success(), "{}", agent.log());
}
