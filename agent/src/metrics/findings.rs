//! What the detector says: phase, verdict, swing, ratio, advice, and what a lock or unfairness costs.

use std::fmt::Result;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pendulum_model::degree::Severity;
use pendulum_model::findings::{FindingKind, Phase, Verdict};
use pendulum_model::segment::Direction;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, Samples};
use crate::snapshot::{Board, Findings, ShapeState};

const PHASE: Family = Family::gauge(
    "pendulum_phase",
    None,
    "1 for the phase that holds, 0 for the others: which buffer holds a standing queue. All 0 while unknown.",
);
const PHASE_SECONDS: Family =
    Family::counter("pendulum_phase_seconds_total", Some("seconds"), "Time spent in the phase.");
const TRANSITIONS: Family =
    Family::counter("pendulum_phase_transitions_total", None, "Changes from one phase to another.");
const VERDICT: Family =
    Family::gauge("pendulum_verdict", None, "1 for the verdict that holds, 0 for the others.");
const PERIOD: Family = Family::gauge(
    "pendulum_swing_period_seconds",
    Some("seconds"),
    "Period of the swing between both buffers; absent while there is none.",
);
const CORRELATION: Family = Family::gauge(
    "pendulum_queue_correlation",
    None,
    "Correlation of both queues, -1 to 1; absent while one of them cannot be seen or does not move.",
);
const RATIO: Family = Family::gauge(
    "pendulum_throughput_ratio",
    None,
    "Download over upload throughput: measured, and predicted by the model for this link's buffers; absent where there \
     is none.",
);
const ADVISED: Family = Family::gauge(
    "pendulum_advised_buffer_bytes",
    Some("bytes"),
    "Buffer size that lets both directions be full; absent until the link's rates and round trip are known.",
);
const SEVERITY: Family = Family::gauge(
    "pendulum_severity",
    None,
    "How urgent the verdict is, by what is lost and by the standing delay: 0 information, 1 warning, 2 critical.",
);
const LOST_RATIO: Family = Family::gauge(
    "pendulum_lost_ratio",
    Some("ratio"),
    "Share of a direction's rate that it loses because the other one's buffer is full; absent if no buffer is full alone or the rate is \
     unknown.",
);
const VERDICT_SINCE: Family = Family::gauge(
    "pendulum_verdict_since_timestamp_seconds",
    Some("seconds"),
    "Since when the verdict has held, in seconds since the Unix epoch.",
);
const STANDING_DELAY: Family = Family::gauge(
    "pendulum_queue_standing_delay_seconds",
    Some("seconds"),
    "Delay that every packet waits in the buffer; absent while unknown.",
);
const LOST: Family = Family::gauge(
    "pendulum_lost_bytes_per_second",
    Some("bytes_per_second"),
    "Capacity that a direction cannot use because the other one's buffer never empties; 0 unless the verdict is locked; \
     absent while it is locked and the capacity is unknown.",
);
/// The name that [`LOST`] had; release 0.2 does without.
const LOST_OLD: Family = Family::gauge(
    "pendulum_starved_bytes_per_second",
    Some("bytes_per_second"),
    "Deprecated, removed with release 0.2: the old name of pendulum_lost_bytes_per_second.",
);
const FINDING: Family = Family::gauge(
    "pendulum_finding",
    None,
    "1 while the finding holds, else 0: rtt_unfairness, near flows take more than their part from far ones; \
     bufferbloat, the buffer never drains and makes everything wait; shaping_not_helping, the shaper's comparison (ab-test) shows no gain, or harm; \
     shaping_ineffective, packets wait behind the shaper; home_bloat, packets wait at home, and beyond_bloat, beyond the line; sender_limited and receiver_limited, a slow transfer although packets wait \
     nowhere (direction of the last four is always down).",
);
const NEAR_FAR: Family = Family::gauge(
    "pendulum_near_far_throughput_ratio",
    Some("ratio"),
    "Throughput of a flow with a short round trip over that of one with a long round trip; absent unless there are both.",
);

