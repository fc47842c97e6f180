//! How many pure ACKs travel between two data segments (000 Fig. 3.4), counted in a capture of the gateway's `wan0`.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use pendulum_model::segment::{Direction, PerDirection};
use serde::Serialize;

use super::TruthError;

/// Bursts of pure ACKs in one direction. ACKs with nothing between them but other ACKs are one burst.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AckBursts {
    /// How many bursts there were of each length.
    pub histogram: BTreeMap<u32, u64>,
    #[serde(skip)]
    running: u32,
}

impl AckBursts {
    fn add(&mut self, pure_ack: bool) {
        if pure_ack {
            self.running += 1;
        } else if self.running > 0 {
            *self.histogram.entry(std::mem::take(&mut self.running)).or_default() += 1;
        }
    }

    /// Mean length; `None` without a burst.
    pub fn mean(&self) -> Option<f64> {
        let bursts: u64 = self.histogram.values().sum();
        let acks: u64 = self.histogram.iter().map(|(length, count)| u64::from(*length) * count).sum();
        (bursts > 0).then(|| acks as f64 / bursts as f64)
    }

    /// Share of the ACKs that travel in bursts of at least `length`; `None` without a burst.
    pub fn share_in_bursts_of(&self, length: u32) -> Option<f64> {
        let acks = |from: u32| -> u64 {
            self.histogram.range(from..).map(|(length, count)| u64::from(*length) * count).sum()
        };
        (acks(0) > 0).then(|| acks(length) as f64 / acks(0) as f64)
    }
}

/// Magic number of a capture with microseconds, as tcpdump writes it, in this machine's byte order.
const MAGIC: u32 = 0xa1b2_c3d4;
const GLOBAL_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const LONGEST_RECORD: usize = 1 << 18;

/// Counts the bursts of a capture between two moments of its time, which is that of the system's clock since 1970. `is_home` tells the
/// addresses behind the gateway.
///
/// # Errors
/// If the file cannot be read or is no capture by tcpdump on this machine.
pub fn ack_bursts(
    file: &Path,
    from: Duration,
    to: Duration,
    is_home: impl Fn(IpAddr) -> bool,
) -> Result<PerDirection<AckBursts>, TruthError> {
    let read = || -> io::Result<PerDirection<AckBursts>> {
        bursts_of(BufReader::new(std::fs::File::open(file)?), from, to, is_home)
    };
    read().map_err(|error| TruthError::File { file: file.into(), reason: error.to_string() })
}

fn bursts_of(
    mut capture: impl Read,
    from: Duration,
    to: Duration,
    is_home: impl Fn(IpAddr) -> bool,
) -> io::Result<PerDirection<AckBursts>> {
    let mut header = [0; GLOBAL_HEADER];
    capture.read_exact(&mut header)?;
    if number(&header, 0) != MAGIC {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no capture of this machine's tcpdump"));
    }
    let mut bursts = PerDirection::<AckBursts>::default();
    let mut record = [0; RECORD_HEADER];
    let mut frame = Vec::new();
    loop {
        match capture.read_exact(&mut record) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(bursts),
            Err(error) => return Err(error),
        }
        let length = number(&record, 8) as usize;
        if length > LONGEST_RECORD {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet's length makes no sense"));
        }
        frame.resize(length, 0);
        capture.read_exact(&mut frame)?;
        let at = Duration::new(number(&record, 0).into(), number(&record, 4).saturating_mul(1000));
        if let Some(segment) = parse(&frame).filter(|_| (from..=to).contains(&at)) {
            let direction = if is_home(segment.source) { Direction::Up } else { Direction::Down };
            bursts[direction].add(segment.pure_ack);
        }
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

struct Segment {
    source: IpAddr,
    pure_ack: bool,
}

/// TCP over IPv4 in an Ethernet frame, which is what the experiments send. A segment without payload and without SYN, FIN or RST is a
/// pure ACK.
fn parse(frame: &[u8]) -> Option<Segment> {
    const ETHERNET: usize = 14;
    const SYN_FIN_RST: u8 = 0x07;
    let ip = frame.get(ETHERNET..).filter(|_| frame[12..14] == [8, 0])?;
    let ip_header = usize::from(ip.first()? & 15) * 4;
    let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    let tcp = ip.get(ip_header..).filter(|_| ip.get(9) == Some(&6))?;
    let tcp_header = usize::from(tcp.get(12)? >> 4) * 4;
    let source: [u8; 4] = ip.get(12..16)?.try_into().ok()?;
    let pure_ack = total == ip_header + tcp_header && tcp.get(13)? & SYN_FIN_RST == 0;
    Some(Segment { source: source.into(), pure_ack })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(source: [u8; 4], payload: u16) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + 20];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&(40 + payload).to_be_bytes());
        frame[23] = 6;
        frame[26..30].copy_from_slice(&source);
        frame[14 + 20 + 12] = 0x50;
        frame[14 + 20 + 13] = 0x10;
        frame
    }

    fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.resize(GLOBAL_HEADER, 0);
        for (second, frame) in (0_u32..).zip(frames) {
            let length = frame.len() as u32;
            bytes.extend([second, 0, length, length].iter().flat_map(|value| value.to_ne_bytes()));
            bytes.extend(frame);
        }
        bytes
    }

    #[test]
    fn a_burst_ends_with_the_next_data_segment() {
        const HOME: [u8; 4] = [192, 168, 1, 2];
        let (ack, data) = (frame(HOME, 0), frame(HOME, 1448));
        let other = frame([198, 18, 1, 2], 0);
        let frames = [&data, &ack, &ack, &other, &ack, &data, &ack, &data, &ack].map(Clone::clone);
        let is_home = |address| address == IpAddr::from(HOME);
        let bursts =
            bursts_of(capture(&frames).as_slice(), Duration::ZERO, Duration::from_secs(99), is_home).unwrap();
        // The last burst has not ended, and ACKs of the other direction belong to the other direction.
        assert_eq!(bursts.up.histogram, BTreeMap::from([(1, 1), (3, 1)]));
        assert_eq!(bursts.up.mean(), Some(2.0));
        assert_eq!(bursts.up.share_in_bursts_of(3), Some(0.75));
        assert_eq!(bursts.down.mean(), None);
        let none = bursts_of(capture(&frames).as_slice(), Duration::from_secs(50), Duration::MAX, is_home);
        assert_eq!(none.unwrap().up.mean(), None);
    }

    #[test]
    fn what_is_no_capture_is_refused() {
        let read = |bytes: &[u8]| bursts_of(bytes, Duration::ZERO, Duration::MAX, |_| true);
        assert!(read(b"not a capture, but long enough to be one").is_err());
        assert!(read(b"").is_err());
    }
}
