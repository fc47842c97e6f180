#!/usr/bin/env python3
"""Runs the suites of suites.toml on Debian kernels under QEMU: few boots for many suites, two at once, one table at the end.

Needs no root. `./dev vm` installs what this needs, and counts what this prints. With `--run` it boots one guest for one command
instead, such as `pendulum-lab run mitigations`, and passes on what that prints.
"""

import argparse
import dataclasses
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runner"))

import counts  # noqa: E402 # from tests/runner
import initramfs  # noqa: E402
import kernels  # noqa: E402
import machines  # noqa: E402
import qemu  # noqa: E402
import suites  # noqa: E402

TAIL_LINES = 40
# To boot, and to go down again.
BOOT_LIMIT_S = 120
# An emulated guest keeps one processor busy, and little more.
GUESTS_AT_ONCE = min(2, os.cpu_count() or 1)


@dataclass
class Cell:
    """What one suite came to on one kernel."""

    kernel: str
    suite: str
    counts: counts.Counts
    guest_s: float | None = None

    def text(self):
        c = self.counts
        return f"{c.passed}/{c.failed}/{c.skipped}"


@dataclass
class Ended:
    """How a suite's program ended: its exit status, and the seconds it took by the guest's clock. Both None if it did not."""

    status: int | None = None
    guest_s: float | None = None


@dataclass
class Part:
    """What a guest's log has of one suite."""

    lines: list = field(default_factory=list)
    begin_s: float | None = None
    ended: Ended = field(default_factory=Ended)


def say(text):
    # One write: two threads speak.
    sys.stdout.write(f"vm: {text}\n")
    sys.stdout.flush()


def whisper(text):
    """Beside the output of `--run`, which may be for a program."""
    print(f"vm: {text}", file=sys.stderr, flush=True)


def parts(text):
    """A guest's log, taken apart: the suites that began, by name.

    The guest may be writing it: a marker counts with its newline only.
    """
    found, current = {}, None
    for written in text.splitlines(keepends=True):
        line, is_whole = written.rstrip("\r\n"), written.endswith("\n")
        if line.startswith((suites.BEGIN, suites.DONE)) and not is_whole:
            continue
        if line.startswith(suites.BEGIN):
            name, at = line.removeprefix(suites.BEGIN).split()
            current = found[name] = Part(begin_s=float(at))
        elif line.startswith(suites.DONE) and current:
            _, status, at = line.removeprefix(suites.DONE).split()
            current.ended, current = Ended(int(status), float(at) - current.begin_s), None
        elif current:
            current.lines.append(line)
    return found


def judge(part, problem, suite):
    """Counts what a guest's log has of a suite. A suite without its end marker has failed, whatever it printed before. So has a test that skips
    itself where the host leaves it to this suite: it ran nowhere."""
    counted = counts.count(part.lines, part.ended.status or 0, suite.name)
    if suite.kernels and not suite.host:
        for skipped in counted.skips:
            counted.fail(f"{skipped}; this machine leaves it to the guest, so it ran nowhere")
        counted.skipped, counted.skips = 0, []
    if part.ended.status is None:
        counted.fail(problem or "the guest ended before the suite did")
    elif counted.passed + counted.failed + counted.skipped == 0:
        counted.fail("no test ran in the guest")
    return counted


def run_guest(guest, table, built, logs, niceness):
    """Runs suites in one guest. What a guest that broke off has not begun runs in another one."""
    kernel, cells, left = guest.kernel, [], list(table)
    while left:
        boot, outcome, found = boot_suites(guest, left, built, logs, niceness)
        if not found:
            # It broke off before anything began: the first suite cannot be had.
            found = {left[0].name: Part()}
        for suite in [suite for suite in left if suite.name in found]:
            left.remove(suite)
            part = found[suite.name]
            (boot.parent / f"{suite.name}.log").write_text("\n".join(part.lines) + "\n", encoding="utf-8")
            cell = Cell(kernel.version, suite.name, judge(part, outcome.problem, suite), part.ended.guest_s)
            taken = f"{cell.guest_s:.0f} s of the guest's time" if cell.guest_s is not None else "not ended"
            if suite.name in outcome.spent:
                taken += f", {outcome.spent[suite.name]:.0f} s of a processor"
            say(f"{kernel.version} {suite.name}: {cell.text()} passed/failed/skipped; {taken}")
            if cell.counts.failed:
                show_tail(boot.parent / f"{suite.name}.log")
            cells.append(cell)
        if outcome.problem:
            say(f"{kernel.version}: {outcome.problem}")
            if all(part.ended.status is not None for part in found.values()):
                # Each suite came to its end, the guest did not.
                cells[-1].counts.fail(outcome.problem)
            show_tail(boot.with_suffix(".console.log"))
    return cells


