"""The table of rooms, and the mutants that each can have."""

import json
import re
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# Kinds of rooms: mutants of a table, mutants that cargo-mutants names, constants that are less and more.
BPF = "bpf"
RUST = "rust"
FIGURES = "figures"

# By so much a constant changes.
FACTORS = [0.7, 1.3]
# Constants, and the values that an instance begins with; up to the tests of a file.
CONSTANT = re.compile(r"^(?:pub(?:\([a-z]+\))? )?const \w+: .*?;$|^    fn default\(\) -> Self \{$.*?^    \}$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])\d[\d_]*(?:\.\d+)?(?:e-?\d+)?(?![\w.])")
TESTS = "#[cfg(test)]"
# Types and array lengths are none, nor are bounds of memory.
NO_FIGURE = re.compile(r"\w+: \[\w+; \d+\]|[^\n]*max[^\n]*", re.IGNORECASE)


class TableError(Exception):
    """A table of mutants does not fit the sources."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file, below the repository's root."""

    name: str
    file: str
    # Offsets in the file's text, and what comes between them instead.
    start: int
    end: int
    put: str

    def apply(self, text):
        return text[: self.start] + self.put + text[self.end :]


@dataclass(frozen=True)
class Room:
    name: str
    what: str
    kind: str
    tests: list
    files: list = field(default_factory=list)
    objects: list = field(default_factory=list)
    package: str = ""
    guests: list = field(default_factory=list)


def rooms(path=HERE / "rooms.toml"):
    """All rooms, by name, in the table's order."""
    with open(path, "rb") as file:
        table = tomllib.load(file)["room"]
    return {room["name"]: Room(**room) for room in table}


def from_table(entries, read):
    """Mutants of a table: `find` must be in the file once. `read` gives a file's text by its name."""
    mutants, names = [], set()
    for entry in entries:
        name, file, find = entry["name"], entry["file"], entry["find"]
        text = read(file)
        if text.count(find) != 1:
            raise TableError(f"{name}: its words are {text.count(find)} times in {file}, not once:\n{find}")
        if entry["put"] == find:
            raise TableError(f"{name}: it changes nothing")
        if name in names:
            raise TableError(f"{name}: there are two of this name")
        names.add(name)
        start = text.index(find)
        mutants.append(Mutant(name, f"bpf/{file}", start, start + len(find), entry["put"]))
    return mutants


def offset(text, line, column):
    """Of a line and a column, both counted from 1, the column in characters."""
    start = 0
    for _ in range(line - 1):
        start = text.index("\n", start) + 1
    return start + column - 1


def from_cargo(listing, read):
    """Mutants of the list that `cargo mutants --list --json` prints."""
    mutants = []
    for entry in listing:
        text = read(entry["file"])
        start, end = (offset(text, place["line"], place["column"]) for place in (entry["span"]["start"], entry["span"]["end"]))
        mutants.append(Mutant(entry["name"], entry["file"], start, end, entry["replacement"]))
    return mutants


def scaled(number, factor):
    """A number of Rust's by a factor; a whole one changes by one at least."""
    plain = number.replace("_", "")
    if plain.isdigit():
        value = round(int(plain) * factor)
        return str(value if value != int(plain) else int(plain) + (1 if factor > 1 else -1))
    text = re.sub(r"e([+-]?)0*(\d)", lambda power: f"e{power[1].strip('+')}{power[2]}", f"{float(plain) * factor:.6g}")
    return text if "." in text or "e" in text else f"{text}.0"


def from_figures(file, text):
    """Each number of the file's constants, by each factor."""
    mutants = []
    for constant in CONSTANT.finditer(text.split(TESTS)[0]):
        left_out = [place.span() for place in NO_FIGURE.finditer(constant.group())]
        for number in NUMBER.finditer(constant.group()):
            if float(number.group().replace("_", "")) == 0 or any(a <= number.start() < b for a, b in left_out):
                continue
            start, end = (constant.start() + at for at in number.span())
            place = f"{file}:{text.count(chr(10), 0, start) + 1}:{start - text.rfind(chr(10), 0, start)}"
            for put in (scaled(number.group(), factor) for factor in FACTORS):
                mutants.append(Mutant(f"{place}: replace {number.group()} with {put}", file, start, end, put))
    return mutants


def mutants_of(room, cargo_mutants, root=ROOT):
    """All that a room can have, in an order that does not depend on the machine."""
    if room.kind == BPF:
        with open(HERE / "tables" / f"{room.name}.toml", "rb") as file:
            entries = tomllib.load(file)["mutant"]
        return from_table(entries, lambda file: (root / "bpf" / file).read_text())
    if room.kind == FIGURES:
        files = sorted({path for glob in room.files for path in root.glob(glob) if path.name != "tests.rs"})
        return [mutant for path in files for mutant in from_figures(str(path.relative_to(root)), path.read_text())]
    command = [cargo_mutants, "mutants", "--list", "--json", "--package", room.package]
    for glob in room.files:
        command += ["--file", glob]
    listed = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True)
    mutants = from_cargo(json.loads(listed.stdout), lambda file: (root / file).read_text())
    return sorted(mutants, key=lambda mutant: (mutant.file, mutant.start, mutant.name))
