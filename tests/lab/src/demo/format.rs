//! Figures as people read them.

/// Megabits above one, kilobits below.
pub(super) fn rate(bits_per_second: f64) -> String {
    if bits_per_second >= 1e6 {
        format!("{:.2} Mb/s", bits_per_second / 1e6)
    } else {
        format!("{:.0} kb/s", bits_per_second / 1e3)
    }
}

/// Seconds above one, milliseconds below.
pub(super) fn time(seconds: f64) -> String {
    if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else if seconds >= 0.01 {
        format!("{:.0} ms", seconds * 1e3)
    } else {
        format!("{:.1} ms", seconds * 1e3)
    }
}

/// Kilobytes above ten thousand bytes, bytes below.
pub(super) fn bytes(bytes: f64) -> String {
    if bytes >= 10_000.0 { format!("{:.1} kB", bytes / 1e3) } else { format!("{} B", grouped(bytes as u64)) }
}

/// With a comma between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share of one as whole per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit_the_size() {
        assert_eq!([rate(2_293_000.0), rate(193_400.0), rate(0.0)], ["2.29 Mb/s", "193 kb/s", "0 kb/s"]);
        assert_eq!([time(1.207), time(0.0984), time(0.000_35)], ["1.21 s", "98 ms", "0.3 ms"]);
        assert_eq!([bytes(52_128.0), bytes(2896.0), bytes(0.0)], ["52.1 kB", "2,896 B", "0 B"]);
        assert_eq!([grouped(7), grouped(29_954), grouped(1_234_567)], ["7", "29,954", "1,234,567"]);
        assert_eq!(percent(0.876), "88 %");
    }
}
