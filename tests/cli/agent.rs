//! A running agent, and how the tests talk to it.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use pendulum_lab::agent::{Agent as Unguarded, exchange};
use pendulum_lab::netns::Namespace;
use serde_json::Value;

use crate::netns::{Netns, run};

/// The binary under test.
pub(crate) const PENDULUM: &str = env!("CARGO_BIN_EXE_pendulum");

/// How long anything is waited for. Generous: a loaded machine must not fail a test.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long one answer is waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(40);

/// A running `pendulum run`. Dropping it kills it.
pub(crate) struct Agent<'a> {
    netns: &'a Netns,
    child: Child,
    log: tempfile::NamedTempFile,
    /// Of one that is not asked by plain HTTP: where it answers, and what curl needs to be let in.
    guarded: Option<(String, Vec<String>)>,
}

impl<'a> Agent<'a> {
    /// Starts the agent inside and waits until it answers.
    pub(crate) fn start(netns: &'a Netns, arguments: &[&str]) -> Self {
        Self::start_with(netns, arguments, &[])
    }

    /// As [`Self::start`], with these environment variables.
    pub(crate) fn start_with(netns: &'a Netns, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let command = [&[PENDULUM, "run"], arguments].concat();
        Self::spawn(netns, &command, tempfile::NamedTempFile::new().unwrap(), environment)
    }

    /// As [`Self::start`], by a whole command that becomes the agent.
    pub(crate) fn start_by(netns: &'a Netns, command: &[&str]) -> Self {
        Self::spawn(netns, command, tempfile::NamedTempFile::new().unwrap(), &[])
    }

    /// As [`Self::start`], with a stderr that is said to be the journal (systemd.exec(5), JOURNAL_STREAM).
    /// journald's own socket is looked for in `socket_directory`.
    pub(crate) fn start_for_journal(netns: &'a Netns, socket_directory: &Path, arguments: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let metadata = log.as_file().metadata().unwrap();
        let stream = format!("{}:{}", metadata.dev(), metadata.ino());
        let script = "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && \
                      mount --bind \"$0\" /run/systemd/journal && exec \"$@\"";
        let directory = socket_directory.to_str().unwrap();
        let hidden = ["unshare", "--mount", "sh", "-c", script, directory, PENDULUM, "run"];
        let command = [&hidden, arguments].concat();
        Self::spawn(netns, &command, log, &[("JOURNAL_STREAM", &stream)])
    }

    /// As [`Self::start`], for an agent that answers at another origin, or only who knows something.
    pub(crate) fn start_guarded(
        netns: &'a Netns,
        arguments: &[&str],
        origin: &str,
        credentials: &[&str],
    ) -> Self {
        let command = [&[PENDULUM, "run"], arguments].concat();
        let mut agent = Self::launch(netns, &command, tempfile::NamedTempFile::new().unwrap(), &[]);
        let credentials = credentials.iter().map(|&option| option.to_owned()).collect();
        agent.guarded = Some((origin.to_owned(), credentials));
        agent.wait_until_it_answers()
    }

    fn spawn(
        netns: &'a Netns,
        command: &[&str],
        log: tempfile::NamedTempFile,
        environment: &[(&str, &str)],
    ) -> Self {
        Self::launch(netns, command, log, environment).wait_until_it_answers()
    }

    fn launch(
        netns: &'a Netns,
        command: &[&str],
        log: tempfile::NamedTempFile,
        environment: &[(&str, &str)],
    ) -> Self {
        let (program, arguments) = command.split_first().unwrap();
        let mut command = netns.command(program);
        command.args(arguments).stdin(Stdio::null()).stderr(log.reopen().unwrap());
        command.env_remove("JOURNAL_STREAM").envs(environment.iter().copied());
        let child = command.spawn().unwrap();
        Self { netns, child, log, guarded: None }
    }

    fn wait_until_it_answers(mut self) -> Self {
        self.wait_until("it answers", |agent| agent.get("/healthz").is_some_and(|(status, _)| status == 200));
        self
    }

