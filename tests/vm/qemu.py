"""Boots one guest, waits for its end, and says what came of it."""

import subprocess
import threading
import time
from dataclasses import dataclass

MEMORY_MIB = 2048
PROCESSORS = 2
START = "PENDULUM-VM start"
END = "PENDULUM-VM end"

# panic=-1 with -no-reboot: a panic ends QEMU at once. oops=panic: an oops in a driver is no passed test.
KERNEL_ARGUMENTS = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off random.trust_cpu=on"

# How a guest's console tells of a breakpoint that nobody has set.
CODE_PATCHING = "Oops: int3"

# Set from outside: guests end now, and none starts.
STOP = threading.Event()


@dataclass
class Outcome:
    """`problem` is None if the suite ran to its end, whatever it found; `status` is then its exit status."""

    boot_s: float | None
    wall_s: float
    status: int | None
    problem: str | None

    @property
    def died_of_emulation(self):
        """The kernel panicked before it ran anything of ours, or met a breakpoint in its own text.

        Linux patches its text under breakpoints (text_poke), at boot and when a tracepoint is switched on. An emulated processor may run
        what another one has patched meanwhile: the breakpoint is then nobody's, which on a real processor cannot be.
        """
        if self.problem is None:
            return False
        return CODE_PATCHING in self.problem or (self.boot_s is None and "Kernel panic" in self.problem)


def command(image, initramfs, log, console, virtual_time, processors):
    """QEMU's command line. Software emulation: it needs nothing from the host, and boots in seconds.

    With `virtual_time` the guest's clock counts its own instructions, two nanoseconds each, and idle time is skipped.
    The guest is then a machine of one fixed speed however busy the host is, and its shaped links have the rates asked
    for. Such a guest has one processor: with more, one thread would emulate all in turn, and 6.1 then waits for ever
    for its second one.
    """
    clock = ["-icount", "shift=1,sleep=off"] if virtual_time else []
    processors = 1 if virtual_time else processors
    return [
        "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-smp", str(processors), "-m", str(MEMORY_MIB),
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-nic", "none", "-monitor", "none",
        "-serial", f"file:{console}", "-serial", f"file:{log}",
        "-kernel", str(image), "-initrd", str(initramfs), "-append", KERNEL_ARGUMENTS,
        *clock,
    ]  # fmt: skip


def boot(image, initramfs, log, console, limit_s, virtual_time=False, processors=PROCESSORS):
    """Runs a guest to its end or to the time limit. Its output is in the files `log` and `console`."""
    for path in (log, console):
        path.write_bytes(b"")
    begin = time.monotonic()
    boot_s = None
    arguments = command(image, initramfs, log, console, virtual_time, processors)
    with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as qemu:
        try:
            while qemu.poll() is None and time.monotonic() - begin < limit_s and not STOP.is_set():
                time.sleep(0.1)
                if boot_s is None and START in read(log):
                    boot_s = time.monotonic() - begin
        finally:
            timed_out = qemu.poll() is None
            if timed_out:
                qemu.kill()
        complaint = qemu.stderr.read().decode(errors="replace").strip()
    status = end_status(read(log))
    problem = None
    if STOP.is_set():
        problem = "it was stopped"
    elif timed_out:
        problem = f"it had not ended after {limit_s} s"
    elif status is None:
        problem = why_no_end(read(console), complaint)
    return Outcome(boot_s, time.monotonic() - begin, status, problem)


def boot_tests(say, *arguments, **options):
    """`boot`, and once more if the guest died of its emulation; `say` is then told."""
    outcome = boot(*arguments, **options)
    if outcome.died_of_emulation:
        say(f"{outcome.problem}: the emulated processors disagree on the kernel's text; booted once more")
        outcome = boot(*arguments, **options)
    return outcome


def read(path):
    return path.read_text(encoding="utf-8", errors="replace")


def end_status(text):
    """The number after the end marker, or None."""
    for line in text.splitlines():
        if line.startswith(END):
            return int(line.removeprefix(END))
    return None


def why_no_end(console, complaint):
    """The most telling line of a boot that broke off."""
    for telling in (CODE_PATCHING, "Kernel panic"):
        for line in console.splitlines():
            if telling in line:
                return line.strip()
    return complaint or "the guest went down without its end marker"
