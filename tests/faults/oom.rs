//! The kernel kills the agent because its control group is out of memory (Documentation/admin-guide/cgroup-v2.rst, "memory.max").

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::agent::{Agent, PENDULUM};
use crate::rig::{attachments, pair, ping, wait_until};

const ROOT: &str = "/sys/fs/cgroup";
const LINK: &str = "[[link]]\nwan = \"wan0\"\nuplink-rate = \"10mbit\"\ndownlink-rate = \"50mbit\"\n";
/// Less than the agent's own memory, which cannot be swapped out: there is nothing to be won back but by killing it.
const TOO_LITTLE: &str = "2097152";

/// A control group of the test's own. Dropping it removes it.
struct Group(PathBuf);

impl Group {
    /// None, and the reason on stderr, where memory cannot be limited.
    fn new(test: &str) -> Option<Self> {
        let root = Path::new(ROOT);
        let has_memory = |file: &str| {
            let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            text.split_whitespace().any(|controller| controller == "memory")
        };
        if !has_memory("cgroup.controllers") {
            eprintln!("SKIPPED {test}: no memory controller of cgroup v2 at {ROOT}");
            return None;
        }
        // Outside of the guests the groups are somebody else's to arrange.
        let in_guest = std::env::var_os("PENDULUM_IN_VM").is_some();
        if !has_memory("cgroup.subtree_control") {
            if !in_guest {
                eprintln!("SKIPPED {test}: the memory controller is not handed on to groups below {ROOT}");
                return None;
            }
            std::fs::write(root.join("cgroup.subtree_control"), "+memory").unwrap();
        }
        let group = root.join(format!("pendulum-test-{}", std::process::id()));
        match std::fs::create_dir(&group) {
            Ok(()) => Some(Self(group)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Some(Self(group)),
            Err(error) => {
                eprintln!("SKIPPED {test}: {} cannot be made: {error}", group.display());
                None
            }
        }
    }

    fn limit(&self, bytes: &str) {
        std::fs::write(self.0.join("memory.max"), bytes).unwrap();
    }

    /// Processes that were killed in it for want of memory.
    fn killed(&self) -> u64 {
        let events = std::fs::read_to_string(self.0.join("memory.events")).unwrap();
        let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.unwrap().parse().unwrap()
    }

    /// The agent as a member of it.
    fn start<'a>(&self, netns: &'a crate::netns::Netns, arguments: &[&str]) -> Agent<'a> {
        let procs = self.0.join("cgroup.procs");
        let join = ["sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", procs.to_str().unwrap(), PENDULUM, "run"];
        Agent::start_by(netns, &[&join, arguments].concat())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may still be counted.
        wait_until("the control group can be removed", || std::fs::remove_dir(&self.0).is_ok());
    }
}

/// Has the kernel kill the agent while packets pass, all of which have to arrive.
fn kill_by_limit(group: &Group, agent: &mut Agent<'_>, provider: &crate::netns::Netns) {
    let before = group.killed();
    let mut packets = provider.command("ping");
    packets.args(["-q", "-c", "150", "-i", "0.01", "192.0.2.1"]);
    let packets = packets.stdout(Stdio::piped()).spawn().unwrap();
    group.limit(TOO_LITTLE);
    let status = agent.wait_end("a limit on its memory");
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}: {}", agent.log());
    assert_eq!(group.killed(), before + 1);
    let summary = String::from_utf8(packets.wait_with_output().unwrap().stdout).unwrap();
    assert!(summary.contains(" 0% packet loss"), "{summary}");
    ping(provider, "192.0.2.1", 5);
    group.limit("max");
}

#[test]
fn out_of_memory_while_it_measures_and_while_it_shapes() {
    let test = "out_of_memory_while_it_measures_and_while_it_shapes";
    let Some((gateway, provider)) = pair(test) else { return };
    let Some(group) = Group::new(test) else { return };
    let before = attachments(&gateway);
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |text: &str| std::fs::write(file.path(), text).unwrap();
    let arguments = ["--config", file.path().to_str().unwrap()];
    let index = gateway.index("wan0");

    write(LINK);
    let mut agent = group.start(&gateway, &arguments);
    agent.wait_attached("wan0", index);
    let objects = agent.kernel_objects();
    kill_by_limit(&group, &mut agent, &provider);
    crate::agent::KernelObject::wait_gone(&objects);

    // Under the same limit it starts again, and now it shapes.
    write(&format!("{LINK}[shape]\nmode = \"enforce\"\n"));
    let mut agent = group.start(&gateway, &arguments);
    agent.wait_attached("wan0", index);
    let shape = |agent: &Agent<'_>| agent.link("wan0")["shape"].clone();
    agent.wait_until("shaping is decided on", |agent| shape(agent)["state"] != "off");
    if shape(&agent)["state"] == "refused" {
        eprintln!("SKIPPED {test}: {}", shape(&agent)["reason"]);
        return;
    }
    assert_ne!(attachments(&gateway), before);
    kill_by_limit(&group, &mut agent, &provider);

    // What stands there still lets packets pass, and the next start takes it down.
    write(LINK);
    let mut next = group.start(&gateway, &arguments);
    next.wait_attached("wan0", index);
    assert!(next.end("TERM").success(), "{}", next.log());
    wait_until("nothing is attached any more", || attachments(&gateway) == before);
}
