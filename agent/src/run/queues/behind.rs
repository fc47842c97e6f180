//! How long packets wait behind our own shaper, on the way to the provider: nothing, if it sends slowly enough.
//!
//! What an answer's delay has beyond the time its question spent in our queue, the wait in the downlink's buffer (by the sender's clock) and
//! the end's delay without queues. That delay is the smallest there was, of answers that met other queues with an allowance for
//! what is not known of those, or, while the uplink is little used, the newest: then nothing can wait there, and a longer one is a longer route.

use std::collections::VecDeque;

use pendulum_model::recent::Recent;

use crate::bpf::Answered;

/// Ends that are remembered.
const ENDS: usize = 4096;
/// What is shorter than half of a full packet takes less time on the line.
const SHORT_BYTES: u32 = 750;
/// A packet alone may take up more than its share of a tick.
const FULL_BYTES: f64 = 1514.0;
/// Ticks that a statement is about: a second.
const TICKS: usize = 10;
/// The uplink is little used if it carried less than this share of its rate over two such spans.
const LIGHT: f64 = 0.4;
/// The time in other queues is known to so much of it: what was taken off too much would for ever look like a wait here.
const UNCERTAIN: f64 = 0.2;
/// The wait in the downlink's buffer is known of the packet before the answer; the answer's own is shorter by up to a packet's time: a
/// full one at 600 kbit/s, nanoseconds.
const PACKET_BEFORE_NS: f64 = 20e6;
/// Fewer answers say nothing.
const ANSWERS: u32 = 3;

#[derive(Clone, Copy, Debug, Default)]
struct AnsweredTick {
    least_ns: Option<f64>,
    answers: u32,
    bytes: u64,
}

/// Watches the answers.
#[derive(Debug, Default)]
pub(super) struct BehindShaper {
    /// By end and whether the question was long, nanoseconds.
    bases: Recent<(u32, bool), f64, ENDS>,
    /// The newest, the last one unfinished.
    ticks: VecDeque<AnsweredTick>,
    /// The uplink's rate, bytes per tick.
    rate: Option<f64>,
}

impl BehindShaper {
    /// A tick of a tenth of a second begins; `rate`: of the uplink, bytes per second.
    pub(super) fn begin(&mut self, rate: Option<f64>) {
        self.rate = rate.map(|rate| rate / TICKS as f64);
        self.ticks.push_back(AnsweredTick::default());
        if self.ticks.len() > 2 * TICKS {
            self.ticks.pop_front();
        }
    }

    /// Whether nothing can wait: for two seconds the uplink was little used, and in no tick of them it was filled.
    fn is_light(&self) -> bool {
        let bytes: u64 = self.ticks.iter().map(|tick| tick.bytes).sum();
        let most = self.ticks.iter().map(|tick| tick.bytes).max().unwrap_or(0) as f64;
        self.ticks.len() == 2 * TICKS
            && self.rate.is_some_and(|rate| {
                (bytes as f64) < LIGHT * rate * self.ticks.len() as f64 && most <= FULL_BYTES.max(rate / 2.0)
            })
    }

    /// Something was sent.
    pub(super) fn sent(&mut self, bytes: u32) {
        if let Some(tick) = self.ticks.back_mut() {
            tick.bytes += u64::from(bytes);
        }
    }

    /// An answer came, whose question spent `own_ns` in our queue, and which waited itself `down_s` in the downlink's buffer.
    /// Answers how long it waited, seconds. Where `down_s` is unknown that is, too: the delay then is an upper bound of the end's own.
    pub(super) fn answered(&mut self, answer: &Answered, own_ns: u64, down_s: Option<f64>) -> Option<f64> {
        let is_known = down_s.is_some();
        let down_s = down_s.unwrap_or(0.0);
        let elsewhere_ns = own_ns as f64 + down_s * 1e9;
        let delay_ns = answer.at_ns.saturating_sub(answer.asked_ns) as f64 - elsewhere_ns;
        let is_long = answer.question_bytes > SHORT_BYTES;
        let is_light = self.is_light();
        let mut at_most_ns = delay_ns + (UNCERTAIN * elsewhere_ns).max((down_s * 1e9).min(PACKET_BEFORE_NS));
        // A full packet takes longer than a short one by its time on the line. So a handshake bounds what the first burst of data meets.
        if let (true, Some(rate)) = (is_long, self.rate)
            && let Some(short_ns) = self.bases.get(&(answer.end, false))
        {
            at_most_ns = at_most_ns.min(short_ns + FULL_BYTES / (rate * TICKS as f64) * 1e9);
        }
        let base = self.bases.entry((answer.end, is_long), || at_most_ns);
        *base = if is_light && is_known { at_most_ns } else { base.min(at_most_ns) };
        if !is_known {
            return None;
        }
        let waited_ns = (delay_ns - *base).max(0.0);
        if let Some(tick) = self.ticks.back_mut() {
            tick.answers += 1;
            tick.least_ns = Some(tick.least_ns.map_or(waited_ns, |least| least.min(waited_ns)));
        }
        Some(waited_ns / 1e9)
    }

