#!/usr/bin/env python3
"""Writes link.json and fleet.json; with --check, says whether they are what this would write.

Classic dashboard JSON (schema 39), which Grafana 10 to 12 read and migrate by themselves. `panels.py` knows Grafana's
format; here is what is shown.
"""

import json
import pathlib
import sys

from panels import (Grid, dashboard, heatmap, query, stat, table, target, timeline, timeseries, variable)

HERE = pathlib.Path(__file__).parent
#: In every query of Link: exactly one link of one gateway.
ONE = 'job=~"$job",instance="$instance",link="$link"'
#: In every query of Fleet.
ALL = 'job=~"$job",instance=~"$instance",link=~"$link"'

BLUE, ORANGE, GREY, DARK = "#3182ce", "#e0802f", "#a0a4ab", "#5c6370"
PHASES = [("uplink_bound", "uplink-bound", BLUE), ("downlink_bound", "downlink-bound", ORANGE),
          ("balanced", "balanced", GREY), ("idle", "idle", DARK)]
VERDICTS = [("clear", "clear", DARK), ("one_way", "one way", GREY), ("balanced", "balanced", "#5aa469"),
            ("ack_compression", "ACK compression", "#b7a6d9"), ("swinging", "SWINGING", "#e6c229"),
            ("locked_uplink", "LOCKED UPLINK", BLUE), ("locked_downlink", "LOCKED DOWNLINK", ORANGE)]
CLASSES = "data|ack|dup_ack|sack"
UP, DOWN = 'direction="up"', 'direction="down"'


def rate(metric, more=""):
    return f"rate({metric}{{{ONE}{more}}}[$__rate_interval])"


def numbered(metric, label, values, matchers):
    """One number for a set of 0/1 series, to be mapped to a name: a state timeline has one row for a series."""
    parts = (f'{number} * {metric}{{{matchers},{label}="{value}"}}' for number, (value, *_) in enumerate(values, 1))
    return f"sum without ({label}) ({' or '.join(parts)})"


def strip(title, description, metric, label, values, matchers=ONE, legend="link"):
    return timeline(title, description, numbered(metric, label, values, matchers),
                    {number: (name, colour) for number, (_, name, colour) in enumerate(values, 1)}, legend)


def mirrored(metric, legend):
    """Both directions of a gauge: up above the axis, down below it."""
    return [target(f"{metric}{{{ONE},{UP}}}", f"▲ {legend}"), target(f"{metric}{{{ONE},{DOWN}}}", f"▼ {legend}")]


def two_colours(*legends, fill=0, dashed=False):
    """Blue above, orange below the axis."""
    styles = []
    for legend in legends:
        for mark, colour in (("▲", BLUE), ("▼", ORANGE)):
            styles.append((f"{mark} {legend}", {"colour": colour, "fill": fill, "dashed": dashed, "below": mark == "▼"}))
    return styles


