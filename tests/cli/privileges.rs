//! The agent under the restrictions of its systemd unit: deploy/systemd/pendulum.service.
//!
//! No service manager is needed: user, capabilities and mounts are set up as the unit says, and the system calls that the agent
//! then makes are held against the unit's filter.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::agent::{Agent, PENDULUM};
use crate::netns::{Netns, run};

const UNIT: &str = include_str!("../../deploy/systemd/pendulum.service");

/// Bits of CAP_NET_ADMIN, CAP_PERFMON and CAP_BPF (linux/capability.h).
const THREE: u64 = 1 << 12 | 1 << 38 | 1 << 39;
const NET_ADMIN: u64 = 1 << 12;

/// All values of a setting of the unit, in its order.
fn unit(setting: &str) -> impl Iterator<Item = &'static str> {
    UNIT.lines().filter_map(move |line| line.strip_prefix(setting)?.strip_prefix('='))
}

/// `-all,+bpf,…` of setpriv(1) for the unit's capabilities.
fn capabilities() -> String {
    let names = unit("AmbientCapabilities").flat_map(str::split_whitespace);
    let wanted = names.map(|name| format!(",+{}", name.strip_prefix("CAP_").unwrap().to_lowercase()));
    format!("-all{}", wanted.collect::<String>())
}

/// A copy of the agent that everybody may run: the original may lie in a directory of root's.
pub(crate) struct Copy {
    directory: tempfile::TempDir,
}

impl Copy {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // By another process: one that a test starts meanwhile would hold the file open for writing, and it could not be run (ETXTBSY).
        run(Command::new("cp").args([PENDULUM, directory.path().to_str().unwrap()]));
        run(Command::new("chmod").args(["-R", "a+rx", directory.path().to_str().unwrap()]));
        Self { directory }
    }

    pub(crate) fn program(&self) -> String {
        self.directory.path().join("pendulum").to_str().unwrap().to_owned()
    }

    /// The command that becomes the agent as nobody, with the unit's capabilities and everything mounted read-only.
    fn confined(&self, arguments: &[&str]) -> Vec<String> {
        let readonly = "for at in / /sys /proc/sys; do mount -o bind $at $at && mount -o remount,bind,ro $at; done; exec \"$@\"";
        let mut command: Vec<String> =
            ["unshare", "--mount", "--propagation=private", "sh", "-c", readonly, "sh"]
                .map(str::to_owned)
                .into();
        let capabilities = capabilities();
        command.extend(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
                .map(str::to_owned),
        );
        command.extend([format!("--inh-caps={capabilities}"), format!("--ambient-caps={capabilities}")]);
        command.push(format!("--bounding-set={capabilities}"));
        command.extend([self.program(), "run".to_owned()]);
        command.extend(arguments.iter().map(|&argument| argument.to_owned()));
        command
    }
}

/// A set of capabilities of a process: `CapEff`, `CapPrm`, `CapBnd`, `CapAmb`, `CapInh`.
fn held(agent: &Agent<'_>, set: &str) -> u64 {
    held_by(&agent.id().to_string(), set).unwrap()
}

/// The same of a process or a thread, by its path below /proc; nothing if it has ended.
fn held_by(task: &str, set: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{task}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(set)?.strip_prefix(':'))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Where the uplink's queue is read, and where congestion windows would come from. Both must be had without traffic: other tests'
/// connections on this machine decide whether a window is shown.
fn sources(agent: &Agent<'_>) -> (serde_json::Value, Option<String>) {
    let log = agent.log();
    let windows = log.lines().find_map(|line| line.split_once("congestion windows of local sockets"));
    let queue = agent.link("wan0")["directions"]["up"]["queue"]["source"].clone();
    (queue, windows.map(|(_, source)| source.to_owned()))
}

