"""The dashboard Link: one link of one gateway."""

from panels import heatmap, now, query, stat, table, target, text, timeline, timeseries
from words import (AGENT_DOWN, COLOURS, CRITICAL, DOWN, DOWN_COLOUR, GOOD, GREY, KINDS, MEASURED, NO_SUCH_LINK, NOT_MEASURED, PHASES, SEVERITIES, UP,
                   UP_COLOUR, VERDICTS, WARNING, firing, first_steps, ground, numbered, phases, plain, verdicts)

#: In every query of a link, and of its agent.
ONE = 'job=~"$job",instance="$instance",link="$link"'
AGENT = 'job=~"$job",instance="$instance"'
CLASSES = "data|ack|dup_ack|sack"
GONE = "not known: no data from the agent"
PAGE = "http://${instance}/#${link}"
PACKETS = "suffix:packets/s"
EACH_SECOND = "suffix:/s"
#: ACKs by what they say, in colours that are no direction's.
CLASS_COLOURS = {"data": COLOURS["kind"]["tcp_data"], "ack": COLOURS["kind"]["ack"], "dup_ack": COLOURS["kind"]["other"], "sack": COLOURS["kind"]["udp"]}
#: Segments of the delay, in the colours that the page gives them.
SEGMENTS = [("home", COLOURS["kind"]["udp"]), ("gateway", COLOURS["kind"]["other"]), ("uplink", UP_COLOUR), ("downlink", DOWN_COLOUR),
            ("beyond", COLOURS["kind"]["tcp_data"])]
#: States of the shaper, by their names in the API.
SHAPER = [("off", "off", None), ("dry_run", "dry run: counts, changes nothing", None), ("enforcing", "shaping", GOOD),
          ("observing", "A/B interval without shaping", None), ("ineffective", "shaping, packets still queue behind it", WARNING),
          ("declined", "not shaping: no gain", None), ("refused", "NOT SHAPING: it cannot", CRITICAL)]


def rate(metric, more=""):
    return f"rate({metric}{{{ONE}{more}}}[$__rate_interval])"


def increase(metric, more=""):
    return f"increase({metric}{{{ONE}{more}}}[$__rate_interval])"


def buckets(metric, more=""):
    """A histogram over time: the native one where Prometheus keeps it, else the classic one; never both in one picture. Without a sample there is none:
    of buckets that are all empty Grafana draws nothing but a scale from infinity to infinity."""
    native, every = f"sum({increase(metric, more)})", f',le="+Inf"{more}'
    return (f'({native} and on () histogram_count({native}) > 0) or on () '
            f'(sum by (le) ({increase(metric + "_bucket", more)}) and on () sum({increase(metric + "_bucket", every)}) > 0)')


def quantile(part, metric, more=""):
    """Likewise, a quantile."""
    return f'histogram_quantile({part}, sum({rate(metric, more)})) or histogram_quantile({part}, sum by (le) ({rate(metric + "_bucket", more)}))'


def bits(metric, more=""):
    """Rates are shown in bit/s, as links are sold."""
    return f"8 * {metric}{{{ONE}{more}}}"


def mirrored(metric, legend):
    """Both directions of a gauge: up above the axis, down below it."""
    return [target(f"{metric}{{{ONE},{UP}}}", f"▲ {legend}"), target(f"{metric}{{{ONE},{DOWN}}}", f"▼ {legend}")]


def two_colours(*legends, fill=0, dashed=False):
    """Each direction in its colour, the downlink below the axis."""
    return [(f"{mark} {legend}", {"colour": colour, "fill": fill, "dashed": dashed, "below": mark == "▼"})
            for legend in legends for mark, colour in (("▲", UP_COLOUR), ("▼", DOWN_COLOUR))]


def directions(*legends):
    """Each direction in its colour, both above the axis."""
    return [(legend.format(name), {"colour": colour}) for legend in legends for name, colour in (("up", UP_COLOUR), ("down", DOWN_COLOUR))]


def band():
    """Edges of the uncertainty: the upper line of each half of the picture is filled down to the lower one. Below the axis that is the least."""
    edges = [("▲", "▲ at most", "▲ at least", UP_COLOUR), ("▼", "▼ at least", "▼ at most", DOWN_COLOUR)]
    styles = []
    for mark, upper, lower, colour in edges:
        below = mark == "▼"
        styles += [(upper, {"colour": colour, "below": below, "band": lower}), (lower, {"colour": colour, "below": below, "band": None})]
    targets = []
    for mark, direction in (("▲", UP), ("▼", DOWN)):
        level, error = (f"{name}{{{ONE},{direction}}}" for name in ("pendulum_queue_bytes", "pendulum_queue_uncertainty_bytes"))
        targets += [target(f"{level} + {error}", f"{mark} at most"), target(f"clamp_min({level} - {error}, 0)", f"{mark} at least")]
    return targets, styles


