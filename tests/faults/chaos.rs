//! What may happen to a gateway that shapes, in an order that a seed gives, while traffic goes on. After each deed packets pass, no filter
//! leads nowhere, what is not the agent's is as it was, and what the agent tells of the shaper is true.
//!
//! `PENDULUM_CHAOS=FIRST-LASTxDEEDS` takes other seeds, or more deeds of each.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::agent::{Agent, PENDULUM};
use crate::foreign::{Count, Counter, Hook};
use crate::inside::inside;
use crate::netns::{Netns, outcome, run};
use crate::rig::wire;

/// All has to be well so long after a deed.
const SOON: Duration = Duration::from_secs(3);
/// Where the kernel's verifier has to look through programs first, which takes seconds in an emulated guest.
const LOADED: Duration = Duration::from_secs(40);

/// Neither the next program nor filters, as Cilium does it.
const TCX_PASS: i32 = 0;

const ENFORCE: &str = "mode = \"enforce\"";
const MODES: [&str; 5] = [
    "mode = \"off\"",
    ENFORCE,
    "mode = \"enforce\"\nack-filter = \"off\"\ndownlink = true",
    "mode = \"enforce\"\nab-test = \"5s\"",
    "mode = \"dry-run\"",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Start(usize),
    Stop,
    Kill,
    Reload(usize),
    /// `wan0` becomes `old0`, or is `wan0` again.
    Rename,
    Recreate,
    DeleteShaper,
    DeleteClsact,
    /// One of the user's that lets everything go on.
    AddFilter,
    /// One that ends a packet's way through the filters.
    AddTerminalFilter(Hook),
    RemoveFilters,
    AddProgram(Hook),
    RemoveProgram,
    LinkDownAndUp,
    /// A `tbf` or a `cake` at the root of the WAN device.
    AddOtherShaper(&'static str),
    RemoveOtherShaper,
    /// No more than so many kB besides what it has, for a second.
    NoMemory(u64),
    Cleanup,
    /// Time for turns of a comparison.
    Wait,
}

const fn terminal_filter(hook: Hook) -> &'static str {
    match hook {
        Hook::TcxIngress => "ingress pref 8 protocol all u32 match u32 0 0 action ok",
        _ => "egress pref 9 protocol all u32 match u32 0 0 action ok",
    }
}

/// The user's own, and the agent.
struct World<'a> {
    gateway: &'a Netns,
    provider: &'a Netns,
    file: tempfile::NamedTempFile,
    agent: Option<Agent<'a>>,
    mode: usize,
    device: &'static str,
    filters: Vec<&'static str>,
    program: Option<(Hook, Counter)>,
    other_shaper: Option<&'static str>,
    traffic: Traffic,
    /// For the report.
    deeds: Vec<Deed>,
}

impl<'a> World<'a> {
    fn new(gateway: &'a Netns, provider: &'a Netns) -> Self {
        Self {
            gateway,
            provider,
            file: tempfile::NamedTempFile::new().unwrap(),
            agent: None,
            mode: 0,
            device: "wan0",
            filters: Vec::new(),
            program: None,
            other_shaper: None,
            traffic: Traffic::between(gateway, provider),
            deeds: Vec::new(),
        }
    }

    fn shell(&self, command: &str) -> (i32, String) {
        let (code, text, error) = outcome(self.gateway.command("sh").args(["-c", command]));
        (code, text + &error)
    }

    fn must(&self, command: &str) {
        run(self.gateway.command("sh").args(["-c", command]));
    }

    fn configure(&mut self, mode: usize) {
        self.mode = mode;
        let text = format!(
            "[[link]]\nwan = \"wan0\"\nuplink-rate = \"10mbit\"\ndownlink-rate = \"50mbit\"\n[shape]\n{}\n",
            MODES[mode]
        );
        std::fs::write(self.file.path(), text).unwrap();
    }

