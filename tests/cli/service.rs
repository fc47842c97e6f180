//! What a service manager hears (sd_notify(3)).

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::agent::Agent;
use crate::netns::Netns;

/// Messages until one has this line; panics if it does not come.
fn wait_for(socket: &UnixDatagram, line: &str) -> Vec<String> {
    let mut messages = Vec::new();
    loop {
        let mut message = [0; 1024];
        let length = socket
            .recv(&mut message)
            .unwrap_or_else(|error| panic!("{line} did not come ({error}); before it: {messages:?}"));
        messages.push(String::from_utf8(message[..length].to_vec()).unwrap());
        if messages.last().is_some_and(|message| message.lines().any(|found| found == line)) {
            return messages;
        }
    }
}

#[test]
fn the_service_manager_hears_start_life_reload_and_end() {
    let Some((gateway, _provider)) =
        Netns::with_provider("the_service_manager_hears_start_life_reload_and_end")
    else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "400000")];
    let mut agent = Agent::start_with(&gateway, &["--wan", "wan0"], &environment);

    wait_for(&socket, "READY=1");
    agent.wait_until("it measures", |agent| agent.get("/readyz").is_some_and(|(status, _)| status == 200));
    wait_for(&socket, "WATCHDOG=1");
    wait_for(&socket, "WATCHDOG=1");
    agent.signal("HUP");
    let reloading = wait_for(&socket, "RELOADING=1");
    assert!(reloading.last().unwrap().contains("MONOTONIC_USEC="), "{reloading:?}");
    wait_for(&socket, "READY=1");
    assert!(agent.end("TERM").success());
    wait_for(&socket, "STOPPING=1");
}
