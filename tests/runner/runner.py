#!/usr/bin/env python3
"""Runs test groups: one build, then two groups at a time, and behind them what sends no packets, with the guests.

    runner.py --logs DIRECTORY [--repeat N] [--load] [GROUP…] [-- FILTER… [LIBTEST'S OPTION…]]

What suites.toml says is judged in guests runs there, and not on this machine.

`./dev test` installs what this needs. At its end: the time of each group, what failed and was skipped, and the line that counts.
"""

import argparse
import dataclasses
import json
import os
import shlex
import shutil
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import counts
import groups
import processes
import repeats
import selection
import shown
import times

sys.path.insert(0, str(groups.ROOT / "tests/vm"))

import suites  # noqa: E402 # from tests/vm

# Tests with real packets mostly wait.
LIVE_AT_ONCE = 2
# What sends none lets them go first, and the guests, which no delay can hurt, let all go first.
CALM_NICENESS = 5
GUEST_NICENESS = 10
# What keeps the processors busy is not to starve them.
GUEST_NICENESS_LOADED = -3

LONG_LIMIT_S = 4 * 3600

# EX_NOPERM of sysexits.h.
NO_PERMISSION = 77

# libtest tells how long each test took only if it may do what is not stable.
UNSTABLE = {"RUSTC_BOOTSTRAP": "1"}
REPORT_TIME = ["-Zunstable-options", "--report-time"]


@dataclass
class Options:
    """What was asked for."""

    logs: Path
    target: Path
    arguments: list
    table: groups.Table
    env: dict = field(default_factory=dict)
    # Of the guests only what these groups leave to them; all suites if there are none.
    guests_of: list = field(default_factory=list)
    guest_limit_s: int | None = None
    guest_niceness: int = GUEST_NICENESS


PROCESSES = processes.Processes()
SPEAKING = threading.Lock()


def say(text):
    # One write: several threads speak.
    sys.stderr.write(f"dev: {text}\n")
    sys.stderr.flush()


def on_this_machine(program, options):
    """Words for a test program that leave out what the guests judge; None if that is all."""
    table = suites.only_in_guests(suites.load(), program.group)
    if not table:
        return options.arguments
    theirs = {name for suite in table for name in selection.listed(program.path, program.directory, suite.arguments)}
    ours = [name for name in selection.listed(program.path, program.directory, options.arguments) if name not in theirs]
    return selection.exactly(ours, options.arguments) if ours else None


def libtest(program, group, options):
    """The step that runs one of cargo's test programs as cargo would, or none."""
    words = on_this_machine(program, options)
    if words is None:
        return []
    threads = [f"--test-threads={group.threads}"] if group.threads else []
    return [processes.Step([program.path, *words, *threads, "--show-output", *REPORT_TIME], program.directory, UNSTABLE | options.env)]


def guests(options):
    """The step that runs the suites of the guests: all, or those to which the named groups leave tests."""
    command = [sys.executable, "tests/vm/run.py", "--logs", options.target / "vm", "--nice", options.guest_niceness]
    command += [word for name in options.guests_of for word in ("--group", name)] if options.guests_of else ["--skip-missing"]
    command += ["--only", shlex.join(options.arguments)] if options.arguments else []
    command += ["--limit", options.guest_limit_s] if options.guest_limit_s else []
    return processes.Step(command, env=options.env)


def steps_of(group, built, options):
    """What a group runs."""
    python = [sys.executable]
    if group.name == "doc":
        return [processes.Step(["cargo", "test", "--workspace", "--doc", "--locked", "--no-fail-fast", "--", *options.arguments, "--show-output"])]
    if group.name == "scripts":
        unittest = [*python, "-m", "unittest", "discover", "--pattern", "*_test.py", "--start-directory"]
        return [processes.Step([*unittest, f"tests/{directory}"]) for directory in ("runner", "vm", "mutants")]
    if group.name == "package":
        env = {"PENDULUM_PROGRAM": str(options.target / "debug/pendulum")}
        return [processes.Step([*python, "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/package", "--pattern", "*_test.py"], env=env)]
    if group.name == "vm":
        return [guests(options)]
    return [step for program in built.programs if program.group == group.name for step in libtest(program, group, options)]


def run_group(group, built, missing, options):
    """Runs a group to its end; returns its counts and the seconds it took."""
    begin = time.monotonic()
    log = options.logs / f"{group.name}.log"
    niceness = 0 if group.name == "vm" or not group.calm else CALM_NICENESS
    status = 0
    with open(log, "wb") as output:
        for step in steps_of(group, built, options):
            status = PROCESSES.run(step, output, niceness, group.limit_s) or status
    with open(log, encoding="utf-8", errors="replace") as lines:
        counted = counts.count(lines, status, group.name)
    for name in missing:
        counted.fail(f"{name} was not built: the reason is in {options.logs / 'build.log'}")
    return counted, time.monotonic() - begin


