//! What an experiment has shown, for programs (JSON) and for people (a table).

use serde::Serialize;
use serde_json::{Map, Value};

use super::scenario::Figures;
use crate::agent::AgentReading;

/// The result of an experiment; its JSON form is a contract (design.md).
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The experiment's name.
    pub experiment: String,
    /// The kernel it ran on, as `uname -r` says.
    pub kernel: String,
    /// One entry for each measured stretch.
    pub cases: Vec<CaseReport>,
}

/// One measured stretch.
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// Its name.
    pub name: String,
    /// What tells it from the others.
    pub params: Map<String, Value>,
    /// What the paper reports.
    pub paper: Figures,
    /// What the model says.
    pub predicted: Figures,
    /// What was measured.
    pub measured: Figures,
    /// What the kernel says beside it.
    pub truth: Value,
    /// What the agent says.
    pub agent: AgentReading,
}

impl Report {
    /// An empty report for this machine.
    pub fn new(experiment: &str) -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self { experiment: experiment.into(), kernel: kernel.trim().into(), cases: Vec::new() }
    }

    /// One JSON object, indented.
    pub fn to_json(&self) -> String {
        // Maps with string keys and plain values always serialise.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// An aligned table: download and upload in kb/s and their ratio, as the paper has them, as predicted, as measured,
    /// then both queues' largest lengths and the agent's verdict.
    pub fn to_text(&self) -> String {
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.extend(self.cases.iter().map(CaseReport::row));
        let mut text = format!(
            "{} on Linux {}: download / upload in kb/s of payload, and their ratio\n\n",
            self.experiment, self.kernel
        );
        text.push_str(&align(&rows));
        text
    }
}

const HEADINGS: [&str; 6] = ["case", "paper", "predicted", "measured", "largest queue up / down", "agent"];

impl CaseReport {
    fn row(&self) -> [String; 6] {
        let queue = |which: &str| {
            let bytes = self.truth.pointer(&format!("/{which}/max_bytes")).and_then(Value::as_u64);
            bytes.map_or_else(|| "–".to_owned(), |bytes| format!("{bytes} B"))
        };
        [
            self.name.clone(),
            figures_text(&self.paper),
            figures_text(&self.predicted),
            figures_text(&self.measured),
            format!("{} / {}", queue("uplink_queue"), queue("downlink_queue")),
            self.agent.verdict.as_str().unwrap_or("–").to_owned(),
        ]
    }
}

fn figures_text(figures: &Figures) -> String {
    let kilobits =
        |bps: Option<f64>| bps.map_or_else(|| "–".to_owned(), |bps| format!("{:.0}", bps / 1000.0));
    match (figures.download_bps, figures.upload_bps, figures.ratio) {
        (None, None, None) => "–".to_owned(),
        (Some(_), Some(0.0), None) => kilobits(figures.download_bps),
        (download, upload, ratio) => {
            let ratio = ratio.map_or_else(String::new, |ratio| format!(" = {ratio:.2}"));
            format!("{} / {}{ratio}", kilobits(download), kilobits(upload))
        }
    }
}

/// Columns as wide as their widest cell, in characters, two blanks apart.
fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report() -> Report {
        let case = CaseReport {
            name: "one upload".into(),
            params: Map::new(),
            paper: Figures::default(),
            predicted: Figures::new(187_000.0, 187_000.0),
            measured: Figures::new(300_000.0, 150_000.0),
            truth: json!({"uplink_queue": {"max_bytes": 29_900}, "downlink_queue": null}),
            agent: AgentReading { verdict: json!("swinging"), phase_share: Value::Null },
        };
        Report { experiment: "fig1".into(), kernel: "6.1".into(), cases: vec![case] }
    }

    #[test]
    fn the_json_has_the_fields_of_the_contract() {
        let json: Value = serde_json::from_str(&report().to_json()).unwrap();
        assert_eq!(json["experiment"], "fig1");
        let case = &json["cases"][0];
        for field in ["name", "params", "paper", "predicted", "measured", "truth", "agent"] {
            assert!(case.get(field).is_some(), "{field}");
        }
        assert_eq!(
            case["measured"],
            json!({"download_bps": 300_000.0, "upload_bps": 150_000.0, "ratio": 2.0})
        );
        assert_eq!(case["agent"], json!({"verdict": "swinging", "phase_share": null}));
    }

    #[test]
    fn the_table_is_aligned() {
        let text = report().to_text();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines.len(), 2);
        let column = |line: &str, what: &str| line.split(what).next().map(|before| before.chars().count());
        assert_eq!(column(lines[0], "measured"), column(lines[1], "300 / 150 = 2.00"));
        assert_eq!(column(lines[0], "agent"), column(lines[1], "swinging"));
        assert!(lines[1].contains("29900 B / –"), "{text}");
    }

    #[test]
    fn a_download_alone_has_no_ratio() {
        assert_eq!(figures_text(&Figures::new(2_300_000.0, 0.0)), "2300");
        assert_eq!(figures_text(&Figures::default()), "–");
    }
}
