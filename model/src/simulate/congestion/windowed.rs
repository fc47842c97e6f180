//! The largest of the latest samples, as lib/win_minmax.c keeps it: three samples instead of all.

#[derive(Clone, Copy, Debug, Default)]
struct WindowEntry {
    at: u32,
    value: u64,
}

/// The best, second best and third best sample of a window, each younger than the one before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowedMax {
    best: [WindowEntry; 3],
}

impl WindowedMax {
    pub(super) fn get(&self) -> u64 {
        self.best[0].value
    }

    /// `minmax_running_max`: a sample at `at`, of a window of so many units before it.
    pub(super) fn add(&mut self, window: u32, at: u32, value: u64) {
        let entry = WindowEntry { at, value };
        let [first, second, third] = self.best;
        if value >= first.value || at - third.at > window {
            self.best = [entry; 3];
            return;
        }
        if value >= second.value {
            self.best = [first, entry, entry];
        } else if value >= third.value {
            self.best[2] = entry;
        }
        self.age(window, entry);
    }

    /// `minmax_subwin_update`: what has left the window goes; a quarter and a half of it each keep a sample of their own.
    fn age(&mut self, window: u32, entry: WindowEntry) {
        let age = entry.at - self.best[0].at;
        if age > window {
            for _ in 0..2 {
                if entry.at - self.best[0].at > window {
                    self.best = [self.best[1], self.best[2], entry];
                }
            }
        } else if self.best[1].at == self.best[0].at && age > window / 4 {
            self.best[1] = entry;
            self.best[2] = entry;
        } else if self.best[2].at == self.best[1].at && age > window / 2 {
            self.best[2] = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_the_window_is_kept_and_no_longer() {
        let mut filter = WindowedMax::default();
        filter.add(10, 1, 100);
        for at in 2..=11 {
            filter.add(10, at, 50 + u64::from(at));
            assert_eq!(filter.get(), 100, "{at}");
        }
        // The sample of round 1 is out of the window; the best of those kept after it takes its place.
        filter.add(10, 12, 40);
        assert!((50..100).contains(&filter.get()), "{}", filter.get());
        filter.add(10, 13, 200);
        assert_eq!(filter.get(), 200);
        // Nothing for a long while: only the new one counts.
        filter.add(10, 40, 7);
        assert_eq!(filter.get(), 7);
    }

    fn of(entries: [(u32, u64); 3]) -> WindowedMax {
        WindowedMax { best: entries.map(|(at, value)| WindowEntry { at, value }) }
    }

    /// lib/win_minmax.c by hand, with a window of 8.
    #[test]
    fn three_samples_stand_for_the_window() {
        let added = |before, at, value| {
            let mut filter = of(before);
            filter.add(8, at, value);
            filter.best.map(|entry| (entry.at, entry.value))
        };
        let before = [(1, 90), (3, 50), (5, 20)];
        assert_eq!(added(before, 6, 90), [(6, 90); 3], "as large");
        assert_eq!(added(before, 13, 10), [(5, 20), (13, 10), (13, 10)], "the newest has not left");
        assert_eq!(added(before, 14, 10), [(14, 10); 3], "all have left");
        assert_eq!(added(before, 6, 50), [(1, 90), (6, 50), (6, 50)]);
        assert_eq!(added(before, 6, 20), [(1, 90), (3, 50), (6, 20)]);
        assert_eq!(added(before, 6, 19), before);
        // What has left the window goes.
        assert_eq!(added(before, 9, 19), before, "it is 8 old");
        assert_eq!(added(before, 10, 19), [(3, 50), (5, 20), (10, 19)]);
        assert_eq!(added(before, 12, 19), [(5, 20), (12, 19), (12, 19)]);
        // After a quarter of the window the second, after half of it the third has a place of its own.
        let same = [(1, 90), (1, 90), (1, 90)];
        assert_eq!([added(same, 3, 10), added(same, 4, 10)], [same, [(1, 90), (4, 10), (4, 10)]]);
        let two = [(1, 90), (4, 50), (4, 50)];
        assert_eq!([added(two, 5, 10), added(two, 6, 10)], [two, [(1, 90), (4, 50), (6, 10)]]);
    }
}
