//! The first look at a whole capture: on which side of the uplink's buffer it was taken, and the link's rates.
//!
//! The file does not say where it was taken; delays do. Before the buffer, hosts at home answer at once and answers from outside contain the
//! uplink's queue. Behind it, hosts at home seem to answer late, by the queue their answers stood in, and answers from outside
//! do not contain it. Behind it, too, packets pass one after the other at the link's rate ([`spacing`]), whatever the delays say: where the uplink's queue is
//! small beside the downlink's, what is left of the downlink's in the answers from outside varies as much.

mod spacing;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pendulum_model::constants::HALF;
use pendulum_model::observer::level::INTERVAL_NS;
use pendulum_model::observer::{End, Observer, Vantage};
use pendulum_model::rate::Rate;
use pendulum_model::segment::{Direction, PerDirection};
use serde::Serialize;

use super::capture::{CaptureError, Progress};
use super::meter::Meter;
use super::notes::Notes;
use super::packet::parse;
use super::silence::Silence;
use super::survey::{Surveyed, direction_of};
use super::tally::Tally;
use super::timeline::Source;
use spacing::{Pace, Spacing};

/// The smallest delay of each of these, nanoseconds, counts: answers that were held back do not.
const WINDOW_NS: u64 = 250_000_000;

/// A queue of less than this shows nothing, seconds.
const CLEAR_S: f64 = 0.01;

/// One side's delays must vary by so much more than the other's.
const FACTOR: f64 = 2.0;

/// The pace of packets is the learnt rate if it is between these parts of it: three packets more make it less, steps between the paces that are tried more.
const PACE_LEAST: f64 = 0.75;
const PACE_MOST: f64 = 1.15;

/// The two places that one capture may be from.
const PLACES: [Vantage; 2] = [Vantage::BeforeUplinkBuffer, Vantage::BehindUplinkBuffer];

/// Windows remembered: four hours.
const WINDOWS_MAX: usize = 1 << 16;

/// The share of windows that may have longer delays than the one that is taken.
const TAIL: f64 = 0.1;

/// What decided where a capture was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VantageBy {
    /// Two captures were given, one of each side.
    Captures,
    /// Answers from outside contain a queue that varies, those from home do not.
    AnswersFromOutside,
    /// Answers from home contain a queue that varies, those from outside do not, or packets pass at the rate that it tells.
    AnswersFromHome,
    /// No queue of the uplink shows, or both places are possible: the usual one is assumed, and the uplink's level is as uncertain as the other one makes it.
    Assumed,
}

impl VantageBy {
    /// For people.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Captures => "two captures",
            Self::AnswersFromOutside => "found by replies from outside",
            Self::AnswersFromHome => "found by replies from home",
            Self::Assumed => "assumed: no evidence in the capture",
        }
    }
}

/// The result of the vantage detection.
#[derive(Clone, Copy, Debug)]
pub struct DetectedVantage {
    /// Where the capture was taken.
    pub vantage: Vantage,
    /// How that is known.
    pub by: VantageBy,
    /// Rates, bytes per second, as far as a buffer held a queue for long enough: the first that was known.
    pub rates: PerDirection<Option<f64>>,
    /// The place that it may as well be, and the rates that were found then.
    pub other: Option<(Vantage, PerDirection<Option<f64>>)>,
}

/// Ends that are remembered of each side.
const ENDS_MAX: usize = 64;

/// How much the delays of each end vary: one end is farther away than another.
#[derive(Debug, Default)]
struct Variations(BTreeMap<End, Variation>);

impl Variations {
    fn add(&mut self, end: End, at_ns: u64, seconds: f64) {
        if self.0.len() < ENDS_MAX || self.0.contains_key(&end) {
            self.0.entry(end).or_default().add(at_ns, seconds);
        }
    }

    /// The spread of the end that answered in most windows, seconds.
    fn spread(&self) -> f64 {
        self.0.values().max_by_key(|variation| variation.minima.len()).map_or(0.0, Variation::spread)
    }
}

/// How much the smallest delays of short windows vary.
#[derive(Debug, Default)]
struct Variation {
    window: Option<(u64, f64)>,
    minima: VecDeque<f64>,
}

impl Variation {
    fn add(&mut self, at_ns: u64, seconds: f64) {
        let number = at_ns / WINDOW_NS;
        match &mut self.window {
            Some((open, least)) if *open == number => *least = least.min(seconds),
            window => {
                if let Some((_, least)) = window.replace((number, seconds)) {
                    if self.minima.len() == WINDOWS_MAX {
                        self.minima.pop_front();
                    }
                    self.minima.push_back(least);
                }
            }
        }
    }

    /// How much longer than the shortest all but the longest tenth are, seconds.
    fn spread(&self) -> f64 {
        let mut sorted: Vec<f64> = self.minima.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let high = sorted.get(((sorted.len() as f64) * (1.0 - TAIL)) as usize).or(sorted.last());
        high.zip(sorted.first()).map_or(0.0, |(high, low)| high - low)
    }
}