def link_panels(grid):
    grid.row("What is going on")
    grid.add(24, 3, strip("Verdict", "What the agent says of the last seconds to a minute.", "pendulum_verdict", "verdict", VERDICTS))
    grid.add(24, 3, strip("Phase", "Which buffer held a standing queue when Prometheus looked. A swing is faster than that: the next panel counts "
                          "every phase.", "pendulum_phase", "phase", PHASES))
    grid.add(16, 6, timeseries("Time in each phase", "Share of the time, from the agent's counters: nothing is missed between two scrapes. "
                               "Blue and orange in equal parts is the data pendulum; blue alone beside uploads is a lock.", "percentunit",
                               [target(rate("pendulum_phase_seconds_total"), "{{phase}}")], stack=True, limits=(0, 1),
                               styles=[(phase, {"colour": colour, "fill": 70}) for phase, _, colour in PHASES]))
    grid.add(4, 6, stat("Swing", "Period of the swing between both buffers; empty while there is none.", "s",
                        [target(f"pendulum_swing_period_seconds{{{ONE}}}", "period")]))
    grid.add(4, 6, stat("Starved", "Capacity that a direction cannot use because the other one's buffer never empties.", "Bps",
                        [target(f"pendulum_starved_bytes_per_second{{{ONE}}}", "{{direction}}")]))

    grid.row("Queues and rates: up above the axis, down below it")
    grid.add(24, 9, timeseries("Queues", "Bytes in each buffer; shaded: the standing part, which did not go away for a whole round trip. The downlink's "
                               "is estimated where the buffer is the provider's: see Sources.", "bytes",
                               mirrored("pendulum_queue_bytes", "queue") + mirrored("pendulum_queue_standing_bytes", "standing")
                               + mirrored("pendulum_queue_limit_bytes", "limit"),
                               styles=two_colours("queue") + two_colours("standing", fill=45) + two_colours("limit", dashed=True)))
    grid.add(24, 8, timeseries("Throughput and link rate", "Link-layer throughput, moving over 300 ms, against the capacity.", "bps",
                               [target(f"8 * pendulum_throughput_bytes_per_second{{{ONE},{UP}}}", "▲ throughput"),
                                target(f"8 * pendulum_throughput_bytes_per_second{{{ONE},{DOWN}}}", "▼ throughput"),
                                target(f"8 * pendulum_link_rate_bytes_per_second{{{ONE},{UP}}}", "▲ rate"),
                                target(f"8 * pendulum_link_rate_bytes_per_second{{{ONE},{DOWN}}}", "▼ rate")],
                               styles=two_colours("throughput", fill=15) + two_colours("rate", dashed=True)))
    grid.add(12, 7, timeseries("Outstanding data and windows", "Payload sent and not yet acknowledged, over all flows; the congestion windows are those "
                               "of the gateway's own sockets.", "bytes",
                               mirrored("pendulum_in_flight_bytes", "outstanding")
                               + [target(f"pendulum_cwnd_bytes{{{ONE},{UP}}}", "▲ cwnd of local sockets")],
                               styles=two_colours("outstanding", fill=15)))
    grid.add(12, 7, timeseries("Download over upload", "Throughput ratio as measured, and as the model predicts it for this link's buffers.", "none",
                               [target(f"pendulum_throughput_ratio{{{ONE}}}", "{{kind}}")],
                               styles=[("measured", {"colour": BLUE}), ("predicted", {"colour": GREY, "dashed": True})]))

    grid.row("Delay")
    for side, where in (("wan", "the internet"), ("lan", "the home")):
        grid.add(12, 7, heatmap(f"Round trips to {where}", f"From the gateway to {where} and back; segments by their round-trip time.",
                                f'sum by (le) ({increase("pendulum_rtt_seconds_bucket", f",side={chr(34)}{side}{chr(34)}")})', "s"))
    for kind in ("data", "ack"):
        name = "Data" if kind == "data" else "ACKs"
        grid.add(12, 7, heatmap(f"{name} in the uplink buffer", "Packets by the time they spent in it; those that found it empty are not in here.",
                                f'sum by (le) ({increase("pendulum_queue_sojourn_seconds_bucket", f",{UP},class={chr(34)}{kind}{chr(34)}")})', "s"))

    grid.row("Segments")
    grid.add(12, 7, timeseries("ACK classes, up", "ACKs of the downloads by kind; data for comparison.", "pps",
                               [target(rate("pendulum_segments_total", f',{UP},class=~"{CLASSES}"'), "{{class}}")]))
    grid.add(12, 7, timeseries("ACK classes, down", "ACKs of the uploads by kind; data for comparison.", "pps",
                               [target(rate("pendulum_segments_total", f',{DOWN},class=~"{CLASSES}"'), "{{class}}")]))
    grid.add(12, 7, heatmap("ACK bursts, up", "Pure ACKs between two data segments; bursts of tens are ACK compression.",
                            f'sum by (le) ({increase("pendulum_ack_burst_segments_bucket", f",{UP}")})', "none"))
    grid.add(12, 7, timeseries("Losses", "Data segments that were sent again, wherever they were lost, and packets that the gateway's own buffers "
                               "dropped.", "pps",
                               [target(rate("pendulum_retransmitted_segments_total"), "{{direction}} sent again"),
                                target(rate("pendulum_queue_drops_total"), "{{direction}} dropped: {{reason}}")]))
    grid.add(12, 7, timeseries("ACK filter", "ACKs by what the filter did with them. In a dry run `would_hold` is counted and nothing changes.", "pps",
                               [target(rate("pendulum_ack_filter_acks_total"), "{{action}}: {{reason}}")]))
    grid.add(12, 7, timeseries("Flows", "TCP flows that carried payload within the last 5 seconds.", "none",
                               [target(f"pendulum_flows{{{ONE}}}", "{{direction}}")]))

    grid.row("Advice")
    grid.add(12, 5, stat("Buffer: advised and present", "Size that lets both directions be full, and the size that there is; the agent's page has the "
                         "commands.", "bytes",
                         [target(f"pendulum_advised_buffer_bytes{{{ONE}}}", "{{direction}} advised"),
                          target(f"pendulum_queue_limit_bytes{{{ONE}}}", "{{direction}} present")]))
    grid.add(12, 5, table("Sources", "Where the figures come from, best source first: tracepoint before netlink, config before learnt.",
                          [query(f"pendulum_source_info{{{ONE}}}")], keep=["what", "direction", "source"]))

    grid.row("The agent itself", collapsed=True)
    grid.add(8, 7, timeseries("Processor", "Time used by the agent, and by its BPF programs where the kernel measures that.", "percentunit",
                              [target('rate(process_cpu_seconds_total{job=~"$job",instance="$instance"}[$__rate_interval])', "agent"),
                               target(f'sum by (program) ({rate("pendulum_bpf_program_run_seconds_total")})', "{{program}}")]))
    grid.add(8, 7, timeseries("Memory", "Resident memory of the agent.", "bytes",
                              [target('process_resident_memory_bytes{job=~"$job",instance="$instance"}', "resident")]))
    grid.add(8, 7, timeseries("Tables", "Entries of the BPF maps over what they can hold.", "percentunit",
                              [target(f"pendulum_map_entries{{{ONE}}} / pendulum_map_capacity{{{ONE}}}", "{{map}}")], limits=(0, 1)))
    grid.add(12, 7, timeseries("Measurements lost", "What could not be measured, by reason; the packets passed.", "cps",
                               [target(rate("pendulum_lost_total"), "{{reason}}")]))
    grid.add(6, 7, table("Programs", "1: hangs on its device.", [query(f"pendulum_bpf_program_attached{{{ONE}}}")], keep=["program", "Value"]))
    grid.add(6, 7, table("Readings", "1: the newest attempt to read this from the kernel succeeded.",
                         [query(f"pendulum_collector_success{{{ONE}}}")], keep=["collector", "Value"]))


