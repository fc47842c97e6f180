#!/usr/bin/env python3
"""How long each query of the dashboards takes with a hundred gateways: makes their series, loads them into a Prometheus of its
own on loopback, and prints the slowest. Needs prometheus and promtool in PATH, and 400 MB below the temporary directory.
"""

import itertools
import json
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADDRESS = "127.0.0.1:19191"
GATEWAYS, SAMPLES, STEP = 100, 41, 15
#: A label that has other values in one family than elsewhere.
OWN = {("pendulum_queue_composition_ratio", "kind"): ["tcp_data", "ack", "udp", "other"], ("pendulum_throughput_ratio", "kind"): ["measured", "predicted"],
       ("pendulum_queue_sojourn_seconds", "class"): ["data", "ack"]}
#: By the first part of a recorded name, which names its level.
LEVELS = {"direction": ["up", "down"], "side": ["wan", "lan"]}


def series():
    """Name, labels and whether it counts, for all that one gateway with one link exports and that is recorded of it."""
    reference = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    values = {label: re.findall(r"`([^`]+)`", cell) for label, cell in re.findall(r"^\| `(\w+)` \| (`[^|]+) \|$", reference, re.M)}
    values |= {"link": ["dsl"], "device": ["ppp0"], "program": list("abcdef"), "map": list("abc"), "version": ["0"], "source": ["config"]}
    for name, kind, cell in re.findall(r"^\| `((?:pendulum|process)_\w+)` \| (\w+) \| ([^|]*) \|", reference, re.M):
        labels = re.findall(r"`(\w+)`", cell)
        for chosen in itertools.product(*(OWN.get((name, label), values[label])[:20] for label in labels)):
            known = dict(zip(labels, chosen))
            if kind == "histogram":
                yield from ((f"{name}_bucket", {**known, "le": f"{0.001 * 2 ** place:g}" if place < 15 else "+Inf"}, True) for place in range(16))
            else:
                yield name, known, kind == "counter"
    for name in re.findall(r"record: (\S+)", (ROOT / "dashboards/rules/pendulum-records.yml").read_text(encoding="utf-8")):
        levels = [level for level in name.split(":")[0].split("_") if level in values or level in LEVELS]
        levels = [level for level in levels if level != "link"]
        for chosen in itertools.product(*(LEVELS.get(level) or values[level] for level in levels)):
            yield name, {"link": "dsl", **dict(zip(levels, chosen))}, False
    yield "up", {}, False


def write(path, end):
    """All gateways' samples, in OpenMetrics text."""
    families = {}
    for one in series():
        families.setdefault(one[0], []).append(one)
    print(f"{sum(map(len, families.values()))} series of each of {GATEWAYS} gateways")
    with path.open("w", encoding="utf-8") as file:
        for name, members in families.items():
            file.write(f"# TYPE {name} unknown\n")
            for (_, labels, counts), gateway in itertools.product(members, range(GATEWAYS)):
                labels = {"job": "pendulum", "instance": f"gw{gateway}:9924", **labels}
                head = name + "{" + ",".join(f'{label}="{value}"' for label, value in labels.items()) + "}"
                for place in range(SAMPLES):
                    at = end - STEP * (SAMPLES - 1 - place)
                    value = STEP * place if counts else 1 if name == "up" else at if "timestamp" in name else 0.5
                    file.write(f"{head} {value} {at}\n")
        file.write("# EOF\n")


def ask(path, **fields):
    with urllib.request.urlopen(f"http://{ADDRESS}{path}", urllib.parse.urlencode(fields).encode() if fields else None) as answer:
        return answer.read()


def times(end):
    """Milliseconds, dashboard and panel of each query; the best of three, as Grafana would ask it."""
    everyone = "(" + "|".join(f"gw{gateway}:9924" for gateway in range(GATEWAYS)) + ")"
    for board, instance in (("link", "gw7:9924"), ("fleet", everyone)):
        rows = json.loads((ROOT / f"dashboards/grafana/{board}.json").read_text(encoding="utf-8"))["panels"]
        for panel in (panel for row in rows for panel in [row, *row.get("panels", [])]):
            for target in panel.get("targets", []):
                query = target["expr"]
                for name, value in (("$__rate_interval", "60s"), ("$job", "pendulum"), ("$instance", instance), ("$link", "dsl")):
                    query = query.replace(name, value)
                fields = {"time": end} if target["instant"] else {"start": end - STEP * (SAMPLES - 1), "end": end, "step": STEP}
                spent = []
                for _ in range(3):
                    began = time.monotonic()
                    ask("/api/v1/query" if target["instant"] else "/api/v1/query_range", query=query, **fields)
                    spent.append(1000 * (time.monotonic() - began))
                yield min(spent), board, panel["title"]


def main():
    with tempfile.TemporaryDirectory() as work:
        home, end = pathlib.Path(work), int(time.time())
        write(home / "samples", end)
        subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", home / "samples", home / "data", "-q"], check=True, stdout=subprocess.DEVNULL)
        (home / "empty.yml").write_text("global: {}\n", encoding="utf-8")
        arguments = [f"--config.file={home}/empty.yml", f"--storage.tsdb.path={home}/data", f"--web.listen-address={ADDRESS}", "--log.level=error"]
        with subprocess.Popen(["prometheus", *arguments]) as prometheus:
            try:
                for _ in range(100):
                    try:
                        ask("/-/ready")
                        break
                    except urllib.error.URLError:
                        time.sleep(0.3)
                found = sorted(times(end), reverse=True)
            finally:
                prometheus.terminate()
    for spent, board, title in found[:10]:
        print(f"{spent:6.1f} ms  {board}: {title}")
    print(f"{len(found)} queries")


if __name__ == "__main__":
    main()
