//! UDP at a chosen rate: a QUIC or VPN transfer that fills the link whatever is lost, or a call's small packets.
//!
//! Sender and receiver are threads of this program, each inside its machine. There is no control connection that a full buffer could
//! break, and both read one clock, so that the time of each datagram under way is exact. The home end always begins, as a home behind address translation
//! must: before a download it knocks until the first datagram arrives. The internet end replies to where it was knocked from.

mod report;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pendulum_model::rate::Rate;
use pendulum_model::segment::Direction;

use report::Arrivals;
pub use report::UdpReport;

use super::{Ends, TrafficError};
use crate::kernel::packet::prefer_this_thread;
use crate::lab::Lab;
use crate::netns::Host;
use crate::topology::{IpVersion, Role};

/// The port of QUIC.
const QUIC_PORT: u16 = 443;
/// The port of RTP in RFC 3551 §8.
const RTP_PORT: u16 = 5004;
/// Number of the datagram, and nanoseconds since the flow's start at which it was sent.
const HEADER: usize = 16;
/// How long an end may fail to notice that it should stop.
const SLICE: Duration = Duration::from_millis(20);
/// How often a home end knocks for its download.
const KNOCK: Duration = Duration::from_millis(200);
/// What is still under way after the last datagram was sent is waited for so long.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// A flow of datagrams to send. It ends after its duration or its number of datagrams, whichever comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSpec {
    /// Which way the data goes.
    pub direction: Direction,
    /// The machines at both ends.
    pub ends: Ends,
    /// Port of the internet end.
    pub port: u16,
    /// What is sent, counted as the lab's links count: link-layer frames.
    pub rate: Rate,
    /// UDP payload of each datagram, bytes.
    pub payload_bytes: u16,
    /// How long data is sent at most.
    pub duration: Duration,
    /// How many datagrams are sent at most.
    pub packets: Option<u64>,
    /// IP version.
    pub ip: IpVersion,
}

impl UdpSpec {
    /// The smallest and the largest payload; the latter fills a frame of IPv6.
    pub const PAYLOAD_BYTES: std::ops::RangeInclusive<u16> = 16..=1452;

    /// Bulk data as QUIC sends it: 1,200 bytes of payload, the size that every path carries (RFC 9000 §14), to or from port 443.
    pub fn quic(direction: Direction, rate: Rate, duration: Duration) -> Self {
        let (ends, payload_bytes, ip) = (Ends::of(direction), 1200, IpVersion::V4);
        Self { direction, ends, port: QUIC_PORT, rate, payload_bytes, duration, packets: None, ip }
    }

    /// One direction of a call: a datagram of 172 bytes each 20 ms (G.711: 160 bytes of sound and RTP's header).
    pub fn voip(direction: Direction, duration: Duration) -> Self {
        // 14 + 20 + 8 + 172 bytes, 50 times a second.
        const RATE: Option<Rate> = Rate::from_bits_per_second(214 * 8 * 50);
        let quic = |rate| Self::quic(direction, rate, duration);
        Self { payload_bytes: 172, port: RTP_PORT, ..quic(const { RATE.unwrap() }) }
    }

    /// The machine that receives the data.
    pub const fn receiver(&self) -> Role {
        self.ends.receiver(self.direction)
    }

    /// The machine that sends the data.
    pub const fn sender(&self) -> Role {
        self.ends.sender(self.direction)
    }

    /// Bytes of one datagram on the link.
    const fn frame_bytes(&self) -> u64 {
        const ETHERNET_AND_UDP: u64 = 14 + 8;
        let ip = match self.ip {
            IpVersion::V4 => 20,
            IpVersion::V6 => 40,
        };
        ETHERNET_AND_UDP + ip + self.payload_bytes as u64
    }

    /// Time from one datagram to the next.
    fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.frame_bytes() as f64 / self.rate.bytes_per_second())
    }

    fn check(&self) -> Result<(), TrafficError> {
        if Self::PAYLOAD_BYTES.contains(&self.payload_bytes) {
            return Ok(());
        }
        Err(TrafficError::Udp { role: self.sender(), source: io::ErrorKind::InvalidInput.into() })
    }
}

