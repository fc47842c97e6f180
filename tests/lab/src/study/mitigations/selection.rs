//! What `--only` picks.

use super::arrangement::CASES;
use super::links::LINKS;
use crate::study::StudyError;

pub(super) const CONGESTION_CONTROLS: [&str; 2] = ["reno", "cubic"];

/// Links, congestion controls and cases to run; an empty list means all.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    links: Vec<String>,
    congestion_controls: Vec<String>,
    cases: Vec<String>,
}

impl Selection {
    pub(super) fn parse(only: &[String]) -> Result<Self, StudyError> {
        let mut selection = Self::default();
        for name in only {
            let list = if LINKS.iter().any(|link| link.name == name) {
                &mut selection.links
            } else if CONGESTION_CONTROLS.contains(&name.as_str()) {
                &mut selection.congestion_controls
            } else if CASES.iter().any(|(case, _)| case == name) {
                &mut selection.cases
            } else {
                return Err(StudyError::UnknownPart { name: name.clone(), known: known() });
            };
            list.push(name.clone());
        }
        Ok(selection)
    }

    pub(super) fn has_link(&self, name: &str) -> bool {
        has(&self.links, name)
    }

    pub(super) fn has_case(&self, name: &str) -> bool {
        has(&self.cases, name)
    }

    pub(super) fn congestion_controls(&self) -> impl Iterator<Item = &'static str> {
        CONGESTION_CONTROLS.into_iter().filter(|cc| has(&self.congestion_controls, cc))
    }

    /// Stretches of traffic: all cases, and each direction alone.
    pub(super) fn runs(&self) -> u32 {
        let cases = CASES.iter().filter(|(name, _)| self.has_case(name)).count();
        let links = LINKS.iter().filter(|link| self.has_link(link.name));
        let alone = |up, down| usize::from(up > 0) + usize::from(down > 0);
        let of_links: usize = links.map(|link| cases + alone(link.streams.up, link.streams.down)).sum();
        (of_links * self.congestion_controls().count()) as u32
    }
}

fn has(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|one| one == name)
}

fn known() -> String {
    let links = LINKS.iter().map(|link| link.name);
    let cases = CASES.iter().map(|(name, _)| *name);
    links.chain(CONGESTION_CONTROLS).chain(cases).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(only: &[&str]) -> Result<Selection, StudyError> {
        Selection::parse(&only.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn nothing_named_is_everything() {
        let all = parse(&[]).unwrap();
        assert!(all.has_link("symmetric") && all.has_case("cake"));
        assert_eq!(all.runs(), 2 * (14 + 13 + 14));
    }

    #[test]
    fn names_of_one_kind_add_up_and_of_two_kinds_narrow_down() {
        let some = parse(&["paper", "reno", "fifo", "lane"]).unwrap();
        assert!(some.has_link("paper") && !some.has_link("symmetric"));
        assert_eq!(some.congestion_controls().collect::<Vec<_>>(), ["reno"]);
        assert_eq!(some.runs(), 4);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = parse(&["cale"]).unwrap_err().to_string();
        assert!(error.contains("`cale`") && error.contains("cake") && error.contains("symmetric"), "{error}");
    }
}
