#!/usr/bin/env python3
"""Reads what test runners print, and counts it.

    counts.py LOG --status N --group NAME    one line of JSON: the counts of that log
    counts.py --total FILE                   the sum of such lines, for a person, and the plain line CI reads

Of a log that is long and shown in part only, the end has to tell all: what failed, and with which words.
"""

import argparse
import json
import re
import sys
from dataclasses import asdict, dataclass, field

RUNNING = re.compile(r"^running \d+ tests?$")
RESULT = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
FAILED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED(?: <[\d.]+s>)?$")
IGNORED = re.compile(r"^test (\S+) \.\.\. ignored(?:, (.*))?$")
SKIPPED = re.compile(r"(?:^|\.\.\. )SKIPPED (.+?): (.+)$")
OUTPUT_OF = re.compile(r"^---- (\S+) stdout ----$")
PANIC = re.compile(r"^(?:.*\s)?thread '([^']+)'(?: \(\d+\))? panicked at (\S+?):?$")
LISTED = re.compile(r"^    (\S+)$")
ERROR = re.compile(r"^Error: ")
NO_PANIC = re.compile(r"^(?:note: run with|stack backtrace:|thread '|failures:|FAILED(?: <[\d.]+s>)?$|$)")
UNITTEST_OF = re.compile(r"^(?:FAIL|ERROR): (\w+) \((?:[\w.]*?\.)?(\w+)(?:\.\1)?\)$")
UNITTEST_WHY = re.compile(r"^[\w.]*(?:Error|Exception|Expired|Exit)\b.*")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ")
UNITTEST_BAD = re.compile(r"^FAILED \((.*)\)$")
VM_SKIPPED = re.compile(r"^vm skipped: (.+)$")
VM_FAILED = re.compile(r"^vm failed: (.+)$")
VM_WHY = re.compile(r"^vm why: (.+)$")
VM = re.compile(r"^vm total: (\d+) passed, (\d+) failed, (\d+) skipped$")

# Of each failure's own words, no more than these are repeated at the end.
WHY_LINES = 8
WHY_COLUMNS = 300


@dataclass
class Counts:
    """How many tests passed, failed and were skipped, and which ones did not pass."""

    group: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list = field(default_factory=list)
    skips: list = field(default_factory=list)
    # What a test said when it failed, by its name: a few lines.
    why: dict = field(default_factory=dict)

    def fail(self, what):
        self.failed += 1
        self.failures.append(what)


class Words:
    """Collects what the tests of a log said: the panics of libtest's tests, the exceptions of unittest's."""

    def __init__(self):
        self.said = {}
        self.test = None  # under whose heading the line stands
        self.panics = None  # whose panic it belongs to

    def read(self, line):
        if match := OUTPUT_OF.match(line):
            self.test, self.panics = match[1], None
        elif match := UNITTEST_OF.match(line):
            self.test, self.panics = f"{match[2]}.{match[1]}", None
        elif RESULT.search(line) or UNITTEST_RAN.match(line):
            self.test, self.panics = None, None
        elif match := PANIC.match(line):
            # What is not captured has no heading; there the thread has the test's name.
            self.panics = self.test or match[1]
            self.keep(self.panics, match[2])
        elif self.panics and not NO_PANIC.match(line):
            self.keep(self.panics, line)
        else:
            self.panics = None
            if self.test and (ERROR.match(line) or UNITTEST_WHY.match(line)):
                self.keep(self.test, line)

    def keep(self, test, line):
        kept = self.said.setdefault(test, [])
        if len(kept) < WHY_LINES:
            kept.append(line[:WHY_COLUMNS])


class Names:
    """Collects the names of the tests that failed in one run of libtest: from their own lines, and from the list at the end, since what
    is not captured may stand between a test's name and its FAILED."""

    def __init__(self):
        self.names = []
        self.in_list = False

    def read(self, line):
        if match := FAILED.match(line):
            self.add(match[1])
        elif line == "failures:":
            self.in_list = True
        elif self.in_list and (match := LISTED.match(line)):
            self.add(match[1])
        elif line:
            self.in_list = False

    def add(self, name):
        if name not in self.names:
            self.names.append(name)

    def take(self):
        """Those of the run that has ended."""
        names, self.names = self.names, []
        return names


def count(lines, status=0, group=""):
    """Counts a log of libtest, of Python's unittest, or of the VM runner, whose command ended with `status`."""
    counts = Counts(group)
    words, names = Words(), Names()
    open_runs, results = 0, 0
    runtime_skips = {}
    for line in (line.rstrip() for line in lines):
        words.read(line)
        names.read(line)
        if RUNNING.match(line):
            open_runs += 1
        elif match := RESULT.search(line):
            open_runs -= 1
            results += 1
            counts.passed += int(match[1])
            counts.failed += int(match[2])
            counts.skipped += int(match[3])
            counts.failures += names.take()
        elif match := IGNORED.match(line):
            counts.skips.append(f"{match[1]}: {match[2] or 'marked as ignored'}")
        elif match := SKIPPED.search(line):
            runtime_skips[results, match[1]] = match[2]
        elif match := UNITTEST_OF.match(line):
            counts.failures.append(f"{match[2]}.{match[1]}")
        elif match := UNITTEST_RAN.match(line):
            counts.passed += int(match[1])
        elif match := UNITTEST_BAD.match(line):
            bad = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", match[1]))
            counts.passed -= bad
            counts.failed += bad
        elif match := VM_SKIPPED.match(line):
            counts.skips.append(match[1])
        elif match := VM_FAILED.match(line):
            counts.failures.append(match[1])
        elif (match := VM_WHY.match(line)) and counts.failures:
            counts.why.setdefault(counts.failures[-1], []).append(match[1])
        elif match := VM.match(line):
            counts.passed, counts.failed, counts.skipped = (int(match[n]) for n in (1, 2, 3))
            open_runs = 0
            runtime_skips = {}
    counts.failures += names.take()
    counts.why |= {name: said for name, said in words.said.items() if name in counts.failures}
    # A test that skips itself returns, so its runner has counted it as passed.
    counts.passed -= len(runtime_skips)
    counts.skipped += len(runtime_skips)
    counts.skips += [f"{name}: {reason}" for (_, name), reason in runtime_skips.items()]
    for _ in range(open_runs):
        counts.fail("a test program ended without a result: it was killed, or it crashed")
    if status != 0 and counts.failed == 0:
        counts.fail(f"the command ended with status {status} before it had counted a failure: see its output")
    return counts


def total(records):
    """Prints failures and skips by name, then one plain line; returns the exit code."""
    for word, key in (("skipped", "skips"), ("FAILED", "failures")):
        for record in records:
            for what in record[key]:
                print(f"{word}: {record['group']}: {what}")
                for line in record["why"].get(what, []):
                    print(f"    {line}")
    passed, failed, skipped = (sum(r[k] for r in records) for k in ("passed", "failed", "skipped"))
    if passed + failed == 0:
        failed = 1
        print("FAILED: no test ran at all")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="?")
    parser.add_argument("--status", type=int, default=0, help="the exit status of the command that wrote LOG")
    parser.add_argument("--group", default="")
    parser.add_argument("--total", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.total:
        with open(arguments.total, encoding="utf-8") as lines:
            return total([json.loads(line) for line in lines])
    with open(arguments.log, encoding="utf-8", errors="replace") as lines:
        print(json.dumps(asdict(count(lines, arguments.status, arguments.group))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
