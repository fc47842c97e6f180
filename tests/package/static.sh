#!/usr/bin/env bash
# static.sh BINARY…: are the binaries static, does the one for this machine measure, do those for other processors say the same under
# qemu-user, and refuse to measure there with a reason? Prints what libtest prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/package/outcomes.sh
. tests/package/outcomes.sh

native='' foreign=()
for binary in "$@"; do
    case "$binary" in *"-$(uname -m)-linux") native=$binary ;; *) foreign+=("$binary") ;; esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
capture=tests/data/two-way.pcap.zst

# shellcheck disable=SC2251 # the function's status is the last command's
needs_nothing() { ! readelf -lW "$1" | grep INTERP && ! readelf -dW "$1" | grep NEEDED; }

# say_all DIRECTORY COMMAND…: what the program says that does not depend on the machine.
say_all() {
    local to=$1
    shift
    mkdir -p "$to"
    "$@" --version >"$to/version" && "$@" check-config deploy/pendulum.toml >"$to/check-config" &&
        "$@" check-config deploy/openwrt/files/pendulum.toml >"$to/check-config-openwrt" &&
        "$@" advise --downlink-rate 2400kbit --uplink-rate 196kbit --rtt 40ms --format json >"$to/advise" &&
        "$@" replay --wan "$capture" --uplink-rate 196kbit --downlink-rate 2400kbit --format json >"$to/replay" &&
        "$@" replay --wan "$capture" --format jsonl >"$to/events"
}

runs_on_a_link() {
    local status=0 pid
    start_link || status=1
    if [ "$status" -eq 0 ]; then
        # Not by a function: that would be a shell in between. Not to expect's pipe: it would wait for the end.
        nsenter --net="/run/netns/$gateway" "$native" run --wan wan0 >"$work/log" 2>&1 &
        pid=$!
        measures "$pid" || status=1
        kill "$pid" || status=1
        wait "$pid" || status=1
        [ "$status" -eq 0 ] || cat "$work/log"
    fi
    end_link
    return "$status"
}

looks() {
    local status=0
    "$native" doctor --listen 127.0.0.1:0 --format json >"$work/doctor" || status=$?
    # 2: it cannot run.
    [ "$status" -lt 2 ]
}

# qemu-user knows no bpf(2).
refuses_without_bpf() {
    local status=0
    "$@" doctor --listen 127.0.0.1:0 >"$work/foreign-doctor" 2>&1 || status=$?
    cat "$work/foreign-doctor"
    [ "$status" -eq 2 ] || return 1
    status=0
    "$@" run --wan lo --listen 127.0.0.1:0 >"$work/foreign-run" 2>&1 || status=$?
    cat "$work/foreign-run"
    # An exit code of its own, not a signal's.
    [ "$status" -ge 64 ] && [ "$status" -le 78 ]
}

if [ -n "$native" ]; then
    expect static_native needs_nothing "$native"
    expect native_says say_all "$work/native" "$native"
    if [ "$(id -u)" -eq 0 ]; then
        expect native_looks_at_the_kernel looks
        expect native_measures runs_on_a_link
    else
        skip native_measures "needs root"
    fi
else
    skip native_says "no binary for $(uname -m) was built"
fi
for binary in "${foreign[@]}"; do
    architecture=${binary%-linux}
    architecture=${architecture##*-}
    expect "static_$architecture" needs_nothing "$binary"
    if ! command -v "qemu-$architecture-static" >/dev/null; then
        skip "${architecture}_says" "qemu-$architecture-static is not installed"
        continue
    fi
    expect "${architecture}_says" say_all "$work/$architecture" "qemu-$architecture-static" "$binary"
    [ -z "$native" ] || expect "${architecture}_says_the_same" diff -r "$work/native" "$work/$architecture"
    expect "${architecture}_refuses_without_bpf" refuses_without_bpf "qemu-$architecture-static" "$binary"
    skip "${architecture}_measures" "qemu-user has no bpf(2); ./dev package check measures in a guest of that processor"
done
outcomes