#[test]
fn three_capabilities_and_nobody_measure_as_root_does() {
    let Some((gateway, provider)) =
        Netns::with_provider("three_capabilities_and_nobody_measure_as_root_does")
    else {
        return;
    };
    assert_eq!(capabilities(), "-all,+bpf,+perfmon,+net_admin");
    assert_eq!(unit("CapabilityBoundingSet").next(), unit("AmbientCapabilities").next());
    run(gateway
        .command("tc")
        .args("qdisc replace dev wan0 root handle 1: tbf rate 10mbit burst 5k limit 30000".split(' ')));
    // The event log has a thread of its own.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[[link]]\nwan = \"wan0\"\n[events]\nlog = \"/dev/full\"\n").unwrap();
    let mut root = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    root.wait_attached("wan0", gateway.index("wan0"));
    // Until the first packet nothing distinguishes an exact queue from one that netlink reads.
    let packets = || run(gateway.command("ping").args(["-c", "3", "-i", "0.05", "192.0.2.2"]));
    packets();
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    // The first readings come a moment after the programs hang.
    root.wait_until("it reads the queue", |root| {
        let (queue, windows) = sources(root);
        ["netlink", "tracepoint"].iter().any(|&source| queue == source) && windows.is_some()
    });
    let expected = sources(&root);
    assert_eq!((held(&root, "CapEff"), held(&root, "CapBnd")), (THREE, THREE), "root gives up all else");
    for thread in std::fs::read_dir(format!("/proc/{}/task", root.id())).unwrap() {
        let thread = thread.unwrap().file_name().into_string().unwrap();
        // One that only had something to read may have ended since.
        let Some(effective) = held_by(&format!("{}/task/{thread}", root.id()), "CapEff") else { continue };
        assert!(effective == THREE || effective == 0, "thread {thread} has {effective:x}");
    }
    assert!(root.end("TERM").success());

    let copy = Copy::new();
    let command = copy.confined(&["--wan", "wan0"]);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let before = gateway.hooks();
    let mut agent = Agent::start_by(&gateway, &command);
    agent.wait_attached("wan0", gateway.index("wan0"));
    for (set, allowed) in
        [("CapEff", THREE), ("CapPrm", THREE), ("CapAmb", 0), ("CapInh", 0), ("CapBnd", THREE)]
    {
        assert_eq!(held(&agent, set) & !allowed, 0, "{set}\n{}", agent.log());
    }
    packets();
    agent.wait_until("its sources are those of root's", |agent| sources(agent) == expected);
    // What the unit withholds on purpose is no reason to warn.
    assert!(!agent.log().contains("WARN"), "{}", agent.log());
    run(gateway.command("ping").args(["-c", "3", "-i", "0.05", "192.0.2.2"]));
    agent.wait_until("packets are counted", |agent| {
        agent.link("wan0")["directions"]["up"]["bytes"].as_u64().is_some_and(|bytes| bytes >= 3 * 98)
    });
    gateway.ip("link delete dev wan0");
    agent.wait_until("the loss is seen", |agent| agent.link("wan0")["device"] == "missing");
    gateway.add_wan("wan0", &provider);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let objects = agent.kernel_objects();
    assert!(agent.end("TERM").success(), "{}", agent.log());
    crate::agent::KernelObject::wait_gone(&objects);
    gateway.ip("link delete dev wan0");
    gateway.add_wan("wan0", &provider);
    run(gateway
        .command("tc")
        .args("qdisc replace dev wan0 root handle 1: tbf rate 10mbit burst 5k limit 30000".split(' ')));
    let same = |hooks: String| hooks.split("bfifo").next().unwrap().to_owned();
    assert_eq!(same(gateway.hooks()), same(before));
}

#[test]
fn an_agent_without_privileges_measures_on_and_leaves_nothing() {
    let Some((gateway, _provider)) =
        Netns::with_provider("an_agent_without_privileges_measures_on_and_leaves_nothing")
    else {
        return;
    };
    let before = gateway.hooks();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[[link]]\nwan = \"wan0\"\n[privileges]\nafter-start = \"none\"\n").unwrap();
    let mut agent = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    // Filters of clsact are taken off by netlink; TCX links go with their descriptors.
    let allowed = if agent.link("wan0")["hooks"]["egress"] == "clsact" { NET_ADMIN } else { 0 };
    assert_eq!((held(&agent, "CapEff"), held(&agent, "CapPrm")), (allowed, allowed), "{}", agent.log());
    run(gateway.command("ping").args(["-c", "3", "-i", "0.05", "192.0.2.2"]));
    agent.wait_until("packets are counted", |agent| {
        agent.link("wan0")["directions"]["up"]["bytes"].as_u64().is_some_and(|bytes| bytes >= 3 * 98)
    });
    agent.wait_until("the flow table is read", |agent| agent.link("wan0")["maps"][0]["capacity"].is_u64());
    let objects = agent.kernel_objects();
    assert!(agent.end("TERM").success(), "{}", agent.log());
    crate::agent::KernelObject::wait_gone(&objects);
    assert_eq!(gateway.hooks(), before);
}

#[test]
fn an_agent_without_privileges_refuses_links_that_a_new_file_adds() {
    let test = "an_agent_without_privileges_refuses_links_that_a_new_file_adds";
    let Some((gateway, _provider)) = Netns::with_provider(test) else { return };
    gateway.ip("link add wan1 type veth peer name far1");
    gateway.ip("link set wan1 up");
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |links: &str| {
        std::fs::write(file.path(), format!("{links}[privileges]\nafter-start = \"none\"\n")).unwrap();
    };
    let start = "[[link]]\nwan = \"wan0\"\nuplink-rate = \"10mbit\"\n";
    write(start);
    let mut agent = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    let index = gateway.index("wan0");
    agent.wait_attached("wan0", index);
    let objects = agent.kernel_objects();
    let config = |agent: &Agent<'_>| agent.json("/api/v1/state")["config"].clone();

    // One whose device is there, and one that would only find out when its device comes; with each a change that could be made.
    for (refused, wan) in [(1, "wan1"), (2, "ppp7")] {
        write(&format!("{}[[link]]\nwan = \"{wan}\"\n", start.replace("10mbit", "5mbit")));
        agent.signal("HUP");
        agent.wait_until("the file is refused", |agent| config(agent)["reloads_refused"] == refused);
        let reason = config(&agent)["error"].as_str().unwrap().to_owned();
        for part in [&format!("link {wan}: "), "CAP_BPF", "privileges.after-start = \"reattach\"", "restart"]
        {
            assert!(reason.contains(part), "no '{part}' in: {reason}");
        }
        let state = agent.json("/api/v1/state");
        assert_eq!(state["links"].as_array().map(Vec::len), Some(1), "{state:#}");
        assert_eq!(state["links"][0]["link"]["uplink_rate_bps"], 10_000_000);
    }
    assert_eq!(agent.kernel_objects(), objects);
    assert!(agent.hooked().contains(&index));

    // What needs no rights is taken over, and the file that was refused is no longer held against it.
    write(&start.replace("10mbit", "5mbit"));
    agent.signal("HUP");
    agent.wait_until("the rate is taken over", |agent| {
        agent.link("wan0")["link"]["uplink_rate_bps"] == 5_000_000
    });
    assert!(config(&agent)["error"].is_null());
    assert!(agent.end("TERM").success(), "{}", agent.log());
}

