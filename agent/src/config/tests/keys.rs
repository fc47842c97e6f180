//! The rules that hold for every key, checked with the table of [`rows`].

use std::collections::BTreeSet;

use super::rows::{AtReload, KeyRow};
use super::{fields, parse, rows};
use crate::config::{Active, Config};

/// A file with these lines in the table of `key`, and otherwise as little as possible. The first of the lines stands in the line
/// that is returned.
fn file(key: &str, lines: &str) -> (String, usize) {
    let wan = "[[link]]\nwan = \"wan0\"\n";
    match key.split_once('.') {
        None => (format!("{lines}\n{wan}"), 1),
        // The device is what the key gives, then.
        Some(("link", "wan")) => (format!("[[link]]\n{lines}\n"), 2),
        Some(("link", _)) => (format!("{wan}{lines}\n"), 3),
        Some((table, _)) => (format!("{wan}[{table}]\n{lines}\n"), 4),
    }
}

impl KeyRow {
    /// A file in which the key has this value.
    fn file(&self, value: &str) -> String {
        file(self.key, &self.lines(value)).0
    }

    fn lines(&self, value: &str) -> String {
        format!("{} = {value}\n{}", self.name(), self.beside)
    }

    pub(super) fn name(&self) -> &'static str {
        self.key.rsplit('.').next().unwrap()
    }

    /// The key as messages name it.
    fn path(&self) -> String {
        self.key.replace("link.", "link[0].")
    }

    fn config(&self, value: &str) -> Config {
        parse(&self.file(value)).unwrap_or_else(|error| panic!("{} = {value}: {error}", self.key))
    }

    /// The first of the allowed values is what other tests change the key to.
    fn changed(&self) -> (&str, &str) {
        (&self.allowed[0].0, &self.allowed[0].1)
    }

    /// Whether a value of this key changes what the other key does.
    fn touches(&self, other: &Self) -> bool {
        let is_beside = self.beside.split_once(" = ").is_some_and(|(name, _)| {
            other.name() == name
                && self.key.split_once('.').map(|key| key.0) == other.key.split_once('.').map(|key| key.0)
        });
        // A link is named after its device.
        // Together they say what packets take on the line.
        let framing = ["shape.preset", "shape.link-layer", "shape.overhead", "shape.mpu"];
        let is_framing = [self.key, other.key].iter().all(|key| framing.contains(key));
        self.key == other.key || is_beside || is_framing || (self.key, other.key) == ("link.wan", "link.name")
    }
}

fn plain() -> Config {
    parse("[[link]]\nwan = \"wan0\"\n").unwrap()
}

#[test]
fn every_key_has_a_row() {
    let rows: Vec<String> = rows::all().iter().map(|row| row.key.to_owned()).collect();
    let unique: BTreeSet<_> = rows.iter().cloned().collect();
    assert_eq!(unique.len(), rows.len(), "a key has two rows");
    assert_eq!(unique, fields::all().into_iter().collect::<BTreeSet<_>>());
}

#[test]
fn without_a_key_its_default_holds() {
    for row in rows::all() {
        assert_eq!((row.effect)(&plain()), row.default, "{}", row.key);
    }
}

/// The bounds themselves, and every word that is allowed.
#[test]
fn what_is_allowed_has_its_effect_and_no_other() {
    let rows = rows::all();
    for row in &rows {
        for (value, effect) in &row.allowed {
            let config = row.config(value);
            assert_eq!(&(row.effect)(&config), effect, "{} = {value}", row.key);
            for other in rows.iter().filter(|other| !row.touches(other)) {
                let found = (other.effect)(&config);
                assert_eq!(found, other.default, "{} = {value} changes {}", row.key, other.key);
            }
        }
        let is_changed = row.changed().1 != row.default;
        assert!(is_changed != (row.reload == AtReload::Never), "{}: the first value is the default", row.key);
    }
}

/// One beyond each bound, and words that mean nothing: refused with file, line, key and reason.
#[test]
fn what_is_not_allowed_is_refused_by_its_name() {
    for row in rows::all() {
        assert!(!row.refused.is_empty(), "{}", row.key);
        for (value, reason) in &row.refused {
            let (text, line) = file(row.key, &row.lines(value));
            let message = parse(&text).expect_err(&text).to_string();
            let rest = message.strip_prefix(&format!("test.toml:{line}: {}", row.path()));
            let rest = rest.unwrap_or_else(|| panic!("{} = {value}: {message}", row.key));
            assert!(
                rest.starts_with([':', '[']) && rest.contains(reason.as_str()),
                "{} = {value}: {message}",
                row.key
            );
        }
    }
}

/// The message to correct a number says what it would be without the key. The detector's defaults are in its own page.
#[test]
fn what_is_out_of_range_gets_the_default() {
    let mut told = 0;
    for row in rows::all().iter().filter(|row| !row.key.starts_with("detector.")) {
        for (value, reason) in row.refused.iter().filter(|(_, reason)| reason.contains("out of range")) {
            let message = parse(&row.file(value)).expect_err(value).to_string();
            let default = match row.key {
                // Without the key nothing is compared; who compares does so for a minute at a time.
                "shape.ab-test" => "1m",
                // Without the key a packet counts as the kernel counts it; with any word on its framing it has no overhead.
                "shape.overhead" => "0",
                _ => row.default,
            };
            assert!(message.ends_with(&format!("{reason}, and {default} is the default")), "{message}");
            told += 1;
        }
    }
    // Both ends of flows.*, link.max-flows, link.nursery, both percentages, the comparison and the overhead; of mpu the upper one.
    assert_eq!(told, 17);
}

