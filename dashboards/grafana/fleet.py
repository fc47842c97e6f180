"""The dashboard Fleet: many gateways. It is built on which of them there are, not on what the living ones say."""

from link import first_steps_of_all, firing_alerts
from panels import now, query, stat, table, target, timeline, timeseries
from words import AGENT_DOWN, CRITICAL, DOWN, GOOD, MEASURED, NOT_MEASURED, UP, WARNING, alerts, verdicts

ALL = 'job=~"$job",instance=~"$instance",link=~"$link"'
AGENTS = 'job=~"$job",instance=~"$instance"'
#: What was recorded of a gateway that has gone is the past.
ALIVE = f"and on (job, instance) up{{{AGENTS}}} == 1"
LOCKED, WRONG = "locked_uplink|locked_downlink", "locked_uplink|locked_downlink|swinging"
#: `${job:queryparam}` is the whole of `var-job=…`, also of All and of several.
LINK = "/d/pendulum-link?${__url_time_range}&${datasource:queryparam}&${job:queryparam}&var-instance=${__data.fields.instance}&var-link=${__data.fields.link}"
#: Who fills the buffer: no label has an address or a port.
PAGE = ("Open the gateway's page: it lists the flows", "http://${__data.fields.instance}/#${__data.fields.link}")
UNKNOWN = "not known: no gateway answers"


def share(verdict):
    return f'sum without (verdict) (link_verdict:pendulum_verdict:avg5m{{{ALL},verdict=~"{verdict}"}} {ALIVE})'


def recorded(record, more=""):
    return f"({record}{{{ALL}{more}}} {ALIVE})"


def glance(grid):
    grid.row("At one look")
    grid.add(5, 4, stat("Gateways", "Agents that answer, and those that do not.", "none",
                        [now(f"count(up{{{AGENTS}}} == 1) or 0 * count(up{{{AGENTS}}})", "answer"),
                         now(f"count(up{{{AGENTS}}} == 0) or 0 * count(up{{{AGENTS}}})", "DOWN")], "Prometheus has no gateway", alarms={"DOWN": CRITICAL}))
    known = f"count(link:pendulum_last_seen:timestamp{{{ALL}}})"
    grid.add(5, 4, stat("Links", "Links that are measured, and those that were within a week and are not.", "none",
                        [now(f"sum(pendulum_link_up{{{ALL}}}) or 0 * {known}", "measured"),
                         now(f"{known} - (sum(pendulum_link_up{{{ALL}}}) or 0 * {known})", "NOT MEASURED")], "no link was seen within a week",
                        alarms={"NOT MEASURED": CRITICAL}))
    trouble = f"count({share(WRONG)} > 0.5) or 0 * count(pendulum_link_up{{{ALL}}})"
    grid.add(4, 4, stat("Links in trouble", "Locked or swinging for more than half of the last five minutes, of gateways that answer.", "none",
                        [now(trouble, "links")], UNKNOWN, steps=[(1, CRITICAL)], name=False))
    grid.add(5, 4, stat("Lost throughput", "Capacity that cannot be used because the other direction's buffer never empties, over all links.", "si:bit/s",
                        [now(f"8 * sum by (direction) {recorded('link_direction:pendulum_lost_bytes_per_second:avg5m')}", "{{direction}}")], UNKNOWN, size=20,
                        steps=[(1, CRITICAL)]))
    counted = f'count by (severity) ({alerts("$instance", "$link")})'
    grid.add(5, 4, stat("Alerts", "Firing, by severity.", "none", [now(counted, "{{severity}}")], "none fires", alarms={"critical": CRITICAL, "warning": WARNING}))


