//! Connections of QUIC that open and do nothing else: the first flight of either side, without cryptography, which the agent cannot read anyway.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pendulum_lab::Lab;
use pendulum_lab::topology::IpVersion;
use pendulum_lab::traffic::Ends;
use pendulum_model::segment::Direction;

const PORT: u16 = 443;
/// How long an end may fail to notice that it should stop.
const SLICE: Duration = Duration::from_millis(20);
/// A first flight has at least this payload (RFC 9000 §14.1).
const PAYLOAD: usize = 1200;

/// A home host that opens a connection from time to time, and the server. Dropping it ends both.
pub(crate) struct Handshakes {
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// An Initial of version 1 (RFC 9000 §17.2.2) between these connection identifiers.
fn initial(to: u64, from: u64) -> Vec<u8> {
    let mut packet = vec![0xc3, 0, 0, 0, 1, 8];
    packet.extend_from_slice(&to.to_be_bytes());
    packet.push(8);
    packet.extend_from_slice(&from.to_be_bytes());
    packet.resize(PAYLOAD, 0x5a);
    packet
}

/// Connection identifiers of a packet: of its destination and of its source.
fn identifiers(packet: &[u8]) -> Option<(u64, u64)> {
    let at = |place: usize| packet.get(place..)?.first_chunk().copied().map(u64::from_be_bytes);
    Some((at(6)?, at(15)?))
}

impl Handshakes {
    /// Opens one connection each `interval`, from the host and to the server of downloads.
    pub(crate) fn start(lab: &Lab, interval: Duration) -> Self {
        let Ends { internet, home } = Ends::of(Direction::Down);
        let address = SocketAddr::new(internet.address(IpVersion::V4).expect("it has one"), PORT);
        let any = |port| SocketAddr::new([0; 4].into(), port);
        let bind = move |address| -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind(address)?;
            socket.set_read_timeout(Some(SLICE))?;
            Ok(socket)
        };
        let server = lab.host(internet).inside(|| bind(any(PORT))).unwrap().unwrap();
        let client_host = lab.host(home);
        let stopped = Arc::new(AtomicBool::new(false));
        let (stop_server, stop_client) = (Arc::clone(&stopped), Arc::clone(&stopped));
        let serve = move || {
            let mut packet = [0; 2048];
            while !stop_server.load(Ordering::Relaxed) {
                let Ok((length, client)) = server.recv_from(&mut packet) else { continue };
                if let Some((destination, to)) = identifiers(&packet[..length])
                    && destination == to | 1
                {
                    // It may be gone by now.
                    let _ = server.send_to(&initial(to, !to), client);
                }
            }
        };
        let connect = move || {
            let (mut due, mut number) = (Instant::now(), 1_u64 << 33);
            while !stop_client.load(Ordering::Relaxed) {
                let socket = client_host.inside(|| bind(any(0))).unwrap().unwrap();
                socket.connect(address).unwrap();
                number += 1 << 33;
                // What a client chooses for the server: odd, and known to it by that.
                socket.send(&initial(number | 1, number)).unwrap();
                due += interval;
                while Instant::now() < due && !stop_client.load(Ordering::Relaxed) {
                    let mut packet = [0; 2048];
                    if socket.recv(&mut packet).is_ok_and(|length| length == PAYLOAD) {
                        socket.send(&initial(!number, number)).unwrap();
                    }
                }
            }
        };
        Self { stopped, threads: vec![thread::spawn(serve), thread::spawn(connect)] }
    }
}

impl Drop for Handshakes {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic there has ended the thread, which is what is wanted.
            let _ = thread.join();
        }
    }
}
