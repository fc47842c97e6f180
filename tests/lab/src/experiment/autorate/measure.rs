//! The traffic of a case, and what is seen of it.

use std::time::Duration;

use pendulum_model::segment::{Direction, PerDirection};
use serde::Serialize;

use super::pairs::Pair;
use super::pieces::{Flow, Pieces};
use super::ping::{Echo, Ping};
use crate::capacity::{LinkReading, OPPORTUNITY_BYTES, Trace};
use crate::experiment::ExperimentError;
use crate::experiment::mitigations::{grown, is_available};
use crate::interrupt::Interrupt;
use crate::lab::{Lab, LabError};
use crate::statistics::quantile;
use crate::topology::Role;
use crate::traffic::{Prepared, Transfer, TransferSpec};
use crate::truth::{SocketReading, read_sockets};

/// Left out at the begin of the traces: slow start, and a controller's first steps.
pub(super) const SETTLING: Duration = Duration::from_secs(5);
/// The transfers outlast what is measured.
const BEYOND: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(500);
/// Long connections of each direction.
const STREAMS: u32 = 2;
/// The video: a segment for each two seconds, a quarter of the mean capacity.
const SEGMENT: Duration = Duration::from_secs(2);
const VIDEO_SHARE: f64 = 0.25;
/// A burst: half a second of the mean capacity.
const BURST_INTERVAL: Duration = Duration::from_secs(4);
const BURST_S: f64 = 0.5;

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Seen {
    /// Share of the opportunities' bytes that were used; long transfers want all of them all the time.
    pub(super) utilization: Option<f64>,
    /// Queueing delay of pings: the time from one end to the other less the propagation delay, waiting for the link's next opportunity included.
    pub(super) ping_p50_s: Option<f64>,
    pub(super) ping_p95_s: Option<f64>,
    pub(super) ping_p99_s: Option<f64>,
    /// The same less what no shaper can help: the time until the link's next opportunity.
    pub(super) ping_added_p95_s: Option<f64>,
    /// Share of the pings that did not come out.
    pub(super) ping_loss: Option<f64>,
    /// 95th percentile of the long transfers' smoothed round-trip times.
    pub(super) tcp_rtt_p95_s: Option<f64>,
    /// Payload delivered by the long transfers, bit/s.
    pub(super) goodput_bps: Option<f64>,
    /// Bytes of IP packets that a contender sent to probe the link, during the whole case.
    pub(super) probe_bytes: u64,
    /// Capacity of the stretch that was measured, bit/s.
    pub(super) capacity_bps: Option<f64>,
    /// Mean of what waited in the link's own buffer, bytes.
    pub(super) hidden_queue_mean_bytes: Option<f64>,
    /// Packets that the link's own buffer dropped.
    pub(super) hidden_drops: u64,
}

/// What the link did at some moments, for plots.
pub(super) type LinkSeries = Vec<PerDirection<LinkReading>>;

/// A reading of the link and its senders.
struct LinkAndSenders {
    link: PerDirection<LinkReading>,
    sockets: PerDirection<Vec<SocketReading>>,
}

/// Runs the traffic for `length` from the traces' begin, which is now.
pub(super) fn measure(
    lab: &Lab,
    pair: &Pair,
    length: Duration,
    interrupt: &Interrupt,
    step: &dyn Fn(Duration),
) -> Result<(PerDirection<Seen>, LinkSeries), ExperimentError> {
    let mut prepared = Vec::new();
    for direction in [Direction::Down, Direction::Up] {
        let congestion_control = if is_available("cubic") { "cubic" } else { "reno" }.into();
        let spec = TransferSpec::new(direction, length + BEYOND);
        prepared.push(Prepared::new(lab, TransferSpec { streams: STREAMS, congestion_control, ..spec })?);
    }
    let began = lab.restart_traces();
    let transfers = prepared.into_iter().map(Prepared::start).collect::<Result<Vec<Transfer>, _>>()?;
    let ping = Ping::start(lab, began)?;
    let flows =
        pieces(pair, length).into_iter().map(|pieces| pieces.start(lab)).collect::<Result<Vec<Flow>, _>>()?;
    let ports = PerDirection { down: transfers[0].port(), up: transfers[1].port() };
    let mut readings = Vec::new();
    for tick in 1.. {
        interrupt.sleep_until(began + INTERVAL * tick)?;
        lab.check().map_err(LabError::from)?;
        let at = began.elapsed();
        readings.push(read(lab, ports)?);
        step(at);
        if at >= length {
            break;
        }
    }
    let echoes = ping.echoes();
    drop((ping, flows, transfers));
    let propagation = lab.spec().delays.propagation;
    let seen = |direction| evaluate(&readings, &echoes, &pair.traces[direction], direction, propagation);
    let seen = PerDirection::from_fn(seen);
    Ok((seen, readings.iter().map(|reading| reading.link).collect()))
}

