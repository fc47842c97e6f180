//! Rates as people write them, and as they were understood.

use pendulum_model::rate::Rate;
use toml::de::{DeTable, DeValue};

const KEYS: [&str; 2] = ["uplink-rate", "downlink-rate"];

/// A rate in bits per second with the largest unit that leaves a number above one: `16 Mbit/s`.
pub(crate) fn in_words(rate: Rate) -> String {
    let bits = rate.bits_per_second() as f64;
    let units = [(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
    match units.iter().find(|(factor, _)| bits >= *factor) {
        // Three decimals tell every rate in use apart.
        Some((factor, unit)) => format!("{} {unit}", (bits / factor * 1e3).round() / 1e3),
        None => format!("{bits} bit/s"),
    }
}

/// The rates in a file that is valid whose notation means something else than it does to many: a sentence for each.
pub(crate) fn doubts(text: &str) -> Vec<String> {
    let Ok(file) = DeTable::parse(text) else { return Vec::new() };
    let links = file.get_ref().get("link").and_then(|links| links.get_ref().as_array());
    let tables = links.into_iter().flatten().filter_map(|link| link.get_ref().as_table());
    tables
        .flat_map(|link| KEYS.map(|key| (key, link.get(key).map(|value| value.get_ref()))))
        .filter_map(|(key, value)| match value {
            Some(DeValue::String(written)) => doubt(key, written),
            _ => None,
        })
        .collect()
}

fn doubt(key: &str, written: &str) -> Option<String> {
    let rate: Rate = written.parse().ok()?;
    let understood = in_words(rate);
    let unit = written.trim().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start();
    let lower = unit.to_ascii_lowercase();
    if let Some(prefix) = lower.strip_suffix("bps") {
        let number = written.trim().trim_end_matches(unit).trim_end();
        return Some(format!(
            "{key} = \"{written}\" is {understood}: bps counts bytes, as in tc; if bits are meant, write \"{number}{prefix}bit\""
        ));
    }
    lower.is_empty().then(|| {
        format!("{key} = \"{written}\" is {understood}: without a unit bits per second are counted; write the unit (kbit, mbit)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_said_in_bits() {
        for (text, words) in [
            ("2 Mbps", "16 Mbit/s"),
            ("2000", "2 kbit/s"),
            ("196kbit", "196 kbit/s"),
            ("2.4mbit", "2.4 Mbit/s"),
            ("999bit", "999 bit/s"),
            ("1tbit", "1 Tbit/s"),
        ] {
            assert_eq!(in_words(text.parse().unwrap()), words);
        }
    }

    #[test]
    fn what_counts_bytes_or_has_no_unit_is_named() {
        let file = "[[link]]\nwan = \"a\"\nuplink-rate = \"2 Mbps\"\ndownlink-rate = \"50mbit\"\n\
                    [[link]]\nwan = \"b\"\ndownlink-rate = \"2000\"\n";
        let found = doubts(file);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("uplink-rate = \"2 Mbps\" is 16 Mbit/s") && found[0].ends_with("\"2mbit\""),
            "{}",
            found[0]
        );
        assert!(found[1].starts_with("downlink-rate = \"2000\" is 2 kbit/s"), "{}", found[1]);
        assert_eq!(doubts("[[link]]\nwan = \"a\"\n"), [] as [String; 0]);
    }
}
