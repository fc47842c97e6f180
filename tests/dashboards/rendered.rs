//! What panels say of the results of their queries: nothing, NaN, a gateway that is gone, several rows. By Grafana's own library (@grafana/data, Apache
//! 2.0): field overrides, value mappings, units and transformations are its own. No registry of packages has Grafana itself.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::files::Dashboard;

/// A query's letter, and its results: labels and value.
type Results<'a> = &'a [(&'a str, &'a [(&'a str, &'a str)])];
/// Dashboard, kind of the panel, its title, results, and the texts of its rows; `…` ends one of which only the beginning matters.
type Case<'a> = (&'a str, &'a str, &'a str, Results<'a>, &'a [&'a [&'a str]]);

const A: &str = "instance=gw1,link=dsl,job=pendulum";
const DEAD: &str = "instance=gw2,link=dsl,job=pendulum";

const CASES: [Case<'static>; 32] = [
    // The agent is gone: nothing comes from it.
    (
        "link",
        "stat",
        "Is this link watched?",
        &[],
        &[&["NO AGENT: Prometheus has no gateway of this name. …"]],
    ),
    ("link", "stat", "Verdict", &[], &[&["not known: no data from the agent"]]),
    ("link", "stat", "Held for", &[], &[&["not known"]]),
    ("link", "stat", "Traffic in the buffers", &[], &[&["not known"]]),
    ("link", "stat", "Lost throughput", &[], &[&["not known"]]),
    ("link", "stat", "Standing delay", &[], &[&["not known"]]),
    ("link", "stat", "Swing", &[], &[&["not known"]]),
    ("link", "stat", "What to do", &[], &[&["No data from the agent. Ping the gateway. …"]]),
    ("link", "stat", "Last scrape, age", &[], &[&["more than a day"]]),
    ("link", "stat", "Shaping", &[], &[&["not known: no data from the agent"]]),
    ("link", "table", "Firing alerts", &[], &[&["no alert fires"]]),
    // It cannot be scraped, or has no such link.
    ("link", "stat", "Is this link watched?", &[("A", &[("", "3")])], &[&["AGENT DOWN: …"]]),
    (
        "link",
        "stat",
        "Is this link watched?",
        &[("A", &[("", "5")])],
        &[&["the agent answers, and has no such link"]],
    ),
    ("link", "stat", "Last scrape, age", &[("A", &[("", "14400")])], &[&["4 hours"]]),
    // It is there.
    (
        "link",
        "stat",
        "Is this link watched?",
        &[("A", &[("", "1")])],
        &[&["watched: the panels below show the present"]],
    ),
    ("link", "stat", "Verdict", &[("A", &[(A, "6")])], &[&["LOCKED UPLINK"]]),
    ("link", "stat", "Verdict", &[("A", &[(A, "8")])], &[&["evidence missing"]]),
    ("link", "stat", "Held for", &[("A", &[(A, "2940")])], &[&["49 mins"]]),
    ("link", "stat", "What to do", &[("A", &[(A, "3")])], &[&["Nothing."]]),
    ("link", "stat", "Swing", &[("A", &[(A, "0")])], &[&["no swing"]]),
    (
        "link",
        "stat",
        "Traffic in the buffers",
        &[("A", &[("direction=both,kind=any", "0")])],
        &[&["both: any", "nothing has entered"]],
    ),
    (
        "link",
        "stat",
        "Standing delay",
        &[("A", &[("direction=up", "0.45"), ("direction=down", "NaN")])],
        &[&["up", "450 ms"], &["down", "not known"]],
    ),
    ("link", "stat", "Shaping", &[("A", &[(A, "2")])], &[&["dry run: counts, changes nothing"]]),
    (
        "link",
        "stat",
        "Configuration",
        &[("A", &[("", "0")]), ("B", &[("", "11")])],
        &[&["last reload", "REFUSED: the old one holds"], &["settings that wait", "some wait for a restart"]],
    ),
    ("link", "state-timeline", "Findings", &[("A", &[("finding=any", "0")])], &[&["any ", "none"]]),
    (
        "link",
        "state-timeline",
        "Findings",
        &[("A", &[("finding=bufferbloat,direction=up", "1")])],
        &[&["bufferbloat up", "holds"]],
    ),
    ("link", "state-timeline", "Verdicts", &[("A", &[(A, "0")])], &[&["dsl", "not known"]]),
    // Critical before warning, each with its first step; the empty label is no text of an empty table.
    (
        "link",
        "table",
        "Firing alerts",
        &[(
            "A",
            &[
                (
                    "alertname=PendulumBufferbloat,first=PendulumBufferbloat,instance=gw1,link=dsl,direction=up",
                    "2",
                ),
                ("alertname=PendulumTargetDown,first=PendulumTargetDown,instance=gw1", "1"),
            ],
        )],
        &[
            &["Severity", "Alert", "Direction", "First step"],
            &["critical", "PendulumTargetDown", "", "Ping the gateway. …"],
            &["warning", "PendulumBufferbloat", "up", "Nothing breaks. …"],
        ],
    ),
    (
        "fleet",
        "stat",
        "Gateways",
        &[("A", &[("", "3")]), ("B", &[("", "1")])],
        &[&["answer", "3"], &["DOWN", "1"]],
    ),
    ("fleet", "stat", "Alerts", &[], &[&["none fires"]]),
    ("fleet", "table", "Links", &[], &[&["Prometheus has no gateway"]]),
    // A gateway that is gone, one that was never seen, one that is well.
    (
        "fleet",
        "table",
        "Links",
        &[
            ("A", &[(A, "1"), (DEAD, "3"), ("instance=gw3,job=pendulum", "3")]),
            ("B", &[(A, "6")]),
            ("C", &[(A, "2940")]),
            ("D", &[(A, "3"), (DEAD, "9000")]),
            ("E", &[(A, "0.93")]),
            ("F", &[(A, "0")]),
            ("G", &[(A, "1200000")]),
            ("H", &[(A, "0.25")]),
            ("I", &[(A, "1")]),
            ("J", &[(A, "1.37")]),
            ("K", &[(A, "NaN")]),
        ],
        &[
            &[
                "State",
                "Verdict",
                "Gateway",
                "Link",
                "Held for",
                "Last seen, age",
                "Locked",
                "Swinging",
                "Lost",
                "Down used",
                "Up used",
                "RTT, p95",
                "Retransmitted",
            ],
            &["AGENT DOWN", "–", "gw2", "dsl", "–", "2.50 hours", "–", "–", "–", "–", "–", "–", "–"],
            &["AGENT DOWN", "–", "gw3", "", "–", "–", "–", "–", "–", "–", "–", "–", "–"],
            &[
                "measured",
                "LOCKED UPLINK",
                "gw1",
                "dsl",
                "49 mins",
                "3 s",
                "93%",
                "0%",
                "1.20 Mbit/s",
                "25%",
                "100%",
                "1.37 s",
                "–",
            ],
        ],
    ),
];

