//! The demo from its first word to its last, with the real agent: does it show what it promises, and is everything gone afterwards?
//!
//! Needs root and a built agent; says so and checks nothing where one is missing.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pendulum_lab::record::{Registry, RunRecord};

const DEMO: &str = env!("CARGO_BIN_EXE_pendulum-lab");

/// Three collapses at once on a small machine would disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn skip(reason: &str) {
    let thread = std::thread::current();
    // Not eprintln!: the test harness would keep that to itself.
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {reason}", thread.name().unwrap_or("demo"));
}

/// The agent to show: `PENDULUM_AGENT`, or the one beside the binary under test. `None`, with the reason said, if the test cannot
/// run.
fn agent() -> Option<PathBuf> {
    if !pendulum_lab::is_root() {
        skip("network namespaces need root");
        return None;
    }
    let agent = match std::env::var_os("PENDULUM_AGENT") {
        Some(path) => PathBuf::from(path),
        None => Path::new(DEMO).with_file_name("pendulum"),
    };
    if !agent.is_file() {
        skip(&format!("no agent at {}; build it with `cargo build -p pendulum`", agent.display()));
        return None;
    }
    Some(agent)
}

/// A demo that is ended at the latest with the test.
struct Demo(Child);

impl Demo {
    fn start(agent: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(DEMO);
        command.arg("demo").arg("--agent").arg(agent).args(args);
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Its record once its lab stands and `processes` children have been started.
    fn record(&self, processes: usize) -> RunRecord {
        wait_for("the demo's lab", || record_of(self.0.id()).filter(|run| run.processes().len() >= processes))
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap().success());
    }

    /// Exit code, standard output, standard error.
    fn finish(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.0.wait().unwrap().code(), out, err)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn record_of(pid: u32) -> Option<RunRecord> {
    record_where(|owner| owner == pid)
}

fn record_where(is_owner: impl Fn(u32) -> bool) -> Option<RunRecord> {
    let runs = Registry::system().runs().unwrap();
    runs.into_iter().find(|run| run.owner().is_some_and(|owner| is_owner(owner.pid)))
}

fn parent_of(pid: u32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().to_owned())
}

fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What of a run is still there: its namespaces, its processes, its record.
fn left_of(
    run: &RunRecord,
    namespaces: &[String],
    processes: &[pendulum_lab::process::ProcessIdentity],
) -> Vec<String> {
    let known = text(&Command::new("ip").args(["netns", "list"]).output().unwrap());
    let mut left: Vec<String> = namespaces.iter().filter(|name| known.contains(*name)).cloned().collect();
    left.extend(processes.iter().filter(|process| process.is_alive()).map(|process| format!("{process:?}")));
    left.extend(run.dir().exists().then(|| run.dir().display().to_string()));
    left
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The figures of one row of the table: kernel and agent for each of the three stretches.
fn row(table: &str, label: &str) -> Vec<Option<f64>> {
    let line = table.lines().find(|line| line.trim_start().starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no row `{label}` in\n{table}"));
    let figures = line.trim_start().trim_start_matches(label).split_ascii_whitespace();
    figures.map(|figure| figure.replace(',', "").parse().ok()).collect()
}

#[test]
fn a_short_demo_shows_the_collapse_and_leaves_nothing() {
    let Some(agent) = agent() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // A taken port is answered with another one, so the usual one may be free or not.
    let taken = TcpListener::bind("127.0.0.1:9924");
    let demo = Demo::start(&agent, &["--seconds", "36"]);
    let run = demo.record(2);
    let namespaces = run.namespaces();
    let processes = wait_for("all transfers", || Some(run.processes()).filter(|all| all.len() >= 7));
    let (code, out, err) = demo.finish();
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert_eq!(left_of(&run, &namespaces, &processes), Vec::<String>::new());
    assert!(taken.is_err() || out.contains("127.0.0.1:9924 is in use"), "{out}");
    // What happens is said before it happens, and nothing but text is written where there is no terminal.
    assert!(out.find("http://127.0.0.1:").unwrap() < out.find("download alone").unwrap(), "{out}");
    assert!(!out.contains('\x1b'), "{out:?}");
    assert!(out.lines().filter(|line| line.contains("queues")).count() >= 6, "{out}");

    let download = row(&out, "download, Mb/s");
    let [Some(alone), Some(alone_by_agent), Some(one), Some(_), Some(two), Some(_)] = download[..] else {
        panic!("{download:?} in\n{out}")
    };
    assert!(alone > 1.8 && one < alone / 2.0 && two < alone / 2.0, "{out}");
    assert!((alone_by_agent / alone - 1.0).abs() < 0.1, "{out}");
    assert!(out.contains("That is the collapse."), "{out}");
    let upload = row(&out, "upload, kb/s");
    assert_eq!((upload[0], upload[1]), (None, None), "{out}");
    assert!(upload[2].unwrap() > 100.0 && upload[3].unwrap() > 100.0, "{out}");
    // The uplink buffer, of 30,000 bytes, fills with the upload only.
    let queue = row(&out, "uplink queue max, B");
    assert!(queue[0].unwrap() < 10_000.0 && queue[2].unwrap() > 25_000.0, "{out}");
    let rtt = row(&out, "round trip, median");
    assert!(rtt.len() >= 6, "{out}");
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let Some(agent) = agent() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let demo = Demo::start(&agent, &["--listen", "127.0.0.1:0"]);
    // The agent, three servers and a client.
    let run = demo.record(5);
    let (namespaces, processes) = (run.namespaces(), run.processes());
    demo.signal("-INT");
    let (code, out, err) = demo.finish();
    assert_eq!(code, Some(130), "{out}{err}");
    assert!(err.contains("interrupted"), "{err}");
    assert_eq!(left_of(&run, &namespaces, &processes), Vec::<String>::new());
}

#[test]
fn an_agent_that_dies_is_reported_with_its_last_words() {
    if agent().is_none() {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let script = std::env::temp_dir().join(format!("pendulum-demo-agent-{}", std::process::id()));
    std::fs::write(&script, "#!/bin/sh\necho 'no BTF here' >&2\nexit 69\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
    let demo = Demo::start(&script, &["--listen", "127.0.0.1:0"]);
    let pid = demo.0.id();
    let (code, _, err) = demo.finish();
    std::fs::remove_file(&script).unwrap();
    assert_eq!(code, Some(70), "{err}");
    assert!(err.contains("no BTF here") && err.contains("pendulum-demo-agent-"), "{err}");
    assert!(record_of(pid).is_none());
}

#[test]
fn an_agent_that_is_killed_is_reported_with_its_status() {
    let Some(agent) = agent() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let demo = Demo::start(&agent, &["--listen", "127.0.0.1:0"]);
    let run = demo.record(5);
    let (namespaces, processes) = (run.namespaces(), run.processes());
    // The agent is the first that the demo starts.
    assert!(processes[0].kill());
    let (code, _, err) = demo.finish();
    assert_eq!(code, Some(70), "{err}");
    assert!(err.contains("the agent ended by itself (signal: 9 (SIGKILL))"), "{err}");
    assert_eq!(left_of(&run, &namespaces, &processes), Vec::<String>::new());
}

#[test]
fn what_cannot_be_shown_is_refused_before_anything_is_built() {
    let demo = Demo::start(Path::new("/nonexistent/pendulum"), &[]);
    let pid = demo.0.id();
    let (code, out, err) = demo.finish();
    assert_eq!((code, out.as_str()), (Some(66), ""));
    assert!(err.contains("/nonexistent/pendulum") && err.contains("cargo build"), "{err}");
    assert!(record_of(pid).is_none());
}

/// As `./dev demo --shape` calls it in a guest: the agent is the one beside the program. Here there is none.
#[test]
fn without_a_word_the_agent_beside_the_program_is_shown() {
    // A link, not a copy: while another test's thread forks, its child has the copy open for writing (ETXTBSY).
    let directory = tempfile::tempdir_in(Path::new(DEMO).parent().unwrap()).unwrap();
    let alone = directory.path().join("pendulum-lab");
    std::fs::hard_link(DEMO, &alone).unwrap();
    let output = Command::new(&alone).args(["demo", "--shape"]).output().unwrap();
    assert_eq!(output.status.code(), Some(66), "{}", text(&output));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("there is no agent at pendulum"), "{words}");
}

#[test]
fn a_port_asked_for_and_taken_is_named() {
    let Some(agent) = agent() else { return };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, _, err) = Demo::start(&agent, &["--listen", &address]).finish();
    assert_eq!(code, Some(69), "{err}");
    assert!(err.contains(&address) && err.contains("--listen"), "{err}");
}

/// A terminal of its own: a tmux server under a private name.
struct Terminal {
    name: String,
}

impl Terminal {
    fn start(columns: u32, rows: u32, program: &str) -> Self {
        let name = format!("pendulum-demo-{}", std::process::id());
        let terminal = Self { name };
        let size = [columns.to_string(), rows.to_string()];
        let started =
            terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &size[0], "-y", &size[1], program]);
        assert!(started.status.success(), "{started:?}");
        terminal
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.env("LC_ALL", "C.UTF-8").env_remove("TMUX").env_remove("NO_COLOR");
        command.args(["-u", "-L", &self.name]).args(args).output().unwrap()
    }

    fn shows(&self) -> String {
        text(&self.tmux(&["capture-pane", "-p"]))
    }

    /// What the demo has printed. While `top` draws on the second screen, this one is hidden behind it.
    fn printed(&self) -> String {
        let hidden = self.tmux(&["capture-pane", "-p", "-a"]);
        if hidden.status.success() { text(&hidden) } else { self.shows() }
    }

    fn value(&self, name: &str) -> String {
        text(&self.tmux(&["display-message", "-p", name])).trim().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

/// A whole round, the table, and what of the next round is there when the user has seen enough.
#[test]
fn a_kept_demo_on_a_terminal_shows_top_and_the_table_until_the_user_leaves() {
    let Some(agent) = agent() else { return };
    if Command::new("tmux").arg("-V").output().is_err() {
        skip("tmux is not installed");
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // The shell outlives the demo, so that the terminal can be looked at as the demo has left it.
    let program = format!(
        "trap : INT; '{DEMO}' demo --agent '{}' --listen 127.0.0.1:0 --seconds 30 --keep; echo ended with $?; sleep 1000",
        agent.display()
    );
    let terminal = Terminal::start(100, 60, &program);
    let on = |screen: fn(&Terminal) -> String, what: &str, parts: &[&str]| {
        wait_for(what, || {
            Some(screen(&terminal)).filter(|screen| parts.iter().all(|part| screen.contains(part)))
        })
    };
    let (shows, prints) = (
        |what: &str, parts: &[&str]| on(Terminal::shows, what, parts),
        |what: &str, parts: &[&str]| on(Terminal::printed, what, parts),
    );
    prints("the introduction", &["Why does a download collapse", "/metrics"]);
    let top = ["uplink queue", "downlink queue", "? help"];
    shows("pendulum top", &top);
    assert_eq!(terminal.value("#{alternate_on}"), "1", "top draws on the terminal's second screen");
    let table = prints("the table", &["download, Mb/s", "uplink queue max, B", "Ctrl-C to end it"]);
    // In between no figures run over the terminal: top has them.
    assert!(!table.contains(" s  + one upload") && table.contains("/metrics"), "{table}");
    shows("top in the next round", &top);

    let shell = terminal.value("#{pane_pid}");
    let run = record_where(|pid| parent_of(pid).as_deref() == Some(shell.as_str())).unwrap();
    let (namespaces, processes) = (run.namespaces(), run.processes());
    terminal.tmux(&["send-keys", "C-c"]);
    // A kept demo is meant to be ended so.
    let left = shows("the end", &["ended with 0"]);
    assert!(left.contains("uplink queue max, B") && !left.contains("^C"), "{left}");
    assert_eq!([terminal.value("#{cursor_flag}"), terminal.value("#{alternate_on}")], ["1", "0"]);
    assert_eq!(left_of(&run, &namespaces, &processes), Vec::<String>::new());
}
