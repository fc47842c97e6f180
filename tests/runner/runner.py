#!/usr/bin/env python3
"""Runs test groups: one build, then two groups at a time, and behind them what tells no real time, with the guests.

    runner.py --logs DIRECTORY [GROUP…] [-- FILTER… [LIBTEST'S OPTION…]]

`./dev test` installs what this needs. At its end: the time of each group, what failed and was skipped, and the line that counts.
"""

import argparse
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import counts
import groups
import shown
import times

# Tests with real packets mostly wait.
LIVE_AT_ONCE = 2
# What tells no real time lets them go first, and the guests, which no delay can hurt, let all go first.
CALM_NICENESS = 5
GUEST_NICENESS = 10

# What is asked to end has so long for it.
END_S = 20
LONG_LIMIT_S = 4 * 3600

# Of the tests with real packets, no more than so many have a second run. See groups.toml.
REPEATED_AT_MOST = 2
# How the runner of the guests names a test: the kernel's version, the suite, the test.
GUEST_TEST = re.compile(r"^(\d+\.\d+)\.\S+ (\S+): (\S+)$")

# libtest tells how long each test took only if it may do what is not stable.
UNSTABLE = {"RUSTC_BOOTSTRAP": "1"}
REPORT_TIME = ["-Zunstable-options", "--report-time"]


@dataclass
class Step:
    """One program of a group."""

    command: list
    directory: Path = groups.ROOT
    env: dict = field(default_factory=dict)


@dataclass
class Options:
    """What was asked for."""

    logs: Path
    target: Path
    arguments: list
    table: groups.Table
    env: dict = field(default_factory=dict)


class Processes:
    """The programs that run, so that they end with this one."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()
        self.stopped = False

    def run(self, step, log, niceness, limit_s):
        """Runs a step to its end, its output added to the log; returns its status. What takes too long is ended, and has failed."""
        with self.lock:
            if self.stopped:
                return 143
            process = subprocess.Popen(
                ["nice", "-n", str(niceness), *map(str, step.command)] if niceness else [str(word) for word in step.command],
                cwd=step.directory, env=os.environ | step.env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self.running.add(process)
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            log.write(f"\ndev: it had not ended after {limit_s} s\n".encode())
            process.terminate()
            status = self.ended(process)
        with self.lock:
            self.running.discard(process)
        return status

    @staticmethod
    def ended(process):
        """The status of a process that was asked to end."""
        try:
            return process.wait(END_S) or 1
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                process.terminate()


PROCESSES = Processes()
SPEAKING = threading.Lock()


def say(text):
    # One write: several threads speak.
    sys.stderr.write(f"dev: {text}\n")
    sys.stderr.flush()


def libtest(program, options, arguments=None):
    """The step that runs one of cargo's test programs as cargo would."""
    words = options.arguments if arguments is None else arguments
    return Step([program.path, *words, "--show-output", *REPORT_TIME], program.directory, UNSTABLE | options.env)


def steps_of(group, built, options):
    """What a group runs."""
    python = [sys.executable]
    if group.name == "doc":
        return [Step(["cargo", "test", "--workspace", "--doc", "--locked", "--no-fail-fast", "--", *options.arguments, "--show-output"])]
    if group.name == "scripts":
        unittest = [*python, "-m", "unittest", "discover", "--pattern", "*_test.py", "--start-directory"]
        return [Step([*unittest, f"tests/{directory}"]) for directory in ("runner", "vm", "mutants")]
    if group.name == "package":
        env = {"PENDULUM_PROGRAM": str(options.target / "debug/pendulum")}
        return [Step([*python, "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/package", "--pattern", "*_test.py"], env=env)]
    if group.name == "vm":
        return [Step([*python, "tests/vm/run.py", "--logs", options.target / "vm", "--skip-missing", "--nice", GUEST_NICENESS])]
    threads = [f"--test-threads={group.threads}"] if group.threads else []
    return [libtest(program, options, [*options.arguments, *threads]) for program in built.programs if program.group == group.name]


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


