//! Paper 000, Fig. 13: the download's window against the instantaneous bandwidth-delay product, with uplink buffers of 15 and 40 packets.

use std::time::Duration;

use pendulum_model::rate::BufferSize;
use pendulum_model::segment::Direction;

use super::figures::Claim;
use super::options::Wishes;
use super::pair::{DOWNLINK_BPS, UPLINK_BPS, link, pair};
use super::report::CaseReport;
use super::results::{Results, ScenarioRun};
use super::scenario::Scenario;
use super::{About, Experiment, plots, prediction};
use crate::chart::{Chart, Colour, Panel, Series};
use crate::delay::Delays;

pub(super) struct Windows;

impl Experiment for Windows {
    fn about(&self) -> About {
        About {
            name: "windows",
            source: "000 Fig. 13",
            what: "does the download's window follow the bandwidth-delay product? 15 and 40 packets of uplink buffer",
            usual: Duration::from_secs(120),
            quick: Duration::from_secs(40),
            shortest: Duration::from_secs(30),
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let claims = [(15, "follows it on average"), (40, "fails to follow it, r too low")];
        claims.map(|(slots, says)| scenario(slots, says, wishes.total / 2)).into()
    }

    fn judge(&self, case: &mut CaseReport, index: usize, run: &ScenarioRun) {
        let (from, to) =
            run.scenario.cases.get(index).map_or_else(Default::default, |case| (case.from, case.to));
        let within = run.record.transfers.iter().filter(|sample| (from..=to).contains(&sample.at));
        let shares: Vec<f64> = within
            .filter(|sample| !sample.rtt.down.is_zero())
            .map(|sample| sample.cwnd.down as f64 / product_bytes(run, sample.rtt.down))
            .collect();
        let mean = (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64);
        case.measured.more.insert("cwnd_over_bandwidth_delay_product".into(), mean.into());
    }

    fn plots(&self, results: Results<'_>) -> Vec<Chart> {
        let chart = |run: &ScenarioRun| Chart {
            name: format!("window-{}-{}-{}", run.scenario.name, run.congestion_control, run.seed),
            title: format!("{} ({}): the download's window", run.scenario.name, run.congestion_control),
            panels: vec![window_panel(run)],
        };
        results.runs.iter().map(chart).collect()
    }
}

fn scenario(slots: u64, says: &str, length: Duration) -> Scenario {
    // 000 §5: two routers on one Ethernet, so no delay worth speaking of.
    let link =
        link((DOWNLINK_BPS, BufferSize::Packets(50)), (UPLINK_BPS, BufferSize::Packets(slots)), Delays::NONE);
    let name = format!("up{slots}");
    let mut scenario = pair(&name, &format!("{slots} packets up, 50 down"), link, length, 1);
    scenario.sockets_every = Duration::from_millis(200);
    let predicted = prediction::download_and_upload(&link);
    let cases = std::mem::take(&mut scenario.cases).into_iter();
    scenario.cases = cases.map(|case| case.compared(Claim::says(says), predicted)).collect();
    scenario
}

/// `C_d · RTT`, bytes.
fn product_bytes(run: &ScenarioRun, rtt: Duration) -> f64 {
    run.scenario.link.downlink.rate.bytes_per_second() * rtt.as_secs_f64()
}

fn window_panel(run: &ScenarioRun) -> Panel {
    let points = |value: &dyn Fn(&super::record::TransferSample) -> f64| -> Vec<(f64, f64)> {
        let present = run.record.transfers.iter().filter(|sample| !sample.rtt.down.is_zero());
        present.map(|sample| (sample.at.as_secs_f64(), value(sample) / 1000.0)).collect()
    };
    let series = vec![
        Series::line(
            "capacity × round-trip time",
            Colour::Limit,
            points(&|sample| product_bytes(run, sample.rtt.down)),
        ),
        Series::line(
            "download, cwnd",
            plots::colour(Direction::Down),
            points(&|sample| sample.cwnd.down as f64),
        ),
    ];
    plots::timed(run, "kB", series)
}
