//! The reference at work: real ICMP probes through the lab's link, and tc for each change of a rate.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pendulum_model::segment::PerDirection;

use super::contender::{IFB, change_commands};
use crate::experiment::ExperimentError;
use crate::kernel::icmp_socket;
use crate::lab::Lab;
use crate::netns::Host;
use crate::topology::{IpVersion, Role, WAN_DEVICE};
use pendulum_reference::autorate::law::{Law, PING_INTERVAL, PINGERS, RateBounds};

/// Header and data of an echo request, as fping has them.
const ECHO_BYTES: usize = 8 + 56;
/// The same with the IP header.
const PROBE_BYTES: u64 = 20 + ECHO_BYTES as u64;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

/// A running reference. Dropping it ends its thread.
pub(super) struct Reference {
    shared: Arc<ReferenceState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct ReferenceState {
    stopped: AtomicBool,
    requests: AtomicU64,
    replies: AtomicU64,
    changes: AtomicU64,
}

impl Reference {
    /// Starts it on the gateway, whose cakes must be there.
    pub(super) fn start(lab: &Lab, bounds: PerDirection<RateBounds>) -> Result<Self, ExperimentError> {
        let gateway = lab.gateway();
        // Ping sockets are for these groups only.
        gateway.set_sysctl("net.ipv4.ping_group_range", "0 2147483647")?;
        let reflectors: Vec<IpAddr> =
            [Role::D1, Role::U1].into_iter().filter_map(|role| role.address(IpVersion::V4)).collect();
        let failed = |source: io::Error| ExperimentError::Probe { source };
        let socket = gateway.inside(icmp_socket)?.map_err(failed)?;
        let shared = Arc::new(ReferenceState::default());
        let prober = Prober {
            host: gateway.clone(),
            socket,
            reflectors,
            law: Law::new(bounds),
            began: Instant::now(),
            shared: Arc::clone(&shared),
        };
        // A thread begins in its maker's namespace, whose /proc/thread-self/net/dev it reads.
        let thread =
            gateway.inside(|| thread::Builder::new().name("reference".into()).spawn(move || prober.run()))?;
        Ok(Self { shared, thread: Some(thread.map_err(failed)?) })
    }

    /// Bytes of its probes so far: requests up, replies down.
    pub(super) fn probe_bytes(&self) -> PerDirection<u64> {
        let bytes = |count: &AtomicU64| count.load(Ordering::Relaxed) * PROBE_BYTES;
        PerDirection { up: bytes(&self.shared.requests), down: bytes(&self.shared.replies) }
    }

    /// How often it has changed the rates.
    pub(super) fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Relaxed)
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has ended it, which is what is wanted.
            let _ = thread.join();
        }
    }
}

struct Prober {
    host: Host,
    socket: UdpSocket,
    reflectors: Vec<IpAddr>,
    law: Law,
    began: Instant,
    shared: Arc<ReferenceState>,
}

impl Prober {
    fn run(mut self) {
        let stagger = PING_INTERVAL / PINGERS as u32;
        let (mut number, mut next_ping) = (0_u16, self.began);
        let (mut read_at, mut read) = (self.began, device_bytes());
        let mut applied = PerDirection::default();
        while !self.shared.stopped.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now >= next_ping {
                self.ping(number);
                number = number.wrapping_add(1);
                next_ping += stagger;
            }
            let passed = now - read_at;
            if passed >= self.law.load_interval() {
                let bytes = device_bytes();
                let bps = |before: u64, after: u64| {
                    after.saturating_sub(before) as f64 * 8.0 / passed.as_secs_f64()
                };
                self.law.load(PerDirection { up: bps(read.up, bytes.up), down: bps(read.down, bytes.down) });
                (read_at, read) = (now, bytes);
            }
            let wait = next_ping.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            if self.receive(wait) {
                self.apply(&mut applied);
            }
        }
    }

    /// Each pinger has a number of its own in turn, and one of the reflectors.
    fn ping(&self, number: u16) {
        let pinger = usize::from(number) % PINGERS;
        let Some(reflector) = self.reflectors.get(pinger % self.reflectors.len().max(1)) else { return };
        let mut echo = [0_u8; ECHO_BYTES];
        echo[0] = ECHO_REQUEST;
        // The kernel fills in identifier and checksum (ping_v4_sendmsg, net/ipv4/ping.c).
        echo[6..8].copy_from_slice(&number.to_be_bytes());
        let nanos = self.began.elapsed().as_nanos() as u64;
        echo[8..16].copy_from_slice(&nanos.to_be_bytes());
        if self.socket.send_to(&echo, SocketAddr::new(*reflector, 0)).is_ok() {
            self.shared.requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits for a reply; true if there was one.
    fn receive(&mut self, wait: Duration) -> bool {
        let mut echo = [0_u8; 256];
        // A refused time-out leaves the one before it.
        let _ = self.socket.set_read_timeout(Some(wait));
        let Ok(ECHO_BYTES) = self.socket.recv(&mut echo) else { return false };
        if echo[0] != ECHO_REPLY {
            return false;
        }
        self.shared.replies.fetch_add(1, Ordering::Relaxed);
        let number = u16::from_be_bytes([echo[6], echo[7]]);
        let mut nanos = [0; 8];
        nanos.copy_from_slice(&echo[8..16]);
        let now = self.began.elapsed();
        let round_trip = now.saturating_sub(Duration::from_nanos(u64::from_be_bytes(nanos)));
        self.law.reply(now, usize::from(number) % PINGERS, round_trip);
        true
    }

    /// Rates go to tc in whole kbit/s, where they have changed.
    fn apply(&mut self, applied: &mut PerDirection<u64>) {
        let wanted = self.law.rates();
        let wanted = PerDirection { up: (wanted.up / 1e3) as u64, down: (wanted.down / 1e3) as u64 };
        if wanted == *applied {
            return;
        }
        let changed = PerDirection {
            up: (wanted.up != applied.up).then_some(wanted.up),
            down: (wanted.down != applied.down).then_some(wanted.down),
        };
        // Tried again with the next reply if tc refuses.
        if self.host.run_with_input("tc", &["-batch", "-"], &change_commands(changed)).is_ok() {
            *applied = wanted;
            self.shared.changes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Bytes that the two cakes have sent, as the namespace of the calling thread has them.
fn device_bytes() -> PerDirection<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    PerDirection { up: sent_bytes(&text, WAN_DEVICE), down: sent_bytes(&text, IFB) }
}

/// Of /proc/net/dev: name, eight figures of what was received, then bytes sent.
fn sent_bytes(text: &str, device: &str) -> u64 {
    let figures = text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'));
    figures.and_then(|figures| figures.split_ascii_whitespace().nth(8)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_s_bytes_are_read() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes ...\n    lo: 1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n  wan0: 10 1 0 0 0 0 0 0 777 3 0 0 0 0 0 0\n";
        assert_eq!((sent_bytes(text, "wan0"), sent_bytes(text, "ifb-wan")), (777, 0));
    }
}
