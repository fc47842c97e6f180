//! Bufferbloat: a queue that never drains, whoever fills it. A finding of its own, since it hurts voice, games and pages
//! also where the verdict is that nothing starves.
//!
//! A standing queue is what even the luckiest packet of a round trip waits for. Bursts, pages and calls below the link's
//! rate leave none, and a queue that is managed (fq_codel, cake) one of some milliseconds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Name;
use crate::constants::NEARLY_ALL;
use crate::findings::Figure;
use crate::history::{History, Totals};
use crate::segment::Direction;
use crate::thresholds::Thresholds;
use crate::traffic_mix::{self, Cause, Kind};

/// It begins once the delay has been above the threshold for [`NEARLY_ALL`] of the evidence time, and ends once it has been for less than this
/// share of twice that time.
const END: f64 = 0.3;

/// A buffer that never drains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bufferbloat {
    /// Since when, on the kernel's monotonic clock.
    pub since_s: f64,
    /// Delay that every packet waits.
    pub delay_s: f64,
    /// The buffer's main traffic; `null` if unknown.
    pub cause: Option<Cause>,
    /// What helps, one sentence.
    pub help: Name,
}

/// Whether a direction has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bloat(Option<Bufferbloat>);

/// What to report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BufferbloatNews {
    Begins(f64, String, Vec<Figure>),
    Ends(String, Vec<Figure>),
}

impl Bloat {
    pub(crate) fn get(&self) -> Option<&Bufferbloat> {
        self.0.as_ref()
    }

    /// Looks at the past of one direction's buffer; tells what has changed. `may_be_beyond`: a queue beyond the line looks the same.
    pub(crate) fn consider(
        &mut self,
        history: &History,
        thresholds: &Thresholds,
        direction: Direction,
        now: Duration,
        round_trip: Duration,
        may_be_beyond: bool,
    ) -> Option<BufferbloatNews> {
        let evidence = thresholds.evidence_time(round_trip);
        let recent = history.since(now.saturating_sub(evidence));
        let share = recent.delayed_share(direction);
        match &mut self.0 {
            None => {
                let covered = recent.seconds >= NEARLY_ALL * evidence.as_secs_f64();
                if !covered || share < NEARLY_ALL {
                    return None;
                }
                let since_s = now.saturating_sub(evidence).as_secs_f64();
                let found = Bufferbloat::of(&recent, direction, since_s, may_be_beyond)?;
                let figures = found.figures(&recent, thresholds, direction, share, NEARLY_ALL);
                let reason = found.sentence(&recent, direction);
                self.0 = Some(found);
                Some(BufferbloatNews::Begins(since_s, reason, figures))
            }
            Some(found) => {
                let longer = history.since(now.saturating_sub(2 * evidence));
                let share = longer.delayed_share(direction);
                if longer.seconds > 0.0 && share < END {
                    self.0 = None;
                    let reason = format!("the {}link's buffer drains again", direction.name());
                    let figures = vec![Figure::against(share_name(direction), share, END)];
                    return Some(BufferbloatNews::Ends(reason, figures));
                }
                // The figures of the last time it stood.
                if share >= NEARLY_ALL
                    && let Some(fresh) = Bufferbloat::of(&recent, direction, found.since_s, may_be_beyond)
                {
                    *found = fresh;
                }
                None
            }
        }
    }
}

impl Bufferbloat {
    fn of(recent: &Totals, direction: Direction, since_s: f64, may_be_beyond: bool) -> Option<Self> {
        let largest = traffic_mix::largest(&recent.composition[direction]);
        let cause = largest.map(|(kind, share)| Cause { kind: kind.name().into(), share });
        let delay_s = recent.delay[direction].mean()?;
        let help =
            if may_be_beyond { FIND_THE_PLACE } else { help(direction, largest.map(|(kind, _)| kind)) };
        Some(Self { since_s, delay_s, cause, help: help.into() })
    }

    fn sentence(&self, recent: &Totals, direction: Direction) -> String {
        let cause = traffic_mix::main_traffic(&recent.composition[direction], direction);
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
        let delay = direction.pick("uplink_delay_s", "downlink_delay_s");
        let mut figures = vec![
            Figure::against(delay, self.delay_s, thresholds.bufferbloat_delay.seconds()),
            Figure::against(share_name(direction), share, least),
        ];
        figures.extend(traffic_mix::figures(&recent.composition[direction], direction));
        figures
    }
}

const fn share_name(direction: Direction) -> &'static str {
    direction.pick("uplink_delayed_share", "downlink_delayed_share")
}

/// What helps while a queue beyond the line looks the same.
const FIND_THE_PLACE: &str =
    "it may wait beyond the line: configure the rates, or open a page of another host";

const fn help(direction: Direction, largest: Option<Kind>) -> &'static str {
    match (direction, largest) {
        (Direction::Up, Some(Kind::Ack)) => {
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
