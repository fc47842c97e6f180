//! The traces of both directions that a case runs over.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pendulum_model::segment::PerDirection;

use crate::capacity::{Pattern, Trace, TraceError};
use crate::experiment::ExperimentError;

/// A link's capacity over time.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) traces: PerDirection<Arc<Trace>>,
    /// Whether the short form runs it.
    pub(super) quick: bool,
}

/// Those that need no file: name, uplink, downlink, whether the short form has it.
const PATTERNS: [(&str, &str, &str, bool); 6] = [
    ("constant", "constant:1mbit", "constant:4mbit", false),
    ("step-down", "step:1500kbit,750kbit,12s", "step:4mbit,2mbit,12s", true),
    ("step-up", "step:750kbit,1500kbit,12s", "step:2mbit,4mbit,12s", false),
    ("ramp", "ramp:500kbit,1500kbit,15s", "ramp:5mbit,1mbit,15s", false),
    ("outage", "outage:1mbit,9s,1s", "outage:4mbit,9s,1s", false),
    ("walk", "walk:1mbit,1", "walk:3mbit,2", true),
];

/// Every pair of a directory, or those that need no file.
pub(super) fn pairs(directory: Option<&Path>) -> Result<Vec<Pair>, ExperimentError> {
    match directory {
        Some(directory) => of_directory(directory),
        None => Ok(PATTERNS.into_iter().map(of_patterns).collect::<Result<_, _>>()?),
    }
}

fn of_patterns((name, up, down, quick): (&str, &str, &str, bool)) -> Result<Pair, TraceError> {
    // Constants: a test reads each.
    let trace = |text: &str| match text.parse::<Pattern>() {
        Ok(pattern) => pattern.trace().map(Arc::new),
        Err(_) => Err(TraceError::Empty),
    };
    Ok(Pair { name: name.into(), traces: PerDirection { up: trace(up)?, down: trace(down)? }, quick })
}

fn of_directory(directory: &Path) -> Result<Vec<Pair>, ExperimentError> {
    let failed = |source| ExperimentError::List { path: directory.into(), source };
    let mut found: BTreeMap<String, PerDirection<Option<PathBuf>>> = BTreeMap::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let Some(file) = path.file_name().and_then(|name| name.to_str()).map(str::to_owned) else { continue };
        let file = file.strip_suffix(".zst").unwrap_or(&file);
        if let Some(name) = file.strip_suffix(".up") {
            found.entry(name.into()).or_default().up = Some(path);
        } else if let Some(name) = file.strip_suffix(".down") {
            found.entry(name.into()).or_default().down = Some(path);
        }
    }
    if found.is_empty() {
        return Err(ExperimentError::NoTraces { path: directory.into() });
    }
    let pair = |(name, paths): (String, PerDirection<Option<PathBuf>>)| {
        let (up, down) = match (paths.up, paths.down) {
            (Some(up), Some(down)) => (up, down),
            (up, _) => {
                let missing = format!("{name}.{}", if up.is_some() { "down" } else { "up" });
                return Err(ExperimentError::NoPair { path: directory.into(), missing });
            }
        };
        let traces = PerDirection { up: Arc::new(Trace::read(&up)?), down: Arc::new(Trace::read(&down)?) };
        Ok(Pair { name, traces, quick: true })
    };
    found.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        let pairs = pairs(None).unwrap();
        assert_eq!(pairs.len(), PATTERNS.len());
        assert_eq!(pairs.iter().filter(|pair| pair.quick).count(), 2);
    }

    #[test]
    fn a_directory_has_pairs_packed_or_not() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let refusal = || pairs(Some(directory.path())).unwrap_err().to_string();
        assert!(refusal().contains("no pair"), "{}", refusal());
        std::fs::write(at("README.md"), "about").unwrap();
        std::fs::write(at("a.b.up"), "5\n").unwrap();
        assert!(refusal().contains("a.b.down"), "{}", refusal());
        std::fs::write(at("a.b.down.zst"), zstd::encode_all(&b"7\n"[..], 3).unwrap()).unwrap();
        let found = pairs(Some(directory.path())).unwrap();
        assert_eq!((found.len(), found[0].name.as_str()), (1, "a.b"));
        assert_eq!(found[0].traces.down.period().as_millis(), 7);
        std::fs::write(at("a.b.up"), "5\n4\n").unwrap();
        assert!(refusal().contains("line 2") && refusal().contains("a.b.up"), "{}", refusal());
        assert!(pairs(Some(&at("nowhere"))).unwrap_err().to_string().contains("nowhere"));
    }
}
