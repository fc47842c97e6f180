//! One direction of a link whose capacity changes: a drop-tail buffer, emptied by a trace's opportunities.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::{OPPORTUNITY_BYTES, Trace};

/// Ethernet's header, which the trace does not count: its bytes are those of IP packets.
const ETHERNET_BYTES: usize = 14;

/// What a link's direction did since its trace began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LinkReading {
    /// Time since the trace began.
    pub at: Duration,
    /// Opportunities that have passed.
    pub opportunities: u64,
    /// Bytes of IP packets that left.
    pub delivered_bytes: u64,
    /// Packets that left.
    pub delivered_packets: u64,
    /// Packets that found the buffer full.
    pub dropped_packets: u64,
    /// Bytes of IP packets that wait.
    pub queued_bytes: u64,
}

/// A buffer in bytes of IP packets before a link that sends when its trace lets it. Time is an argument, since the trace's begin, and
/// must not run backwards.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    trace: Arc<Trace>,
    limit_bytes: u64,
    queue: VecDeque<Box<[u8]>>,
    /// Of the first packet, what earlier opportunities have carried already.
    sent_of_first: u64,
    /// Number of the opportunity that is next, or under way.
    next: u64,
    /// Bytes that it has carried already.
    carried: u64,
    reading: LinkReading,
}

fn packet_bytes(frame: &[u8]) -> u64 {
    frame.len().saturating_sub(ETHERNET_BYTES).max(1) as u64
}

impl Bottleneck {
    pub(crate) fn new(trace: Arc<Trace>, limit_bytes: u64) -> Self {
        Self {
            trace,
            limit_bytes,
            queue: VecDeque::new(),
            sent_of_first: 0,
            next: 0,
            carried: 0,
            reading: LinkReading::default(),
        }
    }

    /// Lets the trace begin again now. What waits stays, and counts from here on.
    pub(crate) fn restart(&mut self) {
        (self.next, self.carried, self.sent_of_first) = (0, 0, 0);
        self.reading = LinkReading { queued_bytes: self.reading.queued_bytes, ..LinkReading::default() };
    }

    /// A frame arrives. It is dropped if it does not fit.
    pub(crate) fn offer(&mut self, now: Duration, frame: &[u8]) {
        if self.queue.is_empty() {
            // Opportunities that nobody was there for are lost.
            self.next = self.next.max(self.trace.count_until(now));
        }
        let bytes = packet_bytes(frame);
        if self.reading.queued_bytes + bytes > self.limit_bytes {
            self.reading.dropped_packets += 1;
            return;
        }
        self.reading.queued_bytes += bytes;
        self.queue.push_back(frame.into());
    }

    /// The next frame that has left by now, and when it did.
    pub(crate) fn take(&mut self, now: Duration) -> Option<(Duration, Box<[u8]>)> {
        loop {
            let bytes = packet_bytes(self.queue.front()?);
            let at = self.trace.at(self.next);
            if at > now {
                return None;
            }
            let (missing, left) = (bytes - self.sent_of_first, OPPORTUNITY_BYTES - self.carried);
            if missing > left {
                self.sent_of_first += left;
                self.go_on();
                continue;
            }
            let frame = self.queue.pop_front()?;
            self.sent_of_first = 0;
            self.carried += missing;
            // What is left of an opportunity is lost when nobody else waits, as in mahimahi.
            if self.carried == OPPORTUNITY_BYTES || self.queue.is_empty() {
                self.go_on();
            }
            self.reading.queued_bytes -= bytes;
            self.reading.delivered_bytes += bytes;
            self.reading.delivered_packets += 1;
            return Some((at, frame));
        }
    }

    fn go_on(&mut self) {
        self.next += 1;
        self.carried = 0;
    }

