//! However the agent ends, nothing of it stays on the device.

use crate::agent::{Agent, KernelObject};
use crate::netns::Netns;

#[test]
fn signals_end_it_cleanly() {
    let Some((gateway, _provider)) = Netns::with_provider("signals_end_it_cleanly") else { return };
    let before = gateway.hooks();
    for signal in ["TERM", "INT", "HUP"] {
        let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
        agent.wait_attached("wan0", gateway.index("wan0"));
        let index = gateway.index("wan0");
        assert_eq!(agent.hooked(), [index, index], "egress and ingress");
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
    KernelObject::wait_gone(&objects);
    let mut next = Agent::start(&gateway, &["--wan", "wan0"]);
    next.wait_attached("wan0", gateway.index("wan0"));
    assert!(next.end("TERM").success());
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
