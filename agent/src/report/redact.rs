//! Replaces addresses and names of hosts by numbers, the same address by the same number everywhere.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::{Map, Value};

/// The numbers given so far.
#[derive(Debug, Default)]
pub(super) struct Redaction {
    known: HashMap<String, String>,
    counts: HashMap<&'static str, usize>,
}

impl Redaction {
    /// Replaces addresses in all strings and keys, and each string below a key of `names`.
    pub(super) fn apply(&mut self, value: &mut Value, names: &[&str]) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.apply(value, names)),
            Value::Object(fields) => {
                let renamed = std::mem::take(fields).into_iter().map(|(key, mut value)| {
                    if names.contains(&key.as_str()) {
                        self.hide(&mut value)
                    } else {
                        self.apply(&mut value, names)
                    }
                    (self.text(&key), value)
                });
                *fields = renamed.collect::<Map<_, _>>();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Replaces each string whole.
    fn hide(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if text.parse::<IpAddr>().is_ok() => *text = self.text(text),
            Value::String(text) => *text = self.number("host", text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.hide(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.hide(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn number(&mut self, kind: &'static str, text: &str) -> String {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let new = format!("{kind}-{count}");
        self.known.insert(text.to_owned(), new.clone());
        new
    }

    /// The text with each address replaced. Words are cut where no character of an address is.
    fn text(&mut self, text: &str) -> String {
        let is_part = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let word = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            out += &self.word(&rest[..word]);
            let gap = rest[word..].find(is_part).map_or(rest.len(), |gap| word + gap);
            out += &rest[word..gap];
            rest = &rest[gap..];
        }
        out
    }

    /// An address, alone, with a port, or at the end of a sentence.
    fn word(&mut self, word: &str) -> String {
        let end = word.trim_end_matches(['.', ':']).len();
        let port = word[..end].rfind(':').unwrap_or(end);
        for length in [word.len(), end, port] {
            let (host, rest) = word.split_at(length);
            let kind = match host.parse::<IpAddr>() {
                Ok(address) if address.is_loopback() || address.is_unspecified() => return word.to_owned(),
                Ok(_) => "ip",
                Err(_) if is_hardware(host) => "mac",
                Err(_) => continue,
            };
            return self.number(kind, host) + rest;
        }
        word.to_owned()
    }
}

fn is_hardware(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    parts.len() == 6
        && parts.iter().all(|part| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_same_address_has_the_same_number_everywhere() {
        let mut report = json!({
            "a": "192.0.2.7:443 and 2001:db8::1, again 192.0.2.7.",
            "b": ["[2001:db8::1]:80", "00:00:5e:00:53:af", "2001:db8::/32", "2001:db8::"],
            "192.0.2.7": 1,
            "names": ["router.example"],
            "row": {"home_host": "laptop", "other": "laptop"},
            "segment": {"host": "192.0.2.7"},
        });
        Redaction::default().apply(&mut report, &["names", "home_host", "host"]);
        let text = report.to_string();
        for secret in ["192.0.2", "2001:db8", "5e:00:53", "router", "\"home_host\":\"laptop\""] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert_eq!(report["row"]["other"], "laptop");
        let first = report["a"].as_str().unwrap();
        let number = first.split(':').next().unwrap();
        assert!(
            first.ends_with(&format!("again {number}.")) && first.starts_with(&format!("{number}:443 ")),
            "{first}"
        );
        assert_eq!((&report[number], &report["segment"]["host"]), (&json!(1), &json!(number)));
    }

    #[test]
    fn what_is_no_address_stays() {
        for text in [
            "127.0.0.1:9924",
            "::1",
            "[::]:9924",
            "6.18.0-2",
            "12:30:45.5",
            "a.b",
            "swinging: 0.5 s",
            "",
            "é:ü",
            "::",
        ] {
            let mut value = Value::from(text);
            Redaction::default().apply(&mut value, &[]);
            assert_eq!(value, text);
        }
    }
}
