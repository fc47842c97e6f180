#!/usr/bin/env python3
"""Runs the suites of suites.toml on Debian kernels under QEMU: a fresh boot for each pair, two at once, one table at the end.

Needs no root. `./dev vm` installs what this needs, and counts what this prints. With `--run` it boots one guest for one command
instead, such as `pendulum-lab run mitigations`, and passes on what that prints.
"""

import argparse
import os
import platform
import shutil
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import counts
import initramfs
import kernels
import qemu
import suites

TAIL_LINES = 40
# An emulated guest keeps one processor busy, and little more.
GUESTS_AT_ONCE = min(2, os.cpu_count() or 1)


@dataclass
class Cell:
    """What one suite came to on one kernel."""

    kernel: str
    suite: str
    counts: counts.Counts
    boot_s: float | None = None
    wall_s: float = 0.0

    def text(self):
        c = self.counts
        return f"{c.passed}/{c.failed}/{c.skipped}"


class Machine:
    """Lets several guests run at once, or one that must have all to itself."""

    def __init__(self, places):
        self.places = self.free = places
        self.cache = threading.Lock()
        self.changed = threading.Condition()

    @contextmanager
    def room(self, alone):
        """Waits for a place, or for all of them, and gives it back."""
        needed = self.places if alone else 1
        with self.changed:
            self.changed.wait_for(lambda: self.free >= needed)
            self.free -= needed
        try:
            yield
        finally:
            with self.changed:
                self.free += needed
                self.changed.notify_all()


def say(text):
    # One write: two threads speak.
    sys.stdout.write(f"vm: {text}\n")
    sys.stdout.flush()


def whisper(text):
    """Beside the output of `--run`, which may be for a program."""
    print(f"vm: {text}", file=sys.stderr, flush=True)


def judge(outcome, log, name):
    """Counts a guest's log. A guest that did not reach its end marker has failed, whatever it printed before."""
    with open(log, encoding="utf-8", errors="replace") as lines:
        counted = counts.count(lines, outcome.status or 0, name)
    if outcome.problem:
        counted.fail(outcome.problem)
    elif counted.passed + counted.failed + counted.skipped == 0:
        counted.fail("no test ran in the guest")
    return counted


def run_suite(machine, kernel, base, suite, programs, logs):
    """Boots one guest for one suite, and a second one if a few of its tests failed."""
    with machine.room(suite.alone):
        cell = boot_suite(kernel, base, suite, programs, logs)
        if few := cell.counts.few_failures():
            say(f"{kernel.version} {suite.name}: once more, for {', '.join(few)}")
            cell.counts.repeat(boot_suite(kernel, base, suite, programs, logs).counts)
    return cell


def boot_suite(kernel, base, suite, programs, logs):
    """Boots one guest for one suite."""
    home = logs / kernel.version
    home.mkdir(parents=True, exist_ok=True)
    log, console = home / f"{suite.name}.log", home / f"{suite.name}.console.log"
    with tempfile.TemporaryDirectory() as work:
        image = Path(work) / "initramfs"
        shutil.copy(base, image)
        with open(image, "ab") as output:
            archive = initramfs.Archive(output)
            suites.add_to(archive, suite, programs, Path(work))
            archive.close()
        repeated = []

        def booted_again(text):
            say(f"{kernel.version} {suite.name}: {text}")
            repeated.append(text)

        # Guests that share the machine have a processor each. With two, now and then one dies of its emulation.
        outcome = qemu.boot_tests(
            booted_again, kernel.image, image, log, console, suite.limit_s, suite.virtual_time,
            processors=qemu.PROCESSORS if suite.alone else 1,
        )  # fmt: skip
    cell = Cell(kernel.version, suite.name, judge(outcome, log, suite.name), outcome.boot_s, outcome.wall_s)
    cell.counts.repeated += repeated
    boot = f"{outcome.boot_s:.1f} s to boot" if outcome.boot_s else "no boot"
    say(f"{kernel.version} {suite.name}: {cell.text()} passed/failed/skipped; {boot}, {outcome.wall_s:.1f} s in all")
    if cell.counts.failed:
        show_tail(log)
        show_tail(console)
    return cell


def run_command(name, command, limit_s, logs, virtual_time):
    """Boots one guest for one shell command, prints what it prints, and returns its exit status."""
    programs = suites.build_programs()
    kernel = kernels.fetch(name, whisper)
    home = logs / kernel.version
    home.mkdir(parents=True, exist_ok=True)
    log, console = home / "run.log", home / "run.console.log"
    with tempfile.TemporaryDirectory() as work:
        image = Path(work) / "initramfs"
        with open(image, "wb") as output:
            initramfs.base_archive(kernel, suites.HERE / "init", output)
            archive = initramfs.Archive(output)
            suites.add_command(archive, command, programs, Path(work))
            archive.close()
        whisper(f"booting {kernel.release} for: {command}")
        outcome = qemu.boot(kernel.image, image, log, console, limit_s, virtual_time)
    lines = qemu.read(log).splitlines()
    print("\n".join(line for line in lines if not line.startswith((qemu.START, qemu.END))))
    if outcome.problem:
        sys.exit(f"vm: {outcome.problem}; the guest's output is in {log} and {console}")
    if outcome.status:
        whisper("the end of the guest's console:\n" + "\n".join(qemu.read(console).splitlines()[-TAIL_LINES:]))
    whisper(f"{outcome.wall_s:.0f} s in all, exit status {outcome.status}")
    return outcome.status