def links(grid):
    grid.row("Worst links first; click one to look into it, or its verdict for its flows")
    seen = f"link:pendulum_last_seen:timestamp{{{ALL}}}"
    # A link of a gateway that is down or gone, and a gateway that was never seen, have no series of their own.
    condition = (f"{MEASURED + 1} - pendulum_link_up{{{ALL}}} or {AGENT_DOWN} + 0 * {seen} "
                 f"or ({AGENT_DOWN} + up{{{AGENTS}}} == {AGENT_DOWN} unless on (job, instance) {seen})")
    worst = [
        query(condition, "State"),
        query(recorded("link:pendulum_verdict:number"), "Verdict"),
        query(f"time() - pendulum_verdict_since_timestamp_seconds{{{ALL}}}", "Held for"),
        query(f"time() - {seen}", "Last seen, age"),
        query(share(LOCKED), "Locked"),
        query(share("swinging"), "Swinging"),
        query(f"8 * sum without (direction) {recorded('link_direction:pendulum_lost_bytes_per_second:avg5m')}", "Lost"),
        query(f"sum without (direction) {recorded('link_direction:pendulum_utilization:ratio_rate5m', f',{DOWN}')}", "Down used"),
        query(f"sum without (direction) {recorded('link_direction:pendulum_utilization:ratio_rate5m', f',{UP}')}", "Up used"),
        query(f"""sum without (side) {recorded('link_side:pendulum_rtt_seconds:p95_rate5m', ',side="wan"')}""", "RTT, p95"),
        query(f"max without (direction) {recorded('link_direction:pendulum_retransmitted_segments:ratio_rate5m')}", "Retransmitted"),
    ]
    states = {MEASURED: ("measured", GOOD), NOT_MEASURED: ("NOT MEASURED", CRITICAL), AGENT_DOWN: ("AGENT DOWN", CRITICAL)}
    share_columns = ("Locked", "Swinging", "Down used", "Up used", "Retransmitted")
    grid.add(24, 11, table("Links", "Verdict and how long it has held: now. Locked, swinging (shares of the time), lost (capacity that cannot be used) and the columns after them: over "
                           "five minutes. A link of a gateway that is gone stays for a week.", worst, ["instance", "link"], "Prometheus has no gateway",
                           lead=["State", "Verdict"], sort=("-State", "-Locked", "-Swinging"), names={"State": states, "Verdict": verdicts()},
                           units={"Held for": "s", "Last seen, age": "s", "Lost": "si:bit/s", "RTT, p95": "s", **dict.fromkeys(share_columns, "percentunit")},
                           widths={"State": 130, "Verdict": 145, "instance": 160, "link": 80, "Held for": 85, "Last seen, age": 100, "Locked": 70, "Swinging": 80,
                                   "Lost": 90, "Down used": 85, "Up used": 75, "RTT, p95": 75, "Retransmitted": 105},
                           links={"Verdict": PAGE, **{name: ("Open this link", LINK) for name in ("instance", "link")}}, titles={"instance": "Gateway", "link": "Link"}))
    grid.add(24, 9, firing_alerts(["alertname", "instance", "link", "direction", "first"], {name: ("Open this link", LINK) for name in ("instance", "link")}))


def over_time(grid):
    grid.row("Over time: the ten worst")
    grid.add(24, 6, timeline("Agents", "Which answered when.", f"2 - up{{{AGENTS}}}", {1: ("answers", GOOD), 2: ("DOWN", CRITICAL)}, "{{instance}}", nothing="not there"))
    number = f"link:pendulum_verdict:number{{{ALL}}}"
    gone = f"0 * link:pendulum_last_seen:timestamp{{{ALL}}} unless on (job, instance, link) {number}"
    grid.add(24, 8, timeline("Verdicts", "One row for each link.", f"{number} or {gone}", verdicts(), "{{instance}} {{link}}"))
    grid.add(12, 8, timeseries("Share of time locked", "Share of the time with a locked verdict, of the ten links where it is longest.", "percentunit",
                               [target(f"topk(10, {share(LOCKED)})", "{{instance}} {{link}}")], limits=(0, 1)))
    grid.add(12, 8, timeseries("Throughput lost", "Capacity that cannot be used because the other direction's buffer never empties.", "si:bit/s",
                               [target(f"topk(10, 8 * sum without (direction) {recorded('link_direction:pendulum_lost_bytes_per_second:avg5m')} > 0)",
                                       "{{instance}} {{link}}")]))
    grid.add(12, 8, timeseries("Changes of phase", "A swing of 2.5 s has 0.8 of them each second.", "suffix:/s",
                               [target(f"topk(10, {recorded('link:pendulum_phase_transitions:rate5m')})", "{{instance}} {{link}}")]))
    grid.add(12, 8, timeseries("Round trip to the internet, p95", "Of the ten slowest links.", "s",
                               [target(f"""topk(10, {recorded('link_side:pendulum_rtt_seconds:p95_rate5m', ',side="wan"')})""", "{{instance}} {{link}}")]))

    grid.row("Agents", collapsed=True)
    grid.add(12, 7, timeseries("Measurements lost", "As a part of the segments.", "percentunit",
                               [target(f"topk(10, {recorded('link:pendulum_lost:ratio_rate5m')})", "{{instance}} {{link}}")]))
    grid.add(6, 7, table("Versions", "What runs where.", [query(f"pendulum_build_info{{{AGENTS}}}")], ["instance", "version"], UNKNOWN))
    grid.add(6, 7, table("Refused configurations", "Gateways that keep their old one.", [query(f"pendulum_config_last_reload_successful{{{AGENTS}}} == 0")],
                         ["instance"], "none was refused"))


def panels(grid):
    for part in (glance, links, over_time, first_steps_of_all):
        part(grid)
