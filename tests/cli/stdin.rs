//! Captures that come through standard input.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pendulum::replay::capture::Capture;
use pendulum::replay::packet::LinkType;

use crate::agent::PENDULUM;

fn capture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/two-way.pcap.zst")
}

/// What `pendulum replay` says with these arguments to whom `input` comes through a pipe.
fn piped(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(PENDULUM);
    command.arg("replay").args(arguments).args(["--format", "json"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // Who refuses the arguments does not read.
        let _ = pipe.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn said(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The capture as pcap with nanoseconds (magic 0xa1b23c4d), Ethernet.
fn pcap(path: &Path) -> Vec<u8> {
    let mut file = [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    let mut capture = Capture::open(path).unwrap();
    while capture.advance().unwrap() {
        let record = capture.record().unwrap();
        assert_eq!(record.link_type, LinkType::Ethernet);
        let (seconds, nanoseconds) = (record.time_ns / 1_000_000_000, record.time_ns % 1_000_000_000);
        let head = [seconds as u32, nanoseconds as u32, record.bytes.len() as u32, record.original_len];
        file.extend(head.map(u32::to_le_bytes).concat());
        file.extend(record.bytes);
    }
    file
}

#[test]
fn what_comes_through_a_pipe_says_what_the_file_says() {
    let path = capture();
    let by_path =
        Command::new(PENDULUM).arg("replay").arg("--wan").arg(&path).args(["--format", "json"]).output();
    let expected = said(&by_path.unwrap());
    let compressed = std::fs::read(&path).unwrap();
    let mut pcapng = Vec::new();
    zstd::Decoder::new(compressed.as_slice()).unwrap().read_to_end(&mut pcapng).unwrap();
    for (name, input) in [("zst", &compressed), ("pcapng", &pcapng), ("pcap", &pcap(&path))] {
        assert_eq!(said(&piped(&["--wan", "-"], input)), expected, "{name}");
    }
    // What the shell has opened is no pipe.
    let mut command = Command::new(PENDULUM);
    command.args(["replay", "--wan", "-", "--format", "json"]).stdin(File::open(&path).unwrap());
    assert_eq!(said(&command.output().unwrap()), expected);
}

#[test]
fn what_cannot_be_read_is_refused_with_a_remedy() {
    let (code, message) = refused(&piped(&["--wan", "-", "--lan", "-"], b""));
    assert!(code == Some(64) && message.contains("one capture only"), "{code:?}: {message}");
    let (code, message) = refused(&piped(&["--wan", "-"], b""));
    assert!(code == Some(65) && message.contains("- is empty"), "{code:?}: {message}");
    let (code, message) = refused(&piped(&["--wan", "/dev/stdin"], b"abc"));
    assert!(code == Some(66) && message.contains("give `-`"), "{code:?}: {message}");
}
