//! One program for all targets, so that the instrumented agent is built once. `PENDULUM_FUZZ_TARGET` names the target, the rest
//! of the command line is libFuzzer's; `./dev fuzz` runs it.

#![no_main]

mod targets;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

fn target() -> targets::Target {
    static TARGET: OnceLock<targets::Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("PENDULUM_FUZZ_TARGET").unwrap_or_default();
        let found = targets::ALL.iter().find(|(known, _)| *known == name);
        let names = targets::ALL.map(|(name, _)| name).join(", ");
        found.map(|(_, target)| *target).unwrap_or_else(|| panic!("PENDULUM_FUZZ_TARGET is none of {names}"))
    })
}

fuzz_target!(|input: &[u8]| target()(input));
