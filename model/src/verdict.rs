//! The rules that turn what was seen into one verdict, each with its figures. No state: see [`crate::detector`].

use crate::activity::Activity;
use crate::compression::ack_compression;
use crate::findings::{Figure, Phase, Verdict};
use crate::history::Totals;
use crate::rate::Rate;
use crate::segment::{Direction, PerDirection};
use crate::thresholds::Thresholds;

/// What the rules look at.
pub(crate) struct Circumstances<'a> {
    /// Since the two-way traffic began, at most one horizon back.
    pub(crate) recent: &'a Totals,
    /// `C_x`, bytes per second.
    pub(crate) capacity: PerDirection<Option<f64>>,
    /// Changes between case 1 and 2 in that time.
    pub(crate) switches: usize,
    pub(crate) period: Option<f64>,
    /// The verdict in force: it is given up less easily than it was reached.
    pub(crate) current: Option<Verdict>,
}

/// A verdict in force holds up to this much beyond its thresholds.
const HYSTERESIS: f64 = 0.3;

impl Circumstances<'_> {
    /// A threshold to be reached, eased for the verdict in force.
    fn at_least(&self, verdict: Verdict, threshold: f64) -> f64 {
        if self.current == Some(verdict) { threshold * (1.0 - HYSTERESIS) } else { threshold }
    }

    /// What the reason of a verdict says if it would no longer be reached.
    fn told(&self, held: bool) -> &'static str {
        if held { "; no longer beyond doubt, held by hysteresis" } else { "" }
    }

    /// A threshold not to be reached, likewise.
    fn below(&self, verdict: Verdict, threshold: f64) -> f64 {
        if self.current == Some(verdict) { threshold * (1.0 + HYSTERESIS) } else { threshold }
    }
}

/// A verdict and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ruling {
    pub(crate) verdict: Verdict,
    pub(crate) rule: &'static str,
    pub(crate) reason: String,
    pub(crate) figures: Vec<Figure>,
    /// A new verdict would not be reached by these figures: only the eased thresholds keep this one.
    pub(crate) held: bool,
}

/// Traffic that is not bulk in both directions.
pub(crate) fn judge_one_way(activity: &PerDirection<Activity>, thresholds: &Thresholds) -> Ruling {
    let bulk = Direction::ALL.into_iter().find(|&direction| activity[direction].bulk);
    let figures = Direction::ALL.into_iter().flat_map(|x| activity[x].figures(x, thresholds)).collect();
    match bulk {
        Some(direction) => {
            let other = direction.opposite();
            let why = match activity[other] {
                Activity { application_limited: Some(true), .. } => {
                    " (the other way is limited by its application)"
                }
                _ => "",
            };
            Ruling {
                verdict: Verdict::OneWay,
                rule: "bulk_data_one_way",
                reason: format!(
                    "bulk data goes {} only; a standing queue is normal then{why}",
                    direction.name()
                ),
                figures,
                held: false,
            }
        }
        None => Ruling {
            verdict: Verdict::Clear,
            rule: "no_bulk_data",
            reason: "no direction carries bulk data".to_owned(),
            figures,
            held: false,
        },
    }
}

/// Bulk traffic in both directions.
pub(crate) fn judge_two_way(seen: &Circumstances<'_>, thresholds: &Thresholds) -> Ruling {
    if let Some(figures) = ack_compression(seen.recent, thresholds) {
        return Ruling {
            verdict: Verdict::AckCompression,
            rule: "in_phase_with_long_ack_bursts",
            reason: "both queues move in phase and ACKs come in long bursts; rare, and of little effect on throughput"
                .to_owned(),
            figures,
            held: false,
        };
    }
    swinging(seen, thresholds)
        .or_else(|| locked(seen, thresholds, Direction::Up))
        .or_else(|| locked(seen, thresholds, Direction::Down))
        .unwrap_or_else(|| balanced(seen))
}

