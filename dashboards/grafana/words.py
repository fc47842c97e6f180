"""What states are called, what to do in each, and the colours of everything, which are those of model/src/colour.rs."""

import json
import pathlib
import re

HERE = pathlib.Path(__file__).parent
ALL_COLOURS = json.loads((HERE / "../colours.json").read_text(encoding="utf-8"))
COLOURS = {group: {name: colour["any"] for name, colour in members.items()} for group, members in ALL_COLOURS.items()}

UP, DOWN = 'direction="up"', 'direction="down"'
UP_COLOUR, DOWN_COLOUR = COLOURS["direction"]["up"], COLOURS["direction"]["down"]
GREY = COLOURS["phase"]["idle"]


def _luminance(colour):
    parts = (int(colour[place:place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _can_be_written_on(ground):
    """Whether the text that Grafana chooses can be read (WCAG AA). On cells and figures it is dark above a brightness of 180, on strips where white has less
    than 3:1."""
    white, dark = (1.05 / (_luminance(ground) + 0.05), (_luminance(ground) + 0.05) / (_luminance("#202226") + 0.05))
    light = (0.299 * int(ground[1:3], 16) + 0.587 * int(ground[3:5], 16) + 0.114 * int(ground[5:7], 16)) > 180
    return white < 3 and dark >= 4.5 if light else white >= 4.6


def ground(group, name):
    """The colour of something as a ground for text: Grafana has one for its light and its dark theme."""
    colour = ALL_COLOURS[group][name]
    return next(colour[kind] for kind in ("any", "light", "dark") if _can_be_written_on(colour[kind]))


GOOD, WARNING, CRITICAL = (ground("severity", name) for name in ("good", "warning", "critical"))

PHASES = [("uplink_bound", "uplink-bound"), ("downlink_bound", "downlink-bound"), ("balanced", "balanced"), ("idle", "idle")]
#: Name by which the API calls it, title, what to do.
VERDICTS = [
    ("clear", "clear", "Nothing."),
    ("one_way", "one way", "Nothing, unless calls suffer: see “Standing delay”."),
    ("balanced", "balanced", "Nothing."),
    ("ack_compression", "ACK compression", "Nothing: rare and harmless."),
    ("swinging", "SWINGING", "Give both buffers the advised size, or shape the uplink just below its rate (cake)."),
    ("locked_uplink", "LOCKED UPLINK", "Now: pause what uploads. For good: shape the uplink just below its rate (cake), or the advised buffer."),
    ("locked_downlink", "LOCKED DOWNLINK", "Shape the downlink on the gateway just below its rate (cake)."),
    ("unknown", "evidence missing", "Configure the link's rates; the gateway's page names the missing evidence."),
]
KINDS = ["tcp_data", "ack", "udp", "other"]
#: Where a link stands: the numbers that `condition` gives.
MEASURED, NOT_MEASURED, AGENT_DOWN, NO_SUCH_LINK = 1, 2, 3, 5
#: Severities of alerts, the worst first, by the number that `firing` gives them.
SEVERITIES = {1: ("critical", CRITICAL), 2: ("warning", WARNING), 3: ("info", None)}


def phases():
    """Numbers to names and grounds."""
    return {number: (title, ground("phase", name)) for number, (name, title) in enumerate(PHASES, 1)}


def verdicts(actions=False):
    """Numbers to names and grounds, or to what to do."""
    return {number: (action, None) if actions else (title, ground("verdict", name)) for number, (name, title, action) in enumerate(VERDICTS, 1)}


def numbered(metric, label, values, matchers):
    """One number for a set of 0/1 series, to be mapped to a name: a state timeline has one row for a series."""
    parts = (f'{number} * {metric}{{{matchers},{label}="{value}"}}' for number, (value, *_) in enumerate(values, 1))
    return f"sum without ({label}) ({' or '.join(parts)})"


def numbers_are_recorded():
    """Whether the rules number the verdicts as they are numbered here."""
    rules = (HERE / "../rules/pendulum-records.yml").read_text(encoding="utf-8")
    recorded = re.findall(r'(\d+) \* pendulum_verdict\{verdict="(\w+)"\}', rules)
    return recorded == [(str(number), name) for number, (name, *_) in enumerate(VERDICTS, 1)]


def first_steps():
    """For each alert, what who is woken does first: from docs/guide/alerts.md."""
    runbook = (HERE / "../../docs/guide/alerts.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (Pendulum\w+)$(.*?)(?=^## |\Z)", runbook, re.M | re.S)
    found = []
    for name, body in sections:
        step = re.search(r"^\*\*First:\*\* (.+?)(?=\n\*\*|\n\n|\Z)", body, re.M | re.S)
        assert step, f"docs/guide/alerts.md: {name} has no line that begins with **First:**"
        found.append((name, " ".join(step.group(1).split())))
    return found


def plain(markdown):
    """Without its marks."""
    return markdown.replace("`", "").replace("*", "")


def alerts(instance, link, more=""):
    """Alerts of this link, of its gateway, and of the whole job."""
    return f'ALERTS{{alertname=~"Pendulum.+",alertstate="firing",instance=~"{instance}|",link=~"{link}|"{more}}}'


def firing(instance, link):
    """The same by severity, as a number, with two labels more: `first` has the alert's name, which a table shows as its first step, and `url` is the
    address of the gateway's page, if it is configured."""
    ranks = [(number, f',severity="{name}"') for number, (name, _) in list(SEVERITIES.items())[:-1]]
    ranks.append((len(SEVERITIES), ',severity!~"%s"' % "|".join(name for name, _ in list(SEVERITIES.values())[:-1])))
    ranked = " or ".join(f"{number} * {alerts(instance, link, more)}" for number, more in ranks)
    page = 'max by (job, instance, link, url) (pendulum_link_info{url!=""})'
    with_page = f"({ranked}) * on (job, instance, link) group_left (url) {page} or on (alertname, job, instance, link, direction) ({ranked})"
    return f'label_replace({with_page}, "first", "$1", "alertname", "(.+)")'
