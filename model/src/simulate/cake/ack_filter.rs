//! Which queued acknowledgement a later one makes needless (`cake_ack_filter`, `cake_tcph_sack_compare`).

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::super::packet::{Ack, Block, Content, Packet};
use super::{AckFilter, Queued};

/// The last frame of a flow's queue has just joined it: takes out an acknowledgement that it replaces, the nearest to the head. Frames of a handshake stay, and
/// replace none: the kernel passes over all that has SYN. The third has none, but it is the only one of its flow here until the sender has it.
pub(super) fn replaced(frames: &mut VecDeque<Queued>, filter: AckFilter) -> Option<Packet> {
    if filter == AckFilter::Off {
        return None;
    }
    let last = frames.len().checked_sub(1)?;
    let Content::Ack(new) = frames[last].frame.content else { return None };
    let mut needless = frames.iter().take(last).enumerate().filter_map(|(at, queued)| {
        let Content::Ack(old) = queued.frame.content else { return None };
        is_needless(&old, &new).then_some(at)
    });
    let first = needless.next()?;
    // Two of them are wanted, so that one is left beside the new one.
    let is_second = needless.next().is_some();
    let goes = is_second || (filter == AckFilter::Aggressive && first + 1 == last);
    if goes { frames.remove(first).map(|queued| queued.frame) } else { None }
}

/// Whether `old` tells nothing that `new` does not. Duplicate acknowledgements tell by their number, so they stay.
fn is_needless(old: &Ack, new: &Ack) -> bool {
    if old.echo > new.echo || old.next > new.next {
        return false;
    }
    match compare(old, new) {
        None => false,
        Some(Ordering::Equal) => old.next < new.next,
        Some(_) => true,
    }
}

/// How the selective acknowledgements of two compare by what they cover; `None`: those of `old` must not go.
fn compare(old: &Ack, new: &Ack) -> Option<Ordering> {
    let blocks = |ack: &Ack| {
        let twice = ack.twice.map(|number| Block { from: number, to: number + 1 });
        twice.into_iter().chain(ack.sacks().iter().copied()).collect::<Vec<_>>()
    };
    let (old_blocks, new_blocks) = (blocks(old), blocks(new));
    let is_covered = |block: &Block| {
        // A report of what came twice (RFC 2883) lies before what is acknowledged.
        let is_twice = block.from < old.next;
        !is_twice && new_blocks.iter().any(|other| other.from <= block.from && other.to >= block.to)
    };
    if !old_blocks.iter().all(is_covered) {
        return None;
    }
    let segments = |blocks: &[Block]| blocks.iter().map(|block| block.to - block.from).sum::<u32>();
    // As long as all of it is covered, more cannot be known than the new one tells.
    Some(segments(&old_blocks).cmp(&segments(&new_blocks)).min(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::super::super::handshake::Handshake;
    use super::*;
    use crate::segment::Direction;

    const fn block(from: u32, to: u32) -> Block {
        Block { from, to }
    }

    fn ack(next: u32, echo: u32, blocks: &[Block]) -> Ack {
        Ack::new(next, echo, None, blocks)
    }

    /// Which of the acknowledgements are left, by their places, after they have joined one after the other.
    fn left(acks: &[Ack], filter: AckFilter) -> Vec<usize> {
        let mut frames = VecDeque::new();
        for (at, ack) in acks.iter().enumerate() {
            // The place stands in the length, which the filter does not look at.
            let frame = Packet { flow: 0, bytes: at as u32, content: Content::Ack(*ack) };
            frames.push_back(Queued { frame, since: 0 });
            replaced(&mut frames, filter);
        }
        frames.iter().map(|queued| queued.frame.bytes as usize).collect()
    }

    #[test]
    fn of_cumulative_acks_one_stays_beside_the_last() {
        let acks = [10, 12, 14, 16, 18].map(|next| ack(next, next, &[]));
        assert_eq!(left(&acks, AckFilter::Off), [0, 1, 2, 3, 4]);
        assert_eq!(left(&acks[..2], AckFilter::On), [0, 1]);
        assert_eq!(left(&acks, AckFilter::On), [3, 4]);
        assert_eq!(left(&acks, AckFilter::Aggressive), [4]);
    }

    #[test]
    fn a_handshake_is_left_alone() {
        let mut handshake = Handshake::new(Direction::Up);
        let (syn, _) = handshake.open(0).expect("a SYN");
        let greeting = Content::Greeting(syn);
        let ack = |next| Content::Ack(ack(next, next, &[]));
        for contents in [[greeting, ack(1), ack(2)], [ack(1), ack(1), greeting], [greeting; 3]] {
            let mut frames = VecDeque::new();
            for content in contents {
                frames.push_back(Queued { frame: Packet { flow: 0, bytes: 74, content }, since: 0 });
                replaced(&mut frames, AckFilter::Aggressive);
            }
            let greetings = |contents: &[Content]| {
                contents.iter().filter(|content| matches!(content, Content::Greeting(_))).count()
            };
            let left: Vec<Content> = frames.iter().map(|queued| queued.frame.content).collect();
            assert_eq!(greetings(&left), greetings(&contents));
        }
    }

    #[test]
    fn duplicate_acks_stay() {
        let acks = [ack(10, 5, &[]), ack(10, 5, &[]), ack(10, 5, &[]), ack(10, 5, &[])];
        for filter in [AckFilter::On, AckFilter::Aggressive] {
            assert_eq!(left(&acks, filter), [0, 1, 2, 3]);
        }
    }

    #[test]
    fn an_ack_that_sacks_more_replaces_those_that_sack_less() {
        let acks = [ack(10, 5, &[block(11, 12)]), ack(10, 5, &[block(11, 13)]), ack(10, 5, &[block(11, 14)])];
        assert_eq!(left(&acks, AckFilter::On), [1, 2]);
        assert_eq!(left(&acks, AckFilter::Aggressive), [2]);
    }

    #[test]
    fn sacks_that_the_new_ack_does_not_report_stay() {
        // The receiver filled the first hole; another range is still open, and the new ACK does not report it.
        let acks = [ack(10, 5, &[block(20, 25)]), ack(12, 6, &[]), ack(14, 7, &[]), ack(16, 8, &[])];
        assert_eq!(left(&acks, AckFilter::Aggressive), [0, 3]);
        // What came twice is reported once.
        let twice = [Ack::new(10, 5, Some(7), &[]), ack(12, 6, &[]), ack(14, 7, &[])];
        assert_eq!(left(&twice, AckFilter::Aggressive), [0, 2]);
    }

    #[test]
    fn an_ack_with_a_later_echo_or_number_stays() {
        let later_echo = [ack(10, 9, &[]), ack(12, 6, &[]), ack(14, 8, &[])];
        assert_eq!(left(&later_echo, AckFilter::Aggressive), [0, 2]);
        let later_number = [ack(16, 5, &[]), ack(12, 6, &[]), ack(14, 8, &[])];
        assert_eq!(left(&later_number, AckFilter::Aggressive), [0, 2]);
    }
}
