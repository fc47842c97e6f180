"""The programs that a run starts, which end with it."""

import os
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

import groups

# What is asked to end has so long for it.
END_S = 20


@dataclass
class Step:
    """One program of a group."""

    command: list
    directory: Path = groups.ROOT
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