def once_more(ended, built, options):
    """Runs the tests with real packets that failed a second time, if there are no more of them than may be."""
    failed = [(group, counted) for group, counted, _ in ended if group.real_packets and counted.failed]
    if not 0 < sum(counted.failed for _, counted in failed) <= REPEATED_AT_MOST:
        return
    for group, counted in failed:
        steps = again_steps(group, counted.failures, built, options)
        if not steps:
            continue
        say(f"once more: {group.name}: {', '.join(counted.failures)}")
        log = options.logs / f"{group.name}.again.log"
        status = 0
        with open(log, "wb") as output:
            for step in steps:
                status = PROCESSES.run(step, output, 0, group.limit_s) or status
        with open(log, encoding="utf-8", errors="replace") as lines:
            counted.repeat(counts.count(lines, status, group.name))


def again_steps(group, failures, built, options):
    """What runs just these tests of a group; nothing if one of them is no test but a program that broke off."""
    if group.name == "vm":
        found = [GUEST_TEST.match(failure) for failure in failures]
        vm = [sys.executable, "tests/vm/run.py", "--logs", options.target / "vm-again"]
        return [Step([*vm, match[1], "--suite", match[2], "--exact", match[3]]) for match in found] if all(found) else []
    if any(" " in failure for failure in failures):
        return []
    exact = [*failures, "--exact", "--test-threads=1"]
    return [libtest(program, options, exact) for program in built.programs if program.group == group.name]


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
    """The groups of that name, in the table's order; all of them if none is given."""
    for name in names:
        table.find(name)
    return [group for group in table.groups if not names or group.name in names]


def run_chosen(chosen, options):
    """Builds, runs and reports the groups."""
    begin = time.monotonic()
    options.logs.mkdir(parents=True, exist_ok=True)
    for stale in options.logs.glob("*.log"):
        stale.unlink()
    names = [group.name for group in chosen]
    say(f"building the tests; what cargo says: {options.logs / 'build.log'}")
    built = groups.build(names, options.logs / "build.log")
    build_s = time.monotonic() - begin
    say(f"built after {build_s:.0f} s")
    if built.status:
        sys.stderr.write((options.logs / "build.log").read_text(encoding="utf-8", errors="replace"))
    have = {(program.group, program.target, program.kind) for program in built.programs}
    missing = {}
    for group, target, kind in groups.targets():
        if group in names and (group, target, kind) not in have:
            missing.setdefault(group, []).append(target)
    session = Session(chosen, built, missing, options)
    session.run()
    once_more(session.ended, built, options)
    return report(session.ended, build_s, time.monotonic() - begin, options)


def run_long(table, names, options):
    """The long forms of tests, one after another."""
    ended, begin = [], time.monotonic()
    longs = [long for long in table.longs if not names or long.group in names]
    options.logs.mkdir(parents=True, exist_ok=True)
    built = groups.build([long.group for long in longs], options.logs / "build.log")
    build_s = time.monotonic() - begin
    if built.status:
        sys.stderr.write((options.logs / "build.log").read_text(encoding="utf-8", errors="replace"))
    for long in longs:
        say(f"long: {long.group} {' '.join(long.filter)}: {long.what}")
        of_this = Options(options.logs, options.target, long.filter, table, long.env)
        group = dataclasses.replace(table.find(long.group), limit_s=LONG_LIMIT_S)
        missing = [] if any(program.group == group.name for program in built.programs) else [group.name]
        session = Session([group], built, {group.name: missing}, of_this)
        session.run()
        ended += session.ended
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
    chosen = chosen_groups(table, arguments.groups)
    if arguments.names:
        print("\n".join(group.name for group in chosen))
        return 0
    if arguments.list:
        list_groups(table, arguments.long)
        return 0
    options = Options(arguments.logs, arguments.target, of_tests, table)
    if arguments.long:
        return run_long(table, arguments.groups, options)
    return run_chosen(chosen, options)


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