fn pieces(pair: &Pair, length: Duration) -> [Pieces; 3] {
    let mean = PerDirection::from_fn(|direction| pair.traces[direction].mean_bps(length) / 8.0);
    let burst = |direction: Direction| (mean[direction] * BURST_S) as u64;
    let segment = (mean.down * VIDEO_SHARE * SEGMENT.as_secs_f64()) as u64;
    [
        Pieces { direction: Direction::Down, bytes: segment, interval: SEGMENT },
        Pieces { direction: Direction::Down, bytes: burst(Direction::Down), interval: BURST_INTERVAL },
        Pieces { direction: Direction::Up, bytes: burst(Direction::Up), interval: BURST_INTERVAL },
    ]
}

fn read(lab: &Lab, ports: PerDirection<u16>) -> Result<LinkAndSenders, ExperimentError> {
    let sockets = |role, port| -> Result<Vec<SocketReading>, ExperimentError> {
        let all = read_sockets(&lab.host(role))?;
        Ok(all.into_iter().filter(|socket| socket.has_port(port) && socket.sends_bulk()).collect())
    };
    let sockets = PerDirection { up: sockets(Role::U2, ports.up)?, down: sockets(Role::D1, ports.down)? };
    let link = PerDirection::from_fn(|direction| lab.link_reading(direction).unwrap_or_default());
    Ok(LinkAndSenders { link, sockets })
}

fn evaluate(
    readings: &[LinkAndSenders],
    echoes: &[Echo],
    trace: &Trace,
    direction: Direction,
    propagation: Duration,
) -> Seen {
    let steady: Vec<&LinkAndSenders> =
        readings.iter().filter(|reading| reading.link[direction].at >= SETTLING).collect();
    let (Some(first), Some(last)) = (steady.first(), steady.last()) else { return Seen::default() };
    let (begin, end) = (first.link[direction], last.link[direction]);
    let seconds = (end.at.saturating_sub(begin.at)).as_secs_f64();
    let given = (end.opportunities.saturating_sub(begin.opportunities)) * OPPORTUNITY_BYTES;
    let delivered = end.delivered_bytes.saturating_sub(begin.delivered_bytes);
    let per = |bytes: u64| (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds);
    let rtts =
        steady.iter().flat_map(|reading| &reading.sockets[direction]).map(|socket| socket.rtt.as_secs_f64());
    let levels = || steady.iter().map(|reading| reading.link[direction].queued_bytes as f64);
    let goodput = grown(&first.sockets[direction], &last.sockets[direction], SocketReading::delivered_bytes);
    let pings = delays(echoes, trace, direction, propagation, begin.at..end.at);
    let delay = |share| quantile(pings.delays.clone(), share);
    Seen {
        utilization: (given > 0).then(|| delivered as f64 / given as f64),
        ping_p50_s: delay(0.5),
        ping_p95_s: delay(0.95),
        ping_p99_s: delay(0.99),
        ping_added_p95_s: quantile(pings.added, 0.95),
        ping_loss: pings.loss,
        tcp_rtt_p95_s: quantile(rtts.collect(), 0.95),
        goodput_bps: per(goodput),
        probe_bytes: 0,
        capacity_bps: per(given),
        hidden_queue_mean_bytes: Some(levels().sum::<f64>() / steady.len() as f64),
        hidden_drops: end.dropped_packets.saturating_sub(begin.dropped_packets),
    }
}

