//! The table of all cases: one block for each link and congestion control.

use std::fmt::Write as _;

use serde_json::Value;

use super::links::{Ecn, LinkTraffic};
use crate::experiment::OwnCase;
use crate::experiment::report::align_figures as align;

const NOTHING: &str = "–";

/// Text of one block: its cases, then what could not be run and why.
pub(super) fn block(link: &LinkTraffic, cc: &str, ecn: Ecn, cases: &[OwnCase]) -> String {
    let perfect = link.alone().count();
    let score = if perfect > 0 { format!("; score {perfect} is perfect") } else { String::new() };
    let mut text = format!("{} ({}), {cc}, {}{score}\n\n", link.name, link.what, ecn.name());
    let headings = [
        "case",
        "down kb/s",
        "up kb/s",
        "score",
        "RTT down ms",
        "RTT up ms",
        "ping p95 ms",
        "lost %",
        "smaller host %",
        "timeouts",
        "vs fifo down",
        "vs fifo up",
    ];
    let fifo = cases.iter().find(|case| case.name == "fifo" && case.not_runnable.is_none());
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    rows.extend(cases.iter().filter(|case| case.not_runnable.is_none()).map(|case| row(case, fifo)));
    text.push_str(&align(&rows));
    for case in cases {
        if let Some(reason) = &case.not_runnable {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{}: not runnable here: {reason}", case.name);
        }
    }
    text.push('\n');
    text
}

fn row(case: &OwnCase, fifo: Option<&OwnCase>) -> Vec<String> {
    let of = |case: &OwnCase, name: &str| case.measured.get(name).and_then(Value::as_f64);
    let number = |name: &str, scale: f64, digits: usize| {
        of(case, name).map_or_else(
            || NOTHING.to_owned(),
            |value| format!("{:.digits$}", value * scale, digits = digits),
        )
    };
    let against = |name: &str| {
        let (own, plain) = (of(case, name), fifo.and_then(|fifo| of(fifo, name)));
        match (own, plain) {
            (Some(own), Some(plain)) if plain > 0.0 => format!("{:+.1} %", (own / plain - 1.0) * 100.0),
            _ => NOTHING.to_owned(),
        }
    };
    vec![
        case.name.clone(),
        number("download_bps", 1e-3, 0),
        number("upload_bps", 1e-3, 0),
        number("score", 1.0, 3),
        number("download_rtt_s", 1e3, 0),
        number("upload_rtt_s", 1e3, 0),
        number("ping_p95_s", 1e3, 0),
        number("ping_loss", 1e2, 1),
        number("smaller_host_share", 1e2, 1),
        number("timeouts", 1.0, 0),
        against("download_bps"),
        against("upload_bps"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::links::LINKS;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_block_has_the_cases_and_the_reasons() {
        let case = |name: &str, download: f64| OwnCase {
            name: name.into(),
            measured: json!({"download_bps": download, "upload_bps": 100_000.0, "score": 1.5}),
            ..OwnCase::default()
        };
        let missing =
            OwnCase { name: "cake".into(), not_runnable: Some("no sch_cake".into()), ..OwnCase::default() };
        let text = block(&LINKS[0], "reno", Ecn::None, &[case("fifo", 1e6), case("lane", 2e6), missing]);
        assert!(text.contains("cake: not runnable here: no sch_cake"), "{text}");
        let lane = text.lines().find(|line| line.starts_with("lane")).unwrap();
        assert!(lane.contains("2000") && lane.contains("1.500") && lane.contains("+100.0 %"), "{lane}");
    }
}
