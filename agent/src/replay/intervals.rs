//! From packets to [`Sample`]s: what happened in each short interval, once the queues of that interval are known.
//!
//! The level of a buffer is known only when the packets in it have come out, which may take seconds. The number of intervals that wait until
//! then is bounded because the queues' patience is.

use std::time::Duration;

use pendulum_model::observer::level::INTERVAL_NS;
use pendulum_model::sample::{Assembler, Counted, FlowSample, Level, QueueSample, Sample, SampleInterval};
use pendulum_model::segment::{Class, Direction, PerDirection};

use super::meter::Observation;
use super::queue::Buffers;
use super::silence::Silence;

/// TCP gets on in one direction, and for so long nothing of it came the other way: what passes there is not in the capture.
const UNSEEN_NS: u64 = 2_000_000_000;

/// Cuts time into intervals.
#[derive(Debug)]
pub struct Intervals {
    /// End of the open interval, nanoseconds from the start of the capture.
    open_end_ns: u64,
    assembler: Assembler,
    /// Both buffers.
    pub buffers: Buffers,
    last_packet_ns: u64,
    silence: Silence,
    /// When the other direction first got on since the newest TCP segment of this one.
    alone_ns: PerDirection<Option<u64>>,
    /// Newest one with new data or an acknowledgement of more: its sender hears the other end.
    progress_ns: PerDirection<Option<u64>>,
    /// Intervals in which a direction was not seen while the other one got on, and all in which the other one did.
    unseen: PerDirection<(u64, u64)>,
}

impl Intervals {
    /// Begin at time 0 with these two buffers.
    pub fn new(buffers: Buffers) -> Self {
        Self {
            open_end_ns: INTERVAL_NS,
            assembler: Assembler::default(),
            buffers,
            last_packet_ns: 0,
            silence: Silence::default(),
            alone_ns: PerDirection::default(),
            progress_ns: PerDirection::default(),
            unseen: PerDirection::default(),
        }
    }

