//! Flows that come and go for a while: nothing grows. `PENDULUM_SOAK_SECONDS=900` makes it a long run.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::agent::Agent;
use crate::rig::pair;

/// Takes connections and sends back what they bring.
const SERVER: &str = "import socket
listener = socket.create_server(('192.0.2.2', 5203), backlog=512)
print('listening', flush=True)
while True:
    connection, _ = listener.accept()
    with connection:
        while data := connection.recv(65536):
            connection.sendall(data)";

/// One short connection after the other, until killed.
const CLIENT: &str = "import socket
while True:
    with socket.create_connection(('192.0.2.2', 5203)) as connection:
        connection.sendall(b'x' * 4096)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass";

struct Use {
    resident_kb: u64,
    descriptors: usize,
    threads: u64,
}

fn usage(agent: &Agent<'_>) -> Use {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
    };
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", agent.id())).unwrap().count();
    Use { resident_kb: field("VmRSS:"), descriptors, threads: field("Threads:") }
}

#[test]
fn nothing_grows_while_flows_come_and_go() {
    let Some((gateway, provider)) = pair("nothing_grows_while_flows_come_and_go") else { return };
    let seconds = std::env::var("PENDULUM_SOAK_SECONDS").map_or(10, |text| text.parse().unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    // A small table is full soon; from then on it must stay as it is.
    std::fs::write(file.path(), "[[link]]\nwan = \"wan0\"\nmax-flows = 256\nnursery = 64\n").unwrap();
    let mut agent = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let mut server = provider.command("python3").args(["-c", SERVER]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "listening\n");
    let mut client = gateway.command("python3").args(["-c", CLIENT]).stderr(Stdio::null()).spawn().unwrap();

    let promoted = |agent: &Agent<'_>| agent.link("wan0")["flow_table"]["promoted"].as_u64().unwrap();
    agent.wait_until("the table was filled once", |agent| promoted(agent) > 300);
    let (before, objects, seen) = (usage(&agent), agent.kernel_objects(), promoted(&agent));
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        assert_eq!(agent.get("/metrics").map(|(status, _)| status), Some(200));
        std::thread::sleep(Duration::from_millis(100));
    }
    let (after, table) = (usage(&agent), agent.link("wan0")["flow_table"].clone());
    client.kill().unwrap();
    client.wait().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();

    println!(
        "{seconds} s, {} flows: {} to {} kB resident, {} to {} descriptors",
        promoted(&agent) - seen,
        before.resident_kb,
        after.resident_kb,
        before.descriptors,
        after.descriptors
    );
    assert!(promoted(&agent) > seen, "flows came and went");
    assert!(table["flows"].as_u64() <= Some(256), "{table}");
    assert_eq!(agent.kernel_objects(), objects);
    // A scrape may be under way at either look.
    assert!(after.threads <= before.threads, "{} to {}", before.threads, after.threads);
    assert!(after.descriptors <= before.descriptors + 2, "{} to {}", before.descriptors, after.descriptors);
    // The first readings and scrapes still fill caches and histories of fixed size.
    assert!(
        after.resident_kb < before.resident_kb + 6_000,
        "{} to {} kB",
        before.resident_kb,
        after.resident_kb
    );
    assert!(agent.end("TERM").success(), "{}", agent.log());
}
