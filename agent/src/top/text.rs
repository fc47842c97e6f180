//! Figures as people read them, and addresses that are not to be read.

use std::net::{IpAddr, SocketAddr};

/// As everything of the project writes a rate.
pub(super) fn rate(bits_per_second: f64) -> String {
    pendulum_model::rate::in_words(bits_per_second)
}

/// Part of a link that is used; more than all of it is a rate that is known too low.
pub(super) fn used(share: f64) -> String {
    if share <= 1.0 { percent(share) } else { ">100 %".to_owned() }
}

/// Seconds above one, milliseconds below.
pub(super) fn time(seconds: f64) -> String {
    if seconds >= 0.9995 {
        format!("{seconds:.2} s")
    } else if seconds >= 0.01 {
        format!("{:.0} ms", seconds * 1e3)
    } else {
        format!("{:.1} ms", seconds * 1e3)
    }
}

/// How long something has lasted.
pub(super) fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Four digits at most, decimal units.
pub(super) fn bytes(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            let digits = usize::from(unit != "B" && value < 99.95);
            return format!("{value:.digits$} {unit}");
        }
        value /= 1e3;
    }
    format!("{value:.1} TB")
}

/// A share of one as whole per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What fills a buffer, by its name in the API.
pub(super) fn kind(name: &str) -> String {
    match name {
        "tcp_data" => "TCP data".to_owned(),
        "ack" => "TCP ACKs".to_owned(),
        "udp" => "UDP".to_owned(),
        "other" => "neither TCP nor UDP".to_owned(),
        other => other.replace('_', " "),
    }
}

/// An address, with or without a port, with only the network left: enough to tell hosts of different networks apart, not whose it is.
pub(super) fn redacted(end: &str) -> String {
    match end.parse::<SocketAddr>().map(|end| end.ip()).or_else(|_| end.parse()) {
        Ok(IpAddr::V4(address)) => {
            let [a, b, ..] = address.octets();
            format!("{a}.{b}.x.x")
        }
        Ok(IpAddr::V6(address)) => {
            let [a, b, ..] = address.segments();
            format!("{a:x}:{b:x}:x")
        }
        Err(_) => "x".to_owned(),
    }
}

/// Words in lines of at most `width` columns; a longer word is a line of its own, cut.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word: String = word.chars().take(width).collect();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit_the_size() {
        assert_eq!(
            [rate(2_293_000.0), rate(193_400.0), rate(1e9)],
            ["2.29 Mbit/s", "193 kbit/s", "1.00 Gbit/s"]
        );
        assert_eq!([used(0.314), used(1.0), used(1.2)], ["31 %", "100 %", ">100 %"]);
        assert_eq!([time(1.207), time(0.0984), time(0.000_35)], ["1.21 s", "98 ms", "0.3 ms"]);
        assert_eq!([bytes(52_128.0), bytes(2896.0), bytes(0.0)], ["52.1 kB", "2.9 kB", "0 B"]);
        assert_eq!([bytes(999.7), bytes(123_456.0), bytes(5e13)], ["1.0 kB", "123 kB", "50.0 TB"]);
        assert_eq!([span(34.9), span(600.0), span(90_000.0), span(1e6)], ["34 s", "10 min", "25 h", "11 d"]);
    }

    #[test]
    fn a_redacted_end_keeps_its_network_only() {
        assert_eq!(redacted("192.168.7.9:51234"), "192.168.x.x");
        assert_eq!(redacted("[2001:db8:1:2::9]:443"), "2001:db8:x");
        assert_eq!([redacted("10.1.7.9"), redacted("fd00::9")], ["10.1.x.x", "fd00:0:x"]);
        assert_eq!(redacted("somebody"), "x");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("ab cd", 4), ["ab", "cd"], "the blank takes a column");
        assert_eq!(wrap("incomprehensible", 5), ["incom"]);
        assert!(wrap("", 5).is_empty());
    }
}
