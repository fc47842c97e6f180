#!/bin/bash
# A control for docs/results/mitigations.md that needs neither the lab nor the agent: one upload and one download of reno over 10 Mbit/s both
# ways, with cake as the uplink itself (root), or with the agent's options at 99 % of the rate on an ifb before it (before).
#
#   ./dev vm 6.12 --file "$PWD/tests/vm/cake-before.sh" --run "bash $PWD/tests/vm/cake-before.sh 80 root before"
#
# The first argument is the time of a case in seconds; a quarter more is left out at its begin. Prints the upload's goodput, second by second
# its rate (Mbit/s), retransmissions and window (kB), and the home's counters of TCP.
set -u
seconds=$1
settling=$((seconds / 4))
shift

within() { ip netns exec "$@"; }

# veth pair: the ends' namespaces, names and addresses. No offloads: packets are those of the wire.
wire() {
    ip link add "$2" netns "$1" type veth peer name "$5" netns "$4"
    ip -n "$1" addr add "$3/24" dev "$2"
    ip -n "$4" addr add "$6/24" dev "$5"
    for end in "$1 $2" "$4 $5"; do
        ip -n "${end% *}" link set "${end#* }" up gso_max_segs 1
        within "${end% *}" ethtool -K "${end#* }" tso off gso off gro off tx off >/dev/null 2>&1
    done
}

# DEVICE NAMESPACE: a plain buffer before the link, as the lab's.
buffer() {
    within "$2" tc qdisc add dev "$1" root handle 1: tbf rate 10mbit burst 2850 limit 125000
    within "$2" tc qdisc add dev "$1" parent 1:1 handle 10: bfifo limit 125000
}

# home ─ gateway wan0 ═ link0 provider ─ internet
build() {
    for name in home gateway provider internet; do ip netns add "$name"; done
    wire home eth0 10.1.0.2 gateway lan0 10.1.0.1
    wire gateway wan0 10.2.0.1 provider link0 10.2.0.2
    wire provider lan0 10.3.0.1 internet eth0 10.3.0.2
    ip -n home route add default via 10.1.0.1
    ip -n gateway route add default via 10.2.0.2
    ip -n provider route add default via 10.2.0.1
    ip -n internet route add default via 10.3.0.1
    for name in gateway provider; do within "$name" sysctl -q -w net.ipv4.ip_forward=1; done
    buffer link0 provider
}

uplink() {
    case $1 in
    root) within gateway tc qdisc add dev wan0 root cake bandwidth 10mbit ;;
    before)
        buffer wan0 gateway
        ip -n gateway link add before0 type ifb
        ip -n gateway link set before0 up
        within gateway tc qdisc add dev before0 root cake bandwidth 9900kbit besteffort dual-srchost nat
        within gateway tc qdisc add dev wan0 clsact
        within gateway tc filter add dev wan0 egress protocol all u32 match u32 0 0 action mirred egress redirect dev before0
        ;;
    esac
}

# The home's counter of TCP with this name.
counter() {
    within home cat /proc/net/netstat |
        awk -v name="$1" '/^TcpExt/ { if (!n) { for (i = 2; i <= NF; i++) if ($i == name) n = i } else print $n }'
}

for case in "$@"; do
    build
    uplink "$case"
    within internet iperf3 -s -p 1 -D >/dev/null
    within home iperf3 -s -p 2 -D >/dev/null
    sleep 0.5
    within internet iperf3 -c 10.1.0.2 -p 2 -C reno -t "$seconds" -O "$settling" -i 0 >/tmp/download &
    within home iperf3 -c 10.3.0.2 -p 1 -C reno -t "$seconds" -O "$settling" -i 1 >/tmp/upload &
    sleep $((seconds + settling - 1))
    echo "$case: recoveries $(counter TCPSackRecovery), lost retransmissions $(counter TCPLostRetransmit)"
    wait
    echo "upload $(grep receiver /tmp/upload)"
    echo "download $(grep receiver /tmp/download)"
    awk '/sec .*bits\/sec/ { printf "%s:%s:%s ", $7, $9, $10 }' /tmp/upload
    echo
    for name in home internet; do ip netns pids "$name" | xargs -r kill; done
    sleep 0.5
    for name in home gateway provider internet; do ip netns del "$name"; done
done
