//! Named network namespaces, and running things inside them.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::kernel;
use crate::process::{self, Process, ProcessError, ProcessIdentity};
use crate::record::{RecordError, RunRecord};

/// Why a namespace could not be made, entered or removed.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The namespace cannot be opened or entered.
    #[error("cannot enter network namespace {name}: {source}; is the lab still up, and are you root?")]
    Enter {
        /// Name of the namespace.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// A kernel setting was refused.
    #[error("the kernel refuses {name} = {value} inside a namespace: {source}")]
    Sysctl {
        /// Its name as sysctl(8) writes it.
        name: String,
        /// The value wanted.
        value: String,
        /// What the system said.
        source: io::Error,
    },
    /// A command failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The run's record could not be written.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// A named network namespace, as `ip netns` keeps them. Dropping it does not remove it; [`crate::cleanup`] does.
#[derive(Clone, Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Refers to a namespace by name, whether it exists or not.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// Makes the namespace.
    ///
    /// # Errors
    /// If one of that name exists, or the caller is not root.
    pub fn create(&self) -> Result<(), NetnsError> {
        process::run(Command::new("ip").args(["netns", "add", &self.name]))?;
        Ok(())
    }

    /// Removes the name. What is inside goes with the last process in it, at once if there is none.
    ///
    /// # Errors
    /// If it exists and cannot be removed.
    pub fn delete(&self) -> Result<(), NetnsError> {
        match process::run(Command::new("ip").args(["netns", "delete", &self.name])) {
            // Somebody else was quicker.
            Err(_) if !self.exists() => Ok(()),
            result => Ok(result.map(|_| ())?),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is mounted: `/run/netns/NAME`.
    pub fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }

    /// Whether a namespace of this name exists.
    pub fn exists(&self) -> bool {
        self.path().exists()
    }

    /// Calls `action` on a thread that stands inside it. Sockets it opens stay there.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    ///
    /// # Panics
    /// If `action` panics.
    pub fn inside<T: Send>(&self, action: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        let file = self.open()?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| kernel::enter_netns(&file).map(|()| action()));
            match thread.join() {
                Ok(result) => result.map_err(|source| self.enter_error(source)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn open(&self) -> Result<File, NetnsError> {
        File::open(self.path()).map_err(|source| self.enter_error(source))
    }

    fn enter_error(&self, source: io::Error) -> NetnsError {
        NetnsError::Enter { name: self.name.clone(), source }
    }
}

/// One machine of the lab: a namespace and the record of the run it belongs to.
#[derive(Clone, Debug)]
pub struct Host {
    namespace: Namespace,
    record: Arc<RunRecord>,
}

impl Host {
    pub(crate) fn new(namespace: Namespace, record: Arc<RunRecord>) -> Self {
        Self { namespace, record }
    }

    /// The namespace that is this machine.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Where the run keeps its files; it goes with the lab.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.record.dir().to_owned()
    }

    /// A command that will start on this machine, in a process group of its own, and die with the thread that starts it.
    /// Only the network differs from the caller's world: files, users and /sys are the same.
    ///
    /// # Errors
    /// If the namespace is gone.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command, NetnsError> {
        let mut command = Command::new(program);
        kernel::confine(&mut command, Some(self.namespace.open()?));
        Ok(command)
    }

    /// Runs a short command on this machine and returns its standard output.
    ///
    /// # Errors
    /// If it fails.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String, NetnsError> {
        Ok(process::run(self.command(program)?.args(args))?)
    }

    /// Runs a short command on this machine with `input` on its standard input.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn run_with_input(
        &self,
        program: &str,
        args: &[&str],
        input: &str,
    ) -> Result<String, NetnsError> {
        Ok(process::run_with_input(self.command(program)?.args(args), input)?)
    }

    /// Starts a command made by [`Host::command`] beside the lab. `label` begins the names of its output files.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(&self, command: Command, label: &str) -> Result<Process, NetnsError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let process = Process::start(command, &self.record.dir().join(format!("{label}-{count}")))?;
        if let Some(identity) = ProcessIdentity::of(process.id()) {
            self.record.add_process(identity)?;
        }
        Ok(process)
    }

    /// As [`Namespace::inside`].
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    ///
    /// # Panics
    /// If `action` panics.
    pub fn inside<T: Send>(&self, action: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        self.namespace.inside(action)
    }

    /// Writes a value below /proc/sys/net of this machine, `name` as sysctl(8) writes it (`net.ipv4.ip_forward`).
    ///
    /// # Errors
    /// If the kernel refuses the name or the value.
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<(), NetnsError> {
        let path = PathBuf::from("/proc/sys").join(name.replace('.', "/"));
        // /proc/sys/net shows the namespace of the thread that looks.
        self.inside(|| std::fs::write(&path, value))?.map_err(|source| NetnsError::Sysctl {
            name: name.to_owned(),
            value: value.to_owned(),
            source,
        })
    }
}