/// The system calls that one line of `SystemCallFilter=` stands for.
fn expand(names: &str) -> Option<BTreeSet<String>> {
    let mut calls = BTreeSet::new();
    for name in names.split_whitespace() {
        if !name.starts_with('@') {
            calls.insert(name.to_owned());
            continue;
        }
        let output = Command::new("systemd-analyze").args(["syscall-filter", name]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let members =
            text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        for member in members {
            calls.extend(expand(member)?);
        }
    }
    Some(calls)
}

/// As systemd.exec(5): the first line starts an allow list, `~` takes away from it.
fn allowed_calls() -> Option<BTreeSet<String>> {
    let mut allowed = BTreeSet::new();
    for line in unit("SystemCallFilter") {
        match line.strip_prefix('~') {
            None => allowed.extend(expand(line)?),
            Some(denied) => {
                let denied = expand(denied)?;
                allowed.retain(|call| !denied.contains(call));
            }
        }
    }
    // Always allowed, says the manual page.
    allowed.extend(expand("@default execve exit_group")?);
    Some(allowed)
}

fn calls_of(trace: &Path, program: &str) -> BTreeSet<String> {
    let trace = std::fs::read_to_string(trace).unwrap();
    let own = trace.lines().skip_while(|line| !line.contains(&format!("execve(\"{program}\""))).skip(1);
    let name = |line: &str| {
        let call = line.split_once(' ')?.1.trim_start();
        let call = call.strip_prefix("<... ").unwrap_or(call);
        let end = call.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        (end > 0 && !call.starts_with("resuming")).then(|| call[..end].to_owned())
    };
    own.filter_map(name).collect()
}

#[test]
fn the_units_filter_allows_what_the_agent_calls() {
    let Some((gateway, provider)) = Netns::with_provider("the_units_filter_allows_what_the_agent_calls")
    else {
        return;
    };
    let tools = ["strace", "systemd-analyze"];
    if let Some(missing) = tools.iter().find(|tool| Command::new(tool).arg("--version").output().is_err()) {
        eprintln!("SKIPPED the_units_filter_allows_what_the_agent_calls: {missing} is not installed");
        return;
    }
    let Some(allowed) = allowed_calls() else { panic!("systemd-analyze does not tell its filter sets") };
    assert!(allowed.contains("bpf") && !allowed.contains("mount") && !allowed.contains("setuid"));
    let copy = Copy::new();
    let trace: PathBuf = copy.directory.path().join("trace");
    let file = copy.directory.path().join("pendulum.toml");
    std::fs::write(&file, "[[link]]\nwan = \"wan0\"\n").unwrap();
    let confined = copy.confined(&["--config", file.to_str().unwrap()]);
    // -D: the agent stays this process' own child, and strace watches from outside.
    let mut command = vec!["strace", "-D", "-f", "-qq", "-o", trace.to_str().unwrap()];
    command.extend(confined.iter().map(String::as_str));
    let mut agent = Agent::start_by(&gateway, &command);
    agent.wait_attached("wan0", gateway.index("wan0"));
    agent.signal("HUP");
    agent
        .wait_until("it was reloaded", |agent| agent.json("/api/v1/state")["config"]["reloads_applied"] == 1);
    agent.get("/metrics").unwrap();
    gateway.ip("link delete dev wan0");
    agent.wait_until("the loss is seen", |agent| agent.link("wan0")["device"] == "missing");
    gateway.add_wan("wan0", &provider);
    agent.wait_attached("wan0", gateway.index("wan0"));
    assert!(agent.end("TERM").success(), "{}", agent.log());

    let called = calls_of(&trace, &copy.program());
    assert!(called.contains("bpf") && called.contains("epoll_wait"), "{called:?}");
    let refused: Vec<&String> = called.difference(&allowed).collect();
    assert!(refused.is_empty(), "the unit refuses {refused:?}");
}
