//! What stands before the link in one direction: a drop-tail buffer, or cake.

use super::SimulatedLink;
use super::buffer::Buffer;
use super::cake::CakeQueue;
use super::packet::{Packet, Time};
use crate::segment::Direction;

#[derive(Debug)]
pub(super) enum Queue {
    DropTail(Buffer),
    Cake(Box<CakeQueue>),
}

impl Queue {
    /// The queue of a direction; `seed` is for what cake does by chance.
    pub(super) fn new(link: &SimulatedLink, direction: Direction, seed: u64) -> Self {
        let rate = link.rate[direction];
        if direction == Direction::Up && link.cake {
            let hosts = link.flows.iter().map(|flow| flow.home_host);
            Self::Cake(Box::new(CakeQueue::new(rate, hosts, seed)))
        } else {
            Self::DropTail(Buffer::new(rate, link.burst[direction], link.buffer[direction]))
        }
    }

    /// Takes a frame, or drops it; whether it did. When nothing waited: the moment at which this frame leaves. Cake takes every frame, and drops later.
    pub(super) fn push(&mut self, now: Time, frame: Packet) -> (bool, Option<Time>) {
        match self {
            Self::DropTail(buffer) => {
                let dropped = buffer.dropped;
                let due = buffer.push(now, frame);
                (buffer.dropped == dropped, due)
            }
            Self::Cake(cake) => (true, cake.push(now, frame)),
        }
    }

    /// Removes the frame that leaves; also the moment at which the next one does.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Packet, Option<Time>)> {
        match self {
            Self::DropTail(buffer) => buffer.pop(now),
            Self::Cake(cake) => cake.pop(now),
        }
    }

    /// How long the bytes that wait take, seconds.
    pub(super) fn read(&mut self, now: Time) -> f64 {
        match self {
            Self::DropTail(buffer) => buffer.wait_seconds(),
            Self::Cake(cake) => {
                cake.probe(now);
                cake.wait_seconds()
            }
        }
    }

    /// What a frame of a flow that has nothing else there would have waited at each reading, seconds; `None`: what the bytes took.
    pub(super) fn take_sparse(&mut self) -> Option<Vec<f32>> {
        match self {
            Self::DropTail(_) => None,
            Self::Cake(cake) => Some(cake.take_probed()),
        }
    }

    /// Frames dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        match self {
            Self::DropTail(buffer) => buffer.dropped,
            Self::Cake(cake) => cake.dropped,
        }
    }
}
