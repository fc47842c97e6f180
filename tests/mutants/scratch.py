"""A copy of the sources that mutants are made in, with build output of its own: the repository stays as it is."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

# A mutant may make a loop that never ends.
TERM_GRACE_S = 5


def sources(root):
    """Files that git knows or would add, below `root`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, stdout=subprocess.PIPE, check=True
    )
    return [name for name in os.fsdecode(listed.stdout).split("\0") if name and (root / name).is_file()]


def mirror(root, copy):
    """Make `copy` hold what `root` does. A file that is the same stays untouched, so that nothing is built without need."""
    names = set(sources(root))
    for name in names:
        there = copy / name
        content = (root / name).read_bytes()
        if there.is_file() and there.read_bytes() == content:
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(content)
        shutil.copymode(root / name, there)
    for path in copy.rglob("*"):
        if path.is_file() and str(path.relative_to(copy)) not in names:
            path.unlink()


def seed_target(built, target):
    """Take over what is built already: dependencies are the same. Only where nothing is yet."""
    if target.exists() or not (built / "debug" / ".fingerprint").is_dir():
        return
    (target / "debug").mkdir(parents=True)
    for part in ["build", "deps", ".fingerprint"]:
        subprocess.run(["cp", "-a", "--reflink=auto", built / "debug" / part, target / "debug" / part], check=True)


class Tree:
    """The copy. Tests run in it by `run`."""

    def __init__(self, root, place):
        self.root = place / "tree"
        self.target = place / "target"
        self.log = place / "log"
        self.root.mkdir(parents=True, exist_ok=True)
        mirror(root, self.root)

    def change(self, mutant):
        """Make the mutant; what the file was."""
        path = self.root / mutant.file
        before = path.read_text()
        path.write_text(mutant.apply(before))
        return before

    def restore(self, mutant, before):
        (self.root / mutant.file).write_text(before)

    def run(self, command, limit_s=None):
        """The command's exit status, or None if it took longer than `limit_s`. Its output goes to the log."""
        environment = {**os.environ, "CARGO_TARGET_DIR": str(self.target), "CARGO_TERM_COLOR": "never"}
        with open(self.log, "wb") as log:
            child = subprocess.Popen(
                command, cwd=self.root, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            try:
                return child.wait(limit_s)
            except subprocess.TimeoutExpired:
                self.end(child)
                return None

    @staticmethod
    def end(child):
        """It and all that it started."""
        for name in [signal.SIGTERM, signal.SIGKILL]:
            try:
                os.killpg(child.pid, name)
            except ProcessLookupError:
                pass
            try:
                child.wait(TERM_GRACE_S)
            except subprocess.TimeoutExpired:
                continue

    def last_words(self, lines=15):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def place_below(target):
    return Path(target) / "mutants"
