//! The rates that the shaper finds, over time.

use pendulum_model::autorate::Decision;
use pendulum_model::segment::Direction;

use pendulum_wire::{Auto, Link, Shaped, StepAuto, TickAuto};

/// One direction at one moment, or over a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    /// Bits per second.
    pub(super) rate: f32,
    /// How long packets wait behind the shaper, seconds; `None`: not known.
    pub(super) wait: Option<f32>,
    /// Over a longer time: what changed the rate, if anything did, else what was decided most often.
    pub(super) decision: Decision,
}

/// Whether the rate stays because nothing happens.
pub(super) fn is_quiet(decision: Decision) -> bool {
    decision == Decision::Hold
}

/// The shaper's line of a direction.
pub(super) fn line(link: &Link, direction: Direction) -> Option<(&Shaped, &Auto)> {
    let shape = link.shape.as_ref()?;
    let line = direction.pick(shape.uplink.as_ref(), shape.downlink.as_ref())?;
    Some((line, line.auto.as_ref()?))
}

/// Whether packets pass the shaper.
pub(super) fn is_shaped(link: &Link) -> bool {
    link.shape.as_ref().is_some_and(|shape| matches!(&*shape.state, "enforcing" | "ineffective"))
}

/// Of so many decisions the one that tells most.
fn telling(counts: impl Iterator<Item = (Decision, f64)> + Clone) -> Option<Decision> {
    let most = |quiet: bool| {
        let some = counts.clone().filter(|(decision, count)| is_quiet(*decision) == quiet && *count > 0.0);
        some.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(decision, _)| decision)
    };
    most(false).or_else(|| most(true))
}

impl Moment {
    /// Of a tick; `None` for a decision of a newer agent.
    pub(super) fn of(found: &TickAuto) -> Option<Self> {
        let wait = found.waits_behind_s.map(|seconds| seconds as f32);
        Some(Self { rate: found.rate_bps as f32, wait, decision: Decision::named(&found.decision)? })
    }

    /// Of a step of the history.
    pub(super) fn of_step(step: &StepAuto) -> Option<Self> {
        let shares =
            step.decision_share.iter().filter_map(|(name, share)| Some((Decision::named(name)?, *share)));
        let wait = step.waits_behind_s.map(|seconds| seconds as f32);
        Some(Self { rate: step.rate_bps as f32, wait, decision: telling(shares)? })
    }

    /// Of the state, where there is no stream.
    pub(super) fn of_state(link: &Link, direction: Direction) -> Option<Self> {
        let (line, auto) = line(link, direction).filter(|_| is_shaped(link))?;
        let wait = auto.waits_behind_s.map(|seconds| seconds as f32);
        Some(Self { rate: line.rate_bps as f32, wait, decision: Decision::named(&auto.decision)? })
    }
}

/// Over a column: means, and the decision that tells most.
pub(super) fn mean(moments: impl Iterator<Item = Option<Moment>>) -> Option<Moment> {
    let (mut rate, mut wait, mut counts) = ((0.0, 0.0_f32), (0.0, 0.0_f32), [0.0; Decision::ALL.len()]);
    for moment in moments.flatten() {
        rate = (rate.0 + moment.rate, rate.1 + 1.0);
        if let Some(seconds) = moment.wait {
            wait = (wait.0 + seconds, wait.1 + 1.0);
        }
        counts[moment.decision as usize] += 1.0;
    }
    let decision = telling(Decision::ALL.into_iter().zip(counts))?;
    Some(Moment { rate: rate.0 / rate.1, wait: (wait.1 > 0.0).then(|| wait.0 / wait.1), decision })
}

#[cfg(test)]
mod tests {
    use pendulum_wire::Shape;

    use super::*;

    #[test]
    fn what_changed_the_rate_is_not_lost_among_what_did_not() {
        let held = Moment { rate: 4e6, wait: None, decision: Decision::Hold };
        let drained = Moment { rate: 1e6, wait: Some(0.2), decision: Decision::Drain };
        let moments = [Some(held), Some(held), None, Some(drained)];
        let found = Moment { rate: 3e6, wait: Some(0.2), decision: Decision::Drain };
        assert_eq!(mean(moments.into_iter()), Some(found));
        assert_eq!(mean([Some(held)].into_iter()), Some(held), "a wait that is not known is not 0");
        assert_eq!(mean([None].into_iter()), None);
        let step = StepAuto {
            rate_bps: 3e6,
            waits_behind_s: Some(0.2),
            decision_share: [("hold".into(), 0.75), ("drain".into(), 0.25)].into(),
            waits_behind_peak_s: None,
        };
        assert_eq!(Moment::of_step(&step), Some(found));
        let newer = TickAuto { decision: "guess".into(), ..TickAuto::default() };
        assert_eq!(Moment::of(&newer), None);
    }

    /// Without a stream the state tells the same, while packets pass the shaper.
    #[test]
    fn the_state_tells_what_is_found_at_present() {
        let auto = Auto { decision: "raise".into(), waits_behind_s: Some(0.01), ..Auto::default() };
        let shape = |state: &str| Shape {
            state: state.to_owned().into(),
            uplink: Some(Shaped { rate_bps: 5_000_000, auto: Some(auto.clone()), ..Shaped::default() }),
            ..Shape::default()
        };
        let moment = |state, direction| {
            Moment::of_state(&Link { shape: Some(shape(state)), ..Link::default() }, direction)
        };
        let raised = Moment { rate: 5e6, wait: Some(0.01), decision: Decision::Raise };
        assert_eq!(moment("enforcing", Direction::Up), Some(raised));
        assert_eq!(moment("ineffective", Direction::Up), Some(raised));
        assert_eq!(moment("observing", Direction::Up), None);
        assert_eq!(moment("enforcing", Direction::Down), None);
    }
}
