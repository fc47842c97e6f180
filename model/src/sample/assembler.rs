//! From what is counted to [`Sample`]s. The agent counts between two readings, a replay between two intervals of packets; the rest is the same.
//!
//! Two figures come from the source, because it alone can have them. A replay sees each end's answers and has all of the base round trip from
//! the observer; the agent adds home's part, which its kernel side only counts. What left the uplink's buffer is known where its qdisc is traced.

use std::collections::VecDeque;
use std::time::Duration;

use super::{
    AckBursts, BaseRoundTrip, Composition, DirectionSample, FlowSample, MeasuredRate, QueueSample, Sample,
    Traffic,
};
use crate::constants::MOMENT;
use crate::segment::{Direction, PerDirection};

/// Flows given to the detector at once, those that carried most: a table of a million costs no more than this.
const FLOWS: usize = 512;

/// What was counted in one direction over some time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// What passed.
    pub traffic: Traffic,
    /// The same bytes by what carries them.
    pub composition: Composition,
    /// Bursts that ended.
    pub ack_bursts: AckBursts,
}

/// An interval that is over.
#[derive(Clone, Copy, Debug)]
pub struct SampleInterval {
    /// Its end.
    pub at: Duration,
    /// Its length.
    pub span: Duration,
    /// Both buffers.
    pub queues: PerDirection<Level>,
    /// What left the uplink's buffer, bytes: all, and TCP data. `None`: what was counted before it is the best there is.
    pub left: Option<[u64; 2]>,
}

/// A buffer's level in an interval that is over.
#[derive(Clone, Copy, Debug)]
pub enum Level {
    /// It is known, or known not to be seen.
    Known(Option<QueueSample>),
    /// What met it has not come out, or was not answered yet.
    Awaited,
}

/// The samples of one link, until their buffers are known.
#[derive(Debug, Default)]
pub struct Assembler {
    /// Not yet in a sample.
    counted: PerDirection<Counted>,
    flows: Vec<FlowSample>,
    /// When they were last read.
    flows_at: Option<Duration>,
    turns: PerDirection<Turns>,
    /// End of the newest interval.
    pub newest: Option<Duration>,
    waiting: VecDeque<(Sample, PerDirection<bool>)>,
}

/// How long the end that a direction leads to took to answer.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    /// Since the newest interval, seconds.
    sum_s: f64,
    count: u64,
    newest: Option<(f64, Duration)>,
}

impl Turns {
    fn newest(&self, now: Duration) -> Option<f64> {
        let (seconds, at) = self.newest?;
        (now.saturating_sub(at) <= MOMENT).then_some(seconds)
    }

    /// The mean since the newest interval; else what was measured before, unless it is too old.
    fn take(&mut self, now: Duration) -> Option<f64> {
        let (sum_s, count) = (std::mem::take(&mut self.sum_s), std::mem::take(&mut self.count));
        if count > 0 { Some(sum_s / count as f64) } else { self.newest(now) }
    }
}

impl Assembler {
    /// What was counted in a direction and is not in a sample yet, to be added to.
    pub fn counted(&mut self, direction: Direction) -> &mut Counted {
        &mut self.counted[direction]
    }

    /// The end that a direction leads to answered so many times by `at`, after so many seconds in the mean.
    pub fn note_round_trip(&mut self, direction: Direction, at: Duration, seconds: f64, count: u64) {
        let turns = &mut self.turns[direction];
        turns.sum_s += seconds * count as f64;
        turns.count += count;
        turns.newest = Some((seconds, at));
    }

    /// What the flows did until `at`, since they were last read. Outstanding data counts from the sender's side of both buffers: a download's is
    /// not to be seen from here, but what arrives within one round trip is.
    pub fn note_flows(&mut self, at: Duration, mut flows: Vec<FlowSample>) {
        let interval =
            self.flows_at.replace(at).map_or(0.0, |before| at.saturating_sub(before).as_secs_f64());
        if flows.len() > FLOWS {
            flows.select_nth_unstable_by_key(FLOWS, |flow| std::cmp::Reverse(flow.data_bytes));
            flows.truncate(FLOWS);
        }
        for flow in flows.iter_mut().filter(|flow| flow.direction == Direction::Down) {
            let round_trip = flow.round_trip.filter(|_| interval > 0.0);
            flow.in_flight_bytes = round_trip.map(|seconds| flow.data_bytes as f64 / interval * seconds);
        }
        self.flows = flows;
    }