/// A running or finished flow. Dropping it ends it.
#[derive(Debug)]
pub struct UdpFlow {
    spec: UdpSpec,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    start: Instant,
    stopped: AtomicBool,
    arrivals: Mutex<Arrivals>,
    sent: Mutex<Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    packets: u64,
    has_ended: bool,
    /// Why it ended before its time.
    error: Option<io::Error>,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn sent(&self) -> std::sync::MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrivals(&self) -> std::sync::MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UdpFlow {
    /// Starts sending.
    ///
    /// # Errors
    /// If the port is taken, or the payload is not within [`UdpSpec::PAYLOAD_BYTES`].
    pub fn start(lab: &Lab, spec: UdpSpec) -> Result<Self, TrafficError> {
        spec.check()?;
        let Ends { internet, home } = spec.ends;
        let any = match spec.ip {
            IpVersion::V4 => IpAddr::from([0; 4]),
            IpVersion::V6 => IpAddr::from([0_u16; 8]),
        };
        let server = bind(&lab.host(internet), internet, SocketAddr::new(any, spec.port))?;
        let client = bind(&lab.host(home), home, SocketAddr::new(any, 0))?;
        let address = internet.address(spec.ip).map(|address| SocketAddr::new(address, spec.port));
        let address = address.ok_or_else(|| failed(internet)(io::ErrorKind::AddrNotAvailable.into()))?;
        client.connect(address).map_err(failed(home))?;
        let shared = Arc::new(Shared {
            start: Instant::now(),
            stopped: AtomicBool::new(false),
            arrivals: Mutex::default(),
            sent: Mutex::default(),
        });
        let mut flow = Self { spec: spec.clone(), shared: Arc::clone(&shared), threads: Vec::new() };
        match spec.direction {
            Direction::Up => {
                flow.run("udp-out", move |shared| send(&client, &spec, shared))?;
                flow.run("udp-in", move |shared| receive(&server, shared, || {}))?;
            }
            Direction::Down => {
                flow.run("udp-out", move |shared| {
                    if let Some(peer) = knocked(&server, shared) {
                        match server.connect(peer) {
                            Ok(()) => send(&server, &spec, shared),
                            Err(error) => shared.sent().error = Some(error),
                        }
                    }
                    shared.sent().has_ended = true;
                })?;
                let mut next = Instant::now();
                flow.run("udp-in", move |shared| {
                    receive(&client, shared, || {
                        if Instant::now() >= next && shared.arrivals().is_empty() {
                            // Lost or refused: it knocks again.
                            let _ = client.send(&[]);
                            next = Instant::now() + KNOCK;
                        }
                    });
                })?;
            }
        }
        Ok(flow)
    }

    fn run(&mut self, name: &str, action: impl FnOnce(&Shared) + Send + 'static) -> Result<(), TrafficError> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name(name.into()).spawn(move || action(&shared));
        self.threads.push(thread.map_err(failed(self.spec.sender()))?);
        Ok(())
    }

    /// What was asked for.
    pub fn spec(&self) -> &UdpSpec {
        &self.spec
    }

    /// When it was started; the report counts from here.
    pub fn started(&self) -> Instant {
        self.shared.start
    }

    /// Whether everything has been sent.
    pub fn has_ended(&self) -> bool {
        self.shared.sent().has_ended
    }

    /// What has been sent and received up to now.
    ///
    /// # Errors
    /// If the sender has failed.
    pub fn report(&self) -> Result<UdpReport, TrafficError> {
        let sent = self.shared.sent();
        if let Some(error) = &sent.error {
            let source = io::Error::new(error.kind(), error.to_string());
            return Err(TrafficError::Udp { role: self.spec.sender(), source });
        }
        let elapsed = self.shared.start.elapsed();
        Ok(self.shared.arrivals().report(elapsed, sent.packets, u64::from(self.spec.payload_bytes)))
    }

    /// Waits until everything has been sent, at most `patience`, and a little for what is under way; then ends it.
    ///
    /// # Errors
    /// If the sender has failed.
    pub fn finish(self, patience: Duration) -> Result<UdpReport, TrafficError> {
        let deadline = Instant::now() + patience;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(SLICE);
        }
        let deadline = Instant::now() + AFTERWARDS;
        while self.shared.arrivals().count() < self.shared.sent().packets && Instant::now() < deadline {
            thread::sleep(SLICE);
        }
        self.report()
    }
}

