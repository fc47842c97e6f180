//! From measured packets to what the observer needs of them.

use pendulum_model::observer::{Answer, Passing};
use pendulum_model::segment::Direction;

use super::flow::FlowKey;
use super::meter::Observation;
use super::table::Entry;
use super::tally::Tally;
use super::turnaround::Turn;

/// The flows that carried data since they were last read, and how many there ever were.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) active: Vec<FlowKey>,
    flows: u64,
}

/// One packet of a capture, as it passes the point of observation.
pub(super) struct Noted {
    pub(super) passing: Passing,
    pub(super) answer: Option<Answer>,
}

impl Notes {
    /// Notes a packet in its flow: the sender's clock, and what it answers.
    pub(super) fn note(
        &mut self,
        direction: Direction,
        now_ns: u64,
        bytes: u32,
        observation: Observation<'_, Tally>,
    ) -> Noted {
        let repeats = observation.observed.is_some_and(|observed| observed.retransmitted);
        let repeated_bytes = if repeats { bytes } else { 0 };
        let mut noted =
            Noted { passing: Passing { at_ns: now_ns, bytes, repeated_bytes, clock: None }, answer: None };
        let (Some(segment), Some(observed), Some((key, entry))) =
            (observation.segment, observation.observed, observation.flow)
        else {
            return noted;
        };
        let Entry { flow, note } = entry;
        if note.id == 0 {
            self.flows += 1;
            note.id = self.flows;
        }
        // Both ends of a flow have clocks of their own.
        let clock = note.id * 2 + direction as u64;
        noted.passing.clock = segment.options.timestamps.map(|(tsval, _)| (clock, tsval));
        if segment.payload_bytes > 0 && !note.listed {
            note.listed = true;
            self.active.push(key);
        }
        let end = match direction {
            Direction::Up => key.home_addr,
            Direction::Down => key.remote_addr,
        };
        let turn = note.note(direction, now_ns, &segment, &observed, flow);
        noted.answer = turn.map(|Turn { us, question_bytes }| Answer {
            end,
            delay_ns: u64::from(us) * 1000,
            question_bytes,
            own_queue_ns: 0,
        });
        noted
    }
}
