//! A bounded map that forgets what was not asked for the longest.

use std::hash::Hash;
use std::num::NonZeroUsize;

use lru::LruCache;

/// At most `MOST` entries. A new one takes the place of the one that was used least recently, never of all.
#[derive(Debug)]
pub struct Recent<K: Hash + Eq, V, const MOST: usize>(LruCache<K, V>);

impl<K: Hash + Eq, V, const MOST: usize> Recent<K, V, MOST> {
    /// The entry, made if there is none. Counts as use.
    pub fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.0.get_or_insert_mut(key, make)
    }

    /// The entry, if there is one. Does not count as use.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.peek(key)
    }
}

impl<K: Hash + Eq, V, const MOST: usize> Default for Recent<K, V, MOST> {
    fn default() -> Self {
        const { assert!(MOST > 0, "a map that keeps nothing") };
        // Not reserved at once: most links have few.
        let mut entries = LruCache::unbounded();
        entries.resize(NonZeroUsize::new(MOST).unwrap_or(NonZeroUsize::MIN));
        Self(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_costs_the_least_recently_used_only() {
        let mut recent = Recent::<u32, u32, 3>::default();
        for key in 0..3 {
            *recent.entry(key, || 0) += key;
        }
        *recent.entry(0, || 99) += 7;
        recent.entry(3, || 3);
        assert_eq!(recent.0.len(), 3);
        let left = [0, 1, 2, 3].map(|key| recent.get(&key).copied());
        assert_eq!(left, [Some(7), None, Some(2), Some(3)]);
    }
}
