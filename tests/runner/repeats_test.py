"""How often what failed, and the load that comes and goes with a run."""

import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

import repeats
from counts import Counts


def busy_children(parent):
    """Processes of that parent that run the busy loop, which have not ended."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            words = (status.parent / "cmdline").read_text()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z" and "os.getppid()" in words:
            found.append(int(status.parent.name))
    return found


class Summary(unittest.TestCase):
    def test_each_test_is_named_with_how_often_it_failed(self):
        once = Counts("live", failed=1, failures=["t"], why={"t": ["0.4 of the rate"]})
        twice = Counts("vm", failed=2, failures=["6.12 live: u", "6.12 live: u"])
        lines = list(repeats.summary([[Counts("live", passed=2)], [once, twice], [twice]]))
        self.assertEqual(lines, ["failed 2 of 3: vm: 6.12 live: u", "failed 1 of 3: live: t", "    0.4 of the rate"])

    def test_no_failure_is_said(self):
        self.assertEqual(list(repeats.summary([[Counts("live", passed=2)]] * 20)), ["failed 0 of 20"])


class Load(unittest.TestCase):
    def test_it_runs_meanwhile_and_ends(self):
        with repeats.load(True):
            self.assertEqual(len(busy_children(os.getpid())), repeats.BUSY_AT_ONCE)
        self.assertEqual(busy_children(os.getpid()), [])
        with repeats.load(False):
            self.assertEqual(busy_children(os.getpid()), [])

    def test_it_ends_with_a_runner_that_is_killed(self):
        words = "import repeats, time\nwith repeats.load(True):\n    print('busy', flush=True)\n    time.sleep(60)"
        runner = subprocess.Popen([sys.executable, "-c", words], cwd=Path(__file__).parent, stdout=subprocess.PIPE)
        runner.stdout.readline()
        busy = busy_children(runner.pid)
        self.assertEqual(len(busy), repeats.BUSY_AT_ONCE)
        runner.kill()
        runner.communicate()
        end = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in busy):
            self.assertLess(time.monotonic(), end, "still busy")
            time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