    /// Whether a deed means anything now.
    fn is_possible(&self, deed: Deed) -> bool {
        let runs = self.agent.is_some();
        match deed {
            Deed::Start(_) => !runs,
            // Without an agent nobody mends what its device took with it: SECURITY.md.
            Deed::DeleteShaper => runs,
            Deed::Stop | Deed::Kill | Deed::Reload(_) | Deed::NoMemory(_) | Deed::Wait => runs,
            Deed::Recreate | Deed::AddOtherShaper(_) => self.device == "wan0" && self.other_shaper.is_none(),
            Deed::AddFilter | Deed::AddTerminalFilter(_) => self.device == "wan0",
            Deed::AddProgram(_) => self.device == "wan0" && self.program.is_none(),
            Deed::RemoveFilters => !self.filters.is_empty(),
            Deed::RemoveProgram => self.program.is_some(),
            Deed::RemoveOtherShaper => self.other_shaper.is_some(),
            Deed::Rename | Deed::DeleteClsact | Deed::LinkDownAndUp | Deed::Cleanup => true,
        }
    }

    fn add_filter(&mut self, filter: &'static str) {
        if self.filters.contains(&filter) {
            return;
        }
        // A clsact that the agent has made is used by others too.
        self.shell(&format!("tc qdisc add dev {} clsact", self.device));
        self.must(&format!("tc filter add dev {} {filter}", self.device));
        self.filters.push(filter);
    }

    fn carry_out(&mut self, deed: Deed) {
        let device = self.device;
        match deed {
            Deed::Start(mode) => {
                self.configure(mode);
                let file = self.file.path().to_str().unwrap().to_owned();
                // The device may have another name just now.
                let mut agent = Agent::start(self.gateway, &["--wait", "--config", &file]);
                agent.wait_until("it is ready", |agent| agent.get("/api/v1/state").is_some());
                self.agent = Some(agent);
            }
            Deed::Stop => {
                let mut agent = self.agent.take().unwrap();
                assert!(agent.end("TERM").success(), "{}", agent.log());
            }
            Deed::Kill => {
                self.agent.take().unwrap().end("KILL");
            }
            Deed::Reload(mode) => {
                self.configure(mode);
                self.agent.as_ref().unwrap().signal("HUP");
            }
            Deed::Rename => {
                self.device = if device == "wan0" { "old0" } else { "wan0" };
                let name = self.device;
                self.must(&format!(
                    "ip link set {device} down; ip link set {device} name {name}; ip link set {name} up"
                ));
            }
            Deed::Recreate => {
                self.must(&format!("ip link del {device}"));
                self.program = None;
                self.filters.clear();
                wire(self.gateway, device, self.provider, "isp", "192.0.2");
            }
            Deed::DeleteShaper => {
                self.shell("for d in $(ls /proc/sys/net/ipv4/conf | grep ^pdl-); do ip link del $d; done");
            }
            Deed::DeleteClsact => {
                self.shell(&format!("tc qdisc del dev {device} clsact"));
                self.filters.clear();
            }
            Deed::AddFilter => {
                self.add_filter("egress pref 7 protocol ip u32 match ip protocol 99 0xff flowid 1:1");
                self.add_filter("ingress pref 7 protocol ip u32 match ip protocol 99 0xff action drop");
            }
            Deed::AddTerminalFilter(hook) => self.add_filter(terminal_filter(hook)),
            Deed::RemoveFilters => {
                for filter in std::mem::take(&mut self.filters) {
                    let words: Vec<&str> = filter.split(' ').take(3).collect();
                    self.must(&format!("tc filter del dev {device} {}", words.join(" ")));
                }
            }
            Deed::AddProgram(hook) => {
                let program = Counter::attach_then(self.gateway, device, hook, Count::All, TCX_PASS);
                self.program = program.map(|program| (hook, program));
            }
            Deed::RemoveProgram => self.program = None,
            Deed::LinkDownAndUp => {
                self.must(&format!("ip link set {device} down; sleep 0.3; ip link set {device} up"));
            }
            Deed::AddOtherShaper(qdisc) => {
                self.must(&format!("tc qdisc add dev {device} root {qdisc}"));
                self.other_shaper = Some(qdisc);
            }
            Deed::RemoveOtherShaper => {
                self.must(&format!("tc qdisc del dev {device} root"));
                self.other_shaper = None;
            }
            Deed::NoMemory(spare) => self.run_out_of_memory(spare),
            Deed::Cleanup => {
                let (code, text) =
                    self.shell(&format!("{PENDULUM} run --cleanup --config {}", self.file.path().display()));
                assert_eq!(code, 0, "{text}");
            }
            Deed::Wait => std::thread::sleep(Duration::from_secs(4)),
        }
    }

