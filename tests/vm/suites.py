"""The table of suites, and the programs they need."""

import dataclasses
import json
import os
import platform
import shlex
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import initramfs
from initramfs import merged

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


# What a person may set for the tests, and the guests get too.
HANDED_ON = ["PENDULUM_LONG"]

# Around each suite's output in the guest's log.
BEGIN = "PENDULUM-VM suite begins:"
DONE = "PENDULUM-VM suite ended:"

REPORT_TIME = ["-Zunstable-options", "--report-time"]

COMMAND_SUITE = """\
{ { bash /command.sh; echo $? >/status; } 2>&1 >&3 3>&- | cat >/dev/ttyS0; } 3>&1 | cat
exit "$(cat /status)"
"""


class SuiteError(Exception):
    """The table is wrong, or a suite's programs do not build."""


@dataclass
class Suite:
    """One line of suites.toml; see there."""

    name: str
    limit_s: int
    script: str | None = None
    package: str | None = None
    target: str | None = None
    arguments: list = field(default_factory=list)
    files: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    bpf: list = field(default_factory=list)
    python: bool = False
    guest: str = "all"
    kernels: list | None = None

    def __post_init__(self):
        if (self.script is None) == (self.package is None or self.target is None):
            raise SuiteError(f"suite '{self.name}': give either script, or package and target")


@dataclass
class Programs:
    """What a suite's build made: the test program, the package's directory, and the package's own binaries."""

    test: Path
    directory: Path
    binaries: list


def load(path=HERE / "suites.toml"):
    """All suites, in the order of the table."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return [Suite(**entry) for entry in table["suite"]]
    except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise SuiteError(f"{path}: {error}") from error


def of_tests(suite, tests):
    """The suite with these tests alone."""
    return dataclasses.replace(suite, arguments=[*tests, "--exact", "--nocapture", "--test-threads=1"])


def build(suite):
    """Builds a cargo suite; the host runs nothing of it."""
    selection = ["--lib"] if suite.target == "lib" else ["--" + suite.target.split()[0], *suite.target.split()[1:]]
    command = ["cargo", "test", "--no-run", "--locked", "--message-format=json-render-diagnostics", "-p", suite.package]
    done = subprocess.run([*command, *selection], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SuiteError(f"suite '{suite.name}' does not build: the reason is above")
    return parse_artifacts(suite, done.stdout.splitlines())


def build_all(table):
    """Builds each program once; returns them by suite."""
    made = {}
    for suite in table:
        if suite.package and (suite.package, suite.target) not in made:
            made[suite.package, suite.target] = build(suite)
    return {suite.name: made[suite.package, suite.target] for suite in table if suite.package}


def build_programs(release):
    """Builds the agent and the testbed for `--run`, with `release` optimised and with the bench; returns their paths."""
    command = ["cargo", "build", "--locked", "--message-format=json-render-diagnostics", "-p", "pendulum", "-p", "pendulum-lab", "--bins"]
    command += ["--release", "-p", "pendulum-bench"] if release else []
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SuiteError("the agent or the testbed does not build: the reason is above")
    messages = map(json.loads, done.stdout.splitlines())
    return [Path(m["executable"]) for m in messages if m.get("executable") and "bin" in m["target"]["kind"]]


def add_command(archive, command, programs, work):
    """Puts the programs onto the guest's search path, and a suite that is one shell command."""
    for program in programs:
        archive.data(f"/usr/bin/{program.name}", stripped(program, work), 0o755)
        for library in initramfs.libraries(program):
            archive.file(library)
    archive.data("/command.sh", f"cd /root\n{command}\n", 0o755)
    # Pipes: on the serial line, which is a terminal, programs would draw. What they say beside their output goes to the console.
    archive.data("/suite.sh", COMMAND_SUITE, 0o755)


def parse_artifacts(suite, lines):
    """Finds the executables in cargo's JSON messages."""
    test, binaries = None, []
    for message in map(json.loads, lines):
        if message.get("reason") != "compiler-artifact" or not message.get("executable"):
            continue
        if message["profile"]["test"]:
            test = message
        elif "bin" in message["target"]["kind"]:
            binaries.append(Path(message["executable"]))
    if test is None:
        raise SuiteError(f"suite '{suite.name}': cargo built no test program for {suite.package}, {suite.target}")
    return Programs(Path(test["executable"]), Path(test["manifest_path"]).parent, binaries)


def compile_bpf(name, directory):
    """Compiles a BPF source beside this file into `directory`; returns the object."""
    output = directory / name.replace(".bpf.c", ".bpf.o")
    command = ["clang-19", "--target=bpfel", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"]
    # The target "bpf" has no directory of its own for <asm/types.h>.
    command += ["-idirafter", f"/usr/include/{platform.machine()}-linux-gnu", "-c", HERE / name, "-o", output]
    if subprocess.run(command, check=False).returncode != 0:
        raise SuiteError(f"{name} does not compile: the reason is above")
    return output


def stripped(program, work):
    """A program's bytes without debug information, which only costs memory in the guest."""
    copy = work / "stripped"
    done = subprocess.run(["strip", "-g", "-o", copy, program], capture_output=True, check=False)
    return (copy if done.returncode == 0 else Path(program)).read_bytes()


def guests(table):
    """The suites by the guest they share, each list in the order of the table."""
    shared = {}
    for suite in table:
        shared.setdefault(suite.guest, []).append(suite)
    return list(shared.values())


def add_to(archive, table, built, work):
    """Puts suites into a guest's file system: /suite.sh runs them one after another, and marks where each begins and how it ended."""
    lines = []
    for suite in table:
        script = f"/suites/{suite.name}.sh"
        archive.data(script, add_suite(archive, suite, built.get(suite.name), work), 0o755)
        # A program that was killed may have left half a line.
        lines.append(f"printf '\\n{BEGIN} {suite.name} %s\\n' \"$(cut -d ' ' -f 1 /proc/uptime)\"")
        lines.append(f"sh {script}")
        lines.append(f"printf '\\n{DONE} {suite.name} %s %s\\n' $? \"$(cut -d ' ' -f 1 /proc/uptime)\"")
    archive.data("/suite.sh", "\n".join(lines) + "\n", 0o755)


def add_suite(archive, suite, programs, work):
    """Puts what one suite needs into the guest's file system; returns the script that runs it."""
    env = {name: os.environ[name] for name in HANDED_ON if name in os.environ} | suite.env
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(env.items())]
    if suite.script:
        archive.file(HERE / suite.script, "/suite/" + suite.script)
        lines.append(f"exec sh /suite/{suite.script}")
    else:
        for program in [programs.test, *programs.binaries]:
            if merged(str(program)) not in archive.names:
                archive.program(program, stripped(program, work))
        archive.directory(str(programs.directory))
        lines.append(f"cd {shlex.quote(str(programs.directory))}")
        # libtest tells how long each test took only if it may do what is not stable.
        lines.append("export RUSTC_BOOTSTRAP=1")
        lines.append("exec " + shlex.join([str(programs.test), *suite.arguments, "--show-output", *REPORT_TIME]))
    if suite.python:
        archive.python()
    for name in suite.bpf:
        archive.file(compile_bpf(name, work), "/bpf/" + name.replace(".bpf.c", ".bpf.o"))
    for path in suite.files:
        if not (ROOT / path).exists():
            raise SuiteError(f"suite '{suite.name}': there is no {os.path.join(ROOT, path)}")
        archive.tree(ROOT / path)
    return "\n".join(lines) + "\n"
