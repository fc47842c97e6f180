//! What is written from the code and kept in the repository: man pages, completions, the references. The tests
//! here hold both in step; `./dev generate` runs them with `PENDULUM_GENERATE=1`, and they then write instead.

mod api;
mod documents;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap_complete::Shell;

use crate::config::{Active, Config};
use crate::metrics::{Exposition, ExpositionFormat};
use crate::snapshot::example;

/// Writes the file, or asserts that it is as it should be.
pub(crate) fn hold(path: &str, wanted: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    if std::env::var_os("PENDULUM_GENERATE").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, wanted).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    let line = found.lines().zip(wanted.lines()).position(|(found, wanted)| found != wanted);
    assert!(
        found == wanted,
        "{path} is not what the code says (line {:?}): run `./dev generate`",
        line.map(|line| line + 1)
    );
}

/// The files of a directory in the repository, by name.
fn names(directory: &str) -> BTreeSet<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(directory);
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into()).collect()
}

#[test]
fn man_pages_are_those_of_the_command_line() {
    let made = tempfile::tempdir().unwrap();
    // Without this, `help` would get a page of its own.
    let command = crate::cli::definition().disable_help_subcommand(true);
    clap_mangen::generate_to(command, made.path()).unwrap();
    let mut wanted = BTreeSet::new();
    for entry in std::fs::read_dir(made.path()).unwrap() {
        let page = entry.unwrap();
        let name = page.file_name().into_string().unwrap();
        hold(&format!("docs/reference/man/{name}"), &std::fs::read_to_string(page.path()).unwrap());
        wanted.insert(PathBuf::from(name));
    }
    assert_eq!(names("docs/reference/man"), wanted, "remove the pages of commands that are gone");
}

#[test]
fn completions_are_those_of_the_command_line() {
    for (shell, name) in
        [(Shell::Bash, "pendulum.bash"), (Shell::Zsh, "_pendulum"), (Shell::Fish, "pendulum.fish")]
    {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut crate::cli::definition(), "pendulum", &mut script);
        hold(&format!("deploy/completions/{name}"), &String::from_utf8(script).unwrap());
    }
}

/// For the programs in other languages: dashboards and page.
#[test]
fn colours_are_those_of_the_model() {
    let mut groups: BTreeMap<&str, BTreeMap<&str, serde_json::Value>> = BTreeMap::new();
    for (group, name, colour) in pendulum_model::colour::all() {
        let text = |rgb: u32| format!("#{rgb:06x}");
        let known = serde_json::json!({ "any": text(colour.any), "light": text(colour.light), "dark": text(colour.dark) });
        groups.entry(group).or_default().insert(name, known);
    }
    hold("dashboards/colours.json", &(serde_json::to_string_pretty(&groups).unwrap() + "\n"));
    let sheet = |ground: fn(pendulum_model::colour::Colour) -> u32| -> String {
        let mut lines = String::new();
        for (group, name, colour) in pendulum_model::colour::all() {
            let rgb = ground(colour);
            if group != "direction" {
                writeln!(lines, "  --{group}-{name}: #{rgb:06x};").unwrap();
                continue;
            }
            // Data in a buffer pale, the ACKs among it strong.
            let [_, red, green, blue] = rgb.to_be_bytes();
            writeln!(lines, "  --{name}: #{rgb:06x};").unwrap();
            writeln!(lines, "  --{name}-fill: rgba({red}, {green}, {blue}, 0.28);").unwrap();
            writeln!(lines, "  --{name}-ack: rgba({red}, {green}, {blue}, 0.8);").unwrap();
        }
        lines
    };
    let page = format!(
        "/* Written by `./dev generate` from model/src/colour.rs. */\n:root {{\n{}}}\n\n:root[data-theme='dark'] {{\n{}}}\n",
        sheet(|colour| colour.light),
        sheet(|colour| colour.dark)
    );
    hold("agent/web/style/palette.css", &page);
}

/// A metric family as the exposition shows it.
#[derive(Default)]
struct ExposedFamily {
    help: String,
    kind: String,
    labels: Vec<String>,
}