    /// Newest round trip to the end that a direction leads to and back, seconds, unless it is too old.
    pub fn round_trip(&self, direction: Direction, now: Duration) -> Option<f64> {
        self.turns[direction].newest(now)
    }

    /// These intervals are over, oldest first: what was counted is spread evenly over the time since the newest one before them.
    pub fn close(
        &mut self,
        intervals: &[SampleInterval],
        rates: PerDirection<Option<MeasuredRate>>,
        base_round_trip: Option<BaseRoundTrip>,
    ) {
        let (Some(oldest), Some(newest)) = (intervals.first(), intervals.last()) else { return };
        // What passed before the oldest of them, while nobody looked, is no part of what is seen now.
        let begin = self.newest.map_or(oldest.begin(), |before| before.min(oldest.begin()));
        let since_begin = |at: Duration| at.saturating_sub(begin).as_nanos();
        let whole = since_begin(newest.at);
        self.newest = Some(newest.at);
        let round_trip = self.take_round_trip(newest.at);
        let counted = std::mem::take(&mut self.counted);
        for interval in intervals {
            let stretch =
                PartOfTime { from: since_begin(interval.begin()), to: since_begin(interval.at), whole };
            let is_last = interval.at == newest.at;
            let mut link = PerDirection::from_fn(|x| DirectionSample {
                queue: match interval.queues[x] {
                    Level::Known(level) => level,
                    Level::Awaited => None,
                },
                traffic: stretch.of_traffic(counted[x].traffic),
                ack_bursts: if is_last { counted[x].ack_bursts } else { AckBursts::default() },
                composition: stretch.of_composition(counted[x].composition),
                rate: rates[x],
            });
            if let Some([wire_bytes, data_bytes]) = interval.left {
                link.up.traffic = Traffic { wire_bytes, data_bytes, ..link.up.traffic };
            }
            let flows = if is_last { std::mem::take(&mut self.flows) } else { Vec::new() };
            let sample =
                Sample { at: interval.at, span: interval.span, link, round_trip, base_round_trip, flows };
            let awaited = PerDirection::from_fn(|x| matches!(interval.queues[x], Level::Awaited));
            self.waiting.push_back((sample, awaited));
        }
    }

    /// The way out and the way home together, if either was measured since the newest interval. Without the way out it is not a round trip at all.
    fn take_round_trip(&mut self, now: Duration) -> Option<f64> {
        let is_measured = self.turns.up.count + self.turns.down.count > 0;
        let (out, home) = (self.turns.up.take(now), self.turns.down.take(now));
        out.filter(|_| is_measured).map(|out| out + home.unwrap_or(0.0))
    }

    /// Passes on the samples whose buffers are known, oldest first. `levels`: what stood in both during a sample; `None` while it has to wait.
    pub fn release(
        &mut self,
        mut levels: impl FnMut(&Sample) -> Option<PerDirection<Option<QueueSample>>>,
        mut sink: impl FnMut(Sample),
    ) {
        while let Some(levels) = self.waiting.front().and_then(|(sample, _)| levels(sample)) {
            let Some((mut sample, awaited)) = self.waiting.pop_front() else { return };
            for x in Direction::ALL.into_iter().filter(|x| awaited[*x]) {
                sample.link[x].queue = levels[x];
            }
            sink(sample);
        }
    }

    /// Begins again at this time. What has no sample yet gets none.
    pub fn restart(&mut self, at: Duration) {
        let turns = PerDirection::from_fn(|x| Turns { newest: self.turns[x].newest, ..Turns::default() });
        *self = Self { turns, flows_at: self.flows_at, newest: Some(at), ..Self::default() };
    }
}

