//! Congestion windows of local sockets: the best source that this kernel offers. What each means is documented in
//! `docs/design/queues.md`.

use std::any::Any;
use std::os::fd::AsFd as _;
use std::sync::Mutex;
use std::time::Duration;

use aya::maps::{Array, HashMap, Map, MapData};
use aya::programs::{Program, ProgramError};
use aya::{Btf, Ebpf};
use pendulum_model::named;

use super::abi::{pendulum_cwnd_config, pendulum_flow_key, pendulum_socket};
use super::history::monotonic_ns;
use super::loader::{self, KernelTypes};
use super::map_error;
use super::queue::{first_line, own_netns};
use super::{BpfError, CWND_FENTRY_OBJECT, CWND_PROBE_OBJECT, batch};

named! {
    /// Where congestion windows come from, best first.
    pub enum CwndSource {
        /// At the end of `tcp_ack()`: after each ACK.
        Fexit = "fexit",
        /// At the beginning of `tcp_rcv_established()`: before each segment's ACK is processed.
        Fentry = "fentry",
        /// The tracepoint `tcp_probe`, at the same place.
        Probe = "tcp_probe",
        /// Socket diagnostics: at each reading.
        SockDiag = "sock_diag",
    }
}

impl CwndSource {
    const TRACED: [Self; 3] = [Self::Fexit, Self::Fentry, Self::Probe];

    const fn program(self) -> &'static str {
        match self {
            Self::Fexit => "pendulum_cwnd_after_ack",
            Self::Fentry => "pendulum_cwnd_on_segment",
            Self::Probe | Self::SockDiag => "pendulum_cwnd_probe",
        }
    }
}

/// An attachment of a program, whatever its type; dropping it ends it.
type AttachedLink = Box<dyn Any + Send + Sync>;

/// The source in use. Dropping it takes its program down.
pub struct Cwnd {
    // Before `object`: the link goes before the program that it leads to.
    link: Option<AttachedLink>,
    object: Option<Ebpf>,
    source: CwndSource,
    refused: Vec<(CwndSource, String)>,
}

impl Cwnd {
    /// Take the best source from `best` on down. Never fails: socket diagnostics are the last.
    pub fn start(best: CwndSource) -> Self {
        let mut refused = Vec::new();
        for source in CwndSource::TRACED.into_iter().filter(|source| *source >= best) {
            match load(source) {
                Ok((object, link)) => {
                    return Self { link: Some(link), object: Some(object), source, refused };
                }
                Err(reason) => refused.push((source, reason)),
            }
        }
        Self { link: None, object: None, source: CwndSource::SockDiag, refused }
    }

    /// From here on of those sockets whose segments come in through this device; socket diagnostics tell of all.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the kernel refuses.
    pub fn watch(&mut self, wan: Option<u32>) -> Result<(), BpfError> {
        let name = ".bss";
        let Some(object) = &mut self.object else { return Ok(()) };
        let map = object.map_mut(name).ok_or(BpfError::Missing { what: "map", name })?;
        let mut map: Array<&mut MapData, u32> = map.try_into().map_err(|e| map_error("write", name, e))?;
        map.set(0, wan.unwrap_or(0), 0).map_err(|e| map_error("write", name, e))
    }

    /// A program runs for each segment of each socket of the machine: it is attached only while there are sockets that it is for, and starts
    /// with what is known of them. Until then socket diagnostics tell of all sockets.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the kernel refuses.
    pub fn attach_for(&mut self, sockets: &[(pendulum_flow_key, pendulum_socket)]) -> Result<(), BpfError> {
        let Some(object) = &mut self.object else { return Ok(()) };
        // Without socket diagnostics it stays: nothing else would tell of the next socket.
        if sockets.is_empty() && self.link.is_some() && super::read_sockets().is_ok() {
            self.link = None;
        }
        if sockets.is_empty() || self.link.is_some() {
            return Ok(());
        }
        let name = "sockets";
        let map = object.map_mut(name).ok_or(BpfError::Missing { what: "map", name })?;
        let mut map: HashMap<&mut MapData, pendulum_flow_key, pendulum_socket> =
            map.try_into().map_err(|e| map_error("write", name, e))?;
        for (key, socket) in sockets {
            map.insert(key, socket, 0).map_err(|e| map_error("write", name, e))?;
        }
        let name = self.source.program();
        let program = object.program_mut(name).ok_or(BpfError::Missing { what: "program", name })?;
        match attach(program) {
            Ok(link) => self.link = Some(link),
            Err(error) => {
                self.refused.push((self.source, first_line(&error)));
                (self.object, self.source) = (None, CwndSource::SockDiag);
            }
        }
        Ok(())
    }

