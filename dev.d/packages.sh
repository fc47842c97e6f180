# Debian packages: the one place that says which are needed for what, and that installs them. Sourced by ../dev.
# shellcheck shell=bash

packages_for() {
    case "$1" in
    # ca-certificates: cargo fetches crates over TLS. libclang: bindgen loads it at build time.
    build) echo ca-certificates git gcc libc6-dev linux-libc-dev libbpf-dev clang-19 libclang1-19 python3 ;;
    demo) echo iproute2 iperf3 iputils-ping ethtool procps ;;
    # tmux: the demo is tested on a terminal. strace, systemd: the agent's system calls against its unit.
    test) echo iproute2 iperf3 iputils-ping ethtool nftables procps tcpdump tshark curl bpftool tmux strace systemd ;;
    # musl-tools, llvm-19: static binaries; qemu-user-static runs those for arm64 here. mmdebstrap: the chroot of the package test.
    # buildah, libcap2-bin, crun: the container image. python3-yaml: the chart's tests. iproute2, iputils-ping, curl: a link to try binary and image on.
    # busybox-static, make, lintian: the short tests of the package. qemu-system-x86, kmod: its guests.
    package) echo dpkg-dev binutils musl-tools llvm-19 mmdebstrap qemu-user-static buildah crun libcap2-bin python3-yaml iproute2 iputils-ping curl \
        busybox-static make lintian qemu-system-x86 qemu-system-arm kmod ;;
    # The short form of the package's tests. make: OpenWrt's recipe; python3-yaml: the chart, where there is a helm.
    package-test) echo dpkg-dev binutils busybox-static make python3-yaml systemd ;;
    # The browser that looks at the live page, and letters to write it in.
    page) echo chromium fonts-dejavu-core ;;
    # Captures of simulated links, whose truth is known: `./dev ns3` only.
    ns3) echo g++ libns3-dev python3 ;;
    lint) echo clang-format-19 shellcheck ;;
    # kmod: depmod. The rest of the guest's tools come with "test" and are copied from this machine.
    vm) echo qemu-system-x86 busybox-static kmod ;;
    # arm64 guests. binutils: readelf. clang and llvm-19 build for them.
    vm-arm64) echo qemu-system-arm binutils llvm-19 ;;
    # Fetched for a guest's processor when that is another one (tests/vm/kernels.py), never installed.
    guest) echo bash iproute2 iperf3 iputils-ping ethtool nftables procps tcpdump curl bpftool util-linux busybox-static libgcc-s1 ;;
    *) die "no package list is named '$1'" 70 ;;
    esac
}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

APT_UPDATED=no

# Installs the given packages. The lists are refreshed once, since old lists name files the mirror no longer has.
install_packages() {
    [ "$(id -u)" -eq 0 ] || die "not root, and these Debian packages are missing: $*
     install them with 'sudo apt-get install --no-install-recommends $*', then run this again" 77
    export DEBIAN_FRONTEND=noninteractive
    if [ "$APT_UPDATED" = no ]; then
        say "dev: refreshing the package lists"
        apt-get update -qq >&2 </dev/null || say "dev: apt-get update failed; trying with the lists that are there"
        APT_UPDATED=yes
    fi
    say "dev: installing $*"
    local log
    log=$(mktemp)
    if ! apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" \
        >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        rm -f "$log"
        die "apt-get could not install: $*
     is this Debian 12 or newer, with its main and security suites in /etc/apt?"
    fi
    rm -f "$log"
}

# need_packages PURPOSE…: installs what is missing for them.
need_packages() {
    local purpose package
    local -a missing=()
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        say "dev: no apt here, so nothing is installed; Debian's names of what is needed for '$*':"
        for purpose in "$@"; do say "     $(packages_for "$purpose")"; done
        return 0
    fi
    for purpose in "$@"; do
        for package in $(packages_for "$purpose"); do
            is_installed "$package" || missing+=("$package")
        done
    done
    [ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
    if [ -d /usr/lib/llvm-19/lib ]; then
        export LIBCLANG_PATH="${LIBCLANG_PATH:-/usr/lib/llvm-19/lib}"
    fi
}

# Prometheus scrapes the agent in tests and in the demo; promtool and amtool check its files. Debian's packages would start
# servers here: only the programs are unpacked, into the cache.
need_prometheus() {
    local home="$CACHE/prometheus" work
    PATH="$PATH:$home"
    if { command -v prometheus && command -v promtool && command -v amtool; } >/dev/null || ! command -v apt-get >/dev/null; then
        return 0
    fi
    say "dev: unpacking prometheus, promtool and amtool into $home"
    work=$(mktemp -d)
    mkdir -p "$home"
    if (cd "$work" && apt-get download -qq -o APT::Sandbox::User= prometheus prometheus-alertmanager >&2 &&
        for package in ./*.deb; do dpkg-deb -x "$package" .; done); then
        cp "$work"/usr/bin/{prometheus,promtool,amtool} "$home/"
    else
        say "dev: they could not be fetched: the tests that need them will be skipped"
    fi
    rm -rf "$work"
}

# npm builds the live page. It may have come with another Node.js than Debian's, beside which Debian's npm cannot be installed.
need_npm() {
    command -v npm >/dev/null && return
    command -v apt-get >/dev/null || return
    (install_packages nodejs npm)
}
