//! What an experiment has shown, for programs (JSON) and for people (a table).

use serde::Serialize;
use serde_json::{Map, Value};

use super::agent_log::AgentSummary;
use super::figures::{Claim, Figures, Measured, Predicted};
use super::options::{ExperimentError, RunOptions};
use super::write_file;

/// The result of an experiment; its JSON form is a contract (design.md). `C`: [`CaseReport`], or [`OwnCase`].
#[derive(Clone, Debug, Serialize)]
pub struct Report<C = CaseReport> {
    /// The experiment's name.
    pub experiment: String,
    /// The kernel it ran on, as `uname -r` says.
    pub kernel: String,
    /// One entry for each measured stretch, or each case.
    pub cases: Vec<C>,
    /// The tables for people.
    #[serde(skip)]
    pub text: String,
}

/// A report in both of its forms.
#[derive(Clone, Debug)]
pub struct Printed {
    /// For people.
    pub text: String,
    /// One JSON object.
    pub json: String,
}

/// A case of an experiment that has figures of its own.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OwnCase {
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

/// One measured stretch.
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// Its name.
    pub name: String,
    /// What tells it from the others.
    pub params: Map<String, Value>,
    /// What the paper reports.
    pub paper: Claim,
    /// What the models say.
    pub predicted: Predicted,
    /// What was measured.
    pub measured: Measured,
    /// What the kernel says beside it.
    pub truth: Value,
    /// What the agent says.
    pub agent: AgentSummary,
}

impl<C: Serialize> Report<C> {
    /// The report of this machine. `text`: its tables.
    pub fn new(experiment: &str, cases: Vec<C>, text: String) -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self { experiment: experiment.into(), kernel: kernel.trim().into(), cases, text }
    }

    /// Both forms, which are also written where that is asked for.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn finish(&self, options: &RunOptions) -> Result<Printed, ExperimentError> {
        // Maps with string keys and plain values always serialise.
        let json = serde_json::to_string_pretty(self).unwrap_or_default();
        let text = format!("{} on Linux {}\n\n{}", self.experiment, self.kernel, self.text);
        if let Some(out) = &options.out {
            write_file(&out.join("report.json"), &json)?;
            write_file(&out.join("report.txt"), &text)?;
        }
        Ok(Printed { text, json })
    }
}

/// Two aligned tables: throughputs and ratio as the paper has them, as predicted and as measured; then what the kernel and the agent say of the
/// same things.
pub(super) fn tables(cases: &[CaseReport]) -> String {
    let several = |case: &&CaseReport| case.params.get("cc") != cases[0].params.get("cc");
    let with_cc = cases.iter().any(|case| several(&case));
    let names: Vec<String> = cases.iter().map(|case| case.label(with_cc)).collect();
    let mut text = "download / upload in kb/s of payload, and their ratio\n\n".to_owned();
    let headings = ["case", "paper", "Eq. 11", "refined", "measured"].map(str::to_owned);
    let rows = names.iter().zip(cases).map(|(name, case)| case.throughput_row(name));
    text.push_str(&align(&[headings].into_iter().chain(rows).collect::<Vec<_>>()));
    text.push_str("\nqueues, kernel | agent; share of the time in which the uplink's / downlink's buffer alone holds the traffic\n\n");
    let headings =
        ["case", "uplink queue, mean B", "share", "queue correlation", "swing", "ratio", "verdict"]
            .map(str::to_owned);
    let rows = names.iter().zip(cases).map(|(name, case)| case.reading_row(name));
    text.push_str(&align(&[headings].into_iter().chain(rows).collect::<Vec<_>>()));
    let more = names.iter().zip(cases).filter_map(|(name, case)| case.more_line(name));
    let more: Vec<String> = more.collect();
    if !more.is_empty() {
        text.push_str(&format!("\nalso measured\n\n{}", more.concat()));
    }
    text
}

impl CaseReport {
    fn label(&self, with_cc: bool) -> String {
        match self.params.get("cc").and_then(Value::as_str).filter(|_| with_cc) {
            Some(cc) => format!("{}, {cc}", self.name),
            None => self.name.clone(),
        }
    }

