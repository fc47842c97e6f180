# Test groups, run one after another, and one count over all of them. Sourced by ../dev.
#
# Groups: unit (beside the code, and documentation examples), scripts (the test runner's own tests), every integration test target of the
# workspace under its own name, package (what is installed elsewhere, in its short form), and vm (the suites of tests/vm on other kernels). A Rust test that cannot run here
# prints "SKIPPED <test>: <reason>" and returns: it is then counted as skipped, not as passed.
# shellcheck shell=bash

# One line "PACKAGE TARGET" for each integration test target.
integration_targets() {
    cargo metadata --no-deps --locked --format-version 1 </dev/null | python3 -c '
import json, sys
for package in json.load(sys.stdin)["packages"]:
    for target in package["targets"]:
        if target["kind"] == ["test"]:
            print(package["name"], target["name"])'
}

all_groups() {
    printf 'unit\nscripts\n'
    integration_targets | awk '{ print $2 }' | sort -u
    printf 'package\nvm\n'
}

# shown_and_kept LOG COMMAND…: keeps all the output, and shows what is worth reading.
shown_and_kept() {
    local -a progress=()
    [ ! -t 1 ] || progress=(--progress)
    "${@:2}" </dev/null 2>&1 | tee "$1" | python3 tests/vm/shown.py "${progress[@]}"
}

# run_recorded GROUP COMMAND…: shows the output, keeps it, and puts its counts into RECORD.
run_recorded() {
    local group=$1 status=0 begin=$SECONDS
    shift
    say "dev: test group '$group'"
    shown_and_kept "$LOGS/$group.log" "$@" || status=$?
    say "dev: test group '$group' took $((SECONDS - begin)) s; all it printed: $LOGS/$group.log"
    RECORD=$(python3 tests/vm/counts.py "$LOGS/$group.log" --status "$status" --group "$group")
}

# run_logged GROUP COMMAND…: adds its counts to the totals.
run_logged() {
    run_recorded "$@"
    printf '%s\n' "$RECORD" >>"$LOGS/counts"
}

# run_live GROUP COMMAND…: run_logged for tests with real packets, processes or timers, of which several run at once on few processors.
# What happens there depends on who gets the processor: up to three that fail are run once more, alone. The count names them, and what fails twice has failed.
run_live() {
    local again="$LOGS/$1.again.log" status=0
    local -a failed=()
    run_recorded "$@"
    mapfile -t failed < <(python3 tests/vm/counts.py --few <<<"$RECORD")
    if [ ${#failed[@]} -gt 0 ]; then
        say "dev: once more, alone: ${failed[*]}"
        shown_and_kept "$again" "${@:2}" "${failed[@]}" --exact --test-threads=1 || status=$?
        RECORD=$(python3 tests/vm/counts.py --again "$again" --status "$status" <<<"$RECORD")
    fi
    printf '%s\n' "$RECORD" >>"$LOGS/counts"
}

run_group() {
    local group=$1 package
    shift
    local -a targets=()
    case "$group" in
    unit)
        run_live unit cargo test --workspace --lib --bins --locked --no-fail-fast "$@"
        run_logged doc cargo test --workspace --doc --locked --no-fail-fast "$@"
        ;;
    scripts)
        run_logged scripts python3 -m unittest discover --start-directory tests/vm --pattern '*_test.py'
        ;;
    package)
        # What it packs; integration tests have built it, and then this costs nothing.
        cargo build -p pendulum --locked </dev/null || say "dev: the agent does not build, so there is nothing new to pack"
        run_logged package env PENDULUM_PROGRAM="$CARGO_TARGET_DIR/debug/pendulum" \
            python3 -m unittest discover --verbose --start-directory tests/package --pattern '*_test.py'
        ;;
    vm) run_logged vm python3 tests/vm/run.py --logs "$CARGO_TARGET_DIR/vm" --skip-missing ;;
    *)
        while read -r package; do targets+=(-p "$package"); done < <(integration_targets | awk -v g="$group" '$2 == g { print $1 }')
        run_live "$group" cargo test "${targets[@]}" --test "$group" --locked --no-fail-fast "$@"
        ;;
    esac
}

# Starts a new count in LOGS.
begin_count() {
    LOGS="$CARGO_TARGET_DIR/test-logs"
    mkdir -p "$LOGS"
    : >"$LOGS/counts"
}

# Prints what failed and what was skipped, then the one line that counts; fails if anything failed.
end_count() { python3 tests/vm/counts.py --total "$LOGS/counts"; }

run_tests() {
    local group
    local -a chosen=() arguments=() known=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        chosen+=("$1")
        shift
    done
    [ $# -eq 0 ] || arguments=("${@:2}") # `./dev test unit -- FILTER` runs `cargo test … FILTER`
    # libtest hides what a passing test prints, and with it why one skipped itself.
    case " ${arguments[*]} " in
    *" -- "*) arguments+=(--show-output) ;;
    *) arguments+=(-- --show-output) ;;
    esac
    need_packages build
    need_rust
    if [ "${chosen[0]:-}" = --list ]; then
        all_groups
        return
    fi
    mapfile -t known < <(all_groups)
    [ ${#chosen[@]} -gt 0 ] || chosen=("${known[@]}")
    for group in "${chosen[@]}"; do
        case " ${known[*]} " in
        *" $group "*) ;;
        *) die "there is no test group '$group'; the groups are: ${known[*]}" 64 ;;
        esac
    done
    case " ${chosen[*]} " in
    *" vm "*) need_packages test vm ;;&
    *" package "*) need_packages package-test ;;&
    " unit " | " scripts " | " package " | " vm ") ;;
    *)
        need_packages test
        need_prometheus
        ;;
    esac
    case " ${chosen[*]} " in
    *" page "*)
        need_packages page
        need_npm || say "dev: no npm: the live page's bundle is not compared with its sources"
        ;;
    esac
    [ "$(id -u)" -eq 0 ] || say "dev: not root: the tests that need namespaces or BPF will be skipped"
    begin_count
    for group in "${chosen[@]}"; do
        run_group "$group" "${arguments[@]}"
    done
    end_count
}

run_vm() {
    need_packages build test vm
    need_rust
    if [ "${1:-}" = --list ]; then
        exec python3 tests/vm/run.py --list
    fi
    # Its output is the command's own, and nothing to count.
    case " $* " in
    *" --run "* | *" --run="*) exec python3 tests/vm/run.py --logs "$CARGO_TARGET_DIR/vm" "$@" ;;
    esac
    begin_count
    run_logged vm python3 tests/vm/run.py --logs "$CARGO_TARGET_DIR/vm" "$@"
    end_count
}
