//! What tshark says of each frame of a capture.

use std::path::Path;
use std::process::Command;

/// One frame as tshark sees it.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) payload: u32,
    pub(crate) flags: u32,
    pub(crate) has_sack_blocks: bool,
    pub(crate) is_duplicate_ack: bool,
    pub(crate) is_window_update: bool,
    pub(crate) is_keep_alive: bool,
    pub(crate) is_zero_window_probe: bool,
    pub(crate) is_retransmission: bool,
    pub(crate) is_out_of_order: bool,
    pub(crate) bytes_in_flight: Option<u32>,
    pub(crate) ack_rtt_s: Option<f64>,
}

impl Verdict {
    pub(crate) const FIN: u32 = 0x01;
    pub(crate) const SYN: u32 = 0x02;
    pub(crate) const RST: u32 = 0x04;

    pub(crate) const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The class by tshark's own marks, in the terms of docs/design/measurement.md. (tshark tells a duplicate ACK by an
    /// unchanged window; with SACK blocks a changed window makes no difference to a sender, RFC 6675.)
    pub(crate) const fn class(&self) -> &'static str {
        if self.has(Self::RST) {
            "rst"
        } else if self.has(Self::SYN) {
            "syn"
        } else if self.is_zero_window_probe {
            "zero_window_probe"
        } else if self.is_keep_alive {
            "keep_alive"
        } else if self.payload > 0 {
            "data"
        } else if self.has(Self::FIN) {
            "fin"
        } else if self.is_duplicate_ack || (self.is_window_update && self.has_sack_blocks) {
            "dup_ack"
        } else if self.has_sack_blocks {
            "sack"
        } else if self.is_window_update {
            "window_update"
        } else {
            "ack"
        }
    }
}

const FIELDS: [&str; 13] = [
    "tcp.len",
    "tcp.flags",
    "tcp.options.sack_le",
    "tcp.analysis.duplicate_ack",
    "tcp.analysis.window_update",
    "tcp.analysis.keep_alive",
    "tcp.analysis.zero_window_probe",
    "tcp.analysis.retransmission",
    "tcp.analysis.fast_retransmission",
    "tcp.analysis.spurious_retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.bytes_in_flight",
    "tcp.analysis.ack_rtt",
];

/// Run tshark over a capture: one verdict for each frame, `None` for one without TCP.
pub(crate) fn analyse(capture: &Path) -> Vec<Option<Verdict>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-E", "occurrence=f"]);
    // Outstanding data by sequence numbers, as it is defined here, and not the sum of the segments that were seen.
    command.args(["-o", "tcp.desegment_tcp_streams:FALSE", "-o", "tcp.bif_seq_based:TRUE"]);
    command.arg("-r").arg(capture);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark starts");
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").lines().map(verdict).collect()
}

fn verdict(line: &str) -> Option<Verdict> {
    let fields: Vec<&str> = line.split('\t').collect();
    let set = |index: usize| fields.get(index).is_some_and(|field| !field.is_empty());
    if !set(0) {
        return None;
    }
    Some(Verdict {
        payload: fields[0].parse().expect("tcp.len is a number"),
        flags: u32::from_str_radix(fields[1].trim_start_matches("0x"), 16).expect("tcp.flags is hexadecimal"),
        has_sack_blocks: set(2),
        is_duplicate_ack: set(3),
        is_window_update: set(4),
        is_keep_alive: set(5),
        is_zero_window_probe: set(6),
        is_retransmission: set(7) || set(8) || set(9),
        is_out_of_order: set(10),
        bytes_in_flight: fields.get(11).and_then(|field| field.parse().ok()),
        ack_rtt_s: fields.get(12).and_then(|field| field.parse().ok()),
    })
}
