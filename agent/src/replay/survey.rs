//! What must be known before the first packet can be measured: which end is home, how the captures relate, and the link
//! rates where the user did not give them. Reads the captures' beginnings, and all of the WAN capture only for the rates.

use pendulum_model::segment::Direction;

use super::capture::{CaptureError, Record};
use super::orientation::{Evidence, Exchanged, Orientation, Prefix, Survey, Transit};
use super::packet::{Packet, outline, parse};
use super::timeline::Source;

/// Packets of each capture that are looked at.
const PACKETS: u64 = 50_000;

/// What the survey found.
#[derive(Debug)]
pub struct Surveyed {
    /// Knows the direction of packets.
    pub orientation: Orientation,
    /// Time of the first packet of the WAN capture, nanoseconds since 1970.
    pub origin_ns: u64,
    /// To be added to times of the LAN capture.
    pub lan_offset_ns: i64,
    /// Whether home addresses differ in the two captures.
    pub translates: bool,
    /// The captures were exchanged: nothing else holds then.
    pub exchanged: Option<Exchanged>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Look at the beginning of both captures.
///
/// # Errors
/// If a capture cannot be read, or the WAN capture has no packet.
pub fn survey(
    wan: &Source,
    lan: Option<&Source>,
    prefixes: &[Prefix],
) -> Result<Option<Surveyed>, CaptureError> {
    let mut capture = wan.open()?;
    let (mut survey, mut transit) = (Survey::default(), Transit::default());
    let (mut origin_ns, mut last_ns) = (None, 0);
    while capture.notes.frames < PACKETS && capture.advance()? {
        let Some(record) = capture.record() else { break };
        origin_ns = Some(origin_ns.unwrap_or(record.time_ns).min(record.time_ns));
        last_ns = last_ns.max(record.time_ns);
        if let Packet::Tcp(segment) = parse(&record.frame()) {
            survey.observe(&record, segment.source, segment.destination, Some(&segment));
            transit.on_wan(record.time_ns, &segment);
        } else if let Some(outline) = outline(&record.frame()) {
            survey.observe(&record, outline.source, outline.destination, None);
        }
    }
    let Some(origin_ns) = origin_ns else { return Ok(None) };
    let mut warnings = Vec::new();
    if let Some(lan) = lan {
        compare(lan, (origin_ns, last_ns), &survey, &mut transit)?;
        transit.vote(&mut survey);
        if transit.is_unrelated() {
            warnings.push(
                "the LAN capture has hardly any packet in common with the WAN capture: are both of the same time, host \
                 and link?"
                    .to_owned(),
            );
        }
    }
    let exchanged = transit.exchanged(&survey, prefixes);
    let lan_offset_ns = transit.clock_offset_ns();
    if lan_offset_ns.abs() > 1_000_000 {
        let ms = lan_offset_ns as f64 / 1e6;
        warnings.push(format!(
            "the captures' clocks differ by {ms:.1} ms; times of the LAN capture were shifted"
        ));
    }
    let orientation = survey.decide(prefixes);
    if orientation.evidence() == Some(Evidence::Guess) {
        warnings.push("home and outside cannot be distinguished; name home with --home PREFIX".to_owned());
    }
    Ok(Some(Surveyed {
        orientation,
        origin_ns,
        lan_offset_ns,
        translates: transit.is_translated(),
        exchanged,
        warnings,
    }))
}

/// Find packets of the WAN capture, of this stretch of time, in the LAN capture.
fn compare(
    lan: &Source,
    (from_ns, to_ns): (u64, u64),
    survey: &Survey,
    transit: &mut Transit,
) -> Result<(), CaptureError> {
    /// Clocks of two hosts may differ by so much and still be compared.
    const CLOCKS_NS: u64 = 10_000_000_000;
    let mut capture = lan.open()?;
    let mut looked = 0;
    while looked < 2 * PACKETS && capture.advance()? {
        let Some(record) = capture.record() else { break };
        if record.time_ns > to_ns.saturating_add(CLOCKS_NS) {
            break;
        }
        if record.time_ns < from_ns.saturating_sub(CLOCKS_NS) {
            continue;
        }
        looked += 1;
        if let Packet::Tcp(segment) = parse(&record.frame()) {
            transit.on_lan(survey, record.time_ns, &segment);
        }
    }
    Ok(())
}

/// The direction of a frame, if it is known.
pub fn direction_of(
    orientation: &mut Orientation,
    record: &Record<'_>,
    packet: &Packet,
) -> Option<Direction> {
    match packet {
        Packet::Tcp(segment) => orientation.direction(segment.source, segment.destination),
        _ => match outline(&record.frame()) {
            Some(outline) => orientation.direction(outline.source, outline.destination),
            None => orientation.direction_of_device(record),
        },
    }
}
