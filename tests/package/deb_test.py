"""The Debian package: what it contains, what it depends on, and its life in a throw-away root, with stand-ins for the programs that its
scripts call.

Made from the agent that was built last, in the fastest compression. Needs dpkg-dev and binutils; the life in a root needs to be root, and
busybox. On real Debians, with systemd: `./dev package check`.
"""

import atexit
import functools
import os
import shutil
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
CONFIG = "etc/pendulum/pendulum.toml"

# dev.d/package.sh by itself.
MAKE = """
set -euo pipefail
. dev.d/package.sh
say() { printf '%s\\n' "$*" >&2; }
make_deb "$1" "$2"
"""

# Each writes down how it was called. adduser makes the user, as the package's script looks for it with getent.
STAND_INS = {
    "adduser": 'echo pendulum:x:999:999::/nonexistent:/usr/sbin/nologin >>/etc/passwd',
    "getent": 'while read -r line; do case "$line" in "$2":*) exit 0 ;; esac; done </etc/passwd; exit 2',
    "systemctl": ":",
}

# What may stand in the package, and nothing else: a file in another place is a mistake.
PLACES = (
    "usr/bin/pendulum",
    CONFIG,
    "usr/lib/systemd/system/pendulum.service",
    "usr/share/man/man1/",
    "usr/share/bash-completion/completions/pendulum",
    "usr/share/zsh/vendor-completions/_pendulum",
    "usr/share/fish/vendor_completions.d/pendulum.fish",
    "usr/share/pendulum/dashboards/",
    "usr/share/doc/pendulum/",
)

# The authors have no mail address; the scripts call systemctl as they mean it, without debhelper.
LINTIAN_WITHOUT = "bogus-mail-host,bogus-mail-host-in-debian-changelog,maintainer-script-calls-systemctl"


def agent():
    """The agent that was built last, or None."""
    if "PENDULUM_PROGRAM" in os.environ:
        return os.environ["PENDULUM_PROGRAM"]
    found = [path for path in (TARGET / "release/pendulum", TARGET / "debug/pendulum") if path.exists()]
    return str(max(found, key=lambda path: path.stat().st_mtime)) if found else None


def run(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **options)


@functools.cache
def package(version):
    """Makes the package once for each version."""
    work = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, work, ignore_errors=True)
    env = dict(os.environ, ROOT=str(ROOT), PACKAGES=work, CARGO_TARGET_DIR=str(TARGET), DPKG_DEB_COMPRESSOR_TYPE="gzip", DPKG_DEB_COMPRESSOR_LEVEL="1")
    done = run("bash", "-c", MAKE, "bash", agent(), version, cwd=ROOT, env=env)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return Path(done.stdout.strip())


class Deb(unittest.TestCase):
    def setUp(self):
        if agent() is None:
            self.skip("no agent was built; 'cargo build -p pendulum'")
        for tool in ("dpkg-deb", "dpkg-shlibdeps", "strip"):
            if shutil.which(tool) is None:
                self.skip(f"{tool} is not here: Debian's dpkg-dev and binutils")

    def skip(self, reason):
        """unittest counts a skipped test among those that ran; ./dev counts it by this line."""
        print(f"\nSKIPPED {self.id()}: {reason}", flush=True)
        self.skipTest(reason)


