//! Answers that do not come: what was asked waits at least since then.

use std::collections::VecDeque;

/// Answers are late if they take so much longer than usual, seconds.
const LATE: f64 = 0.05;
/// So many questions must be late: single answers get lost, or are held back.
const QUESTIONS: u64 = 3;
/// After so long it may be that nobody is there to answer, seconds. In an outage TCP sends little from then on anyway.
const GIVEN_UP: f64 = 3.0;
/// The usual time is the longest of the newest ones: at each answer the older ones count for so much less.
const FADES: f64 = 0.98;

/// Questions of a stretch of time.
#[derive(Clone, Copy, Debug)]
struct Asked {
    from: f64,
    to: f64,
    count: u64,
}

/// What was asked, and how long answers take. Times in seconds.
#[derive(Debug, Default)]
pub(super) struct Silence {
    asked: VecDeque<Asked>,
    usual: f64,
}

impl Silence {
    /// So many questions passed between these times.
    pub(super) fn ask(&mut self, from: f64, to: f64, count: u64) {
        self.asked.push_back(Asked { from, to, count });
        while self.asked.front().is_some_and(|oldest| oldest.to < to - 2.0 * GIVEN_UP) {
            self.asked.pop_front();
        }
    }

    /// The newest answer is about what left the buffer so long ago.
    pub(super) fn answered(&mut self, after: f64) {
        self.usual = after.max(self.usual * FADES);
    }

    /// The least that the oldest question without an answer has waited; `None` if no answer is late. `passed`, `left`: when what was
    /// answered last had passed, and left the buffer. `back`: what answers wait on their way back, which is not our buffer's doing.
    pub(super) fn overdue(&self, now: f64, passed: f64, left: f64, back: f64) -> Option<f64> {
        let late = now - left - self.usual - back;
        let mut open = self.asked.iter().filter(|asked| asked.from >= passed && asked.count > 0).peekable();
        let oldest = open.peek()?.from;
        let is_late = |asked: &&Asked| asked.to <= now - self.usual - back - LATE / 2.0;
        let questions = open.filter(is_late).fold(0u64, |sum, asked| sum.saturating_add(asked.count));
        let is_overdue = late > LATE && late < GIVEN_UP && questions >= QUESTIONS;
        is_overdue.then(|| (now - oldest - self.usual - back).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten questions each tenth of a second, answered after 40 to 60 ms until the fifth second.
    fn asked_until(end: f64) -> Silence {
        let mut silence = Silence::default();
        let mut at = 0.0;
        while at < end {
            silence.ask(at, at + 0.1, 10);
            at += 0.1;
            if at < 5.0 {
                silence.answered(0.04 + 0.02 * (at * 10.0 % 2.0));
            }
        }
        silence
    }

    #[test]
    fn late_answers_tell_how_long_questions_wait_at_least() {
        assert_eq!(asked_until(5.0).overdue(5.1, 5.0, 5.0, 0.0), None);
        let waited = asked_until(6.0).overdue(6.0, 5.0, 5.0, 0.0).expect("a second without an answer");
        // The stretch that had begun when the last answer was asked for does not count.
        assert!((0.8..1.0).contains(&waited), "{waited}");
    }

    #[test]
    fn without_questions_no_answer_is_late() {
        assert_eq!(asked_until(5.05).overdue(7.0, 5.1, 5.1, 0.0), None);
        let mut few = asked_until(5.05);
        few.ask(5.2, 5.3, QUESTIONS - 1);
        assert_eq!(few.overdue(7.0, 5.1, 5.1, 0.0), None);
        few.ask(5.3, 5.4, 1);
        assert!(few.overdue(7.0, 5.1, 5.1, 0.0).is_some());
    }

    /// The other direction's buffer fills: answers are late, and ours is not to blame.
    #[test]
    fn answers_that_wait_on_their_way_back_are_not_late() {
        let silence = asked_until(5.5);
        assert!(silence.overdue(5.5, 5.0, 5.0, 0.0).is_some());
        assert_eq!(silence.overdue(5.5, 5.0, 5.0, 0.4), None);
        let outage = asked_until(6.0).overdue(6.0, 5.0, 5.0, 0.2).expect("longer than that");
        assert!((0.6..0.8).contains(&outage), "{outage}");
    }

    #[test]
    fn nobody_is_waited_for_for_ever() {
        let silence = asked_until(8.0);
        assert!(silence.overdue(7.9, 5.0, 5.0, 0.0).is_some());
        assert_eq!(silence.overdue(8.2, 5.0, 5.0, 0.0), None);
    }
}
