# What is installed elsewhere: the Debian package, static binaries, container images, the Helm chart. Sourced by ../dev.
#
# Results go to CARGO_TARGET_DIR/package. How they are tried, and what is told at the end, is in package-check.sh.
# shellcheck shell=bash

# The processors that static binaries are built for; the first is tried on this machine, the other under qemu-user and, by `./dev vm arm64`, in
# guests.
STATIC_TRIPLES=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl)

package_version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml"; }

# stage FILE MODE DESTINATION: one file of the package's tree.
stage() { install -D -m "$2" "$1" "$STAGE/$3"; }

stage_compressed() {
    stage "$1" 644 "$2"
    gzip -9n "$STAGE/$2"
}

# stage_files VERSION: what a package contains besides the binary.
stage_files() {
    local page share=usr/share/pendulum file
    stage deploy/pendulum.toml 644 etc/pendulum/pendulum.toml
    stage deploy/systemd/pendulum.service 644 usr/lib/systemd/system/pendulum.service
    for page in docs/reference/man/*.1; do stage_compressed "$page" "usr/share/man/man1/${page##*/}"; done
    stage deploy/completions/pendulum.bash 644 usr/share/bash-completion/completions/pendulum
    stage deploy/completions/_pendulum 644 usr/share/zsh/vendor-completions/_pendulum
    stage deploy/completions/pendulum.fish 644 usr/share/fish/vendor_completions.d/pendulum.fish
    while read -r file; do stage "$file" 644 "$share/$file"; done < <(git ls-files 'dashboards/*.json' 'dashboards/*.y*ml' ':!dashboards/tests')
    stage dashboards/configure.py 644 "$share/dashboards/configure.py"
    while read -r file; do stage "$file" 644 "usr/share/doc/pendulum/$file"; done < <(git ls-files 'docs/*.md')
    stage README.md 644 usr/share/doc/pendulum/README.md
    stage LICENSE-MIT 644 usr/share/doc/pendulum/LICENSE-MIT
    stage deploy/deb/copyright 644 usr/share/doc/pendulum/copyright
    stage CHANGELOG.md 644 usr/share/doc/pendulum/CHANGELOG.md
    # Debian's form of it.
    printf 'pendulum (%s) unstable; urgency=medium\n\n  * What changed is in CHANGELOG.md.\n\n -- %s  %s\n' "$1" \
        "$(sed -n 's/^Maintainer: //p' deploy/deb/control.in)" "$(git log -1 --format=%cD)" >"$STAGE/changelog"
    stage_compressed "$STAGE/changelog" usr/share/doc/pendulum/changelog
    rm "$STAGE/changelog"
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

# make_deb BINARY VERSION: prints where the package is.
make_deb() {
    local binary=$1 version=$2 script architecture
    architecture=$(dpkg --print-architecture)
    STAGE=$(mktemp -d)
    stage "$binary" 755 usr/bin/pendulum
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "$STAGE/usr/bin/pendulum"
    stage_files "$version"
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

package_deb() {
    build_release -p pendulum
    built "$(make_deb "$CARGO_TARGET_DIR/release/pendulum" "$(package_version)")"
    python3 -m unittest discover --verbose --start-directory tests/package --pattern 'deb_test.py'
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

# musl_toolchain TRIPLE: whether cargo can build for it here; what it needs for that is in the environment then.
musl_toolchain() {
    local triple=$1
    if ! rustup target add "$triple" >&2 2>/dev/null; then
        say "dev: nothing can be built for $triple: its standard library comes by rustup, which is not here or cannot fetch it"
        return 1
    fi
    case "$triple" in
    x86_64-*) export CC_x86_64_unknown_linux_musl=musl-gcc ;;
    aarch64-*)
        export CC_aarch64_unknown_linux_musl=clang-19 AR_aarch64_unknown_linux_musl=llvm-ar-19
        CFLAGS_aarch64_unknown_linux_musl="--target=aarch64-linux-musl -nostdlibinc -isystem $(foreign_musl)"
        export CFLAGS_aarch64_unknown_linux_musl
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="-C link-self-contained=yes -C linker-flavor=ld.lld"
        ;;
    esac
}

# make_static TRIPLE: one file that runs on any Linux of that architecture.
make_static() {
    local triple=$1
    musl_toolchain "$triple" || return 1
    build_release -p pendulum --target "$triple" >&2
    mkdir -p "$PACKAGES"
    llvm-objcopy-19 --strip-debug "$CARGO_TARGET_DIR/$triple/release/pendulum" "$(static_binary "$triple")"
}

SMALL_FLAGS="-C force-unwind-tables=no -C link-arg=--icf=all"

