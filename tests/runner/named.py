#!/usr/bin/env python3
"""Checks what Markdown files name in code: paths of the repository, commands of ./dev, suites of the guests. Prints those that do not exist."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPAN = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
DEV = re.compile(r"\./dev ([a-z][a-z-]*)")
SUITE = re.compile(r"--suite ([a-z][a-z0-9-]*)")
PATH = re.compile(r"[\w.{},*/-]+")


def code(text):
    """Code within lines, and blocks."""
    return [*SPAN.findall(BLOCK.sub("", text)), *BLOCK.findall(text)]


def alternatives(path):
    """A path, or those of its braces: `a/{b,c}` is `a/b` and `a/c`."""
    found = re.search(r"\{([^{}]*)\}", path)
    if not found:
        return [path]
    return [whole for choice in found[1].split(",") for whole in alternatives(path[: found.start()] + choice + path[found.end() :])]


def missing(text, tops, exists, commands, suites):
    """What the text names that does not exist. `tops`: directories of the repository; `exists`: whether a path is there."""
    for piece in code(text):
        if PATH.fullmatch(piece) and piece.split("/")[0] in tops and "/" in piece:
            yield from (path for path in alternatives(piece) if not exists(path))
        yield from (f"./dev {name}" for name in DEV.findall(piece) if name not in commands)
        yield from (f"--suite {name}" for name in SUITE.findall(piece) if name not in suites)


def commands():
    """The commands that `./dev help` lists."""
    text = (ROOT / "dev").read_text(encoding="utf-8")
    listed = re.search(r"<<'HELP'\n(.*?)\nHELP", text, re.DOTALL)[1]
    return {"help", *re.findall(r"^  ([a-z][a-z-]*)", listed, re.MULTILINE)}


def main():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    tops = {name.split("/")[0] for name in files if "/" in name}
    suites = {suite["name"] for suite in tomllib.loads((ROOT / "tests/vm/suites.toml").read_text(encoding="utf-8"))["suite"]}

    def exists(path):
        return any(ROOT.glob(path.rstrip("/")))

    found = []
    for name in files:
        if name.endswith(".md") and (ROOT / name).exists():
            text = (ROOT / name).read_text(encoding="utf-8")
            found += [f"{name}: {one} does not exist" for one in missing(text, tops, exists, commands(), suites)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
