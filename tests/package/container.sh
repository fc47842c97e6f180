#!/usr/bin/env bash
# container.sh IMAGE.oci.tar…: are the images what they are meant to be, and does the one for this machine measure, as nobody with three
# capabilities? Needs root and buildah, whose chroot isolation needs no container engine. Prints what libtest prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/package/outcomes.sh
. tests/package/outcomes.sh

work=$(mktemp -d)
store=(buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs)
trap '"${store[@]}" rm -a >/dev/null 2>&1; "${store[@]}" rmi -a -f >/dev/null 2>&1; rm -rf "$work"' EXIT

# The default profile of this machine's container tools, with bpf(2) for who has CAP_BPF; Debian 12's wants CAP_SYS_ADMIN. README.md has the same.
profile_with_bpf() {
    python3 -c '
import json, sys
profile = json.load(open("/usr/share/containers/seccomp.json"))
for rule in profile["syscalls"]:
    rule["names"] = [name for name in rule["names"] if name != "bpf"]
profile["syscalls"].append({"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_BPF"]}})
json.dump(profile, sys.stdout)'
}
profile_with_bpf >"$work/seccomp.json"

three=(--cap-add CAP_BPF --cap-add CAP_PERFMON --cap-add CAP_NET_ADMIN)

inside() { "${store[@]}" run --isolation chroot "$@"; }
has_one_program() { [ "$(find "$root" -type f -perm /111 -printf '/%P\n')" = /usr/bin/pendulum ]; }
is_nobody() { "${store[@]}" inspect --type container --format '{{.OCIv1.Config.User}}' "$container" | grep -qx 65534:65534; }
has_labels() { "${store[@]}" inspect --type container --format '{{.OCIv1.Config.Labels}}' "$container" | grep -q 'image.title:pendulum'; }
is_permitted_only() { getcap "$root/usr/bin/pendulum" | grep -q 'cap_net_admin,cap_perfmon,cap_bpf=p$'; }
starts_without_capabilities() { inside "$container" -- /usr/bin/pendulum --version; }
takes_its_configuration() { inside "$container" -- /usr/bin/pendulum check-config /etc/pendulum/pendulum.toml; }
refuses_without_capabilities() {
    local status=0
    inside "$container" -- /usr/bin/pendulum run --wan wan0 >"$work/refusal" 2>&1 || status=$?
    [ "$status" -ne 0 ] && grep -q 'this process lacks CAP_BPF' "$work/refusal"
}

# The agent inside, a grandchild of buildah's: its process in the test's network namespace.
agent_pid() {
    local process
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/ns/net" 2>/dev/null)" = "$(stat -Lc 'net:[%i]' "/run/netns/$gateway")" ] &&
            [ "$(tr '\0' ' ' <"$process/cmdline" 2>/dev/null)" = "/usr/bin/pendulum run --wan wan0 " ] &&
            echo "${process#/proc/}" && return
    done
    return 1
}

