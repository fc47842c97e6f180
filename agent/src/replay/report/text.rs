//! The report for people: the verdict first, then the figures behind it.

use std::io::{self, Write};

use pendulum_model::observer::Vantage;
use pendulum_model::rate::in_words;

use super::{DirectionReport, Report};
use crate::bpf::abi;

/// Bursts of so many ACKs and more are counted together.
const BURST_MOST: u64 = abi::PENDULUM_BURST_SLOTS as u64 - 1;

/// Flows in the text; the rest is in the JSON form.
const ROWS: usize = 10;

/// Write the report as text.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_text(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "verdict      {}{}", report.verdict, verdict_note(report))?;
    if report.verdict_seconds.len() > 1 {
        let held =
            report.verdict_seconds.iter().map(|(verdict, seconds)| format!("{verdict} {seconds:.0} s"));
        writeln!(out, "held         {}", held.collect::<Vec<_>>().join(", "))?;
    }
    writeln!(
        out,
        "capture      {:.1} s, {} packets on the WAN side{}",
        report.duration_s,
        report.packets.wan,
        match report.packets.lan {
            0 => String::new(),
            lan => format!(", {lan} on the LAN side"),
        }
    )?;
    if let Some(evidence) = report.home_by {
        writeln!(out, "home         found by {}", evidence.describe())?;
    }
    let place = match report.vantage {
        Vantage::BehindUplinkBuffer => "behind the uplink's buffer",
        Vantage::Both => "on both sides of the uplink's buffer",
        Vantage::BeforeUplinkBuffer | Vantage::OwnQueue => "before the uplink's buffer",
    };
    writeln!(out, "place        {place} ({})", report.vantage_by.describe())?;
    let rates = [report.link.uplink_rate_bps, report.link.downlink_rate_bps];
    let source = match report.link.rate_source {
        Some("config") => "given",
        Some(_) => "learnt from the capture",
        None => "not given, and the capture does not show them",
    };
    let rates = rates.map(rate);
    writeln!(out, "link         {} up, {} down ({source})", rates[0], rates[1])?;
    let share = &report.phase_share;
    writeln!(
        out,
        "phases       uplink-bound {:.0} %, downlink-bound {:.0} %, balanced {:.0} %, idle {:.0} % of {:.0} s in which they are \
         known; {} changes",
        share.uplink_bound * 100.0,
        share.downlink_bound * 100.0,
        share.balanced * 100.0,
        share.idle * 100.0,
        report.phase_known_s,
        report.phase_transitions
    )?;
    let ratio = &report.throughput_ratio;
    writeln!(
        out,
        "ratio        download/upload {}, predicted {}",
        number(ratio.measured, 2),
        number(ratio.predicted, 2)
    )?;
    writeln!(out)?;
    write_directions(report, out)?;
    write_flows(report, out)?;
    if !report.lost.is_empty() {
        let lost = report.lost.iter().map(|(reason, count)| format!("{reason} {count}"));
        writeln!(out, "\nnot measured {}", lost.collect::<Vec<_>>().join(", "))?;
    }
    for warning in &report.warnings {
        writeln!(out, "\nwarning: {warning}")?;
    }
    Ok(())
}

fn verdict_note(report: &Report) -> String {
    match (report.verdict, report.swing_period_s) {
        ("unknown", _) => {
            report.verdict_reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"))
        }
        ("swinging", Some(period)) => {
            format!(
                ": period {period:.1} s, correlation of the queues {}",
                number(report.queue_correlation, 2)
            )
        }
        _ => String::new(),
    }
}

fn write_directions(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let both = [&report.directions.up, &report.directions.down];
    let bytes = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0} B"));
    writeln!(out, "{:<24}{:>16}{:>16}", "", "up", "down")?;
    let mut row = |name: &str, cell: &dyn Fn(&DirectionReport) -> String| {
        let [up, down] = both.map(cell);
        writeln!(out, "{name:<24}{up:>16}{down:>16}")
    };
    row("goodput", &|d| rate(Some(d.goodput_bps)))?;
    row("utilization", &|d| d.utilization.map_or_else(|| "-".to_owned(), |u| format!("{:.1} %", u * 100.0)))?;
    row("data segments", &|d| count(d, &["data"]))?;
    row("pure ACKs", &|d| count(d, &["ack", "dup_ack", "sack", "window_update"]))?;
    row("retransmitted", &|d| d.retransmitted_segments.to_string())?;
    row("ACK burst mean / p95", &|d| {
        let p95 = d.ack_burst.p95.map_or_else(
            || "-".to_owned(),
            // The longest ones are counted together.
            |p95| if p95 >= BURST_MOST { format!("{BURST_MOST}+") } else { p95.to_string() },
        );
        format!("{} / {p95}", number(d.ack_burst.mean, 2))
    })?;
    row("queue seen by", &|d| d.queue.source.to_owned())?;
    row("queue mean", &|d| bytes(d.queue.mean_bytes))?;
    row("queue uncertainty", &|d| bytes(d.queue.uncertainty_bytes))?;
    row("queue highest", &|d| bytes(d.queue.max_bytes))?;
    row("queue standing, mean", &|d| bytes(d.queue.standing_mean_bytes))?;
    writeln!(out)
}

fn write_flows(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<44}{:>5}{:>12}{:>16}{:>14}{:>8}",
        "flow", "", "goodput", "RTT min/mean", "in flight", "retr."
    )?;
    for flow in report.flows.iter().take(ROWS) {
        let ms = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), |s| format!("{:.0}", s * 1e3));
        writeln!(
            out,
            "{:<44}{:>5}{:>12}{:>16}{:>14}{:>8}",
            format!("{} > {}", flow.client, flow.server),
            flow.direction.name(),
            rate(Some(flow.goodput_bps)),
            format!("{}/{} ms", ms(flow.rtt_min_s), ms(flow.rtt_mean_s)),
            flow.in_flight_mean_bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes:.0} B")),
            flow.retransmitted_segments
        )?;
    }
    let more = report.flows_total.saturating_sub(ROWS as u64);
    if more > 0 {
        writeln!(out, "and {more} smaller ones")?;
    }
    Ok(())
}

fn count(direction: &DirectionReport, classes: &[&str]) -> String {
    classes.iter().filter_map(|class| direction.segments.get(class)).sum::<u64>().to_string()
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn rate(bits_per_second: Option<f64>) -> String {
    bits_per_second.filter(|bps| *bps > 0.0).map_or_else(|| "-".to_owned(), in_words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_a_dash() {
        assert_eq!(rate(Some(2_400_000.0)), "2.40 Mbit/s");
        assert_eq!([rate(None), rate(Some(0.0)), rate(Some(-1.0)), number(None, 2)], ["-"; 4]);
        assert_eq!((number(Some(1.25), 1), number(Some(2.0), 0)), ("1.2".to_owned(), "2".to_owned()));
    }
}
