//! What is said where evidence is missing: `unknown` with its reason, and a refusal where not one packet could be used.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::captures::{ETHERNET, Frames, RAW_IP, args, built, json_of, pcap, text_of, upload, write};
use super::craft::LinkLayer;
use crate::exit::{Classified as _, Exit};
use crate::replay::cli::{ReplayArgs, ReportFormat};

const MS: u64 = 1_000_000;

/// An upload as seen on the WAN device.
fn frames(seconds: u32, link_layer: LinkLayer) -> Frames {
    let [wan, _] = upload(seconds);
    built(&wan, link_layer)
}

fn with_home(link_type: u32, frames: &[(u64, Vec<u8>)], home: &[&str], said: impl Fn(&ReplayArgs)) {
    let directory = TempDir::new().expect("temporary directory");
    let wan = write(&directory, "wan.pcap", &pcap(link_type, frames));
    let home = home.iter().map(|text| text.parse().expect("a prefix")).collect();
    said(&ReplayArgs { home, ..args(&wan, None, ReportFormat::Json) });
}

fn refused(link_type: u32, frames: &[(u64, Vec<u8>)], home: &[&str], reason: &str) {
    with_home(link_type, frames, home, |args| {
        let failure = text_of(args).expect_err(reason);
        assert_eq!(failure.exit(), Exit::Data, "{reason}");
        assert!(failure.to_string().contains(reason), "{reason}: {failure}");
    });
}

fn report(link_type: u32, frames: &[(u64, Vec<u8>)]) -> Value {
    let report = std::cell::RefCell::new(Value::Null);
    with_home(link_type, frames, &[], |args| *report.borrow_mut() = json_of(args));
    report.into_inner()
}

/// The frames with bytes put in at a place.
fn inserted(frames: &[(u64, Vec<u8>)], at: usize, bytes: &[u8]) -> Frames {
    let insert = |frame: &Vec<u8>| [&frame[..at], bytes, &frame[at..]].concat();
    frames.iter().map(|(time, frame)| (*time, insert(frame))).collect()
}

fn patched(frames: &[(u64, Vec<u8>)], at: usize, bytes: &[u8]) -> Frames {
    let mut patched = frames.to_vec();
    patched.iter_mut().for_each(|(_, frame)| frame[at..at + bytes.len()].copy_from_slice(bytes));
    patched
}

