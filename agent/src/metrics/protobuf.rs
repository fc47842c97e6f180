//! The protobuf format says what the text says. It is decoded here from its bytes, by the field numbers of Prometheus'
//! `metrics.proto`, without the crate that wrote it.

use std::collections::BTreeMap;

use super::*;
use crate::config::Config;
use crate::snapshot::example;

/// A field's content.
#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Varint(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            other => panic!("{other:?} is no message"),
        }
    }

    fn text(self) -> &'a str {
        std::str::from_utf8(self.bytes()).unwrap()
    }

    fn number(self) -> f64 {
        match self {
            Self::Varint(number) => number as f64,
            Self::Double(number) => number,
            Self::Bytes(_) => panic!("{self:?} is no number"),
        }
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

/// The fields of a message, in their order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Varint(varint(&mut bytes)),
            1 => Field::Double(f64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut bytes) as usize;
                Field::Bytes(take(&mut bytes, length))
            }
            kind => panic!("wire type {kind}"),
        };
        found.push((tag >> 3, field));
    }
    found
}

fn all(message: &[u8], number: u64) -> Vec<Field<'_>> {
    fields(message).into_iter().filter(|(found, _)| *found == number).map(|(_, field)| field).collect()
}

fn one(message: &[u8], number: u64) -> Option<Field<'_>> {
    all(message, number).pop()
}

/// Values by series, as the text names them; labels sorted, since `le` stands first in one format and nowhere in the other.
type SeriesValues = BTreeMap<String, f64>;

fn key(name: &str, mut labels: Vec<(String, String)>) -> String {
    labels.sort_unstable();
    format!("{name}{labels:?}")
}

fn insert(series: &mut SeriesValues, key: String, value: f64) {
    assert!(series.insert(key.clone(), value).is_none(), "{key} twice");
}

fn histogram(
    series: &mut SeriesValues,
    name: &str,
    labels: &[(String, String)],
    sum: f64,
    count: f64,
    buckets: Vec<(f64, f64)>,
) {
    insert(series, key(&format!("{name}_sum"), labels.to_vec()), sum);
    insert(series, key(&format!("{name}_count"), labels.to_vec()), count);
    for (bound, count) in buckets {
        let with_bound = [labels, &[("le".to_owned(), bound.to_string())]].concat();
        insert(series, key(&format!("{name}_bucket"), with_bound), count);
    }
}

fn pairs(labels: Vec<Field<'_>>) -> Vec<(String, String)> {
    let text = |pair: Field<'_>, number| one(pair.bytes(), number).map_or("", Field::text).to_owned();
    labels.into_iter().map(|pair| (text(pair, 1), text(pair, 2))).collect()
}

fn number(message: &[u8], field: u64) -> f64 {
    one(message, field).map_or(0.0, Field::number)
}

/// `io.prometheus.client.MetricFamily`: name 1, help 2, type 3, metric 4. Metric: label 1, gauge 2, counter 3, histogram 7.
fn from_prometheus(mut bytes: &[u8]) -> (SeriesValues, usize) {
    let (mut series, mut families) = (SeriesValues::new(), 0);
    while !bytes.is_empty() {
        let length = varint(&mut bytes) as usize;
        let family = take(&mut bytes, length);
        families += 1;
        let name = one(family, 1).unwrap().text();
        assert!(one(family, 2).unwrap().text().ends_with('.'), "{name} has no help");
        // COUNTER is 0, which is not sent.
        let kind = number(family, 3);
        for metric in all(family, 4) {
            let metric = metric.bytes();
            let labels = pairs(all(metric, 1));
            match kind {
                0.0 => insert(&mut series, key(name, labels), number(one(metric, 3).unwrap().bytes(), 1)),
                1.0 => insert(&mut series, key(name, labels), number(one(metric, 2).unwrap().bytes(), 1)),
                4.0 => {
                    let message = one(metric, 7).unwrap().bytes();
                    let bucket = |bucket: Field<'_>| (number(bucket.bytes(), 2), number(bucket.bytes(), 1));
                    let buckets = all(message, 3).into_iter().map(bucket).collect();
                    histogram(&mut series, name, &labels, number(message, 2), number(message, 1), buckets);
                }
                other => panic!("{name} is of type {other}"),
            }
        }
    }
    (series, families)
}

fn from_text(text: &str) -> SeriesValues {
    let mut series = SeriesValues::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (head, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = head.split_once('{').unwrap_or((head, "}"));
        let labels =
            labels.strip_suffix('}').unwrap().split("\",").filter_map(|label| label.split_once("=\""));
        let labels = labels.map(|(label, value)| {
            let value = value.trim_end_matches('"');
            // 1.0 and 1 are the same bound.
            let value = if label == "le" {
                value.replace("+Inf", "inf").parse::<f64>().unwrap().to_string()
            } else {
                value.to_owned()
            };
            (label.to_owned(), value)
        });
        insert(&mut series, key(name, labels.collect()), value.parse().unwrap());
    }
    series
}

/// Figures of the process itself and ages change between two expositions.
fn steady(mut series: SeriesValues) -> SeriesValues {
    series.retain(|key, _| !key.starts_with("process_") && !key.contains("_reading_age_"));
    series
}

#[test]
fn protobuf_says_what_the_text_says() {
    let board = example::board(vec![example::link("dsl"), example::link("lte")]);
    let exposition = Exposition::new(&board, Active::start(Config::default()).1, true);
    let text = String::from_utf8(exposition.encode(ExpositionFormat::Text).unwrap()).unwrap();
    let expected = steady(from_text(&text));
    assert!(expected.len() > 300, "{} series", expected.len());
    let (prometheus, families) = from_prometheus(&exposition.encode(ExpositionFormat::Protobuf).unwrap());
    assert_eq!(families, text.lines().filter(|line| line.starts_with("# TYPE ")).count());
    assert_eq!(steady(prometheus), expected);
}
