//! Statements of hand-written documents about commands, options, metrics, keys, defaults and sizes, held against the code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::bpf::abi::{pendulum_flow, pendulum_flow_key};
use crate::config::{Active, Config, FrameLayer};
use crate::metrics::{Exposition, ExpositionFormat};
use crate::snapshot::example;

/// Names that begin like a metric: crates of the workspace, and parts of file names.
const NO_METRICS: [&str; 7] = [
    "pendulum_model",
    "pendulum_wire",
    "pendulum_reference",
    "pendulum_lab",
    "pendulum_bench",
    "pendulum_version_arch",
    "pendulum_",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Path and text of every Markdown page that people write.
fn pages() -> Vec<(String, String)> {
    let mut waiting: Vec<PathBuf> =
        ["docs", "dashboards", "deploy", "tests/lab"].iter().map(|name| root().join(name)).collect();
    let mut found: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
            .iter()
            .map(|name| root().join(name))
            .collect();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "md")
            && !path.ends_with("docs/screenshots/top.md")
        {
            found.push(path);
        }
    }
    let name = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    let pages: Vec<_> =
        found.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect();
    assert!(pages.len() > 30, "the documents were not found");
    pages
}

/// Blocks of code with their language, and code within lines, which has none.
fn code(text: &str) -> Vec<(&str, String)> {
    let mut pieces = Vec::new();
    for (index, part) in text.split("\n```").enumerate() {
        if index % 2 == 1 {
            let (language, block) = part.split_once('\n').unwrap_or((part, ""));
            pieces.push((language.trim(), block.replace("\\\n", " ")));
            continue;
        }
        let spans = part.split('`').enumerate().filter(|(index, _)| index % 2 == 1);
        pieces.extend(spans.map(|(_, span)| ("", span.to_owned())));
    }
    pieces
}

/// The commands `pendulum …` in a piece of code, in words.
fn commands(piece: &str) -> impl Iterator<Item = Vec<&str>> {
    let parts = piece.split(['\n', ';', '|', '&', '\'', '"', '#']);
    let parts = parts.map(|part| part.trim().trim_start_matches("sudo "));
    parts.filter(|part| part.starts_with("pendulum ")).map(|part| part.split_whitespace().skip(1).collect())
}

