//! Once a second over what has entered each direction of the link: what fills its buffer.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use pendulum_model::constants::RECENT;
use pendulum_model::protocol_port::ProtocolPort;
use pendulum_model::sample::Composition;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_wire::TopPort;

use crate::bpf::PortCounts;
use crate::snapshot::Entered;

/// Without a reading for this long, what was read before tells of the past only.
const STALE: Duration = Duration::from_secs(3);

/// Remembers the recent past.
#[derive(Default)]
pub(super) struct EnteredMeter {
    /// Oldest first.
    readings: VecDeque<EnteredReading>,
    ports: PerDirection<PortCounts>,
}

/// One reading.
struct EnteredReading {
    at: Instant,
    totals: PerDirection<Composition>,
    /// Bytes since the reading before.
    protocol_ports: PerDirection<BTreeMap<ProtocolPort, u64>>,
}

impl EnteredMeter {
    /// Takes in totals since the agent's start, and the ports as they were counted since the programs were loaded.
    pub(super) fn observe(
        &mut self,
        at: Instant,
        totals: PerDirection<Composition>,
        ports: PerDirection<PortCounts>,
    ) {
        let protocol_ports = PerDirection::from_fn(|x| ports[x].since(&self.ports[x]));
        self.ports = ports;
        self.readings.push_back(EnteredReading { at, totals, protocol_ports });
        while self.readings.get(1).is_some_and(|next| at.duration_since(next.at) >= RECENT) {
            self.readings.pop_front();
        }
    }

    /// What has entered over the last ten seconds.
    pub(super) fn recent(&self, direction: Direction, now: Instant) -> Entered {
        let (Some(first), Some(last)) = (self.readings.front(), self.readings.back()) else {
            return Entered::default();
        };
        if now.saturating_duration_since(last.at) > STALE {
            return Entered::default();
        }
        let composition = last.totals[direction].since(&first.totals[direction]);
        let mut sums = BTreeMap::<ProtocolPort, u64>::new();
        // What the first one tells is older than the first totals.
        for (protocol_port, bytes) in
            self.readings.iter().skip(1).flat_map(|reading| &reading.protocol_ports[direction])
        {
            *sums.entry(*protocol_port).or_default() += bytes;
        }
        let total = composition.total();
        let top_port = sums.into_iter().max_by_key(|(_, bytes)| *bytes).filter(|_| total > 0);
        let top_port = top_port.and_then(|(protocol_port, bytes)| {
            // Counters and ports are not read at one instant.
            let bytes = bytes.min(composition.udp + composition.other);
            (bytes > 0).then(|| TopPort {
                name: protocol_port.to_string(),
                protocol: protocol_port.protocol,
                port: protocol_port.port,
                share: bytes as f64 / total as f64,
            })
        });
        Entered { composition, top_port }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn totals(tcp_data: u64, udp: u64) -> PerDirection<Composition> {
        PerDirection {
            up: Composition { tcp_data, udp, ..Composition::default() },
            down: Composition::default(),
        }
    }

    fn ports(port: u16, bytes: u64) -> PerDirection<PortCounts> {
        let up = PortCounts::one(ProtocolPort { protocol: 17, port: Some(port) }, bytes);
        PerDirection { up, down: PortCounts::default() }
    }

    #[test]
    fn shares_are_those_of_ten_seconds() {
        let mut meter = EnteredMeter::default();
        let start = Instant::now();
        // 1000 B of TCP a second; from second 11 on, 3000 B of QUIC a second beside it.
        for second in 0..=21u32 {
            let udp = u64::from(second.saturating_sub(11)) * 3000;
            meter.observe(start + SECOND * second, totals(u64::from(second) * 1000, udp), ports(443, udp));
        }
        let recent = meter.recent(Direction::Up, start + SECOND * 21);
        assert_eq!(recent.composition, Composition { tcp_data: 10_000, udp: 30_000, ack: 0, other: 0 });
        let top = recent.top_port.as_ref().expect("QUIC");
        assert_eq!((&*top.name, top.share), ("UDP port 443", 0.75));
        assert_eq!(
            recent.composition.shares().expect("something entered").map(|(_, share)| share),
            [0.25, 0.0, 0.75, 0.0]
        );
        assert_eq!(meter.recent(Direction::Down, start + SECOND * 21).composition.shares(), None);
    }

    #[test]
    fn what_is_not_read_any_more_is_not_known() {
        let mut meter = EnteredMeter::default();
        let start = Instant::now();
        meter.observe(start, totals(0, 0), ports(443, 500));
        // What was counted before the first reading is no part of the ten seconds.
        assert_eq!(meter.recent(Direction::Up, start), Entered::default());
        meter.observe(start + SECOND, totals(100, 100), ports(443, 600));
        let recent = meter.recent(Direction::Up, start + SECOND);
        assert_eq!(recent.top_port.map(|top| top.share), Some(0.5));
        assert_eq!(meter.recent(Direction::Up, start + SECOND * 5), Entered::default());
        meter = EnteredMeter::default();
        assert_eq!(meter.recent(Direction::Up, start + SECOND), Entered::default());
    }

    /// Ports are read after the counters: what came in between is in them alone.
    #[test]
    fn a_port_that_the_counters_do_not_have_yet_is_not_named() {
        let mut meter = EnteredMeter::default();
        let start = Instant::now();
        meter.observe(start, totals(0, 0), ports(443, 0));
        meter.observe(start + SECOND, totals(100, 0), ports(443, 50));
        let recent = meter.recent(Direction::Up, start + SECOND);
        assert_eq!((recent.composition.tcp_data, recent.top_port), (100, None));
    }
}