def show_tail(path):
    """The end of a log, set off so that nobody counts it twice."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
    sys.stdout.write("\n".join([f"  {path}:", *(f"  | {line.rstrip()}" for line in lines)]) + "\n")


def run_kernel(machine, name, table, built, logs, skip_missing):
    """All suites on one kernel. A kernel that cannot be had fails, or is skipped if that was asked for."""
    chosen = [suite for suite in table if suite.kernels is None or name in suite.kernels]
    try:
        with machine.cache:
            kernel = kernels.fetch(name, say)
    except kernels.KernelError as error:
        cells = []
        for suite in chosen:
            cell = Cell(name, suite.name, counts.Counts(suite.name))
            if skip_missing:
                cell.counts.skipped = 1
                cell.counts.skips.append(str(error))
            else:
                cell.counts.fail(str(error))
            cells.append(cell)
        return cells
    with tempfile.TemporaryDirectory() as work:
        base = Path(work) / "base"
        with open(base, "wb") as output:
            initramfs.base_archive(kernel, suites.HERE / "init", output)
        say(f"booting {kernel.release}: {base.stat().st_size >> 20} MiB of tools and modules")
        return [run_suite(machine, kernel, base, suite, built.get(suite.name), logs) for suite in chosen]


def table_text(cells):
    """kernel × suite, each passed/failed/skipped; a dash where a suite is not meant for a kernel."""
    names = list(dict.fromkeys(cell.suite for cell in cells))
    rows = [["kernel", *names]]
    for kernel in dict.fromkeys(cell.kernel for cell in cells):
        found = {cell.suite: cell.text() for cell in cells if cell.kernel == kernel}
        rows.append([kernel, *(found.get(name, "-") for name in names)])
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)


def report(cells):
    """Prints the table, what failed and what was skipped, and the line that counts.py reads."""
    print(f"\n{table_text(cells)}\n(passed/failed/skipped)\n")
    for cell in cells:
        for what in cell.counts.skips:
            print(f"vm skipped: {cell.kernel} {cell.suite}: {what}")
        for what in cell.counts.repeated:
            print(f"vm repeated: {cell.kernel} {cell.suite}: {what}")
        for what in cell.counts.failures:
            print(f"vm failed: {cell.kernel} {cell.suite}: {what}")
            for line in cell.counts.why.get(what, []):
                print(f"vm why: {line}")
    passed, failed, skipped = (sum(getattr(c.counts, k) for c in cells) for k in ("passed", "failed", "skipped"))
    print(f"vm total: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def list_table(table):
    """Prints the names `./dev vm` takes, and the suites."""
    for name in kernels.CATALOGUE:
        kernel = kernels.cached(name)
        print(f"kernel {name:6} {kernel.release if kernel else '(not fetched yet)'}")
    for suite in table:
        what = suite.script or f"{suite.package}, {suite.target}"
        print(f"suite  {suite.name:10} {what}; at most {suite.limit_s} s; kernels: {', '.join(suite.kernels or ['all'])}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="such as 6.1, 6.12, 7.2; all if none is given")
    parser.add_argument("--suite", action="append", metavar="NAME", help="only this suite; may be repeated")
    parser.add_argument("--logs", type=Path, default=suites.ROOT / "target/vm", help="where the guests' output goes")
    parser.add_argument("--skip-missing", action="store_true", help="a kernel that cannot be fetched is skipped, not failed")
    parser.add_argument("--run", metavar="COMMAND", help="boot one kernel for this shell command; it finds pendulum and pendulum-lab")
    parser.add_argument("--limit", type=int, default=7200, metavar="S", help="cut the command of --run off after so long [7200]")
    parser.add_argument("--real-time", action="store_true", help="the clock of --run is this machine's, not a count of instructions")
    parser.add_argument("--list", action="store_true", help="print the kernels and suites, and stop")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if platform.machine() != "x86_64":
        sys.exit(f"vm: the guests are x86_64 and their programs come from this machine, which is {platform.machine()}")
    if arguments.run:
        if len(arguments.kernels) != 1:
            sys.exit("vm: --run takes exactly one kernel, such as 6.12")
        return run_command(arguments.kernels[0], arguments.run, arguments.limit, arguments.logs, not arguments.real_time)
    table = suites.load()
    if arguments.list:
        list_table(table)
        return 0
    for name in arguments.suite or []:
        if name not in [suite.name for suite in table]:
            raise suites.SuiteError(f"there is no suite '{name}'; there are {', '.join(suite.name for suite in table)}")
    table = [suite for suite in table if not arguments.suite or suite.name in arguments.suite]
    names = kernels.select(arguments.kernels)
    begin = time.monotonic()
    built = {suite.name: suites.build(suite) for suite in table if suite.package}
    machine = Machine(GUESTS_AT_ONCE)
    with ThreadPoolExecutor(GUESTS_AT_ONCE) as guests:
        runs = [guests.submit(run_kernel, machine, name, table, built, arguments.logs, arguments.skip_missing) for name in names]
        try:
            cells = [cell for run in runs for cell in run.result()]
        finally:
            # An error here, or a signal: the guests that run end, too.
            if not all(run.done() for run in runs):
                qemu.STOP.set()
    say(f"all guests done after {time.monotonic() - begin:.0f} s")
    return report(cells)


if __name__ == "__main__":
    # Ended from outside, it still ends its guest and removes its files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except (kernels.KernelError, suites.SuiteError, initramfs.MissingTool) as error:
        sys.exit(f"vm: {error}")
