//! What is fuzzed: each takes any bytes, and may refuse them, but neither panic nor hang. Used by the fuzzer (`main.rs`) and by the test
//! that runs every kept input again (`replay.rs`).

use std::cell::RefCell;
use std::io::{Seek as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use pendulum::config::{Active, Config, HttpConfig};
use pendulum::http::{Access, App, router};
use pendulum::journal::Journal;
use pendulum::replay::capture::Capture;
use pendulum::replay::flow::FlowKey;
use pendulum::replay::packet::{Frame, LinkType, outline, parse};
use pendulum::replay::session::{Audience, Task, replay};
use pendulum::replay::tally::{InFlight, Tally};
use pendulum::snapshot::Board;
use pendulum_model::detector::Detector;
use pendulum_model::event::Event;
use pendulum_model::rate::{BufferSize, Rate, Size, Span, parse_duration};
use pendulum_model::sample::Sample;
use pendulum_model::segment::PerDirection;
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

/// Takes one input.
pub(crate) type Target = fn(&[u8]);

/// Every target by its name.
pub(crate) const ALL: [(&str, Target); 5] =
    [("capture", capture), ("packet", packet), ("config", config), ("http", http), ("rate", rate)];

thread_local! {
    /// Captures are read from files: one in memory, written anew for each input.
    static FILE: RefCell<NamedTempFile> = RefCell::new(in_memory());
}

fn in_memory() -> NamedTempFile {
    NamedTempFile::new_in("/dev/shm").or_else(|_| NamedTempFile::new()).expect("a temporary file")
}

/// A capture file: read record by record, then replayed with flows, queues and detector.
fn capture(input: &[u8]) {
    FILE.with_borrow_mut(|file| {
        file.rewind().and_then(|()| file.write_all(input)).expect("written");
        file.as_file().set_len(input.len() as u64).expect("cut");
        let Ok(mut capture) = Capture::open(file.path()) else { return };
        let mut records = 0;
        while let Ok(true) = capture.advance() {
            records += 1;
            assert!(capture.record().is_some());
        }
        // Compressed input may hold more than its own length says.
        if records > 4_096 {
            return;
        }
        let rate = |bits| Rate::from_bits_per_second(bits);
        let task = Task {
            wan: file.path().to_owned(),
            lan: None,
            rates: PerDirection { up: rate(196_000), down: rate(2_400_000) },
            home: Vec::new(),
        };
        if let Ok(outcome) = replay(&task, &|_, _, _| {}, &mut Nobody) {
            assert!(outcome.duration_s.is_finite() && outcome.frames.0 <= records);
        }
    });
}

/// Does not listen.
struct Nobody;

impl Audience for Nobody {
    fn sample(&mut self, _: &Sample, _: &Detector) {}
    fn event(&mut self, _: &Event) {}
    fn flow(&mut self, _: &FlowKey, _: &Tally, _: Option<&InFlight>) {}
}

/// One frame; the first byte chooses what it begins with.
fn packet(input: &[u8]) {
    let Some((first, bytes)) = input.split_first() else { return };
    const KINDS: [LinkType; 5] =
        [LinkType::Ethernet, LinkType::RawIp, LinkType::LinuxSll, LinkType::LinuxSll2, LinkType::Null];
    let kind = match first {
        5 => LinkType::Ppp,
        6 => LinkType::PppEther,
        other => KINDS[usize::from(*other) % KINDS.len()],
    };
    let frame = Frame::whole(kind, bytes);
    parse(&frame);
    outline(&frame);
}

/// A configuration file; and whether taking it over and taking it over again is the same.
fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(config) = Config::parse(text, Path::new("fuzzed.toml")) else { return };
    assert_eq!(Config::parse(text, Path::new("fuzzed.toml")).ok(), Some(config));
}

/// What a client sends on a connection: request line, headers, paths, queries.
fn http(input: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (_stop, stopping) = watch::channel(false);
        let (_configure, active) = Active::start(Config::default());
        let app = App::new(Board::new(Vec::new()), Journal::new(None), active, true, stopping);
        let access = Access::new(&HttpConfig::default(), IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("no token");
        let service = TowerToHyperService::new(router(Arc::new(app), access));
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let serve = http1::Builder::new().serve_connection(TokioIo::new(server), service);
        let ask = async {
            // The server may close before it has read everything.
            let _ = client.write_all(input).await;
            let _ = client.shutdown().await;
            let mut answer = Vec::new();
            let _ = client.read_to_end(&mut answer).await;
            answer
        };
        // Streams do not end by themselves.
        let both = async { tokio::join!(serve, ask) };
        if let Ok((_, answer)) = tokio::time::timeout(Duration::from_millis(200), both).await {
            assert!(
                answer.is_empty() || answer.starts_with(b"HTTP/1."),
                "{:?}",
                String::from_utf8_lossy(&answer)
            );
        }
    });
}

/// Rates, sizes and times as they stand in options and configuration; what is understood is written so that it is understood again.
fn rate(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(rate) = text.parse::<Rate>() {
        assert_eq!(rate.to_string().parse::<Rate>().ok(), Some(rate), "{text:?} is written as {rate}");
    }
    let _ = (text.parse::<Size>(), text.parse::<BufferSize>(), text.parse::<Span>(), parse_duration(text));
}