fn result(results: Results<'_>) -> Value {
    let one = |(labels, value): &(&str, &str)| {
        let labels = labels.split(',').filter_map(|label| label.split_once('='));
        json!({ "metric": labels.collect::<std::collections::BTreeMap<_, _>>(), "value": value })
    };
    results
        .iter()
        .map(|(letter, series)| ((*letter).to_owned(), series.iter().map(one).collect::<Value>()))
        .collect()
}

pub(crate) fn run(command: &mut Command, input: &str) -> Result<String, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output().unwrap()
    });
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
}

fn is_told(text: &str, wanted: &str) -> bool {
    match wanted.strip_suffix('…') {
        Some(beginning) => text.starts_with(beginning.trim_end()),
        None => text == wanted,
    }
}

/// A directory of this test's files.
pub(crate) fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/dashboards").join(name)
}

/// The packages that a directory of this test asks for; none, and the reason on stderr, where npm cannot fetch them.
pub(crate) fn fetched(test: &str, home: &Path) -> Option<tempfile::TempDir> {
    let directory = tempfile::tempdir().unwrap();
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(home.join(file), directory.path().join(file)).unwrap();
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=0"]);
    if let Err(reason) = run(npm.current_dir(directory.path()), "") {
        let reason = reason.lines().take(3).collect::<Vec<_>>().join(" ");
        eprintln!("SKIPPED {test}: npm cannot fetch Grafana's library: {reason}");
        return None;
    }
    Some(directory)
}

#[test]
fn every_panel_says_what_its_results_mean() {
    let dashboards = Dashboard::all();
    let panel = |board: &str, kind: &str, title: &str| {
        let dashboard = dashboards.iter().find(|one| one.name == board).unwrap();
        let mut panels = dashboard.panels().into_iter();
        let found = panels.find(|panel| panel["type"] == kind && panel["title"] == title);
        found.unwrap_or_else(|| panic!("{board} has no {kind} {title}")).clone()
    };
    let input: Vec<Value> = CASES
        .iter()
        .map(|(board, kind, title, results, _)| {
            json!({ "panel": panel(board, kind, title), "results": result(results) })
        })
        .collect();
    for version in ["12", "13"] {
        check_texts(version, &json!(input).to_string());
    }
}

/// The texts of all cases by one version of the library.
fn check_texts(version: &str, input: &str) {
    let home = here("rendered");
    let Some(directory) = fetched("every_panel_says_what_its_results_mean", &home.join(version)) else {
        return;
    };
    let mut node = Command::new("node");
    let output = run(node.arg(home.join("render.cjs")).arg(directory.path()), input).unwrap();
    let told: Vec<Vec<Vec<String>>> =
        serde_json::from_str(output.trim_end().lines().last().unwrap()).unwrap();
    let mut complaints = Vec::new();
    for ((board, _, title, results, wanted), told) in CASES.iter().zip(&told) {
        let same = told.len() == wanted.len()
            && told.iter().zip(*wanted).all(|(row, wanted)| {
                row.len() == wanted.len()
                    && row.iter().zip(*wanted).all(|(text, wanted)| is_told(text, wanted))
            });
        if !same {
            complaints.push(format!("{version}: {board}: {title} of {results:?}: {told:?}"));
        }
    }
    assert!(told.len() == CASES.len() && complaints.is_empty(), "{}", complaints.join("\n"));
}
