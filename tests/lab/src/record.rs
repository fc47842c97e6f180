//! What a run has made, written down before it is made, so that a crash leaves nothing unknown.
//!
//! Each run has a directory `/run/pendulum-lab/<run id>` with line-oriented files: `owner` (the lab's own process),
//! `namespaces` and `processes`. They are only appended to, so that a crash between two lines loses nothing.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::ProcessIdentity;

/// Why the state directory could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}; the lab keeps its records there and needs root", path.display())]
pub struct RecordError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The directory that holds all runs' records.
#[derive(Clone, Debug)]
pub struct Registry {
    root: PathBuf,
}

impl Registry {
    /// The machine's registry, `/run/pendulum-lab`.
    pub fn system() -> Self {
        Self::at("/run/pendulum-lab")
    }

    /// A registry in another directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Opens a record for a new run of this process under an id that no other run has.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn open_run(&self) -> Result<RunRecord, RecordError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let pid = std::process::id();
        let owner = ProcessIdentity::of(pid).ok_or_else(|| RecordError {
            action: "find this process in",
            path: "/proc".into(),
            source: io::ErrorKind::NotFound.into(),
        })?;
        create_dir_all(&self.root)?;
        loop {
            let id = RunId::new(pid, NEXT.fetch_add(1, Ordering::Relaxed));
            // Filled under a hidden name first: a record without an owner must never be seen.
            let draft = self.root.join(format!(".{id}"));
            create_dir_all(&draft)?;
            let record = RunRecord { dir: draft.clone(), id };
            record.append("owner", &identity_line(owner))?;
            let dir = self.root.join(record.id.as_str());
            match fs::rename(&draft, &dir) {
                Ok(()) => return Ok(RunRecord { dir, id: record.id }),
                // A dead run of an earlier process with this number still has the id.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    fs::remove_dir_all(&draft).map_err(failed("remove", &draft))?;
                }
                Err(source) => return Err(RecordError { action: "create", path: dir, source }),
            }
        }
    }

    /// The records of all runs, living or dead.
    ///
    /// # Errors
    /// If the directory exists and cannot be read.
    pub fn runs(&self) -> Result<Vec<RunRecord>, RecordError> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed("read", &self.root))?,
        };
        let mut runs = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed("read", &self.root))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() {
                runs.push(RunRecord { dir: entry.path(), id: RunId(name) });
            }
        }
        Ok(runs)
    }
}

/// A name no other run on this machine has: the process number and a counter, in base 36.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId(String);

impl RunId {
    fn new(pid: u32, count: u32) -> Self {
        Self(format!("{}.{}", base36(pid), base36(count)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The record of one run.
#[derive(Debug)]
pub struct RunRecord {
    dir: PathBuf,
    id: RunId,
}

impl RunRecord {
    /// The run's id.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// The run's directory, where its children's output may be kept as well.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The process that owns this run; `None` if the record is unreadable.
    pub fn owner(&self) -> Option<ProcessIdentity> {
        self.lines("owner").first().and_then(|line| parse_identity(line))
    }

    /// Whether the lab that owns this run still lives. A record whose owner cannot be read counts as living: better to
    /// leave something than to take it from under a running lab.
    pub fn is_alive(&self) -> bool {
        self.lines("owner")
            .first()
            .and_then(|line| parse_identity(line))
            .is_none_or(ProcessIdentity::is_alive)
    }

    /// Notes a namespace that is about to be made.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn add_namespace(&self, name: &str) -> Result<(), RecordError> {
        self.append("namespaces", name)
    }

    /// Notes a process that was started. It dies with the lab anyway (PR_SET_PDEATHSIG); the note is for those that
    /// clear the death signal, as setuid programs do.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn add_process(&self, identity: ProcessIdentity) -> Result<(), RecordError> {
        self.append("processes", &identity_line(identity))
    }

    /// The namespaces noted so far.
    pub fn namespaces(&self) -> Vec<String> {
        self.lines("namespaces")
    }

    /// The processes noted so far; they may have ended.
    pub fn processes(&self) -> Vec<ProcessIdentity> {
        self.lines("processes").iter().filter_map(|line| parse_identity(line)).collect()
    }

    /// Forgets the run. A directory that is gone already is no error: another lab may have cleaned up too.
    ///
    /// # Errors
    /// If the directory cannot be removed.
    pub fn remove(&self) -> Result<(), RecordError> {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(failed("remove", &self.dir)),
        }
    }

    fn append(&self, file: &str, line: &str) -> Result<(), RecordError> {
        let path = self.dir.join(file);
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
            .map_err(failed("write", &path))
    }

    fn lines(&self, file: &str) -> Vec<String> {
        fs::read_to_string(self.dir.join(file)).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

fn create_dir_all(path: &Path) -> Result<(), RecordError> {
    fs::create_dir_all(path).map_err(failed("create", path))
}

fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> RecordError {
    let path = path.to_owned();
    move |source| RecordError { action, path: path.clone(), source }
}

fn identity_line(identity: ProcessIdentity) -> String {
    format!("{} {}", identity.pid, identity.start_ticks)
}

fn parse_identity(line: &str) -> Option<ProcessIdentity> {
    let (pid, start_ticks) = line.split_once(' ')?;
    Some(ProcessIdentity { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()? })
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            break;
        }
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> Registry {
        let root = std::env::temp_dir().join(format!("pendulum-lab-record-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        Registry::at(root)
    }

    #[test]
    fn base36_is_short_and_unique() {
        assert_eq!(base36(0), "0");
        assert_eq!(base36(35), "z");
        assert_eq!(base36(36), "10");
        assert_eq!(base36(4_194_304), "2hwcg");
    }

    #[test]
    fn a_run_of_this_process_lives_and_remembers() {
        let registry = scratch("lives");
        let record = registry.open_run().unwrap();
        record.add_namespace("one").unwrap();
        record.add_namespace("two").unwrap();
        let process = ProcessIdentity { pid: 5, start_ticks: 77 };
        record.add_process(process).unwrap();
        let runs = registry.runs().unwrap();
        assert_eq!(runs.len(), 1);
        assert!(runs[0].is_alive());
        assert_eq!(runs[0].namespaces(), ["one", "two"]);
        assert_eq!(runs[0].processes(), [process]);
        record.remove().unwrap();
        record.remove().unwrap();
        assert!(registry.runs().unwrap().is_empty());
        fs::remove_dir_all(&registry.root).unwrap();
    }

    #[test]
    fn a_run_whose_process_number_was_reused_is_dead() {
        let registry = scratch("reused");
        let dir = registry.root.join("old");
        fs::create_dir_all(&dir).unwrap();
        let me = ProcessIdentity::of(std::process::id()).unwrap();
        let earlier = ProcessIdentity { start_ticks: me.start_ticks - 1, ..me };
        fs::write(dir.join("owner"), identity_line(earlier)).unwrap();
        assert!(!registry.runs().unwrap()[0].is_alive());
        fs::write(dir.join("owner"), "garbled").unwrap();
        assert!(registry.runs().unwrap()[0].is_alive());
        fs::remove_dir_all(&registry.root).unwrap();
    }

    #[test]
    fn two_runs_of_one_process_have_different_ids() {
        let registry = scratch("two");
        let (first, second) = (registry.open_run().unwrap(), registry.open_run().unwrap());
        assert_ne!(first.id(), second.id());
        fs::remove_dir_all(&registry.root).unwrap();
    }
}