# measures_as UID COMMAND…: what the command starts in the gateway's namespace measures there, as that user, with three capabilities.
measures_as() {
    local status=0 pid='' uid=$1 _
    shift
    start_link || status=1
    if [ "$status" -eq 0 ]; then
        # Not by a function: that would be a shell in between. Not to expect's pipe: it would wait for the end.
        nsenter --net="/run/netns/$gateway" "$@" >"$work/log" 2>&1 &
        local starter=$!
        for _ in $(seq 100); do
            pid=$(agent_pid) && break
            kill -0 "$starter" 2>/dev/null || break
            sleep 0.1
        done
        if [ -n "$pid" ] && measures "$pid"; then
            grep -E '^(Uid|CapEff|CapPrm)' "/proc/$pid/status"
            grep -q "^Uid:.$uid" "/proc/$pid/status" && grep -q '^CapEff:.000000c000001000$' "/proc/$pid/status" || status=1
        else
            status=1
        fi
        [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
        wait "$starter" || status=1
        [ "$status" -eq 0 ] || cat "$work/log"
    fi
    end_link
    return "$status"
}

measures_as_nobody() {
    measures_as 65534 "${store[@]}" run --isolation chroot "${three[@]}" "$container" -- /usr/bin/pendulum run --wan wan0
}

# bundle UID NO_NEW_PRIVILEGES: what an OCI runtime is given: the image's files read-only, the three capabilities, namespaces of its own but the
# network's, as with --network host.
bundle() {
    rm -rf "$work/bundle"
    mkdir "$work/bundle"
    (cd "$work/bundle" && crun spec) && python3 - "$work/bundle/config.json" "$root" "$@" <<'PYTHON'
import json, sys

path, root, uid, no_new_privileges = sys.argv[1:]
config = json.load(open(path))
three = ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"]
config["root"] = {"path": root, "readonly": True}
config["process"] |= {
    "terminal": False, "user": {"uid": int(uid), "gid": int(uid)}, "args": ["/usr/bin/pendulum", "run", "--wan", "wan0"],
    "noNewPrivileges": no_new_privileges == "yes", "capabilities": {"bounding": three, "permitted": three, "effective": three},
}
config["linux"]["namespaces"] = [space for space in config["linux"]["namespaces"] if space["type"] not in ("network", "cgroup")]
json.dump(config, open(path, "w"))
PYTHON
}

# An OCI runtime as podman, CRI-O and containerd call it, without a cgroup of its own: not every machine that tests lets one be made.
measures_under_crun() {
    bundle "$@" || return 1
    # crun wants the unified hierarchy; some machines have the old one there.
    # shellcheck disable=SC2016 # the inner shell expands it
    measures_as "$1" unshare --mount sh -c 'umount -l /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup
        exec crun --root "$1/crun" --cgroup-manager=disabled run --bundle "$1/bundle" "pendulum-$$"' sh "$work"
}

# open_image FILE: a container of it, and where its files are.
open_image() {
    container=$("${store[@]}" from --pull-never --security-opt "seccomp=$work/seccomp.json" "oci-archive:$1") && root=$("${store[@]}" mount "$container")
}
is_for() {
    [ "$("${store[@]}" inspect --type container --format '{{.OCIv1.Architecture}}' "$container")" = "$1" ] && readelf -hW "$root/usr/bin/pendulum" | grep -q "Machine:.*$2"
}

for image in "$@"; do
    processor=${image%.oci.tar}
    processor=${processor##*-}
    if ! open_image "$image"; then
        expect "image_${processor}_opens" false
        continue
    fi
    case "$processor" in
    x86_64) expect "image_${processor}_is_for_it" is_for amd64 X86-64 ;;
    aarch64) expect "image_${processor}_is_for_it" is_for arm64 AArch64 ;;
    esac
    expect "image_${processor}_holds_one_program" has_one_program
    expect "image_${processor}_runs_as_nobody" is_nobody
    expect "image_${processor}_is_labelled" has_labels
    expect "image_${processor}_capabilities_are_permitted_only" is_permitted_only
    if [ "$processor" != "$(uname -m)" ]; then
        skip "image_${processor}_measures" "it is for another processor, and qemu-user has no bpf(2)"
        continue
    fi
    expect "image_${processor}_starts_without_capabilities" starts_without_capabilities
    expect "image_${processor}_takes_its_configuration" takes_its_configuration
    expect "image_${processor}_says_what_it_lacks" refuses_without_capabilities
    expect "image_${processor}_measures_as_nobody" measures_as_nobody
    if command -v crun >/dev/null; then
        expect "image_${processor}_measures_as_nobody_under_crun" measures_under_crun 65534 no
        # The chart's securityContext.
        expect "image_${processor}_measures_without_new_privileges_under_crun" measures_under_crun 0 yes
    else
        skip "image_${processor}_measures_under_crun" "crun is not installed"
    fi
done
outcomes