/// When the kernel's monotonic clock was zero, since the Unix epoch. It is kept as long as it is right to a second: so what was long ago
/// has one time in every scrape, and the right one once the wall clock was set.
#[derive(Debug, Default)]
struct Boot(Mutex<Option<Duration>>);

impl Boot {
    const SLACK: Duration = Duration::from_secs(1);

    fn at(&self, wall: Duration, monotonic: Duration) -> Duration {
        let found = wall.saturating_sub(monotonic);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let boot = kept.filter(|kept| kept.abs_diff(found) <= Self::SLACK).unwrap_or(found);
        *kept = Some(boot);
        boot
    }
}

#[derive(Debug)]
pub(super) struct Judgements {
    board: Board,
    boot: Boot,
}

impl Judgements {
    pub(super) fn new(board: Board) -> Self {
        Self { board, boot: Boot::default() }
    }
}

/// A link's name and what is said about it.
type LinkFindings = (Arc<str>, Arc<Findings>);

impl Collector for Judgements {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        let links: Vec<LinkFindings> = self
            .board
            .snapshots()
            .iter()
            .filter_map(|link| Some((Arc::clone(&link.name), link.findings.clone()?)))
            .collect();
        let all = self.board.snapshots();
        let encoder = &mut encoder;
        PHASE.write(encoder, |samples| phases(samples, &links))?;
        PHASE_SECONDS.write(encoder, |samples| {
            each(&links, |link, findings| {
                Phase::ALL.into_iter().zip(findings.phase_seconds).try_for_each(|(phase, seconds)| {
                    samples.counter([("link", link), ("phase", phase.name())], seconds)
                })
            })
        })?;
        TRANSITIONS.write(encoder, |samples| transitions(samples, &links))?;
        VERDICT.write(encoder, |samples| {
            each(&links, |link, findings| {
                Verdict::ALL.into_iter().try_for_each(|verdict| {
                    let holds = u32::from(findings.verdict == verdict);
                    samples.gauge([("link", link), ("verdict", verdict.name())], holds)
                })
            })
        })?;
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let boot = self.boot.at(wall, crate::bpf::monotonic());
        VERDICT_SINCE.write(encoder, |samples| {
            each(&links, |link, findings| {
                samples.gauge([("link", link)], (boot + findings.verdict_since).as_secs_f64())
            })
        })?;
        let mut figure = |family: &Family, of: fn(&Findings) -> Option<f64>| {
            family.write(encoder, |samples| {
                each(&links, |link, findings| {
                    of(findings).map_or(Ok(()), |value| samples.gauge([("link", link)], value))
                })
            })
        };
        figure(&SEVERITY, severity)?;
        figure(&LOST_RATIO, |findings| findings.sent.lost_ratio)?;
        figure(&PERIOD, |findings| findings.sent.swing_period_s)?;
        figure(&CORRELATION, |findings| findings.sent.queue_correlation)?;
        RATIO.write(encoder, |samples| {
            each(&links, |link, findings| {
                let Some(ratio) = &findings.sent.throughput_ratio else { return Ok(()) };
                let kinds = [("measured", ratio.measured), ("predicted", ratio.predicted)];
                kinds.into_iter().try_for_each(|(kind, ratio)| {
                    ratio.map_or(Ok(()), |ratio| samples.gauge([("link", link), ("kind", kind)], ratio))
                })
            })
        })?;
        let mut both = |family: &Family, of: fn(&Findings, Direction) -> Option<f64>| {
            family.write(encoder, |samples| {
                each(&links, |link, findings| {
                    Direction::ALL.into_iter().try_for_each(|x| {
                        let labels = [("link", link), ("direction", x.name())];
                        of(findings, x).map_or(Ok(()), |value| samples.gauge(labels, value))
                    })
                })
            })
        };
        both(&ADVISED, advised)?;
        both(&STANDING_DELAY, |findings, x| findings.sent.standing_delay_s[x])?;
        both(&LOST, lost)?;
        both(&LOST_OLD, lost)?;
        both(&NEAR_FAR, |findings, x| {
            findings.sent.round_trip_classes[x].map(|classes| classes.near_far_ratio)
        })?;
        FINDING.write(encoder, |samples| {
            each(&links, |link, findings| {
                Direction::ALL.into_iter().try_for_each(|x| {
                    let sent = &findings.sent;
                    let of = |finding| [("link", link), ("direction", x.name()), ("finding", finding)];
                    samples.gauge(
                        of("rtt_unfairness"),
                        u32::from(sent.unfair.is_some_and(|unfair| unfair[x])),
                    )?;
                    samples.gauge(of("bufferbloat"), u32::from(sent.bufferbloat[x].is_some()))
                })
            })?;
            all.iter().try_for_each(|link| {
                let of = |finding| [("link", &*link.name), ("direction", "up"), ("finding", finding)];
                if let Some(delay) = &link.delay {
                    for (finding, holds) in [
                        (FindingKind::HomeBloat, delay.home_bloat.is_some()),
                        (FindingKind::BeyondBloat, delay.beyond_bloat.is_some()),
                        (FindingKind::SenderLimited, delay.sender_limited.is_some()),
                        (FindingKind::ReceiverLimited, delay.receiver_limited.is_some()),
                    ] {
                        let labels =
                            [("link", &*link.name), ("direction", "down"), ("finding", finding.name())];
                        samples.gauge(labels, u32::from(holds))?;
                    }
                }
                // Of links whose shaping is being compared, and of those that are being shaped.
                if link.shape.ab_test.is_some() {
                    samples.gauge(of("shaping_not_helping"), u32::from(link.shape.is_doubted))?;
                }
                if link.shape.state.shapes() {
                    let fails = link.shape.state == ShapeState::Ineffective;
                    samples.gauge(of("shaping_ineffective"), u32::from(fails))?;
                }
                Ok(())
            })
        })
    }
}

