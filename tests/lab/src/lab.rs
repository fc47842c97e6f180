//! A whole lab: machines, wires, and the bottleneck. It takes itself down when dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::segment::{Direction, PerDirection};

use crate::capacity::{Bottleneck, LinkReading, Trace};
use crate::cleanup::{self, CleanupError};
use crate::clock::HostClocks;
use crate::delay::{self, DelayError, Delays};
use crate::kernel;
use crate::line::{Line, LineEnded, Treatment};
use crate::nat::{self, NatError};
use crate::netns::{Host, Namespace, NetnsError};
use crate::record::{RecordError, Registry, RunId, RunRecord};
use crate::shaper::{Shaper, ShaperError};
use crate::topology::{self, BufferPlace, LINK_DEVICE, Role, Wire};

/// A sender keeps the hash of its socket after a timeout if this is 0. veth hands that hash on to the gateway, whose qdiscs put packets into queues by it
/// (`skb_get_hash()`, `cake_hash()`): with another hash a flow would get a second queue. Behind a real wire a gateway computes the hash from the header.
const TXREHASH: &str = "net.core.txrehash";

/// The wires of a lab carry packets before that, or something is wrong with them.
const CARRIER_WITHIN: Duration = Duration::from_secs(60);

/// What the bottleneck link is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// From R1 to the gateway: its buffer stands at the provider.
    pub downlink: Shaper,
    /// From the gateway to R1.
    pub uplink: Shaper,
    /// Where the uplink's buffer stands.
    pub uplink_buffer_at: BufferPlace,
    /// Whether the gateway translates addresses.
    pub nat: bool,
    /// The clocks behind the hosts' TCP timestamps.
    pub clocks: HostClocks,
    /// Delays of the wires.
    pub delays: Delays,
    /// Whether checksum, TSO, GSO and GRO offloads of the veth devices stay on. Off is the default and what all experiments use: packets
    /// then have wire size everywhere, checksums are real, and veth keeps no GRO ring, which would be a second queue.
    pub offloads: bool,
}

impl LinkSpec {
    /// The link of paper 000, Fig. 1: 2.4 Mb/s and 196 kb/s with 30,000 bytes at both ends.
    pub const FIG1: Self = Self {
        downlink: Shaper { rate: bits_per_second(2_400_000), buffer: BufferSize::Bytes(30_000) },
        uplink: Shaper { rate: bits_per_second(196_000), buffer: BufferSize::Bytes(30_000) },
        uplink_buffer_at: BufferPlace::Gateway,
        nat: false,
        clocks: HostClocks::LINUX,
        delays: Delays::NONE,
        offloads: false,
    };

    /// Whether some wire needs a line by itself.
    fn has_lines(&self) -> bool {
        let clocks = Role::ALL.into_iter().any(|role| self.clocks.ticks(role).is_some());
        clocks || self.delays != Delays::NONE
    }
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self::FIG1
    }
}

const fn bits_per_second(value: u64) -> Rate {
    match Rate::from_bits_per_second(value) {
        Some(rate) => rate,
        None => panic!("a rate constant must not be zero"),
    }
}

