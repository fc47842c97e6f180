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

    /// Counters and the parts of histograms, which may only grow. Those of a BPF program count "since it was loaded": they
    /// begin anew with each load.
    fn counters(&self) -> impl Iterator<Item = (&String, &f64)> {
        let family = |sample: &str| sample.split('{').next().unwrap_or_default().to_owned();
        self.0.iter().filter(move |(sample, _)| {
            !sample.starts_with("pendulum_bpf_program_run")
                && ["_total", "_count", "_sum", "_bucket"].iter().any(|end| family(sample).ends_with(end))
        })
    }

    /// Takes in newer samples. Fails if a counter is smaller than it was when it was last there: what is not known for a
    /// while (the queue of a device that is gone) may be absent.
    pub(crate) fn update(&mut self, newer: Self) {
        for (sample, now) in newer.counters() {
            let before = self.0.get(sample).unwrap_or(now);
            assert!(now >= before, "{sample} went back from {before} to {now}");
        }
        self.0.extend(newer.0);
    }
}
