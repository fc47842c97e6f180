# Coverage-guided fuzzing (libFuzzer) of what reads foreign bytes, on the pinned stable toolchain. Sourced by ../dev.
# shellcheck shell=bash

# What cargo-fuzz would add, without the sanitizers: those need a nightly compiler, and there is no unsafe code in what is fuzzed.
FUZZ_FLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
 -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=2"

# run_fuzz [--seconds N] [TARGET…]: N seconds for each target. What it finds is kept in fuzz/seeds/TARGET, where the tests run it again.
run_fuzz() {
    local seconds=60 target host failed=0
    local -a targets=()
    while [ $# -gt 0 ]; do
        case "$1" in
        --seconds)
            [[ ${2:-} =~ ^[0-9]+$ ]] || die "--seconds wants a number" 64
            seconds=$2
            shift 2
            ;;
        *)
            [ -d "fuzz/seeds/$1" ] || die "there is no fuzz target '$1'; the targets are: $(cd fuzz/seeds && echo *)" 64
            targets+=("$1")
            shift
            ;;
        esac
    done
    [ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls fuzz/seeds)
    host=$(rustc -vV | sed -n 's/^host: //p')
    say "dev: building the fuzzer"
    RUSTFLAGS="${FUZZ_FLAGS//$'\n'/}" CXX="${CXX:-clang++-19}" CARGO_TARGET_DIR="$CARGO_TARGET_DIR/fuzz" \
        cargo build --release --locked --manifest-path fuzz/Cargo.toml --target "$host" </dev/null || return 1
    for target in "${targets[@]}"; do
        say "dev: fuzzing '$target' for $seconds s"
        mkdir -p "$CARGO_TARGET_DIR/fuzz/corpus/$target"
        PENDULUM_FUZZ_TARGET=$target nice "$CARGO_TARGET_DIR/fuzz/$host/release/pendulum-fuzz" \
            "$CARGO_TARGET_DIR/fuzz/corpus/$target" "fuzz/seeds/$target" -max_total_time="$seconds" -timeout=10 -max_len=8192 \
            -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 -artifact_prefix="fuzz/seeds/$target/" </dev/null || failed=1
    done
    [ "$failed" -eq 0 ] || die "an input does harm: it is in fuzz/seeds, and './dev test fuzz' repeats it"
}