fn swinging(seen: &Circumstances<'_>, thresholds: &Thresholds) -> Option<Ruling> {
    let up = seen.recent.phase_share(Phase::UplinkBound);
    let down = seen.recent.phase_share(Phase::DownlinkBound);
    let share = seen.at_least(Verdict::Swinging, thresholds.swing_share);
    let switches = seen.at_least(Verdict::Swinging, thresholds.swing_switches as f64);
    if up.min(down) < share || (seen.switches as f64) < switches {
        return None;
    }
    let held = up.min(down) < thresholds.swing_share || seen.switches < thresholds.swing_switches;
    let mut figures = vec![
        Figure::against("uplink_bound_share", up, share),
        Figure::against("downlink_bound_share", down, share),
        Figure::against("switches", seen.switches as f64, switches),
    ];
    let period = seen.period.map_or(String::new(), |period| format!(" about every {period:.1} s"));
    figures.extend(seen.period.map(|period| Figure::new("swing_period_s", period)));
    figures.extend(seen.recent.queues.correlation().map(|value| Figure::new("queue_correlation", value)));
    Some(Ruling {
        verdict: Verdict::Swinging,
        rule: "cases_1_and_2_alternate",
        reason: format!(
            "the queue swings between both buffers{period}: only one direction is full at a time{}",
            seen.told(held)
        ),
        figures,
        held,
    })
}

/// `full`: the direction whose buffer never empties.
fn locked(seen: &Circumstances<'_>, thresholds: &Thresholds, full: Direction) -> Option<Ruling> {
    let (phase, verdict, share_name) = match full {
        Direction::Up => (Phase::UplinkBound, Verdict::LockedUplink, "uplink_bound_share"),
        Direction::Down => (Phase::DownlinkBound, Verdict::LockedDownlink, "downlink_bound_share"),
    };
    let starved = full.opposite();
    let share = seen.recent.phase_share(phase);
    let rate = seen.recent.data_rate(starved);
    let utilization = seen.capacity[starved].map(|capacity| rate / capacity);
    // Without a capacity: its buffer hardly ever held a whole segment over an RTT, so it was never full.
    let (enough, starving) = (
        seen.at_least(verdict, thresholds.locked_share),
        seen.below(verdict, thresholds.starved_utilization),
    );
    if share < enough || utilization.is_some_and(|part| part >= starving) {
        return None;
    }
    let held = share < thresholds.locked_share
        || utilization.is_some_and(|part| part >= thresholds.starved_utilization);
    let mut figures = vec![Figure::against(share_name, share, enough)];
    figures.extend(utilization.map(|part| Figure::against("starved_utilization", part, starving)));
    figures.push(Figure::new("starved_bytes_per_second", rate));
    let lost = seen.capacity[starved].map(|capacity| (capacity - rate).max(0.0));
    figures.extend(lost.map(|lost| Figure::new("lost_bytes_per_second", lost)));
    let cost = lost
        .and_then(|lost| Rate::from_bytes_per_second((lost / 125.0).round() * 125.0))
        .map_or(String::new(), |lost| format!(": {lost} of the {}link's rate stays unused", starved.name()));
    let (buffer, victims) = match full {
        Direction::Up => ("uplink", "downloads"),
        Direction::Down => ("downlink", "uploads"),
    };
    let empties = if held { "seldom empties" } else { "never empties" };
    Some(Ruling {
        verdict,
        rule: "one_buffer_never_empties",
        reason: format!("the {buffer} buffer {empties} and {victims} starve{cost}{}", seen.told(held)),
        figures,
        held,
    })
}

fn balanced(seen: &Circumstances<'_>) -> Ruling {
    let mut figures: Vec<Figure> = Vec::new();
    for (phase, name) in [
        (Phase::UplinkBound, "uplink_bound_share"),
        (Phase::DownlinkBound, "downlink_bound_share"),
        (Phase::Balanced, "balanced_share"),
    ] {
        figures.push(Figure::new(name, seen.recent.phase_share(phase)));
    }
    for (direction, name) in
        [(Direction::Up, "uplink_utilization"), (Direction::Down, "downlink_utilization")]
    {
        let rate = seen.recent.wire_rate(direction);
        figures.extend(seen.capacity[direction].map(|capacity| Figure::new(name, rate / capacity)));
    }
    Ruling {
        verdict: Verdict::Balanced,
        rule: "neither_locked_nor_swinging",
        reason: "bulk data goes both ways, and neither a lock nor a swing is found".to_owned(),
        figures,
        held: false,
    }
}