    /// `GET path`: status and body, or none while nobody answers. An emulated guest takes as long to start curl as the agent to answer.
    pub(crate) fn get(&self, path: &str) -> Option<(u16, String)> {
        let Some((origin, credentials)) = &self.guarded else {
            let ask = || exchange(Unguarded::ADDRESS, path, ANSWER_WITHIN);
            return Namespace::named(&self.netns.name).inside(ask).unwrap().ok();
        };
        let url = format!("{origin}{path}");
        let output = self
            .netns
            .command("curl")
            .args(["--silent", "--max-time", &ANSWER_WITHIN.as_secs().to_string()])
            .args(["--write-out", "\n%{http_code}", &url])
            .args(credentials)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n')?;
        status.parse().ok().filter(|status| *status != 0).map(|status| (status, body.to_owned()))
    }

    /// The JSON of a successful `GET path`.
    pub(crate) fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path).unwrap_or_else(|| panic!("no answer:\n{}", self.log()));
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// One link of the state.
    pub(crate) fn link(&self, name: &str) -> Value {
        let state = self.json("/api/v1/state");
        let links = state["links"].as_array().unwrap();
        links.iter().find(|link| link["name"] == name).cloned().unwrap_or_else(|| panic!("no link {name}"))
    }

    /// Waits until `condition` holds.
    pub(crate) fn wait_until(&mut self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition(self) {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the agent ended with {status} while waiting until {what}:\n{}", self.log());
            }
            assert!(Instant::now() < deadline, "waited in vain until {what}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the link's programs are attached to this device.
    pub(crate) fn wait_attached(&mut self, link: &str, ifindex: u64) {
        self.wait_until("the programs are attached to the device", |agent| {
            agent.link(link)["hooks"]["ifindex"] == ifindex
        });
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, signal: &str) {
        run(Command::new("kill").args(["-s", signal, &self.id().to_string()]));
    }

    /// Sends a signal by name and waits for the end.
    pub(crate) fn end(&mut self, signal: &str) -> ExitStatus {
        self.signal(signal);
        self.wait_end(signal)
    }

    /// Waits for the end that something has brought about.
    pub(crate) fn wait_end(&mut self, cause: &str) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the agent does not end on {cause}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The process id. `nsenter` has become the agent.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The links to devices, programs and maps it holds in the kernel. The link of the program that follows local sockets comes and goes
    /// with them, those of other tests too.
    pub(crate) fn kernel_objects(&self) -> Vec<KernelObject> {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fdinfo", self.id())).unwrap();
        // A descriptor may be closed while we look.
        let infos = descriptors.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
        let mut objects: Vec<KernelObject> = infos
            .filter_map(|info| KernelObject::from_fdinfo(&info))
            .filter(|object| object.kind != "link" || object.ifindex.is_some())
            .collect();
        objects.sort_unstable();
        objects
    }

    /// The ifindexes its links lead to.
    pub(crate) fn hooked(&self) -> Vec<u64> {
        self.kernel_objects().iter().filter_map(|object| object.ifindex).collect()
    }

    /// What it wrote to stderr.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A BPF link, program or map in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KernelObject {
    kind: &'static str,
    id: u64,
    pub(crate) ifindex: Option<u64>,
}

impl KernelObject {
    fn from_fdinfo(info: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().parse().ok()
        };
        let object = |kind, id| Self { kind, id, ifindex: None };
        match (field("link_id"), field("prog_id"), field("map_id")) {
            (Some(id), ..) => Some(Self { ifindex: field("ifindex"), ..object("link", id) }),
            (None, Some(id), _) => Some(object("prog", id)),
            (None, None, id) => id.map(|id| object("map", id)),
        }
    }

    fn exists(&self) -> bool {
        let mut command = Command::new("bpftool");
        command
            .args([self.kind, "show", "id", &self.id.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().unwrap().success()
    }

    /// Waits until the kernel has let go of all of these; it does so a moment after the last descriptor is closed.
    pub(crate) fn wait_gone(objects: &[Self]) {
        let deadline = Instant::now() + PATIENCE;
        while let Some(left) = objects.iter().find(|object| object.exists()) {
            assert!(Instant::now() < deadline, "{left:?} is left in the kernel");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
