//! What `run` refuses: one message with a remedy, the right exit code, and nothing changed.

use std::process::Command;

use crate::agent::{Agent, PENDULUM};
use crate::netns::{Netns, outcome};
use crate::privileges::Copy;

/// Runs `pendulum run` inside; it has to end at once. Checks that nothing is attached to any device that did not before.
fn refused(netns: &Netns, arguments: &[&str]) -> (i32, String) {
    let before = netns.hooks();
    let (code, stdout, stderr) = outcome(netns.command(PENDULUM).arg("run").args(arguments));
    assert_eq!(netns.hooks(), before);
    assert_eq!(stdout, "");
    assert_eq!(stderr.lines().filter(|line| line.starts_with("pendulum: ")).count(), 1, "{stderr}");
    (code, stderr)
}

#[test]
fn unknown_device() {
    let Some((gateway, _provider)) = Netns::with_provider("unknown_device") else { return };
    let (code, message) = refused(&gateway, &["--wan", "wan9"]);
    assert_eq!(code, 69);
    assert!(message.contains("`wan9` does not exist; did you mean `wan0`?"), "{message}");
}

#[test]
fn downed_device() {
    let Some((gateway, _provider)) = Netns::with_provider("downed_device") else { return };
    gateway.ip("link set dev wan0 down");
    let (code, message) = refused(&gateway, &["--wan", "wan0"]);
    assert_eq!(code, 69);
    assert!(message.contains("`wan0` is down; set it up with `ip link set dev wan0 up`"), "{message}");
}

#[test]
fn bridge_port() {
    let Some((gateway, _provider)) = Netns::with_provider("bridge_port") else { return };
    gateway.ip("link add br0 type bridge");
    gateway.ip("link set dev wan0 master br0");
    for arguments in [&["--wan", "wan0"][..], &["--wan", "wan0", "--wait"][..]] {
        let (code, message) = refused(&gateway, arguments);
        assert_eq!(code, 78);
        assert!(message.contains("`wan0` is a bridge port of `br0`"), "{message}");
    }
}

#[test]
fn second_instance() {
    let Some((gateway, _provider)) = Netns::with_provider("second_instance") else { return };
    let first = Agent::start(&gateway, &["--wan", "wan0"]);
    let (code, message) = refused(&gateway, &["--wan", "wan0", "--listen", "127.0.0.1:0"]);
    assert_eq!(code, 69);
    let expected = format!("`wan0` is watched by another pendulum already (process {})", first.id());
    assert!(message.contains(&expected), "{message}");
    assert_eq!(first.get("/readyz").map(|(status, _)| status), Some(200));
}

/// Listens on abstract names as another user, until its input ends.
const STRANGER: &str = "import os, socket, sys
os.setuid(65534)
sockets = []
for name in sys.argv[1:]:
    sockets.append(socket.socket(socket.AF_UNIX))
    sockets[-1].bind('\\0' + name)
    sockets[-1].listen()
print('there', flush=True)
sys.stdin.read()";

/// Any local user may bind any abstract name: it neither keeps an agent from starting nor lets a second one start.
#[test]
fn a_stranger_cannot_take_a_device() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    let Some((gateway, _provider)) = Netns::with_provider("a_stranger_cannot_take_a_device") else { return };
    let mut stranger = gateway.command("python3");
    stranger.args(["-c", STRANGER, "pendulum/wan/wan0", "pendulum/wan/wan0/0000000000000000"]);
    let mut stranger = stranger.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut there = String::new();
    BufReader::new(stranger.stdout.take().unwrap()).read_line(&mut there).unwrap();
    assert_eq!(there, "there\n");
    let mut first = Agent::start(&gateway, &["--wan", "wan0"]);
    first.wait_attached("wan0", gateway.index("wan0"));
    let ignored =
        format!("device `wan0` are ignored (1, the first by process {} of user 65534)", stranger.id());
    assert!(first.log().contains(&ignored), "{}", first.log());
    let (code, message) = refused(&gateway, &["--wan", "wan0", "--listen", "127.0.0.1:0"]);
    assert_eq!(code, 69);
    assert!(message.contains(&format!("pendulum already (process {})", first.id())), "{message}");
    drop(stranger.stdin.take());
    assert!(stranger.wait().unwrap().success());
}

/// Whoever has the port keeps nobody from measuring; the agent answers once it is free.
#[test]
fn port_in_use() {
    let Some((gateway, provider)) = Netns::with_provider("port_in_use") else { return };
    gateway.ip("link add other0 type veth peer name other1");
    gateway.ip("link set dev other0 up");
    let mut first = Agent::start(&gateway, &["--wan", "wan0"]);
    let mut second = Agent::start(&gateway, &["--wan", "other0"]);
    let said = "cannot listen on 127.0.0.1:9924";
    second.wait_until("it says so and measures", |agent| {
        agent.log().contains(said) && agent.log().contains("device=\"other0\"")
    });
    let log = second.log();
    assert!(
        log.contains("another process has this port") && log.contains("tried again every second"),
        "{log}"
    );
    assert!(gateway.hooks().contains("other0"), "{}", gateway.hooks());
    // Namespaces have ports and devices of their own.
    // Before 6.2 only a device that is down can be renamed.
    provider.ip("link set dev isp down");
    provider.ip("link set dev isp name wan0");
    provider.ip("link set dev wan0 up");
    Agent::start(&provider, &["--wan", "wan0"]);
    assert!(first.end("TERM").success());
    second.wait_until("it answers", |agent| {
        agent.get("/api/v1/state").is_some_and(|(status, body)| status == 200 && body.contains("other0"))
    });
    assert!(second.log().contains("listening on http://127.0.0.1:9924/"), "{}", second.log());
    assert!(second.end("TERM").success());
}

#[test]
fn address_that_is_not_ours() {
    let Some((gateway, _provider)) = Netns::with_provider("address_that_is_not_ours") else { return };
    gateway.ip("link add other0 type veth peer name other1");
    gateway.ip("link set dev other0 up");
    let _first = Agent::start(&gateway, &["--wan", "wan0"]);
    let mut second = Agent::start(&gateway, &["--wan", "other0", "--listen", "198.51.100.1:9924"]);
    second.wait_until("it says so", |agent| {
        agent.log().contains("no device of this network namespace has this address")
    });
    gateway.ip("address add 198.51.100.1/32 dev lo");
    second.wait_until("it listens", |agent| agent.log().contains("listening on http://198.51.100.1:9924/"));
}

#[test]
fn missing_capabilities() {
    let Some((gateway, _provider)) = Netns::with_provider("missing_capabilities") else { return };
    // The namespace is entered first, the user dropped last.
    let copy = Copy::new();
    let before = gateway.hooks();
    let (code, _, message) = outcome(gateway.command("setpriv").args([
        "--reuid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        &copy.program(),
        "run",
        "--wan",
        "wan0",
    ]));
    assert_eq!(code, 77, "{message}");
    assert!(
        message.contains("this process lacks CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN; run it as root"),
        "{message}"
    );
    assert_eq!(gateway.hooks(), before);
}

#[test]
fn nothing_to_watch() {
    if std::path::Path::new("/etc/pendulum/pendulum.toml").exists() {
        eprintln!("SKIPPED nothing_to_watch: this machine has an /etc/pendulum/pendulum.toml");
        return;
    }
    let (code, _, message) = outcome(Command::new(PENDULUM).arg("run"));
    assert_eq!(code, 64);
    assert!(
        message.contains("no link to watch; name the device towards the provider with --wan"),
        "{message}"
    );
}
