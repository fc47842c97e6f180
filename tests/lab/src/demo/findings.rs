//! What the figures say, in sentences. Every number is taken from the measurement; no outcome is taken for granted.

use pendulum_model::segment::{Direction, PerDirection};

use super::figures::StretchFindings;
use super::format;
use super::style::Glyphs;
use crate::lab::LinkSpec;

/// A download that has lost this share has collapsed; one that has lost less than the second has not suffered.
const COLLAPSE: f64 = 0.5;
const UNHURT: f64 = 0.1;

/// One paragraph for each thing found.
pub(super) fn findings(outcomes: &[StretchFindings], link: &LinkSpec, glyphs: &Glyphs) -> Vec<String> {
    let mut paragraphs = Vec::new();
    paragraphs.extend(what_happened(outcomes, glyphs));
    paragraphs.extend(why(outcomes, link));
    paragraphs.extend(agreement(outcomes));
    paragraphs.extend(outcomes.iter().filter_map(|outcome| {
        let verdict = outcome.verdict.as_deref()?;
        let reason = outcome.reason.as_deref().map_or(String::new(), |reason| format!(", because {reason}"));
        let evidence =
            outcome.evidence.as_deref().map_or(String::new(), |figures| format!(" Evidence: {figures}."));
        Some(format!("The agent's verdict on \"{}\": {verdict}{reason}.{evidence}", outcome.stretch.label))
    }));
    paragraphs
}

/// How the download fared beside uploads.
fn what_happened(outcomes: &[StretchFindings], glyphs: &Glyphs) -> Option<String> {
    let (alone, others) = outcomes.split_first()?;
    let alone = alone.download_bps().filter(|bps| *bps > 0.0)?;
    let changes: Vec<(u32, f64, f64)> = others
        .iter()
        .filter_map(|other| {
            Some((other.stretch.uploads, other.download_bps()?, other.download_bps()? / alone - 1.0))
        })
        .collect();
    let (_, _, first) = *changes.first()?;
    let verb = if first <= -UNHURT { "fell" } else { "went" };
    let parts: Vec<String> = changes
        .iter()
        .enumerate()
        .map(|(index, &(uploads, bps, change))| {
            let plural = if uploads == 1 { "one upload" } else { "two uploads" };
            let change = change_text(change, glyphs);
            match index {
                0 => format!(
                    "With {plural} the download {verb} from {} to {} ({change})",
                    format::rate(alone),
                    format::rate(bps)
                ),
                _ => format!("with {plural} it had {} ({change})", format::rate(bps)),
            }
        })
        .collect();
    let collapsed = changes.iter().filter(|(_, _, change)| *change <= -COLLAPSE).count();
    let judgement = match collapsed {
        0 => " It did not collapse in this run.",
        count if count == changes.len() => " That is the collapse.",
        _ => " It collapsed in one of the two only.",
    };
    Some(format!("{}.{judgement}", parts.join("; ")))
}

fn change_text(change: f64, glyphs: &Glyphs) -> String {
    let sign = if change < 0.0 { glyphs.minus } else { "+" };
    format!("{sign}{:.0} %", change.abs() * 100.0)
}

/// Where the bytes waited, if one buffer held them.
fn why(outcomes: &[StretchFindings], link: &LinkSpec) -> Option<String> {
    /// A buffer is full in the mean above the first share, and hardly used below the second.
    const FULL: f64 = 0.5;
    const EMPTY: f64 = 0.15;
    let outcome = outcomes.iter().find(|outcome| outcome.stretch.uploads == 1)?;
    let buffer =
        PerDirection { up: link.uplink.buffer_bytes() as f64, down: link.downlink.buffer_bytes() as f64 };
    let mean = &outcome.queue_mean_bytes;
    let share = |direction: Direction| mean[direction] / buffer[direction];
    let where_it_waited = format!(
        "With one upload {} of {} bytes were queued in the uplink buffer on average, and {} of {} in the downlink's",
        format::grouped(mean.up.round() as u64),
        format::grouped(buffer.up as u64),
        format::grouped(mean.down.round() as u64),
        format::grouped(buffer.down as u64)
    );
    let explanation = match (share(Direction::Up), share(Direction::Down)) {
        (up, down) if up >= FULL && down <= EMPTY => {
            "the download's ACKs wait there behind the upload's data, so the downlink runs dry"
        }
        (up, down) if down >= FULL && up <= EMPTY => "the upload waits for its ACKs behind the download",
        _ => return Some(format!("{where_it_waited}.")),
    };
    let times = match (outcomes.first().and_then(|alone| alone.truth.rtt_s), outcome.truth.rtt_s) {
        (Some(alone), Some(now)) => {
            format!(" (round trip {} alone, {} now)", format::time(alone), format::time(now))
        }
        _ => String::new(),
    };
    Some(format!("{where_it_waited}: {explanation}{times}."))
}

