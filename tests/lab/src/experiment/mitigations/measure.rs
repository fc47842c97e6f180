//! One case on a lab of its own: traffic, and what the senders' sockets say of it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pendulum_model::segment::{Direction, PerDirection};
use serde::Serialize;

use super::ping::{ControlPing, Pinged};
use super::short::Crowd;
use crate::experiment::ExperimentError;
use crate::interrupt::Interrupt;
use crate::lab::{Lab, LabError};
use crate::topology::Role;
use crate::traffic::{Ends, Prepared, Transfer, TransferSpec};
use crate::truth::{SocketReading, counter, read_sockets};

const INTERVAL: Duration = Duration::from_millis(500);
/// The transfers outlast what is measured, so that no end exchange of iperf3 falls into it.
const BEYOND: Duration = Duration::from_secs(5);
const TIMEOUTS: &str = "TCPTimeouts";
const LOST_RETRANSMISSIONS: &str = "TCPLostRetransmit";
/// Share of the time left out at the begin: slow start, and the filling of the buffers.
const SETTLING_SHARE: f64 = 0.25;

/// What was seen of one case.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct CaseFigures {
    /// Payload delivered by the senders' count of ACKs and SACKs, bit/s; `None` where nothing was sent.
    pub(super) goodput_bps: PerDirection<Option<f64>>,
    /// Mean of the senders' smoothed round-trip times, seconds.
    pub(super) rtt_s: PerDirection<Option<f64>>,
    /// Their largest, seconds.
    pub(super) rtt_max_s: PerDirection<Option<f64>>,
    /// Segments sent again.
    pub(super) retransmitted_segments: PerDirection<Option<u64>>,
    /// A ping beside it.
    pub(super) ping: Pinged,
    /// Retransmission timeouts of all ends, from the first packet on.
    pub(super) timeouts: u64,
    /// Retransmissions that were lost in turn (`TcpExtTCPLostRetransmit`), of all ends: each makes the window smaller once more.
    pub(super) lost_retransmissions: u64,
    /// Short downloads that came to their end, of those that began.
    pub(super) short: Option<(u32, u32)>,
    /// Seconds that were measured.
    pub(super) seconds: f64,
}

/// All senders of both directions at one moment.
struct SenderReading {
    at: Duration,
    senders: PerDirection<Vec<SocketReading>>,
}

/// What runs over the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaseTraffic<'a> {
    /// Long transfers of each direction.
    pub(super) streams: PerDirection<u32>,
    /// Their congestion control.
    pub(super) cc: &'a str,
    /// Short downloads.
    pub(super) short: u32,
    pub(super) length: Duration,
}

/// Runs the traffic and measures its steady part.
pub(super) fn measure(
    lab: &Lab,
    traffic: &CaseTraffic<'_>,
    interrupt: &Interrupt,
    step: &dyn Fn(Duration),
) -> Result<CaseFigures, ExperimentError> {
    let CaseTraffic { streams, cc, short, length } = *traffic;
    let before = [counted(lab, TIMEOUTS)?, counted(lab, LOST_RETRANSMISSIONS)?];
    let mut prepared = Vec::new();
    for direction in [Direction::Down, Direction::Up] {
        if streams[direction] > 0 {
            let spec = TransferSpec {
                streams: streams[direction],
                congestion_control: cc.into(),
                ..TransferSpec::new(direction, length + BEYOND)
            };
            prepared.push(Prepared::new(lab, spec)?);
        }
    }
    let transfers = prepared.into_iter().map(Prepared::start).collect::<Result<Vec<Transfer>, _>>()?;
    let ping = ControlPing::start(lab, length)?;
    let settled = length.mul_f64(SETTLING_SHARE);
    let (mut readings, mut crowd) = (Vec::new(), None);
    look_on(lab, length, interrupt, step, |at| {
        let senders =
            PerDirection { up: read_sockets(&lab.host(Role::U2))?, down: read_sockets(&lab.host(Role::D1))? };
        readings.push(SenderReading { at, senders });
        if short > 0 && crowd.is_none() && at >= settled {
            crowd = Some(Crowd::start(lab, short)?);
        }
        Ok(())
    })?;
    let timeouts = counted(lab, TIMEOUTS)?.saturating_sub(before[0]);
    let lost_retransmissions = counted(lab, LOST_RETRANSMISSIONS)?.saturating_sub(before[1]);
    let short = crowd.map(|crowd| crowd.complete());
    // The last replies come while the transfers still run: they outlast what is measured.
    let ping = ping.finish(SETTLING_SHARE)?;
    drop(transfers);
    Ok(CaseFigures {
        ping,
        timeouts,
        lost_retransmissions,
        short,
        ..evaluate(&readings, settled, streams, cc)?
    })
}

