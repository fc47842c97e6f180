//! What must be known before the first packet can be measured: which end is home, how the captures relate, and the link
//! rates where the user did not give them. Reads the captures' beginnings, and all of the WAN capture only for the rates.

use std::collections::VecDeque;
use std::path::Path;

use pendulum_model::segment::{Direction, PerDirection};

use super::capture::{Capture, CaptureError, Record};
use super::orientation::{Evidence, Orientation, Prefix, Survey, Transit};
use super::packet::{Packet, outline, parse};
use super::session::Watch;

/// Packets of each capture that are looked at.
const PACKETS: u64 = 50_000;

/// A rate held for so long is the link's, if the link was ever full.
const SUSTAINED_NS: u64 = 1_000_000_000;

/// Distance of the moments from which a rate is taken.
const STEP_NS: u64 = 100_000_000;

/// If single steps show a rate higher by this, the link was never full for that long.
const BURST: f64 = 1.25;

/// Packets below which a step shows nothing.
const BURST_BYTES: u64 = 10_000;

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
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Look at the beginning of both captures.
///
/// # Errors
/// If a capture cannot be read, or the WAN capture has no packet.
pub fn survey(wan: &Path, lan: Option<&Path>, prefixes: &[Prefix]) -> Result<Option<Surveyed>, CaptureError> {
    let mut capture = Capture::open(wan)?;
    let (mut survey, mut transit) = (Survey::default(), Transit::default());
    let (mut origin_ns, mut last_ns) = (None, 0);
    while capture.notes().frames < PACKETS && capture.advance()? {
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
    let lan_offset_ns = transit.clock_offset_ns();
    if lan_offset_ns.abs() > 1_000_000 {
        let ms = lan_offset_ns as f64 / 1e6;
        warnings.push(format!(
            "the captures' clocks differ by {ms:.1} ms; times of the LAN capture were shifted"
        ));
    }
    let orientation = survey.decide(prefixes);
    if orientation.evidence() == Some(Evidence::Guess) {
        warnings.push("nothing tells which end is home; name it with --home PREFIX".to_owned());
    }
    Ok(Some(Surveyed {
        orientation,
        origin_ns,
        lan_offset_ns,
        translates: transit.is_translated(),
        warnings,
    }))
}

/// Find packets of the WAN capture, of this stretch of time, in the LAN capture.
fn compare(
    lan: &Path,
    (from_ns, to_ns): (u64, u64),
    survey: &Survey,
    transit: &mut Transit,
) -> Result<(), CaptureError> {
    /// Clocks of two hosts may differ by so much and still be compared.
    const CLOCKS_NS: u64 = 10_000_000_000;
    let mut capture = Capture::open(lan)?;
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

/// The direction of a frame, if it can be told.
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

/// What one direction of a capture tells about its link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearntRate {
    /// The highest rate that was sustained, bytes per second.
    pub rate: f64,
    /// It was sustained, but higher ones were seen for a moment: the link was never full for long.
    pub lower_bound: bool,
}

/// The rates of both directions, from all of the WAN capture. `None`: no packet travelled that way.
///
/// # Errors
/// If the capture cannot be read.
pub fn learn_rates(
    wan: &Path,
    orientation: &mut Orientation,
    watch: &dyn Watch,
) -> Result<PerDirection<Option<LearntRate>>, CaptureError> {
    let mut capture = Capture::open(wan)?;
    let mut rates = PerDirection::from_fn(SustainedRate::new);
    watch.begin("learning the link rates", capture.file_bytes());
    while capture.advance()? {
        let Some(record) = capture.record() else { break };
        let packet = parse(&record.frame());
        if let Some(direction) = direction_of(orientation, &record, &packet) {
            rates[direction].observe(record.time_ns, u64::from(record.frame().frame_bytes()));
        }
        watch.at(capture.read_bytes());
    }
    Ok(PerDirection::from_fn(|x| rates[x].best()))
}

/// The highest rate of one direction over [`SUSTAINED_NS`], free of the error that counting in fixed intervals makes.
#[derive(Debug)]
struct SustainedRate {
    direction: Direction,
    /// Moments of packets: time, bytes before the packet, its own.
    moments: VecDeque<(u64, u64, u64)>,
    bytes: u64,
    best: f64,
    best_step: f64,
    first: Option<(u64, u64)>,
    last: Option<(u64, u64)>,
}

impl SustainedRate {
    fn new(direction: Direction) -> Self {
        Self {
            direction,
            moments: VecDeque::new(),
            bytes: 0,
            best: 0.0,
            best_step: 0.0,
            first: None,
            last: None,
        }
    }

    fn observe(&mut self, time_ns: u64, bytes: u64) {
        let now = (time_ns, self.bytes, bytes);
        self.bytes += bytes;
        self.first.get_or_insert((time_ns, bytes));
        self.last = Some((time_ns, bytes));
        if self.moments.back().is_some_and(|(newest, ..)| time_ns < newest + STEP_NS) {
            return;
        }
        while self.moments.get(1).is_some_and(|(second, ..)| second + SUSTAINED_NS <= time_ns) {
            self.moments.pop_front();
        }
        if let Some(&then) = self.moments.front().filter(|(then_ns, ..)| then_ns + SUSTAINED_NS <= time_ns) {
            self.best = self.best.max(self.rate_between(then, now));
        }
        if let Some(&before) = self.moments.back()
            && now.1 - before.1 >= BURST_BYTES
        {
            self.best_step = self.best_step.max(self.rate_between(before, now));
        }
        self.moments.push_back(now);
    }

    /// What left between two moments at which a packet begins to leave, or came between two at which one has arrived;
    /// per second.
    fn rate_between(&self, then: (u64, u64, u64), now: (u64, u64, u64)) -> f64 {
        let passed = match self.direction {
            Direction::Up => now.1 - then.1,
            Direction::Down => now.1 + now.2 - then.1 - then.2,
        };
        passed as f64 / now.0.saturating_sub(then.0).max(1) as f64 * 1e9
    }

    fn best(&self) -> Option<LearntRate> {
        if self.best > 0.0 {
            return Some(LearntRate { rate: self.best, lower_bound: self.best_step > BURST * self.best });
        }
        // A short capture: its mean.
        let ((first_ns, first_bytes), (last_ns, _)) = (self.first?, self.last?);
        let rate =
            (self.bytes - first_bytes) as f64 / last_ns.checked_sub(first_ns).filter(|ns| *ns > 0)? as f64;
        (rate > 0.0).then_some(LearntRate { rate: rate * 1e9, lower_bound: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_link_shows_its_exact_rate() {
        for direction in Direction::ALL {
            let mut rate = SustainedRate::new(direction);
            // 1500 bytes each 5 ms: 300,000 B/s; with a pause, and slower at the end.
            for i in 0..1000 {
                rate.observe(i * 5_000_000, 1500);
            }
            for i in 0..1000 {
                rate.observe(20_000_000_000 + i * 10_000_000, 1500);
            }
            let best = rate.best().expect("a rate");
            assert!((best.rate - 300_000.0).abs() < 1e-6 && !best.lower_bound, "{best:?}");
        }
    }

    #[test]
    fn a_short_capture_gives_its_mean_and_an_empty_one_nothing() {
        let mut rate = SustainedRate::new(Direction::Down);
        assert_eq!(rate.best(), None);
        rate.observe(0, 700);
        assert_eq!(rate.best(), None);
        rate.observe(500_000_000, 1000);
        assert_eq!(rate.best(), Some(LearntRate { rate: 2000.0, lower_bound: true }));
    }

    #[test]
    fn bursts_show_that_the_link_is_faster() {
        let mut rate = SustainedRate::new(Direction::Down);
        for burst in 0..10 {
            for i in 0..40 {
                rate.observe(burst * 2_000_000_000 + i * 5_000_000, 1500);
            }
        }
        let best = rate.best().expect("a rate");
        assert!(best.lower_bound && best.rate < 100_000.0, "{best:?}");
    }
}
