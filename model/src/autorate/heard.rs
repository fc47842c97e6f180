//! What one end's answers tell of the buffer behind.

/// Of the answers of a tick those count that are about the newest stretch of this length, seconds, if they are no fewer than this.
const STRETCH: f64 = 0.04;
const FEW: u32 = 3;

/// One end's answers since the decision before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// The least of the newest stretch, and of the one before it.
    pub(super) wait: f64,
    before: Option<f64>,
    /// When the stretch began, how many there are, and the newest of it.
    from: f64,
    count: u32,
    pub(super) passed: f64,
}

impl Heard {
    pub(super) fn new(wait: f64, passed: f64, before: Option<f64>) -> Self {
        Self { wait, before, from: passed, count: 1, passed }
    }

    pub(super) fn add(&mut self, wait: f64, passed: f64) {
        if passed - self.from > STRETCH {
            *self = Self::new(wait, passed, Some(self.least()));
            return;
        }
        self.wait = self.wait.min(wait);
        self.passed = self.passed.max(passed);
        self.count += 1;
    }

    /// One answer may have been held back: a few count alone, fewer together with what was before.
    fn least(&self) -> f64 {
        match self.before {
            Some(before) if self.count < FEW => self.wait.min(before),
            _ => self.wait,
        }
    }

    /// With the wait that it tells.
    pub(super) fn settled(self) -> Self {
        Self { wait: self.least(), ..self }
    }
}
