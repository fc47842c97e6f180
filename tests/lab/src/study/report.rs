//! What a study has shown. The JSON form is the one of all experiments (design.md).

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use super::StudyError;

/// The result of a study.
#[derive(Clone, Debug, Serialize)]
pub struct StudyReport {
    /// The study's name.
    pub experiment: String,
    /// The kernel it ran on, as `uname -r` says.
    pub kernel: String,
    /// One entry for each case.
    pub cases: Vec<StudyCase>,
    /// The study's own tables, for people.
    #[serde(skip)]
    pub text: String,
}

/// One case.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StudyCase {
    /// Its name.
    pub name: String,
    /// What tells it from the others.
    pub params: Map<String, Value>,
    /// What the paper reports.
    pub paper: Value,
    /// What a closed form says.
    pub predicted: Value,
    /// What was measured, or what the reference model came to.
    pub measured: Value,
    /// What else was observed.
    pub truth: Value,
    /// What the agent says.
    pub agent: Value,
    /// Why it was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_runnable: Option<String>,
}

impl StudyReport {
    /// The report of this machine.
    pub fn new(experiment: &str, cases: Vec<StudyCase>, text: String) -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self { experiment: experiment.into(), kernel: kernel.trim().into(), cases, text }
    }

    /// Writes both forms into a directory.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, out: &Path) -> Result<(), StudyError> {
        let failed = |source| StudyError::Write { path: out.into(), source };
        std::fs::write(out.join("report.json"), self.to_json()).map_err(failed)?;
        std::fs::write(out.join("report.txt"), self.to_text()).map_err(failed)
    }

    /// One JSON object, indented.
    pub fn to_json(&self) -> String {
        // Maps with string keys and plain values always serialise.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The tables.
    pub fn to_text(&self) -> String {
        format!("{} on Linux {}\n\n{}", self.experiment, self.kernel, self.text)
    }
}

/// Rows below each other in columns as wide as their widest cell, the first to the left and figures to the right, two blanks apart.
pub(super) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(align(&[row(["case", "up"]), row(["a", "1000"])]), "case    up\na     1000\n");
    }

    #[test]
    fn a_case_that_did_not_run_says_why() {
        let case = StudyCase { not_runnable: Some("no cake".into()), ..StudyCase::default() };
        let report = StudyReport::new("x", vec![case], String::new());
        let json: Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["cases"][0]["not_runnable"], "no cake");
        assert!(json["cases"][0].get("measured").is_some());
    }
}
