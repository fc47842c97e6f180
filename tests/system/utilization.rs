//! How much of the link is used, while the buffer in front of it fills.

use std::time::{Duration, Instant};

use crate::agent::Agent;
use crate::rig::{is_possible, pair};
use crate::tcp::Transfer;

/// 2 Mbit/s with a buffer of 0.4 s: more than what passes within the 300 ms that the rate is taken over.
const SHAPER: &str = "qdisc add dev wan0 root tbf rate 2mbit burst 2000 limit 100000";
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_buffer_that_fills_is_not_taken_for_a_faster_link() {
    let test = "a_buffer_that_fills_is_not_taken_for_a_faster_link";
    let Some((gateway, provider)) = pair(test) else { return };
    if !is_possible(test, gateway.command("tc").args(SHAPER.split(' '))) {
        return;
    }
    let mut agent = Agent::start(&gateway, &["--wan", "wan0", "--uplink-rate", "2mbit"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    // The first readings are less than 300 ms apart.
    agent.wait_until("readings", |agent| agent.json("/api/v1/state")["uptime_s"].as_f64() > Some(1.5));
    let transfer = Transfer::between(&gateway, &provider, "192.0.2.2:5201");
    let sender = std::thread::spawn(move || {
        transfer.send(1_000_000);
        transfer.finish()
    });

    // Time, utilization, bytes in the queue, bytes counted.
    let mut seen: Vec<(Instant, f64, u64, u64)> = Vec::new();
    let mut widest = 0;
    let begin = Instant::now();
    while !sender.is_finished() || begin.elapsed() < 3 * SECOND {
        let up = agent.link("wan0")["directions"]["up"].clone();
        let number = |name: &str| up[name].as_u64().unwrap();
        let queued = up["queue"]["bytes"].as_u64().unwrap();
        widest = widest.max(up["cwnd_bytes"].as_u64().unwrap_or(0));
        seen.push((Instant::now(), up["utilization"].as_f64().unwrap(), queued, number("bytes")));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(sender.join().unwrap(), 1_000_000);

    let fullest = seen.iter().map(|(_, _, queued, _)| *queued).max().unwrap();
    assert!(fullest > 50_000, "the buffer never filled: {fullest} bytes");
    // The sender is a socket of this gateway; all that is queued is within its window.
    assert!(widest > 50_000, "cwnd {widest} bytes, {fullest} queued");
    // One reading may come late by a scheduler's turn, and then the next is early by as much: not so over a second.
    let means: Vec<f64> = (0..seen.len())
        .filter(|first| seen[seen.len() - 1].0 - seen[*first].0 >= SECOND)
        .map(|first| {
            let second = seen[first..].iter().take_while(|(at, ..)| *at - seen[first].0 <= SECOND);
            let used: Vec<f64> = second.map(|(_, utilization, ..)| *utilization).collect();
            used.iter().sum::<f64>() / used.len() as f64
        })
        .collect();
    let most = means.iter().copied().fold(0.0, f64::max);
    let at_once = seen.iter().map(|(_, utilization, ..)| *utilization).fold(0.0, f64::max);
    println!(
        "{} looks: {at_once:.3} at most, {most:.3} over a second; {fullest} bytes in the buffer",
        seen.len()
    );
    assert!((0.9..=1.05).contains(&most), "{most} of the link over a second: {seen:?}");
    assert!(agent.end("TERM").success(), "{}", agent.log());
}
