//! Every number the detector compares with, in one place. `docs/design/detector.md` gives the reasons at length.

use std::fmt::Display;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::constants::{FEW, HALF, MOMENT, MOST, RECENT, SLIGHT};
use crate::history::History;
use crate::rate::Span;
use crate::ratio::SEGMENT_BYTES;

/// Thresholds of the detector. The defaults follow from the papers' definitions, not from any one trace; times that
/// belong to TCP's dynamics count in round trips, so that they fit a LAN and a satellite alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Thresholds {
    /// A full segment on the wire, bytes: the unit of everything called "segments" below.
    pub segment_bytes: f64,
    /// A queue stands once its minimum over one RTT reaches this many segments. One: less than a whole segment can be
    /// the one that waits its turn on a link that keeps up.
    pub standing_enter_segments: f64,
    /// It stands no longer once that minimum falls to this many. Half: a few ACKs are no standing data.
    pub standing_leave_segments: f64,
    /// A new case counts once it has held this many RTTs. With the window of one RTT, a change is reported after 1.5.
    pub phase_dwell_round_trips: f64,
    /// Windows within this fraction of the exact proportion (Eq. 5) count as case 3 where queues cannot be seen.
    pub window_margin: f64,
    /// RTTs outside these bounds are taken as the bound.
    pub shortest_round_trip: Span,
    /// See `shortest_round_trip`.
    pub longest_round_trip: Span,
    /// Taken for the RTT until one is measured.
    pub assumed_round_trip: Span,
    /// Verdicts look back this many RTTs …
    pub horizon_round_trips: f64,
    /// … but not less than this …
    pub shortest_horizon: Span,
    /// … and not more.
    pub longest_horizon: Span,
    /// A verdict on two-way traffic needs this long …
    pub evidence: Span,
    /// … and this many RTTs of it.
    pub evidence_round_trips: f64,
    /// Whether a direction carries bulk data is judged over this long (at least `evidence_round_trips` RTTs).
    pub activity: Span,
    /// Bulk: data under way for this share of that time …
    pub bulk_active_share: f64,
    /// … with this many segments outstanding on average …
    pub bulk_in_flight_segments: f64,
    /// … and this share of the bytes in flows older than half of that time.
    pub bulk_long_flow_share: f64,
    /// Application-limited: the throughput varies less than this fraction of what the RTT varies. A window-limited
    /// flow's throughput moves against the RTT, since X = cwnd/RTT.
    pub application_limited_variation: f64,
    /// Swinging: cases 1 and 2 each hold this share of the time …
    pub swing_share: f64,
    /// … with this many changes between them.
    pub swing_switches: usize,
    /// Locked: one buffer alone stands for this share of the time …
    pub locked_share: f64,
    /// … and the opposite direction uses less than this part of its capacity.
    pub starved_utilization: f64,
    /// Bufferbloat: even the luckiest packet of a round trip waits this long in a buffer. A queue that stands this high is
    /// what a verdict must not overlook.
    pub bufferbloat_delay: Span,
    /// ACK compression: the correlation of both queues.
    pub in_phase_correlation: f64,
    /// A new verdict counts once it has held this long.
    pub verdict_dwell: Span,
    /// Unfair: a near flow gets this many times what a far flow gets (003: 80/20 is 4).
    pub unfair_share_ratio: f64,
    /// Near and far: base RTTs this far apart (003: 100 ms to 30 ms is 3.3).
    pub far_round_trip_ratio: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        let seconds = |seconds: u64| Span(Duration::from_secs(seconds));
        Self {
            segment_bytes: SEGMENT_BYTES,
            standing_enter_segments: 1.0,
            standing_leave_segments: 0.5,
            phase_dwell_round_trips: 0.5,
            window_margin: SLIGHT,
            shortest_round_trip: Span(Duration::from_millis(10)),
            longest_round_trip: seconds(10),
            assumed_round_trip: Span(Duration::from_millis(100)),
            horizon_round_trips: 60.0,
            shortest_horizon: Span(RECENT),
            longest_horizon: seconds(60),
            evidence: Span(MOMENT),
            evidence_round_trips: 6.0,
            activity: seconds(4),
            bulk_active_share: MOST,
            bulk_in_flight_segments: 2.0,
            bulk_long_flow_share: HALF,
            application_limited_variation: 0.25,
            swing_share: SLIGHT,
            swing_switches: FEW,
            locked_share: MOST,
            starved_utilization: HALF,
            bufferbloat_delay: Span(Duration::from_millis(100)),
            in_phase_correlation: 0.3,
            verdict_dwell: seconds(2),
            unfair_share_ratio: 2.0,
            far_round_trip_ratio: 1.5,
        }
    }
}

