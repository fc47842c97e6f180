//! The level of a buffer from when each packet entered and left it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::level::LevelTrack;
use super::rules::RULES;

/// Bytes that stand in a buffer. Packets are reported in the order in which they entered; when each leaves is known then.
#[derive(Debug)]
pub struct Standing {
    departures: BinaryHeap<Reverse<(u64, u32)>>,
    level: u64,
    /// The level over time.
    pub track: LevelTrack,
}

impl Standing {
    /// An empty buffer from `start_ns` on.
    pub fn new(start_ns: u64) -> Self {
        Self { departures: BinaryHeap::new(), level: 0, track: LevelTrack::new(start_ns) }
    }

    /// A packet entered at `entered_ns`; its pieces (when, bytes) leave later.
    pub fn enter(&mut self, entered_ns: u64, pieces: impl IntoIterator<Item = (u64, u32)>) {
        self.depart(entered_ns);
        if self.departures.len() >= RULES.packets_max {
            self.departures.pop().into_iter().for_each(|Reverse((_, bytes))| {
                self.level = self.level.saturating_sub(u64::from(bytes));
            });
        }
        for (left_ns, bytes) in pieces {
            self.level += u64::from(bytes);
            self.departures.push(Reverse((left_ns, bytes)));
        }
        self.track.set(entered_ns, self.level as f64);
    }

    /// No packet enters before `to_ns` any more.
    pub fn hold(&mut self, to_ns: u64) {
        self.depart(to_ns);
        self.track.hold(to_ns);
    }

    fn depart(&mut self, to_ns: u64) {
        while let Some(&Reverse((left_ns, bytes))) = self.departures.peek() {
            if left_ns > to_ns {
                break;
            }
            self.departures.pop();
            self.level = self.level.saturating_sub(u64::from(bytes));
            self.track.set(left_ns, self.level as f64);
        }
    }
}