# The build for routers with little room, and whether a small guest is enough for it.
package_small() {
    local triple=aarch64-unknown-linux-musl binary
    binary="$PACKAGES/pendulum-$(package_version)-aarch64-small"
    need_packages vm vm-arm64
    musl_toolchain "$triple" || return 1
    # A panic aborts and needs no tables for unwinding; those of the standard library stay. icf: equal functions are one. The BPF objects go without DWARF.
    export PENDULUM_LLVM_STRIP=llvm-strip-19
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="$CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS $SMALL_FLAGS"
    cargo build --profile small --no-default-features --locked -p pendulum --target "$triple" || return 1
    install -D -m 755 "$CARGO_TARGET_DIR/$triple/small/pendulum" "$binary"
    built "$binary"
    python3 tests/package/small.py "$binary" --logs "$CARGO_TARGET_DIR/vm/package"
}

# Where the static binary for TRIPLE is put.
static_binary() { echo "$PACKAGES/pendulum-$(package_version)-${1%%-*}-linux"; }

# each_architecture MAKE FILE TRY: what MAKE makes of each triple and FILE names, tried by the script TRY. One that cannot be made does not
# keep the others from being made.
each_architecture() {
    local make=$1 file=$2 try=$3 triple status=0
    local -a made=()
    for triple in "${STATIC_TRIPLES[@]}"; do
        if ("$make" "$triple"); then
            built "$("$file" "$triple")"
            made+=("$("$file" "$triple")")
        else
            status=1
        fi
    done
    [ ${#made[@]} -eq 0 ] || "$try" "${made[@]}" || status=1
    return "$status"
}

# All static binaries, and whether they are what they should be.
package_static() { each_architecture make_static static_binary tests/package/static.sh; }

# make_image TRIPLE: the static binary as a container image, an OCI archive.
make_image() {
    local triple=$1 architecture context status=0 file
    local -a files=(deploy/pendulum.toml LICENSE LICENSE-MIT LICENSE-APACHE LICENSE-GPL-2.0)
    architecture=$(sed 's/x86_64/amd64/; s/aarch64/arm64/' <<<"${triple%%-*}")
    # What is built already costs nothing again, and is never out of date.
    make_static "$triple" || return 1
    context=$(mktemp -d)
    for file in "${files[@]}"; do install -m 644 "$file" "$context/"; done
    install -m 755 "$(static_binary "$triple")" "$context/pendulum"
    rm -f "$(image_file "$triple")"
    # Permitted, not effective: agent/src/run/privileges.rs takes them into use.
    setcap cap_bpf,cap_perfmon,cap_net_admin+p "$context/pendulum" &&
        buildah --root "$context.store" --runroot "$context.run" --storage-driver vfs build --isolation chroot --network host \
            --arch "$architecture" --build-arg "VERSION=$(package_version)" --quiet --timestamp 0 \
            --file deploy/container/Containerfile --tag "oci-archive:$(image_file "$triple"):pendulum:$(package_version)" "$context" >&2 || status=1
    rm -rf "$context" "$context.store" "$context.run"
    return "$status"
}

# Where the image for TRIPLE is put.
image_file() { echo "$PACKAGES/pendulum-$(package_version)-${1%%-*}.oci.tar"; }

package_container() {
    need_root "package container"
    each_architecture make_image image_file tests/package/container.sh
}

# helm is not in Debian. One that is here serves; else it is built, once, where there is a Go.
need_helm() {
    local home="$CACHE/helm" go version
    PATH="$PATH:$home"
    command -v helm >/dev/null && return
    command -v go >/dev/null || { command -v apt-get >/dev/null && (install_packages golang-go); } || return 1
    go=$(GOTOOLCHAIN=local go env GOVERSION)
    # The newest that Debian 12's Go 1.19 builds, else the newest that was tried.
    version=v3.11.3
    ! at_least "${go#go}" 1.24 || version=v3.19.0
    say "dev: building helm $version into $home (once)"
    GOTOOLCHAIN=local GOBIN="$home" GOFLAGS=-mod=mod go install "helm.sh/helm/v3/cmd/helm@$version" >&2 </dev/null
}

# The chart as helm packages it. Without helm it is built all the same, and its tests say that they were skipped.
package_chart() {
    local result
    need_helm || say "dev: no helm here and none could be built: the chart is packed and not tested"
    result="$PACKAGES/pendulum-chart-$(package_version).tgz"
    mkdir -p "$PACKAGES"
    git ls-files deploy/kubernetes/pendulum | tar -czhf "$result" --transform 's,^deploy/kubernetes/,,' --owner 0 --group 0 --files-from -
    built "$result"
    python3 -m unittest discover --verbose --start-directory tests/package --pattern 'chart_test.py'
}