    /// What the agent asks for beyond this it does not get, for a second; it may end.
    fn run_out_of_memory(&mut self, spare_kb: u64) {
        let agent = self.agent.as_mut().unwrap();
        let pid = agent.id();
        let limit = |to: &str| run(self.gateway.command("prlimit").args(["--pid", &pid.to_string(), to]));
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        let size: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
        limit(&format!("--as={}:unlimited", (size + spare_kb) << 10));
        self.shell(
            "for i in 1 2 3 4; do curl -s -m 2 -o /dev/null http://127.0.0.1:9924/metrics; done; sleep 1",
        );
        if std::path::Path::new(&format!("/proc/{pid}/exe")).exists() {
            limit("--as=unlimited:unlimited");
        } else {
            self.agent.take().unwrap().wait_end("no memory");
        }
    }

    /// What has not passed since then.
    fn stands_still(&self, from: [u64; 2]) -> Option<&'static str> {
        let [answered, transferred] = self.traffic.passed();
        // The first transfer may have begun before.
        match (answered >= from[0] + 5, transferred >= from[1] + 2) {
            (false, _) => Some("packets do not pass"),
            (_, false) => Some("no transfer comes to its end"),
            _ => None,
        }
    }

    /// What is not well. The agent is asked first: the shell has many programs to start, which keeps an emulated guest from what is waited for.
    fn complaint(&self, from: [u64; 2]) -> Option<String> {
        if let Some(why) = self.stands_still(from) {
            return Some(why.to_owned());
        }
        let reported = match self.agent.as_ref().map(|agent| self.reported(agent)) {
            Some(Err(why)) => return Some(why),
            Some(Ok(reported)) => Some(reported),
            None => None,
        };
        let (_, all) = self.shell(
            "for d in $(ls /proc/sys/net/ipv4/conf); do for s in ingress egress; do \
             tc filter show dev $d $s | sed \"s/^filter/$d $s/\"; done; done 2>/dev/null",
        );
        if all.contains("device *") {
            return Some(format!("a filter leads nowhere:\n{all}"));
        }
        let (_, qdiscs) = self.shell("tc qdisc show; ip -o link show");
        for filter in &self.filters {
            let words: Vec<&str> = filter.split(' ').collect();
            let begin = format!("{} {} ", self.device, words[0]);
            let number = format!("pref {} u32 chain 0 fh", words[2]);
            if !all.lines().any(|line| line.starts_with(&begin) && line.contains(&number)) {
                return Some(format!("the user's filter is gone: {filter}\n{all}"));
            }
        }
        if self.other_shaper.is_some_and(|qdisc| {
            let kind = qdisc.split(' ').next().unwrap();
            !qdiscs.lines().any(|line| {
                line.contains(&format!("qdisc {kind}")) && line.contains(&format!("dev {} root", self.device))
            })
        }) {
            return Some(format!("the user's qdisc is gone:\n{qdiscs}"));
        }
        let redirects = all.contains("to device pdl-up");
        let Some((state, why)) = reported else {
            let is_left = redirects || qdiscs.contains("pdl-") || all.contains("pendulum_");
            let was_cleaned = matches!(self.deeds.last(), Some(Deed::Stop | Deed::Cleanup));
            return (is_left && was_cleaned).then(|| format!("something is left:\n{all}{qdiscs}"));
        };
        let is_true = match state.as_str() {
            "enforcing" => redirects && why.is_none(),
            "ineffective" => redirects && why.is_some(),
            "refused" => !redirects && why.is_some(),
            _ => !redirects,
        };
        (!is_true).then(|| format!("reported {state} ({why:?})\n{all}{qdiscs}"))
    }

    /// What the agent reports of its shaper, and why; an error if it is not what is to be expected.
    fn reported(&self, agent: &Agent) -> Result<(String, Option<String>), String> {
        let state = agent.get("/api/v1/state").ok_or("the agent does not answer")?;
        let state: serde_json::Value = serde_json::from_str(&state.1).unwrap();
        let shape = &state["links"][0]["shape"];
        let (reported, why) = (shape["state"].as_str().unwrap(), shape["reason"].as_str());
        let hooks =
            if self.mode == 2 { &[Hook::TcxEgress, Hook::TcxIngress][..] } else { &[Hook::TcxEgress] };
        let passes_by = hooks.iter().any(|hook| {
            self.program.as_ref().is_some_and(|(at, _)| at == hook)
                || self.filters.contains(&terminal_filter(*hook))
        });
        let throughput = &state["links"][0]["directions"]["up"]["throughput_bps"];
        if self.device == "wan0" && !passes_by && throughput.as_f64() == Some(0.0) {
            return Err(format!("reported {reported}, and nothing of the uplink is measured"));
        }
        let expected: &[&str] = match self.mode {
            _ if self.device != "wan0" => &["off"],
            0 => &["off"],
            4 => &["dry_run"],
            _ if self.other_shaper.is_some() => &["refused", "ineffective", "observing"],
            // What passes by is counted for two seconds of a turn.
            3 if passes_by => &["ineffective", "observing", "enforcing"],
            3 => &["enforcing", "observing"],
            _ if passes_by => &["ineffective"],
            _ => &["enforcing"],
        };
        let report = (reported.to_owned(), why.map(str::to_owned));
        if expected.contains(&reported) {
            Ok(report)
        } else {
            Err(format!("reported {report:?}, expected {expected:?}"))
        }
    }

    fn play(&mut self, deed: Deed) {
        self.deeds.push(deed);
        let loads = matches!(
            deed,
            Deed::Start(_)
                | Deed::Reload(_)
                | Deed::Rename
                | Deed::Recreate
                | Deed::RemoveOtherShaper
                | Deed::NoMemory(_)
        );
        self.carry_out(deed);
        let (began, from) = (Instant::now(), self.traffic.passed());
        // Packets have to pass soon in any case.
        let mut passed = false;
        while let Some(why) = self.complaint(from) {
            passed |= self.stands_still(from).is_none();
            let patience = if loads && passed { LOADED } else { SOON };
            let late = began.elapsed() > patience;
            let log = || self.agent.as_ref().map(Agent::log).unwrap_or_default();
            assert!(!late, "{why}\nafter {:?}\n{}", self.deeds, log());
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("{deed:?}: well after {} ms", began.elapsed().as_millis());
    }

    fn end(mut self) {
        if self.agent.is_some() {
            self.play(Deed::Stop);
        } else {
            self.play(Deed::Cleanup);
        }
    }
}