/// What pings of one direction met.
#[derive(Debug, Default, PartialEq)]
struct PingDelays {
    delays: Vec<f64>,
    added: Vec<f64>,
    loss: Option<f64>,
}

/// Of the pings that were sent within a time; one that entered and had not come out within its time limit of the end is lost, a younger one
/// is not counted.
fn delays(
    echoes: &[Echo],
    trace: &Trace,
    direction: Direction,
    propagation: Duration,
    within: std::ops::Range<Duration>,
) -> PingDelays {
    /// A ping that is under way for less may still come.
    const PATIENCE: Duration = Duration::from_secs(2);
    let mut seen = PingDelays::default();
    let (mut entered, mut lost) = (0_u32, 0_u32);
    for echo in echoes {
        let at = match direction {
            Direction::Up => Some(echo.sent),
            Direction::Down => echo.turned,
        };
        let Some(at) = at.filter(|at| within.contains(at)) else { continue };
        match echo.passage()[direction] {
            None if at + PATIENCE > within.end => {}
            None => (entered, lost) = (entered + 1, lost + 1),
            Some((_, took)) => {
                entered += 1;
                let queued = took.saturating_sub(propagation);
                let wait = trace.at(trace.count_until(at)).saturating_sub(at);
                seen.delays.push(queued.as_secs_f64());
                seen.added.push(queued.saturating_sub(wait).as_secs_f64());
            }
        }
    }
    seen.loss = (entered > 0).then(|| f64::from(lost) / f64::from(entered));
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    #[test]
    fn what_the_link_itself_makes_wait_is_nobody_s_fault() {
        // An opportunity each 100 ms.
        let trace = Trace::new(vec![100]).unwrap();
        let echo = |sent, turned: Option<u64>| Echo { sent: ms(sent), turned: turned.map(ms), back: None };
        let echoes = [
            echo(50, Some(999)),
            // 20 ms on the way; leaves at 6,100 with the next opportunity.
            echo(6010, Some(6120)),
            // Two opportunities later than it might have.
            echo(6050, Some(6320)),
            echo(6100, None),
            // Sent too late to be lost for certain.
            echo(9900, None),
        ];
        let seen = delays(&echoes, &trace, Direction::Up, ms(20), ms(5000)..ms(10_000));
        assert_eq!(seen.delays, [0.09, 0.25]);
        assert_eq!(seen.added, [0.0, 0.2]);
        assert_eq!(seen.loss, Some(1.0 / 3.0));
        assert_eq!(delays(&echoes, &trace, Direction::Down, ms(20), ms(5000)..ms(6200)).delays, [0.0_f64; 0]);
    }

    #[test]
    fn utilization_is_what_left_of_what_could_have_since_the_settling() {
        let link = |at, opportunities, delivered_bytes, queued_bytes| LinkReading {
            at: ms(at),
            opportunities,
            delivered_bytes,
            queued_bytes,
            ..LinkReading::default()
        };
        let reading = |reading| LinkAndSenders {
            link: PerDirection { up: reading, down: LinkReading::default() },
            sockets: PerDirection::default(),
        };
        let readings = [
            reading(link(1000, 10, 15_000, 9000)),
            reading(link(5000, 100, 20_000, 1000)),
            reading(link(7000, 200, 140_000, 3000)),
        ];
        let trace = Trace::new(vec![20]).unwrap();
        let seen = evaluate(&readings, &[], &trace, Direction::Up, Duration::ZERO);
        assert_eq!(seen.utilization, Some(0.8));
        assert_eq!((seen.capacity_bps, seen.hidden_queue_mean_bytes), (Some(600_000.0), Some(2000.0)));
        assert_eq!((seen.ping_p95_s, seen.ping_loss, seen.tcp_rtt_p95_s), (None, None, None));
    }
}
