//! Fewer points that look the same: what falls into one column of the picture is as high as its highest and as low as its lowest.

/// The points of a line in columns of equal width: of each column the first, lowest, highest and last, in their order.
pub(super) fn thinned(points: &[(f64, f64)], (low, high): (f64, f64), columns: usize) -> Vec<(f64, f64)> {
    if points.len() <= 4 * columns || high <= low {
        return points.to_vec();
    }
    let column = |x: f64| ((x - low) / (high - low) * columns as f64) as usize;
    let mut thin = Vec::new();
    for group in points.chunk_by(|a, b| column(a.0) == column(b.0)) {
        let by_height = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
        let heights = || group.iter().map(|point| point.1).enumerate();
        let mut kept = vec![0, group.len() - 1];
        kept.extend(heights().min_by(by_height).map(|(index, _)| index));
        kept.extend(heights().max_by(by_height).map(|(index, _)| index));
        kept.sort_unstable();
        kept.dedup();
        thin.extend(kept.into_iter().map(|index| group[index]));
    }
    without_repetition(thin)
}

/// Of points on one level the first and the last.
fn without_repetition(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if let [.., before, last] = kept.as_mut_slice()
            && before.1 == point.1
            && last.1 == point.1
        {
            *last = point;
        } else {
            kept.push(point);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_survive() {
        let points: Vec<(f64, f64)> =
            (0..10_000).map(|i| (f64::from(i), if i == 5_003 { 9.0 } else { f64::from(i % 2) })).collect();
        let thin = thinned(&points, (0.0, 10_000.0), 100);
        assert!(thin.len() <= 404, "{}", thin.len());
        assert!(thin.contains(&(5_003.0, 9.0)));
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn a_level_line_has_two_ends() {
        let points: Vec<(f64, f64)> = (0..1000).map(|i| (f64::from(i), 7.0)).collect();
        assert_eq!(thinned(&points, (0.0, 1000.0), 100), [(0.0, 7.0), (999.0, 7.0)]);
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points = [(0.0, 1.0), (1.0, 2.0)];
        assert_eq!(thinned(&points, (0.0, 1.0), 10), points);
    }
}
