#!/usr/bin/env python3
"""Checks that the modules of each crate use their neighbours in one direction only, and that no crate defines a type's name twice.
Prints every circle and every such name.

Neighbours are modules with the same parent. A module's own files and those below it count, what tests use does not. What a module has
from its parent (`super::Name`) is no use of a neighbour.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CRATES = ["agent/src", "agent/wire/src", "model/src", "tests/lab/src", "tests/reference/src", "benches/src"]
NO_MODULES = {"lib", "main", "tests", "generated", "example"}
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:pub\([a-z]+\) )?mod \w+ \{")
COMMENT = re.compile(r"//[^\n]*")
PATH = re.compile(r"\b(crate|(?:super::)*super)::(?:(\w+(?:::\w+)*)|(?:\w+::)*\{)")
TYPE = re.compile(r"^(?: {4})?(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|union) (\w+)|^(?:pub(?:\([^)]*\))? )?type (\w+)", re.MULTILINE)
STAND_IN = re.compile(r'#\[path = "((?:\w+/)*\w+\.rs)"\]')
NAME = re.compile(r"(?:^|,)\s*(\w+(?:::\w+)*)")


def module_of(path):
    """The names that lead to the module of a file below the crate's sources."""
    *parents, name = Path(path).with_suffix("").parts
    return tuple(parents) if name in ("mod", "lib", "main") else (*parents, name)


def braces(text, start):
    """What stands between a brace that was just opened and the one that closes it, without what stands in braces of its own."""
    depth, found = 1, []
    for character in text[start:]:
        depth += (character == "{") - (character == "}")
        if depth == 0:
            break
        if depth == 1 and character != "}":
            found.append(character)
    return "".join(found)


def used(module, text):
    """Where the paths lead that a file's own code has: names from the crate's root on."""
    code = COMMENT.sub("", TESTS.split(text)[0])
    for match in PATH.finditer(code):
        start, plain = match[1], match[2]
        base = () if start == "crate" else module[: len(module) - start.count("super")]
        if plain:
            yield (*base, *plain.split("::"))
            continue
        inner = tuple(part for part in match[0][len(start) + 2 : -1].split("::") if part)
        for name in NAME.findall(braces(code, match.end())):
            yield (*base, *inner, *name.split("::"))


def graphs(files):
    """For each parent: child → its neighbours that it uses. Of files by their path below the crate's sources."""
    own = {path: module_of(path) for path in files}
    modules = {module[: depth + 1] for module in own.values() for depth in range(len(module)) if not NO_MODULES & set(module)}
    uses = {module: set() for module in modules}
    for path, text in files.items():
        module = own[path]
        if not module or NO_MODULES & set(module):
            continue
        for target in used(module, text):
            depth = next((at for at, (a, b) in enumerate(zip(module, target)) if a != b), None)
            if depth is not None and target[: depth + 1] in modules:
                uses[module[: depth + 1]].add(target[: depth + 1])
    parents = {}
    for module, targets in uses.items():
        parents.setdefault(module[:-1], {})[module[-1]] = {target[-1] for target in targets}
    return parents


def circles(uses):
    """Groups of modules of which each reaches itself by way of others."""
    reached = {module: set(direct) for module, direct in uses.items()}
    for middle in uses:
        for module in uses:
            if middle in reached[module]:
                reached[module] |= reached[middle]
    groups = {frozenset({module} | {other for other in reached[module] if module in reached[other]}) for module in uses if module in reached[module]}
    return sorted(sorted(group) for group in groups)


def twice(files):
    """Names of types that more than one place defines. A file that stands in for a module (`#[path]`) has that module's names."""
    stand_ins = {str(Path(path).parent / name) for path, text in files.items() for name in STAND_IN.findall(text)}
    places = {}
    for path, text in sorted(files.items()):
        if path not in stand_ins:
            for match in TYPE.finditer(text):
                places.setdefault(match[1] or match[2], []).append(path)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def main():
    status = 0
    for crate in CRATES:
        sources = ROOT / crate
        files = {str(path.relative_to(sources)): path.read_text(encoding="utf-8") for path in sources.rglob("*.rs")}
        for parent, uses in sorted(graphs(files).items()):
            for circle in circles(uses):
                status = 1
                edges = [f"{module} uses {', '.join(sorted(uses[module] & set(circle)))}" for module in circle]
                print(f"{'/'.join([crate, *parent])}: a circle of modules: {'; '.join(edges)}")
        for name, places in twice(files).items():
            status = 1
            print(f"{crate}: more than one type is called {name}: {', '.join(places)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
