//! What is wrong with a configuration, and where: file, line, key, reason, remedy.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::exit::{Classified, Exit};

/// Why a configuration is refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot read the configuration: {source}; name an existing, readable file", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file says something that is not allowed.
    #[error("{}:{place}: {reason}; {remedy}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// Line and key.
        place: FilePosition,
        /// What is wrong.
        reason: String,
        /// What to write instead.
        remedy: String,
    },
    /// The command line contradicts the file or itself.
    #[error("{reason}; {remedy}")]
    Options {
        /// What is wrong.
        reason: String,
        /// What to do instead.
        remedy: String,
    },
}

impl Classified for ConfigError {
    fn exit(&self) -> Exit {
        match self {
            Self::Unreadable { .. } => Exit::NoInput,
            Self::Invalid { .. } => Exit::Config,
            Self::Options { .. } => Exit::Usage,
        }
    }
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// Line, from 1.
    pub line: usize,
    /// Dotted path of the key, empty if the place belongs to none.
    pub key: String,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.line)?;
        if !self.key.is_empty() {
            write!(formatter, ": {}", self.key)?;
        }
        Ok(())
    }
}

/// A text and its name, to make errors about it.
pub(super) struct SourceText<'a> {
    pub(super) text: &'a str,
    pub(super) path: &'a Path,
}

impl SourceText<'_> {
    /// An error about the bytes in `span`.
    pub(super) fn invalid(
        &self,
        span: Range<usize>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ConfigError {
        ConfigError::Invalid {
            file: self.path.to_owned(),
            place: FilePosition { line: self.line(span.start), key: key_at(self.text, span.start) },
            reason: reason.into(),
            remedy: remedy.into(),
        }
    }

    /// The error of the TOML reader in our words. Its message for an unknown key lists the known ones.
    pub(super) fn toml_error(&self, error: &toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or(0..0);
        let message = error.message().trim().replace('\n', ", ");
        let reason = match message.split_once(", expected ") {
            Some((problem, _)) if problem.starts_with("unknown field") => {
                problem.replace("unknown field", "unknown key")
            }
            _ => message.replace("missing field", "missing key"),
        };
        let removed = super::shape::removed(&key_at(self.text, span.start));
        let remedy = removed.filter(|_| reason.starts_with("unknown key"));
        self.invalid(span, reason, remedy.map_or_else(|| remedy_for(&message), str::to_owned))
    }

    /// Where the value of a key stands; the start of the text if it does not.
    pub(super) fn span_of(&self, path: &[&str]) -> Range<usize> {
        let Ok(table) = DeTable::parse(self.text) else { return 0..0 };
        let mut value = None;
        let mut table = Some(table.get_ref());
        for key in path {
            value = table.and_then(|table| table.get(*key));
            table = value.and_then(|value| value.get_ref().as_table());
        }
        value.map_or(0..0, Spanned::span)
    }

    fn line(&self, offset: usize) -> usize {
        self.text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
    }

    /// Characters from the line's beginning, from 1.
    pub(super) fn column(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or_default();
        before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1
    }
}

fn remedy_for(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.as_slice() {
        [unknown, known @ ..] if message.starts_with("unknown field") && !known.is_empty() => {
            match closest(unknown, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known here: {}", known.join(", ")),
            }
        }
        [missing] if message.starts_with("missing field") => format!("add `{missing} = …`"),
        // The parsers of rates and durations, and serde's lists of variants, say what to write themselves.
        _ if message.contains("write ") || message.contains("expected ") => "correct this line".to_owned(),
        _ => "deploy/pendulum.toml shows every key with its unit and range".to_owned(),
    }
}

/// The candidate most like `name`, if one is alike enough to be a slip of the keyboard.
pub(crate) fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::normalized_damerau_levenshtein(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// The dotted path of the innermost key whose name or value covers `offset`.
fn key_at(text: &str, offset: usize) -> String {
    let Ok(table) = DeTable::parse(text) else { return String::new() };
    let mut best = Best { length: usize::MAX, path: String::new() };
    search_table(table.get_ref(), offset, "", &mut best);
    best.path
}

struct Best {
    length: usize,
    path: String,
}

impl Best {
    fn offer(&mut self, span: &Range<usize>, offset: usize, path: &str) {
        if span.contains(&offset) && span.len() <= self.length {
            self.length = span.len();
            path.clone_into(&mut self.path);
        }
    }
}

fn search_table(table: &DeTable<'_>, offset: usize, path: &str, best: &mut Best) {
    for (key, value) in table {
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{}", key.get_ref());
        best.offer(&key.span(), offset, &path);
        search_value(value, offset, &path, best);
    }
}

fn search_value(value: &Spanned<DeValue<'_>>, offset: usize, path: &str, best: &mut Best) {
    best.offer(&value.span(), offset, path);
    match value.get_ref() {
        DeValue::Table(table) => search_table(table, offset, path, best),
        DeValue::Array(array) => {
            for (index, element) in array.iter().enumerate() {
                search_value(element, offset, &format!("{path}[{index}]"), best);
            }
        }
        _ => {}
    }
}
