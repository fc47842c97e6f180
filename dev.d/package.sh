# What is installed elsewhere: the Debian package and static binaries. Sourced by ../dev.
#
# Results go to CARGO_TARGET_DIR/package.
# shellcheck shell=bash

package_version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml"; }

# stage FILE MODE DESTINATION: one file of the package's tree.
stage() { install -D -m "$2" "$1" "$STAGE/$3"; }

stage_compressed() {
    stage "$1" 644 "$2"
    gzip -9n "$STAGE/$2"
}

# What a package contains besides the binary.
stage_files() {
    local page share=usr/share/pendulum file
    stage deploy/pendulum.toml 644 etc/pendulum/pendulum.toml
    stage deploy/systemd/pendulum.service 644 usr/lib/systemd/system/pendulum.service
    for page in docs/man/*.1; do stage_compressed "$page" "usr/share/man/man1/${page##*/}"; done
    stage deploy/completions/pendulum.bash 644 usr/share/bash-completion/completions/pendulum
    stage deploy/completions/_pendulum 644 usr/share/zsh/vendor-completions/_pendulum
    stage deploy/completions/pendulum.fish 644 usr/share/fish/vendor_completions.d/pendulum.fish
    while read -r file; do stage "$file" 644 "$share/$file"; done < <(git ls-files 'dashboards/*.json' 'dashboards/*.y*ml' ':!dashboards/tests')
    while read -r file; do stage "$file" 644 "usr/share/doc/pendulum/$file"; done < <(git ls-files 'docs/*.md')
    stage README.md 644 usr/share/doc/pendulum/README.md
    stage LICENSE-MIT 644 usr/share/doc/pendulum/LICENSE-MIT
    stage deploy/deb/copyright 644 usr/share/doc/pendulum/copyright
    stage_compressed CHANGELOG.md usr/share/doc/pendulum/changelog
}

# What the binary needs of its shared libraries, as Debian's own tool finds it.
shared_libraries() {
    local work
    work=$(mktemp -d)
    mkdir "$work/debian"
    printf 'Source: pendulum\nPackage: pendulum\nArchitecture: any\n' >"$work/debian/control"
    (cd "$work" && dpkg-shlibdeps -O "$1") | sed -n 's/^shlibs:Depends=//p'
    rm -rf "$work"
}

# package_deb [BINARY] [VERSION]: prints where the package is.
package_deb() {
    local binary=${1:-} version=${2:-$(package_version)} script architecture
    if [ -z "$binary" ]; then
        build_release -p pendulum >&2
        binary=$CARGO_TARGET_DIR/release/pendulum
    fi
    architecture=$(dpkg --print-architecture)
    STAGE=$(mktemp -d)
    stage "$binary" 755 usr/bin/pendulum
    strip --strip-debug --remove-section=.comment "$STAGE/usr/bin/pendulum"
    stage_files
    mkdir "$STAGE/DEBIAN"
    sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@DEPENDS@/$(shared_libraries "$STAGE/usr/bin/pendulum")/" \
        deploy/deb/control.in >"$STAGE/DEBIAN/control"
    install -m 644 deploy/deb/conffiles "$STAGE/DEBIAN/conffiles"
    for script in postinst prerm postrm; do install -m 755 "deploy/deb/$script" "$STAGE/DEBIAN/$script"; done
    (cd "$STAGE" && find . -type f ! -path './DEBIAN/*' ! -path './etc/*' -printf '%P\0' | sort -z | xargs -0 md5sum) >"$STAGE/DEBIAN/md5sums"
    chmod 755 "$STAGE"
    mkdir -p "$PACKAGES"
    dpkg-deb --root-owner-group --build "$STAGE" "$PACKAGES/pendulum_${version}_$architecture.deb" >&2
    rm -rf "$STAGE"
    echo "$PACKAGES/pendulum_${version}_$architecture.deb"
}