    /// When the next opportunity is that something waits for.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        (!self.queue.is_empty()).then(|| self.trace.at(self.next))
    }

    /// What it did so far.
    pub(crate) fn reading(&self, now: Duration) -> LinkReading {
        LinkReading { at: now, opportunities: self.trace.count_until(now), ..self.reading }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn millis(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn frame(packet_bytes: usize) -> Vec<u8> {
        vec![0; packet_bytes + ETHERNET_BYTES]
    }

    fn bottleneck(trace: &str, limit: u64) -> Bottleneck {
        Bottleneck::new(Arc::new(Trace::parse(trace).unwrap()), limit)
    }

    fn times(link: &mut Bottleneck, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| link.take(millis(now))).map(|(at, _)| at.as_millis() as u64).collect()
    }

    #[test]
    fn an_opportunity_carries_a_full_packet_or_several_small_ones() {
        let mut link = bottleneck("10\n20\n30\n", 100_000);
        for bytes in [1500, 40, 40, 1460] {
            link.offer(millis(1), &frame(bytes));
        }
        assert_eq!((times(&mut link, 9), link.next_at()), (vec![], Some(millis(10))));
        // The last one begins with what the two small ones have left.
        assert_eq!(times(&mut link, 30), [10, 20, 20, 30]);
        assert_eq!(link.next_at(), None);
        let reading = link.reading(millis(30));
        assert_eq!((reading.delivered_bytes, reading.delivered_packets, reading.opportunities), (3040, 4, 3));
    }

    #[test]
    fn what_nobody_used_is_lost() {
        let mut link = bottleneck("10\n20\n30\n", 100_000);
        link.offer(millis(25), &frame(100));
        assert_eq!(times(&mut link, 100), [30]);
        link.offer(millis(100), &frame(100));
        assert_eq!(times(&mut link, 120), [110]);
    }

    #[test]
    fn a_full_buffer_drops_what_comes_last() {
        let mut link = bottleneck("10\n", 3000);
        for _ in 0..3 {
            link.offer(millis(0), &frame(1500));
        }
        assert_eq!(
            (link.reading(millis(0)).dropped_packets, link.reading(millis(0)).queued_bytes),
            (1, 3000)
        );
        assert_eq!(times(&mut link, 100), [10, 20]);
    }

    #[test]
    fn a_trace_may_begin_again_with_packets_in_the_buffer() {
        let mut link = bottleneck("10\n50\n", 30_000);
        link.offer(millis(0), &frame(1500));
        link.offer(millis(0), &frame(1500));
        assert_eq!(times(&mut link, 10), [10]);
        link.restart();
        assert_eq!(link.reading(millis(0)), LinkReading { queued_bytes: 1500, ..LinkReading::default() });
        assert_eq!(times(&mut link, 10), [10]);
    }

    proptest! {
        /// Whatever arrives: never more than the trace gives, never more than fits, in order, nothing invented and nothing lost unnoticed.
        #[test]
        fn the_link_keeps_to_its_trace_and_its_buffer(
            at in proptest::collection::vec(0_u64..300, 1..60),
            arrivals in proptest::collection::vec((0_u64..25, 20_usize..1600), 1..200),
            limit in 1500_u64..20_000,
        ) {
            let mut at = at;
            at.push(300);
            at.sort_unstable();
            let trace = Arc::new(Trace::new(at).unwrap());
            let mut link = Bottleneck::new(Arc::clone(&trace), limit);
            let (mut now, mut offered, mut taken, mut last) = (0, 0_u64, 0_u64, Duration::ZERO);
            for (pause, bytes) in arrivals {
                now += pause;
                let mut take = |link: &mut Bottleneck| -> Result<(), TestCaseError> {
                    while let Some((left, frame)) = link.take(millis(now)) {
                        prop_assert!(left >= last && left <= millis(now));
                        last = left;
                        taken += packet_bytes(&frame);
                    }
                    Ok(())
                };
                take(&mut link)?;
                link.offer(millis(now), &frame(bytes));
                offered += 1;
                take(&mut link)?;
                let reading = link.reading(millis(now));
                prop_assert!(reading.delivered_bytes <= reading.opportunities * OPPORTUNITY_BYTES);
                prop_assert!(reading.queued_bytes <= limit);
                prop_assert_eq!(reading.delivered_bytes, taken);
                let waiting = link.queue.len() as u64;
                prop_assert_eq!(reading.delivered_packets + reading.dropped_packets + waiting, offered);
            }
        }

        /// With enough to send no opportunity is left out.
        #[test]
        fn a_busy_link_uses_every_opportunity(at in proptest::collection::vec(1_u64..200, 1..50), look in 1_u64..50) {
            let mut at = at;
            at.sort_unstable();
            let trace = Arc::new(Trace::new(at).unwrap());
            let mut link = Bottleneck::new(trace, u64::MAX);
            for _ in 0..400 {
                link.offer(Duration::ZERO, &frame(1500));
            }
            for step in 1..5 {
                let reading = link.reading(millis(look * step));
                while link.take(millis(look * step)).is_some() {}
                let delivered = link.reading(millis(look * step)).delivered_packets;
                prop_assert_eq!(delivered, reading.opportunities.min(400));
            }
        }
    }
}
