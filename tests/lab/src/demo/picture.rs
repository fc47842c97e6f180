//! Lines of levels.

use super::style::Glyphs;

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
    fn levels_come_as_far_as_the_run() {
        let values = [(0.0, 1.0), (0.1, 1.0), (0.3, 0.0), (0.55, 0.5)];
        assert_eq!(levels(&values, 4, &Glyphs::UNICODE), "█▁▅");
        // Finer columns than readings.
        assert_eq!(levels(&values, 20, &Glyphs::UNICODE), "██████▁▁▁▁▁▅");
        assert_eq!(levels(&[], 4, &Glyphs::UNICODE), "");
        assert_eq!(levels(&[(1.0, 1.0)], 4, &Glyphs::UNICODE).chars().count(), 4);
    }
}