/// Why a lab could not be built.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Not root.
    #[error(
        "building network namespaces needs root; run it with sudo, or in a container with CAP_NET_ADMIN and CAP_SYS_ADMIN"
    )]
    NotRoot,
    /// A machine, wire or queue could not be made.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The run's record could not be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Leftovers of a dead run could not be removed.
    #[error("cannot remove what a dead lab run has left: {0}")]
    Leftovers(#[source] CleanupError),
    /// A buffer that no packet fits in.
    #[error(transparent)]
    Shaper(#[from] ShaperError),
    /// A delay or a clock cannot be made.
    #[error(transparent)]
    Delay(#[from] DelayError),
    /// Addresses cannot be translated.
    #[error(transparent)]
    Nat(#[from] NatError),
    /// A wire does not come up.
    #[error("{device} in {namespace} has no carrier {} s after both its ends were set up; `dmesg` may say why", CARRIER_WITHIN.as_secs())]
    NoCarrier {
        /// One end of the wire.
        device: String,
        /// Where it is.
        namespace: String,
    },
    /// A wire of a running lab is dead.
    #[error(transparent)]
    Line(#[from] LineEnded),
}

/// A running lab. Several may run at once. Dropping it ends its processes and removes its namespaces.
#[derive(Debug)]
pub struct Lab {
    record: Arc<RunRecord>,
    spec: LinkSpec,
    traces: Traces,
    ports_used: AtomicU16,
    lines: Vec<Line>,
    /// Which of the lines is the bottleneck's, if it is one.
    bottleneck: Option<usize>,
}

/// The traces of a link whose capacity changes; a direction without one has its rate.
pub type Traces = PerDirection<Option<Arc<Trace>>>;

impl Lab {
    /// Removes leftovers of dead runs, then builds the machines of paper 000, Fig. 2 and the given link.
    ///
    /// # Errors
    /// If the caller is not root, a tool is missing, or the kernel refuses. Nothing is left behind then.
    pub fn start(spec: LinkSpec) -> Result<Self, LabError> {
        Self::start_with(spec, Traces::default())
    }

    /// The same, with a link that follows traces. A direction with a trace has no qdisc at all: its buffer, of the size that the spec
    /// names, in bytes of IP packets, stands in the wire between gateway and provider, and the spec's rate is only what the agent may have configured.
    ///
    /// # Errors
    /// As [`Lab::start`].
    pub fn start_with(spec: LinkSpec, traces: Traces) -> Result<Self, LabError> {
        if !kernel::is_root() {
            return Err(LabError::NotRoot);
        }
        spec.uplink.check()?;
        spec.downlink.check()?;
        let traced = traces.up.is_some() || traces.down.is_some();
        if spec.offloads && (spec.has_lines() || traced) {
            return Err(DelayError::Offloads.into());
        }
        let registry = Registry::system();
        cleanup::remove_leftovers(&registry).map_err(LabError::Leftovers)?;
        // From here on the drop guard removes whatever exists when a step fails.
        let record = Arc::new(registry.open_run()?);
        let (ports_used, lines) = (AtomicU16::new(0), Vec::new());
        let mut lab = Self { record, spec, traces, ports_used, lines, bottleneck: None };
        lab.make_machines()?;
        lab.make_wires()?;
        for (direction, shaper) in [(Direction::Up, spec.uplink), (Direction::Down, spec.downlink)] {
            if lab.traces[direction].is_none() {
                let (host, device) = lab.queue(direction);
                shaper.install(&host, device)?;
            }
        }
        if spec.nat {
            nat::install(&lab.gateway())?;
        }
        lab.start_lines()?;
        lab.wait_for_carriers()?;
        Ok(lab)
    }

    /// The id that all names of this lab carry.
    pub fn id(&self) -> &RunId {
        self.record.id()
    }

    /// The link it was built with.
    pub fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// Where files that go with the lab may lie.
    pub fn directory(&self) -> &std::path::Path {
        self.record.dir()
    }

    /// One machine.
    pub fn host(&self, role: Role) -> Host {
        Host::new(Namespace::named(self.namespace_name(role)), Arc::clone(&self.record))
    }

    /// The home gateway (R2), with `wan0` towards the provider and `lan0` towards the home.
    pub fn gateway(&self) -> Host {
        self.host(Role::Gateway)
    }

    /// Whether a direction follows a trace: then its buffer is no qdisc, and [`Lab::link_reading`] has the truth.
    pub fn is_traced(&self, direction: Direction) -> bool {
        self.traces[direction].is_some()
    }

    /// What a direction that follows a trace has done since the trace began; `None` for one without.
    pub fn link_reading(&self, direction: Direction) -> Option<LinkReading> {
        self.lines.get(self.bottleneck?)?.reading(entrance(direction))
    }

    /// Lets the traces of both directions begin again, at one moment, which is returned.
    pub fn restart_traces(&self) -> Instant {
        let now = Instant::now();
        if let Some(line) = self.bottleneck.and_then(|index| self.lines.get(index)) {
            line.restart(now);
        }
        now
    }

    /// The machine and the device whose root qdisc is the buffer of a direction without a trace: what reads it has the truth.
    pub fn queue(&self, direction: Direction) -> (Host, &'static str) {
        let (role, device) = match direction {
            Direction::Up => self.spec.uplink_buffer_at.uplink_queue(),
            Direction::Down => (Role::R1, LINK_DEVICE),
        };
        (self.host(role), device)
    }

    /// Says so if a wire of the lab no longer carries anything. Whoever keeps a lab for longer should ask now and then: else a dead wire looks
    /// like a link that everybody is silent on.
    ///
    /// # Errors
    /// [`LineEnded`], for the first such wire.
    pub fn check(&self) -> Result<(), LineEnded> {
        self.lines.iter().try_for_each(Line::check)
    }

    /// A TCP port for a server that no earlier call has returned. 1,000 ports are in use at most before they repeat.
    pub(crate) fn next_port(&self) -> u16 {
        const FIRST: u16 = 5201;
        FIRST + self.ports_used.fetch_add(1, Ordering::Relaxed) % 1000
    }

    /// Takes the lab down now and says whether that worked; dropping it does the same in silence.
    ///
    /// # Errors
    /// The first thing that could not be removed; the next start tries again.
    pub fn stop(mut self) -> Result<(), CleanupError> {
        self.lines.clear();
        cleanup::remove_run(&self.record)
    }

    fn namespace_name(&self, role: Role) -> String {
        format!("pdl-{}-{role}", self.id())
    }

    /// The namespace in the middle of a wire, and what happens there; `None` for a wire that is one veth pair.
    fn middle(&self, wire: &Wire) -> Option<(String, Treatment)> {
        let ends = [wire.a.0, wire.b.0];
        let delay = self.spec.delays.between(ends[0], ends[1]);
        let clocks = ends.map(|role| self.spec.clocks.ticks(role));
        let name = || format!("pdl-{}-{}-{}", self.id(), ends[0], ends[1]);
        let traced = Self::is_bottleneck(wire) && (self.traces.up.is_some() || self.traces.down.is_some());
        let needed = traced || !delay.is_zero() || clocks.iter().any(Option::is_some);
        needed.then(|| (name(), Treatment { delay, clocks }))
    }

    /// Whether a wire is the one that the link's traces, if any, belong to: the provider's.
    fn is_bottleneck(wire: &Wire) -> bool {
        wire.a == (Role::R1, LINK_DEVICE)
    }

    /// The bottlenecks at both ends of its wire, R1's first.
    fn bottlenecks(&self) -> [Option<Bottleneck>; 2] {
        let spec = PerDirection { up: self.spec.uplink, down: self.spec.downlink };
        let mut ends = [None, None];
        for direction in [Direction::Up, Direction::Down] {
            ends[entrance(direction)] = self.traces[direction]
                .as_ref()
                .map(|trace| Bottleneck::new(Arc::clone(trace), spec[direction].buffer_bytes()));
        }
        ends
    }

    fn wires(&self) -> Vec<Wire> {
        topology::wires(self.spec.uplink_buffer_at)
    }

    fn middles(&self) -> impl Iterator<Item = (String, Treatment, bool)> {
        self.wires().into_iter().filter_map(|wire| {
            let (name, treatment) = self.middle(&wire)?;
            Some((name, treatment, Self::is_bottleneck(&wire)))
        })
    }

    fn roles(&self) -> impl Iterator<Item = Role> + use<> {
        Role::all(self.spec.uplink_buffer_at)
    }

    /// The names of all namespaces of the lab: its machines, and what is in the middle of wires.
    fn namespaces(&self) -> impl Iterator<Item = String> {
        self.roles().map(|role| self.namespace_name(role)).chain(self.middles().map(|(name, ..)| name))
    }

    fn make_machines(&self) -> Result<(), LabError> {
        for namespace in self.namespaces().map(Namespace::named) {
            self.record.add_namespace(namespace.name())?;
            namespace.create()?;
        }
        Ok(())
    }

    fn start_lines(&mut self) -> Result<(), LabError> {
        let middles: Vec<_> = self.middles().collect();
        for (name, treatment, is_bottleneck) in middles {
            let host = Host::new(Namespace::named(name), Arc::clone(&self.record));
            let bottlenecks = if is_bottleneck { self.bottlenecks() } else { [None, None] };
            if is_bottleneck {
                self.bottleneck = Some(self.lines.len());
            }
            self.lines.push(delay::start_line(&host, treatment, bottlenecks)?);
        }
        Ok(())
    }

    fn make_wires(&self) -> Result<(), LabError> {
        let wires = self.wires();
        let wiring = topology::wiring_commands(
            &wires,
            |role| self.namespace_name(role),
            |wire| self.middle(wire).map(|(name, _)| name),
        );
        // Started inside a machine of the lab, so that no device ever shows up outside.
        self.gateway().run_with_input("ip", &["-batch", "-"], &wiring)?;
        for role in self.roles() {
            let host = self.host(role);
            self.configure(role, &host, &wires)?;
            host.run_with_input("ip", &["-batch", "-"], &topology::machine_commands(role, &wires))?;
        }
        Ok(())
    }

    /// The kernel takes up to a second to notice that a wire has both its ends, longer where it is busy. Until then it drops what is sent.
    fn wait_for_carriers(&self) -> Result<(), LabError> {
        let end = Instant::now() + CARRIER_WITHIN;
        for name in self.namespaces() {
            let host = Host::new(Namespace::named(name), Arc::clone(&self.record));
            while let Some(device) = without_carrier(&host)? {
                if Instant::now() > end {
                    return Err(LabError::NoCarrier {
                        device,
                        namespace: host.namespace().name().to_owned(),
                    });
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    fn configure(&self, role: Role, host: &Host, wires: &[Wire]) -> Result<(), NetnsError> {
        if role.is_router() {
            host.set_sysctl("net.ipv4.ip_forward", "1")?;
            host.set_sysctl("net.ipv6.conf.all.forwarding", "1")?;
        }
        if role.is_endpoint() {
            // Otherwise a connection starts with the ssthresh of the one before it.
            host.set_sysctl("net.ipv4.tcp_no_metrics_save", "1")?;
            host.set_sysctl(TXREHASH, "0")?;
            self.spec.clocks.configure(role, host)?;
        }
        if !self.spec.offloads {
            for device in topology::devices(role, wires) {
                host.run(
                    "ethtool",
                    &["-K", device, "tx", "off", "sg", "off", "tso", "off", "gso", "off", "gro", "off"],
                )?;
            }
        }
        Ok(())
    }
}

/// The first end of a wire that is not up yet, by the state that RFC 2863 defines.
fn without_carrier(host: &Host) -> Result<Option<String>, NetnsError> {
    let shown = host.run("ip", &["-o", "link", "show", "type", "veth"])?;
    let down = shown.lines().find(|line| !line.contains(" state UP "));
    Ok(down.map(|line| line.split(&[' ', '@']).nth(1).unwrap_or(line).to_owned()))
}

/// The end of the bottleneck's wire at which a direction's packets come in: R1's is the first.
const fn entrance(direction: Direction) -> usize {
    match direction {
        Direction::Down => 0,
        Direction::Up => 1,
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Their sockets would keep the namespaces alive.
        self.lines.clear();
        // Nobody is left to tell; the record stays in that case and the next start tries again.
        let _ = cleanup::remove_run(&self.record);
    }
}
