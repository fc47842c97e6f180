//! The formats of `/metrics`, and which of them a client gets.
//!
//! Prometheus asks by name for OpenMetrics, or for its own protobuf messages where it is configured to (`scrape_protocols`). Who asks for nothing in
//! particular, such as `curl`, gets the older text format, which also `promtool check metrics` reads: in it a counter's head
//! carries the sample's name with `_total`, and units have no line of their own. OpenMetrics' own protobuf is not served: its authors
//! have given it up, and no client asks for it (github.com/prometheus/OpenMetrics/issues/296).

/// A format of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text 0.0.4.
    Text,
    /// `io.prometheus.client.MetricFamily` messages, each behind its length.
    Protobuf,
}

impl ExpositionFormat {
    /// Those that a client named; at equal quality the first is served.
    const NAMED: [Self; 3] = [Self::OpenMetrics, Self::Text, Self::Protobuf];
    /// For a client that takes anything.
    const ANY: [Self; 3] = [Self::Text, Self::OpenMetrics, Self::Protobuf];

    /// The format for a client that sent this `Accept` header (RFC 9110 §12.5.1). One that takes none of them gets text:
    /// it may be able to read it, and an error it could not.
    pub fn negotiate(accept: Option<&str>) -> Self {
        let ranges: Vec<Range<'_>> =
            accept.into_iter().flat_map(|accept| accept.split(',')).map(Range::parse).collect();
        let mut best = (Self::Text, 0.0);
        for precision in [Precision::Exact, Precision::Kind, Precision::Any] {
            let order = if precision == Precision::Any { Self::ANY } else { Self::NAMED };
            for format in order {
                // The most precise range that matches says how much a format is wanted.
                let found = ranges.iter().filter_map(|range| Some((range.matches(format)?, range.quality)));
                let Some((closest, quality)) = found.max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))
                else {
                    continue;
                };
                if closest == precision && quality > best.1 {
                    best = (format, quality);
                }
            }
        }
        best.0
    }

    /// The value of the `Content-Type` header.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// Kind and subtype of its media type.
    const fn media_type(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenMetrics => ("application", "openmetrics-text"),
            Self::Text => ("text", "plain"),
            Self::Protobuf => ("application", "vnd.google.protobuf"),
        }
    }

    /// Whether what is written agrees with the parameters of a range that names its type.
    fn agrees(self, parameters: &[(&str, &str)]) -> bool {
        let value = |name: &str| {
            parameters.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
        };
        match self {
            // Only the versions whose text we write.
            Self::OpenMetrics => matches!(value("version"), None | Some("0.0.1" | "1.0.0")),
            Self::Text => matches!(value("version"), None | Some("0.0.4")),
            // The type alone says nothing about the message.
            Self::Protobuf => {
                value("proto") == Some("io.prometheus.client.MetricFamily")
                    && value("encoding") == Some("delimited")
            }
        }
    }
}

/// How closely a range names a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Precision {
    /// `*/*`
    Any,
    /// `application/*`
    Kind,
    /// `application/openmetrics-text`
    Exact,
}

/// One entry of an `Accept` header.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    /// RFC 9110 §12.4.2.
    quality: f32,
}

impl<'a> Range<'a> {
    fn parse(entry: &'a str) -> Self {
        let mut parts = entry.split(';').map(str::trim);
        let (kind, subtype) = parts.next().and_then(|name| name.split_once('/')).unwrap_or_default();
        let parameters: Vec<_> = parts
            .filter_map(|parameter| parameter.split_once('='))
            .map(|(name, value)| (name.trim(), value.trim().trim_matches('"')))
            .collect();
        let quality = parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case("q"));
        let quality = quality.map_or(1.0, |(_, value)| value.parse().unwrap_or(0.0));
        Self { kind, subtype, parameters, quality }
    }

    fn matches(&self, format: ExpositionFormat) -> Option<Precision> {
        let (kind, subtype) = format.media_type();
        if (self.kind, self.subtype) == ("*", "*") {
            Some(Precision::Any)
        } else if !self.kind.eq_ignore_ascii_case(kind) {
            None
        } else if self.subtype == "*" {
            Some(Precision::Kind)
        } else {
            (self.subtype.eq_ignore_ascii_case(subtype) && format.agrees(&self.parameters))
                .then_some(Precision::Exact)
        }
    }
}

