//! What the simulation says of the link as it is found to be, computed on a thread of its own.
//!
//! A simulation takes some tenths of a second. It starts only if the link differs by more than [`CHANGE`] from the one that was simulated last,
//! and not more often than every [`PERIOD`]. Until it has ended, nothing is predicted.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::sizing::{self, Advice, AdviceInput, Transfers};

use crate::snapshot::{Prediction, SimulatedLink};

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
    pub(super) advice: Arc<Advice>,
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

    /// Simulates: some tenths of a second of work.
    fn answer(&self) -> Prediction {
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
        Prediction {
            link: Some(SimulatedLink {
                rate: PerDirection { up: self.input.uplink_rate, down: self.input.downlink_rate },
                round_trip: self.input.round_trip,
                buffer: buffers.clone().ok(),
            }),
            present: buffers.clone().and_then(|buffers| predict(&with(buffers))),
            as_advised: predict(&self.input),
            recommended: buffers.and_then(|buffers| recommend(&with(buffers))),
        }
    }
}

/// Asks one question at a time, and remembers the newest answer.
pub(super) struct Predictor {
    simulate: fn(&Question) -> Prediction,
    running: Option<(Question, Receiver<Prediction>)>,
    newest: Option<(Question, Arc<Prediction>)>,
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
    pub(super) fn consider(&mut self, now: Duration, question: Question) -> Arc<Prediction> {
        self.collect();
        let known = self.newest.as_ref().filter(|(asked, _)| question.is_near(asked));
        if let Some((_, prediction)) = known {
            return Arc::clone(prediction);
        }
        let is_due = self.began.is_none_or(|began| now.saturating_sub(began) >= PERIOD);
        if self.running.is_none() && is_due {
            self.began = Some(now);
            self.begin(question);
        }
        let failure = self.failure.as_ref().filter(|_| self.running.is_none());
        Arc::new(Prediction::unknown(failure.cloned().unwrap_or_else(|| {
            format!(
                "the link is new or has changed by more than {:.0} %: it is simulated at most every {} s",
                CHANGE * 1e2,
                PERIOD.as_secs()
            )
        })))
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
            Ok(prediction) => {
                self.newest = Some((question, Arc::new(prediction)));
                self.failure = None;
            }
            Err(TryRecvError::Empty) => self.running = Some((question, answer)),
            Err(TryRecvError::Disconnected) => self.failure = Some("the simulation has failed".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
