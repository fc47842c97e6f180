//! Title, verdict, figures of both directions, keys.

use std::time::Instant;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Palette;
use crate::client::Trouble;
use crate::top::text;
use crate::top::view::View;
use pendulum_model::delay::Segment;
use pendulum_wire::{Delay, Direction, Link};

/// Which agent, which link, how fast.
pub(super) fn title(view: &View, width: u16, palette: Palette) -> Line<'static> {
    let mut left = " pendulum".to_owned();
    if let Some(link) = view.link() {
        let count = view.links().len();
        left.push_str(&format!("  {} on {}", link.name, link.wan));
        if count > 1 {
            left.push_str(&format!(" ({} of {count})", view.shown() + 1));
        }
        for (mark, rate) in [("▲", link.link.uplink_rate_bps), ("▼", link.link.downlink_rate_bps)] {
            if let Some(rate) = rate {
                left.push_str(&format!("  {mark} {}", text::rate(rate as f64)));
            }
        }
    }
    let alarm = if view.trouble.is_some() { "NO ANSWER " } else { "" };
    let mut right = format!("{alarm}{} ", view.url);
    if left.chars().count() + right.chars().count() >= usize::from(width) {
        // Where nobody answers is said below.
        right = alarm.to_owned();
    }
    let gap = usize::from(width).saturating_sub(left.chars().count() + right.chars().count());
    Line::from(format!("{left}{}{right}", " ".repeat(gap))).style(palette.bar())
}

/// Why there are no news, for how long, and what to do.
pub(super) fn trouble(
    url: &str,
    trouble: &Trouble,
    since: Instant,
    width: u16,
    palette: Palette,
) -> Vec<Line<'static>> {
    let words = format!(
        "No answer from {url} for {}: {}; {} Retried every second.",
        text::span(since.elapsed().as_secs_f64()),
        trouble.reason,
        trouble.remedy
    );
    lines(&words, width, palette.alarm())
}

/// A verdict in words: what it is called, what it means, and whether something is wrong.
fn meaning<'a>(verdict: &'a str, link: &Link) -> (&'a str, &'static str, bool) {
    let loses = link.lost_ratio.is_some_and(|lost| lost >= 0.25);
    let slowed = loses && link.lost_ratio.is_some_and(|lost| lost <= 0.5);
    let behind_downloads = || {
        let figures = link.evidence.iter().flat_map(|evidence| &evidence.figures);
        figures.into_iter().any(|figure| figure.name == "downlink_bound_share" && figure.value >= 0.5)
    };
    match verdict {
        "locked_uplink" if slowed => ("LOCKED UPLINK", "downloads are slowed behind your uploads", true),
        "locked_downlink" if slowed => ("LOCKED DOWNLINK", "uploads are slowed behind your downloads", true),
        "balanced" if loses && behind_downloads() => {
            ("ONE BUFFER FULL", "uploads are slowed behind your downloads", true)
        }
        "balanced" if loses => ("ONE BUFFER FULL", "downloads are slowed behind your uploads", true),
        "swinging" => ("SWINGING", "uploads and downloads starve each other in turn", true),
        "locked_uplink" => ("LOCKED UPLINK", "downloads starve behind your uploads", true),
        "locked_downlink" => ("LOCKED DOWNLINK", "uploads starve behind your downloads", true),
        "ack_compression" => ("ACK COMPRESSION", "ACKs arrive in bursts; little is lost", false),
        "one_way" => ("ONE WAY", "one direction is busy; the other has nothing to lose", false),
        "balanced" => ("BALANCED", "bulk traffic goes both ways; neither direction starves", false),
        "clear" => ("CLEAR", "no bulk traffic", false),
        "unknown" => ("UNKNOWN", "evidence is missing", false),
        other => (other, "", false),
    }
}

/// The verdict, since when, and why; after it what limits the measurement.
pub(super) fn verdict(link: &Link, old: bool, width: u16, palette: Palette) -> Vec<Line<'static>> {
    if let Some(trouble) = &link.trouble {
        return lines(&format!("Not measured: {trouble}"), width, palette.alarm());
    }
    // The agent begins without evidence.
    let Some(verdict) = link.verdict.as_ref().filter(|_| link.evidence.is_some()) else {
        return lines("No verdict yet", width, palette.faint());
    };
    let (name, means, wrong) = meaning(verdict, link);
    let style = palette.verdict(verdict, wrong);
    let mark = match (old, wrong) {
        (true, _) => "Last known:",
        (_, true) => "!",
        _ => "·",
    };
    let lasted = link.verdict_for_s.map(|s| format!(" for {}", text::span(s))).unwrap_or_default();
    let mut result = lines(&format!("{mark} {name}{lasted}: {means}"), width, style);
    if let Some(evidence) = &link.evidence {
        result.extend(lines(&evidence.reason, width, Style::new()));
        if !evidence.missing.is_empty() {
            let missing: Vec<_> = evidence.missing.iter().map(|name| name.replace('_', " ")).collect();
            result.extend(lines(
                &format!("missing evidence: {}", missing.join(", ")),
                width,
                palette.faint(),
            ));
        }
    }
    for (name, found) in [("uplink", &link.bufferbloat.up), ("downlink", &link.bufferbloat.down)] {
        let Some(found) = found else { continue };
        let cause = found.cause.as_ref().map(|cause| {
            format!(
                ", {} {} of the traffic in it",
                text::percent(cause.share).trim(),
                text::kind(&cause.kind)
            )
        });
        let words = format!(
            "! BUFFERBLOAT in the {name}: all traffic waits {}{}; {}",
            text::time(found.delay_s),
            cause.unwrap_or_default(),
            found.help
        );
        result.extend(lines(&words, width, palette.alarm()));
    }
    let ratio = link.throughput_ratio.as_ref();
    let mut more = Vec::new();
    if let Some(period) = link.swing_period_s {
        more.push(format!("swings every {}", text::time(period)));
    }
    if let Some(measured) = ratio.and_then(|ratio| ratio.measured) {
        let predicted = ratio.and_then(|ratio| ratio.predicted);
        let against = predicted.map(|p| format!(", {p:.1} predicted")).unwrap_or_default();
        more.push(format!("download:upload {measured:.1}{against}"));
    }
    let shaper = link.shape.as_ref().filter(|shape| shape.state != "off");
    more.extend(shaper.map(|shape| format!("shaper: {}", shape.state.replace('_', " "))));
    more.extend(link.degraded.first().cloned());
    if !more.is_empty() {
        result.extend(lines(&more.join("; "), width, palette.faint()));
    }
    result
}

