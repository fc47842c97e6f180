//! Traffic that `up` starts by itself.

use std::time::Duration;

use clap::{Args, ValueEnum};
use pendulum_lab::lab::Lab;
use pendulum_lab::traffic::{TrafficError, Transfer, TransferSpec, UdpFlow, UdpReport, UdpSpec};
use pendulum_model::rate::Rate;
use pendulum_model::segment::Direction;

/// Kinds of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// TCP, D1 to D2.
    Download,
    /// TCP, U2 to U1.
    Upload,
    /// UDP of port 443 as QUIC sends it, D1 to D2.
    UdpDownload,
    /// The same, U2 to U1.
    UdpUpload,
    /// Both directions of a call: 172 bytes of UDP each 20 ms.
    Call,
}

#[derive(Debug, Args)]
pub(crate) struct TrafficArgs {
    /// Traffic to start, several with commas between.
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    traffic: Vec<Kind>,
    /// Congestion control of TCP traffic.
    #[arg(long, value_name = "NAME", default_value = "reno", requires = "traffic")]
    traffic_cc: String,
    /// Seconds after which it ends by itself.
    #[arg(long, value_name = "S", default_value_t = 3600, requires = "traffic",
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    traffic_seconds: u64,
    /// Rate of UDP traffic other than calls, in link-layer frames [default: the link's].
    #[arg(long, value_name = "RATE", requires = "traffic")]
    udp_rate: Option<Rate>,
}

/// Running traffic; it ends when dropped.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    transfers: Vec<Transfer>,
    flows: Vec<UdpFlow>,
}

impl TrafficArgs {
    /// Starts it.
    pub(crate) fn start(&self, lab: &Lab) -> Result<Traffic, TrafficError> {
        let mut traffic = Traffic::default();
        for kind in &self.traffic {
            for spec in self.datagrams(*kind, lab) {
                traffic.flows.push(UdpFlow::start(lab, spec)?);
            }
            if let Some(spec) = self.transfer(*kind) {
                traffic.transfers.push(Transfer::start(lab, spec)?);
            }
        }
        Ok(traffic)
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.traffic_seconds)
    }

    fn transfer(&self, kind: Kind) -> Option<TransferSpec> {
        let direction = match kind {
            Kind::Download => Direction::Down,
            Kind::Upload => Direction::Up,
            Kind::UdpDownload | Kind::UdpUpload | Kind::Call => return None,
        };
        let spec = TransferSpec::new(direction, self.duration());
        Some(TransferSpec { congestion_control: self.traffic_cc.clone(), ..spec })
    }

    fn datagrams(&self, kind: Kind, lab: &Lab) -> Vec<UdpSpec> {
        let bulk = |direction, link: Rate| {
            vec![UdpSpec::quic(direction, self.udp_rate.unwrap_or(link), self.duration())]
        };
        match kind {
            Kind::UdpDownload => bulk(Direction::Down, lab.spec().downlink.rate),
            Kind::UdpUpload => bulk(Direction::Up, lab.spec().uplink.rate),
            // Their internet ends are different machines, so they can have the same port.
            Kind::Call => [Direction::Up, Direction::Down]
                .map(|direction| UdpSpec::voip(direction, self.duration()))
                .to_vec(),
            Kind::Download | Kind::Upload => Vec::new(),
        }
    }
}

impl Traffic {
    /// One line for each flow of datagrams: what has come of it.
    pub(crate) fn summary(&self) -> Result<String, TrafficError> {
        self.flows.iter().map(|flow| Ok(line(flow.spec(), &flow.report()?))).collect()
    }
}

fn line(spec: &UdpSpec, report: &UdpReport) -> String {
    let delay = |seconds: Option<f64>| match seconds {
        Some(seconds) => format!("{:.0} ms", seconds * 1e3),
        None => "unknown".into(),
    };
    format!(
        "UDP {} to {}, port {}: {} sent, {} arrived; under way {} (median), {} (longest)\n",
        spec.sender(),
        spec.receiver(),
        spec.port,
        report.sent_packets,
        report.received_packets,
        delay(report.delay_median_s),
        delay(report.delay_max_s)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_arrived_and_claims_no_delay_of_nothing() {
        let spec = UdpSpec::voip(Direction::Up, Duration::from_secs(1));
        let report = UdpReport {
            sent_packets: 50,
            sent_bytes: 8600,
            received_packets: 40,
            received_bytes: 6880,
            reordered_packets: 0,
            delay_median_s: Some(0.25),
            delay_mean_s: Some(0.25),
            delay_p95_s: Some(0.25),
            delay_max_s: Some(1.2),
            intervals: Vec::new(),
        };
        let said = line(&spec, &report);
        assert!(said.contains("u2 to u1") && said.contains("50 sent, 40 arrived"), "{said}");
        assert!(said.contains("250 ms (median), 1200 ms"), "{said}");
        let nothing = UdpReport { delay_median_s: None, delay_max_s: None, ..report };
        assert!(line(&spec, &nothing).contains("unknown (median)"));
    }
}
