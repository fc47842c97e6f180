//! What was observed during a scenario, and what it says about a stretch of it.

use std::collections::HashMap;
use std::time::Duration;

use pendulum_model::segment::{Direction, PerDirection};
use serde::Serialize;

use super::agent_log::AgentLog;
use super::figures::Figures;
use super::phases::{Phases, QueueSample};
use crate::statistics::median;
use crate::truth::{QueueReading, QueueSummary, SocketReading};

/// Both ends' sockets at one moment, summed over the transfers of each direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransferSample {
    pub(super) at: Duration,
    /// Payload delivered since the start, bytes, as the senders know it.
    pub(super) delivered: PerDirection<u64>,
    /// Payload handed to the receivers in order since the start, bytes.
    pub(super) in_order: PerDirection<u64>,
    /// Senders' congestion windows together, bytes.
    pub(super) cwnd: PerDirection<u64>,
    /// Senders' largest smoothed round-trip time.
    pub(super) rtt: PerDirection<Duration>,
    /// Sent and not yet acknowledged, all senders together, bytes.
    pub(super) outstanding: PerDirection<u64>,
    /// Segments sent again since the start.
    pub(super) retransmitted: PerDirection<u64>,
}

/// One transfer at one moment, summed over its streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowSample {
    pub(super) at: Duration,
    /// Its place in the scenario's list.
    pub(super) transfer: usize,
    /// Payload delivered since the start, bytes.
    pub(super) delivered: u64,
    /// Congestion windows, bytes.
    pub(super) cwnd: u64,
    /// Largest smoothed round-trip time.
    pub(super) rtt: Duration,
    /// Segments sent again since the start.
    pub(super) retransmitted: u64,
}

/// The sockets of one transfer at one moment.
#[derive(Debug)]
pub(super) struct TransferSockets {
    pub(super) transfer: usize,
    pub(super) direction: Direction,
    pub(super) sender: Vec<SocketReading>,
    pub(super) receiver: Vec<SocketReading>,
}

/// Everything observed during one scenario.
#[derive(Debug, Default)]
pub struct Record {
    pub(super) queues: Vec<QueueSample>,
    pub(super) transfers: Vec<TransferSample>,
    /// Each transfer for itself.
    pub(super) flows: Vec<FlowSample>,
    pub(super) agent: AgentLog,
    /// When it began, since 1970: captures have that clock.
    pub(super) began: Duration,
    delivered: PerDirection<PerSocket>,
    in_order: PerDirection<PerSocket>,
    retransmitted: PerDirection<PerSocket>,
}

/// A growing figure of each socket. A socket that has closed keeps its last one.
#[derive(Debug, Default)]
struct PerSocket(HashMap<(String, String), u64>);

impl PerSocket {
    /// Notes the figures of the present sockets and returns the sum over all there have been.
    fn note<'a>(&mut self, figures: impl Iterator<Item = (&'a SocketReading, u64)>) -> u64 {
        for (socket, figure) in figures {
            let known = self.0.entry((socket.local.clone(), socket.peer.clone())).or_default();
            // In TIME-WAIT the kernel has forgotten the figure.
            *known = figure.max(*known);
        }
        self.0.values().sum()
    }
}

/// What a stretch of a scenario was like.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Goodput, as the senders know it from ACKs and SACKs: it counts a segment when it arrives, and once.
    #[serde(skip)]
    pub figures: Figures,
    /// Goodput by the receivers' sockets. A hole at a bound of the stretch shifts up to a window of it in or out.
    pub in_order: Figures,
    /// The uplink buffer, on the gateway.
    pub uplink_queue: Option<QueueSummary>,
    /// The downlink buffer, at the provider.
    pub downlink_queue: Option<QueueSummary>,
    /// Mean smoothed round-trip time of the downloads' senders, seconds.
    pub download_rtt_s: Option<f64>,
    /// The same of the uploads' senders.
    pub upload_rtt_s: Option<f64>,
    /// Mean congestion window of the downloads together, bytes.
    pub download_cwnd_bytes: Option<f64>,
    /// The same of the uploads.
    pub upload_cwnd_bytes: Option<f64>,
    /// Median of the senders' smoothed round-trip times, seconds.
    pub rtt_median_s: PerDirection<Option<f64>>,
    /// Median of what the senders have sent and not yet seen acknowledged, bytes.
    pub outstanding_median_bytes: PerDirection<Option<f64>>,
    /// Segments sent again, as the senders count them.
    pub retransmitted_segments: PerDirection<Option<u64>>,
    /// The cases of 000 §3 as the readings of the queues have them.
    #[serde(flatten)]
    pub phases: Phases,
    /// How many readings of the queues these figures rest on.
    pub queue_readings: usize,
}

