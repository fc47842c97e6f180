# Mutation testing: which changes of the programs no test notices (docs/results/mutants.md). Sourced by ../dev.
# shellcheck shell=bash

# cargo-mutants 27.1.0 builds with Rust 1.88, the oldest the workspace supports.
CARGO_MUTANTS_VERSION=27.1.0

# What `tests/mutants/run.py` needs: cargo-mutants only names what can be changed.
need_mutants() {
    need_packages build test
    need_rust
    PENDULUM_CARGO_MUTANTS=$(cargo_tool cargo-mutants "$CARGO_MUTANTS_VERSION") || die "cargo-mutants could not be built: the reason is above"
    export PENDULUM_CARGO_MUTANTS
}
