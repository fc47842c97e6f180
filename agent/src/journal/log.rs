//! The event log: one JSON object for each line, in a file of the user's choice.
//!
//! A thread of its own writes, so that a slow disk never holds up measuring. Before each line it looks whether the path
//! still leads to its file: log rotation needs no signal. What cannot be written is counted and reported once; the next
//! event tries again.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tracing::{info, warn};

use super::EventRecord;
use crate::snapshot::Unsent;

/// Events that may wait for the disk.
const WAITING: usize = 256;
/// Readable by root and its group: events tell when a household uses its link.
const MODE: u32 = 0o640;
/// Time for the last events at the end; a disk that hangs does not keep the agent.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Something for the log, and where to count it if it is lost.
type LogEntry = (Arc<EventRecord>, Arc<Unsent>);

/// The way to the thread that writes.
#[derive(Debug)]
pub(super) struct EventLog {
    entries: Option<SyncSender<LogEntry>>,
    /// Ends, and with it this channel, when all is written.
    done: std::sync::Mutex<Receiver<()>>,
    writer: Option<JoinHandle<()>>,
}

impl EventLog {
    /// Starts the thread. A path that cannot be written yet is no reason to refuse.
    pub(super) fn start(path: &Path) -> Self {
        let (entries, waiting) = sync_channel(WAITING);
        let (ending, done) = sync_channel(0);
        let mut writer = Writer::new(path.to_owned());
        let run = move || {
            // It starts before the others have given up theirs, and capabilities belong to threads.
            crate::privileges::give_up_all();
            writer.run(&waiting);
            drop(ending);
        };
        let writer = std::thread::Builder::new().name("event-log".to_owned()).spawn(run);
        let writer = writer.map_err(|error| {
            warn!("no event log: its thread cannot be started: {error}; raise `ulimit -u`");
        });
        Self { entries: Some(entries), done: std::sync::Mutex::new(done), writer: writer.ok() }
    }

    /// Hands an event over; never waits.
    pub(super) fn write(&self, record: Arc<EventRecord>, unsent: &Arc<Unsent>) {
        let entry = (record, Arc::clone(unsent));
        if self.entries.as_ref().is_none_or(|entries| entries.try_send(entry).is_err()) {
            unsent.count_event();
        }
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.entries = None;
        let done = self.done.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ended = done.recv_timeout(LAST_LINES) == Err(RecvTimeoutError::Disconnected);
        match self.writer.take() {
            Some(writer) if ended => {
                let _ = writer.join();
            }
            Some(_) => warn!("the event log's disk does not answer: its last events may be missing"),
            None => {}
        }
    }
}

/// The file, while it can be written.
struct Writer {
    path: PathBuf,
    file: Option<File>,
    /// Events lost since the last success; reported when it works again.
    lost: u64,
}

impl Writer {
    fn new(path: PathBuf) -> Self {
        let mut writer = Self { path, file: None, lost: 0 };
        match writer.reopen() {
            Ok(()) => info!(path = %writer.path.display(), "event log"),
            Err(error) => writer.warn(&error),
        }
        writer
    }

    fn run(&mut self, entries: &Receiver<LogEntry>) {
        while let Ok((record, unsent)) = entries.recv() {
            match self.append(&record) {
                Ok(()) => self.recovered(),
                Err(error) => {
                    unsent.count_event();
                    if self.lost == 0 {
                        self.warn(&error);
                    }
                    self.lost += 1;
                    self.file = None;
                }
            }
        }
    }

    fn append(&mut self, record: &EventRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        if !self.is_current() {
            self.reopen()?;
        }
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        let whole = file.metadata().map(|metadata| metadata.len());
        file.write_all(&line).inspect_err(|_| {
            // Half a line, as on a full disk, would spoil the next one.
            if let (Ok(length), true) = (whole, file.metadata().is_ok_and(|now| now.is_file())) {
                let _ = file.set_len(length);
            }
        })
    }

