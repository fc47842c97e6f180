//! The clock of a sender (RFC 7323), and how long its packets waited on the way.
//!
//! A sender stamps each segment when it sends it: `y = t_left − TSval·tick` is a constant plus the time that the packet
//! waited. The smallest `y` is the constant, if the buffer was empty at least once. Nothing is assumed of the clock:
//! its tick is found out, a slow drift against ours is taken off, and a step makes it begin anew.

use super::bound::LowerBound;
use super::rules::RULES;
use crate::recent::Recent;

/// Clocks by flow: so many are remembered, those that were read last.
pub(super) type Clocks = Recent<u64, SenderClock, { RULES.records_max }>;

/// The clock of one sender, as one flow shows it.
#[derive(Clone, Debug, Default)]
pub(super) struct SenderClock {
    /// Time and stamp of its first reading; later ones count from there.
    origin: Option<(f64, u32)>,
    newest: i64,
    /// When the newest packet left, and by how many ticks its stamp was newer than the one before, after how long.
    newest_ns: f64,
    step: (f64, f64),
    tick_ns: Option<f64>,
    /// Smallest reading for each possible tick, until the tick is known.
    guesses: [Option<f64>; RULES.ticks_ns.len()],
    base: Option<f64>,
    bound: LowerBound,
    /// The newest packet that no packet of a better clock has followed: when it left, and its reading.
    unfollowed: Option<(f64, f64)>,
    /// What a better clock says that the smallest reading is at most: the least of so many.
    limit: Option<(usize, f64)>,
    is_settled: bool,
    /// What the reading of a packet that did not wait is at least, by the longest that others can have waited.
    least: Option<f64>,
    proven_ns: Option<f64>,
    drift: f64,
    epoch: Option<(f64, f64, f64)>,
    points: Vec<(f64, f64)>,
    distrusted: bool,
}

/// What a stamp tells about its packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StampReading {
    /// Time waited, nanoseconds; too long by up to a tick.
    pub(super) waited_ns: f64,
    /// Length of a tick, nanoseconds.
    pub(super) tick_ns: f64,
    /// When it was last certain that the smallest reading met an empty buffer.
    pub(super) proven_ns: Option<f64>,
}

impl SenderClock {
    /// A packet stamped `tsval` left the buffer at `left_ns`. `most_ns`: the longest it can have waited, as far as known from the
    /// link (infinite if nothing is). `full_ns`: the same if the link was seen to have time to spare, which confirms a
    /// smallest reading but does not raise one.
    pub(super) fn read(
        &mut self,
        left_ns: f64,
        tsval: u32,
        most_ns: f64,
        full_ns: f64,
    ) -> Option<StampReading> {
        let &mut (origin_ns, first) = self.origin.get_or_insert((left_ns, tsval));
        // Counted from the newest: the stamp comes round after 2^32 ticks.
        let step = tsval.wrapping_sub(first.wrapping_add(self.newest as u32)).cast_signed();
        let ticks = self.newest + i64::from(step);
        // Stamps never run backwards: packets changed places, or the clock was set back.
        if step < 0 {
            if self.tick_ns.is_none_or(|tick_ns| -f64::from(step) * tick_ns > RULES.second_ns) {
                *self = Self { origin: Some((left_ns, tsval)), ..Self::default() };
            }
            return None;
        }
        self.newest = self.newest.max(ticks);
        self.step = (f64::from(step), left_ns - self.newest_ns);
        self.newest_ns = left_ns;
        let passed_ns = left_ns - origin_ns;
        let Some(tick_ns) = self.tick_ns else {
            self.guess(passed_ns, ticks);
            return self.tick_ns.and_then(|_| self.read(left_ns, tsval, most_ns, full_ns));
        };
        if passed_ns < RULES.long_ns && self.finds_another(passed_ns, ticks) {
            return self.read(left_ns, tsval, most_ns, full_ns);
        }
        if !self.keeps_its_tick(passed_ns, ticks, tick_ns) {
            *self = Self { origin: Some((left_ns, tsval)), distrusted: true, ..Self::default() };
            return None;
        }
        let y = passed_ns - ticks as f64 * tick_ns - self.drift * passed_ns;
        let step_ns = if self.proven_ns.is_some() { RULES.second_ns } else { RULES.long_ns };
        if self.base.is_some_and(|base| y < base - step_ns) {
            *self = Self { origin: Some((left_ns, tsval)), ..Self::default() };
            return None;
        }
        let known = self.base.unwrap_or(y).min(y);
        let raised = self.bound.add(left_ns, y - most_ns).map_or(known, |least| known.max(least.min(y)));
        self.base = Some(raised);
        self.unfollowed = Some((left_ns, y));
        let waited_ns = y - raised;
        if most_ns.min(full_ns).max(waited_ns) <= tick_ns.max(2.0 * RULES.jitter_ns) {
            self.proven_ns = Some(left_ns);
        }
        self.follow_drift(left_ns, y + self.drift * passed_ns, tick_ns);
        Some(StampReading { waited_ns, tick_ns, proven_ns: self.proven_ns })
    }

    /// Since when it is heard, without a step, and whether its smallest reading met an empty buffer for certain.
    pub(super) fn heard(&self) -> Option<(f64, bool)> {
        self.origin.map(|(first_ns, _)| (first_ns, self.proven_ns.is_some()))
    }

