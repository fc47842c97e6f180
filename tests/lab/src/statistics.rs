//! What several readings come to.

/// The middle one of the values, the upper of two; `None` without values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// The smallest value that at least `share` of the values do not exceed; `None` without values.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    let rank = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len().max(1));
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(rank - 1, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_leaves_its_share_below() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(values.clone(), 0.95), Some(95.0));
        assert_eq!((quantile(values.clone(), 0.0), quantile(values, 1.0)), (Some(1.0), Some(100.0)));
        assert_eq!(quantile(Vec::new(), 0.5), None);
    }

    #[test]
    fn a_median_is_one_of_the_values() {
        assert_eq!(median(vec![9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(vec![2.0, 1.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
    }
}
