//! The figures that a case compares: what the paper says, what the models predict, what was measured.

use serde::Serialize;
use serde_json::{Map, Value};

/// Throughputs of the link and their ratio; what is not known is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Payload delivered to the home, bit/s.
    pub download_bps: Option<f64>,
    /// Payload delivered to the internet, bit/s.
    pub upload_bps: Option<f64>,
    /// `r`: download over upload.
    pub ratio: Option<f64>,
}

impl Figures {
    /// Both throughputs, and their ratio if anything was uploaded.
    pub fn new(download_bps: f64, upload_bps: f64) -> Self {
        let ratio = (upload_bps > 0.0).then(|| download_bps / upload_bps);
        Self { download_bps: Some(download_bps), upload_bps: Some(upload_bps), ratio }
    }

    /// A ratio without its throughputs.
    pub fn of_ratio(ratio: f64) -> Self {
        Self { ratio: Some(ratio), ..Self::default() }
    }
}

/// What the paper reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Claim {
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// What else it says, such as `says`: a sentence, for where it shows a plot without figures.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Claim {
    /// What a plot shows, in words.
    pub fn says(sentence: &str) -> Self {
        Self::default().and("says", sentence)
    }

    /// With one more statement.
    #[must_use]
    pub fn and(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }
}

impl From<Figures> for Claim {
    fn from(figures: Figures) -> Self {
        Self { figures, more: Map::new() }
    }
}

/// What the models say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Predicted {
    /// Paper 000, Eq. 6–11.
    #[serde(flatten)]
    pub paper: Figures,
    /// The refined model (`docs/design/detector.md`).
    pub refined: Figures,
}

/// What was measured: the mean over all repetitions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measured {
    /// Goodput, as the senders know it from ACKs and SACKs.
    #[serde(flatten)]
    pub figures: Figures,
    /// Over several repetitions: how far apart they lie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// What else this experiment measures.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Smallest and largest of several repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// How many.
    pub repetitions: usize,
    /// Of the download.
    pub download_bps: Option<(f64, f64)>,
    /// Of the upload.
    pub upload_bps: Option<(f64, f64)>,
    /// Of the ratio.
    pub ratio: Option<(f64, f64)>,
}

impl Measured {
    /// Mean and spread of several repetitions.
    pub fn over(repetitions: &[Self]) -> Self {
        let figures = |pick: fn(&Figures) -> Option<f64>| {
            repetitions.iter().filter_map(|one| pick(&one.figures)).collect::<Vec<f64>>()
        };
        let (download, upload, ratio) =
            (figures(|f| f.download_bps), figures(|f| f.upload_bps), figures(|f| f.ratio));
        let more = repetitions.iter().flat_map(|one| one.more.keys().cloned()).collect::<Vec<_>>();
        let more = more.into_iter().map(|name| {
            let values: Vec<&Value> = repetitions.iter().filter_map(|one| one.more.get(&name)).collect();
            let numbers: Option<Vec<f64>> = values.iter().map(|value| value.as_f64()).collect();
            let joined = numbers.and_then(|numbers| mean(&numbers)).map(Value::from);
            (name, joined.unwrap_or_else(|| values.first().map_or(Value::Null, |first| (*first).clone())))
        });
        Self {
            figures: Figures {
                download_bps: mean(&download),
                upload_bps: mean(&upload),
                ratio: mean(&ratio),
            },
            spread: (repetitions.len() > 1).then(|| Spread {
                repetitions: repetitions.len(),
                download_bps: bounds(&download),
                upload_bps: bounds(&upload),
                ratio: bounds(&ratio),
            }),
            more: more.collect(),
        }
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn bounds(values: &[f64]) -> Option<(f64, f64)> {
    let smallest = values.iter().copied().reduce(f64::min)?;
    Some((smallest, values.iter().copied().reduce(f64::max)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_needs_an_upload() {
        assert_eq!(Figures::new(10.0, 0.0).ratio, None);
        assert_eq!(Figures::new(10.0, 5.0).ratio, Some(2.0));
    }

    #[test]
    fn repetitions_have_a_mean_and_a_spread() {
        let one = |download, extra: f64| Measured {
            figures: Figures::new(download, 5.0),
            more: Map::from_iter([("score".to_owned(), extra.into())]),
            ..Measured::default()
        };
        let over = Measured::over(&[one(10.0, 1.0), one(30.0, 2.0)]);
        assert_eq!(over.figures.download_bps, Some(20.0));
        assert_eq!(over.figures.ratio, Some(4.0));
        let spread = over.spread.unwrap();
        assert_eq!((spread.repetitions, spread.ratio), (2, Some((2.0, 6.0))));
        assert_eq!(over.more["score"], 1.5);
        assert!(Measured::over(&[one(1.0, 1.0)]).spread.is_none());
    }
}
