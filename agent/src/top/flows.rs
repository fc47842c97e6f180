//! Which flows are shown, in which order, and how their ends are written.

use std::cmp::Ordering;

use pendulum_model::named;

use super::text;
use pendulum_wire::Flow;

named! {
    /// What makes a flow come first.
    #[derive(Default)]
    pub(super) enum Sort {
        #[default]
        Rate = "rate",
        Bytes = "bytes",
        Rtt = "round trip",
        InFlight = "in flight",
        Retransmitted = "retransmissions",
    }
}

impl Sort {
    pub(super) fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }

    fn rank(self, flow: &Flow) -> f64 {
        match self {
            Self::Rate => flow.throughput_bps(),
            Self::Bytes => flow.bytes() as f64,
            Self::Rtt => flow.rtt_s().unwrap_or(-1.0),
            Self::InFlight => flow.in_flight_bytes() as f64,
            Self::Retransmitted => flow.retransmitted_segments() as f64,
        }
    }
}

/// A flow as it is shown.
#[derive(Clone, Debug)]
pub(super) struct FlowLine<'a> {
    pub(super) home: String,
    pub(super) remote: String,
    pub(super) flow: &'a Flow,
}

/// The flows that pass the filter, first those that the order puts first. The filter sees what the user sees: hidden
/// addresses cannot be searched for.
pub(super) fn rows<'a>(flows: &'a [Flow], sort: Sort, filter: &str, redact: bool) -> Vec<FlowLine<'a>> {
    let shown = |end: &str| if redact { text::redacted(end) } else { end.to_owned() };
    let filter = filter.to_lowercase();
    let matches = |row: &FlowLine<'_>| {
        let words: [&str; 4] = [&row.home, &row.remote, &row.flow.direction, &row.flow.state];
        filter.split_whitespace().all(|part| words.iter().any(|word| word.to_lowercase().contains(part)))
    };
    let mut rows: Vec<FlowLine<'_>> = flows
        .iter()
        .map(|flow| {
            let (home, remote) = flow.ends();
            FlowLine { home: whose(flow, home, &shown), remote: shown(remote), flow }
        })
        .filter(matches)
        .collect();
    rows.sort_by(|a, b| descending(sort.rank(a.flow), sort.rank(b.flow)));
    rows
}

/// The home end: the host, where the address is translated, with the port by which the WAN knows the flow.
fn whose(flow: &Flow, home: &str, shown: &impl Fn(&str) -> String) -> String {
    let port = home.rsplit_once(':').map_or("", |(_, port)| port);
    match (&flow.home_host, flow.traffic.as_deref()) {
        (Some(host), _) => format!("{} as :{port}", shown(host)),
        (None, Some("gateway")) => format!("gateway:{port}"),
        _ => shown(home),
    }
}

fn descending(a: f64, b: f64) -> Ordering {
    b.total_cmp(&a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pendulum_wire::FlowHalf;

    fn flow(client: &str, server: &str, rate: f64, rtt: Option<f64>) -> Flow {
        let up = FlowHalf { throughput_bps: rate, rtt_last_s: rtt, ..FlowHalf::default() };
        Flow {
            client: client.to_owned(),
            server: server.to_owned(),
            home: "client".into(),
            direction: "up".into(),
            state: "open".into(),
            up,
            ..Flow::default()
        }
    }

    #[test]
    fn flows_are_sorted_filtered_and_hidden() {
        let flows = [
            flow("192.168.1.5:40000", "203.0.113.9:443", 5.0, None),
            flow("192.168.1.6:40001", "198.51.100.2:80", 9.0, Some(0.2)),
            flow("192.168.1.5:40002", "198.51.100.2:80", 1.0, Some(0.3)),
        ];
        let remotes = |rows: Vec<FlowLine<'_>>| {
            rows.into_iter().map(|row| row.flow.up.throughput_bps).collect::<Vec<_>>()
        };
        assert_eq!(remotes(rows(&flows, Sort::Rate, "", false)), [9.0, 5.0, 1.0]);
        assert_eq!(remotes(rows(&flows, Sort::Rtt, "", false)), [1.0, 9.0, 5.0]);
        assert_eq!(remotes(rows(&flows, Sort::Rate, "192.168.1.5", false)), [5.0, 1.0]);
        assert_eq!(remotes(rows(&flows, Sort::Rate, "198.51 OPEN 1.5", false)), [1.0]);
        let hidden = rows(&flows, Sort::Rate, "", true);
        assert_eq!((hidden[0].home.as_str(), hidden[0].remote.as_str()), ("192.168.x.x", "198.51.x.x"));
        assert!(rows(&flows, Sort::Rate, "192.168.1.5", true).is_empty());
    }

    #[test]
    fn a_translated_flow_is_shown_with_its_host() {
        let behind = |host: Option<&str>, traffic: &'static str| Flow {
            home_host: host.map(str::to_owned),
            traffic: Some(traffic.into()),
            ..flow("203.0.113.5:40000", "198.51.100.2:443", 1.0, None)
        };
        let flows =
            [behind(Some("192.168.1.7"), "home"), behind(Some("fd00::7"), "home"), behind(None, "gateway")];
        let homes =
            |redact| rows(&flows, Sort::Rate, "", redact).into_iter().map(|row| row.home).collect::<Vec<_>>();
        assert_eq!(homes(false), ["192.168.1.7 as :40000", "fd00::7 as :40000", "gateway:40000"]);
        assert_eq!(homes(true), ["192.168.x.x as :40000", "fd00:0:x as :40000", "gateway:40000"]);
    }

    #[test]
    fn every_order_leads_to_the_next_and_back() {
        let mut sort = Sort::default();
        for _ in Sort::ALL {
            sort = sort.next();
        }
        assert_eq!(sort, Sort::default());
    }
}