/// A threshold nothing could be compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Its name, as it is configured.
    pub key: &'static str,
    /// What is wrong with its value.
    pub reason: String,
    /// What is allowed.
    pub remedy: String,
}

impl Thresholds {
    /// The first threshold that is out of range or contradicts another one.
    pub fn unusable(&self) -> Option<Unusable> {
        self.out_of_range().or_else(|| self.contradiction())
    }

    fn out_of_range(&self) -> Option<Unusable> {
        let none_or_all = 0.0..=1.0;
        let figures = [
            ("segment-bytes", self.segment_bytes, 64.0..=65_535.0),
            ("standing-enter-segments", self.standing_enter_segments, 0.01..=1000.0),
            ("standing-leave-segments", self.standing_leave_segments, 0.0..=1000.0),
            ("phase-dwell-round-trips", self.phase_dwell_round_trips, 0.0..=100.0),
            ("window-margin", self.window_margin, 0.0..=0.9),
            ("horizon-round-trips", self.horizon_round_trips, 1.0..=10_000.0),
            ("evidence-round-trips", self.evidence_round_trips, 1.0..=1000.0),
            ("bulk-active-share", self.bulk_active_share, none_or_all.clone()),
            ("bulk-in-flight-segments", self.bulk_in_flight_segments, 0.0..=1000.0),
            ("bulk-long-flow-share", self.bulk_long_flow_share, none_or_all.clone()),
            ("application-limited-variation", self.application_limited_variation, 0.0..=10.0),
            ("swing-share", self.swing_share, 0.01..=0.5),
            ("swing-switches", self.swing_switches as f64, 2.0..=1000.0),
            ("locked-share", self.locked_share, 0.5..=1.0),
            ("starved-utilization", self.starved_utilization, none_or_all.clone()),
            ("in-phase-correlation", self.in_phase_correlation, none_or_all),
            ("unfair-share-ratio", self.unfair_share_ratio, 1.0..=1000.0),
            ("far-round-trip-ratio", self.far_round_trip_ratio, 1.01..=1000.0),
        ];
        let seconds = |seconds: u64| Span(Duration::from_secs(seconds));
        let instant = Span(Duration::from_millis(1));
        let spans = [
            ("shortest-round-trip", self.shortest_round_trip, instant..=seconds(60)),
            ("longest-round-trip", self.longest_round_trip, instant..=seconds(60)),
            ("assumed-round-trip", self.assumed_round_trip, instant..=seconds(60)),
            ("shortest-horizon", self.shortest_horizon, seconds(1)..=seconds(120)),
            ("longest-horizon", self.longest_horizon, seconds(1)..=seconds(120)),
            ("evidence", self.evidence, seconds(1)..=seconds(120)),
            ("activity", self.activity, seconds(1)..=seconds(60)),
            ("verdict-dwell", self.verdict_dwell, seconds(0)..=seconds(60)),
            ("bufferbloat-delay", self.bufferbloat_delay, instant..=seconds(60)),
        ];
        let figure = figures.into_iter().find_map(|(key, value, range)| {
            // A figure that is no number is in no range.
            (!range.contains(&value)).then(|| out_of(key, value, *range.start(), *range.end()))
        });
        let span = || {
            spans.into_iter().find_map(|(key, value, range)| {
                (!range.contains(&value)).then(|| out_of(key, value, *range.start(), *range.end()))
            })
        };
        figure.or_else(span)
    }

