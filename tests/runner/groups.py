"""The table of test groups, and the programs that cargo builds for them."""

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# Groups that are no integration test of the workspace.
OTHERS = ["unit", "doc", "scripts", "package", "vm"]
# Groups of another package than the agent's, which start the agent.
START_THE_AGENT = {"demo", "lab", "studies", "package"}


class GroupError(Exception):
    """The table is wrong, or a name is not in it."""


@dataclass
class Group:
    """One line of groups.toml; see there."""

    name: str
    layer: str
    judges: str
    calm: bool = False
    threads: int | None = None
    limit_s: int = 1200

    @property
    def needs_root(self):
        """Whether its tests on this machine need namespaces or BPF."""
        return self.layer in ("namespaces", "TEST_RUN")


@dataclass
class Long:
    """Tests that also have a long form; see groups.toml."""

    group: str
    filter: list
    env: dict
    what: str


@dataclass
class Table:
    """All of groups.toml."""

    groups: list
    longs: list

    def find(self, name):
        for group in self.groups:
            if group.name == name:
                return group
        raise GroupError(f"there is no test group '{name}'; the groups are: {', '.join(group.name for group in self.groups)}")


@dataclass
class Program:
    """A test program: which target it is, where it is, and the directory cargo would run it in."""

    package: str
    target: str
    kind: str
    path: Path
    directory: Path

    @property
    def group(self):
        return self.target if self.kind == "test" else "unit"


@dataclass
class Built:
    """What a build came to: the test programs, the binaries that they start, and whether something is missing."""

    programs: list = field(default_factory=list)
    binaries: list = field(default_factory=list)
    status: int = 0


def load(path=HERE / "groups.toml"):
    """The table."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return Table([Group(**entry) for entry in table["group"]], [Long(**entry) for entry in table["long"]])
    except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise GroupError(f"{path}: {error}") from error


def selection(names):
    """Cargo's words for the groups: all of the workspace at once, so that no group builds a crate anew. None if cargo has nothing to do."""
    if "vm" in names:
        return ["--workspace"]
    tests = [name for name in names if name not in OTHERS]
    if START_THE_AGENT & set(names) and "cli" not in tests:
        # They start the agent. Built for its own tests it is the same one for all; `cargo build` would make one of other features.
        tests.append("cli")
    words = (["--lib", "--bins"] if "unit" in names else []) + [word for name in tests for word in ("--test", name)]
    return ["--workspace", *words] if words else []


def build(names, log=None, target=None):
    """Builds the test programs of the groups, and the programs that the tests start. Cargo's messages go into the file `log` if nobody watches.
    `target` is Rust's name of another machine."""
    words = selection(names)
    if not words:
        return Built()
    command = ["cargo", "test", "--no-run", "--no-fail-fast", "--locked", "--message-format=json-render-diagnostics", *words]
    command += ["--target", target] if target else []
    with open(log or os.devnull, "w", encoding="utf-8") as messages:
        stderr = None if log is None or sys.stderr.isatty() else messages
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)
    lines = done.stdout.splitlines()
    return Built(programs(lines), binaries(lines), done.returncode)


def executables(lines):
    """Cargo's JSON messages about executables."""
    for message in map(json.loads, lines):
        if message.get("reason") == "compiler-artifact" and message.get("executable"):
            yield message


def programs(lines):
    """The test programs in cargo's messages."""
    found = []
    for message in executables(lines):
        if message["profile"]["test"]:
            directory = Path(message["manifest_path"]).parent
            target = message["target"]
            found.append(Program(directory.name, target["name"], target["kind"][0], Path(message["executable"]), directory))
    return found


def binaries(lines):
    """What else was built: the programs that tests start."""
    return [Path(message["executable"]) for message in executables(lines) if not message["profile"]["test"] and "bin" in message["target"]["kind"]]


def targets():
    """The test programs that the groups should have, as (group, target, kind)."""
    command = ["cargo", "metadata", "--no-deps", "--locked", "--format-version", "1"]
    text = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = []
    for package in json.loads(text)["packages"]:
        for target in package["targets"]:
            kind = target["kind"][0]
            if kind in ("lib", "bin", "test") and target["test"]:
                found.append((target["name"] if kind == "test" else "unit", target["name"], kind))
    return found