class Session:
    """Groups that wait, and what came of those that ran."""

    def __init__(self, chosen, built, missing, options):
        self.waiting = {
            "live": [group for group in chosen if not group.calm],
            "calm": [group for group in chosen if group.calm and group.name != "vm"],
            "guests": [group for group in chosen if group.name == "vm"],
        }
        self.built, self.missing, self.options = built, missing, options
        self.lock = threading.Lock()
        self.ended = []

    def lane(self, kind):
        """Runs one waiting group after the other."""
        while True:
            with self.lock:
                if not self.waiting[kind]:
                    return
                group = self.waiting[kind].pop(0)
            say(f"test group '{group.name}' begins")
            counted, seconds = run_group(group, self.built, self.missing.get(group.name, []), self.options)
            with self.lock:
                self.ended.append((group, counted, seconds))
            self.show(group, seconds)

    def show(self, group, seconds):
        """What is worth reading of a group's output, in one piece."""
        log = self.options.logs / f"{group.name}.log"
        with SPEAKING:
            with open(log, encoding="utf-8", errors="replace") as lines:
                sys.stdout.writelines(shown.shown(lines))
            sys.stdout.flush()
            say(f"test group '{group.name}' took {seconds:.0f} s; all it printed: {log}")

    def run(self):
        kinds = ["live"] * LIVE_AT_ONCE + ["calm", "guests"]
        lanes = [threading.Thread(target=self.lane, args=(kind,), daemon=True) for kind in kinds]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()


def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def report(ended, build_s, total_s, options):
    """The time of each group, and the counts; returns the exit status."""
    order = [group.name for group in options.table.groups]
    ended.sort(key=lambda end: order.index(end[0].name))
    print("\ntime of each group (min:s); two run at once, the calm ones and the guests beside them:")
    print(f"  {'build':12} {clock(build_s):>6}")
    for group, counted, seconds in ended:
        of = f"{counted.passed} passed, {counted.failed} failed, {counted.skipped} skipped"
        print(f"  {group.name:12} {clock(seconds):>6}  {group.layer:10}  {of}")
    print(f"  {'all':12} {clock(total_s):>6}\n")
    records = [asdict(counted) for _, counted, _ in ended]
    (options.logs / "counts").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return counts.total(records)


def chosen_groups(table, names):
    """The groups of that name, in the table's order, and the groups that leave tests to guests; all of them if none is given."""
    for name in names:
        table.find(name)
    chosen = [group for group in table.groups if not names or group.name in names]
    left = [] if any(group.name == "vm" for group in chosen) else suites.groups_with_guests([group.name for group in chosen])
    return (chosen + [table.find("vm")] if left else chosen), left


def build(chosen, options):
    """Builds what the groups need; returns it with what is missing, by group, and the seconds it took."""
    begin = time.monotonic()
    options.logs.mkdir(parents=True, exist_ok=True)
    for stale in options.logs.glob("*.log"):
        stale.unlink()
    # The guests of some groups need no more than these groups.
    names = [group.name for group in chosen if group.name != "vm" or not options.guests_of]
    say(f"building the tests; what cargo says: {options.logs / 'build.log'}")
    built = groups.build(names, options.logs / "build.log")
    seconds = time.monotonic() - begin
    say(f"built after {seconds:.0f} s")
    if built.status:
        sys.stderr.write((options.logs / "build.log").read_text(encoding="utf-8", errors="replace"))
    have = {(program.group, program.target, program.kind) for program in built.programs}
    missing = {}
    for group, target, kind in groups.targets():
        if group in names and (group, target, kind) not in have:
            missing.setdefault(group, []).append(target)
    return built, missing, seconds


def run_once(chosen, built, missing, options):
    """Runs the groups; what came of them. Those are left out of which the guests judge all that was asked for."""
    here = [group for group in chosen if group.name in missing or steps_of(group, built, options)]
    session = Session(here, built, missing, options)
    session.run()
    return session.ended