/// Two uploads, each from a host of its own, beside the link's downloads: the share of the smaller one, 0.5 at best.
pub(super) fn smaller_share(
    lab: &Lab,
    traffic: &CaseTraffic<'_>,
    interrupt: &Interrupt,
    step: &dyn Fn(Duration),
) -> Result<Option<f64>, ExperimentError> {
    let CaseTraffic { streams, cc, length, .. } = *traffic;
    let spec = |direction, ends, streams| TransferSpec {
        ends,
        streams,
        congestion_control: cc.into(),
        ..TransferSpec::new(direction, length + BEYOND)
    };
    let mut prepared = Vec::new();
    if streams.down > 0 {
        prepared.push(Prepared::new(
            lab,
            spec(Direction::Down, Ends { internet: Role::D1, home: Role::D2 }, streams.down),
        )?);
    }
    for ends in [Ends { internet: Role::U1, home: Role::U2 }, Ends { internet: Role::D1, home: Role::D2 }] {
        prepared.push(Prepared::new(lab, spec(Direction::Up, ends, 1))?);
    }
    let transfers = prepared.into_iter().map(Prepared::start).collect::<Result<Vec<Transfer>, _>>()?;
    let (mut first, mut last): (Option<[_; 2]>, Option<[_; 2]>) = (None, None);
    look_on(lab, length, interrupt, step, |at| {
        if at >= length.mul_f64(SETTLING_SHARE) {
            let uploads = [read_uploads(lab, Role::U2)?, read_uploads(lab, Role::D2)?];
            first.get_or_insert_with(|| uploads.clone());
            last = Some(uploads);
        }
        Ok(())
    })?;
    drop(transfers);
    let Some((first, last)) = first.zip(last) else { return Ok(None) };
    Ok(share_of_smaller([0, 1].map(|n| grown(&first[n], &last[n], SocketReading::delivered_bytes))))
}

/// Calls `look` now and then until `length` has passed; the last time then.
fn look_on(
    lab: &Lab,
    length: Duration,
    interrupt: &Interrupt,
    step: &dyn Fn(Duration),
    mut look: impl FnMut(Duration) -> Result<(), ExperimentError>,
) -> Result<(), ExperimentError> {
    let start = Instant::now();
    for tick in 1.. {
        interrupt.sleep_until(start + INTERVAL * tick)?;
        lab.check().map_err(LabError::from)?;
        let at = start.elapsed();
        look(at)?;
        step(at);
        if at >= length {
            break;
        }
    }
    Ok(())
}

fn share_of_smaller(sent: [u64; 2]) -> Option<f64> {
    let all = sent[0] + sent[1];
    (all > 0).then(|| sent[0].min(sent[1]) as f64 / all as f64)
}

fn read_uploads(lab: &Lab, home: Role) -> Result<Vec<SocketReading>, ExperimentError> {
    Ok(read_sockets(&lab.host(home))?.into_iter().filter(SocketReading::sends_bulk).collect())
}

/// A counter of `TcpExt`, summed over all ends.
fn counted(lab: &Lab, name: &str) -> Result<u64, ExperimentError> {
    let mut all = 0;
    for role in Role::ALL.into_iter().filter(|role| role.is_endpoint()) {
        let text = lab.host(role).inside(|| std::fs::read_to_string("/proc/thread-self/net/netstat"))?;
        all += text.ok().and_then(|text| counter(&text, "TcpExt", name)).unwrap_or(0);
    }
    Ok(all)
}

