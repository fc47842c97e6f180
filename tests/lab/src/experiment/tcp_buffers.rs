//! Report 001, Fig. 6 and 7: the throughput ratio for TCP buffers of 16 to 128 kB, with one upload and with ten.

use std::time::Duration;

use super::grid::{DOWNLINK_BYTES, GridPoint, RATES_001, UPLINK_BYTES, bytes_scenario};
use super::options::Wishes;
use super::points::queues_and_parts;
use super::report::CaseReport;
use super::results::ScenarioRun;
use super::scenario::Scenario;
use super::{About, Experiment};

pub(super) struct TcpBuffers;

/// 001 §3.1, bytes.
const TCP_BUFFERS: [u64; 4] = [16_384, 32_768, 65_536, 131_072];

fn points(quick: bool) -> Vec<GridPoint> {
    if quick {
        let point = GridPoint { rates: RATES_001, ..GridPoint::in_bytes(20, 75_000, 9_000) };
        return TCP_BUFFERS.map(|bytes| GridPoint { tcp_buffer: Some(bytes), ..point }).into();
    }
    let mut points = Vec::new();
    for uploads in [1, 10] {
        for tcp_buffer in TCP_BUFFERS.map(Some) {
            for propagation_ms in [20, 100] {
                for down in DOWNLINK_BYTES {
                    points.extend(UPLINK_BYTES.map(|up| {
                        let point = GridPoint::in_bytes(propagation_ms, down, up);
                        GridPoint { rates: RATES_001, uploads, tcp_buffer, ..point }
                    }));
                }
            }
        }
    }
    points
}

impl Experiment for TcpBuffers {
    fn about(&self) -> About {
        About {
            name: "tcp-buffers",
            source: "001 Fig. 6, 7",
            what: "r with TCP buffers of 16 to 128 kB against both buffers in bytes, T_p 20 and 100 ms, one and ten uploads; 2 Mb/s / 192 kb/s",
            usual: Duration::from_secs(192 * 60),
            quick: Duration::from_secs(4 * 15),
            shortest: Duration::from_secs(4 * 10),
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let points = points(wishes.quick);
        let each = wishes.total / points.len() as u32;
        points.iter().map(|point| bytes_scenario(point, each)).collect()
    }

    fn judge(&self, case: &mut CaseReport, index: usize, run: &ScenarioRun) {
        queues_and_parts(case, index, run);
    }
}
