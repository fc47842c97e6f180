"""The table: on the terminal, and in docs/results/data/mutants.csv, which keeps the last one of each room."""

import csv
import io

from judge import CAUGHT, MISSED, UNVIABLE

HEAD = ["room", "what", "sample", "caught", "viable", "not_viable", "missed"]


def row(room, verdicts, sample):
    """One room's line of the table; `sample`: how its mutants were drawn."""
    count = {outcome: sum(v.outcome == outcome for v in verdicts) for outcome in (CAUGHT, MISSED, UNVIABLE)}
    missed = "; ".join(v.mutant.name for v in verdicts if v.outcome == MISSED)
    return dict(zip(HEAD, [room.name, room.what, sample, count[CAUGHT], count[CAUGHT] + count[MISSED], count[UNVIABLE], missed]))


def merged(table, rows, order):
    """The table, as CSV, with these rows instead of those of the same rooms."""
    kept = {old["room"]: old for old in csv.DictReader(io.StringIO(table))}
    kept |= {new["room"]: new for new in rows}
    out = io.StringIO()
    writer = csv.DictWriter(out, HEAD, lineterminator="\n")
    writer.writeheader()
    writer.writerows(kept[name] for name in order if name in kept)
    return out.getvalue()


def text(rows):
    """For people: what was caught, and what no test notices."""
    lines = []
    for each in rows:
        unviable = f" ({each['not_viable']} more not viable)" if each["not_viable"] else ""
        lines.append(f"{each['room']}: {each['caught']} of {each['viable']} caught{unviable}")
        lines += [f"  missed: {name}" for name in each["missed"].split("; ") if name]
    return "\n".join(lines)
