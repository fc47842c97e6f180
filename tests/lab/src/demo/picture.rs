//! Bars and lines of levels.

use super::style::Glyphs;

/// A share of one as a bar of `width` columns: its filled part and the rest.
pub(super) fn bar(share: f64, width: usize, glyphs: &Glyphs) -> (String, String) {
    let steps = glyphs.bar.len();
    // Whatever there is shows; NaN is nothing.
    let filled = (share.clamp(0.0, 1.0) * (width * steps) as f64).ceil() as usize;
    let mut text: String = std::iter::repeat_n(full(glyphs.bar), filled / steps).collect();
    if !filled.is_multiple_of(steps) {
        text.extend(glyphs.bar.get(filled % steps - 1));
    }
    let rest = width.saturating_sub(text.chars().count());
    (text, std::iter::repeat_n(glyphs.rest, rest).collect())
}

fn full(steps: &[char]) -> char {
    steps.last().copied().unwrap_or(' ')
}

/// Values of a run so far (share of the run's time at which each was taken, and share of one) as a line of levels
/// `width` columns wide, as far as the run has come. A column shows the mean of its values.
pub(super) fn levels(values: &[(f64, f64)], width: usize, glyphs: &Glyphs) -> String {
    let column = |at: f64| ((at * width as f64) as usize).min(width.saturating_sub(1));
    let Some((last, _)) = values.last() else { return String::new() };
    let mut text = String::new();
    let mut mean = 0.0;
    for index in 0..=column(*last) {
        let within: Vec<f64> =
            values.iter().filter(|(at, _)| column(*at) == index).map(|(_, value)| *value).collect();
        // Where columns are finer than readings, the value before goes on.
        if !within.is_empty() {
            mean = within.iter().sum::<f64>() / within.len() as f64;
        }
        let top = glyphs.level.len() - 1;
        text.extend(glyphs.level.get((mean.clamp(0.0, 1.0) * top as f64).round() as usize));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_grows_by_eighths_and_is_always_as_wide() {
        let drawn = |share| {
            let (filled, rest) = bar(share, 4, &Glyphs::UNICODE);
            format!("{filled}{rest}")
        };
        assert_eq!(drawn(0.0), "░░░░");
        assert_eq!(drawn(0.001), "▏░░░");
        assert_eq!(drawn(0.5), "██░░");
        assert_eq!(drawn(0.6), "██▌░");
        assert_eq!([drawn(1.0), drawn(7.0)], ["████", "████"]);
        assert_eq!([drawn(f64::NAN), drawn(-1.0)], ["░░░░", "░░░░"]);
        assert_eq!(bar(0.6, 4, &Glyphs::ASCII), ("###".into(), ".".into()));
    }

    #[test]
    fn levels_come_as_far_as_the_run() {
        let values = [(0.0, 1.0), (0.1, 1.0), (0.3, 0.0), (0.55, 0.5)];
        assert_eq!(levels(&values, 4, &Glyphs::UNICODE), "█▁▅");
        // Finer columns than readings.
        assert_eq!(levels(&values, 20, &Glyphs::UNICODE), "██████▁▁▁▁▁▅");
        assert_eq!(levels(&[], 4, &Glyphs::UNICODE), "");
        assert_eq!(levels(&[(1.0, 1.0)], 4, &Glyphs::UNICODE).chars().count(), 4);
    }
}