    /// Whether its program is attached now.
    pub fn is_attached(&self) -> bool {
        self.link.is_some()
    }

    /// The source in use.
    pub fn source(&self) -> CwndSource {
        self.source
    }

    /// The better sources that this kernel refused, and why.
    pub fn refused(&self) -> &[(CwndSource, String)] {
        &self.refused
    }

    /// Every local socket that took an ACK within `age`. Its own end is "home", as in the flow table.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the map cannot be read, or the kernel refuses socket diagnostics.
    pub fn sockets(&self, age: Duration) -> Result<Vec<(pendulum_flow_key, pendulum_socket)>, BpfError> {
        let name = "sockets";
        let failed = |source| BpfError::Map { action: "read", map: name, source };
        let attached = self.object.as_ref().filter(|_| self.is_attached());
        let sockets = match attached.map(|object| object.map(name)) {
            None => super::read_sockets(),
            Some(Some(Map::LruHashMap(map))) => batch::entries(map.fd().as_fd(), 0),
            Some(_) => return Err(BpfError::Missing { what: "map", name }),
        };
        let mut sockets: Vec<(_, pendulum_socket)> = sockets.map_err(failed)?;
        let oldest = monotonic_ns().saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        sockets.retain(|(_, socket)| socket.at_ns >= oldest);
        Ok(sockets)
    }
}

fn load(source: CwndSource) -> Result<(Ebpf, AttachedLink), String> {
    static CONFIGS: Mutex<Vec<&pendulum_cwnd_config>> = Mutex::new(Vec::new());
    let config = pendulum_cwnd_config { netns: own_netns().map_err(|error| crate::exit::chain(&error))? };
    let bytes = if source == CwndSource::Probe { CWND_PROBE_OBJECT } else { CWND_FENTRY_OBJECT };
    let _types = KernelTypes::keep();
    let no_types = |_| "this kernel has no BTF (/sys/kernel/btf/vmlinux)".to_owned();
    loader::with_types(|_| ()).map_err(no_types)?;
    let config = loader::constant(&CONFIGS, config);
    let mut object = loader::load(bytes, |loader| {
        loader.override_global("config", config, false);
    })
    .map_err(|error| crate::exit::chain(&error))?;
    let program = object.program_mut(source.program()).ok_or("the object lacks the program")?;
    let link = loader::with_types(|types| load_program(program, types))
        .map_err(no_types)?
        .and_then(|()| attach(program))
        .map_err(|error| first_line(&error))?;
    Ok((object, link))
}

fn load_program(program: &mut Program, btf: &Btf) -> Result<(), ProgramError> {
    match program {
        Program::FExit(program) => program.load("tcp_ack", btf),
        Program::FEntry(program) => program.load("tcp_rcv_established", btf),
        Program::BtfTracePoint(program) => program.load("tcp_probe", btf),
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}

fn attach(program: &mut Program) -> Result<AttachedLink, ProgramError> {
    Ok(match program {
        Program::FExit(program) => {
            let id = program.attach()?;
            Box::new(program.take_link(id)?)
        }
        Program::FEntry(program) => {
            let id = program.attach()?;
            Box::new(program.take_link(id)?)
        }
        Program::BtfTracePoint(program) => {
            let id = program.attach()?;
            Box::new(program.take_link(id)?)
        }
        _ => return Err(ProgramError::UnexpectedProgramType),
    })
}
