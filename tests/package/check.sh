#!/usr/bin/env bash
# check.sh NAME ROOT.tar OLD.deb NEW.deb: install, upgrade and purge the package in a Debian of its own, a chroot that goes with the test. NAME
# is what its lines are called. Prints what libtest prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

at=$1 tarball=$2 old=$3 new=$4
# shellcheck source=tests/package/outcomes.sh
. tests/package/outcomes.sh
chroot=$(mktemp -d) work=$(mktemp -d)
trap 'rm -rf --one-file-system "$chroot" "$work"' EXIT
tar -xf "$tarball" -C "$chroot" --exclude='./dev/*'
# maintainer scripts redirect to it.
[ -e "$chroot/dev/null" ] || mknod -m 666 "$chroot/dev/null" c 1 3
cp "$old" "$chroot/old.deb"
cp "$new" "$chroot/new.deb"

inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$chroot" "$@"; }

# /run: adduser's own lock file.
files() { (cd "$chroot" && find . -xdev -path ./proc -prune -o -path ./run -prune -o -path ./var/lib/dpkg -prune -o -path ./var/log -prune -o -path ./var/cache -prune -o -print | sort); }
# shellcheck disable=SC2016 # dpkg-query expands it
version() { inside dpkg-query -W -f '${Version}' pendulum; }
has_user() { inside getent passwd pendulum | grep -q ':/usr/sbin/nologin$'; }
stays_stopped() { ! inside test -e /etc/systemd/system/multi-user.target.wants/pendulum.service; }
# shellcheck disable=SC2016 # dpkg-query expands it
lists_conffile() { inside dpkg-query -W -f '${Conffiles}' pendulum | grep -q ' /etc/pendulum/pendulum.toml '; }
unit_programs_exist() {
    local program
    while read -r program; do
        inside test -x "$program" || return 1
    done < <(sed -n 's,^Exec[A-Za-z]*=\(/[^ ]*\).*,\1,p' "$chroot/usr/lib/systemd/system/pendulum.service")
}
is_documented() { inside test -s /usr/share/man/man1/pendulum-run.1.gz && inside test -s /usr/share/bash-completion/completions/pendulum; }
# The same figures from the same capture as on this machine.
replays() {
    cp tests/data/two-way.pcap.zst "$chroot/root/" && inside pendulum replay --wan /root/two-way.pcap.zst --format json >"$work/there" &&
        rm "$chroot/root/two-way.pcap.zst" && dpkg-deb --fsys-tarfile "$new" | tar -xO ./usr/bin/pendulum >"$work/pendulum" && chmod 755 "$work/pendulum" &&
        "$work/pendulum" replay --wan tests/data/two-way.pcap.zst --format json | diff - "$work/there"
}
doctor_looks() {
    local status=0
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare --mount sh -c 'mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && exec chroot "$1" pendulum doctor --listen 127.0.0.1:0' sh "$chroot" || status=$?
    # 2: it cannot run.
    [ "$status" -lt 2 ]
}
keeps_edit() { inside grep -q '^wan = "wan7"$' /etc/pendulum/pendulum.toml; }
is_newer() { [ "$(version)" != "$first" ]; }
nothing_left() { diff <(echo "$before") <(files | grep -v -e '^\./etc/\(passwd\|group\|shadow\|gshadow\|subuid\|subgid\)-\?$'); }

before=$(files | grep -v -e '^\./etc/\(passwd\|group\|shadow\|gshadow\|subuid\|subgid\)-\?$')

check() { expect "${at}_$1" "${@:2}"; }

check installs inside dpkg -i /old.deb
first=$(version)
check binary_runs inside pendulum --version
check unit_names_programs_that_are_there unit_programs_exist
check shipped_config_is_accepted inside pendulum check-config /etc/pendulum/pendulum.toml
check config_is_a_conffile lists_conffile
check service_user_exists has_user
check service_waits_for_a_configuration stays_stopped
check man_pages_and_completions_are_there is_documented
check replays replays
check doctor_looks_at_the_kernel doctor_looks
check files_are_as_packaged inside dpkg --verify pendulum

sed -i 's/^wan = .*/wan = "wan7"/' "$chroot/etc/pendulum/pendulum.toml"
check upgrades inside dpkg -i --force-confold /new.deb
check is_the_new_version is_newer
check edited_config_survives_the_upgrade keeps_edit
check removes inside dpkg -r pendulum
check edited_config_survives_the_removal keeps_edit
mkdir -p "$chroot/var/lib/pendulum"
echo '{}' >"$chroot/var/lib/pendulum/events.jsonl"
check purges inside dpkg -P pendulum
check nothing_is_left_behind nothing_left

echo
outcomes