fn each(links: &[LinkFindings], mut write: impl FnMut(&str, &Findings) -> Result) -> Result {
    links.iter().try_for_each(|(link, findings)| write(link, findings))
}

fn phases(samples: &mut Samples<'_>, links: &[LinkFindings]) -> Result {
    each(links, |link, findings| {
        let current = findings.phase.map(|(phase, _)| phase);
        Phase::ALL.into_iter().try_for_each(|phase| {
            samples.gauge([("link", link), ("phase", phase.name())], u32::from(current == Some(phase)))
        })
    })
}

fn transitions(samples: &mut Samples<'_>, links: &[LinkFindings]) -> Result {
    each(links, |link, findings| {
        Phase::ALL.into_iter().try_for_each(|from| {
            Phase::ALL.into_iter().filter(|to| *to != from).try_for_each(|to| {
                let count = findings.phase_transitions[from as usize][to as usize];
                samples.counter([("link", link), ("from", from.name()), ("to", to.name())], count)
            })
        })
    })
}

/// Its place in the order of severities.
fn severity(findings: &Findings) -> Option<f64> {
    Severity::named(findings.sent.severity.as_deref()?).map(|severity| f64::from(severity as u8))
}

/// Capacity of a direction that it cannot use because the other buffer never empties, bytes per second; 0 unless the verdict says so, `None` if it
/// does and the capacity is not known.
fn lost(findings: &Findings, direction: Direction) -> Option<f64> {
    match (findings.verdict, direction) {
        (Verdict::LockedUplink, Direction::Down) | (Verdict::LockedDownlink, Direction::Up) => {
            findings.sent.evidence.as_ref()?.figure("lost_bytes_per_second")
        }
        _ => Some(0.0),
    }
}

fn advised(findings: &Findings, direction: Direction) -> Option<f64> {
    let advice = findings.sent.advice.as_ref()?;
    Some(direction.pick(advice.uplink_buffer_bytes as f64, advice.downlink_buffer_bytes as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_stands_still_until_the_clock_is_set() {
        let boot = Boot::default();
        let ms = Duration::from_millis;
        assert_eq!(boot.at(ms(50_000), ms(10_000)), ms(40_000));
        // The two clocks are not read at the same moment.
        assert_eq!(boot.at(ms(60_003), ms(20_000)), ms(40_000));
        assert_eq!(boot.at(ms(900_000), ms(30_000)), ms(870_000));
        assert_eq!(boot.at(ms(900_999), ms(31_000)), ms(870_000));
    }
}
