//! Queue lengths and drops by `tc -s -j qdisc`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::TruthError;
use crate::netns::Host;
use crate::statistics::median;

/// One reading of a device's root qdisc. With the lab's shaper its backlog is that of the one leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReading {
    /// Bytes that wait.
    #[serde(rename = "backlog")]
    pub backlog_bytes: u64,
    /// Packets that wait.
    #[serde(rename = "qlen")]
    pub backlog_packets: u64,
    /// Packets dropped so far, because the buffer was full.
    #[serde(rename = "drops")]
    pub dropped_packets: u64,
    /// Bytes sent so far.
    #[serde(rename = "bytes")]
    pub sent_bytes: u64,
    /// Packets sent so far.
    #[serde(rename = "packets")]
    pub sent_packets: u64,
}

#[derive(Deserialize)]
struct Qdisc {
    #[serde(default)]
    root: bool,
    #[serde(flatten)]
    reading: QueueReading,
}

impl QueueReading {
    /// Reads the root qdisc of a device now.
    ///
    /// # Errors
    /// If tc fails, or the device has no root qdisc.
    pub fn take(host: &Host, device: &str) -> Result<Self, TruthError> {
        let json = host.run("tc", &["-s", "-j", "qdisc", "show", "dev", device])?;
        parse(&json).map_err(|reason| TruthError::Format {
            tool: "tc -s -j qdisc",
            device: device.into(),
            reason,
        })
    }
}

fn parse(json: &str) -> Result<QueueReading, String> {
    let qdiscs: Vec<Qdisc> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let root = qdiscs.into_iter().find(|qdisc| qdisc.root);
    root.map(|qdisc| qdisc.reading).ok_or_else(|| "no root qdisc is listed".to_owned())
}

/// What a queue did between the first and the last of several readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QueueSummary {
    /// Mean of the backlog over the readings, bytes.
    pub mean_bytes: f64,
    /// Largest backlog seen, bytes. Peaks between two readings are missed.
    pub max_bytes: u64,
    /// Share of the readings with nothing waiting.
    pub empty_share: f64,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// What the queue was emptied at while it had something, bit/s: the rate of its shaper, whatever the senders did. `None` if it
    /// never had. A machine that stands still, as one does whose hypervisor takes its processors away, sends nothing meanwhile and
    /// reads late: intervals that took more than [`LATE`] times the median are left out.
    pub busy_bps: Option<f64>,
}

/// From what multiple of the usual interval on a reading is late.
const LATE: f64 = 1.25;

impl QueueSummary {
    /// Of readings and their moments; `None` without one.
    pub fn of(moments: &[(Duration, QueueReading)]) -> Option<Self> {
        let ((_, first), (_, last)) = (moments.first()?, moments.last()?);
        let readings = || moments.iter().map(|(_, reading)| reading);
        let count = moments.len() as f64;
        Some(Self {
            mean_bytes: readings().map(|reading| reading.backlog_bytes as f64).sum::<f64>() / count,
            max_bytes: readings().map(|reading| reading.backlog_bytes).max()?,
            empty_share: readings().filter(|reading| reading.backlog_bytes == 0).count() as f64 / count,
            dropped_packets: last.dropped_packets - first.dropped_packets,
            sent_bytes: last.sent_bytes - first.sent_bytes,
            sent_packets: last.sent_packets - first.sent_packets,
            busy_bps: busy_bps(moments),
        })
    }
}

fn busy_bps(moments: &[(Duration, QueueReading)]) -> Option<f64> {
    let intervals = || {
        moments.windows(2).filter_map(|pair| {
            let [(from, before), (to, after)] = pair else { return None };
            let busy = before.backlog_bytes > 0 && after.backlog_bytes > 0;
            Some((to.checked_sub(*from)?.as_secs_f64(), busy, after.sent_bytes - before.sent_bytes))
        })
    };
    let longest = LATE * median(intervals().map(|(seconds, ..)| seconds).collect())?;
    let (seconds, bytes) = intervals()
        .filter(|(seconds, busy, _)| *busy && *seconds <= longest)
        .fold((0.0, 0), |(seconds, bytes), (more, _, sent)| (seconds + more, bytes + sent));
    (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TBF_WITH_LEAF: &str = r#"[{"kind":"tbf","handle":"1:","root":true,"refcnt":3,"options":{"rate":24500},"bytes":1544,
        "packets":14,"drops":3,"overlimits":9,"requeues":0,"backlog":4542,"qlen":3},{"kind":"bfifo","handle":"10:","parent":"1:1",
        "options":{"limit":30000},"bytes":1,"packets":1,"drops":0,"overlimits":0,"requeues":0,"backlog":1,"qlen":1}]"#;

    #[test]
    fn the_root_qdisc_is_read() {
        let reading = parse(TBF_WITH_LEAF).unwrap();
        let expected = QueueReading {
            backlog_bytes: 4542,
            backlog_packets: 3,
            dropped_packets: 3,
            sent_bytes: 1544,
            sent_packets: 14,
        };
        assert_eq!(reading, expected);
        assert!(parse("[]").is_err());
        assert!(parse("tbf 1: root").is_err());
    }

    #[test]
    fn a_summary_covers_what_happened_between_the_readings() {
        let at = |backlog_bytes, dropped_packets, sent_bytes| QueueReading {
            backlog_bytes,
            dropped_packets,
            sent_bytes,
            ..QueueReading::default()
        };
        let moments = [at(0, 5, 100), at(3000, 6, 200), at(6000, 9, 400)];
        let summary = QueueSummary::of(&every(20, &moments)).unwrap();
        assert_eq!((summary.mean_bytes, summary.max_bytes), (3000.0, 6000));
        assert_eq!((summary.dropped_packets, summary.sent_bytes), (4, 300));
        assert!((summary.empty_share - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(QueueSummary::of(&[]), None);
    }

    fn every(milliseconds: u64, readings: &[QueueReading]) -> Vec<(Duration, QueueReading)> {
        let moments = (0..).map(|count| Duration::from_millis(count * milliseconds));
        moments.zip(readings.iter().copied()).collect()
    }

    #[test]
    fn what_leaves_a_queue_that_has_something_shows_the_rate() {
        let at =
            |backlog_bytes, sent_bytes| QueueReading { backlog_bytes, sent_bytes, ..QueueReading::default() };
        let rate = |moments: &[(Duration, QueueReading)]| QueueSummary::of(moments).unwrap().busy_bps;
        let mut moments =
            every(20, &[at(0, 0), at(3000, 100), at(3000, 2600), at(9000, 5100), at(0, 6000), at(0, 6000)]);
        assert_eq!(rate(&moments), Some(1e6));
        // 300 ms in which the machine stood still.
        let (last, _) = moments[5];
        moments.push((last + Duration::from_millis(20), at(3000, 6000)));
        moments.push((last + Duration::from_millis(320), at(3000, 8500)));
        assert_eq!(rate(&moments), Some(1e6));
        assert_eq!(rate(&every(20, &[at(0, 0), at(0, 5000)])), None);
    }
}
