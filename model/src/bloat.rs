//! Bufferbloat: a queue that never drains, whoever fills it. A finding of its own, since it hurts voice, games and pages
//! also where the verdict is that nothing starves.
//!
//! A standing queue is what even the luckiest packet of a round trip waits for. Bursts, pages and calls below the link's
//! rate leave none, and a queue that is managed (fq_codel, cake) one of some milliseconds.

use std::time::Duration;

use serde::Serialize;

use crate::findings::Figure;
use crate::history::{History, Totals};
use crate::segment::Direction;
use crate::thresholds::Thresholds;
use crate::traffic_mix::{self, Cause, Kind};

/// It begins once the delay has been above the threshold for this share of the evidence time …
const BEGIN: f64 = 0.9;

/// … and ends once it has been for less than this share of twice that time.
const END: f64 = 0.3;

/// A buffer that does not drain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bufferbloat {
    /// Since when, seconds on the samples' clock.
    pub since_s: f64,
    /// What even the luckiest packet waits, seconds: mean over the evidence time.
    pub delay_s: f64,
    /// What fills the buffer most; `None` if the kinds are not known.
    pub cause: Option<Cause>,
    /// What helps, one sentence.
    pub help: &'static str,
}

/// Whether a direction has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Bloat {
    #[default]
    Absent,
    Present(Bufferbloat),
}

/// What to report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BufferbloatNews {
    Begins(Bufferbloat, String, Vec<Figure>),
    Ends(String, Vec<Figure>),
}

impl Bloat {
    pub(crate) fn get(self) -> Option<Bufferbloat> {
        match self {
            Self::Absent => None,
            Self::Present(found) => Some(found),
        }
    }

    /// Looks at the past of one direction's buffer; tells what has changed.
    pub(crate) fn consider(
        &mut self,
        history: &History,
        thresholds: &Thresholds,
        direction: Direction,
        now: Duration,
        round_trip: Duration,
    ) -> Option<BufferbloatNews> {
        let evidence = thresholds.evidence_time(round_trip);
        let recent = history.since(now.saturating_sub(evidence));
        let share = recent.delayed_share(direction);
        match self {
            Self::Absent => {
                let covered = recent.seconds >= BEGIN * evidence.as_secs_f64();
                if !covered || share < BEGIN {
                    return None;
                }
                let since_s = now.saturating_sub(evidence).as_secs_f64();
                let found = Bufferbloat::of(&recent, direction, since_s)?;
                *self = Self::Present(found);
                let figures = found.figures(&recent, thresholds, direction, share, BEGIN);
                Some(BufferbloatNews::Begins(found, found.sentence(direction), figures))
            }
            Self::Present(found) => {
                let longer = history.since(now.saturating_sub(2 * evidence));
                let share = longer.delayed_share(direction);
                if longer.seconds > 0.0 && share < END {
                    *self = Self::Absent;
                    let reason = format!("the {}link's buffer drains again", direction.name());
                    let figures = vec![Figure::against(share_name(direction), share, END)];
                    return Some(BufferbloatNews::Ends(reason, figures));
                }
                // The figures of the last time it stood.
                if share >= BEGIN
                    && let Some(fresh) = Bufferbloat::of(&recent, direction, found.since_s)
                {
                    *found = fresh;
                }
                None
            }
        }
    }
}

impl Bufferbloat {
    fn of(recent: &Totals, direction: Direction, since_s: f64) -> Option<Self> {
        let cause = Cause::of(&recent.composition[direction]);
        let delay_s = recent.delay[direction].mean()?;
        Some(Self { since_s, delay_s, cause, help: help(direction, cause) })
    }

    fn sentence(&self, direction: Direction) -> String {
        let cause = self.cause.map_or(String::new(), |cause| format!("; {}", cause.sentence(direction)));
        format!(
            "all traffic into the {}link waits {:.0} ms in a buffer that never drains{cause}; {}",
            direction.name(),
            self.delay_s * 1e3,
            self.help
        )
    }

    fn figures(
        &self,
        recent: &Totals,
        thresholds: &Thresholds,
        direction: Direction,
        share: f64,
        least: f64,
    ) -> Vec<Figure> {
        let delay = match direction {
            Direction::Up => "uplink_delay_s",
            Direction::Down => "downlink_delay_s",
        };
        let mut figures = vec![
            Figure::against(delay, self.delay_s, thresholds.bufferbloat_delay.seconds()),
            Figure::against(share_name(direction), share, least),
        ];
        figures.extend(traffic_mix::figures(&recent.composition[direction], direction));
        figures
    }
}

const fn share_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "uplink_delayed_share",
        Direction::Down => "downlink_delayed_share",
    }
}

const fn help(direction: Direction, cause: Option<Cause>) -> &'static str {
    match (direction, cause) {
        (Direction::Up, Some(Cause { kind: Kind::Ack, .. })) => {
            "thin the ACKs and shape the uplink slightly below its rate: cake with ack-filter, or [shape]"
        }
        (Direction::Up, _) => "shape the uplink slightly below its rate on the gateway: cake, or [shape]",
        (Direction::Down, _) => {
            "shape the downlink slightly below its rate on the gateway: cake on an ifb, or [shape]"
        }
    }
}

#[cfg(test)]
mod tests;
