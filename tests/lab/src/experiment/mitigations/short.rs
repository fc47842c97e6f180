//! Many short downloads that begin within one second: a crowd of requests on a slow uplink.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::links::SHORT_BYTES;
use crate::experiment::ExperimentError;
use crate::lab::Lab;
use crate::netns::Host;
use crate::topology::{IpVersion, Role};
use crate::traffic::TrafficError;

const WITHIN: Duration = Duration::from_secs(1);
/// A connection is given up after this: TCP's timers have then doubled several times.
const PATIENCE: Duration = Duration::from_secs(30);
/// A thread's stack: it holds one small buffer.
const STACK: usize = 128 << 10;

/// Short downloads under way.
pub(super) struct Crowd {
    complete: Arc<AtomicU32>,
    wanted: u32,
}

impl Crowd {
    /// Starts `wanted` downloads from D1 to U2 within a second.
    pub(super) fn start(lab: &Lab, wanted: u32) -> Result<Self, ExperimentError> {
        let failed = |role| move |source| TrafficError::Short { role, source };
        let (internet, home) = (lab.host(Role::D1), lab.host(Role::U2));
        let address = Role::D1.address(IpVersion::V4).unwrap_or(IpAddr::from([0, 0, 0, 0]));
        let at =
            serve(&internet, SocketAddr::new(address, lab.next_port()), wanted).map_err(failed(Role::D1))?;
        let complete = Arc::new(AtomicU32::new(0));
        request(&home, at, wanted, &complete).map_err(failed(Role::U2))?;
        Ok(Self { complete, wanted })
    }

    /// How many have received all they asked for, and of how many.
    pub(super) fn complete(&self) -> (u32, u32) {
        (self.complete.load(Ordering::Relaxed), self.wanted)
    }
}

/// A thread within a host that ends by itself.
fn start_thread(host: &Host, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A thread begins in its maker's namespace.
    host.inside(|| thread::Builder::new().stack_size(STACK).spawn(work).map(drop))
        .map_err(io::Error::other)?
}

fn serve(host: &Host, at: SocketAddr, wanted: u32) -> io::Result<SocketAddr> {
    let listener = host.inside(|| TcpListener::bind(at)).map_err(io::Error::other)??;
    listener.set_nonblocking(true)?;
    start_thread(host, move || {
        let payload = [0_u8; SHORT_BYTES];
        let mut waiting = Vec::new();
        let mut served = 0;
        let steps = (2 * PATIENCE).as_millis() / 2;
        for _ in 0..steps {
            while let Ok((stream, _)) = listener.accept() {
                waiting.push(stream);
            }
            // What is asked for is one byte; the reply fits into any socket buffer.
            waiting.retain_mut(|stream: &mut TcpStream| {
                let ready = stream.set_nonblocking(true).is_ok() && matches!(stream.read(&mut [0]), Ok(1));
                if ready {
                    served += u32::from(stream.write_all(&payload).is_ok());
                }
                !ready
            });
            if served == wanted {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
    })?;
    Ok(at)
}

fn request(host: &Host, at: SocketAddr, wanted: u32, complete: &Arc<AtomicU32>) -> io::Result<()> {
    let complete = Arc::clone(complete);
    start_thread(host, move || {
        for _ in 0..wanted {
            let complete = Arc::clone(&complete);
            let one = move || complete.fetch_add(u32::from(download(at).is_ok()), Ordering::Relaxed);
            // A thread that cannot be made is a download that does not complete, and counted as that.
            let _ = thread::Builder::new().stack_size(STACK).spawn(one);
            thread::sleep(WITHIN / wanted);
        }
    })
}

fn download(at: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&at, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"?")?;
    let mut buffer = [0_u8; SHORT_BYTES];
    stream.read_exact(&mut buffer)
}
