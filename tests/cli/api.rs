//! What the agent shows of real traffic: metrics, state, flows.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::agent::Agent;
use crate::netns::{Netns, outcome, run};

/// Takes one connection, reads so many bytes, says so, and waits for its end.
const SERVER: &str = "import socket, sys
listener = socket.create_server(('192.0.2.2', 5201))
print('listening', flush=True)
connection, _ = listener.accept()
left = int(sys.argv[1])
while left:
    left -= len(connection.recv(65536))
connection.sendall(b'x')
connection.recv(1)";

/// Sends so many bytes, waits until the other end has read them all, and prints what the kernel sent twice of them: segments and bytes
/// (tcpi_total_retrans and tcpi_bytes_retrans of linux/tcp.h). The connection ends with its input.
const CLIENT: &str = "import socket, struct, sys
connection = socket.create_connection(('192.0.2.2', 5201))
connection.sendall(bytes(int(sys.argv[1])))
assert connection.recv(1) == b'x'
info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
print(*struct.unpack_from('=I', info, 100), *struct.unpack_from('=Q', info, 208), flush=True)
sys.stdin.read()";

/// A program in Python, once it has said its first line.
fn python(netns: &Netns, program: &str, argument: u64) -> (Child, String) {
    let mut command = netns.command("python3");
    command.args(["-c", program, &argument.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

/// A TCP transfer of exactly so many bytes from the gateway to the provider, whose connection stays: both ends, and the segments and bytes
/// that the sender sent twice.
fn upload(gateway: &Netns, provider: &Netns, bytes: u64) -> ([Child; 2], [f64; 2]) {
    let (server, said) = python(provider, SERVER, bytes);
    assert_eq!(said, "listening\n");
    let (client, said) = python(gateway, CLIENT, bytes);
    let mut twice = said.split_ascii_whitespace().map(|number| number.parse().unwrap());
    ([client, server], std::array::from_fn(|_| twice.next().unwrap()))
}

fn figure(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

const UPLOADED: u64 = 3_000_000;

#[test]
fn traffic_appears_in_state_flows_and_metrics() {
    let Some((gateway, provider)) = Netns::with_provider("traffic_appears_in_state_flows_and_metrics") else {
        return;
    };
    let rates = ["--uplink-rate", "100mbit", "--downlink-rate", "100mbit"];
    let mut agent = Agent::start(&gateway, &[&["--wan", "wan0"][..], &rates[..]].concat());
    agent.wait_attached("wan0", gateway.index("wan0"));
    // An ACK may come so late, on a busy machine, that the sender sends again.
    let (ends, [segments_twice, bytes_twice]) = upload(&gateway, &provider, UPLOADED);
    let payload = |agent: &Agent<'_>| figure(&agent.link("wan0"), "/directions/up/payload_bytes");
    agent.wait_until("the upload is counted", |agent| payload(agent) >= UPLOADED as f64 + bytes_twice);

    let link = agent.link("wan0");
    let up = |field: &str| figure(&link, &format!("/directions/up/{field}"));
    assert_eq!(link["link"]["uplink_rate_bps"], 100_000_000);
    assert_eq!(
        (up("payload_bytes"), up("retransmitted_segments") + up("segments/syn") - 1.0),
        (UPLOADED as f64 + bytes_twice, segments_twice)
    );
    assert!(up("segments/data") >= (UPLOADED / 1_448) as f64, "{link:#}");
    assert!(up("segments/syn") >= 1.0);
    assert!(up("bytes") > up("payload_bytes"));
    assert!(figure(&link, "/directions/down/segments/ack") > 0.0);

    agent.wait_until("the flow is swept", |agent| {
        agent.json("/api/v1/flows?sort=bytes").pointer("/flows/0/up/payload_bytes").and_then(Value::as_f64)
            == Some(UPLOADED as f64 + bytes_twice)
    });
    let flow = &agent.json("/api/v1/flows?sort=bytes&limit=1")["flows"][0];
    assert_eq!((&flow["direction"], &flow["home"]), (&"up".into(), &"client".into()));
    assert_eq!(flow["server"], "192.0.2.2:5201");
    assert!(flow["client"].as_str().unwrap().starts_with("192.0.2.1:"), "{flow}");

    lint(&agent);
    for mut end in ends {
        drop(end.stdin.take());
        assert!(end.wait().unwrap().success());
    }
}

/// The exposition of a link in use, through Prometheus' own linter.
fn lint(agent: &Agent<'_>) {
    let (_, text) = agent.get("/metrics").unwrap();
    assert!(
        text.contains("\npendulum_segments_total{link=\"wan0\",direction=\"up\",class=\"data\"}"),
        "{text}"
    );
    assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
    assert!(!text.contains("192.0.2."), "an address leaves through /metrics");
    let linter = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut linter) = linter else {
        eprintln!("SKIPPED lint of /metrics: promtool is not installed (Debian package prometheus)");
        return;
    };
    linter.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = linter.wait_with_output().unwrap();
    let complaints = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && complaints.is_empty(), "{}", String::from_utf8_lossy(&complaints));
}

/// Takes all connections, and holds them until its input ends.
const HOST: &str = "import socket, sys, threading
listener = socket.create_server(('192.0.2.2', 5202), backlog=4096)
held = []
def accept():
    while True:
        held.append(listener.accept())
threading.Thread(target=accept, daemon=True).start()
print('listening', flush=True)
sys.stdin.read()";

/// Opens so many connections, and says a byte on each.
const CROWD: &str = "import socket, sys
crowd = [socket.create_connection(('192.0.2.2', 5202)) for _ in range(int(sys.argv[1]))]
for one in crowd:
    one.sendall(b'x')";

#[test]
fn flows_that_a_full_table_forgets_are_counted() {
    let Some((gateway, provider)) = Netns::with_provider("flows_that_a_full_table_forgets_are_counted")
    else {
        return;
    };
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), "[[link]]\nwan = \"wan0\"\nmax-flows = 256\n").unwrap();
    let mut agent = Agent::start(&gateway, &["--config", config.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let (mut host, _) = python(&provider, HOST, 0);
    run(gateway.command("python3").args(["-c", CROWD, "600"]));

    let table = |agent: &Agent<'_>| agent.link("wan0")["flow_table"].clone();
    let part = |table: &Value, field: &str| table[field].as_u64().unwrap();
    agent.wait_until("the crowd is counted", |agent| {
        let table = table(agent);
        part(&table, "promoted") >= 600
            && part(&table, "promoted")
                == part(&table, "flows") + part(&table, "expired") + part(&table, "evicted")
    });
    let table = table(&agent);
    assert!(part(&table, "flows") <= 256 && part(&table, "evicted") >= 600 - 256, "{table}");
    let (_, metrics) = agent.get("/metrics").unwrap();
    assert!(metrics.contains("\npendulum_map_capacity{link=\"wan0\",map=\"flows\"} 256\n"), "{metrics}");
    agent.wait_until("the log tells", |agent| agent.log().contains("raise max-flows"));
    drop(host.stdin.take());
    host.wait().unwrap();
}

#[test]
fn runs_of_programs_are_counted_only_if_asked_for() {
    let Some((gateway, _provider)) = Netns::with_provider("runs_of_programs_are_counted_only_if_asked_for")
    else {
        return;
    };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let (_, text) = agent.get("/metrics").unwrap();
    assert!(!text.contains("pendulum_bpf_program_run"), "{text}");
    for what in ["runs", "run_seconds"] {
        assert_eq!(agent.link("wan0")["programs"][0][what], serde_json::Value::Null, "not known is not 0");
    }
    drop(agent);

    let runs = |agent: &Agent<'_>| {
        let link = agent.link("wan0");
        let up = link["programs"].as_array().unwrap().iter().find(|program| program["name"] == "pendulum_up");
        up.and_then(|program| program["runs"].as_u64()).unwrap_or(0)
    };
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), "[[link]]\nwan = \"wan0\"\n[metrics]\nbpf-statistics = true\n").unwrap();
    let mut agent = Agent::start(&gateway, &["--config", config.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    run(gateway.command("ping").args(["-c", "3", "-i", "0.05", "192.0.2.2"]));
    agent.wait_until("runs are counted", |agent| runs(agent) >= 3);
    let (_, text) = agent.get("/metrics").unwrap();
    assert!(text.contains("pendulum_bpf_program_run_seconds_total"), "{text}");
}

#[test]
fn hostile_requests_are_answered_and_do_no_harm() {
    let Some((gateway, _provider)) = Netns::with_provider("hostile_requests_are_answered_and_do_no_harm")
    else {
        return;
    };
    let agent = Agent::start(&gateway, &["--wan", "wan0"]);
    let send = |request: &str| {
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/9924; {request} >&3; head -n 1 <&3");
        let (_, answer, _) = outcome(gateway.command("timeout").args(["15", "bash", "-c", &script]));
        answer
    };
    for (request, status) in [
        (r"printf 'nonsense\r\n\r\n'", "400"),
        (
            r"(printf 'GET / HTTP/1.1\r\nHost: localhost\r\n'; printf 'X: y\r\n%.0s' {1..100}; printf '\r\n')",
            "431",
        ),
        (r"printf 'TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n'", "405"),
    ] {
        let answer = send(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
    // The connection is closed on what is still being sent, so the answer may be lost on its way.
    for request in [
        r"printf 'GET /%070000d HTTP/1.1\r\nHost: localhost\r\n\r\n' 0",
        r"printf 'GET / HTTP/1.1\r\nHost: localhost\r\nX: %070000d\r\n\r\n' 0",
    ] {
        let answer = send(request);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{request}: {answer}");
    }
    assert_eq!(agent.get("/healthz").map(|(status, _)| status), Some(200));
}

#[test]
fn listening_for_others_is_warned_about() {
    let Some((gateway, _provider)) = Netns::with_provider("listening_for_others_is_warned_about") else {
        return;
    };
    let agent = Agent::start(&gateway, &["--wan", "wan0", "--listen", "0.0.0.0:9924"]);
    assert!(agent.log().contains("can be reached from other hosts"), "{}", agent.log());
}
