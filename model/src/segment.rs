//! What a TCP segment is, and which way it travels: the vocabulary that the kernel side, the capture replay and
//! the detector share.

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// A full packet as an Ethernet frame, as qdiscs count it, bytes.
pub const FULL_FRAME_BYTES: f64 = 1514.0;

/// No link is slower, bytes per nanosecond: 64 kbit/s. So a wait has a bound before a rate is known.
pub const SLOWEST_LINK: f64 = 8e-6;

named! {
    /// Direction of travel through the bottleneck link, seen from the gateway.
    pub enum Direction {
        /// Leaves through the WAN device.
        Up = "up",
        /// Enters through the WAN device.
        Down = "down",
    }
}

impl Direction {
    /// The one of the two that belongs to this direction.
    pub const fn pick<T: Copy>(self, up: T, down: T) -> T {
        match self {
            Self::Up => up,
            Self::Down => down,
        }
    }

    /// The other way.
    pub const fn opposite(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// One value for each direction; `{"up": …, "down": …}` in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PerDirection<T> {
    /// Of what leaves through the WAN device: the uplink, its buffer, the uploads.
    pub up: T,
    /// Of what enters through the WAN device: the downlink, its buffer, the downloads.
    pub down: T,
}

impl<T> PerDirection<T> {
    /// Both values made by one function.
    pub fn from_fn(mut make: impl FnMut(Direction) -> T) -> Self {
        Self { up: make(Direction::Up), down: make(Direction::Down) }
    }

    /// Each value turned into another.
    pub fn map<U>(self, mut make: impl FnMut(T) -> U) -> PerDirection<U> {
        PerDirection { up: make(self.up), down: make(self.down) }
    }

    /// A direction's value and the other one's, to be changed.
    pub fn own_and_other(&mut self, direction: Direction) -> (&mut T, &mut T) {
        match direction {
            Direction::Up => (&mut self.up, &mut self.down),
            Direction::Down => (&mut self.down, &mut self.up),
        }
    }

    /// The uplink's and the downlink's.
    pub const fn both(&self) -> [&T; 2] {
        [&self.up, &self.down]
    }

    /// The same, to be changed.
    pub const fn both_mut(&mut self) -> [&mut T; 2] {
        [&mut self.up, &mut self.down]
    }
}

impl<T> Index<Direction> for PerDirection<T> {
    type Output = T;

    fn index(&self, direction: Direction) -> &T {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

impl<T> IndexMut<Direction> for PerDirection<T> {
    fn index_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

named! {
    /// What a segment is. Every segment has exactly one class; the rules are in `docs/design/measurement.md`.
    pub enum Class {
        /// Carries payload (an ACK may ride on it).
        Data = "data",
        /// Pure ACK that is none of the special kinds below.
        Ack = "ack",
        /// Duplicate ACK (RFC 5681 §2): same ACK number, while data is outstanding.
        DupAck = "dup_ack",
        /// Pure ACK that carries SACK blocks (RFC 2018) and is not a duplicate ACK.
        Sack = "sack",
        /// Pure ACK that only changes the advertised window.
        WindowUpdate = "window_update",
        /// Keep-alive probe (RFC 9293 §3.8.4).
        KeepAlive = "keep_alive",
        /// Zero-window probe (RFC 9293 §3.8.6.1).
        ZeroWindowProbe = "zero_window_probe",
        /// SYN or SYN-ACK.
        Syn = "syn",
        /// FIN without payload.
        Fin = "fin",
        /// RST.
        Rst = "rst",
        /// TCP, but none of the above.
        Other = "other",
        /// No TCP header found: another protocol, a later fragment, or an unparsable packet.
        NonTcp = "non_tcp",
    }
}

impl Class {
    /// Whether this is an ACK without payload, of any kind: what an ACK burst (paper 000, Fig. 3.4) is made of.
    pub const fn is_pure_ack(self) -> bool {
        matches!(self, Self::Ack | Self::DupAck | Self::Sack | Self::WindowUpdate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As RFC 9293 and the papers call them; none twice.
    #[test]
    fn classes_have_names_and_numbers_of_their_own() {
        let names = [
            "data",
            "ack",
            "dup_ack",
            "sack",
            "window_update",
            "keep_alive",
            "zero_window_probe",
            "syn",
            "fin",
            "rst",
            "other",
            "non_tcp",
        ];
        assert_eq!(Class::ALL.map(Class::name), names);
        for (number, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, number);
            let acknowledges = ["ack", "dup_ack", "sack", "window_update"].contains(&class.name());
            assert_eq!(class.is_pure_ack(), acknowledges, "{class:?}");
        }
    }

    #[test]
    fn each_direction_has_its_own() {
        let mut pair = PerDirection::from_fn(|direction: Direction| direction.name());
        assert_eq!((pair.up, pair.down), ("up", "down"));
        assert_eq!((pair[Direction::Up], pair[Direction::Down]), ("up", "down"));
        pair[Direction::Down] = "below";
        assert_eq!(pair.both(), [&"up", &"below"]);
        *pair.both_mut()[0] = "above";
        assert_eq!(pair.map(str::len), PerDirection { up: 5, down: 5 });
        assert_eq!(Direction::ALL.map(Direction::opposite), [Direction::Down, Direction::Up]);
    }
}