/// A datagram each 40 ms that is answered, and one transfer after another, there and back.
struct Traffic {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    transferred: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    fn between(gateway: &Netns, provider: &Netns) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let transferred = Arc::new(AtomicU64::new(0));
        let far = inside(provider, || UdpSocket::bind("0.0.0.0:7")).unwrap();
        let near = inside(gateway, || UdpSocket::bind("0.0.0.0:7777")).unwrap();
        for socket in [&far, &near] {
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        }
        let listener = inside(provider, || TcpListener::bind("0.0.0.0:7")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let answers = near.try_clone().unwrap();
        let goes_on = || {
            let stop = Arc::clone(&stop);
            move || !stop.load(Ordering::Relaxed)
        };
        let [sends, echoes, counts, serves, transfers] = [(); 5].map(|()| goes_on());
        let (count, count_transfers) = (Arc::clone(&answered), Arc::clone(&transferred));
        let mut threads = vec![
            std::thread::spawn(move || {
                while sends() {
                    // The device may be gone or down: that is what this is about.
                    let _ = near.send_to(&[0; 1000], "192.0.2.2:7");
                    std::thread::sleep(Duration::from_millis(40));
                }
            }),
            std::thread::spawn(move || {
                let mut buffer = [0; 2000];
                while echoes() {
                    if let Ok((_, from)) = far.recv_from(&mut buffer) {
                        let _ = far.send_to(&[0; 64], from);
                    }
                }
            }),
            std::thread::spawn(move || {
                let mut buffer = [0; 2000];
                while counts() {
                    if answers.recv_from(&mut buffer).is_ok() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }),
            std::thread::spawn(move || {
                while serves() {
                    match listener.accept() {
                        Ok((stream, _)) => drop(return_all(stream)),
                        Err(_) => std::thread::sleep(Duration::from_millis(20)),
                    }
                }
            }),
        ];
        // A thread stays in the namespace of the one that starts it.
        threads.push(inside(gateway, || {
            std::thread::spawn(move || {
                while transfers() {
                    if transfer().is_ok() {
                        count_transfers.fetch_add(1, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(200));
                }
            })
        }));
        Self { stop, answered, transferred, threads }
    }

    /// Answers and transfers.
    fn passed(&self) -> [u64; 2] {
        [&self.answered, &self.transferred].map(|count| count.load(Ordering::Relaxed))
    }
}

/// A transfer that takes longer has failed: the next one is not held up by what was lost.
const TRANSFER: Duration = Duration::from_millis(600);

/// Sends 10 kB and reads them back. What comes back changed is the end of the test.
fn transfer() -> io::Result<()> {
    let address = SocketAddr::from(([192, 0, 2, 2], 7));
    let mut stream = TcpStream::connect_timeout(&address, TRANSFER)?;
    stream.set_read_timeout(Some(TRANSFER))?;
    stream.set_write_timeout(Some(TRANSFER))?;
    let sent: Vec<u8> = (0..10_000_u32).map(|at| (at % 251) as u8).collect();
    stream.write_all(&sent)?;
    stream.shutdown(Shutdown::Write)?;
    let mut back = Vec::new();
    stream.read_to_end(&mut back)?;
    if back.len() == sent.len() {
        assert!(back == sent, "a transfer came back changed");
        return Ok(());
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn return_all(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TRANSFER))?;
    stream.set_write_timeout(Some(TRANSFER))?;
    let mut all = Vec::new();
    stream.read_to_end(&mut all)?;
    stream.write_all(&all)
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "traffic failed");
        }
    }
}

