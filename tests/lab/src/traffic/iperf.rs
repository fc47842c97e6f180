//! iperf3's own report (`-J`).

use serde::Deserialize;
use serde_json::Value;

/// Why an iperf3 report is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// It has not ended.
    #[error("has not finished in time; the link may be too congested for its end exchange")]
    Unfinished,
    /// No JSON.
    #[error("its report cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// iperf3 itself reports an error.
    #[error("it reports: {0}")]
    Iperf(String),
    /// The kernel used another congestion control.
    #[error(
        "the sender used congestion control `{used}`, not `{wanted}`; see net.ipv4.tcp_allowed_congestion_control"
    )]
    CongestionControl {
        /// What was asked for.
        wanted: String,
        /// What was used.
        used: String,
    },
}

/// One end's report.
#[derive(Clone, Debug)]
pub struct IperfReport {
    /// Half-second intervals, over all streams.
    pub intervals: Vec<Interval>,
    /// Segments sent again, where this end is the sender.
    pub retransmits: Option<u64>,
    /// The whole report, for those who want to keep it.
    pub json: Value,
    congestion_control: Option<String>,
}

/// One interval: payload that this end read or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Interval {
    /// Seconds since this end's start.
    pub start: f64,
    /// Seconds since this end's start.
    pub end: f64,
    /// Payload bytes.
    pub bytes: u64,
}

impl Interval {
    /// Mean rate over the intervals that lie within `from`..`to` seconds, bit/s; `None` if there is none.
    pub(super) fn mean_bps(intervals: &[Self], from: f64, to: f64) -> Option<f64> {
        let within = || intervals.iter().filter(|interval| interval.start >= from && interval.end <= to);
        let seconds: f64 = within().map(|interval| interval.end - interval.start).sum();
        let bytes: u64 = within().map(|interval| interval.bytes).sum();
        (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds)
    }
}

#[derive(Deserialize)]
struct Raw {
    error: Option<String>,
    #[serde(default)]
    intervals: Vec<RawInterval>,
    #[serde(default)]
    end: RawEnd,
}

#[derive(Deserialize)]
struct RawInterval {
    sum: Interval,
}

#[derive(Default, Deserialize)]
struct RawEnd {
    sum_sent: Option<RawSum>,
    sender_tcp_congestion: Option<String>,
}

#[derive(Deserialize)]
struct RawSum {
    retransmits: Option<u64>,
}

impl IperfReport {
    /// Reads the JSON that iperf3 prints at its end.
    ///
    /// # Errors
    /// If it is no JSON, or reports an error.
    pub fn parse(text: &str) -> Result<Self, ReportError> {
        let json: Value = serde_json::from_str(text)?;
        let raw = Raw::deserialize(&json)?;
        if let Some(error) = raw.error {
            return Err(ReportError::Iperf(error));
        }
        Ok(Self {
            intervals: raw.intervals.into_iter().map(|interval| interval.sum).collect(),
            retransmits: raw.end.sum_sent.and_then(|sum| sum.retransmits),
            congestion_control: raw.end.sender_tcp_congestion,
            json,
        })
    }

    /// Mean rate over the intervals that lie within `from`..`to` seconds of this end's time, bit/s; `None` if there is none.
    pub fn mean_bps(&self, from: f64, to: f64) -> Option<f64> {
        Interval::mean_bps(&self.intervals, from, to)
    }

    pub(super) fn check_congestion_control(&self, wanted: &str) -> Result<(), ReportError> {
        match &self.congestion_control {
            Some(used) if used != wanted => {
                Err(ReportError::CongestionControl { wanted: wanted.into(), used: used.clone() })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"start": {}, "intervals": [
        {"sum": {"start": 0, "end": 0.5, "seconds": 0.5, "bytes": 1000, "sender": true}},
        {"sum": {"start": 0.5, "end": 1.0, "seconds": 0.5, "bytes": 3000, "sender": true}},
        {"sum": {"start": 1.0, "end": 1.5, "seconds": 0.5, "bytes": 9000, "sender": true}}],
        "end": {"sum_sent": {"retransmits": 4}, "sender_tcp_congestion": "reno"}}"#;

    #[test]
    fn the_mean_covers_whole_intervals_of_the_window() {
        let report = IperfReport::parse(REPORT).unwrap();
        assert_eq!(report.mean_bps(0.0, 1.2), Some(32_000.0));
        assert_eq!(report.mean_bps(0.5, 1.5), Some(96_000.0));
        assert_eq!(report.mean_bps(2.0, 3.0), None);
        assert_eq!(report.retransmits, Some(4));
    }

    #[test]
    fn another_congestion_control_is_noticed() {
        let report = IperfReport::parse(REPORT).unwrap();
        assert!(report.check_congestion_control("reno").is_ok());
        let error = report.check_congestion_control("cubic").unwrap_err().to_string();
        assert!(error.contains("reno") && error.contains("cubic"), "{error}");
    }

    #[test]
    fn iperf_s_own_error_comes_through() {
        let error =
            IperfReport::parse(r#"{"start": {}, "intervals": [], "end": {}, "error": "unable to connect"}"#);
        assert!(error.unwrap_err().to_string().contains("unable to connect"));
        assert!(IperfReport::parse("").is_err());
    }
}
