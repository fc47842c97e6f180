# What the package checks print: the lines of libtest. Sourced.
# shellcheck shell=bash

passed=0 failed=0

# expect NAME COMMAND…: the command has to succeed.
expect() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "test package::$name ... ok"
        passed=$((passed + 1))
    else
        echo "test package::$name ... FAILED"
        printf '    %s\n' "$*" "$output"
        failed=$((failed + 1))
    fi
}

# skip NAME REASON: what cannot be tried here. Counted as tests/runner/counts.py has it: a test that skips itself has passed for its runner.
skip() {
    echo "SKIPPED package::$1: $2"
    passed=$((passed + 1))
}

# Prints the line that is counted; fails if anything failed.
outcomes() {
    local result=ok
    [ "$failed" -eq 0 ] || result=FAILED
    echo "test result: $result. $passed passed; $failed failed; 0 ignored; 0 measured; 0 filtered out"
    [ "$failed" -eq 0 ]
}

# A link of its own in two network namespaces, which end_link removes: wan0 at 192.0.2.1 in $gateway, its other end in $provider.
start_link() {
    gateway="ppkg-$$-g" provider="ppkg-$$-p"
    ip netns add "$gateway" && ip netns add "$provider" &&
        ip -n "$gateway" link add wan0 type veth peer name isp netns "$provider" &&
        ip -n "$gateway" address add 192.0.2.1/24 dev wan0 && ip -n "$provider" address add 192.0.2.2/24 dev isp &&
        ip -n "$gateway" link set lo up && ip -n "$gateway" link set wan0 up && ip -n "$provider" link set isp up
}

end_link() {
    local name
    for name in "$gateway" "$provider"; do ip netns delete "$name" 2>/dev/null || true; done
}

on_gateway() { nsenter --net="/run/netns/$gateway" "$@"; }

# measures PID: the agent that is process PID answers, counts packets of the link, and ends well on SIGTERM.
measures() {
    local pid=$1 bytes _
    for _ in $(seq 100); do
        on_gateway curl -sf -m 5 http://127.0.0.1:9924/readyz >/dev/null && break
        kill -0 "$pid" || return 1
        sleep 0.1
    done
    on_gateway ping -q -c 3 -i 0.1 192.0.2.2 || return 1
    for _ in $(seq 50); do
        bytes=$(on_gateway curl -sf -m 5 http://127.0.0.1:9924/api/v1/state |
            python3 -c 'import json, sys; print(json.load(sys.stdin)["links"][0]["directions"]["up"]["bytes"])')
        # Three echo requests of 98 bytes.
        [ "${bytes:-0}" -lt 294 ] || return 0
        sleep 0.1
    done
    echo "it counted ${bytes:-no} bytes"
    return 1
}
