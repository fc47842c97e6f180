//! The sequence space of one half.

use super::packet::Lost;

/// What a segment did to the sequence space of its half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sequence {
    /// `seq_next` moved on …
    pub(super) moved: bool,
    /// … by a segment that did not start below it …
    pub(super) fresh: bool,
    /// … and was the first of its half.
    pub(super) first: bool,
    pub(super) retransmitted: bool,
    pub(super) reordered: bool,
    pub(super) lost: Option<Lost>,
}

/// How far `to` is ahead of `from`, modulo 2^32.
pub(super) const fn distance(to: u32, from: u32) -> i32 {
    to.wrapping_sub(from).cast_signed()
}
