//! Links as users have them: the uplink's buffer in a modem, translated addresses, UDP.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pendulum_lab::lab::{Lab, LabError, LinkSpec};
use pendulum_lab::topology::{BufferPlace, Role};
use pendulum_lab::traffic::{Transfer, TransferSpec, UdpFlow, UdpSpec};
use pendulum_lab::truth::{QueueReading, read_sockets};
use pendulum_model::segment::Direction;

use super::{can_run, seconds, skip};

const MODEM: LinkSpec = LinkSpec { uplink_buffer_at: BufferPlace::Modem, ..LinkSpec::FIG1 };

fn namespaces() -> String {
    String::from_utf8(Command::new("ip").args(["netns", "list"]).output().unwrap().stdout).unwrap()
}

/// Reads the buffer of a direction until it holds so many bytes.
fn wait_for_queue(lab: &Lab, direction: Direction, bytes: u64) -> QueueReading {
    let (host, device) = lab.queue(direction);
    let deadline = Instant::now() + seconds(30);
    loop {
        let reading = QueueReading::take(&host, device).unwrap();
        if reading.backlog_bytes >= bytes {
            return reading;
        }
        assert!(Instant::now() < deadline, "{reading:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_upload_stands_in_the_modem_and_nowhere_else() {
    if !can_run() {
        return;
    }
    let lab = Lab::start(MODEM).unwrap();
    let (modem, device) = lab.queue(Direction::Up);
    assert!(modem.namespace().name().ends_with("-modem"));
    let shown = lab.gateway().run("tc", &["qdisc", "show", "dev", "wan0"]).unwrap();
    assert!(shown.starts_with("qdisc noqueue"), "{shown}");
    let upload = Transfer::start(&lab, TransferSpec::new(Direction::Up, seconds(60))).unwrap();
    // Reno fills any drop-tail buffer; nothing goes beyond its limit.
    let standing = wait_for_queue(&lab, Direction::Up, 20_000);
    assert!(standing.backlog_bytes <= 30_000, "{standing:?}");
    let shown = modem.run("tc", &["-s", "qdisc", "show", "dev", device]).unwrap();
    assert!(shown.contains("tbf") && shown.contains("bfifo") && shown.contains("limit 30000b"), "{shown}");
    // Every packet stands there with its wire size; a super-packet would be several frames.
    assert!(standing.backlog_bytes <= 1514 * standing.backlog_packets, "{standing:?}");
    drop(upload);
    let name = format!("pdl-{}-", lab.id());
    assert_eq!(namespaces().matches(&name).count(), 8);
    lab.stop().unwrap();
    assert_eq!(namespaces().matches(&name).count(), 0);
}

#[test]
fn behind_address_translation_all_flows_are_the_gateway_s() {
    if !can_run() {
        return;
    }
    let lab = match Lab::start(LinkSpec { nat: true, ..MODEM }) {
        Err(error @ LabError::Nat(_)) => return skip(&error.to_string()),
        lab => lab.unwrap(),
    };
    let _upload = Transfer::start(&lab, TransferSpec::new(Direction::Up, seconds(60))).unwrap();
    let call = UdpFlow::start(&lab, UdpSpec::voip(Direction::Down, seconds(1))).unwrap();
    wait_for_queue(&lab, Direction::Up, 5_000);
    let sockets = read_sockets(&lab.host(Role::U1)).unwrap();
    assert!(!sockets.is_empty());
    for socket in sockets {
        assert!(socket.peer.contains("198.18.0.2]:") || socket.peer.starts_with("198.18.0.2:"), "{socket:?}");
    }
    // A download finds its way home although only the home end could begin.
    let report = call.finish(seconds(10)).unwrap();
    assert!(report.received_packets > 0, "{report:?}");
}

/// A machine without nft stands for one whose kernel lacks the modules: both fail at the same command.
#[test]
fn where_addresses_cannot_be_translated_the_lab_says_so_and_leaves_nothing() {
    if !can_run() {
        return;
    }
    let tools = std::env::temp_dir().join(format!("pendulum-lab-tools-{}", std::process::id()));
    std::fs::create_dir_all(&tools).unwrap();
    for tool in ["ip", "tc", "ethtool"] {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap();
        let path = String::from_utf8(found.stdout).unwrap();
        symlink(path.trim(), tools.join(tool)).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_pendulum-lab"))
        .args(["up", "--nat"])
        .env("PATH", &tools)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    std::fs::remove_dir_all(&tools).unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(69), "{message}");
    assert!(message.contains("cannot translate addresses") && message.contains("nft_masq"), "{message}");
}

#[test]
fn datagrams_end_with_their_number_their_time_and_their_handle() {
    if !can_run() {
        return;
    }
    let lab = Lab::start(LinkSpec::FIG1).unwrap();
    let start = |spec| UdpFlow::start(&lab, spec).unwrap();
    // 2.4 Mb/s of frames of 1,242 bytes would be 483 datagrams in two seconds.
    let rate = lab.spec().downlink.rate;
    let forty = UdpSpec { packets: Some(40), ..UdpSpec::quic(Direction::Down, rate, seconds(600)) };
    let report = start(forty).finish(seconds(10)).unwrap();
    assert_eq!((report.sent_packets, report.received_packets), (40, 40), "{report:?}");
    assert_eq!(report.received_bytes, 40 * 1200);
    // A busy machine may leave some out, and never sends more.
    let report = start(UdpSpec::voip(Direction::Up, seconds(1))).finish(seconds(10)).unwrap();
    assert!((5..=50).contains(&report.sent_packets), "{report:?}");
    let endless = start(UdpSpec::quic(Direction::Up, lab.spec().uplink.rate, seconds(86_400)));
    // Time for a few, which are seen to arrive.
    std::thread::sleep(seconds(1));
    let before = QueueReading::take(&lab.gateway(), "wan0").unwrap();
    drop(endless);
    wait_until_empty(&lab);
    let after = QueueReading::take(&lab.gateway(), "wan0").unwrap();
    assert!(before.sent_packets > 2, "{before:?}");
    std::thread::sleep(Duration::from_millis(500));
    let later = QueueReading::take(&lab.gateway(), "wan0").unwrap();
    assert_eq!(after.sent_packets, later.sent_packets, "sent after its end");
}

fn wait_until_empty(lab: &Lab) {
    let (host, device) = lab.queue(Direction::Up);
    let deadline = Instant::now() + seconds(10);
    while QueueReading::take(&host, device).unwrap().backlog_bytes > 0 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn datagrams_above_the_link_s_rate_fill_its_buffer() {
    if !can_run() {
        return;
    }
    let lab = Lab::start(MODEM).unwrap();
    let rate = "400kbit".parse().unwrap();
    let flow = UdpFlow::start(&lab, UdpSpec::quic(Direction::Up, rate, seconds(600))).unwrap();
    wait_for_queue(&lab, Direction::Up, 28_000);
    let report = flow.report().unwrap();
    // 196 kb/s of frames leave the modem; what is above it stands there, then is lost.
    assert!(report.received_packets < report.sent_packets, "{report:?}");
    let received: f64 = report.received_packets as f64 * 1242.0 * 8.0;
    let possible = 196_000.0 * flow.started().elapsed().as_secs_f64() + 8.0 * 1_700.0;
    assert!(received <= possible, "{received} of {possible}: {report:?}");
}