    /// What only this experiment measures.
    fn more_line(&self, name: &str) -> Option<String> {
        let plain = |value: &Value| match value.as_f64() {
            Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
            Some(value) => format!("{value:.2}"),
            None => value.to_string(),
        };
        let present = self.measured.more.iter().filter(|(_, value)| !value.is_null());
        let all: Vec<String> =
            present.map(|(key, value)| format!("{} {}", key.replace('_', " "), plain(value))).collect();
        (!all.is_empty()).then(|| format!("{name}: {}\n", all.join(", ")))
    }

    fn throughput_row(&self, name: &str) -> [String; 5] {
        let measured = figures_text(&self.measured.figures);
        let spread = self.measured.spread.and_then(|spread| spread.ratio.or(spread.download_bps));
        let measured = match spread {
            Some((low, high)) if self.measured.figures.ratio.is_some() => {
                format!("{measured} ({low:.2}–{high:.2})")
            }
            Some((low, high)) => format!("{measured} ({:.0}–{:.0})", low / 1e3, high / 1e3),
            None => measured,
        };
        let paper = match (figures_text(&self.paper.figures), self.paper.more.get("says")) {
            (figures, Some(Value::String(says))) if figures == NOTHING => says.clone(),
            (figures, _) => figures,
        };
        [
            name.to_owned(),
            paper,
            figures_text(&self.predicted.paper),
            figures_text(&self.predicted.refined),
            measured,
        ]
    }

    fn reading_row(&self, name: &str) -> [String; 7] {
        let kernel = |pointer: &str, digits: usize| number(self.truth.pointer(pointer), digits);
        let pair = |kernel: String, agent: String| format!("{kernel} | {agent}");
        let agent_queue = self.agent.queue_mean_bytes.up.map(Value::from);
        let ratio = self.measured.figures.ratio.map(Value::from);
        [
            name.to_owned(),
            pair(kernel("/uplink_queue/mean_bytes", 0), number(agent_queue.as_ref(), 0)),
            pair(share(self.truth.get("phase_share")), share(Some(&self.agent.phase_share))),
            pair(kernel("/queue_correlation", 2), number(Some(&self.agent.queue_correlation), 2)),
            pair(seconds(self.truth.get("swing_period_s")), seconds(Some(&self.agent.swing_period_s))),
            pair(number(ratio.as_ref(), 2), number(self.agent.throughput_ratio.get("measured"), 2)),
            self.agent.verdict.as_str().unwrap_or(NOTHING).to_owned(),
        ]
    }
}

const NOTHING: &str = "–";

pub(super) fn number(value: Option<&Value>, digits: usize) -> String {
    value.and_then(Value::as_f64).map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.digits$}"))
}

fn seconds(value: Option<&Value>) -> String {
    value.and_then(Value::as_f64).map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.1} s"))
}

pub(super) fn share(value: Option<&Value>) -> String {
    let part = |name| value.and_then(|value| value.get(name)?.as_f64());
    match (part("uplink_bound"), part("downlink_bound")) {
        (up @ Some(_), down @ Some(_)) => format!("{} / {}", percent(up), percent(down)),
        _ => NOTHING.to_owned(),
    }
}

pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| NOTHING.to_owned(), |share| format!("{:.0}%", share * 100.0))
}

fn figures_text(figures: &Figures) -> String {
    let kilobits =
        |bps: Option<f64>| bps.map_or_else(|| NOTHING.to_owned(), |bps| format!("{:.0}", bps / 1000.0));
    match (figures.download_bps, figures.upload_bps, figures.ratio) {
        (None, None, None) => NOTHING.to_owned(),
        (None, None, Some(ratio)) => format!("{ratio:.2}"),
        (Some(_), Some(0.0), None) => kilobits(figures.download_bps),
        (download, upload, ratio) => {
            let ratio = ratio.map_or_else(String::new, |ratio| format!(" = {ratio:.2}"));
            format!("{} / {}{ratio}", kilobits(download), kilobits(upload))
        }
    }
}

