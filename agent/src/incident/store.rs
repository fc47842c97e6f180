//! The files of incidents. A thread of its own writes them: a slow disk never holds up measuring.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use pendulum_model::degree::Severity;
use pendulum_wire as wire;
use tracing::warn;

use super::Incident;

/// Bounds of what is kept.
const MOST: usize = 100;
const MOST_BYTES: u64 = 20 << 20;
/// A file of ours is smaller than this, and so is what is in it.
const FILE_BYTES: u64 = 1 << 20;
const TEXT_BYTES: u64 = 16 << 20;
/// Finished recordings that may wait for the disk.
const WAITING: usize = 4;
/// Incidents tell when a household uses its link.
const FILE_MODE: u32 = 0o640;
const DIRECTORY_MODE: u32 = 0o750;
/// Time for the last recordings at the end.
const LAST: Duration = Duration::from_secs(1);
const SUFFIX: &str = ".json.gz";

/// A file cannot be used as an incident.
#[derive(Debug, thiserror::Error)]
pub enum IncidentError {
    /// It cannot be read.
    #[error("cannot read the incident {}: {error}; check the path and its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is something else, or damaged.
    #[error(
        "{} is not an incident that this version can read: {reason}; download it again from the page or /api/v1/incidents",
        path.display()
    )]
    Data {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Reads an incident: JSON, compressed or not.
///
/// # Errors
/// If it is unreadable, too long or something else.
pub fn read(path: &Path) -> Result<Incident, IncidentError> {
    let text = text_of(path)?;
    serde_json::from_slice(&text)
        .map_err(|error| IncidentError::Data { path: path.to_owned(), reason: error.to_string() })
}

/// The JSON text of an incident's file.
fn text_of(path: &Path) -> Result<Vec<u8>, IncidentError> {
    let failed = |error| IncidentError::Read { path: path.to_owned(), error };
    let damaged = |reason: String| IncidentError::Data { path: path.to_owned(), reason };
    // A FIFO would wait for its writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path);
    let file = file.map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(damaged("it is no regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(TEXT_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut text = Vec::new();
        let unpacked = GzDecoder::new(&bytes[..]).take(TEXT_BYTES + 1).read_to_end(&mut text);
        unpacked.map_err(|error| damaged(error.to_string()))?;
        bytes = text;
    }
    if bytes.len() as u64 > TEXT_BYTES {
        return Err(damaged(format!("it holds more than {TEXT_BYTES} bytes")));
    }
    Ok(bytes)
}

/// What is kept. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Store(Arc<SharedStore>);

#[derive(Debug)]
struct SharedStore {
    disk: Arc<Disk>,
    names_hosts: bool,
    finished: Option<SyncSender<Incident>>,
    done: Mutex<Receiver<()>>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Disk {
    directory: PathBuf,
    kept: Mutex<StoredIncident>,
}

/// What is on the disk, oldest first.
#[derive(Debug, Default)]
struct StoredIncident {
    incidents: Vec<(wire::Incident, u64)>,
    trouble: Option<String>,
}

impl Store {
    /// Starts the thread. A directory that cannot be written is no reason to refuse.
    pub fn start(directory: PathBuf, names_hosts: bool) -> Self {
        let (finished, waiting) = sync_channel::<Incident>(WAITING);
        let (ending, done) = sync_channel(0);
        let disk = Arc::new(Disk { directory, kept: Mutex::default() });
        let run = {
            let disk = Arc::clone(&disk);
            move || {
                crate::privileges::give_up_all();
                disk.open();
                while let Ok(incident) = waiting.recv() {
                    disk.keep(&incident);
                }
                drop(ending);
            }
        };
        let writer = std::thread::Builder::new().name("incidents".to_owned()).spawn(run);
        let writer = writer.map_err(|error| {
            disk.fail(&format!("their thread cannot be started: {error}; raise `ulimit -u`"))
        });
        Self(Arc::new(SharedStore {
            disk,
            names_hosts,
            finished: Some(finished),
            done: Mutex::new(done),
            writer: writer.ok(),
        }))
    }

    /// Whether addresses are recorded.
    pub(super) fn names_hosts(&self) -> bool {
        self.0.names_hosts
    }

    /// Hands a recording over; never waits.
    pub(super) fn keep(&self, incident: Incident) {
        if self.0.finished.as_ref().is_none_or(|finished| finished.try_send(incident).is_err()) {
            self.0.disk.fail("the disk does not answer; free it, or let the agent write elsewhere");
        }
    }

    /// What is kept, newest first.
    pub fn list(&self) -> wire::Incidents {
        self.0.disk.list()
    }

    /// The list once everything is written.
    #[cfg(test)]
    pub(super) fn written(self) -> wire::Incidents {
        let disk = Arc::clone(&self.0.disk);
        drop(self);
        // The thread has the other one.
        for _ in 0..6_000 {
            if Arc::strong_count(&disk) == 1 {
                return disk.list();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nothing was written in a minute");
    }

    /// The JSON of one incident; `None` if it is not kept. Reads a file.
    ///
    /// # Errors
    /// If its file cannot be read.
    pub fn text(&self, id: &str) -> Option<Result<Vec<u8>, IncidentError>> {
        let known = self.0.disk.kept().incidents.iter().any(|(incident, _)| incident.id == id);
        known.then(|| text_of(&self.0.disk.path(id)))
    }
}

impl Drop for SharedStore {
    fn drop(&mut self) {
        self.finished = None;
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        let ended = done.recv_timeout(LAST) == Err(RecvTimeoutError::Disconnected);
        match self.writer.take() {
            Some(writer) if ended => {
                let _ = writer.join();
            }
            Some(_) => warn!("the disk of incidents does not answer: the last ones may be missing"),
            None => {}
        }
    }
}

impl Disk {
    fn kept(&self) -> MutexGuard<'_, StoredIncident> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self) -> wire::Incidents {
        let kept = self.kept();
        wire::Incidents {
            incidents: kept.incidents.iter().rev().map(|(incident, _)| incident.clone()).collect(),
            trouble: kept.trouble.clone(),
        }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}{SUFFIX}"))
    }

    /// Says once why incidents are not kept.
    fn fail(&self, reason: &str) {
        let text = format!("incidents are not kept in {}: {reason}", self.directory.display());
        if self.kept().trouble.replace(text.clone()).as_ref() != Some(&text) {
            warn!("{text}; everything else continues");
        }
    }

    fn refused(&self, error: &io::Error) {
        self.fail(&format!("{error}; free space on its disk, or let this process write there"));
    }

    /// Makes the directory and reads what earlier starts left. What is not an incident is left alone.
    fn open(&self) {
        if let Err(error) = DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&self.directory) {
            return self.refused(&error);
        }
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) => return self.refused(&error),
        };
        if let Err(error) = tempfile::tempfile_in(&self.directory) {
            self.refused(&error);
        }
        let mut foreign = 0;
        let mut found = Vec::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            match self.known(&path) {
                Some(incident) => found.push(incident),
                None => foreign += 1,
            }
        }
        if foreign > 0 {
            warn!(
                "{foreign} files in {} are no incidents that this version can read, and are left alone; remove them if nobody \
                 needs them",
                self.directory.display()
            );
        }
        found.sort_by(|(one, _), (two, _)| one.time.cmp(&two.time));
        self.kept().incidents = found;
        self.make_room(0);
    }

    fn known(&self, path: &Path) -> Option<(wire::Incident, u64)> {
        let id = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
        let about = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
        if about.len() > FILE_BYTES {
            return None;
        }
        let summary = read(path).ok()?.summary;
        (summary.id == id).then_some((summary, about.len()))
    }

    fn keep(&self, incident: &Incident) {
        match self.write(incident) {
            Ok(bytes) => {
                self.make_room(bytes);
                let mut kept = self.kept();
                kept.incidents.retain(|(other, _)| other.id != incident.summary.id);
                kept.incidents.push((incident.summary.clone(), bytes));
                kept.trouble = None;
            }
            Err(error) => self.refused(&error),
        }
    }

    /// A file appears whole or not at all.
    fn write(&self, incident: &Incident) -> io::Result<u64> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        serde_json::to_writer(&mut packed, incident)?;
        let bytes = packed.finish()?;
        let mut file = tempfile::Builder::new()
            .prefix(".incident-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(FILE_MODE))
            .tempfile_in(&self.directory)?;
        file.write_all(&bytes)?;
        file.as_file().sync_all()?;
        file.persist(self.path(&incident.summary.id))?;
        Ok(bytes.len() as u64)
    }

    /// Removes what is too much with `bytes` more: the least urgent first, of these the oldest.
    fn make_room(&self, bytes: u64) {
        let mut kept = self.kept();
        let more = usize::from(bytes > 0);
        loop {
            let size: u64 = kept.incidents.iter().map(|(_, bytes)| bytes).sum();
            if kept.incidents.len() + more <= MOST && size + bytes <= MOST_BYTES {
                return;
            }
            // What no version names is the least urgent.
            let rank = |it: &wire::Incident| Severity::named(&it.severity);
            let least = kept.incidents.iter().enumerate().min_by_key(|(index, (it, _))| (rank(it), *index));
            let Some((index, _)) = least else { return };
            let (gone, _) = kept.incidents.remove(index);
            // If it stays, the next start finds it again.
            let _ = fs::remove_file(self.path(&gone.id));
        }
    }
}