#[test]
fn a_changed_file_holds_at_once_or_waits_and_says_so() {
    for row in rows::all() {
        let (value, effect) = row.changed();
        let mut active = Active { config: plain(), ..Active::default() };
        let changes = active.adopt(&row.config(value));
        let beside = row.beside.split_once(" = ").map(|(name, _)| name);
        let names = |list: &[String]| -> Vec<String> {
            list.iter()
                .filter(|name| beside.is_none_or(|beside| !name.ends_with(beside) || name.contains(',')))
                .cloned()
                .collect()
        };
        let (applied, waiting) = (names(&changes.applied), names(&changes.waiting));
        match row.reload {
            AtReload::Live(name) => {
                assert_eq!((applied, waiting), (vec![name.to_owned()], vec![]), "{}", row.key);
                assert_eq!((row.effect)(&active.config), effect, "{}", row.key);
            }
            AtReload::Waits(name) => {
                assert_eq!((applied, waiting), (vec![], vec![name.to_owned()]), "{}", row.key);
                assert_eq!(active.config, plain(), "{}", row.key);
            }
            AtReload::NewLink => {
                assert!(waiting.is_empty(), "{}: {waiting:?}", row.key);
                assert!(applied[0].ends_with("(added)") && applied[1].ends_with("(removed)"), "{applied:?}");
                assert_eq!((row.effect)(&active.config), effect, "{}", row.key);
            }
            AtReload::OtherLink => {
                assert!(applied.is_empty(), "{}: {applied:?}", row.key);
                assert!(waiting[0].ends_with("(added)") && waiting[1].ends_with("(removed)"), "{waiting:?}");
                assert_eq!(active.config, plain(), "{}", row.key);
            }
            AtReload::Never => assert_eq!((applied, waiting), (vec![], vec![]), "{}", row.key),
        }
        assert_eq!(active.reloads.waiting_for_restart, changes.waiting);
        // The same file again: what waited still waits, and nothing else happens.
        let again = active.adopt(&row.config(value));
        assert_eq!((again.applied, again.waiting), (vec![], changes.waiting), "{}", row.key);
    }
}

/// The shipped file marks what changes at once.
#[test]
fn the_shipped_file_marks_live_keys() {
    for row in rows::all() {
        let table = row.key.split_once('.').map_or("", |(table, _)| table);
        let is_marked = marked(table, row.name());
        match row.reload {
            AtReload::Live(_) => assert!(is_marked, "{} is not marked [live]", row.key),
            AtReload::Waits(_) | AtReload::OtherLink | AtReload::NewLink => {
                assert!(!is_marked, "{} is marked [live]", row.key)
            }
            AtReload::Never => {}
        }
    }
}

/// Whether the comment before a key, or the one on all of its table, says that it is live.
fn marked(table: &str, name: &str) -> bool {
    let (mut here, mut comment, mut all) = ("", String::new(), false);
    for line in super::SHIPPED.lines() {
        let key = line.trim_start_matches("# ").split_once(" = ").map(|(key, _)| key);
        if line.is_empty() {
            comment.clear();
        } else if line.starts_with('[') {
            (here, all) = (line.trim_matches(['[', ']']), false);
        } else if here == table && key == Some(name) {
            return all || comment.contains("[live]");
        } else if line.starts_with('#') {
            comment.push_str(line);
            all |= line.contains("All [live]");
        }
    }
    panic!("the shipped file does not show {table}.{name}")
}

/// Options of `run` that are no settings.
const NO_SETTINGS: [&str; 4] = ["config", "wait", "cleanup", "help"];

#[test]
fn every_option_has_a_row() {
    let command = crate::cli::definition();
    let run = command.find_subcommand("run").unwrap();
    let options =
        run.get_opts().filter_map(|option| option.get_long()).filter(|name| !NO_SETTINGS.contains(name));
    let in_rows =
        rows::all().into_iter().filter_map(|row| row.option).map(|(arguments, _)| &arguments[0][2..]);
    assert_eq!(options.collect::<BTreeSet<_>>(), in_rows.collect());
}

#[test]
fn an_option_wins_over_the_file_and_changes_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.toml");
    let rows = rows::all();
    for row in &rows {
        let Some((arguments, effect)) = row.option else { continue };
        let (value, from_file) = row.changed();
        assert_ne!(from_file, effect, "{}: nothing would show which one wins", row.key);
        std::fs::write(&path, row.file(value)).unwrap();
        let resolve =
            |arguments: &[&str]| crate::cli::overrides(arguments).resolve(Some(path.clone())).unwrap();
        assert_eq!((row.effect)(&resolve(&[])), from_file, "{}", row.key);
        let both = resolve(arguments);
        assert_eq!((row.effect)(&both), effect, "{}", row.key);
        // And the option alone.
        std::fs::write(&path, "[[link]]\nwan = \"wan0\"\n").unwrap();
        let alone = resolve(arguments);
        assert_eq!((row.effect)(&alone), effect, "{}", row.key);
        for other in rows.iter().filter(|other| !row.touches(other)) {
            for config in [&both, &alone] {
                assert_eq!((other.effect)(config), other.default, "{} changes {}", row.key, other.key);
            }
        }
    }
}
