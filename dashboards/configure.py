"""Writes rules and dashboards with your severities and the address of your copy of the runbook.

    python3 dashboards/configure.py --runbook-base https://wiki.example/alerts --severity PendulumUplinkLocked=critical --out /etc/prometheus/pendulum

writes rules/*.yml and grafana/*.json below the directory of --out. The Helm chart has the same values: `prometheusRule.runbookBase`, `prometheusRule.severities`.
"""

import argparse
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
#: What stands in the files.
RUNBOOK = "docs/guide/alerts.md"
SEVERITIES = ("critical", "warning", "info")


def severity(text):
    """NAME=SEVERITY."""
    name, _, level = text.partition("=")
    if level not in SEVERITIES:
        raise argparse.ArgumentTypeError(f"{text}: not ALERT=SEVERITY with one of {', '.join(SEVERITIES)}")
    return name, level


def address(text):
    """An alert is read far from this repository: its link must be absolute."""
    if not re.fullmatch(r"https?://[^\s#]+", text):
        raise argparse.ArgumentTypeError(f"{text}: not an address such as https://wiki.example/alerts, without #")
    return text.rstrip("/")


def rules(text, runbook, severities):
    """A rule file with these; `severities` loses the alerts that were found."""
    pieces = re.split(r"(?=^      - alert: )", text, flags=re.M)
    for place, piece in enumerate(pieces):
        name = re.match(r"      - alert: (\w+)$", piece, re.M)
        if name and name.group(1) in severities:
            pieces[place] = re.sub(r"^(          severity: )\w+$", rf"\g<1>{severities.pop(name.group(1))}", piece, count=1, flags=re.M)
    return "".join(pieces).replace(f"runbook_url: {RUNBOOK}#", f"runbook_url: {runbook}#")


def dashboard(text, runbook):
    """A dashboard whose links to the runbook lead there."""
    board = json.loads(text)
    for variable in board["templating"]["list"]:
        if variable["name"] == "runbook":
            variable |= {"query": runbook, "current": {"text": runbook, "value": runbook}}
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Writes rules and dashboards with your severities and your runbook.")
    parser.add_argument("--runbook-base", type=address, metavar="URL", help="the address of your copy of docs/guide/alerts.md")
    parser.add_argument("--severity", type=severity, action="append", default=[], metavar="ALERT=SEVERITY", help="may be repeated")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    severities, runbook = dict(options.severity), options.runbook_base or RUNBOOK
    written = {path.relative_to(HERE): rules(path.read_text(encoding="utf-8"), runbook, severities) for path in sorted(HERE.glob("rules/*.yml"))}
    written |= {path.relative_to(HERE): dashboard(path.read_text(encoding="utf-8"), runbook) for path in sorted(HERE.glob("grafana/*.json"))}
    if severities:
        sys.exit(f"configure.py: no alert of this name: {', '.join(severities)}")
    for name, text in written.items():
        (options.out / name).parent.mkdir(parents=True, exist_ok=True)
        (options.out / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
