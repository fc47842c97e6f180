//! What is in dashboards/.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The directory.
pub(crate) fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards").canonicalize().unwrap()
}

/// The files below one of its directories that end so, sorted.
pub(crate) fn below(directory: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home().join(directory)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(end));
    paths.sort();
    assert!(!paths.is_empty(), "nothing that ends in {end} in {directory}");
    paths
}

/// A dashboard.
pub(crate) struct Dashboard {
    pub(crate) name: String,
    pub(crate) json: Value,
}

impl Dashboard {
    pub(crate) fn all() -> Vec<Self> {
        let read = |path: PathBuf| Self {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            json: serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap(),
        };
        below("grafana", ".json").into_iter().map(read).collect()
    }

    /// Every panel that shows something, those in collapsed rows too.
    pub(crate) fn panels(&self) -> Vec<&Value> {
        let top = self.json["panels"].as_array().unwrap();
        let nested = top.iter().flat_map(|panel| panel["panels"].as_array().into_iter().flatten());
        top.iter().chain(nested).filter(|panel| panel["type"] != "row").collect()
    }

    /// Queries of panels: title and expression.
    pub(crate) fn queries(&self) -> Vec<(String, String)> {
        let of_panel = |panel: &Value| {
            let title = panel["title"].as_str().unwrap().to_owned();
            let targets = panel["targets"].as_array().unwrap().clone();
            targets.into_iter().map(move |target| (title.clone(), text(&target["expr"])))
        };
        self.panels().into_iter().flat_map(of_panel).collect()
    }

    /// Queries of annotations: name and expression.
    pub(crate) fn annotations(&self) -> Vec<(String, String)> {
        let list = self.json["annotations"]["list"].as_array().unwrap();
        list.iter().map(|one| (text(&one["name"]), text(&one["expr"]))).collect()
    }

    pub(crate) fn variables(&self) -> &[Value] {
        self.json["templating"]["list"].as_array().unwrap()
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// The names of series in an expression; label values and `by (…)` are none.
pub(crate) fn series_in(expression: &str) -> BTreeSet<String> {
    let mut outside = String::new();
    for (index, part) in expression.split('"').enumerate() {
        if index % 2 == 0 {
            outside.push_str(part);
        }
    }
    outside
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .filter(|word| word.contains("pendulum_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn series_are_found_in_expressions() {
    let found = series_in(
        r#"sum by (pendulum) (rate(pendulum_bytes_total{job="pendulum_x"}[5m])) / link:pendulum_lost:ratio_rate5m"#,
    );
    assert_eq!(Vec::from_iter(found), ["link:pendulum_lost:ratio_rate5m", "pendulum_bytes_total"]);
}