def of_this_link(expr):
    """A series of the link's own labels with the value 0 where there is nothing else: a strip needs one to say that it does not know."""
    nothing = f'label_replace(0 * max by (job, instance) (up{{{AGENT}}}), "link", "$link", "", "")'
    return f"({expr}) or ({nothing} unless on (job, instance, link) ({expr}))"


def composition(direction, name):
    expr = f"pendulum_queue_composition_ratio{{{ONE},{direction}}}"
    return timeseries(f"Traffic in the {name} buffer, by type", "Shares of the bytes that entered it over ten seconds, whether the buffer is the gateway's own or out of "
                      "sight. The gateway's page names the port.", "percentunit", [target(expr, "{{kind}}")], stack=True, limits=(0, 1),
                      styles=[(kind, {"colour": COLOURS["kind"][kind], "fill": 70}) for kind in KINDS])


def answer(grid):
    """One look: is it watched, the verdict, since when, its cost, the remedy."""
    condition = f"sum({MEASURED + 1} - pendulum_link_up{{{ONE}}}) or sum({AGENT_DOWN} + 2 * up{{{AGENT}}})"
    grid.add(18, 2, stat("Is this link watched?", "Whether the panels below show the present.", "none", [now(condition, "link")],
                         "NO AGENT: Prometheus has no gateway of this name. The graphs below are the past.",
                         names={MEASURED: ("watched: the panels below show the present", GOOD),
                                NOT_MEASURED: ("NOT MEASURED: the WAN device is gone or down. Graphs are the past", CRITICAL),
                                AGENT_DOWN: ("AGENT DOWN: it cannot be scraped. Graphs are the past", CRITICAL),
                                NO_SUCH_LINK: ("the agent answers, and has no such link", WARNING)},
                         size=18, name=False))
    last = f"timestamp(up{{{AGENT}}} == 1)"
    seen = f"time() - max({last}) or time() - max(max_over_time(({last})[1d:15s]))"
    grid.add(6, 2, stat("Last scrape, age", "Time since Prometheus last reached the agent; within one day.", "s", [now(seen, "age")],
                        "more than a day", size=18, name=False))

    verdict = numbered("pendulum_verdict", "verdict", VERDICTS, ONE)
    grid.add(6, 4, stat("Verdict", "What the agent says of the last seconds to a minute.", "none", [now(verdict, "verdict")], GONE,
                        names=verdicts(), size=22, name=False))
    grid.add(4, 4, stat("Held for", "Time since this verdict began.", "s", [now(f"time() - pendulum_verdict_since_timestamp_seconds{{{ONE}}}", "held for")],
                        "not known", size=20, name=False))
    # 0 where the agent says that there is nothing; without an agent nothing is known.
    alive = f"0 * pendulum_link_up{{{ONE}}}"
    most = f'topk by (direction) (1, pendulum_queue_composition_ratio{{{ONE}}}) ' \
           f'or label_replace(label_replace({alive}, "direction", "both", "", ""), "kind", "any", "", "") unless on () pendulum_queue_composition_ratio{{{ONE}}}'
    grid.add(5, 4, stat("Traffic in the buffers", "The largest part of what entered each buffer within ten seconds.", "percentunit",
                        [now(most, "{{direction}}: {{kind}}")], "not known", size=20, names={0: ("nothing has entered", None)}))
    grid.add(4, 4, stat("Lost throughput", "Capacity that a direction cannot use because the other one's buffer never empties.", "si:bit/s",
                        [now(bits("pendulum_lost_bytes_per_second"), "{{direction}}")], "not known", size=20, steps=[(1, CRITICAL)]))
    grid.add(5, 4, stat("Standing delay", "The least that any packet waits in each buffer: what calls and games notice.", "s",
                        [now(f"pendulum_queue_standing_delay_seconds{{{ONE}}}", "{{direction}}")], "not known", size=20,
                        steps=[(0.1, WARNING), (0.4, CRITICAL)]))

    steps = dict(first_steps())
    grid.add(24, 3, stat("What to do", "By the verdict. The gateway's page has the commands for this link.", "none", [now(verdict, "action")],
                         f"No data from the agent. {plain(steps['PendulumTargetDown'])}",
                         names=verdicts(actions=True), size=15, name=False, links=[("The gateway's own page", PAGE, True)]))
    grid.add(24, 5, firing_alerts(["alertname", "direction", "first"]))