fn evaluate(
    readings: &[SenderReading],
    from: Duration,
    streams: PerDirection<u32>,
    cc: &str,
) -> Result<CaseFigures, ExperimentError> {
    let steady: Vec<&SenderReading> = readings.iter().filter(|reading| reading.at >= from).collect();
    let (Some(first), Some(last)) = (steady.first(), steady.last()) else {
        return Ok(CaseFigures::default());
    };
    let mut measured = CaseFigures { seconds: (last.at - first.at).as_secs_f64(), ..CaseFigures::default() };
    for direction in [Direction::Down, Direction::Up] {
        if streams[direction] == 0 {
            continue;
        }
        let bulk = |reading: &SenderReading| -> Vec<SocketReading> {
            reading.senders[direction].iter().filter(|socket| socket.sends_bulk()).cloned().collect()
        };
        check_congestion_control(&bulk(last), cc)?;
        let seconds = measured.seconds.max(f64::EPSILON);
        let bytes = grown(&bulk(first), &bulk(last), SocketReading::delivered_bytes);
        measured.goodput_bps[direction] = Some(bytes as f64 * 8.0 / seconds);
        measured.retransmitted_segments[direction] =
            Some(grown(&bulk(first), &bulk(last), |socket| socket.retransmitted_segments));
        let rtts: Vec<f64> =
            steady.iter().flat_map(|reading| bulk(reading)).map(|socket| socket.rtt.as_secs_f64()).collect();
        if !rtts.is_empty() {
            measured.rtt_s[direction] = Some(rtts.iter().sum::<f64>() / rtts.len() as f64);
            measured.rtt_max_s[direction] = rtts.iter().copied().reduce(f64::max);
        }
    }
    Ok(measured)
}

/// How much a figure of all sockets together has grown. A socket that was not there before began at zero.
pub(in crate::experiment) fn grown(
    before: &[SocketReading],
    after: &[SocketReading],
    figure: impl Fn(&SocketReading) -> u64,
) -> u64 {
    let known: HashMap<(&str, &str), u64> =
        before.iter().map(|socket| ((socket.local.as_str(), socket.peer.as_str()), figure(socket))).collect();
    let growth = after.iter().map(|socket| {
        let began = known.get(&(socket.local.as_str(), socket.peer.as_str())).copied().unwrap_or(0);
        figure(socket).saturating_sub(began)
    });
    growth.sum()
}

fn check_congestion_control(sockets: &[SocketReading], wanted: &str) -> Result<(), ExperimentError> {
    let other = sockets
        .iter()
        .find(|socket| !socket.congestion_control.is_empty() && socket.congestion_control != wanted);
    other.map_or(Ok(()), |socket| {
        Err(ExperimentError::CongestionControl {
            wanted: wanted.into(),
            used: socket.congestion_control.clone(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(peer: &str, delivered_segments: u64) -> SocketReading {
        SocketReading {
            peer: peer.into(),
            congestion_control: "reno".into(),
            delivered_segments,
            acked_bytes: 100_000,
            mss_bytes: 1000,
            rtt: Duration::from_millis(delivered_segments),
            ..SocketReading::default()
        }
    }

    fn reading(second: u64, down: Vec<SocketReading>) -> SenderReading {
        SenderReading { at: Duration::from_secs(second), senders: PerDirection { up: Vec::new(), down } }
    }

    const DOWNLOADS: PerDirection<u32> = PerDirection { up: 0, down: 2 };

    #[test]
    fn goodput_is_the_growth_of_all_senders_within_the_steady_part() {
        let readings = [
            reading(0, vec![socket("a", 0)]),
            reading(1, vec![socket("a", 100)]),
            reading(3, vec![socket("a", 200), socket("b", 300)]),
        ];
        let measured = evaluate(&readings, Duration::from_secs(1), DOWNLOADS, "reno").unwrap();
        assert_eq!(measured.goodput_bps.down, Some(400.0 * 1000.0 * 8.0 / 2.0));
        assert_eq!(measured.goodput_bps.up, None);
        assert!((measured.rtt_s.down.unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(measured.rtt_max_s.down, Some(0.3));
    }

    #[test]
    fn the_smaller_share_is_half_at_best() {
        assert_eq!(share_of_smaller([300, 100]), Some(0.25));
        assert_eq!(share_of_smaller([7, 7]), Some(0.5));
        assert_eq!(share_of_smaller([0, 0]), None, "nothing was sent");
    }

    #[test]
    fn another_congestion_control_is_no_result() {
        let readings = [reading(1, vec![socket("a", 1)]), reading(2, vec![socket("a", 2)])];
        let error = evaluate(&readings, Duration::ZERO, DOWNLOADS, "cubic").unwrap_err().to_string();
        assert!(error.contains("reno") && error.contains("cubic"), "{error}");
    }
}
