#!/bin/sh
# What every guest must offer before another suite's result means anything. Prints what libtest prints.

QDISCS="bfifo pfifo pfifo_fast tbf htb prio fq fq_codel codel cake pie netem"
TESTS="in_vm mounts btf modules_load classifier fentry tcx_by_version ifb_redirect tcp_between_namespaces capture tun"
for kind in $QDISCS; do TESTS="$TESTS qdisc_$kind"; done

fail() {
    echo "$*"
    exit 1
}

expect() {
    "$@" || fail "failed with status $?: $*"
}

# A pair of devices for one test; each test runs in a shell of its own and removes what it made.
with_pair() {
    expect ip link add sm0 type veth peer name sm1
    trap 'ip link del sm0' EXIT
    expect ip link set sm0 up
    expect ip link set sm1 up
}

with_programs() {
    expect bpftool prog loadall /bpf/smoke.bpf.o /sys/fs/bpf/smoke
    trap 'rm -r /sys/fs/bpf/smoke' EXIT
}

test_in_vm() { [ "$PENDULUM_IN_VM" = 1 ] || fail "PENDULUM_IN_VM is '$PENDULUM_IN_VM'"; }

test_mounts() {
    for mount in "proc /proc" "sysfs /sys" "devtmpfs /dev" "bpf /sys/fs/bpf" "cgroup2 /sys/fs/cgroup" "tracefs /sys/kernel/tracing"; do
        kind=${mount% *} place=${mount#* }
        grep -q "^[^ ]* $place $kind " /proc/mounts || fail "$place is not a mounted $kind"
    done
}

test_btf() { [ -s /sys/kernel/btf/vmlinux ] || fail "/sys/kernel/btf/vmlinux is missing or empty"; }

test_modules_load() {
    expect modprobe sch_ingress
    grep -q '^sch_ingress ' /proc/modules || fail "sch_ingress is not among the loaded modules"
}

test_classifier() {
    with_programs
    with_pair
    trap 'rm -r /sys/fs/bpf/smoke; ip link del sm0' EXIT
    expect tc qdisc add dev sm0 clsact
    expect tc filter add dev sm0 egress bpf direct-action object-pinned /sys/fs/bpf/smoke/smoke_pass
    tc filter show dev sm0 egress | grep -q smoke_pass || fail "$(tc filter show dev sm0 egress)"
    expect ip address add 10.99.0.1/24 dev sm0
    ping -c 1 -W 1 10.99.0.2 >/dev/null # nobody answers; the request for its address passes the hook
    bpftool -j map dump name smoke_seen | grep -q '"key":0,"value":[1-9]' || fail "the classifier saw no packet"
}

# On a kernel without trampolines, such as a minimal one for virtual machines, loading is what fails.
test_fentry() {
    with_programs
    bpftool prog show pinned /sys/fs/bpf/smoke/smoke_fentry | grep -q ': tracing ' || fail "it is no tracing program"
}

# TCX came with 6.6.
test_tcx_by_version() {
    release=$(uname -r)
    major=${release%%.*} rest=${release#*.}
    minor=${rest%%.*}
    expected=0 found=0
    if [ "$major" -gt 6 ] || { [ "$major" -eq 6 ] && [ "$minor" -ge 6 ]; }; then expected=1; fi
    grep -q ' tcx_prog_attach$' /proc/kallsyms && found=1
    [ "$found" -eq "$expected" ] || fail "release $release: TCX expected $expected, found $found"
}

test_ifb_redirect() {
    with_pair
    expect ip link add smifb type ifb
    trap 'ip link del sm0; ip link del smifb' EXIT
    expect ip link set smifb up
    expect tc qdisc add dev sm0 clsact
    expect tc filter add dev sm0 egress matchall action mirred egress redirect dev smifb
    expect ip address add 10.99.0.1/24 dev sm0
    ping -c 1 -W 1 10.99.0.2 >/dev/null
    [ "$(cat /sys/class/net/smifb/statistics/tx_packets)" -gt 0 ] || fail "the ifb saw no packet"
}

test_tcp_between_namespaces() {
    expect ip netns add sma
    expect ip netns add smb
    trap 'ip netns del sma; ip netns del smb' EXIT
    expect ip link add sm0 netns sma type veth peer name sm1 netns smb
    expect ip -n sma address add 10.99.0.1/24 dev sm0
    expect ip -n smb address add 10.99.0.2/24 dev sm1
    expect ip -n sma link set sm0 up
    expect ip -n smb link set sm1 up
    expect nsenter --net=/run/netns/smb iperf3 -s -1 -D
    sleep 1
    expect nsenter --net=/run/netns/sma iperf3 -c 10.99.0.2 -n 1M -C bbr
}

test_capture() {
    timeout 10 tcpdump -i lo -c 1 -w /tmp/one.pcap 2>/dev/null &
    sleep 1
    ping -c 2 -W 1 127.0.0.1 >/dev/null
    wait
    [ "$(tcpdump -r /tmp/one.pcap 2>/dev/null | wc -l)" -eq 1 ] || fail "tcpdump caught nothing on lo"
}

test_tun() {
    expect ip tuntap add dev smtun mode tun
    expect ip link del smtun
}

test_qdisc() {
    with_pair
    arguments=""
    case "$1" in
    tbf) arguments="rate 1mbit burst 2000 limit 30000" ;;
    netem) arguments="delay 5ms" ;;
    esac
    # shellcheck disable=SC2086 # several words
    expect tc qdisc replace dev sm0 root "$1" $arguments
    tc qdisc show dev sm0 | grep -q "^qdisc $1 " || fail "$(tc qdisc show dev sm0)"
}

# shellcheck disable=SC2086 # a list of names
set -- $TESTS
echo "running $# tests"
passed=0 failed=0
for name in "$@"; do
    case "$name" in
    qdisc_*) function="test_qdisc ${name#qdisc_}" ;;
    *) function="test_$name" ;;
    esac
    # shellcheck disable=SC2086 # the name of a function and its argument
    if output=$( ($function) 2>&1); then
        echo "test $name ... ok"
        passed=$((passed + 1))
    else
        echo "test $name ... FAILED"
        printf '%s\n' "$output" | sed 's/^/    /'
        failed=$((failed + 1))
    fi
done
result=ok
[ "$failed" -eq 0 ] || result=FAILED
echo
echo "test result: $result. $passed passed; $failed failed; 0 ignored; 0 measured; 0 filtered out"
[ "$failed" -eq 0 ]
