//! Accurate ECN (RFC 9768) at the sender: how Linux decodes what ACKs tell of CE marks.
//!
//! Written after `net/ipv4/tcp_input.c` of Linux 7.0 (`tcp_accecn_process_option`, `__tcp_accecn_process`) and
//! `include/net/tcp_ecn.h` (`tcp_update_ecn_bytes`). The shaper's filter may merge ACKs only as far as this decoder
//! stays exact; `docs/design/shaping.md`, "AccECN".

/// `TCP_ACCECN_CEP_ACE_MASK`.
const ACE_MASK: u32 = 7;
/// `TCP_ACCECN_CEP_INIT_OFFSET`.
const ACE_OFFSET: u32 = 5;
/// Counters in the option have 24 bits.
const COUNTER_MASK: u32 = 0xff_ffff;
/// Initial values of the counters of ECT(0), CE and ECT(1) in the option: not zero, to find middleboxes that clear them.
const COUNTER_OFFSETS: [u32; 3] = [1, 0, 1];
/// `PKTS_ACKED_PREC`, `PKTS_ACKED_WEIGHT`, `ACK_COMP_THRESH`.
const EWMA_SHIFT: u32 = 6;
const ACK_COMPRESSION: u32 = 4;

/// Place of the counters in an array of three: payload bytes that came with ECT(0), CE, ECT(1).
pub const ECT0: usize = 0;
/// See [`ECT0`].
pub const CE: usize = 1;
/// See [`ECT0`].
pub const ECT1: usize = 2;

/// What an ACK tells of ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// AE, CWR, ECE as a number: the packets with CE, modulo 8.
    pub ace: u8,
    /// The option's counters in the order of [`ECT0`]; of 24 bits.
    pub counters: Option<[u32; 3]>,
}

/// The receiver's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receiver {
    /// `received_ce`: packets that came with CE.
    pub marked: u32,
    /// `received_ecn_bytes`, in the order of [`ECT0`].
    pub bytes: [u32; 3],
}

impl Receiver {
    /// A segment came with this mark.
    pub fn take(&mut self, mark: usize, bytes: u32) {
        self.marked += u32::from(mark == CE);
        self.bytes[mark] = self.bytes[mark].wrapping_add(bytes);
    }

    /// What an ACK tells.
    pub fn feedback(&self, option: bool) -> Feedback {
        let counters = std::array::from_fn(|i| self.bytes[i].wrapping_add(COUNTER_OFFSETS[i]) & COUNTER_MASK);
        Feedback {
            ace: (self.marked.wrapping_add(ACE_OFFSET) & ACE_MASK) as u8,
            counters: option.then_some(counters),
        }
    }
}

/// The sender's side of one connection, past its handshake, with SACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// `delivered_ce`: what it takes the number of marked packets to be.
    pub delivered_ce: u32,
    bytes: [u32; 3],
    /// `est_ecnfield`: the counter that grew last, alone.
    estimate: Option<usize>,
    saw_option: bool,
    ewma: u32,
    mss: u32,
}

impl Sender {
    /// One whose `mss_cache` is so many bytes.
    pub fn new(mss: u32) -> Self {
        Self { mss, ..Self::default() }
    }

    /// An ACK that delivers so many segments and bytes; what it delivers nothing by is not looked at.
    pub fn process(&mut self, feedback: Feedback, segments: u32, bytes: u32) {
        if segments == 0 {
            return;
        }
        let marked_before = self.bytes[CE];
        let valid = self.process_option(feedback.counters, bytes);
        self.ewma = match self.ewma {
            0 => segments << EWMA_SHIFT,
            ewma => ((ewma << EWMA_SHIFT) - ewma + (segments << EWMA_SHIFT)) >> EWMA_SHIFT,
        };
        let ace = u32::from(feedback.ace).wrapping_sub(ACE_OFFSET);
        let delta = ace.wrapping_sub(self.delivered_ce) & ACE_MASK;
        let marked_bytes = self.bytes[CE].wrapping_sub(marked_before);
        self.delivered_ce += self.increase(valid, delta, segments, bytes, marked_bytes);
    }

    /// The end of `__tcp_accecn_process`.
    fn increase(&self, valid: bool, delta: u32, segments: u32, bytes: u32, marked: u32) -> u32 {
        if segments <= ACE_MASK {
            return delta;
        }
        let safe = segments - ((segments - delta) & ACE_MASK);
        if !valid {
            return if self.ewma > ACK_COMPRESSION << EWMA_SHIFT { delta } else { safe };
        }
        if marked == 0 {
            return delta;
        }
        if segments >= (ACE_MASK + 1) * 2 {
            if bytes <= marked {
                return safe;
            }
            let estimate = (u64::from(marked) * u64::from(segments)).div_ceil(u64::from(bytes)) as u32;
            return safe.min(delta + (estimate & !ACE_MASK));
        }
        if marked <= delta * self.mss && marked < (safe * self.mss) >> 1 { delta } else { safe }
    }