def firing_alerts(labels, links=None):
    """The worst first, each with its first step."""
    widths = {"Severity": 90, "alertname": 220, "instance": 170, "link": 90, "direction": 90, "url": 160}
    labels = [*labels, "url"]
    links = {**(links or {}), "url": ("Open the gateway's page: it lists the incidents", "${__value.raw}")}
    return table("Firing alerts", "Of the chosen links, their gateways, and the whole job. First step: what to do first, from docs/guide/alerts.md.",
                 [query(firing("$instance", "$link"), "Severity")], labels, "no alert fires", lead=["Severity"], sort=("Severity",),
                 names={"Severity": SEVERITIES, "first": {name: (plain(step), None) for name, step in first_steps()}},
                 widths={name: width for name, width in widths.items() if name in ["Severity", *labels]}, wrapped=["first"], links=links,
                 titles={"alertname": "Alert", "first": "First step", "direction": "Direction", "instance": "Gateway", "link": "Link", "url": "Page"})


def first_steps_of_all(grid):
    """The same for every alert, with the way to all that is known of it."""
    grid.row("First step for each alert", collapsed=True)
    steps = "\n".join(f"* **[{name}](${{runbook}}#{name.lower()}):** {step}" for name, step in first_steps())
    grid.add(24, 16, text("First steps", "From docs/guide/alerts.md.", steps))


def over_time(grid):
    grid.row("Over time")
    grid.add(24, 4, timeline("Verdicts", "What the agent said.", of_this_link(numbered("pendulum_verdict", "verdict", VERDICTS, ONE)), verdicts(), "link"))
    grid.add(24, 4, timeline("Phase", "Which buffer held a standing queue when Prometheus looked. A swing is faster than that: the next panel counts "
                             "every phase.", of_this_link(numbered("pendulum_phase", "phase", PHASES, ONE)), phases(), "link"))
    grid.add(18, 6, timeseries("Time in each phase", "Share of the time, from the agent's counters: nothing is missed between two scrapes. "
                               "Uplink-bound and downlink-bound in equal parts is the data pendulum; uplink-bound alone during uploads is a lock.", "percentunit",
                               [target(rate("pendulum_phase_seconds_total"), "{{phase}}")], stack=True, limits=(0, 1),
                               styles=[(phase, {"name": title, "colour": ground("phase", phase), "fill": 70}) for phase, title in PHASES]))
    grid.add(6, 6, stat("Swing", "Period of the swing between both buffers.", "s",
                        [now(f"pendulum_swing_period_seconds{{{ONE}}} or 0 * pendulum_link_up{{{ONE}}}", "period")], "not known", size=24, name=False,
                        names={0: ("no swing", None)}))
    found = "sum by (finding, direction) (pendulum_finding{%s}) > 0" % ONE
    none = f'label_replace(0 * max(pendulum_link_up{{{ONE}}}) or 2 * max(1 - up{{{AGENT}}}), "finding", "any", "", "")'
    grid.add(24, 4, timeline("Findings", "In addition to the verdict: bufferbloat, a buffer that never drains; rtt_unfairness, near flows displace far ones; "
                             "home_bloat, packets wait at home; beyond_bloat, beyond the line; sender_limited and receiver_limited, a slow transfer although packets wait nowhere; shaping_not_helping, shaping_ineffective.",
                             f"{found} or ({none} unless on () ({found}))", {1: ("holds", WARNING), 2: ("not known", None)}, "{{finding}} {{direction}}", nothing="none"))