impl Record {
    /// Notes the sockets of both directions' receivers and senders.
    pub(crate) fn note_sockets(
        &mut self,
        at: Duration,
        receivers: &PerDirection<Vec<SocketReading>>,
        senders: &PerDirection<Vec<SocketReading>>,
    ) {
        let bulk = |direction: Direction| senders[direction].iter().filter(|socket| socket.sends_bulk());
        let delivered = PerDirection::from_fn(|direction| {
            self.delivered[direction].note(bulk(direction).map(|socket| (socket, socket.delivered_bytes())))
        });
        let in_order = PerDirection::from_fn(|direction| {
            let received = receivers[direction].iter().map(|socket| (socket, socket.received_bytes));
            self.in_order[direction].note(received)
        });
        self.transfers.push(TransferSample {
            at,
            delivered,
            in_order,
            cwnd: PerDirection::from_fn(|d| {
                bulk(d).map(|socket| socket.cwnd_segments * socket.mss_bytes).sum()
            }),
            rtt: PerDirection::from_fn(|d| bulk(d).map(|socket| socket.rtt).max().unwrap_or_default()),
            outstanding: PerDirection::from_fn(|d| bulk(d).map(SocketReading::outstanding_bytes).sum()),
            retransmitted: PerDirection::from_fn(|d| {
                self.retransmitted[d].note(bulk(d).map(|socket| (socket, socket.retransmitted_segments)))
            }),
        });
    }

    /// Notes all transfers, each for itself and together.
    pub(super) fn note_transfers(&mut self, at: Duration, transfers: &[TransferSockets]) {
        for TransferSockets { transfer, sender, .. } in transfers {
            let bulk = || sender.iter().filter(|socket| socket.sends_bulk());
            if bulk().next().is_some() {
                self.flows.push(FlowSample {
                    at,
                    transfer: *transfer,
                    delivered: bulk().map(SocketReading::delivered_bytes).sum(),
                    cwnd: bulk().map(|socket| socket.cwnd_segments * socket.mss_bytes).sum(),
                    rtt: bulk().map(|socket| socket.rtt).max().unwrap_or_default(),
                    retransmitted: bulk().map(|socket| socket.retransmitted_segments).sum(),
                });
            }
        }
        let of = |side: fn(&TransferSockets) -> &Vec<SocketReading>| {
            PerDirection::from_fn(|direction| {
                let those = transfers.iter().filter(|one| one.direction == direction);
                those.flat_map(|one| side(one).iter().cloned()).collect::<Vec<_>>()
            })
        };
        self.note_sockets(at, &of(|one| &one.receiver), &of(|one| &one.sender));
    }

    /// Payload of one transfer delivered within a stretch, bit/s; `None` if it was not seen twice there.
    pub fn flow_bps(&self, transfer: usize, from: Duration, to: Duration) -> Option<f64> {
        let within = |sample: &&FlowSample| sample.transfer == transfer && (from..=to).contains(&sample.at);
        let (first, last) = (self.flows.iter().find(within)?, self.flows.iter().rev().find(within)?);
        let seconds = last.at.checked_sub(first.at)?.as_secs_f64();
        (seconds > 0.0).then(|| last.delivered.saturating_sub(first.delivered) as f64 * 8.0 / seconds)
    }