    /// `tcp_accecn_process_option`: whether the counters tell how many bytes came with CE.
    fn process_option(&mut self, counters: Option<[u32; 3]>, bytes: u32) -> bool {
        let estimate = self.estimate;
        let Some(counters) = counters else {
            if let Some(field) = estimate.filter(|_| self.saw_option) {
                self.bytes[field] = self.bytes[field].wrapping_add(bytes);
                return true;
            }
            return false;
        };
        self.saw_option = true;
        let (mut valid, mut ambiguous, mut changed) = (estimate.is_some(), false, false);
        for field in [ECT0, CE, ECT1] {
            let known = self.bytes[field];
            let told = counters[field].wrapping_sub(COUNTER_OFFSETS[field]);
            // Sign extension of 24 bits.
            let delta = (told.wrapping_sub(known) << 8).cast_signed() >> 8;
            self.bytes[field] = known.wrapping_add_signed(delta);
            if delta == 0 {
                continue;
            }
            let other = Some(field) != estimate;
            if other && !changed {
                self.estimate = Some(field);
                changed = true;
                if delta > 0 {
                    continue;
                }
            }
            if other || delta < 0 {
                (valid, ambiguous) = (false, true);
            }
        }
        if ambiguous {
            self.estimate = None;
        }
        valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux' initial counts: nothing is marked, and ACE is 5.
    #[test]
    fn nothing_marked_is_five_on_the_wire() {
        assert_eq!(Receiver::default().feedback(true), Feedback { ace: 5, counters: Some([1, 0, 1]) });
    }

    /// Without the option: up to 7 segments each count is reported exactly; with 8, none is taken for eight.
    #[test]
    fn seven_segments_are_exact_and_eight_are_not() {
        for marked in 0..=7 {
            let mut receiver = Receiver::default();
            (0..7).for_each(|i| receiver.take(if i < marked { CE } else { ECT0 }, 1_448));
            let mut sender = Sender::new(1_448);
            sender.process(receiver.feedback(false), 7, 7 * 1_448);
            assert_eq!(sender.delivered_ce, marked);
        }
        // Those before were of one segment each: more at once is no habit.
        let mut sender = Sender::new(1_448);
        sender.process(Receiver::default().feedback(false), 1, 1_448);
        sender.process(Receiver::default().feedback(false), 8, 8 * 1_448);
        assert_eq!(sender.delivered_ce, 8);
    }

    /// Of counters that are valid, one without change says that nothing was marked, however much is acknowledged.
    #[test]
    fn valid_counters_tell_that_nothing_was_marked() {
        let (mut receiver, mut sender) = (Receiver::default(), Sender::new(1_448));
        receiver.take(ECT0, 1_448);
        sender.process(receiver.feedback(true), 1, 1_448);
        (0..40).for_each(|_| receiver.take(ECT0, 1_448));
        sender.process(receiver.feedback(true), 40, 40 * 1_448);
        assert_eq!(sender.delivered_ce, 0);
        // The first counters of all are not valid: nothing is known of which one grows.
        let mut new = Sender::new(1_448);
        new.process(Receiver::default().feedback(false), 1, 1_448);
        new.process(receiver.feedback(true), 40, 40 * 1_448);
        assert_eq!(new.delivered_ce, 40);
    }

    /// What is guessed without option is corrected by the next one, and a correction downwards unsettles the guess.
    #[test]
    fn a_wrong_guess_makes_counters_invalid() {
        let (mut receiver, mut sender) = (Receiver::default(), Sender::new(1_448));
        receiver.take(CE, 1_448);
        sender.process(receiver.feedback(true), 1, 1_448);
        receiver.take(ECT0, 1_448);
        sender.process(receiver.feedback(false), 1, 1_448);
        receiver.take(ECT0, 1_448);
        sender.process(receiver.feedback(true), 1, 1_448);
        (0..8).for_each(|_| receiver.take(ECT0, 1_448));
        sender.process(receiver.feedback(true), 8, 8 * 1_448);
        assert_eq!(sender.delivered_ce, 9, "one mark, and eight that there were none of");
    }

    /// The end of `__tcp_accecn_process`, worked out by hand. `safe` is the largest count of marks with this ACE: of 20 segments and three
    /// marks, 20 − ((20 − 3) mod 8) = 19; of ten segments and one, 10 − ((10 − 1) mod 8) = 9.
    #[test]
    fn marks_of_an_ack_that_delivers_more_than_seven_segments() {
        let sender = Sender { ewma: 1, ..Sender::new(1_448) };
        let compressed = Sender { ewma: (ACK_COMPRESSION << EWMA_SHIFT) + 1, ..sender };
        assert_eq!(sender.increase(false, 3, 7, 7 * 1_448, 0), 3, "up to seven ACE is exact");
        // Without valid counters: the most, unless such ACKs are usual here.
        assert_eq!(sender.increase(false, 3, 20, 20_000, 0), 19);
        assert_eq!(compressed.increase(false, 3, 20, 20_000, 0), 3);
        assert_eq!(sender.increase(true, 3, 20, 20_000, 0), 3, "no byte came with CE");
        // From 16 segments on by the share of bytes: 20 · 11,000 / 20,000 = 11 segments, of which whole eights count: 3 + 8.
        assert_eq!(sender.increase(true, 3, 20, 20_000, 11_000), 11);
        assert_eq!(sender.increase(true, 3, 20, 20_000, 20_000), 19, "all bytes came with CE");
        assert_eq!(
            sender.increase(true, 3, 20, 20_000, 19_999),
            19,
            "3 + 16 = 19, and no more than the most"
        );
        // Below that by the size of a segment: one may be one, nine segments are more than half of the most.
        assert_eq!(sender.increase(true, 1, 10, 10 * 1_448, 1_448), 1);
        assert_eq!(sender.increase(true, 1, 10, 10 * 1_448, 1_449), 9);
        assert_eq!(sender.increase(true, 1, 15, 15 * 1_448, 1_448), 1);
        assert_eq!(sender.increase(true, 1, 15, 15 * 1_448, 1_449), 9);
    }
}
