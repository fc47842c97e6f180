#!/bin/bash
# In the guest, as root, under systemd: the package's whole life. Installed, configured, started, watched, reloaded, upgraded, stopped, purged,
# on a link wan0 with a provider behind it. Prints what libtest prints, on the second serial port.
cd /check || exit
stty -F /dev/ttyS1 -opost
exec >/dev/ttyS1 2>&1 </dev/null
echo "PENDULUM-VM start $(cut -d ' ' -f 1 /proc/uptime)"
# shellcheck source=tests/package/outcomes.sh
. /check/outcomes.sh
at=$(cat /check/name)
config=/etc/pendulum/pendulum.toml

state() { curl -sf -m 5 http://127.0.0.1:9924/api/v1/state; }
says() { state | jq -e "$1" >/dev/null; }
property() { systemctl show --value -p "$1" pendulum; }
pid() { property MainPID; }
# In the service's own view of the files.
within() { nsenter --target "$(pid)" --mount "$@"; }
entries() { journalctl --quiet --output json --unit pendulum "$@"; }
# Not those that systemd attaches to its services' cgroups.
programs() { bpftool --json prog | jq '[.[] | select(.type | startswith("cgroup") | not)] | length'; }
hooks() { tc qdisc show dev wan0; tc filter show dev wan0 egress; tc filter show dev wan0 ingress; bpftool net show dev wan0 2>/dev/null; ip -o link | grep pdl-; }

# until_ SECONDS COMMAND…: until it succeeds. Emulated processors are slow: what is waited for is generous.
until_() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.2
    done
}

link_up() {
    ip link add wan0 type veth peer name isp netns provider && ip link set wan0 address 02:00:00:00:00:01 &&
        ip address add 192.0.2.1/24 dev wan0 && ip link set wan0 up && tc qdisc add dev wan0 root handle 1: tbf rate 2mbit burst 4kb limit 30000 &&
        ip -n provider address add 192.0.2.2/24 dev isp && ip -n provider link set isp up
}
configure() {
    cat >"$config" <<TOML
[[link]]
wan = "wan0"
name = "dsl"
uplink-rate = "2mbit"
downlink-rate = "10mbit"
[events]
log = "/var/log/pendulum/events.jsonl"
$1
TOML
}

