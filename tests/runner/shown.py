#!/usr/bin/env python3
"""Passes on what is worth reading of a test run's output, which it reads from stdin, as it comes.

    COMMAND 2>&1 | shown.py [--progress]

What a passed test printed is left out, unless it says that the test skipped itself; so are cargo's lines for each crate. With
`--progress`, for somebody who waits at a terminal, each test that passes still has its line.
"""

import re
import sys

import counts

CARGO = re.compile(
    r"^ +(?:Adding|Blocking|Checking|Compiling|Documenting|Doc-tests|Downloaded|Downloading|Finished|Fresh|Locking|Running|Updating)\b"
)
PASSED = re.compile(r"^(?:.* \.\.\. ok(?: <[\d.]+s>)?|test \S+ has been running for over \d+ seconds|\w+ \([\w.]+\))$")
NO_TEST = re.compile(r"^running 0 tests$|^test result: ok\. 0 passed; 0 failed; 0 ignored;")


def shown(lines, progress=False):
    """The lines to show, of libtest's, unittest's, cargo's and the VM runner's."""
    of_passed = False
    blank = True
    for line in lines:
        text = line.rstrip()
        if text == "successes:":
            of_passed = True
        elif text == "failures:" or counts.RESULT.search(text):
            of_passed = False
        if of_passed:
            if counts.SKIPPED.search(text):
                yield line
            continue
        if NO_TEST.match(text) or not progress and (CARGO.match(text) or counts.RUNNING.match(text) or PASSED.match(text)):
            continue
        # What was left out stood between blank lines.
        if text or not blank:
            yield line
        blank = not text


def main():
    for line in shown(sys.stdin, progress=sys.argv[1:] == ["--progress"]):
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    sys.stdin.reconfigure(errors="replace")
    main()
