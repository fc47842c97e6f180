//! What is written from the code and kept in the repository: man pages, completions, the metrics reference. The tests
//! here hold both in step; `./dev generate` runs them with `PENDULUM_GENERATE=1`, and they then write instead.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap_complete::Shell;

use crate::config::{Active, Config};
use crate::metrics::{Exposition, Format};
use crate::snapshot::example;

/// Writes the file, or asserts that it is as it should be.
fn hold(path: &str, wanted: &str) {
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
        hold(&format!("docs/man/{name}"), &std::fs::read_to_string(page.path()).unwrap());
        wanted.insert(PathBuf::from(name));
    }
    assert_eq!(names("docs/man"), wanted, "remove the pages of commands that are gone");
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

/// A metric family as the exposition shows it.
#[derive(Default)]
struct Family {
    help: String,
    kind: String,
    labels: Vec<String>,
}

/// Families by name, and the values of labels that are names of enums.
fn read(text: &str) -> (BTreeMap<String, Family>, BTreeMap<String, BTreeSet<String>>) {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
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
    let text = Exposition::new(&board, active, true).encode(Format::Text).unwrap();
    let (families, values) = read(std::str::from_utf8(&text).unwrap());
    let mut page = "# Metrics\n\nWritten by `./dev generate` from the code; a test holds it in step. How each figure is measured is told in \
                    [measurement.md](measurement.md),\n[queues.md](queues.md) and [detector.md](detector.md). A figure that is not known has no \
                    sample. No label carries an address or a port.\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n"
        .to_owned();
    for (name, family) in &families {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let help = family.help.replace('|', "\\|");
        writeln!(page, "| `{name}` | {} | {} | {help} |", family.kind, labels.join(", ")).unwrap();
    }
    page.push_str("\n## Values of labels\n\n`link` is the name of a link in the configuration, `program` and `map` are names of BPF objects.\n\n| label | values |\n|---|---|\n");
    for (label, values) in &values {
        if ["link", "program", "map", "version"].contains(&label.as_str()) {
            continue;
        }
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        writeln!(page, "| `{label}` | {} |", values.join(", ")).unwrap();
    }
    hold("docs/metrics.md", &page);
}
