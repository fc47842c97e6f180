//! `pendulum top` on a terminal of its own (tmux), beside a real agent.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::agent::{Agent, PENDULUM};
use crate::netns::{Netns, outcome};

/// A tmux server under a private name, with one window in a namespace. Its shell outlives the program, so that the
/// terminal can be looked at as the program has left it.
pub(crate) struct Terminal {
    name: String,
}

impl Terminal {
    const PATIENCE: Duration = Duration::from_secs(90);

    pub(crate) fn start(netns: &Netns, size: (u32, u32), arguments: &str) -> Self {
        // A server that is being killed still holds its name for a moment.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let terminal = Self { name: format!("pendulum-top-{}-{number}", netns.name) };
        let program = format!(
            "nsenter --net=/run/netns/{} -- '{PENDULUM}' top {arguments}; echo ended with $?; exec sleep 1000",
            netns.name
        );
        let (columns, rows) = (size.0.to_string(), size.1.to_string());
        let started =
            terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, &program]);
        assert!(started.status.success(), "{started:?}");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.env("LC_ALL", "C.UTF-8").env_remove("TMUX").env_remove("NO_COLOR");
        command.args(["-u", "-L", &self.name]).args(arguments).output().unwrap()
    }

    fn shows(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    fn value(&self, format: &str) -> String {
        let output = self.tmux(&["display-message", "-p", format]).stdout;
        String::from_utf8_lossy(&output).trim().to_owned()
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Waits until all of these are on the screen, and gives it.
    pub(crate) fn wait_for(&self, parts: &[&str]) -> String {
        self.wait_until(&format!("{parts:?}"), |screen| parts.iter().all(|part| screen.contains(part)))
    }

    fn wait_until(&self, what: &str, condition: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + Self::PATIENCE;
        loop {
            let screen = self.shows();
            if condition(&screen) {
                return screen;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what} in\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The second screen, raw mode and the hidden cursor are gone.
    fn assert_restored(&self) {
        self.wait_for(&["ended with"]);
        assert_eq!(self.value("#{alternate_on} #{cursor_flag}"), "0 1");
        let tty = self.value("#{pane_tty}");
        let settings = Command::new("stty").args(["-F", &tty, "-a"]).output().unwrap();
        let settings = String::from_utf8_lossy(&settings.stdout).into_owned();
        assert!(settings.contains(" icanon") && settings.contains(" echo "), "{settings}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

pub(crate) fn have_tmux(test: &str) -> bool {
    let there = Command::new("tmux").arg("-V").output().is_ok();
    if !there {
        eprintln!("SKIPPED {test}: tmux is not installed");
    }
    there
}

/// A gateway, its provider, and an agent between them.
fn gateway(test: &str) -> Option<(Netns, Netns)> {
    if have_tmux(test) { Netns::with_provider(test) } else { None }
}

/// Keeps a connection open over which a little goes all the time.
pub(crate) struct Talk(Vec<std::process::Child>);

impl Talk {
    pub(crate) fn start(gateway: &Netns, provider: &Netns) -> Self {
        const SERVER: &str = "import socket
connection, _ = socket.create_server(('192.0.2.2', 5201)).accept()
while connection.recv(65536): pass";
        const CLIENT: &str = "import socket, time
while True:
    try: connection = socket.create_connection(('192.0.2.2', 5201)); break
    except ConnectionError: time.sleep(0.05)
while True: connection.sendall(bytes(20000)); time.sleep(0.05)";
        let python = |netns: &Netns, script| {
            netns.command("python3").args(["-c", script]).stderr(Stdio::null()).spawn().unwrap()
        };
        Self(vec![python(provider, SERVER), python(gateway, CLIENT)])
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_link_and_its_flows_are_shown_and_keys_work() {
    let Some((gateway, provider)) = gateway("a_link_and_its_flows_are_shown_and_keys_work") else { return };
    let rates = ["--uplink-rate", "10mbit", "--downlink-rate", "100mbit"];
    let mut agent = Agent::start(&gateway, &[&["--wan", "wan0"][..], &rates[..]].concat());
    agent.wait_attached("wan0", gateway.index("wan0"));
    let _talk = Talk::start(&gateway, &provider);
    let terminal = Terminal::start(&gateway, (100, 30), "");
    terminal.wait_for(&["wan0", "10.0 Mbit/s", "uplink queue", "downlink queue", "192.0.2.2:5201"]);
    // Attempts before the server listens are flows, too.
    terminal.wait_for(&["phase 30 s", "internet RTT", "http://127.0.0.1:9924", "flows 1–", ", by rate"]);
    // Figures move: what goes up is some hundred kilobytes a second.
    terminal.wait_until("throughput", |screen| {
        screen.lines().any(|line| line.starts_with("▲ up") && line.contains("Mbit/s"))
    });
    assert_eq!(terminal.value("#{alternate_on}"), "1");

    terminal.press(&["r"]);
    let hidden = terminal.wait_for(&["192.0.x.x", "r show addresses"]);
    assert!(!hidden.contains("192.0.2.2"), "{hidden}");
    terminal.press(&["r"]);
    terminal.press(&["s"]);
    terminal.wait_for(&["by bytes", "192.0.2.2:5201"]);
    terminal.press(&["/", "nobody"]);
    terminal.wait_for(&["/nobody", "0 match"]);
    terminal.press(&["Escape"]);
    terminal.wait_for(&["192.0.2.2:5201", "q leave"]);
    terminal.press(&["?"]);
    terminal.wait_for(&["sort flows by the next figure"]);
    terminal.press(&["?"]);
    terminal.press(&["+"]);
    terminal.wait_for(&["phase 60 s"]);

    for (columns, rows) in [(60, 16), (160, 50), (30, 5), (90, 24)] {
        terminal.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        match (columns, rows) {
            (30, 5) => terminal.wait_for(&["too small"]),
            _ => terminal.wait_until("the new size", |screen| {
                let widest = screen.lines().map(|line| line.chars().count()).max().unwrap_or_default();
                widest > columns - 5
                    && widest <= columns
                    && screen.lines().any(|line| line.starts_with("▲ up"))
            }),
        };
    }
    terminal.press(&["q"]);
    terminal.wait_for(&["ended with 0"]);
    terminal.assert_restored();
}

#[test]
fn an_agent_that_goes_is_named_and_one_that_comes_is_shown() {
    let Some((gateway, _provider)) = gateway("an_agent_that_goes_is_named_and_one_that_comes_is_shown")
    else {
        return;
    };
    let terminal = Terminal::start(&gateway, (100, 30), "--url http://127.0.0.1:9924/");
    terminal.wait_for(&["No answer from http://127.0.0.1:9924", "refused", "systemctl status pendulum"]);
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    terminal.wait_for(&["wan0 on wan0", "uplink queue"]);
    agent.end("TERM");
    // The last figures stay, and are called old.
    terminal.wait_for(&["NO ANSWER", "No answer from", "wan0 on wan0"]);
    let _agent = Agent::start(&gateway, &["--wan", "wan0"]);
    terminal.wait_until("fresh figures", |screen| {
        screen.contains("wan0 on wan0") && !screen.contains("No answer")
    });
    terminal.press(&["C-c"]);
    terminal.wait_for(&["ended with 0"]);
    terminal.assert_restored();
}

#[test]
fn a_signal_leaves_the_terminal_in_order() {
    let Some((gateway, _provider)) = gateway("a_signal_leaves_the_terminal_in_order") else { return };
    for signal in ["TERM", "HUP"] {
        let terminal = Terminal::start(&gateway, (80, 24), "");
        terminal.wait_for(&["No answer"]);
        // The shell's only child is top itself: nsenter has become it.
        let shell = terminal.value("#{pane_pid}");
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        let killed = Command::new("kill").args(["-s", signal, children.trim()]).status().unwrap();
        assert!(killed.success());
        terminal.wait_for(&["ended with 0"]);
        terminal.assert_restored();
    }
}

#[test]
fn somebody_else_on_the_port_is_no_agent() {
    let Some((gateway, _provider)) = gateway("somebody_else_on_the_port_is_no_agent") else { return };
    let mut server = gateway
        .command("python3")
        .args(["-m", "http.server", "--bind", "127.0.0.1", "8000", "--directory", "/run/netns"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let terminal = Terminal::start(&gateway, (100, 20), "--url 127.0.0.1:8000");
    terminal.wait_for(&["is no pendulum agent", "is this the right port?"]);
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn an_agent_with_a_token_is_shown_to_who_has_it() {
    let Some((gateway, _provider)) = gateway("an_agent_with_a_token_is_shown_to_who_has_it") else { return };
    let directory = tempfile::tempdir().unwrap();
    let (token, config) = (directory.path().join("token"), directory.path().join("pendulum.toml"));
    std::fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
    let text = format!("[http]\ntoken-file = \"{}\"\n[[link]]\nwan = \"wan0\"\n", token.display());
    std::fs::write(&config, text).unwrap();
    let _agent = Agent::start(&gateway, &["--config", config.to_str().unwrap()]);
    let without = Terminal::start(&gateway, (100, 20), "");
    without.wait_for(&["the agent wants a token", "--token-file"]);
    drop(without);
    let with = Terminal::start(&gateway, (100, 20), &format!("--token-file '{}'", token.display()));
    with.wait_for(&["wan0 on wan0", "▲ up"]);
}

#[test]
fn what_cannot_be_shown_is_refused() {
    for (arguments, code, part) in [
        (&["--url", "ftp://gateway"][..], 64, "neither http nor https"),
        (&["--ca", "/nonexistent"][..], 64, "would begin with https://"),
        (&["--url", "http://gateway:0"][..], 64, "the port is not a number from 1 to 65535"),
        (&[][..], 69, "needs a terminal"),
        (&["--token-file", "/nonexistent"][..], 66, "/nonexistent"),
    ] {
        let mut command = Command::new(PENDULUM);
        let (ended, out, err) = outcome(command.arg("top").args(arguments).stdin(Stdio::null()));
        assert_eq!((ended, out.as_str()), (code, ""), "{err}");
        assert!(err.contains(part), "{err}");
    }
}

/// The SSH connection goes, and the terminal with it: nothing stays behind.
#[test]
fn it_ends_with_its_terminal() {
    let Some((gateway, _provider)) = gateway("it_ends_with_its_terminal") else { return };
    let terminal = Terminal::start(&gateway, (80, 24), "");
    terminal.wait_for(&["http://127.0.0.1:9924"]);
    let running = || {
        let output = Command::new("ip").args(["netns", "pids", &gateway.name]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(!running().is_empty());
    drop(terminal);
    let deadline = Instant::now() + Terminal::PATIENCE;
    while !running().is_empty() {
        assert!(Instant::now() < deadline, "still there: {}", running());
        std::thread::sleep(Duration::from_millis(50));
    }
}
