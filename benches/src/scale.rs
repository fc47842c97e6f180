//! The agent with 10,000 flows: memory and the time of a scrape.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::craft::{self, LinkLayer};
use crate::namespaces::{Pair, REMOTE_DEVICE, WAN, inside};

const FLOWS: u32 = 10_000;
const SCRAPES: usize = 20;

#[derive(Serialize)]
pub(crate) struct Report {
    flows: u64,
    rss_bytes: u64,
    scrape_median_s: f64,
    scrape_max_s: f64,
    scrape_bytes: usize,
}

/// Measure.
pub(crate) fn run(agent: &Path) -> Result<Report> {
    let pair = Pair::new()?;
    let running = pair.agent(agent)?;
    let (up, down) =
        (PacketSocket::open(&pair.gateway, WAN)?, PacketSocket::open(&pair.remote, REMOTE_DEVICE)?);
    for n in 0..FLOWS {
        // Question and answer in turn, as conversations are: a flood of questions would only fill the nursery.
        up.send(&craft::up().home_port(port(n)).seq(1).ack(1).payload(100).build(LinkLayer::Ethernet).bytes)?;
        down.send(&craft::down().home_port(port(n)).seq(1).ack(101).build(LinkLayer::Ethernet).bytes)?;
    }
    let flows = wait_for_flows(&pair)?;
    let mut times = Vec::new();
    let mut scrape_bytes = 0;
    for _ in 0..SCRAPES {
        let start = Instant::now();
        scrape_bytes = pair.get("/metrics")?.len();
        times.push(start.elapsed().as_secs_f64());
        std::thread::sleep(Duration::from_millis(50));
    }
    times.sort_by(f64::total_cmp);
    Ok(Report {
        flows,
        rss_bytes: resident_bytes(running.child.id())?,
        scrape_median_s: times[SCRAPES / 2],
        scrape_max_s: times[SCRAPES - 1],
        scrape_bytes,
    })
}

const fn port(n: u32) -> u16 {
    10_000 + n as u16
}

/// Sends frames out of a device.
struct PacketSocket {
    socket: OwnedFd,
    address: libc::sockaddr_ll,
}

impl PacketSocket {
    fn open(namespace: &str, device: &str) -> Result<Self> {
        inside(namespace, || {
            let name = CString::new(device)?;
            // SAFETY: a NUL-terminated name.
            let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
            // SAFETY: makes a descriptor; its value is checked.
            let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
            ensure!(
                socket >= 0 && ifindex > 0,
                "a packet socket on {device}: {}",
                io::Error::last_os_error()
            );
            // SAFETY: a new descriptor that nobody else owns.
            let socket = unsafe { OwnedFd::from_raw_fd(socket) };
            // SAFETY: plain integers, for which zero is a value.
            let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_ifindex = ifindex.cast_signed();
            Ok(Self { socket, address })
        })
    }

    fn send(&self, frame: &[u8]) -> Result<()> {
        // SAFETY: buffer and address are live and of the sizes given.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const self.address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        ensure!(sent >= 0, "sending a frame: {}", io::Error::last_os_error());
        Ok(())
    }
}

fn wait_for_flows(pair: &Pair) -> Result<u64> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let state: Value = serde_json::from_str(&pair.get("/api/v1/state")?)?;
        let flows = state.pointer("/links/0/flow_table/flows").and_then(Value::as_u64);
        let flows = flows.context("the state tells how full the flow table is")?;
        if flows >= u64::from(FLOWS) || Instant::now() > deadline {
            ensure!(flows * 10 >= u64::from(FLOWS) * 9, "only {flows} of {FLOWS} flows arrived");
            return Ok(flows);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The resident memory of a process.
fn resident_bytes(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS is told")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The agent with {} flows\n", self.flows)?;
        writeln!(f, "resident memory    {:>8.1} MB  (aim ≤ 30)", self.rss_bytes as f64 / 1e6)?;
        writeln!(
            f,
            "scrape of /metrics {:>8.1} ms median, {:.1} ms worst of {SCRAPES}, {} bytes  (aim ≤ 20 ms)",
            self.scrape_median_s * 1e3,
            self.scrape_max_s * 1e3,
            self.scrape_bytes
        )
    }
}
