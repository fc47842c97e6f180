//! The uplink buffer that serves both directions best, found by simulation ([`crate::simulate`]).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::constants::FEW;
use crate::rate::BufferSize;
use crate::segment::Direction;
use crate::simulate::{
    DATA_FRAME_BYTES, HOST_JITTER_S, Outcome, PAYLOAD_BYTES, Run, SimulatedLink, simulate,
};

use super::predicted::{MOST_SECONDS, SETTLING_SHARE, START_SPREAD_S, frames_per_second, simulated_link};
use super::{Advice, AdviceInput, CongestionControl, NotPredicted, QueueManagement, Transfers};

/// Sizes that are tried, from two packets to what the bound lets stand: so many, or fewer on a fast link …
const SIZES_MOST: u32 = 8;
const SIZES_LEAST: u32 = FEW as u32;
const SMALLEST_BYTES: f64 = 2.0 * DATA_FRAME_BYTES as f64;

/// … and frames simulated for all of them: less than a tenth of a second of work.
const FRAMES: f64 = 400_000.0;

/// A run is this long at least, or the link is too fast.
const LEAST_SECONDS: f64 = 20.0;

/// Of sizes whose results differ by less than this, the smallest is recommended: one run knows no more.
const SAME: f64 = 0.03;

/// Longest delay that the queues of a recommended buffer add for 95 % of the time, where nobody names one.
pub const DELAY_BOUND: Duration = Duration::from_millis(250);

/// The best uplink buffer by the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recommended {
    /// Its size.
    pub uplink_buffer_bytes: u64,
    /// Payload of all downloads with it, bits per second.
    pub download_bps: f64,
    /// Payload of all uploads with it, bits per second.
    pub upload_bps: f64,
    /// What both queues together add to a round trip, 95th percentile.
    pub queue_delay_p95_s: f64,
    /// The bound that was asked for. If no size keeps it, `queue_delay_p95_s` is above it and the size is that with the shortest delay.
    pub delay_bound_s: f64,
    /// Share of the goodput of both directions that the present buffer gives less; negative if it carries more, at a longer delay.
    pub lost_with_present: Option<f64>,
}

/// Tries several uplink buffers on the link, the downlink's as it is. Of those whose queues delay by no more than `bound` (95th percentile), it returns the
/// smallest that carries as much as the best.
///
/// # Errors
/// If the simulation does not cover the link.
pub fn recommend(
    input: &AdviceInput,
    advice: &Advice,
    traffic: Transfers,
    bound: Duration,
) -> Result<Recommended, NotPredicted> {
    if traffic.queue_management == QueueManagement::Cake {
        return Err(NotPredicted::NoBuffer);
    }
    if traffic.congestion_control == CongestionControl::Bbr {
        return Err(NotPredicted::BbrBuffers);
    }
    let mut link = simulated_link(input, advice, traffic)?;
    let frames_per_second = frames_per_second(&link);
    let count = (FRAMES / LEAST_SECONDS / frames_per_second).min(f64::from(SIZES_MOST)) as u32;
    if count < SIZES_LEAST {
        return Err(NotPredicted::TooFast { frames_per_second });
    }
    let seconds = (FRAMES / f64::from(count) / frames_per_second).min(MOST_SECONDS);
    let run = Run {
        from_s: SETTLING_SHARE * seconds,
        until_s: seconds,
        start_spread_s: START_SPREAD_S,
        jitter_s: HOST_JITTER_S,
    };
    let present = input.uplink_buffer.map(|_| carried(&link, &simulate(&link, &run, 0)));
    let bound_s = bound.as_secs_f64();
    let growth = (bound_s * link.rate.up / SMALLEST_BYTES).max(2.0).powf(1.0 / f64::from(count - 1));
    let tried: Vec<(u64, Outcome)> = (0..count)
        .map(|step| {
            let bytes = (SMALLEST_BYTES * growth.powf(f64::from(step))).round() as u64;
            link.buffer.up = BufferSize::Bytes(bytes);
            (bytes, simulate(&link, &run, 0))
        })
        .collect();
    let delay = |outcome: &Outcome| outcome.wait_both.p95_s;
    let within = || tried.iter().filter(|(_, outcome)| delay(outcome) <= bound_s);
    let best = within().map(|(_, outcome)| carried(&link, outcome)).reduce(f64::max);
    let chosen = match best {
        Some(best) => within().find(|(_, outcome)| carried(&link, outcome) >= best - SAME),
        None => tried.iter().min_by(|(_, a), (_, b)| delay(a).total_cmp(&delay(b))),
    };
    let (bytes, outcome) = chosen.unwrap_or(&tried[0]);
    Ok(Recommended {
        uplink_buffer_bytes: *bytes,
        download_bps: outcome.goodput_bps.down,
        upload_bps: outcome.goodput_bps.up,
        queue_delay_p95_s: delay(outcome),
        delay_bound_s: bound_s,
        lost_with_present: present.map(|present| carried(&link, outcome) - present),
    })
}

/// Goodput of both directions, each as a share of what its link can carry: 2 is all.
fn carried(link: &SimulatedLink, outcome: &Outcome) -> f64 {
    let share = f64::from(PAYLOAD_BYTES) / f64::from(DATA_FRAME_BYTES);
    Direction::ALL.iter().map(|&x| outcome.goodput_bps[x] / (8.0 * link.rate[x] * share)).sum()
}

