//! Other shapers on the device: named, with the command that stops them, and left alone.

use pendulum_model::rate::Rate;

use super::ShapeError;
use crate::net::QdiscTree;
use crate::net::control::{ClsactSide, Filter};

/// What stands in the way of a shaper of this rate on a device; `downlink`: of what comes in as well.
pub(super) fn found(
    device: &str,
    tree: &QdiscTree,
    others: &[&Filter],
    downlink: bool,
    rate: Rate,
) -> Option<ShapeError> {
    let in_the_way = |reason, remedy| Some(ShapeError::InTheWay { reason, remedy });
    let root = format!(
        "stop it (`tc qdisc del dev {device} root`, or the stop command of what made it, as SQM has one)"
    );
    match tree.rate() {
        Some((other, kind @ ("cake" | "cake_mq"))) => {
            return in_the_way(format!("a {kind} on {device} shapes to {other} already"), root);
        }
        Some((other, kind)) if other < rate => {
            let reason = format!(
                "the qdisc of {device} ({kind}) shapes to {other}, which is less than the {rate} of ours"
            );
            return in_the_way(reason, format!("{root}, or correct uplink-rate"));
        }
        _ => {}
    }
    let redirects = |side| others.iter().find(move |filter| filter.side == side && filter.to.is_some());
    let command = |filter: &Filter, side: ClsactSide| {
        format!("stop what made it (`tc filter del dev {device} {} pref {}`)", side.name(), filter.priority())
    };
    if let Some(filter) = redirects(ClsactSide::Egress) {
        let reason = format!("a filter redirects what {device} sends to {}", target(filter));
        return in_the_way(reason, command(filter, ClsactSide::Egress));
    }
    let filter = redirects(ClsactSide::Ingress).filter(|_| downlink)?;
    let reason = format!("a filter redirects what {device} receives to {}", target(filter));
    in_the_way(reason, format!("{}, or set downlink = false", command(filter, ClsactSide::Ingress)))
}

fn target(filter: &Filter) -> String {
    format!("the device with number {}", filter.to.unwrap_or_default())
}

/// What may keep packets from our redirection: programs of others (`egress: name (id 7)`), and filters before ours.
pub(super) fn suspects(side: ClsactSide, programs: &[String], others: &[&Filter]) -> String {
    let programs =
        programs.iter().filter_map(|program| program.strip_prefix(side.name())?.strip_prefix(": "));
    let programs =
        programs.filter(|name| !name.starts_with("pendulum_")).map(|name| format!("the program {name}"));
    let filters = others.iter().filter(|filter| filter.side == side);
    let filters = filters.map(|filter| match &filter.program {
        Some(program) => format!("the filter {program} of preference {}", filter.priority()),
        None => format!("the {} filter of preference {}", filter.kind, filter.priority()),
    });
    let found: Vec<String> = programs.chain(filters).collect();
    match (found.is_empty(), side) {
        (false, _) => found.join(", "),
        (true, ClsactSide::Egress) => {
            "hardware flow offload, or a program of others on its egress".to_owned()
        }
        (true, ClsactSide::Ingress) => "hardware flow offload, or an XDP program".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(side: ClsactSide, to: Option<u32>) -> Filter {
        let (kind, program) = ("u32".to_owned(), None);
        Filter { device: 2, side, info: 9 << 16, handle: 1, kind, program, to, is_ours: false }
    }

    #[test]
    fn another_s_redirection_is_named_with_what_stops_it() {
        let why = |filters: &[&Filter], downlink| {
            let rate = "1mbit".parse().expect("a rate");
            found("ppp0", &QdiscTree::default(), filters, downlink, rate).map(|error| error.to_string())
        };
        let [egress, ingress, drop] = [
            filter(ClsactSide::Egress, Some(7)),
            filter(ClsactSide::Ingress, Some(7)),
            filter(ClsactSide::Ingress, None),
        ];
        assert_eq!(why(&[&drop], true), None);
        let reason = why(&[&egress], false).expect("two redirections");
        assert!(reason.contains("ppp0 sends to the device with number 7"), "{reason}");
        assert!(reason.contains("`tc filter del dev ppp0 egress pref 9`"), "{reason}");
        assert_eq!(why(&[&ingress], false), None, "the downlink is not touched");
        let reason = why(&[&drop, &ingress], true).expect("two redirections");
        assert!(reason.contains("receives") && reason.contains("downlink = false"), "{reason}");
    }

    #[test]
    fn who_may_keep_packets_away_is_named() {
        let programs = ["ingress: a (id 1)", "egress: cil_to_netdev (id 7)", "egress: pendulum_up (id 8)"];
        let programs = programs.map(str::to_owned);
        let egress = filter(ClsactSide::Egress, None);
        let named = suspects(ClsactSide::Egress, &programs, &[&egress, &filter(ClsactSide::Ingress, None)]);
        assert_eq!(named, "the program cil_to_netdev (id 7), the u32 filter of preference 9");
        assert_eq!(suspects(ClsactSide::Ingress, &programs, &[&egress]), "the program a (id 1)");
        for side in [ClsactSide::Egress, ClsactSide::Ingress] {
            assert!(suspects(side, &[], &[]).contains("offload"));
        }
    }
}
