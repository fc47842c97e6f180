"""Debian kernels for the guests: which there are, how they are fetched, where they are kept; and the programs of guests with
another processor.

The packages come from the mirror this machine's apt already uses, through an apt state directory of our own: neither the
machine's sources nor its package lists are touched, and no root is needed.
"""

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import machines

LISTS_MAX_AGE_S = 24 * 3600
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

# (path after the mirror's base, suite): where the packages below are published. Backports come last in apt's choice of a version.
SUITES = [("debian-security", "bookworm-security"), ("debian", "bookworm"), ("debian", "trixie-backports")]

# Name for `./dev vm NAME`, and the packages: of the first pattern that finds any, the newest version; `{0}` is what its
# group matched. Backports move on to the next release: better that one than none.
CATALOGUE = {
    "6.1": ([r"linux-image-(6\.1\.0-\d+-cloud-amd64)"], []),
    "6.12": ([r"linux-image-(6\.12\.\d+\+deb12-cloud-amd64)"], []),
    "7.2": ([r"linux-binary-(7\.2\.\d+\+deb13-cloud-amd64)", r"linux-binary-(7\.\d+\.\d+\+deb13-cloud-amd64)"], ["linux-modules-{0}"]),
    "6.12-arm64": ([r"linux-image-(6\.12\.\d+\+deb12-cloud-arm64)"], []),
    "7.2-arm64": ([r"linux-binary-(7\.2\.\d+\+deb13-cloud-arm64)", r"linux-binary-(7\.\d+\.\d+\+deb13-cloud-arm64)"], ["linux-modules-{0}"]),
}


class KernelError(Exception):
    """A kernel cannot be had here; the text says why and what to do."""


@dataclass
class Kernel:
    """An unpacked kernel: the name in the catalogue, its release (`uname -r`), and its files."""

    name: str
    release: str
    image: Path
    modules: Path

    @property
    def machine(self):
        return machine(self.name)

    @property
    def version(self):
        """The release without the flavour: 6.12.117+deb12, 6.12.117+deb12-arm64."""
        return self.release.removesuffix("-amd64").replace("-cloud", "")


def machine(name):
    """The machine that a kernel of the catalogue is for."""
    _, _, processor = name.partition("-")
    return machines.MACHINES[processor or "amd64"]


def cache_directory():
    """Where kernels are kept between runs, outside the repository."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pendulum" / "kernels"


def select(wanted):
    """The catalogue's names for those a person asked for, a machine's name for all that it has; those of amd64 if none."""
    names = []
    for name in wanted or ["amd64"]:
        if name not in [*CATALOGUE, *machines.MACHINES]:
            raise KernelError(f"no kernel is called '{name}'; there are {', '.join([*CATALOGUE, *machines.MACHINES])}")
        names += [name] if name in CATALOGUE else [each for each in CATALOGUE if machine(each).debian == name]
    return names


def newest(names, patterns):
    """The match with the highest version, of the first pattern that matches any of `names`; or None."""
    for pattern in patterns:
        matches = [match for match in (re.fullmatch(pattern, name) for name in names) if match]
        if matches:
            return max(matches, key=lambda match: [int(n) for n in re.findall(r"\d+", match[1])])
    return None


def releases(name):
    """The catalogue's patterns for that name, without the package's prefix: they match directories of the cache."""
    patterns, _ = CATALOGUE[name]
    return [pattern[pattern.index("(") :] for pattern in patterns]


class Apt:
    """apt with sources, lists and cache of its own, for one architecture. To it, nothing is installed."""

    def __init__(self, directory, architecture):
        self.directory = directory
        self.architecture = architecture
        self.options = [
            "-q",
            f"-oDir::State={directory}/state",
            f"-oDir::State::status={directory}/status",
            f"-oDir::Cache={directory}/cache",
            f"-oDir::Etc::sourcelist={directory}/sources.list",
            "-oDir::Etc::sourceparts=/dev/null",
            "-oDir::Etc::preferencesparts=/dev/null",
            # The unprivileged user _apt may not enter a home directory.
            "-oAPT::Sandbox::User=",
            f"-oAPT::Architecture={architecture}",
            f"-oAPT::Architectures={architecture}",
            "-oAcquire::Languages=none",
            "-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
            "-oDebug::NoLocking=1",
        ]

    def run(self, tool, *arguments, cwd=None):
        command = [tool, *self.options, *arguments]
        done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KernelError(f"{tool} {arguments[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def refresh(self):
        """Fetches the package lists if they are missing or a day old."""
        stamp = self.directory / "updated"
        if stamp.exists() and time.time() - stamp.stat().st_mtime < LISTS_MAX_AGE_S:
            return
        for name in ("state/lists/partial", "cache/archives/partial"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        (self.directory / "status").touch()
        signed = f" signed-by={KEYRING}" if KEYRING.exists() else ""
        lines = [f"deb [arch={self.architecture}{signed}] {mirror(part)} {suite} main\n" for part, suite in SUITES]
        (self.directory / "sources.list").write_text("".join(lines), encoding="utf-8")
        self.run("apt-get", "update", "-oAPT::Update::Error-Mode=any")
        stamp.touch()

    def package_names(self):
        """All package names in the lists that are here."""
        return self.run("apt-cache", "pkgnames", "linux-").split()

    def unpack(self, packages, directory):
        """Downloads packages and unpacks them into `directory`."""
        self.run("apt-get", "download", *packages, cwd=directory)
        for archive in sorted(directory.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", archive, directory], check=True)
            archive.unlink()

    def unpack_with_dependencies(self, packages, directory):
        """Unpacks packages and all they depend on into `directory`, whose /bin, /lib and /sbin are links into /usr. Runs nothing of theirs."""
        self.run("apt-get", "install", "--download-only", "--yes", "--no-install-recommends", *packages)
        for name in ("bin", "lib", "sbin"):
            (directory / "usr" / name).mkdir(parents=True)
            (directory / name).symlink_to(f"usr/{name}")
        for archive in sorted((self.directory / "cache/archives").glob("*.deb")):
            # dpkg-deb by itself would put directories in the place of the links.
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as files:
                subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", directory], stdin=files.stdout, check=True)
            archive.unlink()


def mirror(part):
    """The address of the Debian archive `part` ("debian", "debian-security"), from this machine's own apt settings."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(LABEL)", "Created-By: Packages", "Origin: Debian"],
        capture_output=True, text=True, check=False,
    ).stdout.splitlines()  # fmt: skip
    bases = dict(reversed([target.rsplit(" ", 1)[::-1] for target in targets]))
    if part == "debian-security" and "Debian-Security" in bases:
        return bases["Debian-Security"]
    if "Debian" not in bases:
        raise KernelError("no Debian mirror is set in /etc/apt, or its lists were never fetched: run 'apt-get update'")
    # Mirrors carry the security archive beside the main one.
    return bases["Debian"] if part == "debian" else bases["Debian"].rstrip("/") + "-security/"