def boot_suites(guest, table, built, logs, niceness):
    """Boots one guest for some suites; returns its log's path, how it ended, and the parts of its log."""
    kernel = guest.kernel
    home = logs / kernel.version
    home.mkdir(parents=True, exist_ok=True)
    log = home / f"guest-{table[0].name}.log"
    limits = {suite.name: suite.limit_s for suite in table}

    def limit(text):
        begun = list(parts(text).items())
        if not begun:
            return "the boot", BOOT_LIMIT_S
        name, part = begun[-1]
        return (name, limits[name]) if part.ended.status is None else (f"what follows {name}", BOOT_LIMIT_S)

    with tempfile.TemporaryDirectory() as work:
        image = Path(work) / "initramfs"
        shutil.copy(guest.base, image)
        with open(image, "ab") as output:
            archive = initramfs.Archive(output)
            suites.add_to(archive, guest.tools, table, built, Path(work))
            archive.close()
        outcome = qemu.boot(kernel, image, log, log.with_suffix(".console.log"), limit, niceness=niceness)
    boot_s = f"{outcome.boot_s:.1f} s to boot" if outcome.boot_s else "no boot"
    say(f"{kernel.version} {', '.join(suite.name for suite in table)}: {boot_s}, {outcome.wall_s:.0f} s in all")
    return log, outcome, parts(qemu.read(log))


def run_command(name, command, limit_s, logs, virtual_time, files, release, agent):
    """Boots one guest for one shell command, prints what it prints, and returns its exit status."""
    kernel = kernels.fetch(name, whisper)
    tools = tools_for(kernel.machine, whisper)
    programs = suites.build_programs(release, kernel.machine)
    if kernel.machine.target and agent:
        programs["pendulum"] = agent
    home = logs / kernel.version
    home.mkdir(parents=True, exist_ok=True)
    # Of its own process: two may run at once.
    log, console = (home / f"run-{os.getpid()}.{kind}" for kind in ("log", "console.log"))
    with tempfile.TemporaryDirectory() as work:
        image = Path(work) / "initramfs"
        with open(image, "wb") as output:
            initramfs.base_archive(kernel, tools, suites.HERE / "init", output)
            archive = initramfs.Archive(output)
            suites.add_command(archive, tools, command, programs, Path(work))
            for path in files:
                archive.tree(path.resolve())
            archive.close()
        whisper(f"booting {kernel.release} for: {command}")
        outcome = qemu.boot(kernel, image, log, console, lambda _: ("the command", limit_s), virtual_time, patience=1)
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


def tools_for(machine, report):
    """Where the programs of a machine's guests come from: this machine, or Debian's packages for that processor."""
    if machine.target is None:
        return machines.Tools()
    lists = subprocess.run(["bash", "-c", ". dev.d/packages.sh; packages_for guest"], cwd=suites.ROOT, capture_output=True, text=True, check=True)
    return machines.ForeignTools(kernels.foreign_tools(machine, lists.stdout.split(), report), machine.multiarch)


@dataclass
class Guest:
    """What all guests of a kernel have in common: `base` is the archive of everything but the tests."""

    kernel: kernels.Kernel
    tools: machines.Tools
    base: Path


