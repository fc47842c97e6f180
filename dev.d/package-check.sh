# How packages are tried, and what `./dev package` tells at its end. Sourced by ../dev.
# shellcheck shell=bash

# Debian's releases that the package is tried on, and each one's own kernel (tests/vm/kernels.py), with the systemd it brings.
CHECKED_RELEASES=("bookworm 12 6.1" "trixie 13 6.12")

# What the guest's Debian has beside the base: systemd, and what the check needs.
GUEST_PACKAGES=systemd,systemd-sysv,dbus,kmod,iproute2,iputils-ping,curl,jq,bpftool,adduser,procps,libgcc-s1

# debian_tarball RELEASE KIND PACKAGES: a small Debian, made once from this machine's own mirror. Prints where it is.
debian_tarball() {
    local release=$1 kind=$2 packages=$3 tarball mirror
    tarball="$CACHE/debian-$release-$kind.tar"
    if [ ! -s "$tarball" ]; then
        say "dev: making a Debian $release for the package's test ($kind)"
        mkdir -p "$CACHE"
        mirror=$(cd tests/vm && python3 -c 'import kernels; print(kernels.mirror("debian"))') || return 1
        mmdebstrap --quiet --variant=minbase --format=tar --include="$packages" --dpkgopt='path-exclude=/usr/share/doc/*' \
            --dpkgopt='path-exclude=/usr/share/locale/*' "$release" "$tarball.new" "deb $mirror $release main" >&2 || return 1
        mv "$tarball.new" "$tarball"
    fi
    echo "$tarball"
}

# The package's life in a chroot and, with systemd and journald, in a guest, on each release. It is the release build's package if there is
# one, else the debug build's.
package_check() {
    need_root "package check"
    local binary work entry release number kernel old new tarball status=0
    binary=$CARGO_TARGET_DIR/release/pendulum
    if [ ! -x "$binary" ]; then
        cargo build --locked -p pendulum
        binary=$CARGO_TARGET_DIR/debug/pendulum
    fi
    work=$(mktemp -d)
    old=$(PACKAGES=$work make_deb "$binary" 0.0.1~check1)
    new=$(PACKAGES=$work make_deb "$binary" 0.0.1~check2)
    for entry in "${CHECKED_RELEASES[@]}"; do
        read -r release number kernel <<<"$entry"
        if tarball=$(debian_tarball "$release" base adduser,procps,libgcc-s1); then
            tests/package/check.sh "debian_$number" "$tarball" "$old" "$new" || status=1
        else
            status=1
        fi
        if [ "$(uname -m)" != x86_64 ]; then
            say "SKIPPED debian_${number}_guest: the guests are x86_64, this machine is $(uname -m)"
        elif tarball=$(debian_tarball "$release" systemd "$GUEST_PACKAGES"); then
            python3 tests/package/guest.py "debian_${number}_systemd" "$tarball" "$kernel" "$old" "$new" --logs "$CARGO_TARGET_DIR/vm/package" || status=1
        else
            status=1
        fi
    done
    rm -rf "$work"
    # The static binary for arm64 on Debian's kernels for it.
    if [ "$(uname -m)" != x86_64 ]; then
        say "SKIPPED arm64_guests: the emulated guests are started from x86_64, this machine is $(uname -m)"
    elif foreign_agent; then
        python3 tests/vm/run.py --logs "$CARGO_TARGET_DIR/vm" "${FOREIGN_AGENT[@]}" arm64 || status=1
        package_small || status=1
    else
        status=1
    fi
    return "$status"
}

PACKAGE_PARTS=(deb static small container chart check)
# Without names: check includes small.
PACKAGE_DEFAULT=(deb static container chart check)

# built FILE: says so, and keeps it for the end.
built() {
    say "dev: built ${1#"$ROOT/"}"
    [ -z "${BUILT_LIST:-}" ] || printf '%s\n' "$1" >>"$BUILT_LIST"
}

# Each part is a process of its own: what fails in one ends that one.
run_package() {
    if [ "${1:-}" = --part ]; then
        "package_$2"
        return
    fi
    local what
    local -a wanted=("$@")
    [ ${#wanted[@]} -gt 0 ] || wanted=("${PACKAGE_DEFAULT[@]}")
    for what in "${wanted[@]}"; do
        case " ${PACKAGE_PARTS[*]} " in
        *" $what "*) ;;
        *) die "there is no package '$what'; there are: deb, static, small, container, chart, and check, which tries the deb on Debian 12 and 13 and includes small" 64 ;;
        esac
    done
    # shellcheck disable=SC2153 # set in dev
    LOGS="$PACKAGES/logs"
    mkdir -p "$LOGS"
    : >"$LOGS/counts"
    export BUILT_LIST="$LOGS/built"
    : >"$BUILT_LIST"
    : >"$LOGS/seconds"
    for what in "${wanted[@]}"; do
        SECONDS=0
        run_logged "$what" "$ROOT/dev" package --part "$what"
        echo "$what $SECONDS" >>"$LOGS/seconds"
    done
    python3 tests/package/summary.py "$LOGS" "$PACKAGES"
    end_count
}