def queues(grid):
    grid.row("Queues and rates: up above the axis, down below it")
    edges, edge_styles = band()
    grid.add(24, 9, timeseries("Queues", "Bytes in both buffers on one axis, and the pure ACKs among them: they are what the other direction waits for. The band is "
                               "between at least and at most where the level is estimated, as it is of a buffer in the modem or at the provider: see Sources.", "decbytes",
                               mirrored("pendulum_queue_bytes", "queue") + mirrored("pendulum_queue_ack_bytes", "ACKs in it")
                               + mirrored("pendulum_queue_standing_bytes", "standing") + mirrored("pendulum_queue_limit_bytes", "limit") + edges,
                               styles=edge_styles + two_colours("queue", fill=10) + two_colours("ACKs in it", fill=70) + two_colours("standing", dashed=True)
                               + two_colours("limit", dashed=True)))
    share = "clamp_max(pendulum_queue_ack_bytes{%s,%s} / (pendulum_queue_bytes{%s,%s} > 0), 1)"
    grid.add(12, 7, timeseries("ACKs' share of the queues", "Pure ACKs among the bytes in each buffer: data of one direction keeps the other direction's ACKs waiting.",
                               "percentunit", [target(share % (ONE, UP, ONE, UP), "▲ ACKs' share"), target(share % (ONE, DOWN, ONE, DOWN), "▼ ACKs' share")],
                               limits=(-1, 1), styles=two_colours("ACKs' share", fill=15)))
    used = "sum(rate(pendulum_bytes_total{%s,%s}[$__rate_interval])) / sum(pendulum_link_rate_bytes_per_second{%s,%s})"
    grid.add(12, 7, timeseries("Link used", "Bytes that passed, from counters, over what the link can carry; absent while its rate is unknown.", "percentunit",
                               [target(used % (ONE, UP, ONE, UP), "▲ used"), target(used % (ONE, DOWN, ONE, DOWN), "▼ used")], soft=(-1, 1),
                               styles=two_colours("used", fill=15)))
    grid.add(12, 7, composition(UP, "uplink"))
    grid.add(12, 7, composition(DOWN, "downlink"))
    grid.add(24, 8, timeseries("Throughput and link rate", "Link-layer throughput, moving over 300 ms, against the capacity.", "si:bit/s",
                               [target(bits("pendulum_throughput_bytes_per_second", f",{UP}"), "▲ throughput"),
                                target(bits("pendulum_throughput_bytes_per_second", f",{DOWN}"), "▼ throughput"),
                                target(bits("pendulum_link_rate_bytes_per_second", f",{UP}"), "▲ rate"),
                                target(bits("pendulum_link_rate_bytes_per_second", f",{DOWN}"), "▼ rate")],
                               styles=two_colours("throughput", fill=15) + two_colours("rate", dashed=True)))
    grid.add(12, 7, timeseries("Outstanding data and windows", "Payload sent and not yet acknowledged, over all flows; the congestion windows are those "
                               "of the gateway's own sockets.", "decbytes",
                               mirrored("pendulum_in_flight_bytes", "outstanding")
                               + [target(f"pendulum_cwnd_bytes{{{ONE},{UP}}}", "▲ cwnd of local sockets")],
                               styles=two_colours("outstanding", fill=15) + [("▲ cwnd of local sockets", {"colour": UP_COLOUR, "dashed": True})]))
    grid.add(12, 7, timeseries("Download over upload", "Throughput ratio as measured, and as the model predicts it for this link's buffers.", "none",
                               [target(f"pendulum_throughput_ratio{{{ONE}}}", "{{kind}}")],
                               styles=[("measured", {"colour": COLOURS["kind"]["tcp_data"]}), ("predicted", {"colour": GREY, "dashed": True})]))


def found(grid):
    grid.row('Automatic shaper rate (rate = "auto")', collapsed=True)
    same = "on (job, instance, link)"
    shaped = f"and {same} (pendulum_shaping{{{ONE}}} == 1)"

    def where_looked_for(expr, direction):
        decided = f'rate(pendulum_shape_decisions_total{{{ONE},{direction},decision="hold"}}[$__rate_interval])'
        return f"({expr} and {same} ({decided} >= 0)) {shaped}"

    passing = [target(where_looked_for(bits("pendulum_throughput_bytes_per_second", f",{x}"), x), f"{mark} passes") for mark, x in (("▲", UP), ("▼", DOWN))]
    rates = [target(where_looked_for(bits("pendulum_shape_rate_bytes_per_second", f",{x}"), x), f"{mark} rate of the shaper") for mark, x in (("▲", UP), ("▼", DOWN))]
    waits = [target(f"pendulum_shape_waits_behind_seconds{{{ONE},{x}}}", f"{mark} queues behind") for mark, x in (("▲", UP), ("▼", DOWN))]
    nothing = "no automatic rate in this time"
    grid.add(24, 8, timeseries("Rate of the shaper", "Automatic rates at which the shaper sends (up) and receives (down), and the throughput; a gap while the link is not shaped.",
                               "si:bit/s", rates + passing, nothing=nothing, styles=two_colours("rate of the shaper") + two_colours("passes", fill=15)))
    grid.add(24, 6, timeseries("Queue behind the shaper", "How long packets queue behind it: in the modem, and at the provider. A gap means that no "
                               "RTT sample could be taken; it does not mean 0.", "s", waits, nothing="not known in this time", styles=two_colours("queues behind", fill=15)))
    for direction, name in ((UP, "up"), (DOWN, "down")):
        decided = rate("pendulum_shape_decisions_total", f",{direction}")
        share = f"(sum by (job, instance, link, decision) ({decided}) / {same} group_left () sum by (job, instance, link) ({decided})) {shaped}"
        grid.add(24, 5, timeseries(f"Decisions, {name}", "Shares of the decisions, ten each second: raise, packets queue in the shaper only; lower and drain, they queue behind it or are "
                                   "lost; outage, no replies; hold, the rate stays.", "percentunit",
                                   [target(share, "{{decision}}")], stack=True, limits=(0, 1), nothing=nothing,
                                   styles=[(decision, {"colour": colour, "fill": 70}) for decision, colour in COLOURS["decision"].items()]))


