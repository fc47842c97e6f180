# Everything a machine can say about the sources. Sourced by ../dev.
# shellcheck shell=bash

# The newest cargo-deny the workspace's oldest Rust can be asked to build; see `cargo info cargo-deny`.
CARGO_DENY=0.20.2

run_lint() { die "lint: under construction" 70; }
