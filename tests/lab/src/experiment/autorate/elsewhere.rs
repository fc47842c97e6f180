//! A bottleneck that is not the line: beyond it, in the home, or both. The shaper must leave the line's rate alone.

use std::time::{Duration, Instant};

use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::segment::{Direction, PerDirection};
use serde_json::{Value, json};

use super::{AutorateBench, ours};
use crate::capacity::Pattern;
use crate::experiment::mitigations::{Ours, OursError};
use crate::experiment::report::align_figures as align;
use crate::experiment::{ExperimentError, OwnCase};
use crate::lab::{Lab, Traces};
use crate::shaper::Shaper;
use crate::topology::{ENDPOINT_DEVICE, Role};
use crate::traffic::{Ends, Prepared, TransferSpec};

/// Its name for `--only`.
pub(super) const NAME: &str = "elsewhere";
/// Bits per second.
const LINE: u64 = 10_000_000;
/// What the line carries in frames is a little less than the shaper's bytes of IP packets.
const FAR: u64 = LINE / 10;
/// Half a second.
const FAR_BUFFER: u64 = FAR / 8 / 2;
/// The second transfer starts then, both are measured from the second time on, and the case ends at the third.
const SECOND: Duration = Duration::from_secs(8);
const BOTH: Duration = Duration::from_secs(11);
pub(super) const LENGTH: Duration = Duration::from_secs(24);
const READING: Duration = Duration::from_millis(250);

/// Where the slow transfer's bottleneck is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlowPlace {
    Beyond,
    Home,
    Both,
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elsewhere {
    place: SlowPlace,
    slow_first: bool,
    timestamps: bool,
}

impl Elsewhere {
    /// All of them; the short form has only the far bottleneck with the slow transfer first.
    pub(super) fn all(quick: bool) -> Vec<Self> {
        let mut all = Vec::new();
        for place in [SlowPlace::Beyond, SlowPlace::Home, SlowPlace::Both] {
            for slow_first in [true, false] {
                for timestamps in [true, false] {
                    if !quick || (place == SlowPlace::Beyond && slow_first) {
                        all.push(Self { place, slow_first, timestamps });
                    }
                }
            }
        }
        all
    }

    fn name(self) -> String {
        let place = match self.place {
            SlowPlace::Beyond => "beyond",
            SlowPlace::Home => "home",
            SlowPlace::Both => "both",
        };
        let order = if self.slow_first { "slow first" } else { "slow second" };
        format!("{place}, {order}, {} timestamps", if self.timestamps { "with" } else { "without" })
    }

    fn prepare(self, lab: &Lab) -> Result<(), ExperimentError> {
        let Some(rate) = Rate::from_bits_per_second(FAR) else { return Ok(()) };
        let slow = Shaper { rate, buffer: BufferSize::Bytes(FAR_BUFFER) };
        if self.place != SlowPlace::Home {
            slow.install(&lab.host(Role::U1), ENDPOINT_DEVICE)?;
        }
        if self.place != SlowPlace::Beyond {
            slow.install(&lab.host(Role::Switch), "p2")?;
        }
        if !self.timestamps {
            lab.host(Role::D1).set_sysctl("net.ipv4.tcp_timestamps", "0")?;
        }
        Ok(())
    }

    /// Runs it.
    pub(super) fn run(self, bench: &mut AutorateBench<'_>) -> Result<OwnCase, ExperimentError> {
        let trace = || -> Result<_, ExperimentError> {
            let rate = Rate::from_bits_per_second(LINE).map(Pattern::Constant);
            Ok(rate.map(Pattern::trace).transpose()?.map(std::sync::Arc::new))
        };
        let known = super::Known { mean: LINE as f64, low: LINE as f64, high: LINE as f64 };
        let spec = super::link(PerDirection { up: known, down: known });
        let case = OwnCase {
            name: self.name(),
            params: json!({"trace": NAME, "contender": "ours", "line_bps": LINE, "slow_bps": FAR})
                .as_object()
                .cloned()
                .unwrap_or_default(),
            paper: Value::Null,
            ..OwnCase::default()
        };
        let lab = Lab::start_with(spec, Traces { up: trace()?, down: trace()? })?;
        self.prepare(&lab)?;
        let running = match ours::start_known(&lab, bench.options.agent.as_deref()) {
            Ok(running) => running,
            Err(OursError::NotRunnable(reason)) => {
                bench.done += 1;
                return Ok(OwnCase { not_runnable: Some(reason), ..case });
            }
            Err(OursError::Failed(error)) => return Err(error),
        };
        let measured = {
            let step = bench.step(self.name());
            self.measure(&lab, &running, bench, &step)?
        };
        bench.done += 1;
        let (agent, shape) = running.finish()?;
        Ok(OwnCase { measured, agent, truth: json!({"shape": shape}), ..case })
    }

