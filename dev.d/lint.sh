# Everything a machine can say about the sources. Sourced by ../dev.
# shellcheck shell=bash

# cargo-deny 0.20.2 builds with Rust 1.88, the oldest the workspace supports.
CARGO_DENY_VERSION=0.20.2
LINT_FAILURES=()

# Prints where cargo-deny is.
cargo_deny() { cargo_tool cargo-deny "$CARGO_DENY_VERSION"; }

# check NAME COMMAND…: runs it, and remembers its failure so that one run shows every complaint.
check() {
    local name=$1
    shift
    say "dev: lint: $name"
    "$@" || LINT_FAILURES+=("$name")
}

lint_c() {
    local -a sources
    mapfile -t sources < <(git ls-files 'bpf/*.c' 'bpf/*.h')
    [ ${#sources[@]} -eq 0 ] || clang-format-19 --dry-run -Werror --ferror-limit=5 "${sources[@]}"
}

lint_shell() {
    local -a scripts
    mapfile -t scripts < <(git ls-files | while read -r file; do
        if [[ $file == *.sh || $file == *.init ]] || { [ -f "$file" ] && head -n 1 "$file" | grep -qaE '^#!.*\b(bash|sh)$'; }; then echo "$file"; fi
    done)
    shellcheck -x "${scripts[@]}"
}

lint_dependencies() {
    local deny
    deny=$(cargo_deny) || {
        say "dev: cargo-deny could not be built: the reason is above"
        return 1
    }
    "$deny" --locked check --hide-inclusion-graph licenses bans sources || return 1
    # The database lives in a public git repository; only a copy that is already here is used.
    if compgen -G "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs/*" >/dev/null; then
        "$deny" --locked --offline check --disable-fetch advisories
    else
        say "dev: lint: security advisories were NOT checked: this machine has no copy of the advisory database;"
        say "     where it can be reached, 'cargo-deny fetch db' brings one, and this check then uses it"
    fi
}

# The sources name packages, never the hosts they are fetched from: those are the machine's own setting.
# Cargo.lock is left out: cargo writes the name of its default index there.
lint_addresses() {
    local hosts='crates[.]io|npmjs[.](org|com)|pypi[.]org|pythonhosted[.]org|proxy[.]golang[.]org|maven[.]org'
    hosts+='|(deb|security|snapshot|archive)[.]debian[.]org|archive[.]ubuntu[.]com'
    if git grep -nIE "$hosts" -- . ':!*Cargo.lock'; then
        say "dev: the lines above name a package registry's host: write the package's name instead"
        return 1
    fi
}

lint_python() {
    git ls-files '*.py' | xargs -r python3 -c '
import ast, sys
for name in sys.argv[1:]:
    ast.parse(open(name, encoding="utf-8").read(), name)'
}

# Links from one comment to another lead somewhere; those to private items are for readers of the sources.
lint_rustdoc() {
    RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
        cargo doc --quiet --workspace --no-deps --document-private-items --locked
}

run_lint() {
    need_packages build lint
    need_rust
    if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
        die "rustfmt or clippy is missing from this Rust toolchain: 'rustup component add rustfmt clippy', or Debian's packages"
    fi
    check "rustfmt" cargo fmt --all --check
    check "clang-format" lint_c
    check "shellcheck" lint_shell
    check "python syntax" lint_python
    check "links between documents" python3 tests/runner/links.py
    check "names in documents" python3 tests/runner/named.py
    check "circles of modules" python3 tests/runner/modules.py
    check "words and sentences" python3 tests/runner/prose.py
    check "no registry addresses" lint_addresses
    check "dependencies (licences, bans, sources)" lint_dependencies
    check "clippy" cargo clippy --workspace --all-targets --locked -- -D warnings
    # Alone: in the workspace, features that only tests ask for are on.
    check "the agent's library by itself" cargo check --quiet --package pendulum --lib --locked
    check "the agent without its default features" cargo check --quiet --package pendulum --no-default-features --locked
    check "rustdoc" lint_rustdoc
    if [ ${#LINT_FAILURES[@]} -gt 0 ]; then
        printf 'dev: lint failed: %s\n' "${LINT_FAILURES[@]}" >&2
        exit 1
    fi
    say "dev: lint found nothing"
}
