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
        let answer = |key: FlowKey, us: u32, question_bytes| Answer {
            end: key.sender(direction),
            delay_ns: u64::from(us) * 1000,
            question_bytes,
            ahead_bytes: 0,
            own_queue_ns: 0,
        };
        // One who may have waited before the reply tells of no buffer.
        if let Some((key, reply)) = observation.reply.filter(|(_, reply)| !reply.may_be_held) {
            noted.answer = Some(answer(key, reply.us, reply.request_bytes));
        }
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
        let turn = note.note(direction, now_ns, &segment, &observed, flow);
        noted.answer = turn.map(|Turn { us, question_bytes }| answer(key, us, question_bytes));
        noted
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::meter::Meter;
    use super::super::packet::{Frame, LinkType};
    use super::super::tests::craft::{LinkLayer, Tcp, down, up};
    use super::super::tests::direction;
    use super::super::tests::exchanges::exchanges;
    use super::*;

    /// Notes packets, one each millisecond.
    fn noted(packets: &[Tcp]) -> (Vec<Noted>, Notes) {
        let (mut meter, mut notes) = (Meter::<Tally>::default(), Notes::default());
        let noted = (1..).zip(packets).map(|(ms, packet): (u64, _)| {
            let crafted = packet.build(LinkLayer::RawIp);
            let direction = direction(crafted.direction);
            let frame = Frame::whole(LinkType::RawIp, &crafted.bytes);
            let observation = meter.observe_frame(direction, ms * 1_000_000, &frame);
            notes.note(direction, ms * 1_000_000, frame.frame_bytes(), observation)
        });
        (noted.collect(), notes)
    }

    /// Each end of each flow has a clock of its own, and it stays the same one.
    #[test]
    fn clocks_are_those_of_one_end_of_one_flow() {
        let ends = |tsval: u32| {
            [
                up().payload(1).ts(tsval, 1),
                down().payload(1).ts(tsval, 1),
                up().home_port(7).payload(1).ts(tsval, 1),
                down().home_port(7).payload(1).ts(tsval, 1),
            ]
        };
        let (noted, notes) = noted(&[ends(10), ends(20)].concat());
        let clocks: Vec<_> = noted.iter().map(|noted| noted.passing.clock.expect("it has one")).collect();
        let (before, after) = clocks.split_at(4);
        for (before, after) in before.iter().zip(after) {
            assert_eq!((before.0, before.1, after.1), (after.0, 10, 20));
        }
        assert_eq!(before.iter().map(|clock| clock.0).collect::<BTreeSet<_>>().len(), 4);
        assert_eq!(notes.active.len(), 2, "two flows carried data");
    }

    /// A reply that is no TCP answers its request, but for one that may have been held.
    #[test]
    fn replies_of_other_protocols_are_answers_unless_held() {
        for exchange in exchanges() {
            let (mut meter, mut notes) = (Meter::<Tally>::default(), Notes::default());
            let answers = exchange.messages.iter().filter_map(|message| {
                let crafted = message.build(LinkLayer::RawIp);
                let direction = direction(crafted.direction);
                let frame = Frame::whole(LinkType::RawIp, &crafted.bytes);
                let observation = meter.observe_frame(direction, crafted.time_ns, &frame);
                notes.note(direction, crafted.time_ns, frame.frame_bytes(), observation).answer
            });
            let us: Vec<_> = answers.map(|answer| (answer.delay_ns / 1000) as u32).collect();
            let direct = exchange.replies.iter().filter(|(.., may_be_held)| !may_be_held);
            let expected: Vec<_> = direct.map(|(_, us, _)| *us).collect();
            assert_eq!(us.len(), expected.len(), "{}", exchange.name);
            let are_alike = us.iter().zip(&expected).all(|(one, other)| one.abs_diff(*other) <= 5);
            assert!(are_alike, "{}: {us:?}, not {expected:?}", exchange.name);
        }
    }

    /// Without timestamps there is no clock; times and bytes are those of the packet.
    #[test]
    fn a_packet_passes_at_its_time_with_its_bytes() {
        let (noted, notes) = noted(&[up().ack(1), up().seq(9).payload(100), up().seq(9).payload(100)]);
        let passing: Vec<_> = noted.iter().map(|noted| &noted.passing).collect();
        assert!(passing.iter().all(|passing| passing.clock.is_none()));
        let figures = |passing: &Passing| (passing.at_ns, passing.bytes, passing.repeated_bytes);
        assert_eq!(figures(passing[0]), (1_000_000, 40, 0));
        assert_eq!(figures(passing[1]), (2_000_000, 140, 0));
        assert_eq!(figures(passing[2]), (3_000_000, 140, 140), "sent once more");
        assert_eq!(notes.active.len(), 1);
    }
}
