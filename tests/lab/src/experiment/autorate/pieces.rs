//! Traffic in pieces beside the long transfers: a video's segments down, bursts up. Each piece goes over the same TCP connection.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pendulum_model::segment::Direction;

use crate::experiment::ExperimentError;
use crate::lab::Lab;
use crate::topology::{IpVersion, Role};
use crate::traffic::Ends;

const SLICE: Duration = Duration::from_millis(50);
/// How long the connection may take to be made: the first packets may fall into an outage.
const PATIENCE: Duration = Duration::from_secs(20);
const CHUNK: usize = 16 << 10;

/// Pieces of a size in bytes, one for each interval. A piece that is late delays those behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    pub(super) direction: Direction,
    pub(super) bytes: u64,
    pub(super) interval: Duration,
}

/// A flow of pieces. Dropping it ends it.
pub(super) struct Flow {
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Pieces {
    /// Starts them.
    pub(super) fn start(self, lab: &Lab) -> Result<Flow, ExperimentError> {
        let ends = Ends::of(self.direction);
        let address = ends.internet.address(IpVersion::V4).unwrap_or(IpAddr::from([0, 0, 0, 0]));
        let at = SocketAddr::new(address, lab.next_port());
        let (internet, home) = (lab.host(ends.internet), lab.host(ends.home));
        let listener = internet.inside(|| TcpListener::bind(at))?.map_err(failed(ends.internet))?;
        listener.set_nonblocking(true).map_err(failed(ends.internet))?;
        let stopped = Arc::new(AtomicBool::new(false));
        let mut flow = Flow { stopped: Arc::clone(&stopped), threads: Vec::new() };
        let flag = Arc::clone(&stopped);
        let server =
            thread::Builder::new().name("pieces".into()).spawn(move || serve(self, &listener, &flag));
        flow.threads.push(server.map_err(failed(ends.internet))?);
        // Its socket is made in the thread: a thread begins in its maker's namespace.
        let client = home
            .inside(|| thread::Builder::new().name("pieces".into()).spawn(move || ask(self, at, &stopped)))?;
        flow.threads.push(client.map_err(failed(ends.home))?);
        Ok(flow)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Its result is of no interest: connections end with the traffic.
            let _ = thread.join();
        }
    }
}

fn failed(role: Role) -> impl Fn(io::Error) -> ExperimentError {
    move |source| crate::traffic::TrafficError::Short { role, source }.into()
}

fn serve(pieces: Pieces, listener: &TcpListener, stopped: &AtomicBool) -> io::Result<()> {
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break prepared(stream)?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => pause(SLICE, stopped)?,
            Err(error) => return Err(error),
        }
    };
    let mut byte = [0];
    loop {
        // A byte asks for a piece, or is the first of one.
        read(&mut stream, &mut byte, stopped)?;
        match pieces.direction {
            Direction::Down => send(&mut stream, pieces.bytes, stopped)?,
            Direction::Up => {
                take(&mut stream, pieces.bytes.saturating_sub(1), stopped)?;
                send(&mut stream, 1, stopped)?;
            }
        }
    }
}

fn ask(pieces: Pieces, at: SocketAddr, stopped: &AtomicBool) -> io::Result<()> {
    let mut stream = prepared(TcpStream::connect_timeout(&at, PATIENCE)?)?;
    let mut next = Instant::now();
    loop {
        pause(next.saturating_duration_since(Instant::now()), stopped)?;
        next += pieces.interval;
        match pieces.direction {
            Direction::Down => {
                send(&mut stream, 1, stopped)?;
                take(&mut stream, pieces.bytes, stopped)?;
            }
            Direction::Up => {
                send(&mut stream, pieces.bytes.max(1), stopped)?;
                take(&mut stream, 1, stopped)?;
            }
        }
    }
}

fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SLICE))?;
    stream.set_write_timeout(Some(SLICE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn check(stopped: &AtomicBool) -> io::Result<()> {
    if stopped.load(Ordering::Relaxed) { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}

fn pause(time: Duration, stopped: &AtomicBool) -> io::Result<()> {
    let end = Instant::now() + time;
    loop {
        check(stopped)?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(SLICE));
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Something of what is there, at least a byte.
fn read(stream: &mut TcpStream, buffer: &mut [u8], stopped: &AtomicBool) -> io::Result<usize> {
    loop {
        check(stopped)?;
        match stream.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => return Ok(length),
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

fn take(stream: &mut TcpStream, bytes: u64, stopped: &AtomicBool) -> io::Result<()> {
    let (mut left, mut buffer) = (bytes, vec![0; CHUNK]);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        left -= read(stream, &mut buffer[..most], stopped)? as u64;
    }
    Ok(())
}

fn send(stream: &mut TcpStream, bytes: u64, stopped: &AtomicBool) -> io::Result<()> {
    let (mut left, buffer) = (bytes, vec![0; CHUNK]);
    while left > 0 {
        check(stopped)?;
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        match stream.write(&buffer[..most]) {
            Ok(written) => left -= written as u64,
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