    /// Whether the path still leads to the open file.
    fn is_current(&self) -> bool {
        let same = |file: &File| {
            let (open, there) = (file.metadata()?, std::fs::metadata(&self.path)?);
            Ok::<_, io::Error>((open.dev(), open.ino()) == (there.dev(), there.ino()))
        };
        self.file.as_ref().is_some_and(|file| same(file).unwrap_or(false))
    }

    fn reopen(&mut self) -> io::Result<()> {
        // A FIFO that nobody reads would hold the thread for ever, and the log of a terminal is not wanted.
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file =
            OpenOptions::new().append(true).create(true).mode(MODE).custom_flags(flags).open(&self.path)?;
        self.file = Some(file);
        Ok(())
    }

    fn recovered(&mut self) {
        if self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            info!(path = %self.path.display(), lost, "the event log can be written again");
        }
    }

    fn warn(&self, error: &io::Error) {
        warn!(
            "the event log {} cannot be written: {error}; events go on in /api/v1/events, and each new one tries the \
             file again: free space on its disk, or let this process write there",
            self.path.display()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;
    use crate::journal::tests::event;

    fn push(journal: &Journal, unsent: &Arc<Unsent>, at_s: f64) {
        journal.push("dsl", unsent, event(at_s), Duration::ZERO);
    }

    /// Dropping the journal waits for the last line.
    fn times(path: &Path) -> Vec<f64> {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["at_s"].as_f64().unwrap())
            .collect()
    }

    /// Waits until the writer has dealt with what it was given: the lines of a file, or losses.
    fn until(what: impl Fn() -> bool) {
        for _ in 0..2_000 {
            if what() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the writer did not get there in ten seconds");
    }

    fn lines(path: &Path) -> usize {
        std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
    }

    #[test]
    fn each_event_is_a_line_and_earlier_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        for run in 0..2 {
            let journal = Journal::new(Some(&path));
            let unsent = Arc::default();
            push(&journal, &unsent, f64::from(run) + 0.25);
            push(&journal, &unsent, f64::from(run) + 0.5);
            let wanted: Vec<_> = journal.after(0).0;
            drop(journal);
            let text = std::fs::read_to_string(&path).unwrap();
            let newest = text.lines().next_back().unwrap();
            assert_eq!(newest, serde_json::to_string(&*wanted[1]).unwrap());
        }
        assert_eq!(times(&path), [0.25, 0.5, 1.25, 1.5]);
    }

    #[test]
    fn a_rotated_or_removed_file_is_opened_anew() {
        let directory = tempfile::tempdir().unwrap();
        let (path, old) = (directory.path().join("events.jsonl"), directory.path().join("events.jsonl.1"));
        let journal = Journal::new(Some(&path));
        let unsent = Arc::default();
        push(&journal, &unsent, 1.0);
        until(|| lines(&path) == 1);
        std::fs::rename(&path, &old).unwrap();
        push(&journal, &unsent, 2.0);
        until(|| lines(&path) == 1);
        std::fs::remove_file(&path).unwrap();
        push(&journal, &unsent, 3.0);
        drop(journal);
        assert_eq!((times(&old), times(&path)), (vec![1.0], vec![3.0]));
        assert_eq!(unsent.events(), 0);
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_the_next_event_tries_again() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("not-there");
        let path = place.join("events.jsonl");
        let journal = Journal::new(Some(&path));
        let unsent = Arc::default();
        push(&journal, &unsent, 1.0);
        push(&journal, &unsent, 2.0);
        until(|| unsent.events() == 2);
        std::fs::create_dir(&place).unwrap();
        push(&journal, &unsent, 3.0);
        drop(journal);
        assert_eq!((times(&path), unsent.events()), (vec![3.0], 2));
    }

    #[test]
    fn a_full_disk_is_survived() {
        let unsent = Arc::default();
        let journal = Journal::new(Some(Path::new("/dev/full")));
        push(&journal, &unsent, 1.0);
        push(&journal, &unsent, 2.0);
        until(|| unsent.events() == 2);
        assert_eq!(journal.after(0).0.len(), 2);
    }
}
