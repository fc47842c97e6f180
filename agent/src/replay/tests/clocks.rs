//! Two captures whose clocks differ.

use serde_json::Value;
use tempfile::TempDir;

use super::captures::{RAW_IP, args, built, json_of, pcap, upload, write};
use super::craft::{Direction as Way, LinkLayer};
use crate::replay::cli::ReportFormat;

/// The report of ten seconds of upload, with a LAN clock that is ahead by so many milliseconds. On the way down packets take no
/// time from one device to the other; on the way up the first one of each round takes none.
fn report(ahead_ms: i64) -> Value {
    let directory = TempDir::new().expect("temporary directory");
    let [wan, lan] = upload(10).map(|packets| built(&packets, LinkLayer::RawIp));
    let ways = upload(10).map(|packets| {
        packets
            .iter()
            .map(|(_, packet)| packet.build(LinkLayer::RawIp).direction == Way::Down)
            .collect::<Vec<_>>()
    });
    let shifted = |frames: Vec<(u64, Vec<u8>)>, by: &dyn Fn(usize) -> i64| {
        let shifted = frames.into_iter().enumerate();
        let mut shifted: Vec<_> = shifted
            .map(|(i, (time, bytes))| {
                (time.checked_add_signed(2_000_000_000 + by(i)).expect("after 1970"), bytes)
            })
            .collect();
        // At the same moment the order stays.
        shifted.sort_by_key(|(time, _)| *time);
        shifted
    };
    let wan = shifted(wan, &|_| 0);
    let lan = shifted(lan, &|i| (ahead_ms - i64::from(ways[1][i])) * 1_000_000);
    let wan = write(&directory, "wan.pcap", &pcap(RAW_IP, &wan));
    let lan = write(&directory, "lan.pcap", &pcap(RAW_IP, &lan));
    json_of(&args(&wan, Some(&lan), ReportFormat::Json))
}

#[test]
fn figures_do_not_depend_on_the_lan_clock() {
    let mut same = report(0);
    assert_eq!(same["warnings"].take(), serde_json::json!([]));
    assert_eq!(same["directions"]["up"]["queue"]["max_bytes"], 7000.0);
    for (ahead_ms, shift) in [(500, "-500.0 ms"), (-500, "500.0 ms"), (2, "-2.0 ms"), (-2, "2.0 ms")] {
        let mut found = report(ahead_ms);
        let warnings = found["warnings"].take().to_string();
        assert!(warnings.contains(&format!("clocks differ by {shift}")), "{ahead_ms}: {warnings}");
        assert_eq!(found, same, "{ahead_ms} ms ahead");
    }
}
