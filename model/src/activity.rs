//! What each direction wants. The pendulum needs bulk data both ways, whatever its protocol; traffic that is limited by
//! its application may fill a buffer but cannot swing, and no queue starves a direction that wants nothing.

use std::time::Duration;

use crate::constants::{HALF, MOST, SLIGHT};
use crate::findings::Figure;
use crate::flows::RETRIES;
use crate::history::{History, Moments, Totals};
use crate::segment::Direction;
use crate::thresholds::Thresholds;

/// So many TCP segments without a single ACK are no chance.
const UNSEEN_SEGMENTS: u64 = 50;

/// Held back: this share of the TCP data segments is sent again over [`RETRIES`], in segments of more than half the full length, since whoever
/// has a backlog fills them. Something passes in half of the seconds, or is under way for half of the time.
const LOSS: f64 = 0.05;

/// Whether a direction would carry more if it could.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Demand {
    /// Pure ACKs and little else.
    #[default]
    None,
    /// Bulk data: as much as the link, the window or the queue lets through.
    Bulk,
    /// TCP with a backlog that is lost and sent again, too little to look like bulk data: starving.
    HeldBack,
    /// The application sets the pace, so many bytes per second.
    Application(f64),
    /// Datagrams at a rate that nothing was seen to hold back: it cannot be known.
    Untold,
}

/// What one direction's traffic looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Activity {
    pub(crate) demand: Demand,
    /// Share of the time with data under way.
    pub(crate) active_share: f64,
    /// Mean window in segments.
    pub(crate) segments: f64,
}

/// What [`assess`] looks at.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) history: &'a History,
    pub(crate) thresholds: &'a Thresholds,
    pub(crate) now: Duration,
    pub(crate) round_trip: Duration,
}

/// What is known of one direction beside its history.
#[derive(Clone, Copy, Default)]
pub(crate) struct Facts {
    /// Part of the TCP bytes in long flows; `None` if flows are not reported.
    pub(crate) long_flow_share: Option<f64>,
    /// `C_x`, bytes per second.
    pub(crate) capacity: Option<f64>,
    /// Its own buffer holds a standing queue above `bufferbloat-delay` most of the time.
    pub(crate) fills: bool,
    /// It holds one of any height, whatever its delay.
    pub(crate) stands: bool,
    /// The opposite buffer does.
    pub(crate) opposed: bool,
    /// The level of its own buffer is known.
    pub(crate) level_known: bool,
}

impl Activity {
    /// Carries bulk data.
    pub(crate) fn is_bulk(&self) -> bool {
        self.demand == Demand::Bulk
    }

    /// Would carry more if it could.
    pub(crate) fn wants(&self) -> bool {
        matches!(self.demand, Demand::Bulk | Demand::HeldBack)
    }

    pub(crate) fn figures(&self, direction: Direction, thresholds: &Thresholds) -> [Figure; 2] {
        let (active, window) = direction.pick(
            ("upload_active_share", "upload_window_segments"),
            ("download_active_share", "download_window_segments"),
        );
        [
            Figure::against(active, self.active_share, thresholds.bulk_active_share),
            Figure::against(window, self.segments, thresholds.bulk_in_flight_segments),
        ]
    }
}

/// Judges one direction; `before` is what was said of it last.
pub(crate) fn assess(scene: Scene<'_>, direction: Direction, before: Demand, facts: Facts) -> Activity {
    let Scene { history, thresholds, now, round_trip } = scene;
    let window = thresholds.activity_after(history, round_trip);
    let recent = history.since(now.saturating_sub(window));
    let mut activity = Activity {
        active_share: recent.active_share(direction),
        segments: recent.mean_window(direction) / thresholds.segment_bytes.max(1e-9),
        ..Activity::default()
    };
    let covered = recent.seconds >= MOST * window.as_secs_f64();
    let datagrams = recent.datagram_share(direction);
    // Datagrams that pass all the time belong to something that lasts.
    let lasting = facts
        .long_flow_share
        .is_none_or(|share| share * (1.0 - datagrams) + datagrams >= thresholds.bulk_long_flow_share);
    // What fills its own buffer has enough under way, also where no round trip tells how much.
    let under_way = activity.segments >= thresholds.bulk_in_flight_segments
        || (facts.fills && recent.load_bytes[direction] > recent.composition[direction].ack);
    let is_active = activity.active_share >= thresholds.bulk_active_share;
    let steady = is_active && under_way && lasting;
    let held_back = || lasting && facts.opposed && is_held_back(scene, direction);
    activity.demand = match before {
        _ if covered && steady => demand(scene, direction, before, facts, datagrams),
        // Nobody looked for a while: what was wanted before is wanted still, as far as was seen.
        Demand::Bulk | Demand::Application(_) | Demand::Untold if !covered && steady => before,
        Demand::HeldBack if !covered && held_back() => before,
        _ if covered && held_back() => Demand::HeldBack,
        // No round trip tells how much is under way, and nobody knows that it leaves the buffer at once. Of datagrams one may be of another time: QUIC that does
        // not spin is timed when it opens, before its own queue.
        _ if covered && is_active && !facts.level_known && (datagrams > HALF || is_untimed(&recent)) => {
            Demand::Untold
        }
        _ if covered && !facts.level_known && is_unseen(&recent, direction) => Demand::Untold,
        _ => Demand::None,
    };
    activity
}