/// Families by name, and the values of labels that are names of enums.
fn read(text: &str) -> (BTreeMap<String, ExposedFamily>, BTreeMap<String, BTreeSet<String>>) {
    let mut families: BTreeMap<String, ExposedFamily> = BTreeMap::new();
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            current = name.to_owned();
            families.entry(current.clone()).or_default().help = help.to_owned();
        } else if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            families.entry(current.clone()).or_default().kind = kind.to_owned();
        } else if let Some((_, labels)) = line.split_once('{') {
            let labels = labels.split_once("\"}").map_or("", |(labels, _)| labels);
            let family = families.entry(current.clone()).or_default();
            for (label, value) in labels.split("\",").filter_map(|label| label.split_once("=\"")) {
                if label == "le" {
                    continue;
                }
                if !family.labels.iter().any(|known| known == label) {
                    family.labels.push(label.to_owned());
                }
                values.entry(label.to_owned()).or_default().insert(value.to_owned());
            }
        }
    }
    (families, values)
}

#[test]
fn the_metrics_reference_lists_what_is_exported() {
    let board = example::board(vec![example::link("dsl")]);
    let active = Active::start(Config::default()).1;
    let text = Exposition::new(&board, active, true).encode(ExpositionFormat::Text).unwrap();
    let (families, values) = read(std::str::from_utf8(&text).unwrap());
    let mut page = "# Metrics\n\nEvery metric that the agent exports, with its type, labels and meaning. `./dev generate` writes this page from the code. \
                    [measurement.md](../design/measurement.md),\n[queues.md](../design/queues.md) and [detector.md](../design/detector.md) say how each figure is measured. An unknown figure has no \
                    sample. No label carries an address or a port.\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n"
        .to_owned();
    for (name, family) in &families {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let help = family.help.replace('|', "\\|");
        writeln!(page, "| `{name}` | {} | {} | {help} |", family.kind, labels.join(", ")).unwrap();
    }
    page.push_str("\n## Values of labels\n\n`link` is the name of a link in the configuration, `device` that of its network device, `program` and `map` are names of BPF objects.\n\n| label | values |\n|---|---|\n");
    for (label, values) in &values {
        // The sources follow below.
        if ["link", "device", "program", "map", "version", "source"].contains(&label.as_str()) {
            continue;
        }
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        writeln!(page, "| `{label}` | {} |", values.join(", ")).unwrap();
    }
    page.push_str("\n`source` depends on `what`, best first:\n\n| `what` | `source` |\n|---|---|\n");
    for (what, sources) in sources() {
        let names: Vec<String> = sources.iter().map(|source| format!("`{source}`")).collect();
        writeln!(page, "| `{what}` | {} |", names.join(", ")).unwrap();
        let exported = text_of(&text, what);
        let shown = |source: &String| exported.contains(&format!("source=\"{source}\""));
        let unlisted: Vec<_> = values["source"]
            .iter()
            .filter(|source| shown(source) && !sources.contains(&source.as_str()))
            .collect();
        assert!(unlisted.is_empty(), "{what} has sources that are not listed: {unlisted:?}");
    }
    hold("docs/reference/metrics.md", &page);
}

/// The samples of `pendulum_source_info` about one thing.
fn text_of(text: &[u8], what: &str) -> String {
    let text = std::str::from_utf8(text).unwrap();
    let about = format!("what=\"{what}\"");
    text.lines().filter(|line| line.starts_with("pendulum_source_info{") && line.contains(&about)).collect()
}

/// Where each thing may be known from, best first.
fn sources() -> [(&'static str, Vec<&'static str>); 3] {
    use crate::bpf::CwndSource;
    use pendulum_model::link::Provenance;
    use pendulum_model::sample::QueueSource;
    let queue = [QueueSource::Tracepoint, QueueSource::Netlink, QueueSource::Estimate].map(QueueSource::name);
    let cwnd = [CwndSource::Fexit, CwndSource::Fentry, CwndSource::Probe, CwndSource::SockDiag];
    let rate = [Provenance::Config, Provenance::ShapingQdisc, Provenance::Learnt].map(Provenance::name);
    [
        ("queue", [&queue[..], &["unknown"]].concat()),
        ("cwnd", cwnd.map(CwndSource::name).to_vec()),
        ("rate", [&rate[..], &["unknown"]].concat()),
    ]
}
