"""What becomes of one mutant: the tests of its room notice it, or they do not."""

import platform
import sys
import time
from dataclasses import dataclass

from rooms import BPF

CAUGHT = "caught"
MISSED = "missed"
# It does not compile, or the kernel's verifier refuses it: no program, nothing to notice.
UNVIABLE = "unviable"

# Tests of a mutant may take so many times what they take without one; not less than the floor.
PATIENCE = 5
LEAST_LIMIT_S = 120
# clang's, by agent/build.rs. Debian's name of it first.
CLANG = ["clang-19", "--target=bpfel", "-mcpu=v3", "-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I", "bpf"]


class Broken(Exception):
    """The tests fail without any mutant: they judge nothing."""


@dataclass
class Verdict:
    mutant: object
    outcome: str
    why: str = ""


def split(arguments):
    """Those for building alone, and all for the run."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments


class Judge:
    def __init__(self, tree, room):
        self.tree, self.room = tree, room
        self.limit_s = LEAST_LIMIT_S

    def cargo(self, arguments, limit_s=None):
        return self.tree.run(["cargo", "test", "--locked", "--quiet", *arguments], limit_s)

    def guests_fail(self):
        """Whether one of the suites fails that look at what the other tests let pass; they have limits of their own."""
        run = [sys.executable, "tests/vm/run.py", "--logs", self.tree.root.parent / "vm"]
        return any(self.tree.run([*run, *arguments]) != 0 for arguments in self.room.guests)

    def check_whole(self):
        """The tests pass as the sources are; how long they may take is known then."""
        reason = self.compile_objects()
        if reason:
            raise Broken(f"{self.room.name}: {reason} without a mutant\n{self.tree.last_words()}")
        longest = 0
        for arguments in self.room.tests:
            build, run = split(arguments)
            if self.cargo([*build, "--no-run"]) != 0:
                raise Broken(f"{self.room.name}: the tests do not build\n{self.tree.last_words()}")
            begin = time.monotonic()
            if self.cargo(run) != 0:
                raise Broken(f"{self.room.name}: the tests fail without a mutant\n{self.tree.last_words()}")
            longest = max(longest, time.monotonic() - begin)
        if self.guests_fail():
            raise Broken(f"{self.room.name}: the guests fail without a mutant\n{self.tree.last_words()}")
        self.limit_s = max(LEAST_LIMIT_S, PATIENCE * longest)

    def compile_objects(self):
        """Why the changed programs are none; None if they are."""
        headers = f"/usr/include/{platform.machine()}-linux-gnu"
        for name in self.room.objects:
            object_file = self.tree.root.parent / f"{name}.o"
            compiled = self.tree.run([*CLANG, "-idirafter", headers, "-c", f"bpf/{name}/{name}.bpf.c", "-o", object_file])
            if compiled != 0:
                return "it does not compile"
            # In a mount namespace of its own: bpftool pins what it loads, and all of it goes with the command.
            load = 'mount -t bpf none /sys/fs/bpf && exec bpftool prog loadall "$1" /sys/fs/bpf/mutant'
            if self.tree.run(["unshare", "--mount", "sh", "-c", load, "sh", object_file]) != 0:
                return "the verifier refuses it"
        return None

    def judge(self, mutant):
        """Make the mutant, let the tests look at it, and take it back."""
        before = self.tree.change(mutant)
        try:
            return self.look_at(mutant)
        finally:
            self.tree.restore(mutant, before)

    def look_at(self, mutant):
        if self.room.kind == BPF:
            reason = self.compile_objects()
            if reason:
                return Verdict(mutant, UNVIABLE, reason)
        for arguments in self.room.tests:
            build, run = split(arguments)
            if self.room.kind != BPF and self.cargo([*build, "--no-run"]) != 0:
                return Verdict(mutant, UNVIABLE, "it does not compile")
            status = self.cargo(run, self.limit_s)
            if status is None:
                return Verdict(mutant, CAUGHT, f"no end after {self.limit_s:.0f} s")
            if status != 0:
                return Verdict(mutant, CAUGHT, self.first_failure())
        if self.guests_fail():
            return Verdict(mutant, CAUGHT, self.first_failure())
        return Verdict(mutant, MISSED)

    def first_failure(self):
        """The name of a test that failed."""
        for line in self.tree.log.read_text(errors="replace").splitlines():
            if line.startswith("---- ") and line.endswith(" stdout ----"):
                return line.split()[1]
            if line.startswith("vm failed: "):
                return line.removeprefix("vm failed: ")
        return "the test program ended early"