    /// Smoothed round-trip time at one moment: of the downloads, else of the uploads.
    pub(super) fn round_trip(&self, at: Duration) -> Option<Duration> {
        let later = self.transfers.partition_point(|sample| sample.at < at);
        let sample = self.transfers.get(later).or(self.transfers.last())?;
        [sample.rtt.down, sample.rtt.up].into_iter().find(|rtt| !rtt.is_zero())
    }

    /// Evaluates a stretch.
    pub fn measure(&self, from: Duration, to: Duration) -> Measurement {
        let queues: Vec<_> = self.queues.iter().filter(|sample| (from..=to).contains(&sample.at)).collect();
        let summary = |direction: Direction| {
            let moments: Vec<_> = queues.iter().map(|sample| (sample.at, sample.queue[direction])).collect();
            QueueSummary::of(&moments)
        };
        Measurement {
            figures: self.goodput(from, to, |sample| &sample.delivered),
            in_order: self.goodput(from, to, |sample| &sample.in_order),
            uplink_queue: summary(Direction::Up),
            downlink_queue: summary(Direction::Down),
            download_rtt_s: self.mean(from, to, |sample| sample.rtt.down.as_secs_f64()),
            upload_rtt_s: self.mean(from, to, |sample| sample.rtt.up.as_secs_f64()),
            download_cwnd_bytes: self.mean(from, to, |sample| sample.cwnd.down as f64),
            upload_cwnd_bytes: self.mean(from, to, |sample| sample.cwnd.up as f64),
            rtt_median_s: PerDirection::from_fn(|d| {
                self.median(from, to, |sample| sample.rtt[d].as_secs_f64())
            }),
            outstanding_median_bytes: PerDirection::from_fn(|d| {
                self.median(from, to, |sample| sample.outstanding[d] as f64)
            }),
            retransmitted_segments: PerDirection::from_fn(|d| {
                let total = |at| self.interpolate(at, |sample| sample.retransmitted[d] as f64);
                Some((total(to)? - total(from)?).round() as u64)
            }),
            phases: Phases::of(queues.iter().copied(), |at| self.round_trip(at)),
            queue_readings: queues.len(),
        }
    }

    fn goodput(
        &self,
        from: Duration,
        to: Duration,
        bytes: impl Fn(&TransferSample) -> &PerDirection<u64>,
    ) -> Figures {
        let rate = |direction: Direction| {
            let at = |moment| self.interpolate(moment, |sample| bytes(sample)[direction] as f64);
            Some((at(to)? - at(from)?) * 8.0 / (to - from).as_secs_f64())
        };
        match (rate(Direction::Down), rate(Direction::Up)) {
            (Some(download), Some(upload)) => Figures::new(download, upload),
            (download_bps, upload_bps) => Figures { download_bps, upload_bps, ratio: None },
        }
    }

    /// A growing figure at one moment, between two readings by straight line; outside them, the nearest one.
    fn interpolate(&self, at: Duration, figure: impl Fn(&TransferSample) -> f64) -> Option<f64> {
        let later = self.transfers.partition_point(|sample| sample.at < at);
        match (later.checked_sub(1).and_then(|i| self.transfers.get(i)), self.transfers.get(later)) {
            (Some(before), Some(after)) => {
                let share = (at - before.at).as_secs_f64() / (after.at - before.at).as_secs_f64();
                Some(figure(before) + share * (figure(after) - figure(before)))
            }
            (before, after) => before.or(after).map(figure),
        }
    }

