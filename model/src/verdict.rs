//! The rules that turn what was seen into one verdict, each with its figures. No state: see [`crate::detector`].

use crate::activity::{Activity, Demand};
use crate::compression::ack_compression;
use crate::constants::{HALF, MOST};
use crate::findings::{Figure, Missing, Phase, Verdict};
use crate::history::Totals;
use crate::rate::in_words;
use crate::segment::{Direction, PerDirection};
use crate::thresholds::Thresholds;
use crate::traffic_mix;

/// What the rules look at.
pub(crate) struct Circumstances<'a> {
    /// Since both directions began to matter, at most one horizon back.
    pub(crate) recent: &'a Totals,
    /// What each direction wants.
    pub(crate) activity: PerDirection<Activity>,
    /// `C_x`, bytes per second.
    pub(crate) capacity: PerDirection<Option<f64>>,
    /// Changes between case 1 and 2 in that time.
    pub(crate) switches: usize,
    pub(crate) period: Option<f64>,
    /// What is not known at present.
    pub(crate) missing: &'a [Missing],
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
    fn tense(&self, held: bool) -> &'static str {
        if held { "; evidence now weaker" } else { "" }
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
    /// What was not known.
    pub(crate) missing: Vec<Missing>,
}

/// Traffic of which at most one direction wants more than it gets.
pub(crate) fn judge_one_way(seen: &Circumstances<'_>, thresholds: &Thresholds) -> Ruling {
    let activity = &seen.activity;
    let untold: Vec<Missing> = Direction::ALL
        .into_iter()
        .filter(|&x| activity[x].demand == Demand::Untold)
        .map(Missing::demand)
        .collect();
    if let Some(doubt) = doubt(seen, thresholds) {
        let missing: Vec<Missing> = untold.iter().chain(seen.missing).copied().collect();
        return undecided(&missing, &doubt);
    }
    let wanting = Direction::ALL.into_iter().find(|&direction| activity[direction].wants());
    let figures = Direction::ALL.into_iter().flat_map(|x| activity[x].figures(x, thresholds)).collect();
    match wanting {
        Some(direction) => {
            let why = match activity[direction.opposite()].demand {
                Demand::Application(_) => " (the other direction is limited by its application)",
                _ => "",
            };
            Ruling {
                verdict: Verdict::OneWay,
                rule: "bulk_data_one_way",
                reason: format!(
                    "bulk data goes {} only; a standing queue is normal then{why}{}",
                    direction.name(),
                    unknown(&untold),
                ),
                figures,
                held: false,
                missing: untold,
            }
        }
        None => Ruling {
            verdict: Verdict::Clear,
            rule: "no_bulk_data",
            reason: format!("no direction carries bulk data{}", unknown(&untold)),
            figures,
            held: false,
            missing: untold,
        },
    }
}

/// Why neither "one way" nor "clear" may be said: traffic of which nobody knows whether it wants more fills a buffer that is not seen, or gets
/// little beside one that stands.
fn doubt(seen: &Circumstances<'_>, thresholds: &Thresholds) -> Option<String> {
    Direction::ALL.into_iter().filter(|&x| seen.activity[x].demand == Demand::Untold).find_map(|x| {
        let recent = seen.recent;
        let is_seen = recent.wire_bytes[x] > 0;
        let is_known = is_seen && recent.delay[x].known_seconds >= MOST * recent.seconds;
        if !is_known {
            return Some(format!(
                "traffic goes {}, and whether its buffer holds a queue is unknown",
                x.name()
            ));
        }
        let other = x.opposite();
        let stands = recent.delayed_share(other) >= HALF;
        let loss = Loss::of(seen, thresholds, other);
        let gets_enough = loss.part.is_some_and(|part| part >= loss.least);
        (stands && !gets_enough).then(|| {
            format!(
                "the {}link holds a standing queue, and whether the other direction starves is unknown",
                other.name()
            )
        })
    })
}

