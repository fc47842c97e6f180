//! The shaper in numbers: rates, leaves, thresholds. No side effects.

use std::time::Duration;

use pendulum_model::rate::Rate;
use pendulum_model::sizing::{self, AdviceInput};

use crate::config::{AckFilter, Buffer, Delta, Shape};

/// A full frame as a qdisc counts it.
const FRAME: u64 = 1_514;
/// With fewer than so many frames in the buffer, losses end in timeouts.
const LEAST_FRAMES: u64 = 4;
/// Share of the link that the lane may take, percent: ACKs alone cannot starve data.
const LANE_PERCENT: u64 = 90;
/// Share that ACKs which take turns with the data may have: an ACK that comes while one is sent finds it used up.
const TURN_PERCENT: u64 = 75;
/// … as soon as data has this share.
const UPLOAD_SHARE: f64 = 0.1;
/// Share that the lane and short connections may take together: neither can starve data.
const EXPRESS_PERCENT: u64 = 97;
/// Share of short connections alone, so that many of them leave something to the long ones.
const SPARSE_PERCENT: u64 = 95;
/// What short connections send may wait for so long at the link's rate. After a second the timer of a SYN runs out (RFC 6298), but one that
/// was dropped is late for certain.
const SPARSE_DELAY: Duration = Duration::from_millis(1500);
/// A connection is short until it has sent this: an initial window (RFC 6928), or a few requests and what is lost of them.
const SPARSE_BYTES: u32 = 10 * FRAME as u32;
/// … and again once it has been silent for so long.
const SPARSE_SILENCE: Duration = Duration::from_secs(10);
/// The lane holds ACKs for so long at the link's rate …
const LANE_DELAY: Duration = Duration::from_millis(160);
/// … and never fewer than these. What does not fit costs the oldest: a long lane only makes a slow link's ACKs late.
const LANE_LEAST: u64 = 12;
/// Round trip until one is measured.
const ROUND_TRIP: Duration = Duration::from_millis(50);
const ROUND_TRIP_BOUNDS: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];
/// What a pure ACK with timestamps takes on Ethernet.
const ACK_BYTES: f64 = 66.0;
/// Linux acknowledges every second segment.
const SEGMENTS_PER_ACK: f64 = 2.0;
const DELTA_BOUNDS: [f64; 2] = [1.0, 256.0];
/// A leaf is made anew only if its size is off by more than this share.
const SLACK: f64 = 0.25;

/// What is known of the link's traffic, as far as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Smallest round trip of any connection, home to remote end.
    pub round_trip: Option<Duration>,
    /// `d` of paper 002: data segments of downloads for each ACK.
    pub segments_per_ack: Option<f64>,
    /// Mean size of an ACK on the uplink.
    pub ack_bytes: Option<f64>,
}

impl Measured {
    fn round_trip(&self) -> Duration {
        self.round_trip.unwrap_or(ROUND_TRIP).clamp(ROUND_TRIP_BOUNDS[0], ROUND_TRIP_BOUNDS[1])
    }

    /// What buffers are sized for. Not the smallest round trip alone: an upload's also contains what stands in the downlink's buffer,
    /// and a buffer for 5 ms leaves a fast uplink idle for a fifth of the time then (docs/mitigations.md, `symmetric`).
    fn working_round_trip(&self) -> Duration {
        self.round_trip().max(ROUND_TRIP)
    }
}

/// One direction's shaper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    /// What it sends at.
    pub rate: Rate,
    /// What ACKs may take of it.
    pub lane: Rate,
    /// What ACKs that take turns with the data may.
    pub turn: Rate,
    /// Bytes of those that may pass at once before that holds.
    pub turn_burst: u32,
    /// What short connections may.
    pub sparse: Rate,
    /// What both may together.
    pub express: Rate,
    /// Bytes that may pass at once.
    pub burst: u32,
    /// Size of the data leaf.
    pub data_bytes: u32,
    /// Size of the ACK leaf, packets.
    pub lane_packets: u32,
    /// Size of the leaf of short connections.
    pub sparse_bytes: u32,
    /// Largest packet that the data leaf lets pass whole; larger ones are super-packets.
    pub whole_packet: u32,
}

