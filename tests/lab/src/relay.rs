//! Makes a TCP port of a lab machine reachable from outside its namespace, so that a browser can look at the agent.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::netns::Host;

/// A running relay; it accepts no more connections once dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
}

impl Relay {
    const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

    /// Accepts connections at `listen` (port 0: any free one) and carries each to `target` as seen on `host`.
    ///
    /// # Errors
    /// If the address is in use.
    pub fn start(listen: SocketAddr, host: Host, target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stopped);
        thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((outside, _)) => {
                        let host = host.clone();
                        thread::spawn(move || connect(outside, &host, target));
                    }
                    Err(_) => thread::sleep(Self::ACCEPT_PAUSE),
                }
            }
        });
        Ok(Self { address, stopped })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Serves one connection. Whatever fails, both ends see it as an end of the connection.
fn connect(outside: TcpStream, host: &Host, target: SocketAddr) {
    let Ok(Ok(inside)) = host.inside(|| TcpStream::connect_timeout(&target, Duration::from_secs(2))) else {
        return;
    };
    if outside.set_nonblocking(false).is_err() {
        return;
    }
    let (Ok(from_outside), Ok(from_inside)) = (outside.try_clone(), inside.try_clone()) else { return };
    let request = thread::spawn(move || copy(from_outside, inside));
    copy(from_inside, outside);
    // A panic in the other thread has ended its half of the connection, which is all there is to do.
    let _ = request.join();
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    // An error is an end: it is passed on as one.
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
