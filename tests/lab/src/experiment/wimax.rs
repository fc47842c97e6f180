//! Report 001, §5: a WiMAX link whose buffers are counted in bytes; each direction alone, then both.

use std::time::Duration;

use pendulum_model::rate::BufferSize;
use pendulum_model::segment::Direction;

use super::figures::{Figures, Predicted};
use super::options::Wishes;
use super::pair::{empty, link, pair, steady};
use super::scenario::{Scenario, TimedTransfer};
use super::{About, Experiment, prediction};
use crate::delay::Delays;
use crate::lab::LinkSpec;
use crate::traffic::TransferSpec;

pub(super) struct Wimax;

/// The report does not name the buffers. These, with a delay usual for 802.16, give by Eq. 11 the ratio of 7 that it measured.
const DOWNLINK_BUFFER: BufferSize = BufferSize::Bytes(50_000);
const UPLINK_BUFFER: BufferSize = BufferSize::Bytes(8_000);
const PROPAGATION: Duration = Duration::from_millis(20);

impl Experiment for Wimax {
    fn about(&self) -> About {
        About {
            name: "wimax",
            source: "001 §5",
            what: "2 Mb/s / 192 kb/s with byte-counted buffers: download alone, upload alone, both",
            usual: Duration::from_secs(120),
            quick: Duration::from_secs(45),
            shortest: Duration::from_secs(30),
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let each = wishes.total / 3;
        let delays = Delays { propagation: PROPAGATION, ..Delays::NONE };
        let link = link((2_000_000, DOWNLINK_BUFFER), (192_000, UPLINK_BUFFER), delays);
        let mut together = pair("together", "both", link, each, 1);
        let cases = std::mem::take(&mut together.cases).into_iter();
        together.cases = cases
            .map(|case| {
                case.compared(Figures::new(1_040_000.0, 150_000.0), prediction::download_and_upload(&link))
            })
            .collect();
        vec![
            alone("download-alone", Direction::Down, link, each),
            alone("upload-alone", Direction::Up, link, each),
            together,
        ]
    }
}

fn alone(name: &str, direction: Direction, link: LinkSpec, length: Duration) -> Scenario {
    let mut scenario = empty(name, link, length);
    let spec = TransferSpec::new(direction, scenario.length);
    scenario.transfers = vec![TimedTransfer::new(Duration::ZERO, spec)];
    let full = |bps: u64| bps as f64 * prediction::PAYLOAD_SHARE;
    let (paper, predicted) = match direction {
        Direction::Down => (1_900_000.0, full(link.downlink.rate.bits_per_second())),
        Direction::Up => (160_000.0, full(link.uplink.rate.bits_per_second())),
    };
    let figures = |bps: f64| match direction {
        Direction::Down => Figures::new(bps, 0.0),
        Direction::Up => Figures { download_bps: None, upload_bps: Some(bps), ratio: None },
    };
    let predicted = Predicted { paper: figures(predicted), refined: figures(predicted) };
    scenario.cases = vec![steady(&name.replace('-', " "), &scenario).compared(figures(paper), predicted)];
    scenario
}