impl Line {
    fn new(rate: Rate, data_bytes: u64, mtu: u32) -> Option<Self> {
        let bytes = |seconds: f64| (rate.bytes_per_second() * seconds) as u64;
        let clamped = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let share = |percent| share_of(rate, percent);
        // What the timer's latency takes. No whole frame: after an idle moment it would stand in the link's own
        // queue, before the ACKs, for as long as the link is full.
        let burst = clamped(86 + bytes(0.002));
        Some(Self {
            rate,
            lane: share(LANE_PERCENT)?,
            turn: share(LANE_PERCENT)?,
            turn_burst: burst,
            sparse: share(SPARSE_PERCENT)?,
            express: share(EXPRESS_PERCENT)?,
            burst,
            data_bytes: clamped(data_bytes.max(LEAST_FRAMES * FRAME)),
            lane_packets: clamped((bytes(LANE_DELAY.as_secs_f64()) / ACK_BYTES as u64).max(LANE_LEAST)),
            sparse_bytes: clamped(bytes(SPARSE_DELAY.as_secs_f64()).max(LEAST_FRAMES * FRAME)),
            whole_packet: mtu.max(1_500).saturating_add(100),
        })
    }

    /// The same with so many ACKs in a turn; without data to take turns with, ACKs may have what the lane may.
    ///
    /// An ACK that comes while one is sent would go before the next data; if it waits for that, others join it. The ceiling has it
    /// wait: of each ACK three quarters are refilled while that is sent, and after the last one of the turn nothing is left.
    pub(super) fn with_turns(self, acks: Option<u32>, measured: &Measured) -> Self {
        let percent = if acks.is_some() { TURN_PERCENT } else { LANE_PERCENT };
        let spent = measured.ack_bytes.unwrap_or(ACK_BYTES) * (100 - TURN_PERCENT) as f64 / 100.0;
        let burst = acks.map(|acks| ((f64::from(acks.max(1)) - 0.5) * spent) as u32);
        Self {
            turn: share_of(self.rate, percent).unwrap_or(self.turn),
            turn_burst: burst.unwrap_or(self.burst),
            ..self
        }
    }

    /// Whether the leaf of `other` is so different that it is worth a change.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let ratio = f64::from(self.data_bytes) / f64::from(other.data_bytes);
        self.rate != other.rate || (ratio - 1.0).abs() > SLACK
    }
}

fn share_of(rate: Rate, percent: u64) -> Option<Rate> {
    Rate::from_bits_per_second((rate.bits_per_second() / 100 * percent).max(1))
}

/// Whether an upload of so many bytes per second is worth taking turns with.
pub(super) fn has_upload(line: &Line, bytes_per_second: f64) -> bool {
    bytes_per_second > line.rate.bytes_per_second() * UPLOAD_SHARE
}

/// How many ACKs may go in one turn: one for each connection, with `static` δ of them. None if all go before all data: a turn is worth
/// it only where a filter withholds what could not be sent in it.
pub(super) fn turn(shape: &Shape, filter: AckFilter, delta: u32, connections: u32) -> Option<u32> {
    match filter {
        _ if !shape.merge_sack => None,
        AckFilter::Static => Some(connections.saturating_mul(delta)),
        AckFilter::Delayed => Some(connections),
        AckFilter::Off | AckFilter::PerConnection => None,
    }
}

/// What is to be built for the uplink. None: the rate is too small to be shared.
pub(super) fn uplink(shape: &Shape, rates: [Option<Rate>; 2], measured: &Measured, mtu: u32) -> Option<Line> {
    let rate = shape.uplink_rate(rates[0]?)?;
    let size = match shape.buffer {
        Buffer::Bytes(bytes) => bytes,
        Buffer::Auto => match advice(rate, rates[1], measured) {
            // The model keeps ACKs from standing behind too much data. They have their lane here: no reason to starve the data.
            Some(advice) => advice.uplink_buffer_bytes.max(one_way(rate, measured)),
            None => one_way(rate, measured),
        },
    };
    Line::new(rate, size, mtu)
}

/// What is to be built for the downlink, if it is wanted and its rate is known.
pub(super) fn downlink(
    shape: &Shape,
    rates: [Option<Rate>; 2],
    measured: &Measured,
    mtu: u32,
) -> Option<Line> {
    let rate = shape.downlink_rate(rates[1]?)?;
    let size = match (shape.buffer, rates[0]) {
        (Buffer::Bytes(bytes), _) => bytes,
        (Buffer::Auto, Some(up)) => match advice(up, Some(rate), measured) {
            Some(advice) => advice.downlink_buffer_bytes,
            None => one_way(rate, measured),
        },
        (Buffer::Auto, None) => one_way(rate, measured),
    };
    Line::new(rate, size, mtu)
}

