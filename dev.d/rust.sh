# The Rust toolchain: the one that is there if it is new enough, else Debian's. Sourced by ../dev.
# shellcheck shell=bash

# The oldest Rust the workspace builds with, from Cargo.toml.
wanted_rust() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml"; }

# at_least HAVE WANT: dotted version numbers.
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# Prints the version of a working cargo + rustc, or nothing. A rustup proxy without a toolchain fails here.
rust_version() {
    cargo --version >/dev/null 2>&1 </dev/null || return 0
    rustc --version 2>/dev/null </dev/null | sed -n 's/^rustc \([0-9.]*\).*/\1/p'
}

candidate_version() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9][0-9.]*\).*/\1/p'; }

have_rust() {
    local have
    have=$(rust_version)
    [ -n "$have" ] && at_least "$have" "$(wanted_rust)"
}

# Debian keeps the distribution's own Rust (old on 12) beside "-web", which follows what browsers need.
install_debian_rust() {
    local want flavour
    want=$(wanted_rust)
    command -v apt-get >/dev/null || die "no Rust ≥ $want found: install it (rustup, or your distribution's package)"
    if [ "$(id -u)" -eq 0 ] && [ "$APT_UPDATED" = no ]; then
        apt-get update -qq >&2 </dev/null || true
        APT_UPDATED=yes
    fi
    for flavour in "rustc cargo rustfmt rust-clippy" "rustc-web cargo-web rustfmt-web rust-web-clippy"; do
        if at_least "$(candidate_version "${flavour%% *}" | grep . || echo 0)" "$want"; then
            # shellcheck disable=SC2086 # a list of package names
            install_packages $flavour
            return
        fi
    done
    die "no Rust ≥ $want: none on PATH or in ~/.cargo/bin, and Debian's rustc ($(candidate_version rustc)) and rustc-web \
($(candidate_version rustc-web)) are older or absent
     enable the security suite of this Debian release in /etc/apt, or install Rust with rustup, then run this again"
}

need_rust() {
    have_rust && return
    PATH="$HOME/.cargo/bin:$PATH"
    have_rust && return
    PATH="/usr/bin:$PATH"
    have_rust && return
    install_debian_rust
    hash -r
    have_rust || die "Debian's Rust was installed, yet 'rustc --version' says '$(rustc --version 2>&1 || true)'"
}

# cargo_tool NAME VERSION: prints where a tool is that cargo installs; builds it once, outside the repository.
cargo_tool() {
    local name=$1 version=$2
    local home="$CACHE/$name-$version"
    if [ ! -x "$home/bin/$name" ]; then
        say "dev: building $name $version into $home (once)"
        CARGO_TARGET_DIR="$home/build" cargo install --quiet --locked "$name" --version "$version" \
            --root "$home" --no-track >&2 </dev/null || return 1
        rm -rf "$home/build"
    fi
    printf '%s' "$home/bin/$name"
}