/// Columns as wide as their widest cell, in characters, two blanks apart.
pub(super) fn align<R: AsRef<[String]>>(rows: &[R]) -> String {
    columns(rows, |_, cell, width| format!("{cell:<width$}"))
}

/// The same with figures, all columns but the first, to the right.
pub(super) fn align_figures<R: AsRef<[String]>>(rows: &[R]) -> String {
    columns(
        rows,
        |column, cell, width| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        },
    )
}

fn columns<R: AsRef<[String]>>(rows: &[R], pad: impl Fn(usize, &str, usize) -> String) -> String {
    let mut widths = Vec::new();
    for row in rows.iter().map(AsRef::as_ref) {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.as_ref().iter().zip(&widths).enumerate();
        let cells: Vec<String> = cells.map(|(column, (cell, width))| pad(column, cell, *width)).collect();
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
        let agent = AgentSummary {
            verdict: json!("swinging"),
            phase_share: json!({"uplink_bound": 0.9, "downlink_bound": 0.05}),
            ..AgentSummary::default()
        };
        let case = CaseReport {
            name: "one upload".into(),
            params: Map::new(),
            paper: Claim::says("in phase"),
            predicted: Predicted { paper: Figures::new(187_000.0, 187_000.0), ..Predicted::default() },
            measured: Measured { figures: Figures::new(300_000.0, 150_000.0), ..Measured::default() },
            truth: json!({"uplink_queue": {"mean_bytes": 29_900.4}, "swing_period_s": null}),
            agent,
        };
        Report::new("fig1", vec![case], String::new())
    }

    fn printed<C: Serialize>(report: &Report<C>) -> Printed {
        report.finish(&RunOptions::default()).unwrap()
    }

    #[test]
    fn figures_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(align_figures(&[row(["case", "up"]), row(["a", "1000"])]), "case    up\na     1000\n");
    }

    #[test]
    fn a_case_that_did_not_run_says_why() {
        let case = OwnCase { not_runnable: Some("no cake".into()), ..OwnCase::default() };
        let json: Value =
            serde_json::from_str(&printed(&Report::new("x", vec![case], String::new())).json).unwrap();
        assert_eq!(json["cases"][0]["not_runnable"], "no cake");
        assert!(json["cases"][0].get("measured").is_some());
    }

    #[test]
    fn the_json_has_the_fields_of_the_contract() {
        let json: Value = serde_json::from_str(&printed(&report()).json).unwrap();
        assert_eq!(json["experiment"], "fig1");
        let case = &json["cases"][0];
        for field in ["name", "params", "paper", "predicted", "measured", "truth", "agent"] {
            assert!(case.get(field).is_some(), "{field}");
        }
        assert_eq!(
            case["measured"],
            json!({"download_bps": 300_000.0, "upload_bps": 150_000.0, "ratio": 2.0})
        );
        assert_eq!(case["predicted"]["ratio"], 1.0);
        assert_eq!(case["predicted"]["refined"]["ratio"], Value::Null);
        assert_eq!(case["agent"]["verdict"], "swinging");
        assert_eq!(case["agent"]["phase_share"]["uplink_bound"], 0.9);
    }

    #[test]
    fn the_tables_are_aligned() {
        let text = tables(&report().cases);
        let lines: Vec<&str> = text.lines().collect();
        let column = |line: &str, what: &str| line.split(what).next().map(|before| before.chars().count());
        assert_eq!(column(lines[2], "measured"), column(lines[3], "300 / 150 = 2.00"));
        assert!(lines[3].contains("in phase"), "{text}");
        assert_eq!(column(lines[7], "share"), column(lines[8], "– | 90% / 5%"));
        assert!(lines[8].contains("29900 | –") && lines[8].ends_with("swinging"), "{text}");
    }

    #[test]
    fn a_download_alone_has_no_ratio() {
        assert_eq!(figures_text(&Figures::new(2_300_000.0, 0.0)), "2300");
        assert_eq!(figures_text(&Figures::of_ratio(12.24)), "12.24");
        assert_eq!(figures_text(&Figures::default()), NOTHING);
    }
}
