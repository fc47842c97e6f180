//! What `/metrics` says.

use std::collections::BTreeMap;

/// Every sample by its name and labels, as they stand in the text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(BTreeMap<String, f64>);

impl Samples {
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Self(samples.collect())
    }

    /// The value of `name{labels}`.
    pub(crate) fn get(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("/metrics has no {name}"))
    }

    /// Counters and the parts of histograms, which may only grow.
    fn counters(&self) -> impl Iterator<Item = (&String, &f64)> {
        let family = |sample: &str| sample.split('{').next().unwrap_or_default().to_owned();
        self.0.iter().filter(move |(sample, _)| {
            ["_total", "_count", "_sum", "_bucket"].iter().any(|end| family(sample).ends_with(end))
        })
    }

    /// Fails if a counter of `earlier` is gone or smaller here.
    pub(crate) fn assert_grown_from(&self, earlier: &Self) {
        for (sample, before) in earlier.counters() {
            let now = self.get(sample);
            assert!(now >= *before, "{sample} went back from {before} to {now}");
        }
    }
}
