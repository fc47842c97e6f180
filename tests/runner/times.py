"""How long each test took, read from the logs of the last run."""

import re
from pathlib import Path

BEGUN = re.compile(r"^test (\S+)(?: - should panic)? \.\.\.")
TOOK = re.compile(r"(?:^|\s)(?:ok|FAILED) <([\d.]+)s>$")


def of_log(lines):
    """Seconds and name of each test. What a test prints may stand between its name and its time, where one runs after another."""
    name = None
    for line in (line.rstrip() for line in lines):
        if match := BEGUN.match(line):
            name = match[1]
        if name and (match := TOOK.search(line)):
            yield float(match[1]), name
            name = None


def logs(host, guests):
    """The logs, each with the group or with suite and kernel."""
    for path in sorted(host.glob("*.log")):
        yield path.stem, path
    for path in sorted(guests.glob("*/*.log")):
        if not path.name.startswith(("guest-", "run-")):
            yield f"{path.stem} on {path.parent.name.partition('+')[0]}", path


def slowest(host, guests, count):
    """Lines for a person: the tests that took longest; those of guests by the guest's clock."""
    found = []
    for where, path in logs(Path(host), Path(guests)):
        with open(path, encoding="utf-8", errors="replace") as lines:
            found += [(seconds, where, name) for seconds, name in of_log(lines)]
    return [f"{seconds:7.1f} s  {where}: {name}" for seconds, where, name in sorted(found, reverse=True)[:count]]
