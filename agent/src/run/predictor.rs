//! What the simulation says of the link as it is found to be, computed on a thread of its own.
//!
//! A simulation takes some tenths of a second. It starts only if the link differs by more than [`CHANGE`] from the one that was simulated last,
//! and not more often than every [`PERIOD`]. Until it has ended, nothing is predicted.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::sizing::{self, AdviceInput, Transfers};
use pendulum_wire::{Advice, PredictedInputs};

/// Rates and round trips that differ by less, as a share, are the same link.
const CHANGE: f64 = 0.05;

/// Round trips that differ by less are the same, seconds.
const ROUND_TRIP_CHANGE_S: f64 = 1e-3;

/// At least so much time passes between the beginnings of two simulations.
const PERIOD: Duration = Duration::from_secs(60);

/// A direction's buffer, as far as this machine can tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Buffer {
    /// A queue of this machine that drops what does not fit.
    DropTail(BufferSize),
    /// A queue of this machine of another kind: `fq_codel`, `cake`, …
    Other(Arc<str>),
    /// It stands in another machine.
    #[default]
    Elsewhere,
}

/// What is to be simulated.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// Rates, round trip and device; no buffers.
    pub(super) input: AdviceInput,
    /// For that input.
    pub(super) advice: Arc<sizing::Advice>,
    /// As they are.
    pub(super) buffer: PerDirection<Buffer>,
}

impl Question {
    /// Whether an answer for `other` is one for this link, too.
    fn is_near(&self, other: &Self) -> bool {
        let rates = |of: &Self| [of.input.downlink_rate, of.input.uplink_rate].map(Rate::bytes_per_second);
        let near = |(one, two): (f64, f64)| (one - two).abs() <= CHANGE * two.abs();
        let round_trips = [self, other].map(|of| of.input.round_trip.as_secs_f64());
        rates(self).into_iter().zip(rates(other)).all(near)
            && (near((round_trips[0], round_trips[1]))
                || (round_trips[0] - round_trips[1]).abs() <= ROUND_TRIP_CHANGE_S)
            && self.buffer == other.buffer
    }

    /// Both buffers, or why nothing can be said of the link with them.
    fn buffers(&self) -> Result<PerDirection<BufferSize>, String> {
        let size = |direction: Direction| {
            let name = direction.name();
            match &self.buffer[direction] {
                Buffer::DropTail(size) => Ok(*size),
                Buffer::Other(kind) => Err(format!(
                    "the {name}link's queue is {kind}, which is not simulated: pfifo, bfifo and tbf are"
                )),
                Buffer::Elsewhere => Err(format!(
                    "the size of the {name}link's buffer is unknown: it is in another machine; `pendulum advise` \
                     takes a size"
                )),
            }
        };
        Ok(PerDirection { up: size(Direction::Up)?, down: size(Direction::Down)? })
    }

    /// Simulates: some tenths of a second of work. Of the advice only what is simulated is filled in.
    fn answer(&self) -> Advice {
        let traffic = Transfers::default();
        let buffers = self.buffers();
        let with = |buffers: PerDirection<BufferSize>| AdviceInput {
            uplink_buffer: Some(buffers.up),
            downlink_buffer: Some(buffers.down),
            ..self.input.clone()
        };
        let predict = |input: &AdviceInput| {
            sizing::predict(input, &self.advice, traffic).map_err(|reason| reason.to_string())
        };
        let recommend = |input: &AdviceInput| {
            sizing::recommend(input, &self.advice, traffic, sizing::DELAY_BOUND)
                .map_err(|reason| reason.to_string())
        };
        let size =
            |of: fn(&PerDirection<BufferSize>) -> BufferSize| Some(of(buffers.as_ref().ok()?).to_string());
        let predicted_inputs = Some(PredictedInputs {
            downlink_rate_bps: self.input.downlink_rate.bits_per_second(),
            uplink_rate_bps: self.input.uplink_rate.bits_per_second(),
            rtt_s: self.input.round_trip.as_secs_f64(),
            downlink_buffer: size(|sizes| sizes.down),
            uplink_buffer: size(|sizes| sizes.up),
            congestion_control: traffic.congestion_control.name().into(),
            downloads: traffic.downloads,
            uploads: traffic.uploads,
        });
        let (predicted, predicted_reason) =
            or_reason(buffers.clone().and_then(|sizes| predict(&with(sizes))));
        let (predicted_as_advised, predicted_as_advised_reason) = or_reason(predict(&self.input));
        let (recommended, recommended_reason) = or_reason(buffers.and_then(|sizes| recommend(&with(sizes))));
        Advice {
            predicted_inputs,
            predicted,
            predicted_reason,
            predicted_as_advised,
            predicted_as_advised_reason,
            recommended,
            recommended_reason,
            ..Advice::default()
        }
    }
}

