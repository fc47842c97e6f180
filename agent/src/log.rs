//! The agent's own messages, on stderr: for people, for the journal, or as JSON lines. Where stderr leads to journald, they go
//! there by its own protocol, with their fields.

mod journald;

use std::fmt;
use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{self, Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt as layer, reload};

use self::journald::Journald;
use crate::config::{LogConfig, LogFormat, LogLevel};

/// Changes which messages are written, while the agent runs.
#[derive(Clone, Debug)]
pub(crate) struct LogFilter(reload::Handle<Targets, Registry>);

impl LogFilter {
    /// From now on, messages from this level up are written.
    pub(crate) fn set(&self, level: LogLevel) {
        // Fails only if nothing is written any more.
        let _ = self.0.reload(filter(level));
    }
}

/// Starts writing messages. The first call decides; later ones do nothing.
pub(crate) fn start(log: LogConfig) -> LogFilter {
    let registry = tracing_subscriber::registry();
    let (filter, handle) = reload::Layer::new(filter(log.level));
    let started = match log.format {
        LogFormat::Json => {
            let json = layer::layer().json().flatten_event(true).with_writer(std::io::stderr);
            registry.with(json.with_filter(filter)).try_init()
        }
        LogFormat::Text if stderr_is_the_journal() => match Journald::connect() {
            Ok(journald) => registry.with(journald.with_filter(filter)).try_init(),
            Err(_) => {
                let plain = format::format().without_time().with_level(false).with_target(false);
                let lines = layer::layer().with_writer(std::io::stderr).with_ansi(false);
                registry.with(lines.event_format(JournalFormat(plain)).with_filter(filter)).try_init()
            }
        },
        LogFormat::Text => {
            let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let text = layer::layer().with_writer(std::io::stderr).with_ansi(ansi).with_target(false);
            registry.with(text.with_filter(filter)).try_init()
        }
    };
    if started.is_err() {
        tracing::debug!("messages were started before");
    }
    LogFilter(handle)
}

/// Our own messages at the level asked for; those of libraries only if they matter, or if everything is asked for.
fn filter(level: LogLevel) -> Targets {
    let (own, others) = match level {
        LogLevel::Error => (LevelFilter::ERROR, LevelFilter::ERROR),
        LogLevel::Warn => (LevelFilter::WARN, LevelFilter::WARN),
        LogLevel::Info => (LevelFilter::INFO, LevelFilter::WARN),
        LogLevel::Debug => (LevelFilter::DEBUG, LevelFilter::WARN),
        LogLevel::Trace => (LevelFilter::TRACE, LevelFilter::TRACE),
    };
    Targets::new().with_default(others).with_target("pendulum", own)
}

/// Whether stderr leads to journald, by the test of `sd_journal_stream_fd(3)`: JOURNAL_STREAM names its device and inode.
fn stderr_is_the_journal() -> bool {
    let Some((device, inode)) = std::env::var("JOURNAL_STREAM").ok().and_then(|stream| parse_stream(&stream))
    else {
        return false;
    };
    let Ok(stderr) = std::io::stderr().as_fd().try_clone_to_owned() else { return false };
    std::fs::File::from(stderr)
        .metadata()
        .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == (device, inode))
}

fn parse_stream(stream: &str) -> Option<(u64, u64)> {
    let (device, inode) = stream.split_once(':')?;
    Some((device.parse().ok()?, inode.parse().ok()?))
}

/// Priorities of `syslog(3)`.
fn priority(level: &tracing::Level) -> u8 {
    match *level {
        tracing::Level::ERROR => 3,
        tracing::Level::WARN => 4,
        tracing::Level::INFO => 6,
        tracing::Level::DEBUG | tracing::Level::TRACE => 7,
    }
}

/// A line for the journal: a priority of `sd-daemon(3)` in front, and no time, which the journal keeps itself.
struct JournalFormat(Format<Full, ()>);

impl<S, N> FormatEvent<S, N> for JournalFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_stream_is_two_numbers() {
        assert_eq!(parse_stream("9:1234"), Some((9, 1234)));
        for wrong in ["", "9", "9:", ":9", "a:b", "9:1:2"] {
            assert_eq!(parse_stream(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn libraries_are_quiet_unless_everything_is_asked_for() {
        let info = filter(LogLevel::Info);
        assert!(info.would_enable("pendulum::run", &tracing::Level::INFO));
        assert!(!info.would_enable("pendulum::run", &tracing::Level::DEBUG));
        assert!(!info.would_enable("netlink_proto", &tracing::Level::INFO));
        assert!(filter(LogLevel::Trace).would_enable("netlink_proto", &tracing::Level::TRACE));
    }
}
