//! docs/reference/config.md: the shipped file's keys and comments as tables, with what the table of keys knows of each.

use std::fmt::Write as _;

use super::rows::{self, AtReload, KeyRow};

/// Keys that share a comment, with their values as shipped.
#[derive(Default)]
struct Group<'a> {
    comment: Vec<&'a str>,
    keys: Vec<(String, String)>,
}

/// A key, and its value as shipped. A key without a default is commented out; its value is an example.
fn key_of(table: &str, line: &str) -> Option<(String, String)> {
    let shown = line.trim_start_matches("# ");
    let (key, value) = shown.split_once(" = ")?;
    let name = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
    let is_key = rows::all().iter().any(|row| row.key == name);
    let example = if shown == line { "" } else { "e.g. " };
    is_key.then(|| (name, format!("{example}`{value}`")))
}

/// The tables of the shipped file in their order, each with its groups. The first is the file's own.
fn tables() -> Vec<(&'static str, Vec<Group<'static>>)> {
    let mut tables = vec![("", vec![Group::default()])];
    for line in super::SHIPPED.lines() {
        let (table, groups) = tables.last_mut().unwrap();
        let group = groups.last_mut().unwrap();
        if line.is_empty() {
            groups.push(Group::default());
        } else if line.starts_with('[') {
            // What stands before the first key of a table is about the table.
            tables.push((line.trim_matches(['[', ']']), vec![Group::default()]));
        } else if let Some(key) = key_of(table, line) {
            group.keys.push(key);
        } else {
            group.comment.push(line.trim_start_matches('#').trim());
        }
    }
    tables
}

fn applies(row: &KeyRow) -> &'static str {
    match row.reload {
        AtReload::Live(_) | AtReload::NewLink => "at SIGHUP",
        AtReload::Waits(_) | AtReload::OtherLink => "after a restart",
        AtReload::Never => "",
    }
}

#[test]
fn the_reference_has_every_key() {
    let rows = rows::all();
    let mut page = String::from(
        "# Configuration\n\nEvery key of `/etc/pendulum/pendulum.toml`. `./dev generate` writes this page from [deploy/pendulum.toml](../../deploy/pendulum.toml), which has \
         the same text as comments,\nand from the code's table of keys. Check a changed file with `pendulum check-config FILE`; SIGHUP (`systemctl reload pendulum`) reads it again. A file \
         with a mistake changes nothing.\n\nAn option of `pendulum run` replaces the key. Values are defaults. Those after \"e.g.\" and, in `[[link]]`, of `wan`, `name`, `lan` and the rates are examples.\n",
    );
    let mut seen = 0;
    for (table, groups) in tables() {
        let heading = match table {
            "" => "Top level".to_owned(),
            "link" => "`[[link]]`".to_owned(),
            table => format!("`[{table}]`"),
        };
        write!(
            page,
            "\n## {heading}\n\n| key | value | option | a change applies | meaning |\n|---|---|---|---|---|\n"
        )
        .unwrap();
        for group in groups.iter().filter(|group| !group.keys.is_empty()) {
            let meaning = group.comment.join(" ").replace(" All [live]", "").replace(" [live]", "");
            let meaning = meaning.trim().replace('|', "\\|");
            for (index, (key, value)) in group.keys.iter().enumerate() {
                let row = rows.iter().find(|row| row.key == key).unwrap();
                let option = row.option.map_or(String::new(), |(arguments, _)| format!("`{}`", arguments[0]));
                let meaning = if index == 0 { meaning.as_str() } else { "as above" };
                let cells = [format!("`{}`", row.name()), value.clone(), option, applies(row).to_owned()];
                writeln!(page, "| {} | {meaning} |", cells.join(" | ")).unwrap();
                seen += 1;
            }
        }
    }
    assert_eq!(seen, rows.len(), "the shipped file does not show every key once");
    crate::generated::hold("docs/reference/config.md", &page);
}