/// How far the agent's throughputs are from the senders'.
fn agreement(outcomes: &[StretchFindings]) -> Option<String> {
    let pairs = outcomes.iter().flat_map(|outcome| {
        let (kernel, agent) = (&outcome.truth.goodput, &outcome.agent.goodput);
        [(kernel.download_bps, agent.download_bps), (kernel.upload_bps, agent.upload_bps)]
    });
    let differences = pairs.filter_map(|(kernel, agent)| {
        let kernel = kernel.filter(|bps| *bps > 0.0)?;
        Some((agent? / kernel - 1.0).abs())
    });
    let largest = differences.max_by(f64::total_cmp)?;
    Some(format!("The agent's throughputs differ from the senders' own by {:.1} % at most.", largest * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::figures::tests::outcome;

    fn said(downloads: [f64; 3]) -> Vec<String> {
        let uploads = [0.0, 176.0, 178.0];
        let outcomes: Vec<StretchFindings> =
            (0..3).map(|index| outcome(index, downloads[index], uploads[index])).collect();
        findings(&outcomes, &LinkSpec::FIG1, &Glyphs::UNICODE)
    }

    #[test]
    fn a_collapse_is_said_with_its_figures_and_its_reason() {
        let said = said([2290.0, 310.0, 210.0]);
        assert_eq!(
            said[0],
            "With one upload the download fell from 2.29 Mb/s to 310 kb/s (−86 %); with two uploads it had 210 kb/s (−91 %). \
             That is the collapse."
        );
        assert!(said[1].contains("26,000 of 30,000 bytes") && said[1].contains("runs dry"), "{said:?}");
        assert!(said[1].contains("100 ms alone, 1.27 s now"), "{said:?}");
        assert_eq!(said[2], "The agent's throughputs differ from the senders' own by 1.0 % at most.");
    }

    #[test]
    fn what_did_not_happen_is_not_claimed() {
        assert!(
            said([2290.0, 2280.0, 2300.0])[0]
                .ends_with("two uploads it had 2.30 Mb/s (+0 %). It did not collapse in this run.")
        );
        assert!(said([2290.0, 1500.0, 210.0])[0].ends_with("It collapsed in one of the two only."));
        assert!(findings(&[], &LinkSpec::FIG1, &Glyphs::UNICODE).is_empty());
    }

    #[test]
    fn a_queue_that_does_not_explain_it_is_only_stated() {
        let mut both = [outcome(0, 2290.0, 0.0), outcome(1, 310.0, 176.0)];
        both[1].queue_mean_bytes.down = 20_000.0;
        let said = findings(&both, &LinkSpec::FIG1, &Glyphs::UNICODE);
        assert!(said[1].ends_with("and 20,000 of 30,000 in the downlink's."), "{said:?}");
    }

    #[test]
    fn verdicts_come_with_their_evidence() {
        let mut judged = outcome(1, 310.0, 176.0);
        judged.verdict = Some("locked_uplink".into());
        judged.reason = Some("the uplink buffer never empties".into());
        judged.evidence = Some("uplink bound share 0.97 (threshold 0.8)".into());
        let said = findings(&[outcome(0, 2290.0, 0.0), judged], &LinkSpec::FIG1, &Glyphs::UNICODE);
        assert_eq!(
            said.last().unwrap(),
            "The agent's verdict on \"+ one upload\": locked_uplink, because the uplink buffer never empties. Evidence: uplink \
             bound share 0.97 (threshold 0.8)."
        );
    }
}