#[test]
fn a_capture_of_which_nothing_can_be_used_is_refused_with_the_cause() {
    let ethernet = frames(3, LinkLayer::Ethernet);
    let mpls = inserted(&patched(&ethernet, 12, &[0x88, 0x47]), 14, &[0, 1, 0x41, 64]);
    refused(ETHERNET, &mpls, &[], "in MPLS, which is not read");
    let old_tag = inserted(&patched(&ethernet, 12, &[0x91, 0]), 14, &[0, 7, 8, 0]);
    refused(ETHERNET, &old_tag, &[], "behind a VLAN tag 0x9100");
    let three_tags = inserted(&ethernet, 12, &[0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3]);
    refused(ETHERNET, &three_tags, &[], "unreadable headers (vlan_depth)");
    let llc = inserted(&patched(&ethernet, 12, &[0, 200]), 14, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
    refused(ETHERNET, &llc, &[], "in LLC frames");
    // Total lengths that no packet has.
    let raw = frames(3, LinkLayer::RawIp);
    refused(RAW_IP, &patched(&raw, 2, &[0, 3]), &[], "unreadable headers (ip_header)");
    refused(RAW_IP, &patched(&raw, 12, &[127, 0, 0, 1, 127, 0, 0, 1]), &[], "from a host to itself");
    refused(RAW_IP, &raw, &["203.0.113.0/24"], "of which none is given with --home PREFIX");
}

#[test]
fn too_little_for_a_verdict_is_unknown() {
    let found = report(RAW_IP, &frames(1, LinkLayer::RawIp)[..20]);
    assert_eq!(found["verdict"], "unknown");
    let reason = found["verdict_reason"].as_str().expect("a reason");
    assert!(reason.contains("20 usable packets are too short for a verdict"), "{reason}");
    assert_eq!((&found["verdict_seconds"], &found["packets"]["used"]), (&json!({}), &json!(20)));
}

/// A quiet link is clear only if its packets could be read: here two thirds are in MPLS.
#[test]
fn clear_needs_most_of_the_bytes() {
    let quiet = |share: u64| -> Frames {
        let [wan, _] = upload(1);
        let one = built(&wan[..1], LinkLayer::Ethernet);
        let mpls = patched(&one, 12, &[0x88, 0x47]);
        (0..120)
            .map(|i| (i * 250 * MS, if i % 3 < share { mpls[0].1.clone() } else { one[0].1.clone() }))
            .collect()
    };
    let found = report(ETHERNET, &quiet(0));
    assert_eq!((&found["verdict"], &found["packets"]["left_out"]), (&json!("clear"), &json!({})));
    assert!(
        found["verdict_reason"].as_str().is_some_and(|reason| reason.starts_with("no direction carries"))
    );
    assert_eq!(report(ETHERNET, &quiet(1))["verdict"], "clear");
    let found = report(ETHERNET, &quiet(2));
    assert_eq!(
        (&found["verdict"], &found["packets"]["left_out"]),
        (&json!("unknown"), &json!({"no_ip": 80}))
    );
    let reason = found["verdict_reason"].as_str().expect("a reason");
    assert!(reason.starts_with("most of the capture was left out: 80 packets in MPLS"), "{reason}");
}

/// Packets inside others are not seen: whether their link is full is not known, and the tunnel is named.
#[test]
fn a_tunnel_is_named_and_never_clear() {
    let [wan, _] = upload(20);
    let inner = built(&wan, LinkLayer::RawIp);
    let outer = |protocol: u8, header: &[u8]| -> Frames {
        let wrap = |frame: &Vec<u8>| {
            let length = ((20 + header.len() + frame.len()) as u16).to_be_bytes();
            let ip = [0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, protocol, 0, 0];
            [&ip[..], &frame[12..20], header, frame].concat()
        };
        inner.iter().map(|(time, frame)| (*time, wrap(frame))).collect()
    };
    let udp = |port: u16| {
        let [high, low] = port.to_be_bytes();
        [0x9c, 0x40, high, low, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    };
    for (frames, name) in [
        (outer(4, &[]), "IP in IP"),
        (outer(47, &[0, 0, 8, 0]), "GRE"),
        (outer(17, &udp(4_789)), "VXLAN"),
        (outer(17, &udp(2_152)), "GTP"),
        (outer(17, &udp(51_820)), "WireGuard"),
    ] {
        let found = report(RAW_IP, &frames);
        assert_ne!(found["verdict"], "clear", "{name}: {}", found["verdict_seconds"]);
        let warnings = found["warnings"].to_string();
        assert!(warnings.contains(&format!("100 % of the bytes up are in {name}")), "{name}: {warnings}");
    }
}

/// The text has what the JSON has.
#[test]
fn the_text_says_what_is_not_known() {
    let [wan, _] = upload(2);
    let mut frames = built(&wan, LinkLayer::RawIp);
    frames[5].1[3] = 3;
    with_home(RAW_IP, &frames, &[], |args| {
        let text = text_of(&ReplayArgs {
            uplink_rate: None,
            downlink_rate: None,
            format: ReportFormat::Text,
            ..args.clone()
        });
        let text = text.expect("replays");
        assert!(text.starts_with("verdict      unknown: "), "{text}");
        assert!(text.contains("not given, and the capture does not show them"), "{text}");
        assert!(text.contains("not measured ip_header 1\n"), "{text}");
        assert!(text.contains(" s in which they are known"), "{text}");
    });
}
