//! What one run of a lab consists of.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::lab::LinkSpec;
use crate::traffic::TransferSpec;

/// Throughputs of the link and their ratio; what is not known is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Payload delivered to the home, bit/s.
    pub download_bps: Option<f64>,
    /// Payload delivered to the internet, bit/s.
    pub upload_bps: Option<f64>,
    /// `r`: download over upload.
    pub ratio: Option<f64>,
}

impl Figures {
    /// Both throughputs, and their ratio if anything was uploaded.
    pub fn new(download_bps: f64, upload_bps: f64) -> Self {
        let ratio = (upload_bps > 0.0).then(|| download_bps / upload_bps);
        Self { download_bps: Some(download_bps), upload_bps: Some(upload_bps), ratio }
    }
}

/// A transfer and when it starts.
#[derive(Clone, Debug)]
pub struct TimedTransfer {
    /// Since the scenario's start.
    pub at: Duration,
    /// The transfer.
    pub spec: TransferSpec,
}

/// A stretch of a scenario that is measured and compared.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name in the report.
    pub name: String,
    /// Where the steady part begins.
    pub from: Duration,
    /// Where it ends.
    pub to: Duration,
    /// What tells this case from the others.
    pub params: Map<String, Value>,
    /// What the paper reports.
    pub paper: Figures,
    /// What the model says.
    pub predicted: Figures,
}

/// One lab, from its start to its end.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Names its files.
    pub name: String,
    /// The link.
    pub link: LinkSpec,
    /// How long it lasts.
    pub length: Duration,
    /// The traffic.
    pub transfers: Vec<TimedTransfer>,
    /// What is measured.
    pub cases: Vec<Case>,
}

impl Scenario {
    /// Refuses what cannot be measured: a case outside the scenario or without time.
    ///
    /// # Errors
    /// A sentence that names the case.
    pub fn check(&self) -> Result<(), String> {
        for case in &self.cases {
            if case.from >= case.to || case.to > self.length {
                return Err(format!(
                    "case `{}` from {:?} to {:?} does not lie within scenario `{}` of {:?}",
                    case.name, case.from, case.to, self.name, self.length
                ));
            }
        }
        Ok(())
    }

    /// What a report says about the link and the traffic of a case.
    pub fn link_params(link: &LinkSpec) -> Map<String, Value> {
        let mut params = Map::new();
        params.insert("downlink_rate_bps".into(), link.downlink.rate.bits_per_second().into());
        params.insert("uplink_rate_bps".into(), link.uplink.rate.bits_per_second().into());
        params.insert("downlink_buffer".into(), link.downlink.buffer.to_string().into());
        params.insert("uplink_buffer".into(), link.uplink.buffer.to_string().into());
        params
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_needs_an_upload() {
        assert_eq!(Figures::new(10.0, 0.0).ratio, None);
        assert_eq!(Figures::new(10.0, 5.0).ratio, Some(2.0));
    }
}
