"""The table of suites, and the programs they need."""

import dataclasses
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

sys.path.insert(0, str(ROOT / "tests/runner"))

import groups  # noqa: E402 # from tests/runner
import selection  # noqa: E402 # from tests/runner
from initramfs import merged  # noqa: E402


# What may be set for the tests, by a person or by a long form, and the guests get too.
HANDED_ON = ["PENDULUM_CHAOS", "PENDULUM_LONG", "PENDULUM_STEADY_SECONDS"]

# Around each suite's output in the guest's log.
BEGIN = "PENDULUM-VM suite begins:"
DONE = "PENDULUM-VM suite ended:"

REPORT_TIME = ["-Zunstable-options", "--report-time"]

COMMAND_SUITE = """\
{ { bash /command.sh; echo $? >/status; } 2>&1 >&3 3>&- | cat >/dev/console; } 3>&1 | cat
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
    test: str | None = None
    arguments: list = field(default_factory=list)
    files: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    bpf: list = field(default_factory=list)
    guest: str = "all"
    kernels: list | None = None
    host: bool = True

    def __post_init__(self):
        if (self.script is None) == (self.test is None):
            raise SuiteError(f"suite '{self.name}': give either script or test")


@dataclass
class Programs:
    """What a suite's build made: the test program, the package's directory, and the binaries that it may start. `agent`, if it is given, is what
    the guest has in the place of the agent among them."""

    test: Path
    directory: Path
    binaries: list
    agent: Path | None = None

    def files(self):
        """Each program's path in the guest, and the file that is put there."""
        for path in [self.test, *self.binaries]:
            yield path, self.agent if self.agent and path in self.binaries and path.name == "pendulum" else path


def load(path=HERE / "suites.toml"):
    """All suites, in the order of the table."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return [Suite(**entry) for entry in table["suite"]]
    except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise SuiteError(f"{path}: {error}") from error


def named(table, names, kernels):
    """The suites that a person names, in the order of the table. Who names kernels beside them wants them together, whatever the table has."""
    for name in names:
        if name not in [suite.name for suite in table]:
            raise SuiteError(f"there is no suite '{name}'; there are {', '.join(suite.name for suite in table)}")
    chosen = [suite for suite in table if suite.name in names]
    return [dataclasses.replace(suite, kernels=None) for suite in chosen] if kernels else chosen


def only_in_guests(table, group):
    """The suites whose tests the group leaves to them."""
    return [suite for suite in table if suite.test == group and not suite.host]


def groups_with_guests(names):
    """Those of these groups that leave tests to suites."""
    table = load()
    return [name for name in names if only_in_guests(table, name)]


def chosen_tests(table, built, words):
    """The suites with those of their tests that the words choose, as libtest reads them; without suites in which that is none."""
    chosen = []
    for suite in table:
        if suite.test:
            program = built[suite.name]
            wanted = set(selection.listed(program.test, program.directory, words))
            names = [name for name in selection.listed(program.test, program.directory, suite.arguments) if name in wanted]
            if names:
                chosen.append(dataclasses.replace(suite, arguments=selection.exactly(names, suite.arguments)))
    return chosen


def build_all(table, machine, agent=None):
    """Builds the test programs for a machine, for this one as `./dev test` does, and so only once; returns them by suite. The host runs
    nothing of them. Another machine's toolchain is that of dev.d/package.sh; `agent` is what its guests have in place of what is built."""
    names = list(dict.fromkeys(suite.test for suite in table if suite.test))
    built = groups.build(names, target=machine.target)
    if built.status:
        raise SuiteError("the tests do not build: the reason is above")
    programs = {program.target: Programs(program.path, program.directory, built.binaries, agent) for program in built.programs}
    for name in names:
        if name not in programs:
            raise SuiteError(f"there is no test target '{name}'")
    return {suite.name: programs[suite.test] for suite in table if suite.test}


def build_programs(release, machine):
    """Builds the agent and the testbed for `--run`, with `release` optimised and with the bench; returns them by name."""
    command = ["cargo", "build", "--locked", "--message-format=json-render-diagnostics", "-p", "pendulum", "-p", "pendulum-lab", "--bins"]
    command += ["--release", "-p", "pendulum-bench"] if release else []
    command += ["--target", machine.target] if machine.target else []
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SuiteError("the agent or the testbed does not build: the reason is above")
    messages = map(json.loads, done.stdout.splitlines())
    paths = [Path(m["executable"]) for m in messages if m.get("executable") and "bin" in m["target"]["kind"]]
    return {path.name: path for path in paths}


def add_command(archive, tools, command, programs, work):
    """Puts the programs onto the guest's search path, and a suite that is one shell command."""
    for name, program in programs.items():
        archive.data(f"/usr/bin/{name}", stripped(program, work), 0o755)
        archive.libraries(tools, program)
    archive.data("/command.sh", f"cd /root\n{command}\n", 0o755)
    # Pipes: on the serial line, which is a terminal, programs would draw. What they say beside their output goes to the console.
    archive.data("/suite.sh", COMMAND_SUITE, 0o755)


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
    # Debian's strip knows its own processor only.
    tool = "llvm-strip-19" if shutil.which("llvm-strip-19") else "strip"
    done = subprocess.run([tool, "-g", "-o", copy, program], capture_output=True, check=False)
    return (copy if done.returncode == 0 else Path(program)).read_bytes()


def guests(table):
    """The suites by the guest they share, each list in the order of the table."""
    shared = {}
    for suite in table:
        shared.setdefault(suite.guest, []).append(suite)
    return list(shared.values())


def add_to(archive, tools, table, built, work):
    """Puts suites into a guest's file system: /suite.sh runs them one after another, and marks where each begins and how it ended."""
    lines = []
    for suite in table:
        script = f"/suites/{suite.name}.sh"
        archive.data(script, add_suite(archive, tools, suite, built.get(suite.name), work), 0o755)
        # A program that was killed may have left half a line.
        lines.append(f"printf '\\n{BEGIN} {suite.name} %s\\n' \"$(cut -d ' ' -f 1 /proc/uptime)\"")
        lines.append(f"sh {script}")
        lines.append(f"printf '\\n{DONE} {suite.name} %s %s\\n' $? \"$(cut -d ' ' -f 1 /proc/uptime)\"")
    archive.data("/suite.sh", "\n".join(lines) + "\n", 0o755)


def add_suite(archive, tools, suite, programs, work):
    """Puts what one suite needs into the guest's file system; returns the script that runs it."""
    env = {name: os.environ[name] for name in HANDED_ON if name in os.environ} | suite.env
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(env.items())]
    if suite.script:
        archive.file(HERE / suite.script, "/suite/" + suite.script)
        lines.append(f"exec sh /suite/{suite.script}")
    else:
        for path, program in programs.files():
            if merged(str(path)) not in archive.names:
                archive.data(str(path), stripped(program, work), 0o755)
                archive.libraries(tools, program)
        archive.directory(str(programs.directory))
        lines.append(f"cd {shlex.quote(str(programs.directory))}")
        # libtest tells how long each test took only if it may do what is not stable.
        lines.append("export RUSTC_BOOTSTRAP=1")
        lines.append("exec " + shlex.join([str(programs.test), *suite.arguments, "--show-output", *REPORT_TIME]))
    for name in suite.bpf:
        archive.file(compile_bpf(name, work), "/bpf/" + name.replace(".bpf.c", ".bpf.o"))
    for path in suite.files:
        if not (ROOT / path).exists():
            raise SuiteError(f"suite '{suite.name}': there is no {os.path.join(ROOT, path)}")
        archive.tree(ROOT / path)
    return "\n".join(lines) + "\n"