fn advice(up: Rate, down: Option<Rate>, measured: &Measured) -> Option<sizing::Advice> {
    sizing::advise(&AdviceInput::new(down?, up, measured.working_round_trip())).ok()
}

/// Paper 001 Eq. 6, for traffic in one direction: what the link carries in a round trip.
fn one_way(rate: Rate, measured: &Measured) -> u64 {
    (rate.bytes_per_second() * measured.working_round_trip().as_secs_f64()) as u64
}

/// δ: as configured, or paper 002 Eq. 1: `δ_o = μ_r·T/(d + 1)`.
pub(super) fn delta(shape: &Shape, rate: Rate, measured: &Measured) -> u32 {
    match shape.delta {
        Delta::Fixed(acks) => acks,
        Delta::Auto => {
            let acks_per_second = rate.bytes_per_second() / measured.ack_bytes.unwrap_or(ACK_BYTES).max(40.0);
            let d = measured.segments_per_ack.unwrap_or(SEGMENTS_PER_ACK).max(1.0);
            let optimum = acks_per_second * measured.round_trip().as_secs_f64() / (d + 1.0);
            optimum.round().clamp(DELTA_BOUNDS[0], DELTA_BOUNDS[1]) as u32
        }
    }
}

/// A queued ACK is no carrier if it should have left long ago: twice the time that a full lane takes, and a frame, while short
/// connections have half of what the lane may take.
pub(super) fn carrier_age(line: &Line) -> Duration {
    let bytes = 2.0 * (f64::from(line.lane_packets) * ACK_BYTES + f64::from(line.burst));
    Duration::from_secs_f64(bytes / (line.lane.bytes_per_second() / 2.0)).max(Duration::from_millis(20))
}

/// How much a connection may send before it counts as long, and after which silence it begins anew: nothing of it can stand
/// among the data by then, whatever goes first.
pub(super) fn sparse(line: &Line) -> (u32, Duration) {
    let least = line.rate.bytes_per_second() * (100 - EXPRESS_PERCENT) as f64 / 100.0;
    let drained = Duration::try_from_secs_f64(f64::from(line.data_bytes) / least).unwrap_or(Duration::MAX);
    (SPARSE_BYTES, drained.max(SPARSE_SILENCE))
}

