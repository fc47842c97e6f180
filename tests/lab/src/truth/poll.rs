//! Queue lengths many times a second: the same figures as `tc -s qdisc`, without a process for each reading.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use pendulum_model::segment::PerDirection;
use serde::Deserialize;

use super::{QueueReading, TruthError};
use crate::kernel::packet::prefer_this_thread;
use crate::netns::Host;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST` and `NLM_F_DUMP`: an answer to a plain request would also go to everyone who listens for changes.
const FLAGS: u16 = 0x301;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const HEADER: usize = 16;
/// `struct tcmsg`, <linux/rtnetlink.h>.
const TCMSG: usize = 20;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;

/// Reads the root qdisc of one device, as often as one likes.
pub struct QueuePoller {
    socket: Socket,
    index: u32,
}

#[derive(Deserialize)]
struct PolledLink {
    ifindex: u32,
}

impl QueuePoller {
    /// Opens it.
    ///
    /// # Errors
    /// If the device is not there.
    pub fn open(host: &Host, device: &str) -> Result<Self, TruthError> {
        let format = |reason: String| TruthError::Format { tool: "netlink", device: device.into(), reason };
        let json = host.run("ip", &["-j", "link", "show", "dev", device])?;
        let links: Vec<PolledLink> =
            serde_json::from_str(&json).map_err(|error| format(error.to_string()))?;
        let index = links.first().ok_or_else(|| format("no device is listed".to_owned()))?.ifindex;
        let socket = host.inside(|| {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok::<_, io::Error>(socket)
        })?;
        Ok(Self { socket: socket.map_err(|error| format(error.to_string()))?, index })
    }

    /// Reads it now.
    ///
    /// # Errors
    /// What the kernel says; `NotFound` if the device has no root qdisc.
    pub fn take(&self) -> io::Result<QueueReading> {
        self.socket.send(&request(self.index), 0)?;
        let mut found = None;
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = datagram.as_slice();
            while let Some((kind, body, next)) = message(rest) {
                rest = next;
                match kind {
                    NLMSG_DONE => return found.ok_or_else(|| io::ErrorKind::NotFound.into()),
                    NLMSG_ERROR => {
                        let code = u32_at(body, 0).unwrap_or_default().cast_signed();
                        return Err(io::Error::from_raw_os_error(-code));
                    }
                    // Older kernels answer for every device.
                    RTM_NEWQDISC
                        if u32_at(body, 4) == Some(self.index) && u32_at(body, 12) == Some(TC_H_ROOT) =>
                    {
                        found = reading(body);
                    }
                    _ => {}
                }
            }
        }
    }
}

fn request(index: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + TCMSG);
    bytes.extend(((HEADER + TCMSG) as u32).to_ne_bytes());
    bytes.extend(RTM_GETQDISC.to_ne_bytes());
    bytes.extend(FLAGS.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([0; 4]);
    bytes.extend(index.to_ne_bytes());
    bytes.extend([0; 12]);
    bytes
}

/// The first message of a datagram: its type, its body, and what follows it.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32_at(bytes, 0)? as usize;
    let body = bytes.get(HEADER..length)?;
    Some((u16_at(bytes, 4)?, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn reading(body: &[u8]) -> Option<QueueReading> {
    let stats = attribute(body.get(TCMSG..)?, TCA_STATS2)?;
    let basic = attribute(stats, TCA_STATS_BASIC)?;
    let queue = attribute(stats, TCA_STATS_QUEUE)?;
    Some(QueueReading {
        backlog_packets: u32_at(queue, 0)?.into(),
        backlog_bytes: u32_at(queue, 4)?.into(),
        dropped_packets: u32_at(queue, 8)?.into(),
        sent_bytes: u64::from_ne_bytes(basic.get(..8)?.try_into().ok()?),
        sent_packets: u32_at(basic, 8)?.into(),
    })
}

fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(bytes, 0)?);
        let value = bytes.get(4..length)?;
        // NLA_TYPE_MASK: without the flags "nested" and "network byte order".
        if u16_at(bytes, 2)? & 0x3fff == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Both queues at one moment.
pub type QueueMoment = (Duration, PerDirection<QueueReading>);

/// Reads both queues on a thread of its own until it is finished or dropped.
#[derive(Debug)]
pub struct QueueWatch {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<QueueMoment>>>,
}

impl QueueWatch {
    /// Reads them every `interval`; moments count from `start`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(pollers: PerDirection<QueuePoller>, start: Instant, interval: Duration) -> io::Result<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stopped);
        let thread = thread::Builder::new().name("queues".into()).spawn(move || {
            prefer_this_thread();
            let mut moments = Vec::new();
            let mut next = start;
            while !flag.load(Ordering::Relaxed) {
                thread::sleep(next.saturating_duration_since(Instant::now()));
                // Readings that a busy machine has made late are left out, not made up for.
                next = (next + interval).max(Instant::now());
                let (Ok(up), Ok(down)) = (pollers.up.take(), pollers.down.take()) else { continue };
                moments.push((start.elapsed(), PerDirection { up, down }));
            }
            moments
        })?;
        Ok(Self { stopped, thread: Some(thread) })
    }

    /// Ends it and returns what it has seen.
    pub fn finish(mut self) -> Vec<QueueMoment> {
        self.stopped.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for QueueWatch {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has ended the thread, which is what is wanted.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_device() {
        let bytes = request(7);
        assert_eq!((bytes.len(), u32_at(&bytes, 0)), (HEADER + TCMSG, Some(36)));
        let (kind, body, rest) = message(&bytes).unwrap();
        assert_eq!((kind, u32_at(body, 4), rest), (RTM_GETQDISC, Some(7), [].as_slice()));
    }

    #[test]
    fn figures_are_found_in_nested_attributes() {
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let numbers =
            |values: &[u32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
        let mut basic = 1544_u64.to_ne_bytes().to_vec();
        basic.extend(numbers(&[14]));
        let stats =
            [attribute(TCA_STATS_BASIC, &basic), attribute(TCA_STATS_QUEUE, &numbers(&[3, 4542, 9, 0, 0]))]
                .concat();
        let mut body = vec![0; TCMSG];
        body.extend(attribute(1, b"tbf\0"));
        body.extend(attribute(TCA_STATS2 | 0x8000, &stats));
        let expected = QueueReading {
            backlog_bytes: 4542,
            backlog_packets: 3,
            dropped_packets: 9,
            sent_bytes: 1544,
            sent_packets: 14,
        };
        assert_eq!(reading(&body), Some(expected));
        assert_eq!(reading(&body[..30]), None);
    }
}
