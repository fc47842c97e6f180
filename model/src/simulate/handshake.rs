//! How a connection begins: three frames through the buffers, which give each end its first round trip.
//!
//! A host whose handshake waited behind somebody's transfer keeps that long round trip as its shortest until it sees a shorter one. Linux sizes its
//! bursts (`tcp_tso_autosize`), its patience with reordering (`tcp_rack_reo_wnd`) and BBR's window by the shortest.

use super::packet::{Greeting, SECOND, Stage, Time};
use crate::segment::Direction;

/// A SYN or its answer as an Ethernet frame: 40 bytes of TCP with options.
pub(super) const SYN_FRAME_BYTES: u32 = 74;
/// `TCP_TIMEOUT_INIT`; each further one is twice as long.
const FIRST_TIMEOUT: Time = SECOND;
/// `tcp_syn_retries`: doublings.
const MOST_DOUBLINGS: u32 = 6;

/// What an end does when a frame of the handshake reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeReply {
    /// Sends the next one.
    Send(Greeting),
    /// The sender may begin; this is its round trip.
    Begin(Time),
}

/// One connection's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    direction: Direction,
    tries: u32,
    done: bool,
    /// The round trip that the receiver has measured.
    receiver: Option<Time>,
}

impl Handshake {
    /// `direction` is that of the data.
    pub(super) const fn new(direction: Direction) -> Self {
        Self { direction, tries: 0, done: false, receiver: None }
    }

    /// The home's end sends a SYN, and if nothing comes of it another one at the second moment; `None`: it is connected already.
    pub(super) fn open(&mut self, now: Time) -> Option<(Greeting, Time)> {
        if self.done {
            return None;
        }
        let again = now + (FIRST_TIMEOUT << self.tries.min(MOST_DOUBLINGS));
        self.tries += 1;
        Some((Greeting { stage: Stage::Syn, opened: now, answered: now }, again))
    }

    /// A frame arrives; `None`: of an attempt whose work is done.
    pub(super) fn arrive(&mut self, now: Time, greeting: Greeting) -> Option<HandshakeReply> {
        if self.done {
            return None;
        }
        match greeting.stage {
            Stage::Syn => {
                Some(HandshakeReply::Send(Greeting { stage: Stage::SynAck, answered: now, ..greeting }))
            }
            Stage::SynAck if self.direction == Direction::Down => {
                self.receiver = Some(now - greeting.opened);
                Some(HandshakeReply::Send(Greeting { stage: Stage::Ack, ..greeting }))
            }
            Stage::SynAck => {
                self.done = true;
                Some(HandshakeReply::Begin(now - greeting.opened))
            }
            Stage::Ack => {
                self.done = true;
                Some(HandshakeReply::Begin(now - greeting.answered))
            }
        }
    }

    /// The receiver's round trip once the sender may begin, with the sender's: an upload's receiver learns it from the first data, which went the same way.
    pub(super) fn receiver_round_trip(&self, sender: Time) -> Time {
        self.receiver.unwrap_or(sender)
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::MILLISECOND;
    use super::*;

    /// Passes the frames on, each after a while, until the sender may begin: its round trip, and the frames.
    fn run(direction: Direction, each: Time) -> (Handshake, Time, Vec<Stage>) {
        let mut handshake = Handshake::new(direction);
        let (mut greeting, _) = handshake.open(0).expect("a SYN");
        let (mut now, mut stages) = (0, vec![greeting.stage]);
        loop {
            now += each;
            match handshake.arrive(now, greeting).expect("a reply") {
                HandshakeReply::Send(next) => {
                    greeting = next;
                    stages.push(next.stage);
                }
                HandshakeReply::Begin(round_trip) => return (handshake, round_trip, stages),
            }
        }
    }

    #[test]
    fn each_end_measures_a_round_trip() {
        let (handshake, round_trip, stages) = run(Direction::Up, 10 * MILLISECOND);
        assert_eq!((round_trip, stages.len()), (20 * MILLISECOND, 2));
        assert_eq!(handshake.receiver_round_trip(round_trip), 20 * MILLISECOND);
        let (handshake, round_trip, stages) = run(Direction::Down, 10 * MILLISECOND);
        assert_eq!((round_trip, stages.len()), (20 * MILLISECOND, 3));
        assert_eq!(handshake.receiver_round_trip(99), 20 * MILLISECOND);
    }

    #[test]
    fn a_syn_is_repeated_until_it_is_answered_after_one_second_then_two() {
        let mut handshake = Handshake::new(Direction::Up);
        let (lost, again) = handshake.open(0).expect("a SYN");
        assert_eq!(again, SECOND);
        assert_eq!(handshake.open(again).map(|(_, third)| third), Some(3 * SECOND));
        // The first one was only late.
        let now = again + MILLISECOND;
        let Some(HandshakeReply::Send(answer)) = handshake.arrive(now, lost) else { panic!("an answer") };
        assert_eq!(handshake.arrive(now, answer), Some(HandshakeReply::Begin(now)));
        assert_eq!((handshake.open(3 * SECOND), handshake.arrive(now, answer)), (None, None));
    }
}
