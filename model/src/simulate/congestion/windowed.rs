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
}
