"""The OpenWrt init script under sh, with stand-ins for what rc.common and procd bring: what it hands to procd, and what it refuses."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPENWRT = ROOT / "deploy/openwrt"
INIT = OPENWRT / "files/pendulum.init"

# procd's functions print their arguments; logger too.
STAND_INS = """
for name in procd_open_instance procd_set_param procd_close_instance procd_send_signal procd_add_jail procd_add_jail_mount logger sleep chgrp chmod; do
    eval "$name() { echo $name \\"\\$@\\"; }"
done
. "$INIT"
"""


def call(function, good, jail=False):
    """Calls one function of the script; `good`: what check-config says of the file; `jail`: whether procd can confine."""
    with tempfile.TemporaryDirectory() as work:
        program = Path(work) / "pendulum"
        verdict = "exit 0" if good else 'echo "pendulum: line 3: no such key" >&2; exit 78'
        cleanup = 'if [ "$1 $2" = "run --cleanup" ]; then echo "cleaned: $*" >&2; exit 0; fi'
        program.write_text(f'#!/bin/sh\n{cleanup}\n[ "$1" = check-config ] || exit 99\n{verdict}\n', encoding="utf-8")
        program.chmod(0o755)
        ujail, capabilities = Path(work) / "ujail", OPENWRT / "files/pendulum.capabilities"
        if jail:
            ujail.touch(0o755)
        env = dict(os.environ, INIT=str(INIT), PENDULUM_PROG=str(program), PENDULUM_CONFIG="/etc/pendulum/pendulum.toml", PENDULUM_UJAIL=str(ujail), PENDULUM_CAPABILITIES=str(capabilities))
        shell = ["busybox", "sh"] if busybox() else ["sh"]
        done = subprocess.run([*shell, "-c", STAND_INS + function], env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.replace(str(program), "PROG").splitlines(), done.stderr


def busybox():
    """OpenWrt's shell, where it is installed."""
    return any((Path(path) / "busybox").exists() for path in os.environ["PATH"].split(":"))


class InitScript(unittest.TestCase):
    def test_start_hands_one_instance_to_procd(self):
        status, said, _ = call("start_service", good=True)
        self.assertEqual(status, 0)
        self.assertEqual((said[0], said[-1]), ("procd_open_instance", "procd_close_instance"))
        self.assertIn("procd_set_param command PROG run --config /etc/pendulum/pendulum.toml --wait", said)
        # Without end: a start is what removes a killed agent's shaper, and nothing would after the last one.
        self.assertIn("procd_set_param respawn 3600 10 0", said)
        self.assertNotIn("procd_set_param user pendulum", said)

    def test_where_procd_can_confine_it_has_a_user_and_three_capabilities(self):
        status, said, _ = call("start_service", good=True, jail=True)
        self.assertEqual(status, 0)
        self.assertEqual(said[-1], "procd_close_instance")
        for line in ("procd_set_param user pendulum", "procd_set_param no_new_privs 1", "procd_add_jail_mount /etc/pendulum"):
            self.assertIn(line, said)
        text = (OPENWRT / "files/pendulum.capabilities").read_text(encoding="utf-8")
        sets = json.loads(text)
        self.assertEqual(sorted(sets), ["ambient", "bounding", "effective", "inheritable", "permitted"])
        for held in sets.values():
            self.assertEqual(held, ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"])

    def test_what_a_killed_agent_left_goes_after_the_stop(self):
        status, said, errors = call("service_stopped; wait", good=True)
        # Later than procd kills an agent that hangs.
        self.assertEqual((status, said), (0, ["sleep 16"]))
        self.assertEqual(errors, "cleaned: run --cleanup --config /etc/pendulum/pendulum.toml\n")

    def test_reload_is_a_signal_and_no_restart(self):
        status, said, _ = call("reload_service", good=True)
        self.assertEqual((status, said), (0, ["procd_send_signal pendulum * HUP"]))

    def test_a_bad_file_starts_and_signals_nothing(self):
        for function in ("start_service", "reload_service"):
            status, said, errors = call(function, good=False)
            self.assertEqual(status, 1)
            self.assertEqual(len(said), 1, said)
            self.assertTrue(said[0].startswith("logger -t pendulum"), said)
            self.assertIn("no such key", said[0])
            self.assertIn("no such key", errors)


# As much of a buildroot as the recipe touches.
BUILDROOT = {
    "rules.mk": """INCLUDE_DIR:=$(TOPDIR)/include
INSTALL_DIR:=install -d -m 755
INSTALL_BIN:=install -m 755
INSTALL_CONF:=install -m 600
INSTALL_DATA:=install -m 644
""",
    "include/package.mk": """PKG_BUILD_DIR:=$(TOPDIR)/build
define BuildPackage
all:
	$$(call Build/Prepare)
	$$(call Build/Compile)
	$$(call Package/$(1)/install,$(TOPDIR)/root)
endef
""",
    "feeds/packages/lang/rust/rust-package.mk": "RUSTC_TARGET_ARCH:=mips-openwrt-linux-musl\nCARGO_PKG_VARS:=CARGO_BUILD_TARGET=$(RUSTC_TARGET_ARCH)\n",
    # In place of the compiler: it makes what the recipe then installs.
    "bin/cargo": """#!/bin/sh
echo "cargo $*" && mkdir -p "target/$CARGO_BUILD_TARGET/small" && echo built >"target/$CARGO_BUILD_TARGET/small/pendulum"
""",
}


class Recipe(unittest.TestCase):
    def test_it_builds_and_installs_with_stand_ins_for_the_buildroot(self):
        if shutil.which("make") is None:
            print(f"\nSKIPPED {self.id()}: make is not installed", flush=True)
            self.skipTest("make is not installed")
        with tempfile.TemporaryDirectory() as work:
            top = Path(work)
            for name, text in BUILDROOT.items():
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(text, encoding="utf-8")
            (top / "bin/cargo").chmod(0o755)
            shutil.copytree(OPENWRT, top / "source/deploy/openwrt")
            env = dict(os.environ, PATH=f"{top}/bin:{os.environ['PATH']}", PENDULUM_SOURCE=str(top / "source"))
            command = ["make", "-f", str(OPENWRT / "Makefile"), f"TOPDIR={top}", "all"]
            done = subprocess.run(command, cwd=OPENWRT, env=env, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("cargo build --profile small --no-default-features --locked -p pendulum", done.stdout)
            root = top / "root"
            found = {str(path.relative_to(root)): oct(path.stat().st_mode & 0o777) for path in root.rglob("*") if path.is_file()}
            self.assertEqual(found, {
                "usr/bin/pendulum": "0o755",
                "etc/init.d/pendulum": "0o755",
                "etc/capabilities/pendulum.json": "0o644",
                "etc/pendulum/pendulum.toml": "0o600",
                "lib/upgrade/keep.d/pendulum": "0o644",
            })

    def test_it_installs_files_that_exist(self):
        recipe = (OPENWRT / "Makefile").read_text(encoding="utf-8")
        for word in recipe.split():
            if word.startswith("$(PKG_BUILD_DIR)/deploy/"):
                self.assertTrue((ROOT / word.removeprefix("$(PKG_BUILD_DIR)/")).is_file(), word)
        cargo = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
        version = next(line for line in recipe.splitlines() if line.startswith("PKG_VERSION:=")).split("=")[1]
        self.assertIn(f'version = "{version}"', cargo)


if __name__ == "__main__":
    unittest.main()
