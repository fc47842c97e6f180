#!/usr/bin/env python3
"""Replays simulated captures whose truth is known, and says how far off the replay is.

Each link of a random sample (`sample.py`) is simulated by ns-3 (`scenario.cc`), and replayed from before the uplink's buffer, from behind it and
from both sides, with the rates configured and unknown. A level is compared with the mean that the simulator's buffer held over the same 10 ms (`truth.py`).
`--variant` gives the same links other traffic or buffers, `--defect` spoils their captures.
"""

import argparse
import json
import math
import shlex
import subprocess
import sys
from pathlib import Path

from defects import DEFECTS
from sample import SEGMENT, VARIANTS, draw_link
from truth import PHASES, STEP_S, Truth

HERE = Path(__file__).resolve().parent
LIBRARIES = ["core", "network", "internet", "point-to-point", "stats", "bridge", "traffic-control"]

# A queue's figures are judged after this time, as those of the shared captures are.
WARM_UP_S = 20.0
# What waits when a capture ends is not seen to leave.
END_STEPS = 200
CORRELATION = 0.95
# A correlation says nothing of a queue that hardly moves: its true standard deviation, bytes.
MOVES = 750.0
SHARE = 0.10
RATE = 0.05
COVERED = 0.90

VIEWS = {"before": ["lan"], "behind": ["wan"], "both": ["wan", "lan"]}


def build(work):
    """The scenario program, built if it is older than its source."""
    program, source = work / "scenario", HERE / "scenario.cc"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        work.mkdir(parents=True, exist_ok=True)
        command = ["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", str(source), "-o", str(program), *[f"-lns3-{name}" for name in LIBRARIES]]
        subprocess.run(command, check=True)
    return program


