#!/usr/bin/env bash
# check.sh ROOT.tar OLD.deb NEW.deb: install, upgrade and purge the package in a Debian of its own, a chroot that goes with the test. Prints
# what libtest prints.
set -euo pipefail

tarball=$1 old=$2 new=$3
passed=0 failed=0
chroot=$(mktemp -d)
trap 'rm -rf --one-file-system "$chroot"' EXIT
tar -xf "$tarball" -C "$chroot" --exclude='./dev/*'
# maintainer scripts redirect to it.
[ -e "$chroot/dev/null" ] || mknod -m 666 "$chroot/dev/null" c 1 3
cp "$old" "$chroot/old.deb"
cp "$new" "$chroot/new.deb"

inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$chroot" "$@"; }

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
    done < <(sed -n 's,^Exec[A-Za-z]*=\(/usr/bin/pendulum\) .*,\1,p' "$chroot/usr/lib/systemd/system/pendulum.service")
}
is_documented() { inside test -s /usr/share/man/man1/pendulum-run.1.gz && inside test -s /usr/share/bash-completion/completions/pendulum; }
keeps_edit() { inside grep -q '^wan = "wan7"$' /etc/pendulum/pendulum.toml; }
is_newer() { [ "$(version)" != "$first" ]; }
nothing_left() { diff <(echo "$before") <(files | grep -v -e '^\./etc/\(passwd\|group\|shadow\|gshadow\|subuid\|subgid\)-\?$'); }

before=$(files | grep -v -e '^\./etc/\(passwd\|group\|shadow\|gshadow\|subuid\|subgid\)-\?$')

expect installs inside dpkg -i /old.deb
first=$(version)
expect binary_runs inside pendulum --version
expect unit_names_programs_that_are_there unit_programs_exist
expect shipped_config_is_accepted inside pendulum check-config /etc/pendulum/pendulum.toml
expect config_is_a_conffile lists_conffile
expect service_user_exists has_user
expect service_waits_for_a_configuration stays_stopped
expect man_pages_and_completions_are_there is_documented
expect files_are_as_packaged inside dpkg --verify pendulum

sed -i 's/^wan = .*/wan = "wan7"/' "$chroot/etc/pendulum/pendulum.toml"
expect upgrades inside dpkg -i --force-confold /new.deb
expect is_the_new_version is_newer
expect edited_config_survives_the_upgrade keeps_edit
expect removes inside dpkg -r pendulum
expect edited_config_survives_the_removal keeps_edit
mkdir -p "$chroot/var/lib/pendulum"
echo '{}' >"$chroot/var/lib/pendulum/events.jsonl"
expect purges inside dpkg -P pendulum
expect nothing_is_left_behind nothing_left

echo
[ "$failed" -eq 0 ] && result=ok || result=FAILED
echo "test result: $result. $passed passed; $failed failed; 0 ignored; 0 measured; 0 filtered out; finished in ${SECONDS}.00s"
[ "$failed" -eq 0 ]