# musl's headers for another architecture: the C library's own package, unpacked into the cache.
foreign_musl() {
    local home="$CACHE/musl-arm64" state
    if [ ! -d "$home/usr/include" ]; then
        state=$(mktemp -d)
        mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$home"
        local -a apt=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache"
            -o Dir::State::status=/dev/null -o APT::Sandbox::User=root)
        if apt-get "${apt[@]}" update -qq >&2 && (cd "$state" && apt-get "${apt[@]}" download -qq musl-dev >&2); then
            dpkg-deb -x "$state"/musl-dev_*.deb "$home"
        else
            say "dev: musl-dev for arm64 could not be fetched"
        fi
        rm -rf "$state"
    fi
    echo "$home/usr/include/aarch64-linux-musl"
}

# package_static TRIPLE: one file that runs on any Linux of that architecture.
package_static() {
    local triple=$1 result
    if ! rustup target add "$triple" >&2 2>/dev/null; then
        say "dev: no static binary for $triple: its standard library comes by rustup, which is not here or cannot fetch it"
        return 1
    fi
    case "$triple" in
    x86_64-*) CC_x86_64_unknown_linux_musl=musl-gcc build_release -p pendulum --target "$triple" >&2 ;;
    aarch64-*)
        CC_aarch64_unknown_linux_musl=clang-19 AR_aarch64_unknown_linux_musl=llvm-ar-19 \
            CFLAGS_aarch64_unknown_linux_musl="--target=aarch64-linux-musl -nostdlibinc -isystem $(foreign_musl)" \
            CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld \
            CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="-C link-self-contained=yes -C linker-flavor=ld.lld" \
            build_release -p pendulum --target "$triple" >&2
        ;;
    esac
    mkdir -p "$PACKAGES"
    result="$PACKAGES/pendulum-$(package_version)-${triple%%-*}-linux"
    llvm-objcopy-19 --strip-debug "$CARGO_TARGET_DIR/$triple/release/pendulum" "$result"
    echo "$result"
}

# A small Debian of this release, made once from this machine's own package sources.
debian_tarball() {
    local release tarball
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    tarball="$CACHE/debian-$release.tar"
    if [ ! -s "$tarball" ]; then
        say "dev: making a Debian $release for the package's test"
        mkdir -p "$CACHE"
        # Either form of the lists may be absent.
        { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null || true; } |
            mmdebstrap --quiet --variant=minbase --include=adduser,libgcc-s1 "$release" "$tarball.new" - >&2 || return 1
        mv "$tarball.new" "$tarball"
    fi
    echo "$tarball"
}

# Installs, upgrades and purges the package in a chroot. A debug binary does: it is the package that is tested.
check_deb() {
    need_root "package check"
    local tarball old new
    cargo build --locked -p pendulum >&2 || return 1
    tarball=$(debian_tarball) || {
        say "dev: the chroot could not be made: the reason is above"
        return 1
    }
    old=$(package_deb "$CARGO_TARGET_DIR/debug/pendulum" 0.0.1~check1)
    new=$(package_deb "$CARGO_TARGET_DIR/debug/pendulum" 0.0.1~check2)
    local status=0
    tests/package/check.sh "$tarball" "$old" "$new" || status=$?
    rm -f "$old" "$new"
    return "$status"
}

run_package() {
    PACKAGES="$CARGO_TARGET_DIR/package"
    local what status=0
    local -a wanted=("$@")
    [ ${#wanted[@]} -gt 0 ] || wanted=(deb static)
    for what in "${wanted[@]}"; do
        case "$what" in
        deb) package_deb || status=1 ;;
        check) check_deb || status=1 ;;
        static)
            package_static x86_64-unknown-linux-musl || status=1
            package_static aarch64-unknown-linux-musl || status=1
            ;;
        *) die "there is no package '$what'; there are: deb, static, and check, which installs the deb in a chroot" 64 ;;
        esac
    done
    return "$status"
}
