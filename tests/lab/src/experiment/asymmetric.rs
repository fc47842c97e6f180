//! Paper 000, Fig. 6 to 9: the asymmetric link with a small uplink buffer, and with equal buffers, which locks the pendulum.

use std::time::Duration;

use pendulum_model::rate::BufferSize;

use super::figures::{Claim, Figures};
use super::options::Wishes;
use super::pair::{DOWNLINK_BPS, UNEQUAL_ACCESS, UPLINK_BPS, link, pair};
use super::report::CaseReport;
use super::results::ScenarioRun;
use super::scenario::Scenario;
use super::{About, Experiment, prediction, symmetric};

/// One of the two; they differ in the uplink buffer alone.
pub(super) struct Asymmetric {
    about: About,
    uplink_buffer: u64,
    case: &'static str,
    says: &'static str,
    /// Bit/s of the download, where the paper names them.
    download_bps: Option<f64>,
}

const fn about(name: &'static str, source: &'static str, what: &'static str) -> About {
    About {
        name,
        source,
        what,
        usual: Duration::from_secs(90),
        quick: Duration::from_secs(30),
        shortest: Duration::from_secs(20),
    }
}

pub(super) const SMALL: Asymmetric = Asymmetric {
    about: about(
        "asymmetric-small",
        "000 Fig. 6, 7",
        "2.4 Mb/s / 196 kb/s with 30,000 B and 9,000 B: half of the downlink is used",
    ),
    uplink_buffer: 9_000,
    case: "30,000 B down, 9,000 B up",
    says: "downlink used to roughly 50 %",
    // 000 §2.3: "roughly 50% of the capacity".
    download_bps: Some(1_200_000.0),
};

pub(super) const EQUAL: Asymmetric = Asymmetric {
    about: about(
        "asymmetric-equal",
        "000 Fig. 8, 9",
        "2.4 Mb/s / 196 kb/s with 30,000 B at both ends: the uplink buffer never empties",
    ),
    uplink_buffer: 30_000,
    case: "30,000 B at both ends",
    says: "uplink buffer never empty, downlink's often",
    download_bps: None,
};

impl Experiment for Asymmetric {
    fn about(&self) -> About {
        self.about
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let up = BufferSize::Bytes(self.uplink_buffer);
        let link = link((DOWNLINK_BPS, BufferSize::Bytes(30_000)), (UPLINK_BPS, up), UNEQUAL_ACCESS);
        let mut scenario = pair("asymmetric", self.case, link, wishes.total, 1);
        scenario.ack_bursts = true;
        let figures = Figures { download_bps: self.download_bps, ..Figures::default() };
        let paper = Claim { figures, ..Claim::says(self.says) };
        let predicted = prediction::download_and_upload(&link);
        let cases = std::mem::take(&mut scenario.cases).into_iter();
        scenario.cases = cases.map(|case| case.compared(paper.clone(), predicted)).collect();
        vec![scenario]
    }

    fn judge(&self, case: &mut CaseReport, _index: usize, _run: &ScenarioRun) {
        symmetric::add_queues_and_bursts(case);
        for (name, pointer) in [
            ("uplink_empty_share", "/uplink_queue/empty_share"),
            ("downlink_empty_share", "/downlink_queue/empty_share"),
        ] {
            let value = case.truth.pointer(pointer).cloned().unwrap_or_default();
            case.measured.more.insert(name.into(), value);
        }
    }
}
