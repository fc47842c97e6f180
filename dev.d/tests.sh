# Tests and guests: what they need is installed here, what they are is in tests/runner and tests/vm. Sourced by ../dev.
#
# A Rust test that cannot run here prints "SKIPPED <test>: <reason>" and returns: it is then counted as skipped, not as passed.
# shellcheck shell=bash

# shown_and_kept LOG COMMAND…: keeps all the output, and shows what is worth reading.
shown_and_kept() {
    local -a progress=()
    [ ! -t 1 ] || progress=(--progress)
    "${@:2}" </dev/null 2>&1 | tee "$1" | python3 tests/runner/shown.py "${progress[@]}"
}

# run_logged GROUP COMMAND…: shows the output, keeps it, and adds its counts to the totals.
run_logged() {
    local group=$1 status=0 begin=$SECONDS
    shift
    say "dev: '$group' begins"
    shown_and_kept "$LOGS/$group.log" "$@" || status=$?
    say "dev: '$group' took $((SECONDS - begin)) s; all it printed: $LOGS/$group.log"
    python3 tests/runner/counts.py "$LOGS/$group.log" --status "$status" --group "$group" >>"$LOGS/counts"
}

# Starts a new count in LOGS.
begin_count() {
    LOGS="$CARGO_TARGET_DIR/test-logs"
    mkdir -p "$LOGS"
    : >"$LOGS/counts"
}

# Prints what failed and what was skipped, then the one line that counts; fails if anything failed.
end_count() { python3 tests/runner/counts.py --total "$LOGS/counts"; }

# In place of this shell, so that what ends it ends the runner and all that this runs.
test_runner() { exec python3 tests/runner/runner.py --logs "$CARGO_TARGET_DIR/test-logs" --target "$CARGO_TARGET_DIR" "$@"; }

run_tests() {
    local names status=0
    local -a own=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        own+=("$1")
        shift
    done
    need_packages build
    need_rust
    case " ${own[*]} " in
    *" --list "* | *" --slowest "* | *" --help "*)
        test_runner "${own[@]}"
        ;;
    esac
    names=$(test_runner --names "${own[@]}") || status=$?
    [ "$status" -eq 0 ] || exit "$status"
    names=" ${names//$'\n'/ } "
    # Each is NAME:LAYER.
    case "$names" in
    *:namespaces\ * | *:TEST_RUN\ *)
        need_packages test
        need_prometheus
        ;;&
    *" vm:"*) need_packages test vm ;;&
    *" package:"*) need_packages package-test ;;&
    *" page:"*)
        need_packages page
        need_npm || say "dev: no npm: the live page's bundle is not compared with its sources"
        ;;
    esac
    # The same random cases in every run, so that a failure is the change's; the long forms, and another seed here, try others.
    case " ${own[*]} " in
    *" --long "*) ;;
    *) export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-1}" ;;
    esac
    test_runner "${own[@]}" "$@"
}

# What arm64 guests run besides the tests: the static binary as it is installed. Sets the toolchain for their tests, too.
FOREIGN_AGENT=()
foreign_agent() {
    need_packages vm-arm64
    make_static aarch64-unknown-linux-musl || return 1
    FOREIGN_AGENT=(--agent "$(static_binary aarch64-unknown-linux-musl)")
}

run_vm() {
    need_packages build test vm
    need_rust
    if [ "${1:-}" = --list ]; then
        exec python3 tests/vm/run.py --list
    fi
    case " $* " in
    *arm64*) foreign_agent || die "nothing can be built for arm64 guests: the reason is above" ;;
    esac
    # Its output is the command's own, and nothing to count.
    case " $* " in
    *" --run "* | *" --run="*) exec python3 tests/vm/run.py --logs "$CARGO_TARGET_DIR/vm" "${FOREIGN_AGENT[@]}" "$@" ;;
    esac
    begin_count
    run_logged vm python3 tests/vm/run.py --logs "$CARGO_TARGET_DIR/vm" "${FOREIGN_AGENT[@]}" "$@"
    end_count
}
