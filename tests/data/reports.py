"""What the collectors of tests/data share: reports of `pendulum-lab run … --format json`, and how far a run is to be trusted."""

import json
import statistics

# Of the readings of the queues, one each 20 ms, a machine that keeps up takes so many.
LEAST_READINGS = 0.99
STEADY_SHARE = 0.7


def reports(text):
    """The JSON objects of a text; what stands between them is left out."""
    decoder = json.JSONDecoder()
    at = text.find("{\n")
    while at >= 0:
        report, end = decoder.raw_decode(text, at)
        yield report
        at = text.find("{\n", end)


def kept_up(case):
    """Whether the machine took the readings that were due."""
    due = case["params"]["length_s"] * STEADY_SHARE * 50
    return case["truth"]["queue_readings"] >= LEAST_READINGS * due


def ratio_error(parts):
    """The standard error of the mean ratio, as a share of it: how much the run varies by itself."""
    ratios = [part["ratio"] for part in parts]
    return statistics.stdev(ratios) / len(ratios) ** 0.5 / statistics.mean(ratios)