impl SampleInterval {
    fn begin(&self) -> Duration {
        self.at.saturating_sub(self.span)
    }
}

/// A stretch of a longer time, nanoseconds since that began.
#[derive(Clone, Copy, Debug)]
struct PartOfTime {
    from: u128,
    to: u128,
    /// The length of all.
    whole: u128,
}

impl PartOfTime {
    /// Its part of what is spread evenly over all of the time: adjoining stretches add up.
    fn of(self, count: u64) -> u64 {
        let until = |at: u128| {
            u128::from(count).saturating_mul(at).checked_div(self.whole).unwrap_or_default() as u64
        };
        until(self.to) - until(self.from)
    }

    fn of_traffic(self, traffic: Traffic) -> Traffic {
        Traffic {
            wire_bytes: self.of(traffic.wire_bytes),
            data_bytes: self.of(traffic.data_bytes),
            data_segments: self.of(traffic.data_segments),
            ack_segments: self.of(traffic.ack_segments),
            retransmitted_segments: self.of(traffic.retransmitted_segments),
        }
    }

    fn of_composition(self, bytes: Composition) -> Composition {
        Composition {
            tcp_data: self.of(bytes.tcp_data),
            ack: self.of(bytes.ack),
            udp: self.of(bytes.udp),
            other: self.of(bytes.other),
        }
    }
}

#[cfg(test)]
mod tests {
    use Direction::{Down, Up};

    use super::super::QueueSource;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Ends `at` and lasted 10 ms, with a downlink that becomes known later.
    fn interval(at_ms: u32) -> SampleInterval {
        let queues = PerDirection { up: Level::Known(None), down: Level::Awaited };
        SampleInterval { at: at_ms * MS, span: 10 * MS, queues, left: None }
    }

    /// All samples, the downlink's level that of its number.
    fn released(assembler: &mut Assembler, known_to_ms: u32) -> Vec<Sample> {
        let mut samples = Vec::new();
        let level = |at: Duration| QueueSample::level(QueueSource::Estimate, at.as_secs_f64());
        let levels = |sample: &Sample| {
            (sample.at <= known_to_ms * MS).then(|| PerDirection::from_fn(|_| Some(level(sample.at))))
        };
        assembler.release(levels, |sample| samples.push(sample));
        samples
    }

    fn closed(assembler: &mut Assembler, at_ms: impl IntoIterator<Item = u32>) {
        let intervals: Vec<_> = at_ms.into_iter().map(interval).collect();
        assembler.close(&intervals, PerDirection::default(), None);
    }

    #[test]
    fn what_was_counted_is_spread_over_the_time_since_the_newest_interval() {
        let mut assembler = Assembler::default();
        assembler.counted(Up).traffic.wire_bytes = 100;
        assembler.counted(Up).ack_bursts.add(3, 1);
        closed(&mut assembler, [10, 20, 30]);
        assembler.counted(Up).traffic.wire_bytes = 50;
        // Of the 50 ms since then nobody saw 40.
        closed(&mut assembler, [80]);
        let samples = released(&mut assembler, 100);
        assert_eq!(
            samples.iter().map(|sample| sample.link.up.traffic.wire_bytes).collect::<Vec<_>>(),
            [33, 33, 34, 10]
        );
        assert_eq!(
            samples.iter().map(|sample| sample.link.up.ack_bursts.bursts).collect::<Vec<_>>(),
            [0, 0, 1, 0]
        );
        assert_eq!(assembler.newest, Some(80 * MS));
    }