/// The window of the rate measurement: of the order of the round trip (paper 002 §3.2), but long enough for some
/// frames.
pub(super) fn window(line: &Line, measured: &Measured) -> Duration {
    let frames = Duration::from_secs_f64(4.0 * FRAME as f64 / line.rate.bytes_per_second());
    measured.round_trip().max(frames).min(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ShapeMode;

    fn rate(text: &str) -> Rate {
        text.parse().expect("a rate")
    }

    fn shape() -> Shape {
        Shape { mode: ShapeMode::Enforce, ..Shape::default() }
    }

    #[test]
    fn the_paper_s_link() {
        let rates = [Some(rate("196kbit")), Some(rate("2400kbit"))];
        let line = uplink(&shape(), rates, &Measured::default(), 1500).expect("a line");
        assert_eq!(line.rate, rate("194040bit"));
        // advise: four segments of 1,500 bytes, less than four frames.
        // 160 ms at 194,040 bit/s: 3,880 bytes.
        assert_eq!((line.data_bytes, line.lane_packets), (6_056, 58));
        // 2 ms, and 86 bytes.
        assert_eq!(line.burst, 86 + 48);
        assert_eq!(line.lane, rate("174600bit"));
        // Short connections: a second and a half of the link. The data's 3 % take 8 s for its buffer, less than the silence.
        assert_eq!(
            (line.sparse_bytes, line.sparse, line.express),
            (36_382, rate("184300bit"), rate("188180bit"))
        );
        assert_eq!(sparse(&line), (15_140, Duration::from_secs(10)));
        let fixed = Shape { buffer: Buffer::Bytes(30_000), ..shape() };
        assert_eq!(uplink(&fixed, rates, &Measured::default(), 1500).expect("a line").data_bytes, 30_000);
        // 30,000 bytes at 3 % of 24,255 bytes per second.
        let line = uplink(&fixed, rates, &Measured::default(), 1500).expect("a line");
        assert_eq!(sparse(&line).1.as_secs(), 41);
        assert!(downlink(&shape(), rates, &Measured::default(), 1500).is_some());
        assert_eq!(uplink(&shape(), [None, rates[1]], &Measured::default(), 1500), None);
    }

    #[test]
    fn a_turn_is_one_ack_of_each_connection() {
        let merging = Shape { merge_sack: true, ..shape() };
        let acks = |filter, connections| turn(&merging, filter, 2, connections);
        assert_eq!((acks(AckFilter::Delayed, 3), acks(AckFilter::Static, 3)), (Some(3), Some(6)));
        assert_eq!((acks(AckFilter::Off, 3), acks(AckFilter::PerConnection, 3)), (None, None));
        assert_eq!(turn(&shape(), AckFilter::Delayed, 2, 3), None, "SACK would wait in line");
        let line =
            uplink(&shape(), [Some(rate("200kbit")), None], &Measured::default(), 1500).expect("a line");
        assert_eq!((line.turn, line.turn_burst), (line.lane, line.burst), "without data");
        for (connections, acks) in [(0, 1), (1, 1), (4, 4), (40, 40)] {
            // What htb does: a class sends while its tokens are not below zero; they grow with the time that each ACK takes.
            let turned = line.with_turns(Some(connections), &Measured::default());
            assert_eq!(turned.with_turns(None, &Measured::default()), line);
            let share = turned.turn.bytes_per_second() / line.rate.bytes_per_second();
            let mut tokens = f64::from(turned.turn_burst);
            let mut sent = 0;
            while tokens >= 0.0 {
                tokens += ACK_BYTES * share - ACK_BYTES;
                sent += 1;
            }
            assert_eq!(sent, acks, "{connections} connections");
        }
        assert!(!has_upload(&line, 2_000.0) && has_upload(&line, 3_000.0), "10 % of 24,750 bytes per second");
    }

    #[test]
    fn without_a_downlink_rate_the_rule_for_one_way_traffic_is_used() {
        let measured = Measured { round_trip: Some(Duration::from_millis(100)), ..Measured::default() };
        let line = uplink(&shape(), [Some(rate("10mbit")), None], &measured, 1500).expect("a line");
        // 99 % of 10 Mb/s for 0.1 s.
        assert_eq!(line.data_bytes, 123_750);
    }

    /// With servers near by the smallest round trip is that of an empty link, which a busy one never has.
    #[test]
    fn a_fast_uplink_keeps_a_buffer_to_work_with() {
        let near = Measured { round_trip: Some(Duration::from_millis(1)), ..Measured::default() };
        let rates = [Some(rate("10mbit")), Some(rate("10mbit"))];
        // 9.9 Mb/s for 50 ms at least.
        let line = uplink(&shape(), rates, &near, 1500).expect("a line");
        assert!((61_875..=125_000).contains(&line.data_bytes), "{} B", line.data_bytes);
    }

    #[test]
    fn delta_is_equation_1_of_paper_002() {
        // The paper's own setting: 100 kb/s of 40-byte ACKs, 200 ms, every segment acknowledged: 30 (it takes 300 ACKs/s).
        let measured = Measured {
            round_trip: Some(Duration::from_millis(200)),
            segments_per_ack: Some(1.0),
            ack_bytes: Some(100_000.0 / 8.0 / 300.0),
        };
        assert_eq!(delta(&shape(), rate("100kbit"), &measured), 30);
        assert_eq!(delta(&Shape { delta: Delta::Fixed(3), ..shape() }, rate("100kbit"), &measured), 3);
        let near = Measured { round_trip: Some(Duration::ZERO), ..measured };
        assert_eq!(delta(&shape(), rate("100kbit"), &near), 1);
    }

    #[test]
    fn small_changes_are_not_worth_it() {
        let rates = [Some(rate("196kbit")), None];
        let line = uplink(&shape(), rates, &Measured::default(), 1500).expect("a line");
        assert!(!Line { data_bytes: line.data_bytes * 6 / 5, ..line }.differs(&line));
        assert!(Line { data_bytes: line.data_bytes * 2, ..line }.differs(&line));
        assert!(Line { rate: rate("1mbit"), ..line }.differs(&line));
    }
}
