//! Transfers whose every byte is known: what arrives is compared with what was sent, octet by octet.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use pendulum_lab::Lab;
use pendulum_lab::netns::Host;
use pendulum_lab::topology::{IpVersion, Role};
use pendulum_lab::truth::counter;
use socket2::{Domain, Protocol, Socket, Type};

/// A connection that stands still for so long has failed.
const PATIENCE: Duration = Duration::from_secs(90);
const STAGGER: Duration = Duration::from_millis(5);
const MPTCP: i32 = 262;

/// Several connections at once, all of one kind. The home end opens them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flows {
    pub(crate) ip: IpVersion,
    pub(crate) mptcp: bool,
    pub(crate) connections: usize,
    pub(crate) bytes: usize,
    /// From home to the internet (U2 → U1), or the other way (D1 → D2).
    pub(crate) upload: bool,
}

impl Flows {
    pub(crate) const fn download(ip: IpVersion, bytes: usize) -> Self {
        Self { ip, mptcp: false, connections: 1, bytes, upload: false }
    }

    pub(crate) const fn upload(ip: IpVersion, bytes: usize) -> Self {
        Self { upload: true, ..Self::download(ip, bytes) }
    }

    /// To the end, byte for byte. What went wrong, if anything did.
    pub(crate) fn run(&self, lab: &Lab) -> Result<(), String> {
        static PORT: AtomicU16 = AtomicU16::new(20_000);
        let port = PORT.fetch_add(1, Ordering::Relaxed);
        let (server, client) = if self.upload { (Role::U1, Role::U2) } else { (Role::D1, Role::D2) };
        let address = SocketAddr::new(server.address(self.ip).expect("an endpoint"), port);
        let (server, client) = (lab.host(server), lab.host(client));
        let listener = inside(&server, || self.listen(address))?;
        std::thread::scope(|scope| {
            let served = scope.spawn(|| inside(&server, || self.serve(&listener)));
            let called = scope.spawn(|| inside(&client, || self.call(address)));
            let called = called.join().expect("the client's thread");
            called.and(served.join().expect("the server's thread"))
        })
    }

    fn socket(&self, address: &SocketAddr) -> io::Result<Socket> {
        let protocol = if self.mptcp { Protocol::from(MPTCP) } else { Protocol::TCP };
        let socket = Socket::new(Domain::for_address(*address), Type::STREAM, Some(protocol))?;
        socket.set_tcp_congestion(b"cubic")?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(socket)
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Socket> {
        let any = match address.ip() {
            IpAddr::V4(_) => IpAddr::from([0; 4]),
            IpAddr::V6(_) => IpAddr::from([0; 16]),
        };
        let socket = self.socket(&address)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::new(any, address.port()).into())?;
        socket.listen(self.connections as i32 + 8)?;
        Ok(socket)
    }

    fn serve(&self, listener: &Socket) -> io::Result<()> {
        each(self.connections, |_| {
            let (socket, _) = listener.accept()?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.set_write_timeout(Some(PATIENCE))?;
            let stream = TcpStream::from(socket);
            let mut number = [0; 8];
            (&stream).read_exact(&mut number)?;
            let seed = u64::from_be_bytes(number);
            if self.upload { self.receive(&stream, seed) } else { self.send(&stream, seed) }
        })
    }

    fn call(&self, address: SocketAddr) -> io::Result<()> {
        each(self.connections, |number| {
            // People's programs do not open all at the same moment.
            std::thread::sleep(STAGGER * number as u32);
            let socket = self.socket(&address)?;
            socket.connect_timeout(&address.into(), PATIENCE)?;
            let stream = TcpStream::from(socket);
            let seed = number as u64 + 1;
            (&stream).write_all(&seed.to_be_bytes())?;
            if self.upload { self.send(&stream, seed) } else { self.receive(&stream, seed) }
        })
    }

    /// Ends when the other end has confirmed the last byte.
    fn send(&self, mut stream: &TcpStream, seed: u64) -> io::Result<()> {
        stream.write_all(&content(seed, self.bytes))?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut confirmed = [0; 1];
        stream.read_exact(&mut confirmed)
    }

    fn receive(&self, mut stream: &TcpStream, seed: u64) -> io::Result<()> {
        let mut received = Vec::with_capacity(self.bytes);
        stream.read_to_end(&mut received)?;
        let wanted = content(seed, self.bytes);
        if received != wanted {
            let at = received.iter().zip(&wanted).position(|(a, b)| a != b).unwrap_or(received.len());
            let text =
                format!("{} of {} bytes came, the first wrong one is {at}", received.len(), self.bytes);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        stream.write_all(&[1])
    }
}

/// `action` for each number on a thread of its own, which stands on the same machine as the caller's.
fn each(count: usize, action: impl Fn(usize) -> io::Result<()> + Sync) -> io::Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|number| {
                scope.spawn({
                    let action = &action;
                    move || action(number)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

pub(crate) fn inside<T: Send>(
    host: &Host,
    action: impl FnOnce() -> io::Result<T> + Send,
) -> Result<T, String> {
    let name = host.namespace().name().to_owned();
    match host.inside(action) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(format!("{name}: {error}")),
        Err(error) => Err(error.to_string()),
    }
}

/// xorshift64*: no two stretches of it are alike, so that a lost, doubled or displaced one shows.
fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut all = Vec::with_capacity(bytes + 8);
    while all.len() < bytes {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        all.extend(state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    all.truncate(bytes);
    all
}

/// What the TCP of all four endpoints together has counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) checksum_errors: u64,
    pub(crate) timeouts: u64,
    pub(crate) retransmitted: u64,
    /// Packets that came marked (CE) to the machine whose ACKs pass the filter.
    pub(crate) marked: u64,
    pub(crate) mptcp: u64,
}

impl Tally {
    pub(crate) fn read(lab: &Lab) -> Self {
        let mut all = Self::default();
        for role in Role::ALL.into_iter().filter(|role| role.is_endpoint()) {
            let text = lab
                .host(role)
                .inside(|| {
                    ["snmp", "netstat", "snmp6"].map(|file| {
                        std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default()
                    })
                })
                .expect("the machine is there");
            let count = |group: &str, name: &str| {
                text.iter().filter_map(|text| counter(text, group, name)).sum::<u64>()
            };
            all.checksum_errors += count("Tcp", "InCsumErrors") + count("IpExt", "InCsumErrors");
            all.timeouts += count("TcpExt", "TCPTimeouts");
            all.retransmitted += count("Tcp", "RetransSegs");
            if role == Role::D2 {
                all.marked = count("IpExt", "InCEPkts") + counter6(&text[2], "Ip6InCEPkts");
            }
            all.mptcp += count("MPTcpExt", "MPCapableSYNACKRX");
        }
        all
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            checksum_errors: self.checksum_errors - before.checksum_errors,
            timeouts: self.timeouts - before.timeouts,
            retransmitted: self.retransmitted - before.retransmitted,
            marked: self.marked - before.marked,
            mptcp: self.mptcp - before.mptcp,
        }
    }
}

fn counter6(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}
