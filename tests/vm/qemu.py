"""Boots one guest, waits for its end, and says what came of it."""

import os
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

# Two guests, with what QEMU needs for itself, fit into a machine of 4 GB.
MEMORY_MIB = 1024
TRANSLATED_MIB = 256
PROCESSORS = 2
# The oldest that is tried: Debian 12's.
OLDEST = (7, 2)
START = "PENDULUM-VM start"
END = "PENDULUM-VM end"

# panic=-1 with -no-reboot: a panic ends QEMU at once. oops=panic: an oops in a driver is no passed test.
# norandmaps: programs lie at the same addresses each time. QEMU would else translate each anew at each start, a third of all work.
# What the kernel does not know itself, the first process finds in its environment.
KERNEL_ARGUMENTS = "console={} PENDULUM_LOG=/dev/{} quiet panic=-1 oops=panic mitigations=off norandmaps random.trust_cpu=on"

# A guest may take this many times its limit by the clock on the wall, where others use the processors.
PATIENCE = 6

# Set from outside: guests end now, and none starts.
STOP = threading.Event()


class QemuError(Exception):
    """No guest can be started here; the text says why and what to do."""


def check(program):
    """Whether this machine's QEMU is one that the guests are known to run on."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise QemuError(f"{program} does not run: {error}; './dev vm' installs Debian's package for it") from error
    match = re.search(r"version (\d+)\.(\d+)", said)
    if not match or (int(match[1]), int(match[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise QemuError(f"{program} is '{said.splitlines()[0] if said else ''}'; the guests need version {wanted} or newer, as in Debian 12")


@dataclass
class Outcome:
    """`problem` is None if the guest ran to its end, whatever its tests found; `status` is then its exit status."""

    boot_s: float | None
    wall_s: float
    status: int | None
    problem: str | None
    # Processor seconds of each stage.
    spent: dict = field(default_factory=dict)


def command(kernel, initramfs, log, console, virtual_time, processors, memory_mib=MEMORY_MIB):
    """QEMU's command line. Software emulation: it needs nothing from the host, and boots in seconds.

    With `virtual_time` the guest's clock counts its own instructions, two nanoseconds each, and idle time is skipped.
    The guest is then a machine of one fixed speed however busy the host is, and its shaped links have the rates asked
    for. Such a guest has one processor: with more, one thread would emulate all in turn, and 6.1 then waits for ever
    for its second one.
    """
    clock = ["-icount", "shift=1,sleep=off"] if virtual_time else []
    processors = 1 if virtual_time else processors
    machine = kernel.machine
    ports = [word.format(path) for port, path in zip(machine.ports, (console, log)) for word in port]
    return [
        *machine.emulator, "-accel", f"tcg,tb-size={TRANSLATED_MIB}", "-smp", str(processors), "-m", str(memory_mib),
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-nic", "none", "-monitor", "none", *ports,
        "-kernel", str(kernel.image), "-initrd", str(initramfs), "-append", KERNEL_ARGUMENTS.format(machine.console, machine.log),
        *clock,
    ]  # fmt: skip


def processor_s(process_id):
    """Processor seconds that a process has used (proc(5), stat: utime, stime)."""
    try:
        fields = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def boot(kernel, initramfs, log, console, limit, virtual_time=True, processors=PROCESSORS, niceness=0, patience=PATIENCE, memory_mib=MEMORY_MIB):
    """Runs a guest to its end or to a time limit. Its output is in the files `log` and `console`.

    `limit` reads the log and returns what the guest is at, and how many seconds it may take for that. Of a busy machine the guest has a part
    only: the processor's seconds count, and on the wall's clock it has `patience` times as long.
    """
    for path in (log, console):
        path.write_bytes(b"")
    begin = time.monotonic()
    boot_s = None
    stage, stage_wall, stage_cpu = None, begin, 0.0
    problem, spent = None, {}
    arguments = command(kernel, initramfs, log, console, virtual_time, processors, memory_mib)
    with subprocess.Popen(
        ["nice", "-n", str(niceness), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as qemu:
        try:
            while qemu.poll() is None and not STOP.is_set():
                time.sleep(0.1)
                text = read(log)
                if boot_s is None and START in text:
                    boot_s = time.monotonic() - begin
                now, limit_s = limit(text)
                if now != stage:
                    stage, stage_wall, stage_cpu = now, time.monotonic(), processor_s(qemu.pid)
                spent[stage] = processor_s(qemu.pid) - stage_cpu
                if spent[stage] > limit_s or time.monotonic() - stage_wall > patience * limit_s:
                    problem = f"{stage} had not ended after {limit_s} s of processor time"
                    break
        finally:
            if qemu.poll() is None:
                qemu.kill()
        complaint = qemu.stderr.read().decode(errors="replace").strip()
    status = end_status(read(log))
    if STOP.is_set():
        problem = "it was stopped"
    elif problem is None and status is None:
        problem = why_no_end(read(console), complaint)
    return Outcome(boot_s, time.monotonic() - begin, status, problem, spent)


def read(path):
    return path.read_text(encoding="utf-8", errors="replace")


def end_status(text):
    """The number after the end marker, or None. A guest that was ended from outside may have written half of the line."""
    for line in text.splitlines(keepends=True):
        if line.startswith(END) and line.endswith("\n"):
            return int(line.removeprefix(END))
    return None


def why_no_end(console, complaint):
    """The most telling line of a boot that broke off."""
    for telling in ("Oops: ", "Kernel panic"):
        for line in console.splitlines():
            if telling in line:
                return line.strip()
    return complaint or "the guest went down without its end marker"