class Bases:
    """The kernels, and the file systems of their guests, each made when it is first asked for."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.made = {}
        self.lock = threading.Lock()

    def get(self, name):
        """What guests of that kernel have; KernelError if it cannot be had."""
        with self.lock:
            if name not in self.made:
                kernel = kernels.fetch(name, say)
                tools = tools_for(kernel.machine, say)
                base = self.directory / name
                with open(base, "wb") as output:
                    initramfs.base_archive(kernel, tools, suites.HERE / "init", output)
                self.made[name] = Guest(kernel, tools, base)
            return self.made[name]


def run_on(bases, name, table, built, options):
    """The suites of one guest on one kernel. A kernel that cannot be had fails, or is skipped if that was asked for."""
    try:
        guest = bases.get(name)
    except kernels.KernelError as error:
        cells = []
        for suite in table:
            cell = Cell(name, suite.name, counts.Counts(suite.name))
            if options.skip_missing:
                cell.counts.skipped = 1
                cell.counts.skips.append(str(error))
            else:
                cell.counts.fail(str(error))
            cells.append(cell)
        return cells
    return run_guest(guest, table, built[guest.kernel.machine.debian], options.logs, options.nice)


def guests(names, table):
    """Kernel and suites of each guest: those with most to do first, so that none is left alone at the end."""
    chosen = [
        (name, shared)
        for name in names
        for shared in suites.guests([suite for suite in table if suite.kernels is None or name in suite.kernels])
    ]
    return sorted(chosen, key=lambda guest: -sum(suite.limit_s for suite in guest[1]))


def table_text(cells):
    """kernel × suite, each passed/failed/skipped; a dash where a suite is not meant for a kernel."""
    names = list(dict.fromkeys(cell.suite for cell in cells))
    rows = [["kernel", *names]]
    for kernel in sorted({cell.kernel for cell in cells}):
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
        print(f"kernel {name:10} {kernel.release if kernel else '(not fetched yet)'}")
    for suite in table:
        what = suite.script or f"group {suite.test}{'' if suite.host else ', here alone'}"
        print(f"suite  {suite.name:10} {what}; at most {suite.limit_s} s; kernels: {', '.join(suite.kernels or ['all'])}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="such as 6.1, or arm64 for all of another machine; all of amd64 if none is given")
    parser.add_argument("--suite", action="append", metavar="NAME", help="only this suite, on any kernel that is named; may be repeated")
    parser.add_argument("--group", action="append", metavar="NAME", help="only the suites to which this group of ./dev test leaves tests; may be repeated")
    parser.add_argument("--only", metavar="WORDS", help="only the tests that these words of libtest choose")
    parser.add_argument("--agent", type=Path, metavar="FILE", help="the agent of guests whose processor is not this machine's, in place of one built with the tests")
    parser.add_argument("--logs", type=Path, default=suites.ROOT / "target/vm", help="where the guests' output goes")
    parser.add_argument("--skip-missing", action="store_true", help="a kernel that cannot be fetched is skipped, not failed")
    parser.add_argument("--run", metavar="COMMAND", help="boot one kernel for this shell command; it finds pendulum and pendulum-lab")
    parser.add_argument("--file", type=Path, action="append", default=[], metavar="PATH", help="a file or directory that the command of --run finds under its absolute path; may be repeated")
    parser.add_argument("--limit", type=int, metavar="S", help="end a suite after so many seconds of processor time, the command of --run after so many [7200]")
    parser.add_argument("--real-time", action="store_true", help="the clock of --run is this machine's, not a count of instructions")
    parser.add_argument("--release", action="store_true", help="the programs of --run are optimised, and pendulum-bench is among them")
    parser.add_argument("--nice", type=int, default=0, metavar="N", help="let other work of this machine go first")
    parser.add_argument("--list", action="store_true", help="print the kernels and suites, and stop")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if platform.machine() != "x86_64":
        sys.exit(f"vm: the guests are x86_64 and their programs come from this machine, which is {platform.machine()}")
    if arguments.run:
        if len(arguments.kernels) != 1:
            sys.exit("vm: --run takes exactly one kernel, such as 6.12")
        for path in arguments.file:
            if not path.exists():
                sys.exit(f"vm: --file {path}: there is no such file")
        qemu.check(kernels.machine(kernels.select(arguments.kernels)[0]).emulator[0])
        return run_command(
            arguments.kernels[0], arguments.run, arguments.limit or 7200, arguments.logs, not arguments.real_time, arguments.file, arguments.release,
            arguments.agent,
        )  # fmt: skip
    table = suites.load()
    if arguments.list:
        list_table(table)
        return 0
    if arguments.suite:
        table = suites.named(table, arguments.suite, arguments.kernels)
    if arguments.group:
        table = [suite for name in arguments.group for suite in suites.only_in_guests(table, name)]
    if arguments.limit:
        table = [dataclasses.replace(suite, limit_s=arguments.limit) for suite in table]
    names = kernels.select(arguments.kernels)
    if arguments.only and any(kernels.machine(name).target for name in names):
        sys.exit("vm: --only asks the test programs for their tests, which those of another processor do not tell here: name amd64's kernels, or --suite")
    for program in {kernels.machine(name).emulator[0] for name in names}:
        qemu.check(program)
    begin = time.monotonic()
    built = {}
    for machine in {kernels.machine(name) for name in names}:
        wanted = [suite for name, shared in guests(names, table) for suite in shared if kernels.machine(name) == machine]
        built[machine.debian] = suites.build_all(wanted, machine, arguments.agent if machine.target else None)
    if arguments.only:
        table = suites.chosen_tests(table, built["amd64"], shlex.split(arguments.only))
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(GUESTS_AT_ONCE) as pool:
        bases = Bases(work)
        runs = [pool.submit(run_on, bases, name, shared, built, arguments) for name, shared in guests(names, table)]
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
    except (kernels.KernelError, qemu.QemuError, suites.SuiteError, machines.MissingTool) as error:
        sys.exit(f"vm: {error}")
