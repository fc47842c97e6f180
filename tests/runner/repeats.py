"""Groups that run many times, under load if that is asked for: what failed how often."""

import contextlib
import os
import subprocess
import sys

# Processes that `--load` keeps busy. Each ends with the one that started it, however that ends.
BUSY_AT_ONCE = 2
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    sum(range(100_000))"


@contextlib.contextmanager
def load(wanted):
    """Keeps processors busy meanwhile, if wanted."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]) for _ in range(BUSY_AT_ONCE if wanted else 0)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def summary(rounds):
    """Lines for a person: how often each test failed, with its last words. A round is the counts of its groups."""
    failed, why = {}, {}
    for counted in (counted for counts in rounds for counted in counts):
        # Twice in one round is still one round.
        for name in dict.fromkeys(counted.failures):
            test = f"{counted.group}: {name}"
            failed[test] = failed.get(test, 0) + 1
            why[test] = counted.why.get(name, [])
    for test, times in sorted(failed.items(), key=lambda item: -item[1]):
        yield f"failed {times} of {len(rounds)}: {test}"
        yield from (f"    {line}" for line in why[test])
    if not failed:
        yield f"failed 0 of {len(rounds)}"