    /// Mean over the readings of a stretch in which the value is there (not zero).
    fn mean(&self, from: Duration, to: Duration, value: impl Fn(&TransferSample) -> f64) -> Option<f64> {
        let values = self.present(from, to, value);
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Median over the same readings.
    fn median(&self, from: Duration, to: Duration, value: impl Fn(&TransferSample) -> f64) -> Option<f64> {
        median(self.present(from, to, value))
    }

    fn present(&self, from: Duration, to: Duration, value: impl Fn(&TransferSample) -> f64) -> Vec<f64> {
        let within = self.transfers.iter().filter(|sample| (from..=to).contains(&sample.at));
        within.map(value).filter(|value| *value > 0.0).collect()
    }

    /// Notes both queues.
    pub(crate) fn note_queues(&mut self, at: Duration, queue: PerDirection<QueueReading>) {
        self.queues.push(QueueSample { at, queue });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(peer: &str, received_bytes: u64) -> SocketReading {
        SocketReading { peer: peer.into(), received_bytes, ..SocketReading::default() }
    }

    fn sender(peer: &str, delivered_segments: u64) -> SocketReading {
        let bulk = SocketReading { acked_bytes: 100_000, mss_bytes: 1000, ..SocketReading::default() };
        SocketReading { peer: peer.into(), delivered_segments, ..bulk }
    }

    fn downloads(sockets: Vec<SocketReading>) -> PerDirection<Vec<SocketReading>> {
        PerDirection { up: Vec::new(), down: sockets }
    }

    #[test]
    fn goodput_is_what_was_delivered_between_the_bounds() {
        let mut record = Record::default();
        let mut at = |second, receivers, senders| {
            record.note_sockets(Duration::from_secs(second), &downloads(receivers), &downloads(senders));
        };
        at(0, vec![receiver("a", 0)], vec![sender("a", 0)]);
        at(2, vec![receiver("a", 2000)], vec![sender("a", 4)]);
        // The first socket is closing and then gone; its bytes still count.
        at(3, vec![receiver("a", 0)], vec![sender("a", 0)]);
        at(4, vec![receiver("b", 6000)], vec![sender("b", 6)]);
        let measured = record.measure(Duration::from_secs(1), Duration::from_secs(4));
        assert_eq!(measured.in_order.download_bps, Some((1000.0 + 6000.0) * 8.0 / 3.0));
        assert_eq!(measured.figures.download_bps, Some((2000.0 + 6000.0) * 8.0 / 3.0));
        assert_eq!((measured.figures.upload_bps, measured.figures.ratio), (Some(0.0), None));
    }

    #[test]
    fn queues_are_summed_up_within_the_bounds_only() {
        let mut record = Record::default();
        for (second, backlog_bytes) in [(0, 9000), (1, 100), (2, 300), (3, 9000)] {
            let reading = QueueReading { backlog_bytes, ..QueueReading::default() };
            let queue = PerDirection { up: reading, down: QueueReading::default() };
            record.queues.push(QueueSample { at: Duration::from_secs(second), queue });
        }
        let measured = record.measure(Duration::from_secs(1), Duration::from_secs(2));
        assert_eq!(measured.queue_readings, 2);
        assert_eq!(measured.uplink_queue.unwrap().mean_bytes, 200.0);
        assert_eq!(measured.downlink_queue.unwrap().max_bytes, 0);
    }

    #[test]
    fn without_readings_nothing_is_claimed() {
        let measured = Record::default().measure(Duration::ZERO, Duration::from_secs(1));
        assert_eq!(measured.figures, Figures::default());
        assert!(measured.uplink_queue.is_none() && measured.download_rtt_s.is_none());
        assert_eq!(measured.retransmitted_segments, PerDirection::default());
    }

    #[test]
    fn retransmissions_of_a_stretch_are_those_between_its_bounds() {
        let mut record = Record::default();
        for (second, total) in [(0, 0), (1, 5), (2, 9), (3, 20)] {
            let socket =
                SocketReading { retransmitted_segments: total, sent_bytes: 103_000, ..sender("a", 1) };
            record.note_sockets(
                Duration::from_secs(second),
                &downloads(Vec::new()),
                &downloads(vec![socket]),
            );
        }
        let measured = record.measure(Duration::from_secs(1), Duration::from_secs(2));
        assert_eq!(measured.retransmitted_segments.down, Some(4));
        assert_eq!(measured.outstanding_median_bytes, PerDirection { up: None, down: Some(3000.0) });
    }
}
