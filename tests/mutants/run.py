#!/usr/bin/env python3
"""Mutation testing: changes the programs in one place after another, and looks whether a test notices.

`./dev mutants` calls this; docs/results/mutants.md tells how to read what comes out.
"""

import argparse
import os
import random
import sys
from pathlib import Path

import report
from judge import MISSED, Broken, Judge
from rooms import ROOT, TableError, mutants_of, rooms
from scratch import Tree, place_below, seed_target

TABLE = ROOT / "docs/results/data/mutants.csv"


def arguments(words):
    parser = argparse.ArgumentParser(prog="./dev mutants", description=__doc__.splitlines()[0])
    parser.add_argument("room", nargs="*", metavar="ROOM", help="where mutants are made; all by default")
    parser.add_argument("--seed", type=int, default=1, help="of the sample: the same seed, the same mutants (%(default)s)")
    parser.add_argument("--count", type=int, default=12, help="mutants of each room (%(default)s); 0: all")
    parser.add_argument("--match", default="", help="only mutants whose name or file has these words")
    parser.add_argument("--list", action="store_true", help="name the sampled mutants and run nothing")
    parser.add_argument("--write", action="store_true", help="keep the rows in docs/results/data/mutants.csv")
    return parser.parse_args(words)


def sample(mutants, seed, room, count):
    """`count` of them, in their own order. Each room draws for itself: a room more changes no other's."""
    if not count or count >= len(mutants):
        return mutants
    chosen = random.Random(f"{seed} {room}").sample(range(len(mutants)), count)
    return [mutants[i] for i in sorted(chosen)]


def chosen_rooms(names):
    known = rooms()
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"mutants: there is no room '{unknown[0]}'; the rooms are: {' '.join(known)}")
    return [known[name] for name in names or known]


def run_room(tree, room, mutants):
    judge = Judge(tree, room)
    print(f"mutants: {room.name}: the tests without a mutant", file=sys.stderr, flush=True)
    judge.check_whole()
    verdicts = []
    for number, mutant in enumerate(mutants, 1):
        verdict = judge.judge(mutant)
        verdicts.append(verdict)
        loud = "MISSED" if verdict.outcome == MISSED else verdict.outcome
        why = f" ({verdict.why})" if verdict.why else ""
        where = "" if mutant.name.startswith(mutant.file) else f"{mutant.file}: "
        print(f"mutants: {room.name} {number}/{len(mutants)} {loud}{why}: {where}{mutant.name}", file=sys.stderr, flush=True)
    return verdicts


def main(words):
    options = arguments(words)
    cargo_mutants = os.environ.get("PENDULUM_CARGO_MUTANTS", "cargo-mutants")
    sampled = []
    for room in chosen_rooms(options.room):
        mutants = mutants_of(room, cargo_mutants)
        mutants = [m for m in mutants if options.match in m.name or options.match in m.file]
        sampled.append((room, sample(mutants, options.seed, room.name, options.count), len(mutants)))
    if options.list:
        for room, mutants, of in sampled:
            print(f"{room.name}: {len(mutants)} of {of}")
            print("\n".join(f"  {m.name if m.name.startswith(m.file) else m.file + ': ' + m.name}" for m in mutants))
        return 0
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    place = place_below(built)
    seed_target(built, place / "target")
    tree = Tree(ROOT, place)
    rows, missed = [], 0
    for room, mutants, _ in sampled:
        verdicts = run_room(tree, room, mutants)
        rows.append(report.row(room, verdicts, f"seed {options.seed}, {options.count or 'all'}"))
        missed += sum(v.outcome == MISSED for v in verdicts)
    print(report.text(rows))
    if options.write:
        TABLE.write_text(report.merged(TABLE.read_text(), rows, list(rooms())))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Broken, TableError) as error:
        sys.exit(f"mutants: {error}")
