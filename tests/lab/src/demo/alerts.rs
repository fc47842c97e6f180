//! Which alerts fire in which stretch, as a real Prometheus with the project's rules says.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::DemoError;
use super::plan::Stretch;
use crate::lab::Lab;
use crate::prometheus::{Prometheus, PrometheusError, Setup};
use crate::relay::Relay;

/// The rules' minutes last so many times less: a stretch of the demo is half a minute.
const HURRY: u32 = 60;
/// Between two scrapes and two evaluations.
const INTERVAL: Duration = Duration::from_millis(500);

/// A Prometheus to show.
#[derive(Clone, Debug)]
pub struct PrometheusOptions {
    /// The program.
    pub program: PathBuf,
    /// The directory with the rule files.
    pub rules: PathBuf,
}

/// What fired, and when that was asked.
pub(super) type Fired = (Duration, Vec<String>);

/// Starts Prometheus beside the agent, with all rule files of the directory.
pub(super) fn start(lab: &Lab, options: &PrometheusOptions) -> Result<Prometheus, DemoError> {
    let setup = Setup {
        rules: rule_files(&options.rules)?,
        interval: INTERVAL,
        hurry: HURRY,
        ..Setup::new(options.program.clone())
    };
    Ok(Prometheus::start(lab, &setup)?)
}

fn rule_files(directory: &Path) -> Result<Vec<PathBuf>, PrometheusError> {
    let failed = |source| PrometheusError::File { path: directory.to_owned(), source };
    let entries = std::fs::read_dir(directory).map_err(failed)?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yml"));
    files.sort();
    if files.is_empty() {
        return Err(failed(std::io::Error::other("there is no rule file (*.yml) here; choose with --rules")));
    }
    Ok(files)
}

/// Offers Prometheus' own page outside the lab, at its usual port or any free one.
pub(super) fn offer(lab: &Lab) -> Result<Relay, DemoError> {
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, Prometheus::ADDRESS.port()));
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let start = |address| Relay::start(address, lab.gateway(), Prometheus::ADDRESS);
    start(usual).or_else(|_| start(any)).map_err(|source| DemoError::Listen { address: usual, source })
}

/// One sentence for each stretch, and how to read them.
pub(super) fn sentences(stretches: &[Stretch], fired: &[Fired]) -> Vec<String> {
    let mut sentences: Vec<String> = stretches.iter().map(|stretch| sentence(stretch, fired)).collect();
    sentences.push(format!(
        "(Prometheus evaluates the rules as they are shipped, only that each of their minutes lasts {:.0} s here. An alert keeps \
         firing for a while after its reason.)",
        60.0 / f64::from(HURRY)
    ));
    sentences
}

fn sentence(stretch: &Stretch, fired: &[Fired]) -> String {
    let during = fired.iter().filter(|(at, _)| (stretch.from..stretch.to).contains(at));
    let mut first: Vec<(&str, f64)> = Vec::new();
    for (at, names) in during {
        for name in names {
            if !first.iter().any(|(known, _)| known == name) {
                first.push((name, (*at - stretch.from).as_secs_f64()));
            }
        }
    }
    let words: Vec<String> = first
        .iter()
        .map(|(name, after)| match after {
            // Within the first readings: it fired before.
            ..1.5 => format!("{name} (still)"),
            _ => format!("{name} (after {after:.0} s)"),
        })
        .collect();
    let words = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
    format!("Alerts in \"{}\": {words}.", stretch.label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::plan::DemoPlan;

    #[test]
    fn each_stretch_names_what_fired_in_it() {
        let plan = DemoPlan::new(DemoPlan::USUAL);
        let at = |seconds: u64, names: &[&str]| {
            (Duration::from_secs(seconds), names.iter().map(|&name| name.to_owned()).collect())
        };
        let fired =
            [at(5, &[]), at(26, &[]), at(41, &["A"]), at(50, &["A", "B"]), at(56, &["A"]), at(70, &["C"])];
        let sentences = sentences(&plan.stretches, &fired);
        assert_eq!(sentences[0], "Alerts in \"download alone\": none.");
        assert_eq!(sentences[1], "Alerts in \"+ one upload\": A (after 16 s), B (after 25 s).");
        assert_eq!(sentences[2], "Alerts in \"+ two uploads\": A (still), C (after 15 s).");
        assert!(sentences[3].contains("minutes lasts 1 s"));
    }

    #[test]
    fn a_directory_without_rules_is_named() {
        let error = rule_files(Path::new("/nonexistent")).expect_err("there is none").to_string();
        assert!(error.contains("/nonexistent"), "{error}");
    }
}