/// Looks at all of the capture.
///
/// # Errors
/// If it cannot be read.
pub fn detect_vantage(
    wan: &Source,
    surveyed: &mut Surveyed,
    configured: PerDirection<Option<Rate>>,
    both: bool,
    progress: &Progress<'_>,
) -> Result<DetectedVantage, CaptureError> {
    let mut capture = wan.open()?;
    let mut meter = Meter::<Tally>::default();
    let mut notes = Notes::default();
    let rates = PerDirection::from_fn(|x| configured[x].map(|rate| rate.bytes_per_second()));
    let mut observers = PLACES.map(|vantage| {
        let mut observer = Observer::new(0, vantage, Duration::from_secs(1));
        observer.set_rates(rates, rates.up);
        observer
    });
    let mut found = [PerDirection::<Option<f64>>::default(); 2];
    let mut variations = PerDirection::<Variations>::default();
    let mut spacing = Spacing::default();
    let mut silence = Silence::default();
    let mut now_ns = 0;
    let mut settled_ns = 0;
    while capture.advance()? {
        let Some(record) = capture.record() else { break };
        now_ns = record.time_ns.saturating_sub(surveyed.origin_ns).max(now_ns);
        if silence.drained_before(now_ns).is_some() {
            settled_ns = now_ns / INTERVAL_NS * INTERVAL_NS;
            observers.iter_mut().for_each(|observer| observer.restart(settled_ns));
        }
        let frame = record.frame();
        silence.pass(now_ns, frame.frame_bytes());
        let packet = parse(&frame);
        let Some(direction) = direction_of(&mut surveyed.orientation, &record, &packet) else { continue };
        let observation = meter.observe_packet(direction, now_ns, &frame, packet);
        let noted = notes.note(direction, now_ns, frame.frame_bytes(), observation);
        notes.active.clear();
        for observer in &mut observers {
            observer.pass(direction, &noted.passing, noted.answer.as_ref());
        }
        if direction == Direction::Up {
            spacing.pass(now_ns, frame.frame_bytes());
        }
        if let Some(answer) = &noted.answer {
            let delay_s = answer.delay_ns as f64 / 1e9;
            match direction {
                Direction::Up => variations.up.add(answer.end, now_ns, delay_s),
                Direction::Down => {
                    let waited_s = observers[0].downlink_wait_by_clock(now_ns);
                    if let Some(rest_s) = rest_of(delay_s, waited_s) {
                        variations.down.add(answer.end, now_ns, rest_s);
                    }
                }
            }
        }
        if now_ns >= settled_ns + WINDOW_NS {
            settled_ns = now_ns;
            for (observer, found) in observers.iter_mut().zip(&mut found) {
                observer.settle(now_ns);
                for x in Direction::ALL {
                    while observer.pop(x).is_some() {}
                    found[x] = found[x].or_else(|| observer.rate(x).map(|rate| rate.bytes_per_second));
                }
            }
        }
        progress("finding out rates and place", capture.read_bytes(), capture.file_bytes);
    }
    let seen = PlaceEvidence {
        home_s: variations.up.spread(),
        outside_s: variations.down.spread(),
        pace: spacing.pace(),
        uplink_rates: found.map(|rates| rates.up),
    };
    let (vantage, by) = decide(&seen, both);
    let index = usize::from(vantage != Vantage::BeforeUplinkBuffer);
    let other = (by == VantageBy::Assumed).then_some((PLACES[1 - index], found[1 - index]));
    Ok(DetectedVantage { vantage, by, rates: found[index], other })
}

/// An answer's delay without its own wait, seconds. A wait that comes out longer than the delay it is a part of is wrong: the clock is not known yet.
fn rest_of(delay_s: f64, waited_s: Option<f64>) -> Option<f64> {
    waited_s.map(|waited_s| delay_s - waited_s).filter(|rest_s| *rest_s >= 0.0)
}

/// What tells of the place.
#[derive(Clone, Copy, Debug)]
struct PlaceEvidence {
    /// How much answers from home and from outside vary, seconds.
    home_s: f64,
    outside_s: f64,
    /// How packets of the uplink passed.
    pace: Option<Pace>,
    /// The uplink's rate as learnt before and behind its buffer, bytes per second.
    uplink_rates: [Option<f64>; 2],
}

impl PlaceEvidence {
    /// Packets passed as the link let them out whose rate is learnt from hosts at home that waited for it.
    fn is_let_out(&self) -> bool {
        self.pace.zip(self.uplink_rates[1]).is_some_and(|(pace, learnt)| {
            let part = 1e9 * pace.rate / learnt;
            (PACE_LEAST..=PACE_MOST).contains(&part)
        })
    }

    /// Packets passed one after the other as a link lets them out, and no queue behind the point has ever shown a rate: nothing says that they came from
    /// home like that.
    fn may_be_let_out(&self) -> bool {
        self.pace.is_some_and(|pace| pace.share >= HALF) && self.uplink_rates[0].is_none()
    }
}

fn decide(seen: &PlaceEvidence, both: bool) -> (Vantage, VantageBy) {
    if both {
        return (Vantage::Both, VantageBy::Captures);
    }
    let &PlaceEvidence { home_s, outside_s, .. } = seen;
    if seen.is_let_out() || (home_s > CLEAR_S && home_s > FACTOR * outside_s) {
        (Vantage::BehindUplinkBuffer, VantageBy::AnswersFromHome)
    } else if outside_s > CLEAR_S && outside_s > FACTOR * home_s && !seen.may_be_let_out() {
        (Vantage::BeforeUplinkBuffer, VantageBy::AnswersFromOutside)
    } else {
        (Vantage::BeforeUplinkBuffer, VantageBy::Assumed)
    }
}

#[cfg(test)]
mod tests;
