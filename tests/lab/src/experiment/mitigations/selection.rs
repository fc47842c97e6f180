//! What `--only` picks.

use super::arrangement::CASES;
use super::links::{Ecn, LINKS, LinkTraffic};
use crate::experiment::ExperimentError;

pub(super) const CONGESTION_CONTROLS: [&str; 3] = ["reno", "cubic", "bbr"];

/// Links, congestion controls, kinds of ECN and cases to run; an empty list means all.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    links: Vec<String>,
    congestion_controls: Vec<String>,
    ecn: Vec<String>,
    cases: Vec<String>,
}

impl Selection {
    pub(super) fn parse(only: &[String]) -> Result<Self, ExperimentError> {
        let mut selection = Self::default();
        for name in only {
            let list = if LINKS.iter().any(|link| link.name == name) {
                &mut selection.links
            } else if CONGESTION_CONTROLS.contains(&name.as_str()) {
                &mut selection.congestion_controls
            } else if Ecn::named(name).is_some() {
                &mut selection.ecn
            } else if CASES.iter().any(|(case, _)| case == name) {
                &mut selection.cases
            } else {
                return Err(ExperimentError::UnknownPart { name: name.clone(), known: known() });
            };
            list.push(name.clone());
        }
        Ok(selection)
    }

    pub(super) fn has_case(&self, name: &str) -> bool {
        has(&self.cases, name)
    }

    /// The tables to make: links, each with its congestion controls and kinds of ECN.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (&'static LinkTraffic, &'static str, Ecn)> {
        let links = LINKS.iter().filter(|link| has(&self.links, link.name));
        let of_link = |link: &'static LinkTraffic| {
            let ccs = CONGESTION_CONTROLS.into_iter().filter(|cc| has(&self.congestion_controls, cc));
            ccs.flat_map(move |cc| Ecn::ALL.into_iter().map(move |ecn| (link, cc, ecn)))
        };
        let wanted =
            |(link, _, ecn): &(&LinkTraffic, &str, Ecn)| ecn.is_for(link) && has(&self.ecn, ecn.name());
        links.flat_map(of_link).filter(wanted)
    }

    /// Stretches of traffic: all cases, those with uploads a second time for two hosts, and each direction alone.
    pub(super) fn runs(&self) -> u32 {
        let cases = CASES.iter().filter(|(name, _)| self.has_case(name)).count() as u32;
        let of_link =
            |link: &LinkTraffic| cases * (1 + u32::from(link.streams.up > 0)) + link.alone().count() as u32;
        self.blocks().map(|(link, ..)| of_link(link)).sum()
    }
}

fn has(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|one| one == name)
}

fn known() -> String {
    let links = LINKS.iter().map(|link| link.name);
    let cases = CASES.iter().map(|(name, _)| *name);
    let ecn = Ecn::ALL.iter().map(|ecn| ecn.name());
    links.chain(CONGESTION_CONTROLS).chain(ecn).chain(cases).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(only: &[&str]) -> Result<Selection, ExperimentError> {
        Selection::parse(&only.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn nothing_named_is_everything() {
        let all = parse(&[]).unwrap();
        let blocks: Vec<_> = all.blocks().collect();
        // Each of six links with three congestion controls; the paper's with AccECN too.
        assert_eq!(blocks.len(), 6 * 3 + 3);
        assert!(all.has_case("cake") && blocks.iter().any(|(link, ..)| link.name == "symmetric"));
    }

    #[test]
    fn names_of_one_kind_add_up_and_of_two_kinds_narrow_down() {
        let some = parse(&["paper", "reno", "fifo", "lane"]).unwrap();
        let blocks: Vec<_> = some.blocks().map(|(link, cc, ecn)| (link.name, cc, ecn.name())).collect();
        assert_eq!(blocks, [("paper", "reno", "no-ecn"), ("paper", "reno", "accecn")]);
        // Two cases twice, and two directions alone.
        assert_eq!(some.runs(), 2 * (2 * 2 + 2));
        assert_eq!(parse(&["paper", "reno", "fifo", "no-ecn"]).unwrap().runs(), 2 + 2);
        assert_eq!(
            parse(&["short", "bbr", "fifo"]).unwrap().runs(),
            1,
            "nobody uploads, and nothing is compared with"
        );
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = parse(&["cale"]).unwrap_err().to_string();
        assert!(error.contains("`cale`") && error.contains("cake") && error.contains("symmetric"), "{error}");
    }
}
