#!/usr/bin/env python3
"""Boots a Debian of its own under QEMU, systemd and journald included, and tries the package there with systemd.sh.

    guest.py NAME ROOT.tar KERNEL OLD.deb NEW.deb --logs DIRECTORY

NAME is what the tests' lines are called; KERNEL one of tests/vm/kernels.py, such as 6.1. Prints what libtest prints. Needs no root.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "vm"))

import initramfs  # noqa: E402 # from tests/vm
import kernels  # noqa: E402
import machines  # noqa: E402
import qemu  # noqa: E402

# The guest's clock counts its own instructions, so that a busy machine does not make systemd's time limits pass. All of it takes some minutes.
LIMIT_S = 3600
# A whole Debian lies in it.
MEMORY_MIB = 2048
TAIL_LINES = 40


def say(text):
    print(f"dev: {text}", file=sys.stderr, flush=True)


def write_archive(output, kernel, arguments):
    """A first file system with busybox, the modules and the Debian as one archive, which guest-init unpacks and starts."""
    archive = initramfs.Archive(output)
    for name in ("dev", "proc", "sys", "root", "usr/bin", "usr/sbin", "usr/lib"):
        archive.directory("/" + name)
    archive.device("/dev/console", 5, 1)
    archive.data("/init", (HERE / "guest-init").read_bytes(), 0o755)
    archive.file(machines.Tools().find("busybox"), "/usr/bin/busybox")
    initramfs.add_modules(archive, kernel)
    archive.file(arguments.root, "/root.tar")
    for name in ("outcomes.sh", "systemd.sh"):
        archive.file(HERE / name, f"/check/{name}")
    archive.file(arguments.old, "/check/old.deb")
    archive.file(arguments.new, "/check/new.deb")
    # The guest's own netcat and its like.
    archive.file(machines.Tools().find("busybox"), "/check/busybox")
    archive.data("/check/name", arguments.name + "\n")
    archive.close()


def show_tail(path):
    """The end of a log, set off so that nobody counts it."""
    for line in qemu.read(path).splitlines()[-TAIL_LINES:]:
        print(f"  | {line.rstrip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("root", type=Path)
    parser.add_argument("kernel")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--logs", type=Path, required=True, help="where the guest's output goes")
    arguments = parser.parse_args()
    kernel = kernels.fetch(arguments.kernel, say)
    arguments.logs.mkdir(parents=True, exist_ok=True)
    log, console = arguments.logs / f"{arguments.name}.log", arguments.logs / f"{arguments.name}.console.log"
    with tempfile.TemporaryDirectory() as work:
        image = Path(work) / "initramfs"
        with open(image, "wb") as output:
            write_archive(output, kernel, arguments)
        say(f"booting {arguments.name} with Linux {kernel.release}")
        outcome = qemu.boot(kernel, image, log, console, lambda _: ("the Debian guest", LIMIT_S), memory_mib=MEMORY_MIB)
    print("\n".join(line.rstrip() for line in qemu.read(log).splitlines() if not line.startswith((qemu.START, qemu.END))))
    boot = f"{outcome.boot_s:.0f} s to boot, " if outcome.boot_s else ""
    say(f"{arguments.name}: {boot}{outcome.wall_s:.0f} s in all; its output is in {log} and {console}")
    if outcome.problem:
        show_tail(console)
        sys.exit(f"dev: {arguments.name}: {outcome.problem}")
    return 1 if outcome.status else 0


def enter(program):
    """Runs a script that boots a guest. Ended from outside, it still ends the guest and removes its files."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(program())
    except (kernels.KernelError, machines.MissingTool) as error:
        sys.exit(f"dev: {error}")


if __name__ == "__main__":
    enter(main)