    /// Whether the interval that is open ends at or before `now_ns`.
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.open_end_ns
    }

    /// A packet comes at `now_ns`: close what ended before it and pass on what is complete.
    pub fn advance(&mut self, now_ns: u64, sink: &mut impl FnMut(&Sample)) {
        if let Some(drained_ns) = self.silence.drained_before(now_ns) {
            self.skip_silence(drained_ns, now_ns, sink);
        }
        self.last_packet_ns = now_ns;
        self.silence.pass(now_ns, 0);
        if !self.is_due(now_ns) {
            return;
        }
        while self.open_end_ns <= now_ns {
            self.close();
        }
        self.buffers.settle(now_ns);
        self.emit(sink);
    }

    /// Count a packet of the WAN capture.
    pub fn count<T>(&mut self, direction: Direction, observation: &Observation<'_, T>, wire_bytes: u64) {
        self.silence.pass(self.last_packet_ns, u32::try_from(wire_bytes).unwrap_or(u32::MAX));
        let Counted { traffic, composition, ack_bursts } = self.assembler.counted(direction);
        composition.add(&observation.entered);
        traffic.wire_bytes += wire_bytes;
        let Some(segment) = &observation.segment else { return };
        ack_bursts.add(observation.burst, 1);
        self.alone_ns[direction] = None;
        let segments = u64::from(segment.segments);
        if observation.class == Class::Data {
            traffic.data_bytes += wire_bytes;
            traffic.data_segments += segments;
        } else if observation.class.is_pure_ack() {
            traffic.ack_segments += segments;
        }
        let repeats = observation.observed.is_some_and(|observed| observed.retransmitted);
        if repeats {
            traffic.retransmitted_segments += segments;
        }
        let acknowledges = observation.observed.is_some_and(|observed| observed.acked_bytes > 0);
        if acknowledges || (observation.class == Class::Data && !repeats) {
            self.progress_ns[direction] = Some(self.last_packet_ns);
            self.alone_ns[direction.opposite()].get_or_insert(self.last_packet_ns);
        }
    }

    /// An end took this long to answer with a packet of `direction`.
    pub fn note_turn(&mut self, direction: Direction, now_ns: u64, seconds: f64) {
        self.assembler.note_round_trip(direction.opposite(), Duration::from_nanos(now_ns), seconds, 1);
    }

    /// What the flows did until `now_ns`, since they were last read.
    pub fn note_flows(&mut self, now_ns: u64, flows: Vec<FlowSample>) {
        self.assembler.note_flows(Duration::from_nanos(now_ns), flows);
    }

    /// The capture ends at `now_ns`.
    pub fn finish(&mut self, now_ns: u64, sink: &mut impl FnMut(&Sample)) {
        self.advance(now_ns, sink);
        self.flush(now_ns, sink);
    }

    fn flush(&mut self, now_ns: u64, sink: &mut impl FnMut(&Sample)) {
        let end = now_ns.max(self.open_end_ns);
        while self.open_end_ns <= end {
            self.close();
        }
        self.buffers.finish(self.open_end_ns);
        self.emit(sink);
    }

    /// Everything had drained at `drained_ns`, and nothing passed up to `now_ns`: one sample says so, and everything begins anew.
    fn skip_silence(&mut self, drained_ns: u64, now_ns: u64, sink: &mut impl FnMut(&Sample)) {
        self.flush(drained_ns, sink);
        let from_ns = self.open_end_ns - INTERVAL_NS;
        let start_ns = now_ns / INTERVAL_NS * INTERVAL_NS;
        if start_ns > from_ns {
            let mut sample = Sample {
                at: Duration::from_nanos(start_ns),
                span: Duration::from_nanos(start_ns - from_ns),
                ..Sample::default()
            };
            for direction in Direction::ALL.into_iter().filter(|x| !self.is_unseen(*x)) {
                sample.link[direction].queue = Some(QueueSample::level(self.buffers.source(direction), 0.0));
            }
            sink(&sample);
        }
        self.buffers.restart(start_ns);
        self.assembler.restart(Duration::from_nanos(start_ns));
        self.open_end_ns = start_ns + INTERVAL_NS;
    }

    fn close(&mut self) {
        let unseen = PerDirection::from_fn(|x| self.is_unseen(x));
        let start_ns = self.open_end_ns - INTERVAL_NS;
        for direction in Direction::ALL {
            if self.progress_ns[direction.opposite()].is_some_and(|at_ns| at_ns >= start_ns) {
                let (times, all) = &mut self.unseen[direction];
                *times += u64::from(unseen[direction]);
                *all += 1;
            }
        }
        let closed = SampleInterval {
            at: Duration::from_nanos(self.open_end_ns),
            span: Duration::from_nanos(INTERVAL_NS),
            queues: PerDirection::from_fn(|x| if unseen[x] { Level::Known(None) } else { Level::Awaited }),
            left: None,
        };
        let observer = &self.buffers.observer;
        let rates = PerDirection::from_fn(|x| observer.rate(x));
        self.assembler.close(&[closed], rates, observer.base_round_trip());
        self.open_end_ns += INTERVAL_NS;
    }

    /// TCP always goes both ways: who gets on hears the other end. If a capture does not hold that, nothing is known of this direction until
    /// it shows again. Who only repeats itself may have lost the other end.
    fn is_unseen(&self, direction: Direction) -> bool {
        let Some(progress_ns) = self.progress_ns[direction.opposite()] else { return false };
        self.alone_ns[direction].is_some_and(|since_ns| since_ns + UNSEEN_NS < progress_ns)
    }

    /// Share of the intervals in which TCP got on the other way while a direction was not in the capture.
    pub fn unseen_share(&self, direction: Direction) -> f64 {
        let (unseen, all) = self.unseen[direction];
        unseen as f64 / all.max(1) as f64
    }

    fn emit(&mut self, sink: &mut impl FnMut(&Sample)) {
        self.assembler.release(|_| self.buffers.pop(), |sample| sink(&sample));
    }
}

#[cfg(test)]
mod tests;
