//! However the agent ends, nothing of it stays on the device.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::agent::{Agent, KernelObject};
use crate::netns::Netns;

#[test]
fn signals_end_it_cleanly() {
    let Some((gateway, _provider)) = Netns::with_provider("signals_end_it_cleanly") else { return };
    let before = gateway.hooks();
    for signal in ["TERM", "INT"] {
        let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
        agent.wait_attached("wan0", gateway.index("wan0"));
        let index = gateway.index("wan0");
        // Kernels before 6.6 have no TCX links: there the filters show.
        let filters = gateway.hooks().matches("pendulum_").count();
        assert!(agent.hooked() == [index, index] || filters >= 2, "{}", gateway.hooks());
        let objects = agent.kernel_objects();
        let status = agent.end(signal);
        assert!(status.success(), "{signal}: {status}\n{}", agent.log());
        KernelObject::wait_gone(&objects);
        assert_eq!(gateway.hooks(), before, "after {signal}");
        assert!(agent.log().contains("stopping"), "{}", agent.log());
    }
}

#[test]
fn after_a_crash_the_next_start_finds_a_clean_device() {
    let Some((gateway, _provider)) =
        Netns::with_provider("after_a_crash_the_next_start_finds_a_clean_device")
    else {
        return;
    };
    let before = gateway.hooks();
    let mut crashed = Agent::start(&gateway, &["--wan", "wan0"]);
    crashed.wait_attached("wan0", gateway.index("wan0"));
    let objects = crashed.kernel_objects();
    assert!(!objects.is_empty());
    crashed.end("KILL");
    let mut next = Agent::start(&gateway, &["--wan", "wan0"]);
    next.wait_attached("wan0", gateway.index("wan0"));
    assert!(next.end("TERM").success());
    KernelObject::wait_gone(&objects);
    assert_eq!(gateway.hooks(), before);
}

#[test]
fn a_client_that_says_nothing_does_not_delay_the_end() {
    let Some((gateway, _provider)) =
        Netns::with_provider("a_client_that_says_nothing_does_not_delay_the_end")
    else {
        return;
    };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    let mut idle = gateway
        .command("bash")
        .args(["-c", "exec 3<>/dev/tcp/127.0.0.1/9924; printf 'GET /met' >&3; echo connected; exec sleep 60"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(idle.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(line, "connected\n");
    let status = agent.end("TERM");
    idle.kill().unwrap();
    idle.wait().unwrap();
    assert!(status.success(), "{}", agent.log());
}

#[test]
fn json_log_lines_are_json() {
    let Some((gateway, _provider)) = Netns::with_provider("json_log_lines_are_json") else { return };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0", "--log-format", "json"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    assert!(agent.end("TERM").success());
    let log = agent.log();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let attached = lines.iter().find(|line| line["message"] == "attached").unwrap_or_else(|| panic!("{log}"));
    assert_eq!((&attached["link"], &attached["level"]), (&"wan0".into(), &"INFO".into()));
}

/// journald reads the priority from the front of a line and keeps the time itself.
#[test]
fn lines_for_the_journal_have_a_priority_and_no_time() {
    let Some((gateway, _provider)) =
        Netns::with_provider("lines_for_the_journal_have_a_priority_and_no_time")
    else {
        return;
    };
    let nobody_listens = tempfile::tempdir().unwrap();
    let arguments = ["--wan", "wan0", "--listen", "0.0.0.0:9924"];
    let mut agent = Agent::start_for_journal(&gateway, nobody_listens.path(), &arguments);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let log = agent.log();
    assert!(log.lines().any(|line| line.starts_with("<6>attached link=")), "{log}");
    assert!(log.lines().any(|line| line.starts_with("<4>0.0.0.0:9924 can be reached")), "{log}");
}

/// By journald's own protocol each message is one datagram, and its fields can be asked for.
#[test]
fn journald_gets_the_fields_of_each_message() {
    let Some((gateway, _provider)) = Netns::with_provider("journald_gets_the_fields_of_each_message") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let journald = UnixDatagram::bind(directory.path().join("socket")).unwrap();
    journald.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    let mut agent = Agent::start_for_journal(&gateway, directory.path(), &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let mut entries = Vec::new();
    let attached = loop {
        let mut bytes = [0; 4096];
        let length = journald.recv(&mut bytes).unwrap_or_else(|error| panic!("{error}: {entries:?}"));
        let entry = String::from_utf8_lossy(&bytes[..length]).into_owned();
        if entry.contains("\nPENDULUM_EVENT=attached\n") {
            break entry;
        }
        entries.push(entry);
    };
    for line in ["PRIORITY=6", "SYSLOG_IDENTIFIER=pendulum", "PENDULUM_LINK=wan0", "PENDULUM_DEVICE=wan0"] {
        assert!(attached.lines().any(|found| found == line), "{line} in {attached}");
    }
    assert!(attached.starts_with("MESSAGE=attached link=wan0 "), "{attached}");
    assert!(agent.end("TERM").success());
    assert_eq!(agent.log(), "", "nothing is said twice");
}
