"""What states are called, what to do in each, and the colours of everything, which are those of model/src/colour.rs."""

import json
import pathlib
import re

HERE = pathlib.Path(__file__).parent
COLOURS = {group: {name: colour["any"] for name, colour in members.items()}
           for group, members in json.loads((HERE / "../colours.json").read_text(encoding="utf-8")).items()}

UP, DOWN = 'direction="up"', 'direction="down"'
UP_COLOUR, DOWN_COLOUR = COLOURS["direction"]["up"], COLOURS["direction"]["down"]
GOOD, WARNING, CRITICAL = (COLOURS["severity"][name] for name in ("good", "warning", "critical"))
GREY = COLOURS["phase"]["idle"]

PHASES = [("uplink_bound", "uplink-bound"), ("downlink_bound", "downlink-bound"), ("balanced", "balanced"), ("idle", "idle")]
#: Name by which the API calls it, title, what to do.
VERDICTS = [
    ("clear", "clear", "Nothing."),
    ("one_way", "one way", "Nothing, unless calls suffer: see “Everything waits”."),
    ("balanced", "balanced", "Nothing."),
    ("ack_compression", "ACK compression", "Nothing: rare and harmless."),
    ("swinging", "SWINGING", "Give both buffers the advised size, or shape the uplink just below its rate (cake)."),
    ("locked_uplink", "LOCKED UPLINK", "Now: pause what uploads. For good: shape the uplink just below its rate (cake), or the advised buffer."),
    ("locked_downlink", "LOCKED DOWNLINK", "Shape the downlink on the gateway just below its rate (cake)."),
    ("unknown", "evidence missing", "Tell the agent the link's rates; the gateway's page names what is missing."),
]
KINDS = ["tcp_data", "ack", "udp", "other"]
#: Where a link stands: the numbers that `condition` gives.
MEASURED, NOT_MEASURED, AGENT_DOWN, NO_SUCH_LINK = 1, 2, 3, 5


def phases():
    """Numbers to names and colours."""
    return {number: (title, COLOURS["phase"][name]) for number, (name, title) in enumerate(PHASES, 1)}


def verdicts(actions=False):
    """Numbers to names or to what to do, and colours."""
    return {number: (action if actions else title, COLOURS["verdict"][name]) for number, (name, title, action) in enumerate(VERDICTS, 1)}


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


def alerts(instance, link):
    """Alerts of this link, of its gateway, and of the whole job."""
    return f'ALERTS{{alertname=~"Pendulum.+",alertstate="firing",instance=~"{instance}|",link=~"{link}|"}}'