def increase(metric, more=""):
    return f"increase({metric}{{{ONE}{more}}}[$__rate_interval])"


def fleet_panels(grid):
    share = 'link_verdict:pendulum_verdict:avg5m{%s,verdict=~"%s"}'
    wrong = "locked_uplink|locked_downlink|swinging"
    grid.row("At one look")
    grid.add(4, 4, stat("Gateways", "Agents that answer, of all.", "none",
                        [target('sum(up{job=~"$job",instance=~"$instance"})', "up"), target('count(up{job=~"$job",instance=~"$instance"})', "all")]))
    grid.add(4, 4, stat("Links", "Links that are measured, of all.", "none",
                        [target(f"sum(pendulum_link_up{{{ALL}}})", "measured"), target(f"count(pendulum_link_up{{{ALL}}})", "all")]))
    grid.add(4, 4, stat("Links in trouble", "Locked or swinging for more than half of the last five minutes.", "none",
                        [target(f"count(sum without (verdict) ({share % (ALL, wrong)}) > 0.5) or vector(0)", "links")]))
    grid.add(6, 4, stat("Starved", "Capacity that cannot be used because the other direction's buffer never empties, over all links.", "Bps",
                        [target(f"sum by (direction) (link_direction:pendulum_starved_bytes_per_second:avg5m{{{ALL}}})", "{{direction}}")]))
    grid.add(6, 4, stat("Alerts", "Firing, by severity.", "none",
                        [target('count by (severity) (ALERTS{alertname=~"Pendulum.+",alertstate="firing"}) or vector(0)', "{{severity}}")]))

    grid.row("Worst links first; click one to look into it")
    worst = [
        query(f"sum without (verdict) ({share % (ALL, 'locked_uplink|locked_downlink')})", "Locked"),
        query(f"sum without (verdict) ({share % (ALL, 'swinging')})", "Swinging"),
        query(f"sum without (direction) (link_direction:pendulum_starved_bytes_per_second:avg5m{{{ALL}}})", "Starved"),
        query(f"sum without (direction) (link_direction:pendulum_utilization:ratio_rate5m{{{ALL},{DOWN}}})", "Downlink used"),
        query(f"sum without (direction) (link_direction:pendulum_utilization:ratio_rate5m{{{ALL},{UP}}})", "Uplink used"),
        query(f'sum without (side) (link_side:pendulum_rtt_seconds:p95_rate5m{{{ALL},side="wan"}})', "Round trip, p95"),
        query(f"max without (direction) (link_direction:pendulum_retransmitted_segments:ratio_rate5m{{{ALL}}})", "Sent again"),
    ]
    grid.add(24, 10, table("Links", "Over five minutes. Locked, swinging: share of the time. Starved: capacity that cannot be used.", worst,
                           keep=["instance", "link"], sort="Locked",
                           units={"Locked": "percentunit", "Swinging": "percentunit", "Starved": "Bps", "Downlink used": "percentunit",
                                  "Uplink used": "percentunit", "Round trip, p95": "s", "Sent again": "percentunit"},
                           drill_down="/d/pendulum-link?${__url_time_range}&var-job=${job}&var-instance=${__data.fields.instance}"
                                      "&var-link=${__data.fields.link}"))

    grid.row("Over time: the ten worst")
    grid.add(12, 8, timeseries("Share of time locked", "Share of the time with a locked verdict, of the ten links where it is longest.", "percentunit",
                               [target(f"topk(10, sum without (verdict) ({share % (ALL, 'locked_uplink|locked_downlink')}))", "{{instance}} {{link}}")],
                               limits=(0, 1)))
    grid.add(12, 8, timeseries("Throughput lost", "Capacity that cannot be used because the other direction's buffer never empties.", "Bps",
                               [target(f"topk(10, link_direction:pendulum_starved_bytes_per_second:avg5m{{{ALL}}})", "{{instance}} {{link}} {{direction}}")]))
    grid.add(12, 8, timeseries("Changes of phase", "For each second: a swing of 2.5 s has 0.8.", "cps",
                               [target(f"topk(10, link:pendulum_phase_transitions:rate5m{{{ALL}}})", "{{instance}} {{link}}")]))
    grid.add(12, 8, timeseries("Round trip to the internet, p95", "Of the ten slowest links.", "s",
                               [target(f'topk(10, link_side:pendulum_rtt_seconds:p95_rate5m{{{ALL},side="wan"}})', "{{instance}} {{link}}")]))
    grid.add(24, 8, strip("Verdicts", "One row for each link.", "pendulum_verdict", "verdict", VERDICTS, ALL, "{{instance}} {{link}}"))

    grid.row("Agents", collapsed=True)
    grid.add(12, 7, timeseries("Measurements lost", "As a part of the segments.", "percentunit",
                               [target(f"topk(10, link:pendulum_lost:ratio_rate5m{{{ALL}}})", "{{instance}} {{link}}")]))
    grid.add(12, 7, table("Versions", "What runs where.", [query('pendulum_build_info{job=~"$job",instance=~"$instance"}')], keep=["instance", "version"]))