    /// Whether a better clock has shown enough of it.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled || self.proven_ns.is_some()
    }

    /// How long a wait may hide in the smallest reading, nanoseconds: infinite if nothing tells. `most_ns`: the longest that the packet read last can have
    /// waited.
    pub(super) fn hidden_ns(&mut self, most_ns: f64) -> f64 {
        if self.is_settled() {
            return 0.0;
        }
        if let Some((_, y)) = self.unfollowed.filter(|_| most_ns.is_finite()) {
            self.least = Some(self.least.map_or(y - most_ns, |least| least.max(y - most_ns)));
        }
        self.base.zip(self.least).map_or(f64::INFINITY, |(smallest, least)| (smallest - least).max(0.0))
    }

    /// A packet of a better clock left at `left_ns`, after a wait of `waited_ns`. A buffer is a queue: this sender's newest packet left earlier, so it had come
    /// earlier, and waited at least until its own departure from when the other came. Its reading less that is more than the smallest reading can be.
    pub(super) fn follow(&mut self, left_ns: f64, waited_ns: f64) {
        let Some((own_ns, y)) = self.unfollowed.take() else { return };
        if self.proven_ns.is_some() {
            return;
        }
        let limit = y - (waited_ns - (left_ns - own_ns));
        let (count, limit) = self.limit.map_or((1, limit), |(count, least)| (count + 1, least.min(limit)));
        if count < 2 * RULES.agreeing {
            self.limit = Some((count, limit));
            return;
        }
        self.limit = None;
        self.base = self.base.map(|base| base.min(limit));
        self.is_settled = true;
    }

    fn guess(&mut self, passed_ns: f64, ticks: i64) {
        self.note(passed_ns, ticks);
        if passed_ns < RULES.tick_known_ns || (self.distrusted && passed_ns < RULES.long_ns) {
            return;
        }
        if let Some(index) = likely(passed_ns, ticks) {
            self.tick_ns = Some(RULES.ticks_ns[index]);
            self.base = self.guesses[index];
        }
    }

    fn note(&mut self, passed_ns: f64, ticks: i64) {
        for (guess, tick_ns) in self.guesses.iter_mut().zip(RULES.ticks_ns) {
            let y = passed_ns - ticks as f64 * tick_ns;
            *guess = Some(guess.map_or(y, |known| known.min(y)));
        }
    }

    /// A queue that grows fast, as at the start of a transfer, looks like a longer tick. Once another one is likelier, its smallest readings count from the first.
    fn finds_another(&mut self, passed_ns: f64, ticks: i64) -> bool {
        self.note(passed_ns, ticks);
        let Some(index) = likely(passed_ns, ticks) else { return false };
        // A stamp that is ahead of the time that has passed shows that the clock was set, not how long its tick is.
        let (step, since_ns) = self.step;
        let was_set = step * RULES.ticks_ns[index] > since_ns + RULES.second_ns;
        if self.tick_ns == Some(RULES.ticks_ns[index]) || was_set {
            return false;
        }
        self.tick_ns = Some(RULES.ticks_ns[index]);
        self.base = self.guesses[index];
        self.bound = LowerBound::default();
        self.epoch = None;
        self.points.clear();
        self.limit = None;
        self.unfollowed = None;
        self.is_settled = false;
        self.least = None;
        self.proven_ns = None;
        true
    }

    fn keeps_its_tick(&self, passed_ns: f64, ticks: i64, tick_ns: f64) -> bool {
        if passed_ns < RULES.long_ns {
            return true;
        }
        let mean_ns = passed_ns / (ticks.max(1) as f64);
        (mean_ns - tick_ns).abs() <= RULES.within * tick_ns
    }

    /// The smallest readings of ten seconds each, if they lie on a line, show how fast the sender's clock is.
    fn follow_drift(&mut self, left_ns: f64, y: f64, tick_ns: f64) {
        let (began_ns, at_ns, least) = *self.epoch.get_or_insert((left_ns, left_ns, y));
        if left_ns - began_ns < RULES.long_ns {
            if y < least {
                self.epoch = Some((began_ns, left_ns, y));
            }
            return;
        }
        self.epoch = Some((left_ns, left_ns, y));
        if self.points.len() == RULES.values_max {
            self.points.remove(0);
        }
        self.points.push((at_ns, least));
        if self.points.len() < 2 * RULES.few {
            return;
        }
        let half = self.points.len() / 2;
        let (early, late) = self.points.split_at(half);
        let slopes = early.iter().zip(late).map(|(a, b)| (b.1 - a.1) / (b.0 - a.0));
        let Some(slope) = median(slopes.collect()) else { return };
        let at = |point: &(f64, f64)| point.1 - slope * point.0;
        let Some(middle) = median(self.points.iter().map(at).collect()) else { return };
        let distance = median(self.points.iter().map(|point| (at(point) - middle).abs()).collect());
        let is_line = distance.is_some_and(|distance| distance <= RULES.jitter_ns.max(tick_ns / 2.0));
        if !is_line || slope.abs() > 2.0 * RULES.drift || (slope - self.drift).abs() < 1e-6 {
            return;
        }
        // Readings count from the first: with another drift they all change by the same at one moment.
        let Some((origin_ns, _)) = self.origin else { return };
        let change = (slope - self.drift) * (left_ns - origin_ns);
        self.drift = slope;
        self.base = self.base.map(|base| base - change);
        self.least = self.least.map(|least| least - change);
        self.bound = LowerBound::default();
        self.limit = None;
        self.unfollowed = None;
    }
}

/// The tick that so many ticks in so much time are likely to be.
fn likely(passed_ns: f64, ticks: i64) -> Option<usize> {
    let mean_ns = passed_ns / ticks as f64;
    let is_it = |tick_ns: f64| mean_ns < tick_ns * RULES.tick_factor && mean_ns > tick_ns / RULES.tick_factor;
    RULES.ticks_ns.iter().position(|tick_ns| ticks >= RULES.few as i64 && is_it(*tick_ns))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