    /// An interval waits with all that follow, and takes only levels that it waits for.
    #[test]
    fn a_sample_waits_until_its_buffers_are_known() {
        let mut assembler = Assembler::default();
        closed(&mut assembler, [10, 20, 30]);
        let samples = released(&mut assembler, 20);
        let level = |sample: &Sample| sample.link.down.queue.map(|queue| queue.mean_bytes);
        assert_eq!(samples.iter().map(level).collect::<Vec<_>>(), [Some(0.01), Some(0.02)]);
        assert!(samples.iter().all(|sample| sample.link.up.queue.is_none()));
        assert_eq!(released(&mut assembler, 30).len(), 1);
        closed(&mut assembler, [40]);
        assembler.counted(Down).traffic.wire_bytes = 7;
        assembler.restart(100 * MS);
        closed(&mut assembler, [110]);
        let samples = released(&mut assembler, 110);
        assert_eq!((samples.len(), samples[0].link.down.traffic.wire_bytes), (1, 0), "it began again");
    }

    #[test]
    fn a_round_trip_needs_the_way_out_and_something_new() {
        let mut assembler = Assembler::default();
        let mut said = |at_ms: u32, notes: &[(Direction, f64, u64)]| {
            for (direction, seconds, count) in notes {
                assembler.note_round_trip(*direction, at_ms * MS, *seconds, *count);
            }
            closed(&mut assembler, [at_ms]);
            released(&mut assembler, at_ms)[0].round_trip.map(|seconds| (seconds * 1e6).round() / 1e6)
        };
        assert_eq!(said(10, &[(Down, 0.002, 1)]), None, "home alone");
        // The mean of four; home's, as it was before.
        assert_eq!(said(20, &[(Up, 0.5, 1), (Up, 0.7, 3)]), Some(0.652));
        assert_eq!(said(30, &[]), None);
        assert_eq!(said(5_010, &[(Up, 0.4, 1)]), Some(0.402));
        assert_eq!(said(5_020, &[(Up, 0.4, 1)]), Some(0.4), "home's is too old");
        assert_eq!(
            (assembler.round_trip(Up, 10_020 * MS), assembler.round_trip(Up, 10_021 * MS)),
            (Some(0.4), None)
        );
    }

    #[test]
    fn flows_are_told_once_and_a_download_s_window_is_what_arrives_in_a_round_trip() {
        let flow = |direction, data_bytes| FlowSample {
            id: data_bytes,
            direction,
            data_bytes,
            in_flight_bytes: Some(9.0),
            round_trip: Some(0.2),
            base_round_trip: None,
        };
        let mut assembler = Assembler::default();
        let mut read = |second: u64, flows: Vec<FlowSample>| {
            assembler.note_flows(Duration::from_secs(second), flows);
            closed(&mut assembler, [1_000 * second as u32, 1_000 * second as u32 + 10]);
            let mut samples = released(&mut assembler, u32::MAX);
            assert_eq!(samples[0].flows, []);
            samples.remove(1).flows
        };
        let windows =
            |flows: Vec<FlowSample>| flows.iter().map(|flow| flow.in_flight_bytes).collect::<Vec<_>>();
        assert_eq!(windows(read(1, vec![flow(Up, 100), flow(Down, 100)])), [Some(9.0), None]);
        // 60,000 bytes in 2 s, of which 0.2 s are one round trip.
        assert_eq!(windows(read(3, vec![flow(Up, 100), flow(Down, 60_000)])), [Some(9.0), Some(6_000.0)]);
        let many = read(4, (1..=2_000).map(|bytes| flow(Up, bytes)).collect());
        assert!(many.len() == FLOWS && many.iter().all(|flow| flow.data_bytes > 2_000 - FLOWS as u64));
    }

    #[test]
    fn what_left_the_buffer_takes_the_place_of_what_was_counted_before_it() {
        let mut assembler = Assembler::default();
        assembler.counted(Up).traffic =
            Traffic { wire_bytes: 100, data_bytes: 80, data_segments: 2, ..Traffic::default() };
        let left = SampleInterval { left: Some([70, 60]), ..interval(10) };
        assembler.close(&[left], PerDirection::default(), None);
        let traffic = released(&mut assembler, 10).remove(0).link.up.traffic;
        assert_eq!((traffic.wire_bytes, traffic.data_bytes, traffic.data_segments), (70, 60, 2));
    }
}