/// Traffic in both directions, or a buffer that stands against one that wants more.
pub(crate) fn judge_two_way(seen: &Circumstances<'_>, thresholds: &Thresholds) -> Ruling {
    let both = Direction::ALL.into_iter().all(|x| seen.activity[x].wants());
    let known = is_case_known(seen.recent);
    let by_phases = || {
        compressed(seen, thresholds)
            .or_else(|| swinging(seen, thresholds))
            .or_else(|| locked(seen, thresholds, Direction::Up))
            .or_else(|| locked(seen, thresholds, Direction::Down))
    };
    (both && known)
        .then(by_phases)
        .flatten()
        .or_else(|| starving(seen, thresholds, Direction::Up))
        .or_else(|| starving(seen, thresholds, Direction::Down))
        .unwrap_or_else(|| match both {
            true if known => balanced(seen),
            true => undecided(seen.missing, "bulk data goes both ways, and which buffer holds it is unknown"),
            false => judge_one_way(seen, thresholds),
        })
}

/// Whether the case is known for enough of the time for a verdict that rests on it.
pub(crate) fn is_case_known(recent: &Totals) -> bool {
    recent.phase_seconds.iter().sum::<f64>() >= HALF * recent.seconds
}

/// What a reason adds if something is not known.
fn unknown(missing: &[Missing]) -> String {
    if missing.is_empty() {
        return String::new();
    }
    let words: Vec<&str> = missing.iter().map(|missing| missing.words()).collect();
    format!("; unknown: {}", words.join(", "))
}

fn compressed(seen: &Circumstances<'_>, thresholds: &Thresholds) -> Option<Ruling> {
    Some(Ruling {
        verdict: Verdict::AckCompression,
        rule: "in_phase_with_long_ack_bursts",
        reason:
            "both queues move in phase and ACKs come in long bursts; rare, and of little effect on throughput"
                .to_owned(),
        figures: ack_compression(seen.recent, thresholds)?,
        held: false,
        missing: Vec::new(),
    })
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
            seen.tense(held)
        ),
        figures,
        held,
        missing: Vec::new(),
    })
}

/// One buffer alone stands nearly all the time, and bulk data the other way gets little. `full`: its direction.
fn locked(seen: &Circumstances<'_>, thresholds: &Thresholds, full: Direction) -> Option<Ruling> {
    let share_name = full.pick("uplink_bound_share", "downlink_bound_share");
    let verdict = locks(full);
    let share = seen.recent.phase_share(Phase::alone(full));
    let enough = seen.at_least(verdict, thresholds.locked_share);
    // Without a capacity: its buffer hardly ever held a whole segment over an RTT, so it was never full.
    let loss = Loss::of(seen, thresholds, full);
    if share < enough || loss.part.is_some_and(|part| part >= loss.least) {
        return None;
    }
    let held = share < thresholds.locked_share || loss.is_held(thresholds);
    let empties = if held { "seldom empties" } else { "never empties" };
    let figures = vec![Figure::against(share_name, share, enough)];
    Some(loss.ruling(seen, figures, "one_buffer_never_empties", empties, held))
}

/// A queue stands above `bufferbloat-delay` for half of the time, whatever fills it, and the other direction wants more and
/// gets little. The case does not matter: ACKs alone may fill the buffer.
fn starving(seen: &Circumstances<'_>, thresholds: &Thresholds, full: Direction) -> Option<Ruling> {
    let (verdict, starved) = (locks(full), full.opposite());
    let name = full.pick("uplink_delayed_share", "downlink_delayed_share");
    let share = seen.recent.delayed_share(full);
    let enough = seen.at_least(verdict, HALF);
    let opposite = seen.recent.standing_share(starved).max(seen.recent.delayed_share(starved));
    // Above it both directions are full, or they swing.
    let least_opposite = seen.below(verdict, thresholds.swing_share);
    if !seen.activity[starved].wants() || share < enough || opposite >= least_opposite {
        return None;
    }
    let loss = Loss::of(seen, thresholds, full);
    let Some(part) = loss.part else {
        // Full by itself, or starved by the queue: only its rate would tell.
        let reason = format!(
            "the {}link holds a standing queue, and whether the other direction starves is unknown",
            full.name()
        );
        return Some(undecided(seen.missing, &reason));
    };
    if part >= loss.least {
        return None;
    }
    let held = share < HALF || opposite >= thresholds.swing_share || loss.is_held(thresholds);
    let mut figures = vec![Figure::against(name, share, enough)];
    let delay = full.pick("uplink_delay_s", "downlink_delay_s");
    figures.extend(seen.recent.delay[full].mean().map(|seconds| Figure::new(delay, seconds)));
    Some(loss.ruling(seen, figures, "standing_queue_starves", "holds a long queue", held))
}

