#!/usr/bin/env python3
"""Tries the build for small routers where it is meant for: an arm64 guest with 128 MB of memory, busybox, no BTF and no tracefs.

    small.py BINARY --logs DIRECTORY

What is tried is in small-init. Prints what libtest prints.
"""

import argparse
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "vm"))

import guest  # noqa: E402 # beside this file
import initramfs  # noqa: E402 # from tests/vm
import kernels  # noqa: E402
import qemu  # noqa: E402
import run  # noqa: E402

KERNEL = "6.12-arm64"
MEMORY_MIB = 128
LIMIT_S = 1200
MODULES = "veth sch_tbf sch_ingress cls_bpf tcp_diag inet_diag".split()
TOOLS = "ip tc iperf3".split()


def write_archive(output, kernel, tools, binary):
    """The router's file system: the agent with its shipped configuration, busybox, what makes links and traffic, and little else."""
    archive = initramfs.Archive(output)
    for name in ("dev", "proc", "sys", "run", "tmp", "etc"):
        archive.directory("/" + name)
    archive.merge_usr()
    archive.device("/dev/console", 5, 1)
    archive.data("/init", (HERE / "small-init").read_bytes(), 0o755)
    archive.data("/usr/bin/pendulum", binary.read_bytes(), 0o755)
    archive.file(ROOT / "deploy/openwrt/files/pendulum.toml", "/etc/pendulum.toml")
    for name in TOOLS:
        archive.tool(tools, name)
    initramfs.add_modules(archive, kernel, MODULES)
    initramfs.add_busybox(archive, tools)
    archive.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--logs", type=Path, required=True, help="where the guest's output goes")
    arguments = parser.parse_args()
    kernel = kernels.fetch(KERNEL, guest.say)
    tools = run.tools_for(kernel.machine, guest.say)
    arguments.logs.mkdir(parents=True, exist_ok=True)
    log, console = arguments.logs / "small.log", arguments.logs / "small.console.log"
    with tempfile.TemporaryDirectory() as work:
        image = Path(work) / "initramfs"
        with open(image, "wb") as output:
            write_archive(output, kernel, tools, arguments.binary)
        guest.say(f"booting {kernel.release} with {MEMORY_MIB} MB of memory")
        outcome = qemu.boot(kernel, image, log, console, lambda _: ("the small guest", LIMIT_S), memory_mib=MEMORY_MIB)
    print("\n".join(line.rstrip() for line in qemu.read(log).splitlines() if not line.startswith((qemu.START, qemu.END))))
    guest.say(f"{outcome.wall_s:.0f} s in all; the guest's output is in {log} and {console}")
    if outcome.problem:
        run.show_tail(console)
        sys.exit(f"dev: the small guest: {outcome.problem}")
    return outcome.status


if __name__ == "__main__":
    guest.enter(main)