    fn contradiction(&self) -> Option<Unusable> {
        let above = |key: &'static str, other: &str| Unusable {
            key,
            reason: format!("it is above {other}"),
            remedy: "exchange the two, or give only one of them".to_owned(),
        };
        if self.standing_leave_segments > self.standing_enter_segments {
            return Some(above("standing-leave-segments", "standing-enter-segments"));
        }
        if self.shortest_round_trip > self.longest_round_trip {
            return Some(above("shortest-round-trip", "longest-round-trip"));
        }
        if self.shortest_horizon > self.longest_horizon {
            return Some(above("shortest-horizon", "longest-horizon"));
        }
        None
    }

    /// One RTT within the configured bounds.
    pub(crate) fn bounded_round_trip(&self, seconds: f64) -> Duration {
        let shortest = self.shortest_round_trip.0;
        let longest = self.longest_round_trip.0.max(shortest);
        Duration::try_from_secs_f64(seconds).unwrap_or(longest).clamp(shortest, longest)
    }

    /// How far a verdict looks back at a given RTT.
    pub(crate) fn horizon(&self, round_trip: Duration) -> Duration {
        let shortest = self.shortest_horizon.0;
        times(round_trip, self.horizon_round_trips).clamp(shortest, self.longest_horizon.0.max(shortest))
    }

    /// How much two-way traffic a verdict needs at a given RTT.
    pub(crate) fn evidence_time(&self, round_trip: Duration) -> Duration {
        self.evidence.0.max(times(round_trip, self.evidence_round_trips))
    }

    /// How much a lock or a swing needs: as many round trips as have passed, each as long as it was. A queue that builds up makes them longer, and those
    /// before tell as much as those after.
    pub(crate) fn evidence_after(&self, history: &History, round_trip: Duration) -> Duration {
        self.evidence.0.max(self.round_trips(history, round_trip))
    }

    /// Over how long a direction is judged to carry bulk data at a given RTT.
    pub(crate) fn activity_time(&self, round_trip: Duration) -> Duration {
        self.activity.0.max(times(round_trip, self.evidence_round_trips))
    }

    /// The same after these round trips.
    pub(crate) fn activity_after(&self, history: &History, round_trip: Duration) -> Duration {
        self.activity.0.max(self.round_trips(history, round_trip))
    }

    /// How long `evidence_round_trips` took, if that is less than they would take now.
    fn round_trips(&self, history: &History, round_trip: Duration) -> Duration {
        let longest = times(round_trip, self.evidence_round_trips);
        history.round_trips(self.evidence_round_trips, self.assumed_round_trip.0, longest)
    }
}

fn out_of<T: Display>(key: &'static str, value: T, least: T, most: T) -> Unusable {
    Unusable {
        key,
        reason: format!("{value} is out of range"),
        remedy: format!("allowed are {least} to {most}"),
    }
}

/// `span · factor`; a factor that is not a sane number gives zero.
pub(crate) fn times(span: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(span.as_secs_f64() * factor).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    mod bounds;

    #[test]
    fn read_from_kebab_case() {
        let text = r#"{"standing-enter-segments": 2.0, "verdict-dwell": "3s"}"#;
        let thresholds: Thresholds = serde_json::from_str(text).expect("thresholds");
        assert_eq!(thresholds.standing_enter_segments, 2.0);
        assert_eq!(thresholds.verdict_dwell.seconds(), 3.0);
        assert_eq!(thresholds.swing_share, Thresholds::default().swing_share);
        assert!(serde_json::from_str::<Thresholds>(r#"{"standing_enter": 2.0}"#).is_err());
    }

    #[test]
    fn what_cannot_be_compared_with_is_named() {
        let defaults = Thresholds::default;
        assert_eq!(defaults().unusable(), None);
        let span = |ms| Span(Duration::from_millis(ms));
        for (thresholds, key, reason) in [
            (Thresholds { locked_share: 80.0, ..defaults() }, "locked-share", "80 is out of range"),
            (Thresholds { segment_bytes: f64::NAN, ..defaults() }, "segment-bytes", "NaN is out of range"),
            (Thresholds { swing_switches: 0, ..defaults() }, "swing-switches", "0 is out of range"),
            (Thresholds { evidence: span(1), ..defaults() }, "evidence", "1ms is out of range"),
            (
                Thresholds { shortest_horizon: span(61_000), ..defaults() },
                "shortest-horizon",
                "it is above longest-horizon",
            ),
            (
                Thresholds { standing_leave_segments: 2.0, ..defaults() },
                "standing-leave-segments",
                "it is above standing-enter-segments",
            ),
        ] {
            let unusable = thresholds.unusable().expect(key);
            assert_eq!((unusable.key, unusable.reason.as_str()), (key, reason));
            assert!(!unusable.remedy.is_empty());
        }
    }

    #[test]
    fn horizons_follow_the_round_trip_within_bounds() {
        let thresholds = Thresholds::default();
        let horizon = |ms| thresholds.horizon(Duration::from_millis(ms)).as_secs_f64();
        // 60 · 20 ms = 1.2 s → 10 s; 60 · 0.5 s = 30 s; 60 · 2 s = 120 s → 60 s.
        assert_eq!((horizon(20), horizon(500), horizon(2000)), (10.0, 30.0, 60.0));
        assert_eq!(thresholds.bounded_round_trip(f64::NAN), Duration::from_secs(10));
        assert_eq!(thresholds.bounded_round_trip(0.0), Duration::from_millis(10));
    }
}
