//! `bpf/queue/queue.bpf.c` compiled for this machine (`native/harness.c`): the same source with a clock, a qdisc and packets that the
//! test makes up, so that every figure is known beforehand.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use pendulum_model::segment::Direction;

/// Length of a tick of a mark's clock.
pub(crate) const TICK_NS: u64 = 4096;

/// What a packet is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Data,
    Ack,
}

/// The word that TC leaves in a packet, by `bpf/common/mark.h`: magic 0x2a, direction, class, 24 bits of time.
pub(crate) const fn mark(direction: Direction, kind: Kind, at_ns: u64) -> u32 {
    0x2a << 26 | (direction as u32) << 25 | (kind as u32) << 24 | (at_ns / TICK_NS % (1 << 24)) as u32
}

/// Named numbers that the harness printed in one line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures(HashMap<String, u64>);

impl Figures {
    fn parse(words: &[&str]) -> Self {
        let pair = |pair: &[&str]| (pair[0].to_owned(), pair[1].parse().expect("a number"));
        Self(words.chunks_exact(2).map(pair).collect())
    }

    /// The figure of this name.
    pub(crate) fn get(&self, name: &str) -> u64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no figure {name} in {self:?}"))
    }

    /// Those of `name.data` and `name.ack`.
    pub(crate) fn pair(&self, name: &str) -> [u64; 2] {
        ["data", "ack"].map(|kind| self.get(&format!("{name}.{kind}")))
    }

    /// Those of `name.0`, `name.1` ….
    pub(crate) fn row<const N: usize>(&self, name: &str) -> [u64; N] {
        std::array::from_fn(|at| self.get(&format!("{name}.{at}")))
    }

    /// Bytes, packets, ACK bytes, ACK packets.
    pub(crate) fn level(&self) -> [u64; 4] {
        ["bytes", "packets", "ack_bytes", "ack_packets"].map(|name| self.get(name))
    }
}

/// All that the programs keep of a direction at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// `struct pendulum_queue`, with the open bucket.
    pub(crate) queue: Figures,
    /// The ring in the order of time, without the open bucket.
    pub(crate) ring: Vec<Figures>,
    /// Time in the queue: data, ACKs.
    pub(crate) sojourns: Vec<Figures>,
    /// Where it lies, mark, time in ticks.
    pub(crate) departures: Vec<[u64; 3]>,
}

/// Commands for the harness, in order.
pub(crate) struct Script {
    text: String,
    program: &'static Path,
}

impl Script {
    /// An empty one; `None`, with the reason printed, where nothing can be compiled: in the guests.
    pub(crate) fn new(test: &str) -> Option<Self> {
        static PROGRAM: OnceLock<Option<(PathBuf, tempfile::TempDir)>> = OnceLock::new();
        match PROGRAM.get_or_init(compile) {
            Some((program, _)) => Some(Self { text: String::new(), program }),
            None => {
                println!("SKIPPED {test}: no C compiler, or no sources, on this machine");
                None
            }
        }
    }

    /// Add one command.
    pub(crate) fn say(&mut self, command: impl AsRef<str>) {
        let _ = writeln!(self.text, "{}", command.as_ref());
    }

    /// Run all of it; what each `show` printed.
    pub(crate) fn run(&self) -> Vec<Shown> {
        let mut command = Command::new(self.program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the harness starts");
        // It reads all its input before it is waited for; what it prints may be more than a pipe holds.
        let mut input = child.stdin.take().expect("piped");
        let output = std::thread::scope(|scope| {
            scope.spawn(move || input.write_all(self.text.as_bytes()).expect("the harness reads"));
            child.wait_with_output().expect("it ends")
        });
        assert!(output.status.success(), "the harness ends with {}", output.status);
        parse(&String::from_utf8(output.stdout).expect("text"))
    }

    /// The same, of a script that shows once.
    pub(crate) fn run_once(&self) -> Shown {
        let mut shown = self.run();
        assert_eq!(shown.len(), 1, "the script shows once");
        shown.remove(0)
    }
}

fn parse(text: &str) -> Vec<Shown> {
    let (mut all, mut shown) = (Vec::new(), Shown::default());
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let figures = || Figures::parse(&words[1..]);
        match words[0] {
            "queue" => shown.queue = figures(),
            "bucket" => shown.ring.push(figures()),
            "sojourns" => shown.sojourns.push(figures()),
            "departure" => shown.departures.push(["index", "mark", "left"].map(|name| figures().get(name))),
            _ => {
                shown.ring.sort_by_key(|bucket| bucket.get("number"));
                all.push(std::mem::take(&mut shown));
            }
        }
    }
    all
}

/// The harness with the sources as they are. gcc: clang looks into assembly that is not used, and this is not its machine's.
fn compile() -> Option<(PathBuf, tempfile::TempDir)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let harness = root.join("tests/queue/native/harness.c");
    let directory = tempfile::tempdir().expect("a scratch directory");
    let program = directory.path().join("harness");
    let mut command = Command::new("gcc");
    command.args(["-std=gnu11", "-O1", "-w", "-I"]).arg(root.join("tests/queue/native"));
    command.arg("-I").arg(root.join("bpf")).arg(&harness).arg("-o").arg(&program);
    if !harness.exists() || Command::new("gcc").arg("--version").output().is_err() {
        return None;
    }
    let output = command.output().expect("gcc runs");
    assert!(output.status.success(), "gcc: {}", String::from_utf8_lossy(&output.stderr));
    Some((program, directory))
}
