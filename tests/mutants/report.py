"""The table: on the terminal, and in docs/results/mutants.md, which keeps the last one."""

from judge import CAUGHT, MISSED, UNVIABLE

BEGIN = "<!-- ./dev mutants --write: from here -->"
END = "<!-- to here -->"
HEAD = ["| room | caught of viable | what no test notices |", "|---|---|---|"]


def escape(text):
    return text.replace("|", "\\|")


def row(room, verdicts):
    """One room's line of the table."""
    count = {outcome: sum(v.outcome == outcome for v in verdicts) for outcome in (CAUGHT, MISSED, UNVIABLE)}
    viable = count[CAUGHT] + count[MISSED]
    missed = "; ".join(escape(v.mutant.name) for v in verdicts if v.outcome == MISSED)
    note = f" ({count[UNVIABLE]} more not viable)" if count[UNVIABLE] else ""
    return f"| {room.name}: {escape(room.what)} | {count[CAUGHT]} of {viable}{note} | {missed or '–'} |"


def name_of(line):
    """The room that a line of the table is about."""
    return line.removeprefix("| ").split(":", 1)[0]


def merged(document, rows, order, how):
    """The document with these rows instead of those of the same rooms; `how`: one line on how they came about."""
    before, rest = document.split(BEGIN)
    old, after = rest.split(END)
    kept = {name_of(line): line for line in old.splitlines() if line.startswith("| ") and line not in HEAD}
    kept |= {name_of(line): line for line in rows}
    lines = [kept[name] for name in order if name in kept]
    return before + "\n".join([BEGIN, "", how, "", *HEAD, *lines, "", END]) + after


def text(rows):
    return "\n".join([*HEAD, *rows])