impl fmt::Display for Recommended {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "an uplink buffer of {} bytes: download {:.0} kbit/s, upload {:.0} kbit/s, queues add up to {:.0} ms for 95 % of the time",
            self.uplink_buffer_bytes,
            self.download_bps / 1e3,
            self.upload_bps / 1e3,
            self.queue_delay_p95_s * 1e3,
        )?;
        if self.queue_delay_p95_s > self.delay_bound_s {
            write!(out, " (no size keeps them below {:.0} ms)", self.delay_bound_s * 1e3)?;
        }
        match self.lost_with_present {
            Some(lost) if lost >= SAME => {
                write!(out, ";\n  the present buffer loses {:.0} % of one direction's rate", lost * 100.0)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::advise;
    use super::*;

    fn link(down: &str, up: &str, round_trip_ms: u64) -> AdviceInput {
        let rate = |text: &str| text.parse().expect("a rate");
        AdviceInput::new(rate(down), rate(up), Duration::from_millis(round_trip_ms))
    }

    fn asked(uplink_buffer: u64) -> AdviceInput {
        let mut input = link("2400kbit", "196kbit", 40);
        input.uplink_buffer = Some(BufferSize::Bytes(uplink_buffer));
        input.downlink_buffer = Some(BufferSize::Bytes(30_000));
        input
    }

    fn recommended(input: &AdviceInput, bound_ms: u64) -> Recommended {
        let advice = advise(input).expect("advice");
        recommend(input, &advice, Transfers::default(), Duration::from_millis(bound_ms)).expect("a figure")
    }

    #[test]
    fn the_recommended_buffer_is_better_than_an_oversized_one_and_keeps_the_bound() {
        let found = recommended(&asked(30_000), 400);
        assert!(found.queue_delay_p95_s <= 0.4, "{found:?}");
        assert!(found.uplink_buffer_bytes < 30_000, "{found:?}");
        assert!(found.lost_with_present.is_some_and(|lost| lost > 0.3), "{found:?}");
        // It is the link's.
        assert!(found.download_bps < 2.4e6 && found.upload_bps < 196e3, "{found:?}");
    }

    #[test]
    fn the_recommended_buffer_is_not_lost_against_itself() {
        let found = recommended(&asked(30_000), 400);
        let again = recommended(&asked(found.uplink_buffer_bytes), 400);
        assert_eq!(again.uplink_buffer_bytes, found.uplink_buffer_bytes);
        assert!(again.lost_with_present.is_some_and(|lost| lost.abs() < SAME), "{again:?}");
    }

    #[test]
    fn cake_has_no_buffer_to_size() {
        let traffic = Transfers { queue_management: QueueManagement::Cake, ..Transfers::default() };
        let input = asked(30_000);
        let found = recommend(&input, &advise(&input).expect("advice"), traffic, DELAY_BOUND);
        assert_eq!(found, Err(NotPredicted::NoBuffer));
    }

    #[test]
    fn a_longer_bound_never_carries_less() {
        let carried = |found: &Recommended| found.download_bps / 2.4e6 + found.upload_bps / 196e3;
        let bounds = [200, 400, 800, 1600].map(|bound| recommended(&asked(30_000), bound));
        for pair in bounds.windows(2) {
            assert!(carried(&pair[1]) >= carried(&pair[0]) - SAME, "{pair:?}");
        }
    }

    #[test]
    fn the_work_is_bounded() {
        let of = |down: &str, up: &str| {
            let input = link(down, up, 40);
            recommend(
                &input,
                &advise(&input).expect("advice"),
                Transfers::default(),
                Duration::from_millis(250),
            )
        };
        let fast = of("40mbit", "10mbit").expect("three sizes");
        // No more than the bound lets stand on the uplink.
        assert!(fast.uplink_buffer_bytes <= 312_500, "{fast:?}");
        assert!(fast.lost_with_present.is_none(), "no present buffer was given");
        // 60 + 8 Mbit/s are 8,070 frames a second: two runs of 20 s.
        for (down, up) in [("200mbit", "20mbit"), ("60mbit", "8mbit")] {
            assert!(matches!(of(down, up), Err(NotPredicted::TooFast { .. })), "{down}");
        }
    }

    #[test]
    fn a_bound_that_no_size_keeps_is_not_claimed() {
        // One packet takes 62 ms on the uplink.
        let found = recommended(&asked(30_000), 1);
        assert!(found.queue_delay_p95_s > found.delay_bound_s);
        assert!(found.to_string().contains("no size keeps"), "{found}");
        assert!(found.uplink_buffer_bytes as f64 >= SMALLEST_BYTES);
    }

    /// Eight sizes from two frames to what takes 0.4 s on 125,000 B/s, 16.512 times as much: each is 1.4927 times the one before, and the fifth is found.
    #[test]
    fn sizes_reach_from_two_frames_to_what_the_bound_lets_stand() {
        let mut input = link("2mbit", "1mbit", 150);
        input.downlink_buffer = Some(BufferSize::Bytes(30_000));
        assert_eq!(recommended(&input, 400).uplink_buffer_bytes, 15_033);
    }

    #[test]
    fn what_the_present_buffer_loses_is_told_from_three_in_a_hundred_on() {
        let told = |lost| Recommended { lost_with_present: Some(lost), ..Recommended::default() }.to_string();
        assert!(
            told(0.03).ends_with("the present buffer loses 3 % of one direction's rate"),
            "{}",
            told(0.03)
        );
        assert!(!told(0.029).contains("loses"), "{}", told(0.029));
    }
}