/// Rewrites what differs: the heads of counters, and the lines for units. `# EOF` stays: it is a comment here, and tells a
/// reader that nothing was cut off.
pub(super) fn openmetrics_to_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 4096);
    let mut help = "";
    for line in open_metrics.lines() {
        if line.starts_with("# HELP ") {
            help = line;
        } else if let Some(head) = line.strip_prefix("# TYPE ") {
            push_head(&mut text, help, head);
        } else if !line.starts_with("# UNIT ") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn push_head(text: &mut String, help: &str, head: &str) {
    let (name, kind) = head.split_once(' ').unwrap_or((head, "untyped"));
    let suffix = if kind == "counter" { "_total" } else { "" };
    let help = help.strip_prefix("# HELP ").and_then(|help| help.strip_prefix(name)).unwrap_or("");
    text.push_str(&format!("# HELP {name}{suffix}{help}\n# TYPE {name}{suffix} {kind}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_they_ask_for() {
        // What the named versions of Prometheus send.
        let v2 = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;\
                  version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let v2_42_native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                            application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,\
                            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let v3_protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                           */*;q=0.5";
        let v3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;\
                  version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,\
                  */*;q=0.2";
        let protobuf =
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        for (accept, expected) in [
            (None, ExpositionFormat::Text),
            (Some("*/*"), ExpositionFormat::Text),
            (Some("text/plain"), ExpositionFormat::Text),
            (Some("text/*"), ExpositionFormat::Text),
            (Some("application/*"), ExpositionFormat::OpenMetrics),
            (Some(v2), ExpositionFormat::OpenMetrics),
            (Some(v2_42_native), ExpositionFormat::Protobuf),
            (Some(v3), ExpositionFormat::OpenMetrics),
            (Some(v3_protobuf), ExpositionFormat::Protobuf),
            (Some("application/openmetrics-text"), ExpositionFormat::OpenMetrics),
            (Some("Application/OpenMetrics-Text; version=1.0.0"), ExpositionFormat::OpenMetrics),
            (Some("application/openmetrics-text;version=9.0.0"), ExpositionFormat::Text),
            (Some("application/openmetrics-text;q=0"), ExpositionFormat::Text),
            (Some("text/plain;version=0.0.4, application/openmetrics-text;q=0.1"), ExpositionFormat::Text),
            (Some("text/plain, application/openmetrics-text"), ExpositionFormat::OpenMetrics),
            (Some("*/*, text/plain;q=0.1"), ExpositionFormat::OpenMetrics),
            (Some(protobuf), ExpositionFormat::Protobuf),
            (
                Some(
                    "application/vnd.google.protobuf; proto=\"io.prometheus.client.MetricFamily\"; encoding=\"delimited\"",
                ),
                ExpositionFormat::Protobuf,
            ),
            (Some(&format!("{protobuf};q=0.3, text/plain;q=0.4")), ExpositionFormat::Text),
            (Some(&format!("{protobuf};q=0, application/*;q=0.4")), ExpositionFormat::OpenMetrics),
            (Some("application/vnd.google.protobuf"), ExpositionFormat::Text),
            (
                Some("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text"),
                ExpositionFormat::Text,
            ),
            (Some("application/openmetrics-protobuf; version=1.0.0"), ExpositionFormat::Text),
            (Some("image/png"), ExpositionFormat::Text),
            (Some(";;,=,q="), ExpositionFormat::Text),
            (Some("*/*;q=NaN"), ExpositionFormat::Text),
        ] {
            assert_eq!(ExpositionFormat::negotiate(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn heads_of_counters_take_the_name_of_their_samples() {
        let open_metrics = "# HELP a_bytes What a is.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\n\
                            a_bytes_total{x=\"y\"} 1\n# HELP b B.\n# TYPE b gauge\nb 2\n# EOF\n";
        let expected = "# HELP a_bytes_total What a is.\n# TYPE a_bytes_total counter\na_bytes_total{x=\"y\"} 1\n\
                        # HELP b B.\n# TYPE b gauge\nb 2\n# EOF\n";
        assert_eq!(openmetrics_to_text(open_metrics), expected);
    }
}
