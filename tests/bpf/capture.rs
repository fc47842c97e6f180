//! A real capture through the real programs, with the capture's own time: the same as the replay, in every figure.

use std::io::Write as _;
use std::path::Path;

use pendulum::replay::capture::{Capture, Record};
use pendulum::replay::packet::{Packet, parse};

use crate::craft::{self, CraftedFrame, LinkLayer};
use crate::kernel::Kernel;
use crate::{Replay, first_difference};

/// The home machines of the lab (tests/lab/README.md) and of the simulator alike live in 192.168.0.0/16.
pub(crate) fn is_home(address: [u8; 16]) -> bool {
    address[12..14] == [192, 168]
}

/// The captured packet as the programs take it; `None` if it is not TCP.
pub(crate) fn crafted(record: &Record<'_>, is_home: impl Fn([u8; 16]) -> bool) -> Option<CraftedFrame> {
    let Packet::Tcp(segment) = parse(&record.frame()) else { return None };
    // What the capture cut off is payload, which nobody looks at.
    let mut bytes = record.bytes.to_vec();
    bytes.resize(record.original_len as usize, 0);
    Some(CraftedFrame {
        direction: if is_home(segment.source) { craft::Direction::Up } else { craft::Direction::Down },
        time_ns: record.time_ns,
        bytes,
        gso_segs: 0,
        gso_size: 0,
    })
}

/// Run a capture through both; how many frames there were.
fn agree(file: &Path, link_layer: LinkLayer) -> usize {
    let mut kernel = Kernel::new(link_layer);
    let mut replay = Replay::new(link_layer);
    let mut capture = Capture::open(file).expect("a capture");
    let mut frames = 0;
    while capture.advance().expect("whole") {
        let record = capture.record().expect("advanced to it");
        let Some(frame) = crafted(&record, is_home) else { continue };
        kernel.observe(&frame).expect("a whole TCP frame is never refused");
        replay.observe(&frame);
        frames += 1;
    }
    let (ours, theirs) = (kernel.state(), replay.state());
    assert!(
        ours == theirs,
        "{}: kernel and replay differ:\n{}",
        file.display(),
        first_difference(&ours, &theirs)
    );
    assert!(!ours.flows.is_empty() && ours.counters.up.rtt_sum_us > 0, "there was something to measure");
    frames
}

#[test]
fn capture_of_the_lab_is_measured_alike() {
    // Part of the test program, so that it is there in the guests too.
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(include_bytes!("../data/two-way.pcap.zst")).expect("writable");
    let frames = agree(file.path(), LinkLayer::Ethernet);
    println!("{frames} TCP frames");
    assert!(frames > 2000);
}

#[test]
fn capture_of_the_simulator_is_measured_alike() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/ns3/s3/wan.pcap.zst");
    let frames = agree(&file, LinkLayer::RawIp);
    println!("{frames} TCP frames");
    assert!(frames > 50_000);
}