def apt(architecture):
    """The apt for packages of an architecture, its lists not older than a day."""
    # What was made for the first of them keeps its place.
    made = Apt(cache_directory().parent / ("apt" if architecture == "amd64" else f"apt-{architecture}"), architecture)
    made.refresh()
    return made


def foreign_tools(machine, packages, report):
    """Where the programs of `packages` for another processor are, unpacked once. Another list of packages is unpacked anew."""
    home = cache_directory().parent / f"tools-{machine.debian}"
    listing = home / "packages"
    if listing.is_file() and listing.read_text(encoding="utf-8").split() == packages:
        return home
    report(f"fetching the programs of {machine.debian} guests")
    partial = home.with_name(f".{home.name}.{os.getpid()}")
    try:
        apt(machine.debian).unpack_with_dependencies(packages, partial)
        (partial / "packages").write_text("\n".join(packages) + "\n", encoding="utf-8")
        shutil.rmtree(home, ignore_errors=True)
        partial.rename(home)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return home


def unpacked(name, directory):
    """The kernel in `directory`, if it is whole."""
    for modules in [*directory.glob("lib/modules/*"), *directory.glob("usr/lib/modules/*")]:
        # Newer packages keep the image beside its modules.
        for image in (directory / "boot" / f"vmlinuz-{modules.name}", modules / "vmlinuz"):
            if image.is_file():
                return Kernel(name, modules.name, image, modules)
    return None


def cached(name):
    """The newest kernel of that name in the cache, or None."""
    match = newest([path.name for path in cache_directory().glob("*")], releases(name))
    return unpacked(name, cache_directory() / match[1]) if match else None


def fetch(name, report):
    """The newest kernel of that name, downloaded if it is not in the cache; without a mirror, what the cache has."""
    patterns, more = CATALOGUE[name]
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    try:
        source = apt(machine(name).debian)
        match = newest(source.package_names(), patterns)
        if match is None:
            raise KernelError(f"Debian's archive has no package {' or '.join(patterns)}; newer names belong into {__file__}")
        home = cache / match[1]
        if not home.exists():
            report(f"fetching {match[0]}")
            download(source, name, [match[0], *(package.format(match[1]) for package in more)], home)
            drop_older(name, keep=match[1])
        return unpacked(name, home)
    except KernelError as error:
        kernel = cached(name)
        if kernel is None:
            raise
        report(f"{error}; using {kernel.release} from the cache")
        return kernel


def download(source, name, packages, home):
    """Unpacks packages into `home`, which appears only when it is whole."""
    partial = home.with_name(f".{home.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        source.unpack(packages, partial)
        if unpacked(name, partial) is None:
            raise KernelError(f"{', '.join(packages)}: no kernel image with its modules inside")
        partial.rename(home)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def drop_older(name, keep):
    """Removes other versions of the same kernel from the cache."""
    for path in cache_directory().iterdir():
        if path.name != keep and any(re.fullmatch(pattern, path.name) for pattern in releases(name)):
            shutil.rmtree(path)