fn is_untimed(recent: &Totals) -> bool {
    let (_, timed_seconds) = recent.round_trip;
    timed_seconds < HALF * recent.seconds
}

/// TCP data goes the other way, and nothing of this direction, not even ACKs: it passes elsewhere.
fn is_unseen(recent: &Totals, direction: Direction) -> bool {
    recent.wire_bytes[direction] == 0 && recent.data_segments[direction.opposite()] >= UNSEEN_SEGMENTS
}

/// Of traffic that is always under way.
fn demand(scene: Scene<'_>, direction: Direction, before: Demand, facts: Facts, datagrams: f64) -> Demand {
    let pace = Pace::of(scene, direction);
    let rate = pace.rate();
    let near = |capacity| rate >= MOST * capacity;
    // Datagrams that leave a queue that does not drain come faster than the link carries them, also while its rate is not known.
    if facts.fills
        || (datagrams > HALF && facts.stands)
        || (pace.is_known(scene.thresholds) && facts.capacity.is_some_and(near))
    {
        return Demand::Bulk;
    }
    match pace.application_limited(scene.thresholds) {
        Some(true) if facts.level_known || facts.capacity.is_some() => Demand::Application(rate),
        // A link that is full keeps the rate as steady as an application does.
        Some(true) => Demand::Untold,
        None => match before {
            // An application that was seen to set the pace still does while the rate stays near it.
            Demand::Application(pace)
                if (rate - pace).abs() <= scene.thresholds.application_limited_variation * pace =>
            {
                before
            }
            _ if datagrams <= HALF => Demand::Bulk,
            _ => Demand::Untold,
        },
        // An encoder changes its rate for its own reasons; a queue lowers it as the round trip grows.
        Some(false) if datagrams > HALF && !pace.is_opposed() => Demand::Untold,
        Some(false) => Demand::Bulk,
    }
}

/// TCP with a backlog of which much is lost. An interactive session sends small segments, and an idle one nothing.
fn is_held_back(scene: Scene<'_>, direction: Direction) -> bool {
    let Scene { history, thresholds, now, round_trip } = scene;
    // Timeouts double: a starving flow may be silent for many seconds.
    let horizon = thresholds.horizon(round_trip).max(RETRIES);
    let recent = history.since(now.saturating_sub(horizon));
    let full = HALF * thresholds.segment_bytes;
    let (mut seconds, mut with_data) = (0.0, 0.0);
    let mut sum = Totals::default();
    for (_, slot) in history.slots_since(now.saturating_sub(horizon)) {
        sum += slot;
        if sum.seconds + 1e-9 < 1.0 {
            continue;
        }
        seconds += sum.seconds;
        if sum.data_bytes[direction] > 0 {
            with_data += sum.seconds;
        }
        sum = Totals::default();
    }
    recent.mean_segment(direction).is_some_and(|bytes| bytes >= full)
        && recent.retransmitted_share(direction) >= LOSS
        && seconds > 0.0
        && (with_data >= HALF * seconds || recent.active_share(direction) >= HALF)
}

/// Throughput against RTT, newest first, in bins of a second or an RTT.
#[derive(Default)]
struct Pace(Moments);

impl Pace {
    fn of(scene: Scene<'_>, direction: Direction) -> Self {
        let Scene { history, thresholds, now, round_trip } = scene;
        let bin = round_trip.max(Duration::from_secs(1)).as_secs_f64();
        let mut pace = Self::default();
        let mut sum = Totals::default();
        for (_, slot) in history.slots_since(now.saturating_sub(thresholds.horizon(round_trip))) {
            sum += slot;
            if sum.seconds + 1e-9 < bin {
                continue;
            }
            // Newest first: what lies before the transfer began says nothing about it.
            if sum.active_share(direction) < HALF {
                break;
            }
            let Some(round_trip) = sum.mean_round_trip() else { break };
            pace.0.add([sum.load_rate(direction), round_trip], 1.0);
            sum = Totals::default();
        }
        pace
    }

    /// Its mean; 0 if nothing is known.
    fn rate(&self) -> f64 {
        self.0.mean().map_or(0.0, |[rate, _]| rate)
    }

    /// As many bins as round trips are evidence.
    fn is_known(&self, thresholds: &Thresholds) -> bool {
        self.0.weight() >= thresholds.evidence_round_trips
    }

    /// A window-limited flow has `X = cwnd/RTT`: when the opposite queue grows or falls, X moves. An application-limited
    /// one keeps X while its window follows the RTT. `None` if the RTT did not move enough to tell.
    fn application_limited(&self, thresholds: &Thresholds) -> Option<bool> {
        let [rate, round_trip] = self.0.variation().filter(|_| self.is_known(thresholds))?;
        (round_trip >= SLIGHT).then_some(rate < thresholds.application_limited_variation * round_trip)
    }

    /// Held back by a queue: the rate falls as the round trip grows.
    fn is_opposed(&self) -> bool {
        self.0.correlation().is_some_and(|correlation| correlation <= -HALF)
    }
}

#[cfg(test)]
mod tests;
