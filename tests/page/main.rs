//! The live page in a real browser: headless Chromium inside the lab's gateway, which has no way to the internet, looks at
//! the real agent.
//!
//! With `PENDULUM_SCREENSHOTS=DIRECTORY` those that see real traffic also leave pictures there; docs/screenshots has some.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod browser;
mod bundle;
mod choice;
mod found;
mod hidden;
mod hour;
mod live;
mod modem;
mod states;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pendulum_lab::{Lab, LinkSpec};

/// The agent under test.
const PENDULUM: &str = env!("CARGO_BIN_EXE_pendulum");

/// Two browsers at once on a small machine would disturb each other, and the link's traffic.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A lab, or none and the reason on stderr where the page cannot be looked at.
fn lab(test: &str) -> Option<(MutexGuard<'static, ()>, Lab)> {
    lab_of(test, LinkSpec::FIG1)
}

/// The same with another link.
fn lab_of(test: &str, spec: LinkSpec) -> Option<(MutexGuard<'static, ()>, Lab)> {
    if !pendulum_lab::is_root() {
        eprintln!("SKIPPED {test}: network namespaces need root");
        return None;
    }
    if !Path::new(browser::CHROMIUM).exists() {
        eprintln!("SKIPPED {test}: {} is missing (Debian package chromium)", browser::CHROMIUM);
        return None;
    }
    // A test that failed has let go of its lab too.
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    Some((guard, Lab::start(spec).unwrap()))
}
