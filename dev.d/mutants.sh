# Mutation testing: which changes of the programs no test notices. Sourced by ../dev.
# shellcheck shell=bash

# cargo-mutants 27.1.0 builds with Rust 1.88, the oldest the workspace supports.
CARGO_MUTANTS_VERSION=27.1.0

# Prints where cargo-mutants is. It only names what can be changed.
cargo_mutants() { cargo_tool cargo-mutants "$CARGO_MUTANTS_VERSION"; }

# run_mutants [ROOM…] [--seed N] [--count N] [--list] [--write]: docs/results/mutants.md.
run_mutants() {
    need_packages build test
    need_rust
    PENDULUM_CARGO_MUTANTS=$(cargo_mutants) || die "cargo-mutants could not be built: the reason is above"
    export PENDULUM_CARGO_MUTANTS
    exec python3 tests/mutants/run.py "$@"
}