/// Plays these deeds. Says so and returns where the kernel has no cake, or namespaces cannot be made.
fn play(test: &str, deeds: impl IntoIterator<Item = Deed>, most: usize) {
    let Some((gateway, provider)) = crate::rig::pair(test) else { return };
    let probe = "ip link add probe type ifb && tc qdisc add dev probe root cake; found=$?; ip link del probe; exit $found";
    let (code, _, why) = outcome(gateway.command("sh").args(["-c", probe]));
    if code != 0 {
        eprintln!("SKIPPED {test}: no cake in this kernel: {}", why.replace('\n', " "));
        return;
    }
    let mut world = World::new(&gateway, &provider);
    for deed in deeds {
        if world.is_possible(deed) {
            world.play(deed);
        }
        if world.deeds.len() >= most {
            break;
        }
    }
    world.end();
}

#[test]
fn killed_renamed_and_cleaned_up_or_started_it_loses_no_packet() {
    let test = "killed_renamed_and_cleaned_up_or_started_it_loses_no_packet";
    use Deed::{Cleanup, Kill, Recreate, Rename, Start, Stop};
    play(test, [Start(1), Kill, Rename, Cleanup, Rename, Start(1), Kill, Rename, Start(1), Stop], usize::MAX);
    play(test, [Start(2), Kill, Recreate, Start(1), Kill, Start(0), Stop], usize::MAX);
}

