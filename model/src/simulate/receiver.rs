//! The receiving end: when Linux acknowledges, and what it says (net/ipv4/tcp_input.c, tcp_output.c, tcp_timer.c).

use super::clock::Jiffies;
use super::packet::{Ack, Block, Data, MICROSECOND, Time};
use super::round_trip::RoundTrip;

/// `TCP_MAX_QUICKACKS`.
const MOST_QUICK: u32 = 16;
/// `TCP_ATO_MIN` and `TCP_DELACK_MIN`: HZ/25.
const SHORTEST_DELAY_MS: u64 = 40;
/// `TCP_DELACK_MAX`: HZ/5.
const LONGEST_DELAY_MS: u64 = 200;
/// Blocks that Linux remembers (`tp->selective_acks`).
const REMEMBERED: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Receiver {
    clock: Jiffies,
    /// Each segment is acknowledged at once (`ip route … quickack 1`).
    immediate: bool,
    /// By the handshake, jiffies: round-trip time and retransmission timeout.
    round_trip: u64,
    timeout: u64,
    /// The first segment that has not arrived.
    next: u32,
    /// What the last acknowledgement said.
    acked: u32,
    /// What has arrived beyond `next`, in order.
    islands: Vec<Block>,
    /// Those of the islands to report, the one of the latest arrival first.
    reported: Vec<Block>,
    /// `ts_recent`.
    echo: u32,
    /// The delay of a delayed acknowledgement (`icsk_ack.ato`), jiffies; zero before the first segment.
    delay: u64,
    last_arrival: u64,
    quick: u32,
    /// The jiffy at which a delayed acknowledgement is due.
    due: Option<u64>,
}

impl Receiver {
    pub(super) fn new(clock: Jiffies, immediate: bool) -> Self {
        Self { clock, immediate, ..Self::default() }
    }

    /// The handshake is over; `round_trip` is what it took.
    pub(super) fn connected(&mut self, round_trip: Time) {
        let estimate = RoundTrip::new((round_trip / MICROSECOND) as i64);
        let jiffies = |micros: i64| self.clock.of_duration(micros as Time * MICROSECOND);
        (self.round_trip, self.timeout) = (jiffies(estimate.smoothed()), jiffies(estimate.timeout()));
    }

    /// When a delayed acknowledgement is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.map(|jiffy| self.clock.moment(jiffy))
    }

    /// A segment arrives. The acknowledgement that it causes at once, and whether the segment is new.
    pub(super) fn arrive(&mut self, now: Time, data: Data) -> (Option<Ack>, bool) {
        let jiffy = self.clock.jiffy(now);
        if data.number <= self.acked {
            self.echo = self.echo.max(data.stamp);
        }
        if data.number < self.next || self.has_island(data.number) {
            // A segment that has arrived before: the sender is informed at once, and so for a while.
            self.quick = self.quick.max(MOST_QUICK);
            self.delay = self.clock.of_millis(SHORTEST_DELAY_MS);
            return (Some(self.acknowledge(Some(data.number))), false);
        }
        if data.number > self.next {
            self.keep(data.number);
            return (Some(self.acknowledge(None)), true);
        }
        self.estimate_delay(jiffy);
        let had_hole = !self.islands.is_empty();
        self.advance();
        // With PSH `tcp_measure_rcv_mss` sets ICSK_ACK_PUSHED: the application reads at once, then `tcp_cleanup_rbuf` acknowledges.
        let now_due = had_hole || self.next - self.acked > 1 || self.immediate || self.quick > 0 || data.push;
        let ack = if now_due { Some(self.acknowledge(None)) } else { self.delay(jiffy) };
        (ack, true)
    }

    /// The timer of the delayed acknowledgement.
    pub(super) fn expire(&mut self, now: Time) -> Option<Ack> {
        let jiffy = self.clock.jiffy(now);
        self.due.filter(|due| *due <= jiffy)?;
        // "Delayed ACK missed: inflate ATO."
        self.delay = (2 * self.delay).min(self.timeout);
        Some(self.acknowledge(None))
    }

    /// `tcp_event_data_recv`.
    fn estimate_delay(&mut self, jiffy: u64) {
        let shortest = self.clock.of_millis(SHORTEST_DELAY_MS);
        let pause = jiffy - self.last_arrival;
        if self.delay == 0 {
            self.quick = MOST_QUICK;
            self.delay = shortest;
        } else if pause <= shortest / 2 {
            self.delay = self.delay / 2 + shortest / 2;
        } else if pause < self.delay {
            self.delay = (self.delay / 2 + pause).min(self.timeout);
        } else if pause > self.timeout {
            self.quick = self.quick.max(MOST_QUICK);
        }
        self.last_arrival = jiffy;
    }

    /// `tcp_send_delayed_ack`.
    fn delay(&mut self, jiffy: u64) -> Option<Ack> {
        let shortest = self.clock.of_millis(SHORTEST_DELAY_MS);
        let longest = self.round_trip.max(shortest).min(self.clock.of_millis(500));
        let delay = if self.delay > shortest { self.delay.min(longest) } else { self.delay };
        let delay = delay.min(self.clock.of_millis(LONGEST_DELAY_MS));
        if self.due.is_some_and(|due| due <= jiffy + delay / 4) {
            return Some(self.acknowledge(None));
        }
        let due = jiffy + delay;
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        None
    }

    fn acknowledge(&mut self, twice: Option<u32>) -> Ack {
        self.acked = self.next;
        self.due = None;
        if self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.delay = self.clock.of_millis(SHORTEST_DELAY_MS);
            }
        }
        Ack::new(self.next, self.echo, twice, &self.reported)
    }

    fn has_island(&self, number: u32) -> bool {
        self.islands.iter().any(|island| (island.from..island.to).contains(&number))
    }

    /// Takes the next segment in order, and what lies right behind it.
    fn advance(&mut self) {
        self.next += 1;
        if self.islands.first().is_some_and(|first| first.from == self.next) {
            self.next = self.islands.remove(0).to;
        }
        let next = self.next;
        self.reported.retain(|block| block.to > next);
    }

    /// Takes a segment behind a hole.
    fn keep(&mut self, number: u32) {
        let at = self.islands.partition_point(|island| island.to < number);
        let mut grown = Block { from: number, to: number + 1 };
        while let Some(island) = self.islands.get(at).filter(|island| island.from <= number + 1) {
            grown = Block { from: grown.from.min(island.from), to: grown.to.max(island.to) };
            self.islands.remove(at);
        }
        self.islands.insert(at, grown);
        self.reported.retain(|block| block.to < grown.from || block.from > grown.to);
        self.reported.insert(0, grown);
        self.reported.truncate(REMEMBERED);
    }
}

#[cfg(test)]
mod tests;
