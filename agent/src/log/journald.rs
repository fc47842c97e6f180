//! Messages for journald by its native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): the line that people read, and beside it each
//! field under a name of its own, so that `journalctl PENDULUM_LINK=dsl PENDULUM_EVENT=verdict` finds them.
//!
//! `tracing-journald` does not serve here: with it a line shows its message alone, without link or device.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::priority;

const SOCKET: &str = "/run/systemd/journal/socket";

/// Writes to journald.
pub(super) struct Journald {
    socket: UnixDatagram,
}

impl Journald {
    /// # Errors
    /// journald does not listen here.
    pub(super) fn connect() -> io::Result<Self> {
        Self::connect_to(Path::new(SOCKET))
    }

    fn connect_to(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        // A journald that is behind must not stop the measurement.
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }
}

impl<S: Subscriber> Layer<S> for Journald {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut entry = JournaldEntry::default();
        event.record(&mut entry);
        let line = entry.line();
        if self.socket.send(&entry.encode(event.metadata(), &line)).is_err() {
            // journald restarts, is behind, or wants no message of this size. stderr leads there too.
            let _ = writeln!(io::stderr(), "<{}>{line}", priority(event.metadata().level()));
        }
    }
}

/// What an event carries.
#[derive(Default)]
struct JournaldEntry {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for JournaldEntry {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.fields.push((name, value.to_owned())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

impl JournaldEntry {
    /// As on stderr: the message, then the fields.
    fn line(&self) -> String {
        let mut line = self.message.clone();
        for (name, value) in &self.fields {
            let space = if line.is_empty() { "" } else { " " };
            // A string takes everything.
            let _ = write!(line, "{space}{name}={value}");
        }
        line
    }

    fn encode(&self, metadata: &Metadata<'_>, line: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256 + 2 * line.len());
        put(&mut bytes, "MESSAGE", line);
        put(&mut bytes, "PRIORITY", &priority(metadata.level()).to_string());
        put(&mut bytes, "SYSLOG_IDENTIFIER", "pendulum");
        for (name, value) in &self.fields {
            put(&mut bytes, &field_name(name), value);
        }
        bytes
    }
}

/// Capital letters, digits and `_`, at most 64 (`journal_field_valid` in systemd).
fn field_name(name: &str) -> String {
    let valid =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).take(50);
    ["PENDULUM_", &valid.collect::<String>()].concat()
}

/// One field. A value with a line break carries its length.
fn put(bytes: &mut Vec<u8>, name: &str, value: &str) {
    bytes.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        bytes.push(b'\n');
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        bytes.push(b'=');
    }
    bytes.extend_from_slice(value.as_bytes());
    bytes.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt as _;

    #[test]
    fn a_line_and_each_field_apart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let journald = UnixDatagram::bind(&path).unwrap();
        let subscriber = tracing_subscriber::registry().with(Journald::connect_to(&path).unwrap());
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(link = "dsl", ifindex = 7, "it is\nfull");
        });
        let mut bytes = [0; 1024];
        let length = journald.recv(&mut bytes).unwrap();
        let mut expected = b"MESSAGE\n\x1c\0\0\0\0\0\0\0it is\nfull link=dsl ifindex=7\n".to_vec();
        expected[8] = u8::try_from("it is\nfull link=dsl ifindex=7".len()).unwrap();
        expected.extend_from_slice(
            b"PRIORITY=4\nSYSLOG_IDENTIFIER=pendulum\nPENDULUM_LINK=dsl\nPENDULUM_IFINDEX=7\n",
        );
        assert_eq!(String::from_utf8_lossy(&bytes[..length]), String::from_utf8_lossy(&expected));
    }

    #[test]
    fn names_that_journald_takes() {
        assert_eq!(field_name("link"), "PENDULUM_LINK");
        assert_eq!(field_name("a.b-c"), "PENDULUM_A_B_C");
        assert!(field_name(&"x".repeat(100)).len() <= 64);
    }
}
