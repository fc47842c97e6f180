//! Ctrl-C and SIGTERM as a flag that every wait looks at, so that an interrupted lab still takes itself down.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The run was asked to stop.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Whether the user wants the program to stop. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// How long a signal may go unnoticed.
    const SLICE: Duration = Duration::from_millis(20);

    /// A flag that SIGINT, SIGTERM and SIGHUP raise, in place of ending the process.
    ///
    /// # Errors
    /// If the handlers cannot be installed.
    pub fn on_signals() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Self(flag))
    }

    /// Raises the flag.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns an error once the flag is up.
    ///
    /// # Errors
    /// [`Interrupted`] if the flag is up.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.0.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
    }

    /// Sleeps until `deadline`, or until the flag is up.
    ///
    /// # Errors
    /// [`Interrupted`] if the flag is up.
    pub fn sleep_until(&self, deadline: Instant) -> Result<(), Interrupted> {
        loop {
            self.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Self::SLICE));
        }
    }

    /// Sleeps until the flag is up.
    pub fn wait(&self) {
        while self.check().is_ok() {
            std::thread::sleep(Self::SLICE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_flag_ends_every_sleep() {
        let interrupt = Interrupt::default();
        assert!(interrupt.sleep_until(Instant::now()).is_ok());
        interrupt.clone().raise();
        assert!(interrupt.sleep_until(Instant::now() + Duration::from_secs(3600)).is_err());
        interrupt.wait();
    }
}
