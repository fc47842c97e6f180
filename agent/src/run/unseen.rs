//! The share of a device's traffic that did not come past the programs: what it says it has carried against what they
//! have counted. Flows in a hardware flow table, frames that an XDP program or the card keeps, senders that go around the
//! traffic control.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pendulum_model::constants::RECENT;
use pendulum_model::segment::{Direction, PerDirection};

use crate::net::DeviceBytes;

/// Less than this within the window tells nothing: counters of both sides are not read at one instant.
const LEAST_BYTES: u64 = 100_000;
/// Between two readings.
const STEP: Duration = Duration::from_secs(1);

/// Bytes at one moment.
#[derive(Clone, Copy, Debug)]
struct BytesAt {
    at: Instant,
    device: PerDirection<u64>,
    seen: PerDirection<u64>,
    /// Seen, and on its way to the device.
    waiting: PerDirection<u64>,
}

/// Remembers both over the recent past.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    moments: VecDeque<BytesAt>,
}

impl Unseen {
    /// Takes in what the device says, what was counted and what waits in the uplink's queue, as near to each other as can be.
    pub(super) fn observe(
        &mut self,
        at: Instant,
        device: DeviceBytes,
        seen: PerDirection<u64>,
        uplink_bytes: u64,
    ) {
        self.moments.push_back(BytesAt {
            at,
            device: PerDirection { up: device.sent, down: device.received },
            seen,
            waiting: PerDirection { up: uplink_bytes, down: 0 },
        });
        while self.moments.get(1).is_some_and(|next| at.duration_since(next.at) + STEP / 2 >= RECENT) {
            self.moments.pop_front();
        }
    }

    /// The share that was not seen in the recent past, 0 to 1; `None` where too little was carried. A lower bound: what still
    /// waits at the end or is dropped behind the programs was seen and not carried, and the headers of merged segments count once at the device.
    pub(super) fn ratio(&self, direction: Direction) -> Option<f64> {
        let (first, last) = (self.moments.front()?, self.moments.back()?);
        let carried = last.device[direction]
            .checked_sub(first.device[direction])
            .filter(|bytes| *bytes >= LEAST_BYTES)?;
        let seen = last.seen[direction].saturating_sub(first.seen[direction]) + first.waiting[direction];
        Some(1.0 - (seen as f64 / carried as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_device_carried_and_nobody_counted_is_unseen() {
        let mut unseen = Unseen::default();
        let start = Instant::now();
        let bytes = |received, sent| DeviceBytes { received, sent, received_packets: 0, sent_packets: 0 };
        let seen = |up, down| PerDirection { up, down };
        unseen.observe(start, bytes(5_000_000, 7_000_000), seen(0, 0), 0);
        assert_eq!(unseen.ratio(Direction::Up), None);
        // Up: 1 MB carried, 0.6 seen. Down: 0.2 MB carried, more seen than that.
        unseen.observe(start + STEP, bytes(5_200_000, 8_000_000), seen(600_000, 220_000), 0);
        assert!((unseen.ratio(Direction::Up).unwrap() - 0.4).abs() < 1e-9);
        assert_eq!(unseen.ratio(Direction::Down), Some(0.0));
        // Ten quiet seconds later it is forgotten.
        for second in 2..=12 {
            unseen.observe(start + STEP * second, bytes(5_200_000, 8_000_000), seen(600_000, 220_000), 0);
            assert_eq!(unseen.ratio(Direction::Up).is_some(), STEP * second <= RECENT, "{second} s");
        }
        assert_eq!(unseen.ratio(Direction::Up), None);
        unseen = Unseen::default();
        // What waited at the beginning was seen before it.
        unseen.observe(start, bytes(0, 7_000_000), seen(0, 0), 400_000);
        unseen.observe(start + STEP, bytes(0, 8_000_000), seen(600_000, 0), 0);
        assert_eq!(unseen.ratio(Direction::Up), Some(0.0));
        unseen = Unseen::default();
        // A device made anew counts from zero.
        unseen.observe(start + STEP * 13, bytes(9_000_000, 9_000_000), seen(600_000, 220_000), 0);
        unseen.observe(start + STEP * 14, bytes(0, 0), seen(600_000, 220_000), 0);
        assert_eq!(unseen.ratio(Direction::Down), None);
    }
}
