//! `kill -9`, at moments from the first system call to the reload.

use std::process::Stdio;
use std::time::Duration;

use crate::agent::{Agent, PENDULUM};
use crate::netns::run;
use crate::rig::{attachments, pair, ping, wait_until, wire};

#[test]
fn killed_at_any_stage_of_the_start_it_leaves_nothing() {
    let Some((gateway, provider)) = pair("killed_at_any_stage_of_the_start_it_leaves_nothing") else {
        return;
    };
    let before = attachments(&gateway);
    // How far it gets depends on the machine; the steps cover load, attachment and the first readings on a fast one.
    for after_ms in [0, 10, 30, 60, 100, 200, 400, 800] {
        let mut command = gateway.command(PENDULUM);
        command.args(["run", "--wan", "wan0"]).stdin(Stdio::null()).stderr(Stdio::null());
        let mut agent = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after_ms));
        agent.kill().unwrap();
        agent.wait().unwrap();
        ping(&provider, "192.0.2.1", 5);
    }
    // Filters of kernels before 6.6 wait for the next start.
    let mut next = Agent::start(&gateway, &["--wan", "wan0"]);
    next.wait_attached("wan0", gateway.index("wan0"));
    assert!(next.end("TERM").success(), "{}", next.log());
    wait_until("nothing is attached any more", || attachments(&gateway) == before);
}

#[test]
fn killed_while_it_reloads_it_leaves_nothing() {
    let Some((gateway, provider)) = pair("killed_while_it_reloads_it_leaves_nothing") else { return };
    let before = attachments(&gateway);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[[link]]\nwan = \"wan0\"\n").unwrap();
    let mut agent = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    for _ in 0..20 {
        agent.signal("HUP");
    }
    agent.end("KILL");
    ping(&provider, "192.0.2.1", 5);
    let mut next = Agent::start(&gateway, &["--wan", "wan0"]);
    assert!(next.end("TERM").success(), "{}", next.log());
    wait_until("nothing is attached any more", || attachments(&gateway) == before);
}

/// Eight links take a while to load. An agent that is asked to end meanwhile does not first load them all.
#[test]
fn asked_to_end_while_links_are_loaded_it_ends() {
    let Some((gateway, provider)) = pair("asked_to_end_while_links_are_loaded_it_ends") else { return };
    let names: Vec<String> = (0..8).map(|number| format!("wan0{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        wire(&gateway, name, &provider, &format!("isp0{number}"), &format!("198.51.{number}"));
    }
    let before = attachments(&gateway);
    let file = tempfile::NamedTempFile::new().unwrap();
    let links: String = names.iter().map(|name| format!("[[link]]\nwan = \"{name}\"\n")).collect();
    std::fs::write(file.path(), links).unwrap();
    // This side may be late to ask, after the last one: such a try says nothing.
    let ended_early = (0..5).any(|_| {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = gateway.command(PENDULUM);
        command.args(["run", "--config", file.path().to_str().unwrap()]);
        let mut agent = command.stdin(Stdio::null()).stderr(log.reopen().unwrap()).spawn().unwrap();
        let said = || std::fs::read_to_string(log.path()).unwrap();
        let attached = || names.iter().filter(|name| said().contains(&format!("device=\"{name}\""))).count();
        wait_until("the first one is attached", || attached() > 0);
        run(gateway.command("kill").args(["-TERM", &agent.id().to_string()]));
        assert!(agent.wait().unwrap().success(), "{}", said());
        wait_until("nothing is attached any more", || attachments(&gateway) == before);
        attached() < names.len() && said().contains("stopping before anything was measured")
    });
    assert!(ended_early);
}
