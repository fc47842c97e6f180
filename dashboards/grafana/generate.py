#!/usr/bin/env python3
"""Writes link.json and fleet.json; with --check, says whether they are what this would write.

Classic dashboard JSON (schema 39), which Grafana 10 to 12 read and migrate by themselves. `panels.py` knows Grafana's
format, `words.py` names and colours; `link.py` and `fleet.py` have what is shown.
"""

import json
import pathlib
import sys

import fleet
import link
from panels import Grid, constant, dashboard, variable
from words import COLOURS, alerts, numbers_are_recorded

HERE = pathlib.Path(__file__).parent


def annotations():
    """Alerts that want something of somebody, by severity. Changes of the verdict are shown when asked for."""
    firing = alerts("$instance", "$link").removesuffix("}")
    marks = [(f"Alerts: {severity}", True, f'{firing},severity="{severity}"}}', "{{alertname}}", "{{link}} {{direction}}", colour)
             for severity, colour in COLOURS["severity"].items() if severity != "good"]
    verdict = f'pendulum_verdict{{{link.ONE},verdict=~"swinging|locked_uplink|locked_downlink"}} == 1'
    return [*marks, ("Verdict", False, verdict, "{{verdict}}", "{{link}}", COLOURS["verdict"]["swinging"])]


def build():
    # A gateway that is gone is offered as long as it is recorded, a week; `up` has the jobs of others too.
    known = '{__name__=~"pendulum_link_up|link:pendulum_last_seen:timestamp"%s}'
    runbook = constant("runbook", "Runbook", "docs/guide/alerts.md")
    job = variable("job", "Job", f"label_values({known % ''}, job)", all_of=True)
    gateways = 'label_values(up{job=~"$job"}, instance)'
    one, many = Grid(), Grid()
    link.panels(one)
    fleet.panels(many)
    return {
        "link.json": dashboard(
            "pendulum-link", "Pendulum link", "One link: which buffer holds the traffic, and why downloads or uploads starve.", one,
            [job, variable("instance", "Gateway", gateways),
             variable("link", "Link", f"""label_values({known % ',job=~"$job",instance="$instance"'}, link)"""), runbook],
            annotations(), refresh="5s", since="now-15m", links=[("Fleet", "/d/pendulum-fleet", False), ("The gateway's own page", link.PAGE, True)]),
        "fleet.json": dashboard(
            "pendulum-fleet", "Pendulum fleet", "Many gateways, worst links first. Needs the recording rules of dashboards/rules.", many,
            [job, variable("instance", "Gateway", gateways, multi=True, all_of=True),
             variable("link", "Link", f"""label_values({known % ',job=~"$job",instance=~"$instance"'}, link)""", multi=True, all_of=True), runbook],
            annotations()[:1], refresh="1m", since="now-6h", links=[("Link", "/d/pendulum-link", False)]),
    }


def main():
    if not numbers_are_recorded():
        sys.exit("rules/pendulum-records.yml numbers the verdicts otherwise than words.py: link:pendulum_verdict:number")
    stale = []
    for name, board in build().items():
        path, text = HERE / name, json.dumps(board, indent=1, ensure_ascii=False) + "\n"
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        sys.exit(f"not what generate.py writes: {', '.join(stale)}; run {pathlib.Path(__file__).name}")


if __name__ == "__main__":
    main()