# What each check asks.
is_not_started() { ! systemctl is-enabled --quiet pendulum && ! systemctl is-active --quiet pendulum; }
# No man(1) here.
unit_verifies() { [ -z "$(systemd-analyze verify pendulum.service 2>&1 | grep -i pendulum | grep -v "Command 'man " | tee /dev/stderr)" ]; }
exposure_is_as_documented() {
    local exposure
    exposure=$(systemd-analyze security pendulum.service | tee security | sed -n 's/.*Overall exposure level for [^:]*: \([0-9.]*\) .*/\1/p')
    echo "exposure $exposure"
    [ "${exposure%.*}" -lt 2 ]
}
shipped_file_waits_for_its_device() {
    # ppp0, which is not there: --wait.
    systemctl start pendulum && systemctl is-active pendulum && until_ 30 says '.links[0].device == "missing"' && systemctl stop pendulum
}
refuses_a_wrong_file() {
    configure '[shape]
mode = "loud"'
    # Longer than RestartSec=: what does not mend itself is not tried again.
    ! systemctl start pendulum && sleep 7 && [ "$(property ActiveState) $(property NRestarts)" = "failed 0" ] &&
        entries | jq -r .MESSAGE | grep loud && systemctl reset-failed pendulum
}
starts() { systemctl enable --now pendulum && systemctl is-active pendulum && [ "$(property Type)" = notify ]; }
measures_here() {
    until_ 60 curl -sf -m 5 http://127.0.0.1:9924/readyz && ping -q -c 3 -i 0.1 192.0.2.2 && until_ 30 says '.links[0].directions.up.bytes >= 294'
}
is_the_service_user_with_three_capabilities() {
    local status
    status=/proc/$(pid)/status
    grep -E '^(Uid|CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' "$status"
    [ "$(stat -c %U "/proc/$(pid)")" = pendulum ] && grep -q '^CapEff:.000000c000001000$' "$status" && grep -q '^CapBnd:.000000c000001000$' "$status" &&
        grep -q '^NoNewPrivs:.1$' "$status" && grep -q '^Seccomp:.2$' "$status"
}
sandbox_is_in_force() {
    local path
    for path in /usr /etc /var /sys/kernel /proc/sys/kernel /boot; do
        within findmnt --noheadings --output OPTIONS --target "$path" | grep -qE '(^|,)ro(,|$)' || { echo "$path can be written" && return 1; }
    done
    # Another /tmp, /home and /root hidden, few devices.
    touch /tmp/outside /home/outside && ! within test -e /tmp/outside && ! within test -e /home/outside && ! within test -e /dev/mem && ! within test -e /dev/ttyS0 &&
        within test -r /sys/kernel/btf/vmlinux
}
system_calls_are_filtered() {
    # By the unit's own lines, a program that asks for what it withholds; chown(2) is answered with EPERM.
    systemd-run --quiet --wait --pipe --property=SystemCallArchitectures=native --property='SystemCallFilter=@system-service bpf' \
        --property='SystemCallFilter=~@chown @keyring @memlock @privileged @resources @setuid io_uring_setup io_uring_enter io_uring_register' \
        --property=SystemCallFilter='bpf capset' --property=SystemCallErrorNumber=EPERM bash -c 'touch /run/mine && ! chown 1 /run/mine'
}
sources() { state | jq -c '[.links[0].sources, .links[0].hooks, [.links[0].programs[] | [.name, .attached]]]'; }
# These kernels have the best source of the queue. It is trusted a moment after the programs hang, and netlink serves until then.
test_sources_are_settled() { says '.links[0].sources | any(.what == "queue" and .direction == "up" and .source == "tracepoint")'; }
sources_are_those_of_root() {
    local service root
    measures_here && until_ 30 test_sources_are_settled
    service=$(sources)
    systemctl stop pendulum
    pendulum run --config "$config" >root.log 2>&1 &
    measures_here && until_ 30 test_sources_are_settled
    root=$(sources)
    kill %1 && wait %1
    systemctl start pendulum
    printf '%s\n' "$service" "$root"
    [ "$service" = "$root" ]
}
warns_of_nothing() { [ -z "$(entries --priority warning _PID="$(pid)" | jq -r .MESSAGE | tee /dev/stderr)" ]; }
journal_has_fields() {
    until_ 30 test_attached
    entries PENDULUM_EVENT=attached | jq -e 'select(.PENDULUM_LINK == "dsl" and .PRIORITY == "6" and ._SYSTEMD_UNIT == "pendulum.service" and .SYSLOG_IDENTIFIER == "pendulum")'
}
test_attached() { [ -n "$(entries PENDULUM_EVENT=attached PENDULUM_LINK=dsl)" ]; }
verdict_reaches_the_journal() {
    # One upload: data one way, and a queue that stands. netcat ends with its input, so that is kept open.
    ip netns exec provider ./busybox nc -l -p 5001 < <(exec sleep 200 2>/dev/null) >/dev/null &
    local receiver=$!
    until_ 20 test_receiver
    ./busybox nc 192.0.2.2 5001 </dev/zero >/dev/null &
    local sender=$!
    until_ 90 test_verdict
    local status=$?
    kill "$sender" "$receiver"
    [ "$status" -eq 0 ] || state | jq -c '.links[0] | {phase, verdict, evidence}'
    entries PENDULUM_EVENT=verdict | jq -c '{MESSAGE, PENDULUM_VERDICT, PENDULUM_FROM, PENDULUM_LINK, PRIORITY}'
    return "$status"
}
test_receiver() { [ -n "$(ip netns exec provider ss -Hltn 'sport = :5001')" ]; }
test_verdict() { [ -n "$(entries PENDULUM_EVENT=verdict PENDULUM_VERDICT=one_way)" ]; }
event_log_is_written() { [ "$(stat -c %U /var/log/pendulum)" = pendulum ] && [ "$(jq -rs 'map(select(.link == "dsl")) | length' /var/log/pendulum/events.jsonl)" -ge 1 ]; }
reloads() {
    local before
    before=$(pid)
    configure '[flows]
top = 7'
    systemctl reload pendulum && until_ 30 says '.config.reloads_applied == 1' && [ "$(pid)" = "$before" ] && entries | jq -r .MESSAGE | grep 'configuration read again'
}
a_wrong_file_changes_nothing() {
    local before
    before=$(pid)
    configure '[flows]
top = "many"'
    ! systemctl reload pendulum && systemctl is-active pendulum && [ "$(pid)" = "$before" ] && says '.config.reloads_applied == 1' &&
        entries | jq -r .MESSAGE | grep 'top'
}
a_second_link_is_added() {
    ip link add wan1 type veth peer name isp1 netns provider && ip link set wan1 up && ip -n provider link set isp1 up
    configure '[[link]]
wan = "wan1"'
    systemctl reload pendulum && until_ 30 says '[.links[] | select(.wan == "wan1")][0].attached'
}
a_device_made_anew_is_measured() {
    ip link delete wan0 && until_ 30 says '.links[0].device == "missing"' && link_up && until_ 60 says '.links[0].attached' && measures_here
}
comes_back_after_kill_9() {
    local before restarts
    before=$(pid) restarts=$(property NRestarts)
    # 0 would be this script and all of its own.
    [ "$before" -gt 0 ] && kill -KILL "$before" && until_ 60 test_is_another "$before" && [ "$(property NRestarts)" = $((restarts + 1)) ] && measures_here
}
test_is_another() { [ "$(pid)" != 0 ] && [ "$(pid)" != "$1" ] && systemctl is-active --quiet pendulum; }
watchdog_restarts_one_that_hangs() {
    local before
    mkdir -p /run/systemd/system/pendulum.service.d
    printf '[Service]\nWatchdogSec=4s\nRestartSec=100ms\n' >/run/systemd/system/pendulum.service.d/short.conf
    systemctl daemon-reload && systemctl restart pendulum && measures_here || return 1
    before=$(pid)
    # A healthy one is left alone for longer than that.
    sleep 6
    [ "$(pid)" = "$before" ] || { echo "it was restarted without a reason" && return 1; }
    [ "$before" -gt 0 ] && kill -STOP "$before"
    until_ 90 test_is_another "$before" && journalctl --quiet --unit pendulum --grep 'Watchdog timeout' | tail -n 1 && measures_here
    local status=$?
    rm -r /run/systemd/system/pendulum.service.d
    systemctl daemon-reload
    return "$status"
}
shapes_within_its_sandbox() {
    configure '[shape]
mode = "enforce"'
    systemctl reload pendulum && until_ 60 says '.links[0].shape.state == "enforcing"' && ip -o link | grep pdl- && ping -q -c 3 -i 0.1 192.0.2.2
}
gives_up_everything_if_asked() {
    configure '[privileges]
after-start = "none"'
    systemctl restart pendulum && measures_here || return 1
    local allowed=0000000000000000
    # clsact filters, before Linux 6.6, are taken down by netlink.
    ! says '.links[0].hooks.egress == "clsact"' || allowed=0000000000001000
    grep '^CapEff' "/proc/$(pid)/status" | grep "$allowed"
}
upgrades() {
    local before
    before=$(pid)
    dpkg -i --force-confold new.deb && test_is_another "$before" && grep -q after-start "$config" && measures_here
}
stops() { systemctl stop pendulum && [ "$(property Result)" = success ] && ! systemctl is-active --quiet pendulum; }
nothing_is_attached() {
    local hooks_now
    hooks_now=$(hooks)
    diff <(echo "$hooks_before") <(echo "$hooks_now") || return 1
    until_ 10 test_no_program_more || { echo "BPF programs: $programs_before before, $(programs) now" && return 1; }
}
# The kernel frees a program a moment after its last user is gone.
test_no_program_more() { [ "$(programs)" = "$programs_before" ]; }
purge_stops_it() {
    systemctl start pendulum && dpkg -P pendulum && ! systemctl is-active --quiet pendulum && [ ! -e /etc/pendulum ] && [ ! -e /var/log/pendulum ] &&
        [ ! -e /etc/systemd/system/multi-user.target.wants/pendulum.service ] && [ "$(systemctl show --value -p LoadState pendulum)" = not-found ]
}

check() {
    local failed_before=$failed
    expect "${at}_$1" "${@:2}"
    [ "$failed" -eq "$failed_before" ] || journalctl --quiet --no-pager --unit pendulum --output short-monotonic --lines 30 | sed 's/^/    | /'
}

echo "$(. /etc/os-release && echo "$PRETTY_NAME"), $(systemctl --version | head -n 1), Linux $(uname -r)"
ip netns add provider
ip link set lo up
link_up
programs_before=$(programs) hooks_before=$(hooks)

check installs dpkg -i old.deb
check is_not_started_before_it_is_configured is_not_started
check unit_verifies unit_verifies
check exposure_is_as_documented exposure_is_as_documented
check shipped_file_waits_for_its_device shipped_file_waits_for_its_device
check refuses_a_wrong_file refuses_a_wrong_file
configure ''
check starts starts
check measures measures_here
check has_user_and_capabilities is_the_service_user_with_three_capabilities
check sandbox_is_in_force sandbox_is_in_force
check system_calls_are_filtered system_calls_are_filtered
check journal_has_its_fields journal_has_fields
check warns_of_nothing warns_of_nothing
check verdict_reaches_the_journal verdict_reaches_the_journal
check event_log_is_written event_log_is_written
check reloads reloads
check a_wrong_file_changes_nothing a_wrong_file_changes_nothing
check a_second_link_is_added a_second_link_is_added
check a_device_made_anew_is_measured a_device_made_anew_is_measured
check shapes_within_its_sandbox shapes_within_its_sandbox
check comes_back_after_kill_9 comes_back_after_kill_9
configure ''
check watchdog_restarts_one_that_hangs watchdog_restarts_one_that_hangs
check sources_are_those_of_root sources_are_those_of_root
check gives_up_everything_if_asked gives_up_everything_if_asked
check upgrades upgrades
check stops stops
check nothing_is_attached nothing_is_attached
check purge_stops_it purge_stops_it
check nothing_is_attached_after_the_purge nothing_is_attached
outcomes
echo "PENDULUM-VM end $?"