def run_chosen(chosen, options, times_each):
    """Builds the groups, runs them so many times, and reports."""
    begin = time.monotonic()
    built, missing, build_s = build(chosen, options)
    rounds = []
    try:
        for number in range(1, times_each + 1):
            if times_each > 1:
                say(f"round {number} of {times_each}")
            ended = run_once(chosen, built, missing, options)
            rounds.append([counted for _, counted, _ in ended])
            if times_each > 1:
                keep_failed(ended, number, options)
        status = report(ended, build_s, time.monotonic() - begin, options)
    finally:
        # Rounds that ended count, whatever ends this one.
        if times_each > 1:
            print("\n".join(["", *repeats.summary(rounds)]), flush=True)
    return 1 if any(counted.failed for counts_of_round in rounds for counted in counts_of_round) else status


def keep_failed(ended, number, options):
    """The logs of what failed, which the next round would write anew."""
    for group, counted, _ in ended:
        if counted.failed:
            kept = options.logs / f"round-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir()
            shutil.copy(options.logs / f"{group.name}.log", kept)
            if group.name == "vm":
                shutil.copytree(options.target / "vm", kept / "vm")


def run_long(table, names, options):
    """The long forms of tests, one after another."""
    ended, begin = [], time.monotonic()
    longs = [long for long in table.longs if not names or long.group in names]
    chosen, _ = chosen_groups(table, [long.group for long in longs])
    built, missing, build_s = build([group for group in chosen if group.name != "vm"], options)
    for long in longs:
        say(f"long: {long.group} {' '.join(long.filter)}: {long.what}")
        of_this, guests_of = chosen_groups(table, [long.group])
        with_env = dataclasses.replace(options, arguments=long.filter, env=long.env, guests_of=guests_of, guest_limit_s=LONG_LIMIT_S)
        ended += run_once([dataclasses.replace(group, limit_s=LONG_LIMIT_S) for group in of_this], built, missing, with_env)
    return report(ended, build_s, time.monotonic() - begin, options)


def list_groups(table, of_long):
    """Prints the groups, or what has a long form."""
    if of_long:
        for long in table.longs:
            env = " ".join(f"{name}={value}" for name, value in long.env.items())
            print(f"{long.group:12} {' '.join(long.filter):16} {env:32} {long.what}")
        return
    for group in table.groups:
        print(f"{group.name:12} {group.layer:10} {group.judges}")


def positive(word):
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError("at least once")
    return number


def parse_arguments(words):
    of_tests = []
    if "--" in words:
        at = words.index("--")
        words, of_tests = words[:at], [word for word in words[at + 1 :] if word != "--"]
    parser = argparse.ArgumentParser(prog="./dev test", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--logs", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--target", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help="print the groups, or with --long what has a long form")
    parser.add_argument("--names", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--long", action="store_true", help="run the long forms of tests instead")
    parser.add_argument("--repeat", type=positive, default=1, metavar="N", help="run the groups so many times, and say what failed how often")
    parser.add_argument("--load", action="store_true", help=f"with {repeats.BUSY_AT_ONCE} other processes that keep processors busy")
    parser.add_argument("--slowest", nargs="?", type=int, const=30, metavar="N", help="of the last run, the tests that took longest [30]")
    arguments = parser.parse_args(words)
    return arguments, of_tests


def main():
    arguments, of_tests = parse_arguments(sys.argv[1:])
    table = groups.load()
    if arguments.slowest:
        for test in times.slowest(arguments.logs, arguments.target / "vm", arguments.slowest):
            print(test)
        return 0
    chosen, guests_of = chosen_groups(table, arguments.groups)
    if arguments.list:
        list_groups(table, arguments.long)
        return 0
    need_root = [group.name for group in chosen if group.needs_root]
    if need_root and os.geteuid() != 0:
        free = " ".join(group.name for group in table.groups if not group.needs_root)
        say(f"not root, and these groups need namespaces or BPF: {' '.join(need_root)}")
        say(f"run 'sudo ./dev test …', or without root './dev test GROUP…' with any of: {free}")
        return NO_PERMISSION
    if arguments.names:
        print("\n".join(f"{group.name}:{group.layer}" for group in chosen))
        return 0
    options = Options(arguments.logs, arguments.target, of_tests, table, guests_of=guests_of)
    if arguments.load:
        options.guest_niceness = GUEST_NICENESS_LOADED
    with repeats.load(arguments.load):
        if arguments.long:
            return run_long(table, arguments.groups, options)
        return run_chosen(chosen, options, arguments.repeat)


def end(*_):
    PROCESSES.stop()
    sys.exit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    try:
        sys.exit(main())
    except groups.GroupError as error:
        print(f"dev: {error}", file=sys.stderr)
        sys.exit(64)
    except KeyboardInterrupt:
        PROCESSES.stop()
        sys.exit(130)
