#!/usr/bin/env python3
"""Checks every link of the repository's Markdown files to another file, and to a heading in it. Prints those that lead nowhere."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(text):
    """The names by which a rendered page's headings can be reached."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(text)}


def broken(page, text):
    """The links of one page that lead nowhere."""
    for link in LINK.findall(text):
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = page.parent / path if path else page
        if not target.exists():
            yield link
        elif anchor and target.suffix == ".md":
            if anchor not in anchors(text if target == page else target.read_text(encoding="utf-8")):
                yield link


def main():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    pages = [ROOT / name for name in listed if (ROOT / name).exists()]
    found = [(page, link) for page in pages for link in broken(page, page.read_text(encoding="utf-8"))]
    for page, link in found:
        print(f"{page.relative_to(ROOT)}: {link} leads nowhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