const fn locks(full: Direction) -> Verdict {
    full.pick(Verdict::LockedUplink, Verdict::LockedDownlink)
}

/// What a standing queue costs the other direction.
struct Loss {
    full: Direction,
    /// What the other direction gets, bytes per second …
    rate: f64,
    /// … as part of its capacity, and what is lost of that, if it is known.
    part: Option<f64>,
    lost: Option<f64>,
    /// It starves below this part.
    least: f64,
}

impl Loss {
    fn of(seen: &Circumstances<'_>, thresholds: &Thresholds, full: Direction) -> Self {
        let starved = full.opposite();
        let rate = seen.recent.load_rate(starved);
        Self {
            full,
            rate,
            part: seen.capacity[starved].map(|capacity| rate / capacity),
            lost: seen.capacity[starved].map(|capacity| (capacity - rate).max(0.0)),
            least: seen.below(locks(full), thresholds.starved_utilization),
        }
    }

    fn is_held(&self, thresholds: &Thresholds) -> bool {
        self.part.is_some_and(|part| part >= thresholds.starved_utilization)
    }

    fn ruling(
        &self,
        seen: &Circumstances<'_>,
        mut figures: Vec<Figure>,
        rule: &'static str,
        stands: &str,
        held: bool,
    ) -> Ruling {
        let (full, starved) = (self.full, self.full.opposite());
        figures.extend(self.part.map(|part| Figure::against("starved_utilization", part, self.least)));
        figures.push(Figure::new("remaining_bytes_per_second", self.rate));
        // The name it had; release 0.2 does without.
        figures.push(Figure::new("starved_bytes_per_second", self.rate));
        figures.extend(self.lost.map(|lost| Figure::new("lost_bytes_per_second", lost)));
        let composition = &seen.recent.composition[full];
        figures.extend(traffic_mix::figures(composition, full));
        let cost = self.lost.filter(|lost| *lost > 0.0).map_or(String::new(), |lost| {
            format!(": {} of the {}link's rate stays unused", in_words(lost * 8.0), starved.name())
        });
        let cause = traffic_mix::main_traffic(composition, full);
        let (buffer, victims) = full.pick(("uplink", "downloads"), ("downlink", "uploads"));
        let missing: Vec<Missing> = match self.part {
            Some(_) => Vec::new(),
            None => vec![Missing::rate(starved)],
        };
        Ruling {
            verdict: locks(full),
            rule,
            reason: format!(
                "the {buffer} buffer {stands} and {victims} starve{cost}{cause}{}{}",
                seen.tense(held),
                unknown(&missing)
            ),
            figures,
            held,
            missing,
        }
    }
}

/// Bulk data has begun, too short a time ago to say more.
pub(crate) fn began(missing: &[Missing]) -> Ruling {
    undecided(missing, "bulk data began too short a time ago to know which buffer holds it")
}

/// What is known does not suffice.
fn undecided(missing: &[Missing], what: &str) -> Ruling {
    Ruling {
        verdict: Verdict::Unknown,
        rule: "evidence_missing",
        reason: format!("{what}{}", unknown(missing)),
        figures: Vec::new(),
        held: false,
        missing: missing.to_vec(),
    }
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
        missing: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