def delay(grid):
    grid.row("Delay")
    parts = [target(f"pendulum_delay_seconds{{{ONE}}}", "{{segment}}")]
    grid.add(24, 8, timeseries("Where the delay is", "Delay of each segment from home to the far end and back: home (LAN, Wi-Fi, hosts), the gateway's own queues, both "
                               "buffers of the line, beyond (route and far hosts; the line's own length is in it). A segment that is unknown is missing, not 0.", "s", parts,
                               stack=True, styles=[(name, {"colour": colour, "fill": 70}) for name, colour in SEGMENTS]))
    sides = (("wan", "internet"), ("lan", "home"))
    lines = [target(quantile(part, "pendulum_rtt_seconds", f',side="{side}"'), f"{where}, {name}")
             for side, where in sides for part, name in ((0.5, "half below"), (0.95, "95 % below"))]
    colours = {"internet": COLOURS["kind"]["tcp_data"], "home": COLOURS["kind"]["udp"]}
    grid.add(24, 7, timeseries("Round trips", "From the gateway to the internet and back, and to the home and back. From histograms: exact to the width of a bucket.", "s", lines,
                               styles=[(f"{where}, {name}", {"colour": colours[where], "dashed": name != "half below"})
                                       for _, where in sides for name in ("half below", "95 % below")]))
    for side, where in sides:
        grid.add(12, 7, heatmap(f"Round trips to the {where}", f"From the gateway to the {where} and back; segments by their round-trip time.",
                                buckets("pendulum_rtt_seconds", f',side="{side}"'), "s"))
    for kind, name in (("data", "Data"), ("ack", "ACKs")):
        grid.add(12, 7, heatmap(f"{name} in the uplink buffer", "Packets by the time they spent in it; those that found it empty are not in here.",
                                buckets("pendulum_queue_sojourn_seconds", f',{UP},class="{kind}"'), "s"))


def segments(grid):
    grid.row("Segments")
    for direction, name, whose in ((UP, "up", "downloads"), (DOWN, "down", "uploads")):
        grid.add(12, 7, timeseries(f"ACK classes, {name}", f"ACKs of the {whose} by kind; data for comparison.", PACKETS,
                                   [target(rate("pendulum_segments_total", f',{direction},class=~"{CLASSES}"'), "{{class}}")],
                                   styles=[(name, {"colour": colour}) for name, colour in CLASS_COLOURS.items()]))
    bursts = increase("pendulum_ack_burst_segments_bucket", f",{UP}")
    all_bursts = increase("pendulum_ack_burst_segments_bucket", f',{UP},le="+Inf"')
    grid.add(12, 7, heatmap("ACK bursts, up", "Pure ACKs between two data segments; bursts of tens are ACK compression.",
                            f"sum by (le) ({bursts}) and on () sum({all_bursts}) > 0", "none"))
    grid.add(12, 7, timeseries("Losses", "Data segments that were retransmitted, wherever they were lost, and packets that the gateway's own buffers "
                               "dropped, by reason if there were any.", PACKETS,
                               [target(rate("pendulum_retransmitted_segments_total"), "{{direction}} retransmitted"),
                                target(f'{rate("pendulum_queue_drops_total")} > 0', "{{direction}} dropped: {{reason}}")],
                               styles=directions("{} retransmitted")
                               + [(f"/^{name} dropped/", {"colour": colour, "dashed": True}) for name, colour in (("up", UP_COLOUR), ("down", DOWN_COLOUR))]))
    grid.add(12, 7, timeseries("Flows", "TCP flows that carried payload within the last 5 seconds.", "none",
                               [target(f"pendulum_flows{{{ONE}}}", "{{direction}}")], styles=directions("{}")))
    grid.add(12, 7, timeseries("Traffic that is not seen", "Share of the device's own bytes that bypassed the agent's programs, a lower bound: all other "
                               "figures hold for the rest only.", "percentunit", [target(f"pendulum_unseen_bytes_ratio{{{ONE}}}", "{{direction}}")], limits=(0, 1),
                               styles=directions("{}")))