class Contents(Deb):
    def setUp(self):
        super().setUp()
        self.deb = package("1.0~test1")

    def field(self, name):
        return run("dpkg-deb", "--field", self.deb, name).stdout.strip()

    def test_control(self):
        self.assertEqual((self.field("Package"), self.field("Version")), ("pendulum", "1.0~test1"))
        self.assertEqual(self.field("Architecture"), run("dpkg", "--print-architecture").stdout.strip())
        needed = {item.split()[0] for item in self.field("Depends").split(", ")}
        self.assertEqual(needed, {"libc6", "libgcc-s1", "adduser", "procps"}, "adduser: postinst; procps: /bin/kill of ExecReload")
        self.assertNotIn("@", run("dpkg-deb", "--field", self.deb).stdout.replace("pendulum@localhost", ""))

    def test_every_file_is_in_its_place_and_roots(self):
        files = {}
        for line in run("dpkg-deb", "--contents", self.deb).stdout.splitlines():
            mode, owner, _, _, _, path = line.split(maxsplit=5)
            self.assertEqual(owner, "root/root", line)
            if not mode.startswith("d"):
                files[path.removeprefix("./")] = mode
        self.assertEqual(files.pop("usr/bin/pendulum"), "-rwxr-xr-x")
        for path, mode in files.items():
            self.assertTrue(path.startswith(PLACES), path)
            self.assertEqual(mode, "-rw-r--r--", path)
        for command in ("", *(f"-{command}" for command in ("run", "doctor", "check-config", "replay", "advise", "top", "report"))):
            self.assertIn(f"usr/share/man/man1/pendulum{command}.1.gz", files)
        for place in PLACES:
            self.assertTrue(place == "usr/bin/pendulum" or any(path.startswith(place) for path in files), place)

    def test_documents_are_there(self):
        listed = run("dpkg-deb", "--contents", self.deb).stdout
        for document in ("docs/guide/install.md", "docs/results/reliability.md", "README.md", "CHANGELOG.md"):
            self.assertIn(f"./usr/share/doc/pendulum/{document}\n", listed)

    def test_lintian(self):
        if shutil.which("lintian") is None:
            self.skip("lintian is not here")
        done = run("lintian", "--allow-root", "--suppress-tags", LINTIAN_WITHOUT, "--fail-on", "error,warning", self.deb)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Life(Deb):
    """Installed, upgraded, removed, purged; dpkg runs the package's scripts in the root, with a busybox as shell."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skip("needs root")
        busybox = shutil.which("busybox", path="/bin:/usr/bin")
        if busybox is None or run("ldd", busybox).returncode == 0:
            self.skip("no static busybox is here: Debian's busybox-static")
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        for name in ("bin", "dev", "etc", "run/systemd/system", "usr/bin", "var/lib/dpkg/info", "var/lib/dpkg/updates"):
            (self.root / name).mkdir(parents=True)
        for name in ("etc/passwd", "var/lib/dpkg/status", "var/lib/dpkg/available"):
            (self.root / name).touch()
        os.mknod(self.root / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        shutil.copy(busybox, self.root / "bin/busybox")
        for applet in ("sh", "rm", "rmdir"):
            (self.root / "bin" / applet).symlink_to("busybox")
        # What the agent is linked with: the scripts of the package call it.
        for line in run("ldd", agent()).stdout.splitlines():
            for word in line.split():
                if word.startswith("/") and Path(word).is_file():
                    place = self.root / word.removeprefix("/")
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(word, place)
        for name, action in STAND_INS.items():
            path = self.root / "usr/bin" / name
            path.write_text(f'#!/bin/sh\necho "{name} $*" >>/calls\n{action}\n', encoding="utf-8")
            path.chmod(0o755)

    def dpkg(self, *arguments):
        """Runs dpkg in the root; returns what the package's scripts called, without their questions."""
        calls = self.root / "calls"
        calls.unlink(missing_ok=True)
        env = dict(os.environ, PATH="/usr/sbin:/usr/bin:/sbin:/bin", DEBIAN_FRONTEND="noninteractive")
        # --force-depends: nothing else is in the root.
        # In a network of its own: the package's scripts clean up devices.
        done = run("unshare", "--net", "dpkg", f"--root={self.root}", "--force-depends", "--force-confold", *arguments, env=env)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.said = done.stdout + done.stderr
        text = calls.read_text(encoding="utf-8") if calls.exists() else ""
        return [line for line in text.splitlines() if not line.startswith("getent ")]

    def left(self):
        """What is there beside dpkg's own and the stand-ins'."""
        own = ("var/lib/dpkg", "var/log", "dev", "bin", "usr/bin", "calls", "lib", "usr/lib/x86_64", "usr/lib/aarch64")
        paths = (str(path.relative_to(self.root)) for path in self.root.rglob("*") if not path.is_dir())
        return sorted(path for path in paths if not path.startswith(own))

    def test_install_upgrade_remove_purge(self):
        before = self.left()
        calls = self.dpkg("--install", package("1.0~test1"))
        self.assertEqual([line.split()[0] for line in calls], ["adduser", "systemctl"], calls)
        self.assertIn("--system --group --no-create-home", calls[0])
        # Not started: its file names an example's device.
        self.assertEqual(calls[1], "systemctl --system daemon-reload")
        self.assertEqual(run("dpkg", f"--root={self.root}", "--verify", "pendulum").stdout, "")
        unit = (self.root / "usr/lib/systemd/system/pendulum.service").read_text(encoding="utf-8")
        self.assertIn("ExecStart=/usr/bin/pendulum ", unit)
        # A killed agent cannot take its shaper down itself.
        self.assertIn("\nExecStopPost=-/usr/bin/pendulum run --cleanup --config /etc/pendulum/pendulum.toml\n", unit)

        config = self.root / CONFIG
        edited = config.read_text(encoding="utf-8").replace('wan = "ppp0"', 'wan = "wan7"')
        config.write_text(edited, encoding="utf-8")
        calls = self.dpkg("--install", package("1.0~test2"))
        self.assertEqual((calls[0], calls[-1]), ("systemctl --system daemon-reload", "systemctl try-restart pendulum.service"), calls)
        self.assertEqual(config.read_text(encoding="utf-8"), edited)

        # A file that the new version refuses: what runs goes on, and it is said why.
        config.write_text(edited.replace("[[link]]", "[[linc]]"), encoding="utf-8")
        calls = self.dpkg("--install", package("1.0~test3"))
        self.assertEqual(calls[-1], "systemctl --system daemon-reload", calls)
        self.assertIn("linc", self.said)
        self.assertIn("the service is not restarted, because this version refuses its configuration", self.said)
        config.write_text(edited, encoding="utf-8")

        # In the program's place, to see that it is asked to clean up once the service has ended.
        program = self.root / "usr/bin/pendulum"
        program.write_text('#!/bin/sh\necho "pendulum $*" >>/calls\n', encoding="utf-8")
        calls = self.dpkg("--remove", "pendulum")
        self.assertEqual(calls[:2], ["systemctl --no-reload disable --now pendulum.service", "pendulum run --cleanup"], calls)
        self.assertEqual(config.read_text(encoding="utf-8"), edited)
        self.assertFalse((self.root / "usr/bin/pendulum").exists())

        log = self.root / "var/lib/pendulum/events.jsonl"
        log.parent.mkdir(parents=True)
        log.write_text("{}\n", encoding="utf-8")
        self.dpkg("--purge", "pendulum")
        self.assertEqual(self.left(), before)
        self.assertIn("pendulum:", (self.root / "etc/passwd").read_text(encoding="utf-8"), "the user stays, as Debian does it")

    def test_without_systemd_nothing_of_it_is_called(self):
        (self.root / "run/systemd/system").rmdir()
        calls = self.dpkg("--install", package("1.0~test1")) + self.dpkg("--install", package("1.0~test2"))
        calls += self.dpkg("--purge", "pendulum")
        self.assertEqual([line.split()[0] for line in calls], ["adduser"], calls)


if __name__ == "__main__":
    unittest.main()