    fn measure(
        self,
        lab: &Lab,
        running: &Ours,
        bench: &AutorateBench<'_>,
        step: &dyn Fn(Duration),
    ) -> Result<Value, ExperimentError> {
        let transfer = |slow: bool| -> Result<Prepared, ExperimentError> {
            let (internet, home) = if slow { (Role::U1, Role::U2) } else { (Role::D1, Role::D2) };
            let spec =
                TransferSpec { ends: Ends { internet, home }, ..TransferSpec::new(Direction::Down, LENGTH) };
            Ok(Prepared::new(lab, spec)?)
        };
        let (first, second) = (transfer(self.slow_first)?, transfer(!self.slow_first)?);
        let began = lab.restart_traces();
        let first = first.start()?;
        let mut waiting = Some(second);
        let mut running_second = None;
        let (mut rates, mut carried) = (Vec::new(), None);
        for tick in 1.. {
            bench.options.interrupt.sleep_until(began + READING * tick)?;
            let at = began.elapsed();
            if at >= SECOND
                && let Some(second) = waiting.take()
            {
                running_second = Some(second.start()?);
            }
            let bytes = lab.link_reading(Direction::Down).map_or(0, |reading| reading.delivered_bytes);
            if at >= BOTH {
                rates.extend(running.shape()?["downlink"]["rate_bps"].as_f64());
                carried.get_or_insert((Instant::now(), bytes));
            }
            step(at);
            if at >= LENGTH {
                let (since, before) = carried.unwrap_or((began, 0));
                drop((first, running_second));
                let seconds = since.elapsed().as_secs_f64();
                return Ok(summary(&rates, bytes.saturating_sub(before) as f64 * 8.0 / seconds));
            }
        }
        Ok(Value::Null)
    }
}

fn summary(rates: &[f64], carried_bps: f64) -> Value {
    let share = |bps: f64| bps / LINE as f64;
    let least = rates.iter().copied().fold(f64::MAX, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    json!({
        "rate_least": share(least),
        "rate_mean": share(mean),
        "rate_most": share(most),
        "carried": share(carried_bps),
    })
}

/// Text of all cases.
pub(super) fn table(cases: &[OwnCase]) -> String {
    let heading = ["a bottleneck of a tenth, 10 Mb/s", "rate least %", "mean", "most", "carried %"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for case in cases.iter().filter(|case| case.not_runnable.is_none()) {
        let figure = |name: &str| {
            case.measured[name].as_f64().map_or_else(|| "–".to_owned(), |it| format!("{:.1}", 100.0 * it))
        };
        let figures = ["rate_least", "rate_mean", "rate_most", "carried"].map(figure);
        rows.push([case.name.clone()].into_iter().chain(figures).collect());
    }
    let mut text = align(&rows);
    for case in cases {
        if let Some(reason) = &case.not_runnable {
            text.push_str(&format!("{}: not runnable here: {reason}\n", case.name));
        }
    }
    text.push_str("of the line, from 3 s after the second transfer's start on\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_order_and_clock_is_a_case() {
        let names: std::collections::BTreeSet<String> =
            Elsewhere::all(false).into_iter().map(Elsewhere::name).collect();
        assert_eq!((names.len(), Elsewhere::all(true).len()), (12, 2));
    }

    #[test]
    fn rates_are_shares_of_the_line() {
        let text = summary(&[8e6, 10e6], 9e6);
        assert_eq!((text["rate_least"].as_f64(), text["carried"].as_f64()), (Some(0.8), Some(0.9)));
        assert_eq!(text["rate_mean"], 0.9);
    }
}
