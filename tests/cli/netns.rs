//! A machine of the test's own: a network namespace that goes with the test.

use std::process::{Command, Output};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// A network namespace. Dropping it removes it, and with it the devices inside.
pub(crate) struct Netns {
    pub(crate) name: String,
}

static NEXT: AtomicU32 = AtomicU32::new(0);
static SWEPT: Once = Once::new();

/// Removes what a killed run of these tests has left. A name carries the process it belongs to.
fn remove_those_of_the_dead() {
    let Ok(names) = std::fs::read_dir("/run/netns") else { return };
    for name in names.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let owner = name.strip_prefix("pcli-").and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !std::path::Path::new("/proc").join(pid).exists()) {
            // Another run may be at it too.
            let _ = Command::new("ip").args(["netns", "delete", &name]).output();
        }
    }
}

impl Netns {
    /// A new namespace, or none and the reason on stderr where namespaces cannot be made.
    pub(crate) fn new(test: &str) -> Option<Self> {
        if !caps::has_cap(None, caps::CapSet::Effective, caps::Capability::CAP_SYS_ADMIN).unwrap_or(false) {
            eprintln!("SKIPPED {test}: network namespaces need root");
            return None;
        }
        SWEPT.call_once(remove_those_of_the_dead);
        let name = format!("pcli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run(Command::new("ip").args(["netns", "add", &name]));
        let netns = Self { name };
        netns.ip("link set dev lo up");
        Some(netns)
    }

    /// A namespace with a link to a provider: `wan0`, 192.0.2.1, up; the provider's end is 192.0.2.2 in the second
    /// namespace.
    pub(crate) fn with_provider(test: &str) -> Option<(Self, Self)> {
        let gateway = Self::new(test)?;
        let provider = Self::new(test)?;
        gateway.add_wan("wan0", &provider);
        Some((gateway, provider))
    }

    /// Adds a link to `provider` under this name.
    pub(crate) fn add_wan(&self, device: &str, provider: &Self) {
        self.ip(&format!("link add {device} type veth peer name isp netns {}", provider.name));
        self.ip(&format!("address add 192.0.2.1/24 dev {device}"));
        provider.ip("address add 192.0.2.2/24 dev isp");
        provider.ip("link set dev isp up");
        self.ip(&format!("link set dev {device} up"));
    }

    /// `ip ARGUMENTS` inside; it has to succeed.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        run(Command::new("ip").args(["-n", &self.name]).args(arguments.split(' ')))
    }

    /// A command that will run inside.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).arg("--").arg(program);
        command
    }

    /// What is attached to the devices inside: XDP, TCX and TC programs, qdiscs.
    pub(crate) fn hooks(&self) -> String {
        let programs = run(self.command("bpftool").args(["-j", "net", "show"]));
        let qdiscs = run(self.command("tc").args(["qdisc", "show"]));
        format!("{programs}\n{qdiscs}")
    }

    /// The ifindex of a device inside.
    pub(crate) fn index(&self, device: &str) -> u64 {
        let links: serde_json::Value =
            serde_json::from_str(&self.ip(&format!("-j link show dev {device}"))).unwrap();
        links[0]["ifindex"].as_u64().unwrap()
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let removed = Command::new("ip").args(["netns", "delete", &self.name]).status();
        if !removed.is_ok_and(|status| status.success()) {
            eprintln!("network namespace {} could not be removed", self.name);
        }
    }
}

/// Runs a command that has to succeed; gives its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The exit code and both outputs of a command that may fail.
pub(crate) fn outcome(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}