/// One line for each direction: what goes through, the round trip, the rest.
pub(super) fn figures(link: &Link, redact: bool, width: u16, palette: Palette) -> Vec<Line<'static>> {
    let line = |mark, name, end, direction: &Direction, rate: Option<u64>, style| {
        let passed = direction.throughput_1s_bps;
        let used =
            passed.zip(rate).map_or("–".to_owned(), |(passed, rate)| text::used(passed / rate as f64));
        let passed = passed.map_or("–".to_owned(), text::rate);
        let mut words = vec![format!("{passed:>11}"), format!("{used:>6}")];
        let rtt = direction.rtt.as_ref();
        let p50 = rtt.map(|rtt| rtt.p50_s).map_or("–".to_owned(), text::time);
        words.push(format!("{end} RTT {p50}"));
        words.extend(rtt.and_then(|rtt| rtt.min_s).map(|s| format!("least {}", text::time(s))));
        words.push(format!("{} in flight", text::bytes(direction.in_flight_bytes as f64)));
        words.push(format!("{} flows", direction.flows));
        words.push(format!("{} retransmitted", direction.retransmitted_segments));
        // Of a buffer elsewhere no drops are counted: that is not none.
        if let Some(queue) = direction.queue.as_ref().filter(|queue| !queue.drops.is_empty()) {
            words.push(format!("{} dropped", queue.drops.values().sum::<u64>()));
        }
        let mut left = usize::from(width).saturating_sub(8);
        words.retain(|word| {
            let fits = word.chars().count() + 2 <= left;
            left = if fits { left - word.chars().count() - 2 } else { 0 };
            fits
        });
        Line::from(vec![Span::styled(format!("{mark} {name:<5}"), style), Span::raw(words.join("  "))])
    };
    let mut lines = vec![
        line("▲", "up", "internet", &link.directions.up, link.link.uplink_rate_bps, palette.up()),
        line("▼", "down", "home", &link.directions.down, link.link.downlink_rate_bps, palette.down()),
    ];
    lines.extend(link.delay.as_ref().map(|delay| where_it_waits(delay, redact, width, palette)));
    lines
}

/// Where the delay comes from: base and wait of each segment, and the host that waits, from home to the far end. What does not fit is left out.
fn where_it_waits(delay: &Delay, redact: bool, width: u16, palette: Palette) -> Line<'static> {
    let mut words = "  delay ".to_owned();
    for segment in Segment::ALL {
        let Some(known) = delay.segments.get(segment.name()) else { continue };
        let total = known.base_s.zip(known.queue_s).map(|(base_s, queue_s)| base_s + queue_s);
        let word = format!("{} {}", segment.name(), total.map_or("unknown".to_owned(), text::time));
        let mark = if delay.place == segment.name() { "!" } else { "" };
        let host = known.host.as_deref().filter(|_| !mark.is_empty());
        let host = host.map(|host| if redact { text::redacted(host) } else { host.to_owned() });
        let at = host.map(|host| format!(" at {host}")).unwrap_or_default();
        let part = format!("{mark}{word}{at}  ");
        if words.chars().count() + part.trim_end().chars().count() <= usize::from(width) {
            words.push_str(&part);
        }
    }
    Line::from(words.trim_end().to_owned()).style(palette.faint())
}

/// The most used keys, or the filter while it is typed.
pub(super) fn keys(view: &View, palette: Palette) -> Line<'static> {
    if view.typing {
        return Line::from(format!("/{}▏  Enter keeps it, Esc removes it", view.filter))
            .style(palette.strong());
    }
    let redact = if view.redact { "r show addresses" } else { "r hide addresses" };
    let links = if view.links().len() > 1 { "  ← → link" } else { "" };
    Line::from(format!("q leave  / filter  s sort  {redact}{links}  + - time  ? help")).style(palette.faint())
}

fn lines(words: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    text::wrap(words, usize::from(width)).into_iter().map(|line| Line::from(line).style(style)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pendulum_model::findings::Verdict;

    #[test]
    fn each_verdict_has_at_most_twelve_words_and_only_balanced_traffic_goes_both_ways() {
        for verdict in Verdict::ALL {
            for lost_ratio in [None, Some(0.3), Some(0.9)] {
                let (_, means, _) = meaning(verdict.name(), &Link { lost_ratio, ..Link::default() });
                assert!((1..=12).contains(&means.split_whitespace().count()), "{verdict:?}: {means:?}");
                assert!(!means.contains("both ways") || verdict == Verdict::Balanced, "{verdict:?}: {means}");
            }
        }
    }
}
