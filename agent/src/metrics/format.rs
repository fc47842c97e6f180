//! The two text formats of `/metrics`, and which of them a client gets.
//!
//! Prometheus asks for OpenMetrics by name. Who asks for nothing in particular, such as `curl`, gets the older text format, which
//! also `promtool check metrics` reads: in it a counter's head carries the sample's name with `_total`, and units
//! have no line of their own.

/// A text format of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text 0.0.4.
    Text,
}

impl Format {
    /// The format for a client that sent this `Accept` header.
    pub fn negotiate(accept: Option<&str>) -> Self {
        let quality = |wanted: &str| {
            accept
                .into_iter()
                .flat_map(|accept| accept.split(','))
                .filter_map(|entry| media_range(entry, wanted))
                .fold(0.0, f32::max)
        };
        let open_metrics = quality("application/openmetrics-text");
        if open_metrics > 0.0 && open_metrics >= quality("text/plain") {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// The value of the `Content-Type` header.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The quality (RFC 9110 §12.4.2) that one entry of an `Accept` header gives to the type `wanted`.
fn media_range(entry: &str, wanted: &str) -> Option<f32> {
    let mut parts = entry.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(wanted) {
        return None;
    }
    let mut quality = 1.0;
    for parameter in parts {
        match parameter.split_once('=') {
            Some(("q", value)) => quality = value.parse().unwrap_or(0.0),
            // Only the versions whose text we write.
            Some(("version", "0.0.1" | "1.0.0" | "0.0.4")) | None => {}
            Some(("version", _)) => return None,
            Some(_) => {}
        }
    }
    Some(quality)
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
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;\
                          version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, expected) in [
            (None, Format::Text),
            (Some("*/*"), Format::Text),
            (Some("text/plain"), Format::Text),
            (Some(prometheus), Format::OpenMetrics),
            (Some("application/openmetrics-text"), Format::OpenMetrics),
            (Some("Application/OpenMetrics-Text; version=1.0.0"), Format::OpenMetrics),
            (Some("application/openmetrics-text;version=9.0.0"), Format::Text),
            (Some("application/openmetrics-text;q=0"), Format::Text),
            (Some("text/plain;version=0.0.4, application/openmetrics-text;q=0.1"), Format::Text),
            (Some(";;,=,q="), Format::Text),
        ] {
            assert_eq!(Format::negotiate(accept), expected, "{accept:?}");
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
