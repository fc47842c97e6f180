//! Packet captures by tcpdump.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::TruthError;
use crate::netns::Host;
use crate::process::Process;

/// A capture that runs until it is stopped or dropped.
///
/// A packet that leaves is captured *behind* the device's qdisc (`dev_hard_start_xmit`): on `wan0` that is the bottleneck
/// side of the uplink buffer, on `lan0` the side before it.
#[derive(Debug)]
pub struct Capture {
    process: Process,
    device: String,
    file: PathBuf,
}

/// What tcpdump says at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Packets written to the file.
    pub captured: u64,
    /// Packets lost because tcpdump was too slow; a test must insist on 0.
    pub dropped_by_kernel: u64,
}

impl Capture {
    /// How long tcpdump may take to open the device, or to write the rest of its file.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Starts capturing `snap_bytes` of each packet of `device` into `file`; the capture is on when this returns.
    ///
    /// # Errors
    /// If tcpdump cannot be started or cannot open the device or the file.
    pub fn start(host: &Host, device: &str, file: &Path, snap_bytes: u32) -> Result<Self, TruthError> {
        let mut command = host.command("tcpdump")?;
        // -Z root: it would drop to a user that cannot write there. Without immediate mode packets stand in a block of
        // the ring for up to a second, and are lost when tcpdump is asked to stop.
        command
            .args([
                "--immediate-mode",
                "-n",
                "-Z",
                "root",
                "-B",
                "16384",
                "-i",
                device,
                "-s",
                &snap_bytes.to_string(),
                "-w",
            ])
            .arg(file);
        let process = host.spawn(command, &format!("tcpdump-{device}"))?;
        let mut capture = Self { process, device: device.into(), file: file.into() };
        let deadline = Instant::now() + Self::PATIENCE;
        while !capture.process.stderr()?.contains("listening on") {
            if capture.process.try_wait()?.is_some() || Instant::now() > deadline {
                return Err(capture.failed()?);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(capture)
    }

    /// Where the packets go.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Stops the capture with its file complete.
    ///
    /// # Errors
    /// If tcpdump failed meanwhile.
    pub fn stop(mut self) -> Result<CaptureCounts, TruthError> {
        // SIGINT ends the loop whatever still stands in the ring: give tcpdump the time to wake up and read it.
        std::thread::sleep(Duration::from_millis(200));
        self.process.stop(libc::SIGINT, Self::PATIENCE)?;
        match parse_counts(&self.process.stderr()?) {
            Some(counts) => Ok(counts),
            None => Err(self.failed()?),
        }
    }

    fn failed(&self) -> Result<TruthError, TruthError> {
        let message = self.process.stderr()?.trim().to_owned();
        Ok(TruthError::Capture { device: self.device.clone(), message })
    }
}

fn parse_counts(stderr: &str) -> Option<CaptureCounts> {
    let count = |what: &str| {
        let line = stderr.lines().find(|line| line.contains(what))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    Some(CaptureCounts { captured: count("captured")?, dropped_by_kernel: count("dropped by kernel")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_final_counts_are_read() {
        let text = "tcpdump: listening on wan0, link-type EN10MB (Ethernet), snapshot length 128 bytes\n\
                    120 packets captured\n121 packets received by filter\n3 packets dropped by kernel\n";
        assert_eq!(parse_counts(text), Some(CaptureCounts { captured: 120, dropped_by_kernel: 3 }));
        assert_eq!(parse_counts("tcpdump: nosuch0: No such device exists"), None);
    }
}