#[test]
fn commands_and_options_in_documents_exist() {
    let definition = crate::cli::definition();
    let mut seen = 0;
    for (page, text) in pages() {
        for (_, piece) in code(&text) {
            for words in commands(&piece) {
                let Some(name) = words
                    .first()
                    .filter(|name| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'))
                else {
                    continue;
                };
                if name.starts_with('-') {
                    continue;
                }
                let command = definition
                    .find_subcommand(name)
                    .unwrap_or_else(|| panic!("{page}: `pendulum {name}` is no command: {piece}"));
                seen += 1;
                for option in words.iter().filter_map(|word| word.trim_start_matches('[').strip_prefix("--"))
                {
                    let option =
                        option.split(|end: char| !(end.is_ascii_lowercase() || end == '-')).next().unwrap();
                    let mut known = command.get_arguments().filter_map(clap::Arg::get_long);
                    assert!(
                        option == "help" || known.any(|long| long == option),
                        "{page}: `pendulum {name}` has no option --{option}: {piece}"
                    );
                }
            }
        }
    }
    assert!(seen > 50, "{seen} commands were found in the documents");
}

#[test]
fn metrics_in_documents_are_exported() {
    let board = example::board(vec![example::link("dsl")]);
    let active = Active::start(Config::default()).1;
    let text = Exposition::new(&board, active, true).encode(ExpositionFormat::Text).unwrap();
    let (families, _) = super::read(std::str::from_utf8(&text).unwrap());
    let rules = read("dashboards/rules/pendulum-records.yml");
    let is_known = |name: &str, is_prefix: bool| {
        let name =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        families.keys().any(|family| if is_prefix { family.starts_with(name) } else { family == name })
            // The series in the middle of a recorded one's name.
            || rules.contains(&format!(":{name}:"))
    };
    let mut seen = BTreeSet::new();
    for (page, text) in pages() {
        for (_, piece) in code(&text) {
            for (at, _) in piece.match_indices("pendulum_") {
                let before = piece[..at].chars().next_back();
                if before.is_some_and(|letter| letter.is_alphanumeric() || "_/-".contains(letter))
                    || piece[..at].ends_with("struct ")
                {
                    continue;
                }
                let rest = &piece[at..];
                let end = rest
                    .find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
                    .unwrap_or(rest.len());
                let name = &rest[..end];
                if NO_METRICS.contains(&name.to_ascii_lowercase().as_str()) {
                    continue;
                }
                let is_prefix = rest[end..].starts_with(['*', '…', '{'])
                    && (name.ends_with('_') || !rest[end..].starts_with('{'));
                assert!(is_known(name, is_prefix), "{page}: no metric is called {name}: {piece}");
                seen.insert(name.to_owned());
            }
        }
    }
    assert!(seen.len() > 60, "{seen:?}");
}

#[test]
fn configurations_in_documents_are_accepted() {
    let mut seen = 0;
    for (page, text) in pages() {
        for (_, block) in code(&text).iter().filter(|(language, _)| *language == "toml") {
            let link = if block.contains("[[link]]") { "" } else { "\n[[link]]\nwan = \"ppp0\"\n" };
            let parsed = Config::parse(&format!("{block}{link}"), Path::new(&page));
            assert!(parsed.is_ok(), "{page}: {}", parsed.unwrap_err());
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen} configurations were found in the documents");
}

/// `key` (value), and the first two cells of a row: in the documents that state defaults.
#[test]
fn defaults_in_documents_are_those_of_the_shipped_file() {
    let shipped = read("deploy/pendulum.toml");
    let default = |key: &str| {
        let line = shipped
            .lines()
            .find_map(|line| line.trim_start_matches("# ").strip_prefix(key)?.strip_prefix(" = "));
        line.map(|value| value.trim().trim_matches('"').to_owned())
    };
    // `10 ms` is written `10ms` in the file, 10 % as 0.1.
    let is_same = |stated: &str, shipped: &str| {
        let plain = stated.replace(' ', "");
        let percent = plain.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        plain == shipped
            || percent.is_some_and(|percent| {
                shipped.parse().is_ok_and(|share: f64| (percent / 100.0 - share).abs() < 1e-9)
            })
    };
    let mut seen = 0;
    for page in ["docs/design/detector.md", "docs/guide/shaping.md"] {
        let text = read(page);
        let pieces: Vec<&str> = text.split('`').collect();
        for pair in pieces.windows(2) {
            let (key, after) = (pair[0], pair[1]);
            let stated =
                after.strip_prefix(" (").and_then(|rest| rest.split_once(')')).map(|(value, _)| value);
            let stated = stated.or_else(|| {
                after.strip_prefix(" | ").and_then(|rest| rest.split_once(" |")).map(|(value, _)| value)
            });
            let Some(stated) =
                stated.filter(|stated| stated.starts_with(|first: char| first.is_ascii_digit()))
            else {
                continue;
            };
            if let Some(shipped) = default(key) {
                assert!(is_same(stated, &shipped), "{page}: `{key}` is {shipped} by default, not {stated}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 8, "{seen} defaults were found in the documents");
}

#[test]
fn the_table_of_presets_is_that_of_the_code() {
    let text = read("docs/guide/shaping.md");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.starts_with("| `preset` |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    assert_eq!(rows.len(), 8, "{rows:?}");
    for row in rows {
        let [_, preset, layer, overhead, mpu, ..] = row.as_slice() else { panic!("{row:?}") };
        let file = format!("[shape]\npreset = \"{preset}\"\n[[link]]\nwan = \"ppp0\"\n");
        let framing = Config::parse(&file, Path::new("preset")).unwrap().shape.framing;
        let name = match framing.layer {
            FrameLayer::Ethernet => "ethernet",
            FrameLayer::Ptm => "ptm",
            FrameLayer::Atm => "atm",
        };
        let least = if framing.mpu == 0 { String::new() } else { framing.mpu.to_string() };
        let stated = ((*layer).to_owned(), (*overhead).to_owned(), (*mpu).to_owned());
        assert_eq!(stated, (name.to_owned(), framing.overhead.unwrap().to_string(), least), "{preset}");
    }
}

/// Memory of the two tables of flows at their default sizes, as the kernel allocates LRU hashes: an element's head of 48 bytes, key and
/// value in multiples of 8, and a bucket of 16 bytes.
#[test]
fn the_sizes_of_the_tables_are_those_stated() {
    let links = Config::parse("[[link]]\nwan = \"ppp0\"\n", Path::new("default")).unwrap().links;
    let element = 48
        + size_of::<pendulum_flow_key>().next_multiple_of(8)
        + size_of::<pendulum_flow>().next_multiple_of(8);
    let mebibytes = |entries: u32| {
        let buckets = entries.next_power_of_two() as usize * 16;
        format!("{:.1} MiB", (entries as usize * element + buckets) as f64 / f64::from(1 << 20))
    };
    let (flows, nursery) = (links[0].max_flows, links[0].nursery);
    let stated = format!("{flows} flows take {}, the nursery {}.", mebibytes(flows), mebibytes(nursery));
    assert!(
        read("docs/guide/install.md").contains(&stated),
        "docs/guide/install.md does not state: {stated}"
    );
}
