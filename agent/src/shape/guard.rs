//! What stands in a shaper's way. Two shapers in a row make one queue too many, and two redirections none.

use super::ShapeError;
use crate::config::Shape;
use crate::net::QdiscTree;
use crate::net::control::{Filters, Side};
use pendulum_model::rate::Rate;

/// What is on the WAN device before we touch it.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) device: &'a str,
    pub(super) tree: &'a QdiscTree,
    pub(super) filters: &'a Filters,
}

/// Refuses if something shapes or redirects already.
pub(super) fn check(facts: &Facts<'_>, shape: &Shape, rate: Rate) -> Result<(), ShapeError> {
    let Facts { device, tree, filters } = facts;
    let refused = |reason: String, remedy: &'static str| ShapeError::InTheWay { reason, remedy };
    if let Some((other, kind)) = tree.rate()
        && other < rate
    {
        return Err(refused(
            format!(
                "the qdisc of {device} ({kind}) shapes to {other}, which is less than the {rate} of ours"
            ),
            "remove that shaper (`tc qdisc show` tells; SQM scripts have a stop command), or correct uplink-rate",
        ));
    }
    for filter in &filters.redirections {
        if filter.side == Side::Egress {
            return Err(refused(
                format!("a filter redirects what {device} sends to the device with number {}", filter.to),
                "stop what made it (`tc filter show dev DEV egress` tells)",
            ));
        }
        if shape.downlink {
            return Err(refused(
                format!("a filter redirects what {device} receives to the device with number {}", filter.to),
                "stop that shaper (SQM does so), or set downlink = false",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::control::Redirection;

    fn verdict(filters: &[Redirection], downlink: bool) -> Option<String> {
        let filters = Filters { redirections: filters.to_vec(), count: filters.len() };
        let facts = Facts { device: "wan0", tree: &QdiscTree::default(), filters: &filters };
        let rate = "1mbit".parse().unwrap();
        check(&facts, &Shape { downlink, ..Shape::default() }, rate).err().map(|error| error.to_string())
    }

    #[test]
    fn redirections_are_refused_where_ours_would_be() {
        let at = |side| Redirection { side, priority: 1, to: 9 };
        assert_eq!(verdict(&[], true), None);
        assert_eq!(verdict(&[at(Side::Ingress)], false), None);
        assert!(verdict(&[at(Side::Ingress)], true).unwrap().contains("downlink = false"));
        assert!(verdict(&[at(Side::Egress)], false).unwrap().contains("redirects what wan0 sends"));
    }
}
