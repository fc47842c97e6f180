//! Whatever the kernel refuses while a carrier is rewritten, what leaves is a valid packet. The program is compiled anew, each time
//! with another of the kernel's functions that fails.

use std::path::Path;
use std::process::Command;

use crate::craft::{LinkLayer, Tcp};
use crate::decisions::{ack, ethernet, plain};
use crate::kernel::Filter;
use crate::rig::skipped;

const CLANG: &str = "clang-19";

/// The shaper's object, with this before all of its source.
pub(crate) fn compile(prelude: &str) -> Result<Vec<u8>, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let [before, object] = ["before.h", "shape.o"].map(|name| directory.path().join(name));
    std::fs::write(&before, format!("#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n{prelude}\n"))
        .map_err(|error| error.to_string())?;
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bpf");
    let headers = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(CLANG)
        .args(["-target", "bpfel", "-mcpu=v3", "-O2", "-g", "-std=gnu11", "-idirafter", &headers])
        .arg("-I")
        .arg(&bpf)
        .arg("-include")
        .arg(&before)
        .arg("-c")
        .arg(bpf.join("shape/shape.bpf.c"))
        .arg("-o")
        .arg(&object)
        .output()
        .map_err(|error| format!("{CLANG}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    std::fs::read(&object).map_err(|error| error.to_string())
}

/// A carrier and what is pending for it: as long, longer, shorter.
fn pairs() -> [(Tcp, Tcp); 6] {
    let sack = |packet: Tcp| packet.sack(&[(30_000, 31_000), (40_000, 41_000)]);
    [
        (ack(10_000), ack(20_000).window(700)),
        (ack(10_000), sack(ack(20_000))),
        (sack(ack(10_000)), ack(50_000)),
        (plain(10_000).v6(), sack(plain(20_000)).v6()),
        (sack(ack(10_000)).v6(), ack(50_000).v6()),
        (plain(10_000), sack(plain(20_000))),
    ]
}

#[test]
fn whatever_fails_a_valid_packet_leaves() {
    const TEST: &str = "whatever_fails_a_valid_packet_leaves";
    if !pendulum_lab::is_root() {
        return skipped(TEST, "needs root");
    }
    for (what, prelude) in [
        ("nothing", ""),
        ("change_tail", "#define bpf_skb_change_tail(...) (-12)"),
        ("pull_data", "#define bpf_skb_pull_data(...) (-12)"),
        // Were it a constant, clang would not pass the packet that is then of no use, and the verifier wants it.
        ("csum_diff", "#define bpf_csum_diff(...) (bpf_ktime_get_ns() ? -22 : 0)"),
        ("l4_csum_replace", "#define bpf_l4_csum_replace(...) (-14)"),
    ] {
        let object = match compile(prelude) {
            Ok(object) => object,
            Err(reason) => return skipped(TEST, &reason),
        };
        let mut filter = Filter::new(&object, LinkLayer::Ethernet);
        let mut rewritten = 0;
        for (i, (queued, withheld)) in pairs().into_iter().enumerate() {
            filter.reset();
            let carrier = filter.arrive(&ethernet(&queued)).expect("it passes");
            assert!(filter.arrive(&ethernet(&withheld)).is_none(), "it is withheld");
            let (left, fates) = filter.fate_of(|filter| filter.depart(&carrier));
            let left = left.expect("it leaves");
            let [old, new] = [queued, withheld].map(|packet| ethernet(&packet).bytes);
            // Behind the IP packet there may be padding, and nothing else.
            let padded = |whole: &[u8]| {
                left.starts_with(whole)
                    && (whole.len() == left.len() || left.len() == old.len().max(new.len()))
            };
            let is_new = fates == ["rewritten newest"];
            assert!(is_new || fates == ["released carrier_lost"], "{what}, {i}: {fates:?}");
            assert!(padded(if is_new { &new } else { &old }), "{what}, {i}: neither the old nor the new one");
            assert!(what != "nothing" || left == new, "{i}: padding without need");
            rewritten += u32::from(is_new);
        }
        let expected = match what {
            "nothing" => 6,
            // Only what becomes longer needs room first.
            "change_tail" => 3,
            _ => 0,
        };
        assert_eq!(rewritten, expected, "{what}");
    }
}