fn or_reason<T, Sent: From<T>>(answer: Result<T, String>) -> (Option<Sent>, Option<String>) {
    match answer {
        Ok(figures) => (Some(figures.into()), None),
        Err(reason) => (None, Some(reason)),
    }
}

/// Nothing is simulated, for this reason.
pub(super) fn not_simulated(reason: &str) -> Advice {
    let reason = Some(reason.to_owned());
    Advice {
        predicted_reason: reason.clone(),
        predicted_as_advised_reason: reason.clone(),
        recommended_reason: reason,
        ..Advice::default()
    }
}

/// Asks one question at a time, and remembers the newest answer.
pub(super) struct Predictor {
    simulate: fn(&Question) -> Advice,
    running: Option<(Question, Receiver<Advice>)>,
    newest: Option<(Question, Advice)>,
    /// When the newest simulation began.
    began: Option<Duration>,
    /// Why the newest simulation has no answer.
    failure: Option<String>,
}

impl Default for Predictor {
    fn default() -> Self {
        Self { simulate: Question::answer, running: None, newest: None, began: None, failure: None }
    }
}

impl Predictor {
    /// What is known at `now` of the link in question. Returns at once.
    pub(super) fn consider(&mut self, now: Duration, question: Question) -> Advice {
        self.collect();
        let known = self.newest.as_ref().filter(|(asked, _)| question.is_near(asked));
        if let Some((_, simulated)) = known {
            return simulated.clone();
        }
        let is_due = self.began.is_none_or(|began| now.saturating_sub(began) >= PERIOD);
        if self.running.is_none() && is_due {
            self.began = Some(now);
            self.begin(question);
        }
        let failure = self.failure.as_ref().filter(|_| self.running.is_none());
        not_simulated(&failure.cloned().unwrap_or_else(|| {
            format!(
                "the link is new or has changed by more than {:.0} %: it is simulated at most every {} s",
                CHANGE * 1e2,
                PERIOD.as_secs()
            )
        }))
    }

    fn begin(&mut self, question: Question) {
        let (send, answer) = channel();
        let (simulate, asked) = (self.simulate, question.clone());
        // Its end is not waited for: the agent may end before it.
        let thread = std::thread::Builder::new().name("simulation".to_owned());
        let begun = thread.spawn(move || {
            // Whoever asked may be gone.
            let _ = send.send(simulate(&asked));
        });
        match begun {
            Ok(_) => self.running = Some((question, answer)),
            Err(error) => self.failure = Some(format!("the simulation cannot start: {error}")),
        }
    }

    fn collect(&mut self) {
        let Some((question, answer)) = self.running.take() else { return };
        match answer.try_recv() {
            Ok(simulated) => {
                self.newest = Some((question, simulated));
                self.failure = None;
            }
            Err(TryRecvError::Empty) => self.running = Some((question, answer)),
            Err(TryRecvError::Disconnected) => self.failure = Some("the simulation has failed".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
