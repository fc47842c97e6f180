//! One metric family: its name as users see it, its help, its type; and the writer of its samples.

use std::fmt::Result;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Unit;

use super::histogram::{NativeBuckets, TimeSlots, classic_buckets};

/// A metric family.
pub(super) struct Family {
    /// The full name, as it appears in queries.
    name: &'static str,
    help: &'static str,
    unit: Option<&'static str>,
    kind: MetricType,
}

impl Family {
    /// A counter; its name ends in `_total`, and in the unit before that if it has one.
    pub(super) const fn counter(name: &'static str, unit: Option<&'static str>, help: &'static str) -> Self {
        Self { name, help, unit, kind: MetricType::Counter }
    }

    /// A gauge; its name ends in its unit, if it has one.
    pub(super) const fn gauge(name: &'static str, unit: Option<&'static str>, help: &'static str) -> Self {
        Self { name, help, unit, kind: MetricType::Gauge }
    }

    /// A histogram; its name ends in its unit.
    pub(super) const fn histogram(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, help, unit: Some(unit), kind: MetricType::Histogram }
    }

    /// Writes the family's head, then its samples.
    pub(super) fn write(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        samples: impl FnOnce(&mut Samples<'_>) -> Result,
    ) -> Result {
        // The encoder adds unit and `_total` itself.
        let mut base = self.name.strip_suffix("_total").unwrap_or(self.name);
        if let Some(unit) = self.unit {
            base = base.strip_suffix(unit).and_then(|rest| rest.strip_suffix('_')).unwrap_or(base);
        }
        let unit = self.unit.map(|unit| Unit::Other(unit.to_owned()));
        let kind = match self.kind {
            MetricType::Counter => MetricType::Counter,
            MetricType::Histogram => MetricType::Histogram,
            _ => MetricType::Gauge,
        };
        samples(&mut Samples { encoder: encoder.encode_descriptor(base, self.help, unit.as_ref(), kind)? })
    }
}

/// Labels of one sample.
type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

/// Writes samples of one family.
pub(super) struct Samples<'a> {
    encoder: MetricEncoder<'a>,
}

impl Samples<'_> {
    pub(super) fn counter<const N: usize>(
        &mut self,
        labels: Labels<'_, N>,
        value: impl EncodeCounterValue,
    ) -> Result {
        let exemplar = None::<&Exemplar<NoLabelSet, f64>>;
        if N == 0 {
            return self.encoder.encode_counter(&value, exemplar);
        }
        self.encoder.encode_family(&labels)?.encode_counter(&value, exemplar)
    }

    pub(super) fn gauge<const N: usize>(
        &mut self,
        labels: Labels<'_, N>,
        value: impl EncodeGaugeValue,
    ) -> Result {
        if N == 0 {
            return self.encoder.encode_gauge(&value);
        }
        self.encoder.encode_family(&labels)?.encode_gauge(&value)
    }

    /// Times by slot, and their sum in microseconds.
    pub(super) fn times<const N: usize>(
        &mut self,
        labels: Labels<'_, N>,
        sum_us: u64,
        slots: &TimeSlots,
    ) -> Result {
        let (native, classic) = (NativeBuckets::new(slots), classic_buckets(slots));
        let mut encoder = self.encoder.encode_family(&labels)?;
        let (sum_s, count) = (sum_us as f64 / 1e6, slots.iter().sum());
        encoder.encode_histogram_with_native::<NoLabelSet>(sum_s, count, &classic, None, native.message())
    }

    /// `buckets` are (upper bound, samples in this bucket alone); the last bound is infinity.
    pub(super) fn histogram<const N: usize>(
        &mut self,
        labels: Labels<'_, N>,
        sum: f64,
        buckets: &[(f64, u64)],
    ) -> Result {
        let count = buckets.iter().map(|(_, count)| count).sum();
        self.encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
    }
}
