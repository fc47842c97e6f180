//! `pendulum replay` beside `tshark -q -z io,stat,0`: the same file, in turn, in the same minute.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use crate::craft::{self, LinkLayer};

/// Packets of the capture.
const PACKETS: u32 = 1_000_000;
/// Conversations in it.
const FLOWS: u32 = 64;
/// Between two packets: about 100 Mb/s.
const GAP_US: u32 = 80;
/// Captured of each: all headers.
const SNAP: usize = 96;
const PAYLOAD: usize = 1448;
/// The smallest time of so many rounds counts: noise only ever adds.
const ROUNDS: u32 = 3;

#[derive(Serialize)]
pub(crate) struct ReplayReport {
    packets: u32,
    file_bytes: u64,
    pendulum: Run,
    #[serde(skip_serializing_if = "Option::is_none")]
    tshark: Option<Run>,
}

#[derive(Clone, Copy, Serialize)]
struct Run {
    seconds: f64,
    packets_per_second: f64,
    megabytes_per_second: f64,
    /// Most resident memory of any round.
    peak_memory_bytes: u64,
}

/// Measure.
pub(crate) fn run(agent: &Path) -> Result<ReplayReport> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("bench.pcap");
    write_capture(&file).context("cannot write the capture")?;
    let file_bytes = std::fs::metadata(&file)?.len();
    let mut replay = Command::new(agent);
    replay.arg("replay").arg("--wan").arg(&file);
    replay.args(["--uplink-rate", "100mbit", "--downlink-rate", "100mbit", "--format", "json"]);
    let mut tshark = Command::new("tshark");
    tshark.args(["-q", "-z", "io,stat,0", "-r"]).arg(&file);
    let has_tshark = Command::new("tshark").arg("--version").stdout(Stdio::null()).status().is_ok();
    let (mut ours, mut theirs) = (None, None);
    for _ in 0..ROUNDS {
        ours = Some(better(ours, timed(&mut replay, file_bytes)?));
        if has_tshark {
            theirs = Some(better(theirs, timed(&mut tshark, file_bytes)?));
        }
    }
    Ok(ReplayReport {
        packets: PACKETS,
        file_bytes,
        pendulum: ours.context("no round was run")?,
        tshark: theirs,
    })
}

fn better(before: Option<Run>, now: Run) -> Run {
    let Some(before) = before else { return now };
    let peak_memory_bytes = before.peak_memory_bytes.max(now.peak_memory_bytes);
    let faster = if now.seconds < before.seconds { now } else { before };
    Run { peak_memory_bytes, ..faster }
}

fn timed(command: &mut Command, file_bytes: u64) -> Result<Run> {
    let start = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: all zeroes is a value of this plain structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: our own child, which nobody else waits for; both pointers are valid for writing.
    let ended = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    ensure!(ended == pid, "cannot wait for {command:?}: {}", io::Error::last_os_error());
    let seconds = start.elapsed().as_secs_f64();
    ensure!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{command:?} failed");
    Ok(Run {
        seconds,
        packets_per_second: f64::from(PACKETS) / seconds,
        megabytes_per_second: file_bytes as f64 / 1e6 / seconds,
        peak_memory_bytes: u64::try_from(usage.ru_maxrss)? * 1024,
    })
}

/// Downloads and their ACKs: two data segments, one ACK, with timestamps; a few hundred bytes of headers differ.
fn write_capture(path: &Path) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    // pcap, microseconds, Ethernet (LINKTYPE 1).
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, SNAP as u32, 1] {
        file.write_all(&word.to_le_bytes())?;
    }
    let mut sequence = [1_u32; FLOWS as usize];
    for number in 0..PACKETS {
        // Three packets of one flow after each other.
        let n = number / 3 % FLOWS;
        let port = 10_000 + u16::try_from(n)?;
        let seq = &mut sequence[n as usize];
        let clock = number * GAP_US / 1000 + 1;
        let frame = if number % 3 == 2 {
            craft::up().home_port(port).seq(1).ack(*seq).ts(clock, clock)
        } else {
            let data = craft::down().home_port(port).seq(*seq).ack(1).payload(PAYLOAD).ts(clock, clock);
            *seq = seq.wrapping_add(PAYLOAD as u32);
            data
        };
        let bytes = frame.build(LinkLayer::Ethernet).bytes;
        let captured = bytes.len().min(SNAP);
        let (seconds, micros) = (number * GAP_US / 1_000_000, number * GAP_US % 1_000_000);
        for word in [seconds, micros, captured as u32, bytes.len() as u32] {
            file.write_all(&word.to_le_bytes())?;
        }
        file.write_all(&bytes[..captured])?;
    }
    Ok(file.flush()?)
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.file_bytes as f64 / 1e6;
        writeln!(out, "replay of {} packets, {megabytes:.0} MB, best of {ROUNDS}:", self.packets)?;
        let mut line = |name: &str, run: &Run| {
            writeln!(
                out,
                "  {name:<34} {:>9.0} packets/s {:>6.1} MB/s {:>6.0} MB of memory",
                run.packets_per_second,
                run.megabytes_per_second,
                run.peak_memory_bytes as f64 / 1e6
            )
        };
        line("pendulum replay", &self.pendulum)?;
        match &self.tshark {
            Some(tshark) => {
                line("tshark -q -z io,stat,0", tshark)?;
                writeln!(out, "  {:.1} times as fast; the aim is 10", tshark.seconds / self.pendulum.seconds)
            }
            None => writeln!(out, "  tshark is not installed, so there is nothing to compare with"),
        }
    }
}