def simulate(program, directory, link):
    """The captures and logs of a link; those that are there are kept if the link is the same."""
    summary = directory / "summary.json"
    if summary.exists() and json.loads(summary.read_text()) == link:
        return
    directory.mkdir(parents=True, exist_ok=True)
    options = [f"--{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in link.items() if key != "name"]
    subprocess.run([str(program), *options, f"--out={directory}"], check=True)
    summary.write_text(json.dumps(link))


class Replay:
    """One replay: its report and its series."""

    def __init__(self, agent, files, link, told):
        self.directory = files[0].parent
        series = self.directory / "series.csv"
        command = [str(agent), "replay", "--wan", str(files[0]), "--series", str(series), "--format", "json"]
        if len(files) > 1:
            command += ["--lan", str(files[1])]
        if told:
            command += ["--uplink-rate", f"{link['cu']}bit", "--downlink-rate", f"{link['cd']}bit"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.error = "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
        if self.error:
            return
        self.report = json.loads(done.stdout)
        self.rows = [line.split(",") for line in series.read_text().splitlines()[1:]]

    def level(self, truth, column, first_s, reach_s=0.0):
        """How the reported levels compare with the true ones. `reach_s`: so much earlier or later the level may be reported; where between provider and
        gateway the downlink's buffer stands, no capture tells. The bounds have to cover the truth at its own time."""
        shifts = [k * STEP_S / 2 for k in range(-int(2 * reach_s / STEP_S), int(2 * reach_s / STEP_S) + 1)]
        compared = [self.level_at(truth, column, first_s, shift) for shift in shifts]
        unshifted = compared[len(compared) // 2]
        best = min(compared, key=lambda level: level.rms if level.rms >= 0 else math.inf)
        best.covered, best.width = unshifted.covered, unshifted.width
        return best

    def level_at(self, truth, column, first_s, shift_s):
        pairs, covered, asked, widths = [], 0, 0, []
        for cells in self.rows:
            time = float(cells[0]) + first_s
            moment = round(time / STEP_S)
            if time < WARM_UP_S or moment >= len(truth.at) - END_STEPS:
                continue
            asked += 1
            if cells[column]:
                level, off = float(cells[column]), float(cells[column + 1])
                true = truth.mean(time + shift_s - STEP_S, time + shift_s)
                pairs.append((true, level))
                widths.append(off)
                covered += abs(true - level) <= off + 1
        return Compared(pairs, covered, asked, widths)


class Compared:
    """How far off a series is."""

    def __init__(self, pairs, covered, asked, widths):
        self.known = len(pairs) / max(1, asked)
        self.width = sum(widths) / len(widths) if widths else math.nan
        self.correlation = self.rms = self.covered = self.deviation = self.bias = math.nan
        if not pairs:
            return
        count = len(pairs)
        self.covered = covered / count
        a, b = (sum(pair[i] for pair in pairs) / count for i in (0, 1))
        self.mean, self.bias = a, b - a
        spread = [math.sqrt(sum((pair[i] - mean) ** 2 for pair in pairs) / count) for i, mean in ((0, a), (1, b))]
        self.deviation = spread[0]
        self.rms = math.sqrt(sum((x - y) ** 2 for x, y in pairs) / count)
        if spread[0] > 0 and spread[1] > 0:
            self.correlation = sum((x - a) * (y - b) for x, y in pairs) / count / spread[0] / spread[1]

    def misses(self, buffer_bytes):
        """Which of the bounds it does not hold."""
        if self.known < 0.5:
            return [f"known {self.known:.2f}"]
        found = []
        if self.deviation >= MOVES and not self.correlation >= CORRELATION:
            found.append(f"corr {self.correlation:.3f}")
        if self.rms > max(2 * SEGMENT, 0.05 * buffer_bytes):
            found.append(f"rms {self.rms:.0f}")
        return found

    def row(self):
        correlation = f"{self.correlation:6.3f}" if self.deviation >= MOVES else "     –"
        return f"{correlation} {self.rms:7.0f} {self.bias:+7.0f} {self.covered:4.2f} ±{self.width:6.0f} {100 * self.known:3.0f}%"


def buffer_bytes(text):
    return int(text[:-1]) * (SEGMENT if text.endswith("p") else 1)


def first_packet_s(path):
    """When a capture begins, in the simulation's time."""
    with open(path, "rb") as file:
        head = file.read(32)
    return int.from_bytes(head[24:28], "little") - 1_700_000_000 + int.from_bytes(head[28:32], "little") / 1e6


def true_verdict(agent, directory):
    """The detector's verdict on the true queues (`verdict.rs`)."""
    first_s = first_packet_s(directory / "wan.pcap")
    program = agent.parent / "examples" / "true-verdict"
    done = subprocess.run([str(program), str(directory), str(first_s)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["verdict"]


def judge(agent, directory, link, views, defect=None):
    """Every replay of a link: a dictionary for the table."""
    truth = Truth(directory, link)
    starved = truth.starved(int(WARM_UP_S / STEP_S))
    bands = [sorted(pair) for pair in zip(truth.shares(SEGMENT), truth.shares(0.0))]
    result = {"truth": true_verdict(agent, directory), "starved": starved, "views": {}, "misses": [], "wrong": []}
    for view in views:
        for told in (True, False):
            names = VIEWS[view]
            files = [directory / f"{name}.pcap" for name in names]
            if defect:
                files = [DEFECTS[defect](path, link) for path in files]
            replay = Replay(agent, files, link, told)
            key = f"{view}{'+rates' if told else ''}"
            result["views"][key] = check(replay, truth, link, bands, first_packet_s(files[0]), told)
    judge_verdicts(result)
    return result


def check(replay, truth, link, bands, first_s, told):
    """One replay against the truth."""
    if replay.error:
        return {"verdict": "error", "misses": [replay.error], "error": replay.error}
    report = replay.report
    levels = {"up": replay.level(truth.up, 1, first_s), "down": replay.level(truth.down, 3, first_s, truth.base_s / 2)}
    misses = []
    for x, level in levels.items():
        buffer = link["bu" if x == "up" else "bd"]
        misses += [f"{x} {miss}" for miss in level.misses(buffer_bytes(buffer))]
        if level.known > 0 and level.covered < COVERED:
            misses.append(f"{x} covered {level.covered:.2f}")
    off = 0.0
    known = sum(report["phase_share"].values())
    for name, (low, high) in zip(PHASES, bands):
        share = report["phase_share"][name]
        off = max(off, low - share, share - high)
    if off > SHARE:
        misses.append(f"phases {off:.2f}")
    rates = [report["link"]["uplink_rate_bps"], report["link"]["downlink_rate_bps"]]
    for x, found in zip("UD", rates):
        if not told and found is not None and abs(found / truth.rates[x][1][-1] - 1) > RATE:
            misses.append(f"rate {x} {100 * (found / truth.rates[x][1][-1] - 1):+.0f}%")
    return {"verdict": report["verdict"], "vantage": report["vantage"], "by": report["vantage_by"], "levels": levels, "phases": off,
            "known": known, "rates": rates, "misses": misses, "shares": report["phase_share"], "report": report}


def judge_verdicts(result):
    """Verdicts that deny a queue that starves somebody, then those that differ."""
    views = result["views"]
    for key, view in views.items():
        if result["starved"] and view["verdict"] in ("balanced", "one_way", "clear"):
            result["wrong"].append(f"{key}: {view['verdict']} while the {result['starved']}'s queue starves the other direction")
    for told in ("+rates", "") if {"before", "behind"} <= views.keys() else ():
        before, behind = (views[f"{view}{told}"]["verdict"] for view in ("before", "behind"))
        if before != behind:
            result["misses"].append(f"verdict{told} {before}, behind {behind}")


def describe(link):
    return (f"{link['name']:10} {link['cd'] / 1e6:5.2f}/{link['cu'] / 1e6:5.2f} {link['bd']:>8} {link['bu']:>8} tp {link['tp']:2} "
            f"far {link['far']:11} ack {link['delack']} {'' if link['timestamps'] else 'no ts '}{transports(link)}")


def transports(link):
    return "+".join(sorted({flow.split(":")[-1].removeprefix("Tcp").replace("LinuxReno", "reno") for flow in link["flows"].split(";")}))


def show(number, link, result):
    print(f"{number:3} {describe(link)}  truth: {result['truth']}{' (starved)' if result['starved'] else ''}")
    for key, view in result["views"].items():
        if "levels" not in view:
            print(f"      {key:13} {view['error']}")
            continue
        rates = " ".join("    none" if rate is None else f"{100 * (rate / true - 1):+7.1f}%" for rate, true in zip(view["rates"], (link["cu"], link["cd"])))
        up, down = view["levels"]["up"], view["levels"]["down"]
        print(f"      {key:13} up {up.row()}  down {down.row()}  phases {view['phases']:4.2f}  rates {rates}  {view['verdict']} ({view['by']})"
              f"{'  ** ' + ', '.join(view['misses']) if view['misses'] else ''}")
    for wrong in result["wrong"]:
        print(f"      WRONG {wrong}")
    sys.stdout.flush()


def summarize(results):
    """How many links hold each bound."""
    columns = [column for column in results[0]["views"]]
    print(f"\n{len(results)} links; links on which each bound holds:\n")
    print(f"{'':45} " + " ".join(f"{column:>13}" for column in columns))

    def count(label, holds):
        print(f"{label:45} " + " ".join(f"{sum(1 for r in results if holds(r, r['views'][c], c)):13}" for c in columns))

    def free_of(*words):
        return lambda result, view, column: "levels" in view and not any(miss.startswith(words) for miss in view["misses"])

    count("uplink: correlation, RMS", free_of("up corr", "up rms", "up known"))
    count("downlink: correlation, RMS", free_of("down corr", "down rms", "down known"))
    count("phase shares within 0.10", free_of("phases"))
    count("uplink: uncertainty covers the truth in 90 %", free_of("up covered"))
    count("downlink: the same", free_of("down covered"))
    count("rates within 5 %, or none", free_of("rate"))
    for x, name in (("up", "uplink"), ("down", "downlink")):
        cells = []
        for column in columns:
            levels = [r["views"][column]["levels"][x] for r in results if "levels" in r["views"][column]]
            widths = sorted(level.width for level in levels if level.known > 0)
            cells.append(f"{widths[len(widths) // 2] if widths else math.nan:13.0f}")
        print(f"{f'{name}: median of the mean half-widths, bytes':45} " + " ".join(cells))
    count("verdict of the true queues", lambda result, view, column: view["verdict"] == result["truth"])
    count("verdict as from behind with rates", lambda result, view, column: view["verdict"] == result["views"].get("behind+rates", view)["verdict"])
    print(f"denials of a queue that starves a direction: {sum(len(r['wrong']) for r in results)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=int, default=30, help="size of the sample [30]")
    parser.add_argument("--seed", type=int, default=1, help="of the sample [1]")
    parser.add_argument("--only", type=int, action="append", help="this link of the sample only")
    parser.add_argument("--variant", choices=sorted(VARIANTS), help="simulate the links with other traffic or buffers")
    parser.add_argument("--defect", choices=sorted(DEFECTS), help="spoil the captures in this way")
    parser.add_argument("--agent", type=Path, required=True, help="the program `pendulum`")
    parser.add_argument("--work", type=Path, required=True, help="where captures are kept")
    parser.add_argument("--views", nargs="+", choices=VIEWS, default=list(VIEWS), help="where the captures were taken [all]")
    parser.add_argument("--simulate-only", action="store_true", help="make the captures and end")
    options = parser.parse_args()
    program = build(options.work)
    results = []
    for number in options.only or range(options.links):
        link = draw_link(options.seed, number, options.variant)
        directory = options.work / f"seed{options.seed}" / f"{number}{f'-{options.variant}' if options.variant else ''}"
        simulate(program, directory, link)
        if options.simulate_only:
            continue
        result = judge(options.agent, directory, link, options.views, options.defect)
        show(number, link, result)
        results.append(result)
    if results:
        print(f"\n{shlex.join(sys.argv[1:])}")
        summarize(results)


if __name__ == "__main__":
    main()