def about(grid):
    grid.row("Advice and sources")
    grid.add(12, 5, stat("Buffer: advised and present", "Size that lets both directions be full, and the size that there is; the gateway's page has the "
                         "commands.", "decbytes",
                         [now(f"pendulum_advised_buffer_bytes{{{ONE}}}", "{{direction}} advised"),
                          now(f"pendulum_queue_limit_bytes{{{ONE}}}", "{{direction}} present")], "no advice: rates or round trip are unknown", size=20))
    grid.add(12, 9, table("Sources", "Where the figures come from, best source first: tracepoint before netlink, config before learnt. Estimate: the buffer is in the modem "
                          "or at the provider.", [query(f"pendulum_source_info{{{ONE}}}")], ["what", "direction", "source"], GONE))

    grid.row("Shaping", collapsed=True)
    state = numbered("pendulum_shape_state_info", "state", SHAPER, ONE)
    grid.add(6, 7, stat("Shaping", "Whether the agent acts on the link.", "none", [now(state, "shaping")], GONE,
                        names={number: (words, colour) for number, (_, words, colour) in enumerate(SHAPER, 1)}, size=22, name=False))
    grid.add(18, 7, timeseries("ACK filter", "ACKs by what the filter did with them, if it saw any. In a dry run `would_hold` is counted and nothing changes.", PACKETS,
                               [target(f'{rate("pendulum_ack_filter_acks_total")} > 0', "{{action}}: {{reason}}")]))

    grid.row("The agent itself", collapsed=True)
    grid.add(8, 7, timeseries("Processor", "Time used by the agent, and by its BPF programs where the kernel measures that.", "percentunit",
                              [target(f"rate(process_cpu_seconds_total{{{AGENT}}}[$__rate_interval])", "agent"),
                               target(f'sum by (program) ({rate("pendulum_bpf_program_run_seconds_total")})', "{{program}}")]))
    grid.add(8, 7, timeseries("Memory", "Resident memory of the agent.", "decbytes",
                              [target(f"process_resident_memory_bytes{{{AGENT}}}", "resident")]))
    grid.add(8, 7, timeseries("Tables", "Entries of the BPF maps over their capacity.", "percentunit",
                              [target(f"pendulum_map_entries{{{ONE}}} / pendulum_map_capacity{{{ONE}}}", "{{map}}")], limits=(0, 1)))
    grid.add(12, 7, timeseries("Measurements lost", "Incomplete measurements, by reason if there was any; the packets passed.", EACH_SECOND,
                               [target(f'{rate("pendulum_unmeasured_total")} > 0', "{{reason}}")]))
    failing = f"pendulum_collector_success{{{ONE}}} == 0 or pendulum_bpf_program_attached{{{ONE}}} == 0"
    grid.add(6, 7, table("What fails", "Readings from the kernel that failed the last time, and programs that are not attached.", [query(failing)],
                         ["collector", "program"], "nothing fails"))
    settings = [now(f"pendulum_config_last_reload_successful{{{AGENT}}}", "last reload"),
                now(f"10 + clamp_max(pendulum_config_settings_waiting{{{AGENT}}}, 1)", "settings that wait")]
    words = {0: ("REFUSED: the old one holds", CRITICAL), 1: ("applied", GOOD), 10: ("none wait", GOOD), 11: ("some wait for a restart", WARNING)}
    grid.add(6, 7, stat("Configuration", "Whether the newest file was taken over, and settings that wait for a restart.", "none", settings, GONE,
                        names=words, size=15))


def panels(grid):
    for part in (answer, over_time, queues, delay, segments, about, found, first_steps_of_all):
        part(grid)
