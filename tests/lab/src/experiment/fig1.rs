//! Paper 000, Fig. 1 (and 001, Fig. 1 and 2): the download collapses beside one and two uploads, and a small uplink buffer cures it.

use std::time::Duration;

use pendulum_model::rate::BufferSize;
use pendulum_model::segment::Direction;

use super::figures::{Claim, Figures};
use super::prediction;
use super::scenario::{Case, Scenario, TimedTransfer};
use super::{About, Experiment, Wishes};
use crate::lab::LinkSpec;
use crate::traffic::TransferSpec;

pub(super) struct Fig1;

/// The usual lengths, in seconds; other totals scale them.
const ALONE: f64 = 30.0;
const ONE_UPLOAD: f64 = 30.0;
/// The upload's last data leaves the gateway and the download recovers.
const PAUSE: f64 = 10.0;
const TWO_UPLOADS: f64 = 35.0;
const CURED: f64 = 30.0;
const ALL_SECONDS: f64 = ALONE + ONE_UPLOAD + PAUSE + TWO_UPLOADS + CURED;

/// Uplink buffer of the cure (001 Fig. 2), bytes.
const CURED_UPLINK_BUFFER: u64 = 6_000;

/// Share of each stretch left out at its begin: slow start, and the filling of a 30,000-byte buffer at 196 kb/s (1.2 s, and
/// several round trips of that length).
const SETTLING_SHARE: f64 = 0.35;

impl Experiment for Fig1 {
    fn about(&self) -> About {
        About {
            name: "fig1",
            source: "000 Fig. 1; 001 Fig. 1, 2",
            what: "a download collapses beside one and two uploads, and is cured by a 6,000-byte uplink buffer",
            usual: Duration::from_secs_f64(ALL_SECONDS),
            quick: Duration::from_secs(54),
            shortest: Duration::from_secs(40),
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let scale = wishes.total.as_secs_f64() / ALL_SECONDS;
        // Whole seconds: iperf3 takes no others.
        let seconds = |usual: f64| Duration::from_secs((usual * scale).round() as u64);
        vec![
            collapse(seconds(ALONE), seconds(ONE_UPLOAD), seconds(PAUSE), seconds(TWO_UPLOADS)),
            cure(seconds(CURED)),
        ]
    }
}

/// One download throughout; one upload, a pause, two uploads.
fn collapse(alone: Duration, one: Duration, pause: Duration, two: Duration) -> Scenario {
    let link = LinkSpec::FIG1;
    let one_at = alone;
    let two_at = one_at + one + pause;
    let length = two_at + two;
    let together = prediction::download_and_upload(&link);
    // 000 §1: "oscillates around the upload throughput close to 196 kbps".
    let collapsed = Figures::new(196_000.0, 196_000.0);
    Scenario {
        name: "collapse".into(),
        link,
        length,
        transfers: vec![
            transfer(Duration::ZERO, length, Direction::Down, 1),
            transfer(one_at, one, Direction::Up, 1),
            transfer(two_at, two, Direction::Up, 2),
        ],
        cases: vec![
            // 000 §1: "nearly 2.4 Mbps".
            case("download alone", Duration::ZERO, alone, &link, 0)
                .compared(Figures::new(2_400_000.0, 0.0), prediction::download_alone(&link)),
            case("one upload", one_at, one, &link, 1).compared(collapsed, together),
            case("two uploads", two_at, two, &link, 2).compared(collapsed, together),
        ],
        ..Scenario::default()
    }
}

/// Download and upload from the start, with the small uplink buffer.
fn cure(length: Duration) -> Scenario {
    let mut link = LinkSpec::FIG1;
    link.uplink.buffer = BufferSize::Bytes(CURED_UPLINK_BUFFER);
    Scenario {
        name: "cure".into(),
        link,
        length,
        transfers: vec![
            transfer(Duration::ZERO, length, Direction::Down, 1),
            transfer(Duration::ZERO, length, Direction::Up, 1),
        ],
        cases: vec![
            case("one upload, 6,000 B uplink buffer", Duration::ZERO, length, &link, 1)
                // 001 Fig. 2 is a plot without figures, of a downlink buffer of 75,000 B.
                .compared(Claim::says("far less interference"), prediction::download_and_upload(&link)),
        ],
        ..Scenario::default()
    }
}

fn transfer(at: Duration, length: Duration, direction: Direction, streams: u32) -> TimedTransfer {
    TimedTransfer { at, spec: TransferSpec { streams, ..TransferSpec::new(direction, length) } }
}

/// The steady part of a stretch.
fn case(name: &str, start: Duration, length: Duration, link: &LinkSpec, uploads: u32) -> Case {
    Case::new(name, start + length.mul_f64(SETTLING_SHARE), start + length, link)
        .with("downloads", 1)
        .with("uploads", uploads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_follow_each_other_without_overlap() {
        for total in [40, 54, 90, 135, 600] {
            let scenarios = Fig1.scenarios(Wishes { total: Duration::from_secs(total), quick: false });
            let cases: Vec<_> = scenarios[0].cases.iter().collect();
            assert!(cases.windows(2).all(|pair| pair[0].to < pair[1].from), "{total}");
            assert!(cases.iter().all(|case| case.to - case.from >= Duration::from_secs(5)), "{total}");
            assert_eq!(scenarios[0].transfers[0].spec.duration, scenarios[0].length);
        }
    }
}