def annotations(matchers):
    return [
        ("Verdict", True, f'pendulum_verdict{{{matchers},verdict=~"swinging|locked_uplink|locked_downlink"}} == 1', "{{verdict}}", "{{link}}", ORANGE),
        ("Alerts", True, 'ALERTS{alertname=~"Pendulum.+",alertstate="firing",instance=~"$instance"}', "{{alertname}}", "{{link}} {{direction}}", "#d64545"),
        # A swing changes phase about every second: shown when asked for.
        ("Phase changes", False, f"increase(pendulum_phase_transitions_total{{{matchers}}}[$__rate_interval]) > 0", "{{from}} → {{to}}", "{{link}}", GREY),
    ]


def build():
    job = variable("job", "Job", "label_values(pendulum_build_info, job)", all_of=True)
    link = Grid()
    link_panels(link)
    fleet = Grid()
    fleet_panels(fleet)
    return {
        "link.json": dashboard(
            "pendulum-link", "Pendulum link", "One link: which buffer holds the traffic, and why downloads or uploads starve.", link,
            [job, variable("instance", "Gateway", 'label_values(pendulum_build_info{job=~"$job"}, instance)'),
             variable("link", "Link", 'label_values(pendulum_link_up{job=~"$job",instance="$instance"}, link)')],
            annotations(ONE), refresh="5s", since="now-15m", other=("Fleet", "pendulum-fleet")),
        "fleet.json": dashboard(
            "pendulum-fleet", "Pendulum fleet", "Many gateways, worst links first. Needs the recording rules of dashboards/rules.", fleet,
            [job, variable("instance", "Gateway", 'label_values(pendulum_build_info{job=~"$job"}, instance)', multi=True, all_of=True),
             variable("link", "Link", 'label_values(pendulum_link_up{job=~"$job",instance=~"$instance"}, link)', multi=True, all_of=True)],
            annotations(ALL)[1:2], refresh="1m", since="now-6h", other=("Link", "pendulum-link")),
    }


def main():
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