impl Drop for UdpFlow {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic there has ended the thread, which is what is wanted.
            let _ = thread.join();
        }
    }
}

fn failed(role: Role) -> impl Fn(io::Error) -> TrafficError {
    move |source| TrafficError::Udp { role, source }
}

fn bind(host: &Host, role: Role, address: SocketAddr) -> Result<UdpSocket, TrafficError> {
    let socket = host.inside(|| {
        let socket = UdpSocket::bind(address)?;
        socket.set_read_timeout(Some(SLICE))?;
        Ok::<_, io::Error>(socket)
    })?;
    socket.map_err(failed(role))
}

/// Waits for the home end to knock.
fn knocked(server: &UdpSocket, shared: &Shared) -> Option<SocketAddr> {
    let until = shared.start + AFTERWARDS * 10;
    while !shared.stopped() && Instant::now() < until {
        if let Ok((_, peer)) = server.recv_from(&mut [0; 16]) {
            return Some(peer);
        }
    }
    None
}

fn send(socket: &UdpSocket, spec: &UdpSpec, shared: &Shared) {
    prefer_this_thread();
    let mut payload = vec![0; usize::from(spec.payload_bytes)];
    let most = spec.packets.unwrap_or(u64::MAX);
    let (interval, end) = (spec.interval(), Instant::now() + spec.duration);
    let mut due = Instant::now();
    for number in 0..most {
        while due > Instant::now() && !shared.stopped() {
            thread::sleep(due.saturating_duration_since(Instant::now()).min(SLICE));
        }
        if shared.stopped() || due >= end {
            break;
        }
        let since = shared.start.elapsed().as_nanos() as u64;
        payload[..8].copy_from_slice(&number.to_be_bytes());
        payload[8..HEADER].copy_from_slice(&since.to_be_bytes());
        match socket.send(&payload) {
            Ok(_) => shared.sent().packets += 1,
            // The other end is gone, or has not begun: sent and lost, as without a word from it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => shared.sent().packets += 1,
            Err(error) => {
                shared.sent().error = Some(error);
                break;
            }
        }
        // What a busy machine has kept from being sent is left out after a moment, not made up for in a burst.
        due = (due + interval).max(Instant::now().checked_sub(SLICE).unwrap_or(due));
    }
    shared.sent().has_ended = true;
}

fn receive(socket: &UdpSocket, shared: &Shared, mut meanwhile: impl FnMut()) {
    let mut buffer = [0; 2048];
    while !shared.stopped() {
        meanwhile();
        let Ok(length) = socket.recv(&mut buffer) else { continue };
        let now = shared.start.elapsed();
        if let Some((number, sent)) = header(&buffer[..length]) {
            shared.arrivals().note(now, number, sent, length as u64);
        }
    }
}

fn header(payload: &[u8]) -> Option<(u64, Duration)> {
    let (number, sent) = payload.get(..HEADER)?.split_at(8);
    let number = u64::from_be_bytes(number.try_into().ok()?);
    Some((number, Duration::from_nanos(u64::from_be_bytes(sent.try_into().ok()?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_sends_fifty_small_datagrams_a_second() {
        let call = UdpSpec::voip(Direction::Up, Duration::from_secs(1));
        assert_eq!((call.interval(), call.frame_bytes()), (Duration::from_millis(20), 214));
        assert_eq!((call.sender(), call.receiver()), (Role::U2, Role::U1));
    }

    #[test]
    fn the_rate_is_that_of_frames() {
        let rate = Rate::from_bits_per_second(8 * 1242 * 100).unwrap();
        let quic = UdpSpec::quic(Direction::Down, rate, Duration::from_secs(1));
        assert_eq!((quic.interval(), quic.port), (Duration::from_millis(10), 443));
    }

    #[test]
    fn a_payload_without_room_for_its_number_is_refused() {
        let spec = UdpSpec { payload_bytes: 15, ..UdpSpec::voip(Direction::Up, Duration::from_secs(1)) };
        assert!(spec.check().is_err());
        assert!(UdpSpec { payload_bytes: 16, ..spec }.check().is_ok());
    }
}