#[test]
fn what_others_take_away_is_made_again() {
    use Deed::{AddFilter, Cleanup, DeleteClsact, DeleteShaper, Start};
    let deeds = [Start(2), DeleteShaper, DeleteClsact, AddFilter, DeleteShaper, Cleanup];
    play("what_others_take_away_is_made_again", deeds, usize::MAX);
}

#[test]
fn what_keeps_packets_from_the_shaper_is_reported() {
    use Deed::{
        AddOtherShaper, AddProgram, AddTerminalFilter, Reload, RemoveFilters, RemoveOtherShaper,
        RemoveProgram, Rename, Start,
    };
    let shaper = AddOtherShaper("cake bandwidth 5mbit");
    let first = AddOtherShaper("tbf rate 5mbit burst 5k latency 50ms");
    let deeds = [
        first,
        Start(1),
        Rename,
        Rename,
        Reload(0),
        Reload(1),
        RemoveOtherShaper,
        AddProgram(Hook::TcxEgress),
        RemoveProgram,
        AddTerminalFilter(Hook::TcxEgress),
        RemoveFilters,
        shaper,
        RemoveOtherShaper,
        Reload(2),
        AddProgram(Hook::TcxIngress),
        RemoveProgram,
        AddTerminalFilter(Hook::TcxIngress),
        RemoveFilters,
    ];
    play("what_keeps_packets_from_the_shaper_is_reported", deeds, usize::MAX);
}

/// As many deeds as asked for, in an order by chance.
#[test]
fn whatever_happens_packets_pass_and_the_state_is_true() {
    let asked = std::env::var("PENDULUM_CHAOS").unwrap_or_else(|_| "1-1x10".to_owned());
    let numbers: Vec<u64> =
        asked.split(['-', 'x']).map(|number| number.parse().expect("FIRST-LASTxDEEDS")).collect();
    let [first, last, count] = numbers[..] else { panic!("PENDULUM_CHAOS={asked}: it is FIRST-LASTxDEEDS") };
    for seed in first..=last {
        println!("seed {seed}, {count} deeds");
        let most = usize::try_from(count).unwrap();
        play("whatever_happens_packets_pass_and_the_state_is_true", by_chance(seed), most);
    }
}

fn by_chance(seed: u64) -> impl Iterator<Item = Deed> {
    let mut state = seed;
    // SplitMix64.
    let mut pick = move |most: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % most as u64) as usize
    };
    let hook = |number| if number == 0 { Hook::TcxIngress } else { Hook::TcxEgress };
    std::iter::from_fn(move || {
        Some(match pick(24) {
            0..4 => Deed::Start(1 + pick(3)),
            4 => Deed::Start(pick(MODES.len())),
            5 => Deed::Stop,
            6 | 7 => Deed::Kill,
            8 | 9 => Deed::Reload(pick(MODES.len())),
            10 => Deed::Rename,
            11 => Deed::Recreate,
            12 | 13 => Deed::DeleteShaper,
            14 => Deed::DeleteClsact,
            15 => Deed::AddFilter,
            16 => Deed::AddTerminalFilter(hook(pick(3))),
            17 => Deed::RemoveFilters,
            18 => Deed::AddProgram(hook(pick(3))),
            19 => Deed::RemoveProgram,
            20 => Deed::LinkDownAndUp,
            21 => match pick(3) {
                0 => Deed::RemoveOtherShaper,
                1 => Deed::AddOtherShaper("tbf rate 5mbit burst 5k latency 50ms"),
                _ => Deed::AddOtherShaper("cake bandwidth 5mbit"),
            },
            22 if pick(2) == 0 => Deed::NoMemory([64, 1_000, 8_000][pick(3)]),
            22 => Deed::Wait,
            _ => Deed::Cleanup,
        })
    })
}
