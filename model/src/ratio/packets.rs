//! Buffers counted in packets: the empirical rules of 000 §4.1 (Fig. 11) and 001 §4. There is no closed form.
//!
//! Every ACK takes a whole slot, so an upload segment competes with `k` ACKs, or `k/2` with delayed ACKs. With 50
//! packets downstream the uplink needs about 25 slots with delayed ACKs and about 50 without, or uploads starve; above
//! that the buffer holds so much data that the download collapses, much as with bytes.

use crate::segment::PerDirection;

use super::{Caveat, Confidence, Prediction, SEGMENT_BYTES, Setting, refined};

/// Slots the uplink needs: half of the downlink's with delayed ACKs (001: "at least half"), as many without. At
/// least 2.
pub fn uplink_slots_needed(downlink_packets: f64, delayed_acks: bool) -> f64 {
    let part = if delayed_acks { 0.5 } else { 1.0 };
    (downlink_packets * part).max(2.0)
}

/// What the rules say about a link whose buffers, given in bytes, are counted in packets of full size.
///
/// With enough slots the behaviour "is similar to the case of buffers in bytes" (000 §4.1), so the refined model
/// speaks. With too few, the upload gets what little it can and the ratio is at least `k`: `k` is returned.
pub fn predict(setting: &Setting) -> Prediction {
    let PerDirection { up, down } = setting.buffer.map(|bytes| bytes / SEGMENT_BYTES);
    let starves = up < uplink_slots_needed(down, setting.delayed_acks);
    let mut prediction = refined::predict(setting);
    if starves && prediction.ratio < setting.k() {
        prediction.ratio = setting.k();
        prediction.throughput.down = setting.capacity.down;
        prediction.throughput.up = prediction.throughput.down / prediction.ratio;
    }
    prediction.confidence = Confidence::Low;
    prediction.caveats.push(Caveat::PacketCounted);
    prediction
}

#[cfg(test)]
mod tests {
    use super::super::setting::tests::link;
    use super::*;

    #[test]
    fn slots_as_in_figure_11() {
        // 000 §4.1: 25 slots with delayed ACKs, 50 without, for a downlink of 50 packets.
        assert_eq!(uplink_slots_needed(50.0, true), 25.0);
        assert_eq!(uplink_slots_needed(50.0, false), 50.0);
    }

    #[test]
    fn too_few_slots_keep_the_download_and_starve_the_upload() {
        let setting = link("2400kbit", "196kbit", 75_000.0, 15_000.0, 20.0);
        let prediction = predict(&setting);
        assert!(prediction.ratio >= setting.k());
        assert_eq!(prediction.confidence, Confidence::Low);
        // 50 packets at both ends: the right side of the figure, far below k.
        let large = predict(&link("2400kbit", "196kbit", 75_000.0, 75_000.0, 20.0));
        assert!(large.ratio < 0.5 * setting.k(), "{}", large.ratio);
        assert!(large.caveats.contains(&Caveat::PacketCounted));
    }
}
