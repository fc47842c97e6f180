//! Clients that ask for the largest answer and do not read it, as many as there are places.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::agent::Agent;
use crate::crowd::{converse, resident_kb};
use crate::packet_socket::PacketSocket;
use crate::rig::pair;

/// As many as there are places. Every second one reads a byte ten times a second, the others nothing.
const READERS: &str = "import socket, sys, time
readers = []
for _ in range(128):
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect(('127.0.0.1', 9924))
    reader.sendall(b'GET /api/v1/flows?limit=10000 HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')
    reader.setblocking(False)
    readers.append(reader)
print('asked', flush=True)
while True:
    for reader in readers[::2]:
        try:
            reader.recv(1)
        except OSError:
            pass
    time.sleep(0.1)";

/// What all answers may take that nobody reads.
const MOST_KB: u64 = 32 * 1024;

#[test]
fn slow_readers_take_little_memory_and_shut_nobody_out() {
    const TEST: &str = "slow_readers_take_little_memory_and_shut_nobody_out";
    let Some((gateway, provider)) = pair(TEST) else { return };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    converse(12_000, &PacketSocket::ethernet(&gateway, "wan0"), &PacketSocket::ethernet(&provider, "isp"));
    let list =
        |agent: &Agent<'_>| agent.get("/api/v1/flows?limit=10000").map(|(_, body)| body).unwrap_or_default();
    agent.wait_until("the largest answer has 10,000 flows", |agent| {
        list(agent).matches("\"client\":").count() == 10_000
    });
    let (answer_kb, before) = (list(&agent).len() / 1024, resident_kb(&agent));

    let mut python = gateway.command("python3");
    let mut python = python.args(["-c", READERS]).stdout(Stdio::piped()).spawn().unwrap();
    let mut asked = String::new();
    BufReader::new(python.stdout.take().unwrap()).read_line(&mut asked).unwrap();
    assert_eq!(asked, "asked\n");
    let (mut slowest, mut most) = (Duration::ZERO, 0);
    for _ in 0..10 {
        for path in ["/healthz", "/readyz", "/metrics"] {
            let asked = Instant::now();
            assert_eq!(agent.get(path).map(|(status, _)| status), Some(200), "{path}");
            slowest = slowest.max(asked.elapsed());
            most = most.max(resident_kb(&agent));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    python.kill().unwrap();
    python.wait().unwrap();
    let grown = most.saturating_sub(before);
    println!("128 readers of {answer_kb} kB: {grown} kB more than {before}; slowest probe {slowest:?}");
    assert!(grown <= MOST_KB, "{grown} kB more than {before}");
    // Elsewhere the clock tells how busy the machine is.
    if std::env::var_os("PENDULUM_IN_VM").is_some() {
        assert!(slowest <= Duration::from_secs(1), "{slowest:?}");
    }
    assert!(agent.end("TERM").success(), "{}", agent.log());
}
