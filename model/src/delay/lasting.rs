//! What holds for many seconds.

use crate::constants::RECENT;

/// Seconds that are looked at.
const WINDOW: usize = 2 * RECENT.as_secs() as usize;
/// It begins once so many of the newest [`WINDOW`] seconds had it, and ends once fewer than the other had it.
const BEGIN: usize = 12;
const END: usize = 4;

/// Whether something holds for long: its figure of each second that had it.
#[derive(Clone, Debug, Default)]
pub(super) struct Lasting {
    newest: [Option<f64>; WINDOW],
    next: usize,
    since_s: Option<f64>,
}

impl Lasting {
    /// One second; `None` if it was not so. Whether it begins or ends, if it does.
    pub(super) fn push(&mut self, at_s: f64, figure: Option<f64>) -> Option<bool> {
        self.newest[self.next] = figure;
        self.next = (self.next + 1) % WINDOW;
        let seconds = self.newest.iter().flatten().count();
        let begins = match self.since_s {
            None if seconds >= BEGIN => true,
            Some(_) if seconds < END => false,
            _ => return None,
        };
        self.since_s = begins.then_some(at_s - seconds as f64);
        Some(begins)
    }

    pub(super) fn since_s(&self) -> Option<f64> {
        self.since_s
    }

    /// Mean of the seconds that had it.
    pub(super) fn mean(&self) -> f64 {
        let figures = || self.newest.iter().flatten();
        figures().sum::<f64>() / figures().count().max(1) as f64
    }

    /// Share of the seconds that had it, and what is needed to begin or to go on.
    pub(super) fn shares(&self) -> (f64, f64) {
        let needed = if self.since_s.is_some() { BEGIN } else { END };
        (self.newest.iter().flatten().count() as f64 / WINDOW as f64, needed as f64 / WINDOW as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of which so many are so, then such that are not.
    fn of(seconds: usize, others: usize) -> Lasting {
        let mut lasting = Lasting::default();
        (0..seconds + others).for_each(|at| _ = lasting.push(at as f64, (at < seconds).then_some(at as f64)));
        lasting
    }

    #[test]
    fn shares_are_of_twenty_seconds_and_twelve_begin_it() {
        // Before it begins, the other bound is told.
        assert_eq!(
            [of(5, 0), of(11, 0), of(12, 0)].map(|it| it.shares()),
            [(0.25, 0.2), (0.55, 0.2), (0.6, 0.6)]
        );
        assert_eq!([of(11, 0), of(12, 0)].map(|it| it.since_s()), [None, Some(-1.0)]);
        assert_eq!([of(0, 0), of(3, 0), of(3, 9)].map(|it| it.mean()), [0.0, 1.0, 1.0]);
    }

    #[test]
    fn it_ends_with_fewer_than_four_of_twenty() {
        // Of twelve, nine have left after 17 others.
        assert_eq!([of(12, 16), of(12, 17)].map(|it| it.since_s().is_some()), [true, false]);
    }
}
