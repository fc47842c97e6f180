#!/usr/bin/env python3
"""What `./dev package` tells at its end: the files with their sizes, and what was tried, part by part.

    summary.py LOGS PACKAGES    LOGS has `built`, a path a line, `counts`, as tests/runner/counts.py writes them, and `seconds` of
                                each part
"""

import json
import sys
from pathlib import Path


def size(count):
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"


def main():
    logs, packages = map(Path, sys.argv[1:])
    built = [Path(line) for line in (logs / "built").read_text(encoding="utf-8").splitlines()]
    files = [path for path in dict.fromkeys(built) if path.is_file()]
    print(f"\nbuilt, in {packages}:")
    for path in files:
        print(f"  {path.name:44} {size(path.stat().st_size):>10}")
    if not files:
        print("  nothing")
    seconds = dict(line.split() for line in (logs / "seconds").read_text(encoding="utf-8").splitlines())
    print(f"tried (everything each part said is in {logs}):")
    for line in (logs / "counts").read_text(encoding="utf-8").splitlines():
        part = json.loads(line)
        print(f"  {part['group']:10} {part['passed']} passed, {part['failed']} failed, {part['skipped']} skipped; {seconds[part['group']]} s with what had to be built")
    print()


if __name__ == "__main__":
    main()