    /// The least that packets waited within the last second, seconds; `None` if too few were answered.
    pub(super) fn least_s(&self) -> Option<f64> {
        let newest = || self.ticks.iter().rev().take(TICKS);
        if newest().map(|tick| tick.answers).sum::<u32>() < ANSWERS {
            return None;
        }
        newest().filter_map(|tick| tick.least_ns).reduce(f64::min).map(|ns| ns / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 25_000.0;

    fn answer(end: u32, milliseconds: u64) -> Answered {
        Answered {
            end,
            at_ns: (1_000 + milliseconds) * 1_000_000,
            asked_ns: 1_000_000_000,
            asked_by_ack: false,
            may_be_held: false,
            is_relayed: false,
            question_bytes: 1_500,
            answer_bytes: 64,
        }
    }

    /// Seconds in which so many bytes leave, and answers of one end take so long.
    fn run(behind: &mut BehindShaper, seconds: usize, bytes: u32, milliseconds: u64) {
        for _ in 0..seconds * TICKS {
            behind.begin(Some(RATE));
            behind.sent(bytes / TICKS as u32);
            behind.answered(&answer(7, milliseconds), 0, Some(0.0));
        }
    }

    #[test]
    fn what_waits_behind_a_busy_shaper_shows() {
        let mut behind = BehindShaper::default();
        run(&mut behind, 3, 1_000, 40);
        assert_eq!(behind.least_s(), Some(0.0));
        run(&mut behind, 4, 25_000, 340);
        let waited = behind.least_s().expect("answers");
        assert!((waited - 0.3).abs() < 1e-9, "{waited}");
        // Our own queue and the downlink's are not it.
        for _ in 0..TICKS {
            behind.begin(Some(RATE));
            behind.sent(2_500);
            behind.answered(&answer(7, 340), 200_000_000, Some(0.1));
        }
        assert!(behind.least_s().expect("answers") < 1e-9);
    }

    /// At a download's start a quarter of a second waits in the downlink's buffer, and the estimate of that is too high by a fifth.
    #[test]
    fn a_queue_elsewhere_that_was_reported_too_long_is_no_wait_here() {
        let mut behind = BehindShaper::default();
        let mut hear = |milliseconds, own_ns, down_s| {
            behind.begin(Some(RATE));
            behind.sent(2_500);
            behind.answered(&answer(7, milliseconds), own_ns, Some(down_s)).expect("known")
        };
        hear(40 + 200, 0, 0.24);
        hear(40 + 300, 300_000_000, 0.06);
        for down in [0, 10, 20, 30] {
            let waited = hear(40 + 20 + down, 20_000_000, down as f64 / 1e3);
            assert!(waited < 0.01, "{waited}");
        }
        let waited = hear(40 + 100, 20_000_000, 0.0);
        assert!((0.07..=0.08).contains(&waited), "{waited}");
    }

    /// The packet before the answer had waited for 8 ms in the downlink's buffer, and the answer came at once.
    #[test]
    fn an_answer_that_did_not_wait_like_the_packet_before_makes_no_later_one_late() {
        let mut behind = BehindShaper::default();
        let mut hear = |milliseconds, own_ns, down_s| {
            behind.begin(Some(RATE));
            behind.sent(2_500);
            behind.answered(&answer(7, milliseconds), own_ns, Some(down_s)).expect("known")
        };
        hear(48, 0, 0.0);
        hear(41, 1_000_000, 0.008);
        for (milliseconds, down_s) in [(41, 0.0), (50, 0.01), (90, 0.05)] {
            let waited = hear(milliseconds, 0, down_s);
            assert!(waited <= 0.0011, "{waited}");
        }
        let waited = hear(90, 0, 0.01);
        assert!((0.039..0.041).contains(&waited), "{waited}");
    }

    /// A handshake takes 20 ms, and the first answer to data comes only after a burst of it has stood in the buffer behind for 300 ms.
    #[test]
    fn a_handshake_bounds_what_the_first_burst_meets() {
        let mut behind = BehindShaper::default();
        behind.begin(None);
        assert_eq!(behind.answered(&Answered { question_bytes: 74, ..answer(7, 20) }, 0, None), None);
        behind.begin(Some(RATE));
        // At 25,000 bytes per second a full packet takes 61 ms.
        let waited = behind.answered(&answer(7, 20 + 60 + 300), 0, Some(0.0)).expect("known");
        assert!((0.299..0.301).contains(&waited), "{waited}");
        let waited = behind.answered(&answer(8, 380), 0, Some(0.0)).expect("known");
        assert!(waited < 1e-9, "nothing is known of another end: {waited}");
    }

    #[test]
    fn a_longer_route_is_no_queue() {
        let mut behind = BehindShaper::default();
        run(&mut behind, 3, 1_000, 40);
        // Two seconds without load are enough to see it.
        run(&mut behind, 4, 1_000, 240);
        assert_eq!(behind.least_s(), Some(0.0));
        // And another end, met under load, is taken at its word.
        run(&mut behind, 3, 25_000, 240);
        for _ in 0..TICKS {
            behind.begin(Some(RATE));
            behind.sent(2_500);
            behind.answered(&answer(8, 500), 0, Some(0.0));
        }
        assert_eq!(behind.least_s(), Some(0.0));
    }

    /// A torrent: 5,000 other ends reply once each while one is heard on.
    #[test]
    fn many_ends_do_not_wipe_what_is_known_of_one() {
        let mut behind = BehindShaper::default();
        run(&mut behind, 3, 25_000, 40);
        for other in 0..5_000 {
            behind.answered(&answer(1_000 + other, 40), 0, Some(0.0));
            if other % 1_000 == 0 {
                let waited = behind.answered(&answer(7, 340), 0, Some(0.0)).expect("known");
                assert!((waited - 0.3).abs() < 1e-9, "{waited} s after {other} ends");
            }
        }
    }

    #[test]
    fn without_answers_nothing_is_said() {
        let mut behind = BehindShaper::default();
        assert_eq!(behind.least_s(), None);
        run(&mut behind, 2, 25_000, 40);
        for _ in 0..TICKS {
            behind.begin(Some(RATE));
        }
        assert_eq!(behind.least_s(), None);
    }
}
