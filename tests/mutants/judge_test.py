"""What is said of a mutant, and the table that is made of it."""

import dataclasses
import subprocess
import tempfile
import unittest
from pathlib import Path

import report
from judge import CAUGHT, MISSED, UNVIABLE, Broken, Judge, Verdict
from rooms import RUST, Mutant, Room
from scratch import Tree, mirror

MUTANT = Mutant("a | b", "a.txt", 0, 1, "z")
ROOM = Room("model", "the model", RUST, [["-p", "one"], ["-p", "two", "--", "only"]])
IN_GUEST = dataclasses.replace(ROOM, guests=[["6.12", "--suite", "live"], ["6.1"]])


class Played:
    """A tree whose commands end as the test says."""

    def __init__(self, place, statuses):
        self.root, self.log, self.statuses, self.asked = place, place / "log", list(statuses), []
        (place / "a.txt").write_text("abc")

    change, restore, last_words = Tree.change, Tree.restore, Tree.last_words

    def run(self, command, limit_s=None):
        self.asked.append((command[-1], (self.root / "a.txt").read_text()))
        self.log.write_text("---- a::b stdout ----\n")
        return self.statuses.pop(0)


class Judging(unittest.TestCase):
    def judge(self, *statuses, room=ROOM):
        with tempfile.TemporaryDirectory() as place:
            self.tree = Played(Path(place), statuses)
            verdict = Judge(self.tree, room).judge(MUTANT)
            self.assertEqual((self.tree.root / "a.txt").read_text(), "abc", "taken back")
            self.assertEqual(self.tree.statuses, [])
            return verdict

    def test_missed_if_all_tests_pass(self):
        self.assertEqual(self.judge(0, 0, 0, 0).outcome, MISSED)
        self.assertEqual(self.tree.asked, [("--no-run", "zbc"), ("one", "zbc"), ("--no-run", "zbc"), ("only", "zbc")])

    def test_caught_by_the_first_test_that_fails(self):
        verdict = self.judge(0, 101)
        self.assertEqual((verdict.outcome, verdict.why), (CAUGHT, "a::b"))

    def test_caught_if_it_does_not_end(self):
        self.assertEqual(self.judge(0, 0, 0, None).outcome, CAUGHT)

    def test_not_viable_if_it_does_not_compile(self):
        self.assertEqual(self.judge(101).outcome, UNVIABLE)

    def test_guests_look_last_at_what_the_others_let_pass(self):
        self.assertEqual(self.judge(0, 0, 0, 0, 0, 0, room=IN_GUEST).outcome, MISSED)
        self.assertEqual(self.tree.asked[-2:], [("live", "zbc"), ("6.1", "zbc")])
        self.assertEqual(self.judge(0, 0, 0, 0, 0, 1, room=IN_GUEST).outcome, CAUGHT)
        self.assertEqual(self.judge(0, 0, 0, 0, 1, room=IN_GUEST).outcome, CAUGHT)
        self.assertEqual(self.judge(0, 101, room=IN_GUEST).outcome, CAUGHT)

    def test_a_failure_in_a_guest_is_named(self):
        with tempfile.TemporaryDirectory() as place:
            tree = Played(Path(place), [])
            tree.log.write_text("vm total\nvm failed: 6.12.1 live: modem::a\nvm why: b\n")
            self.assertEqual(Judge(tree, IN_GUEST).first_failure(), "6.12.1 live: modem::a")

    def test_tests_that_fail_without_a_mutant_judge_nothing(self):
        for room, statuses in [(ROOM, [101]), (ROOM, [0, 101]), (IN_GUEST, [0, 0, 0, 0, 1])]:
            with tempfile.TemporaryDirectory() as place, self.assertRaises(Broken):
                Judge(Played(Path(place), statuses), room).check_whole()


class Copy(unittest.TestCase):
    def test_the_copy_follows_and_leaves_alone_what_is_the_same(self):
        with tempfile.TemporaryDirectory() as place:
            root, copy = Path(place) / "root", Path(place) / "copy"
            root.mkdir()
            subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
            (root / ".gitignore").write_text("ignored\n")
            for name in ["same", "changes", "goes", "ignored"]:
                (root / name).write_text(name)
            mirror(root, copy)
            self.assertEqual(sorted(p.name for p in copy.iterdir()), [".gitignore", "changes", "goes", "same"])
            made = (copy / "same").stat().st_mtime_ns
            (root / "changes").write_text("changed")
            (root / "goes").unlink()
            mirror(root, copy)
            self.assertEqual((copy / "changes").read_text(), "changed")
            self.assertFalse((copy / "goes").exists())
            self.assertEqual((copy / "same").stat().st_mtime_ns, made)

    def test_what_does_not_end_is_ended_with_all_it_started(self):
        with tempfile.TemporaryDirectory() as place:
            root = Path(place) / "root"
            root.mkdir()
            subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
            (Path(place) / "below").mkdir()
            tree = Tree(root, Path(place) / "below")
            self.assertIsNone(tree.run(["sh", "-c", "sleep 60 & sleep 60"], 0.2))
            self.assertEqual(tree.run(["true"]), 0)


class Table(unittest.TestCase):
    VERDICTS = [Verdict(MUTANT, CAUGHT), Verdict(MUTANT, MISSED), Verdict(MUTANT, UNVIABLE), Verdict(MUTANT, CAUGHT)]

    def test_what_is_not_viable_does_not_count(self):
        row = report.row(ROOM, self.VERDICTS, "seed 1, 4")
        self.assertEqual(list(row.values()), ["model", "the model", "seed 1, 4", 2, 3, 1, "a | b"])
        self.assertEqual(report.text([row]), "model: 2 of 3 caught (1 more not viable)\n  missed: a | b")
        self.assertEqual(report.text([report.row(ROOM, self.VERDICTS[:1], "all")]), "model: 1 of 1 caught")

    def test_the_table_keeps_the_rows_of_other_rooms(self):
        table = ",".join(report.HEAD) + "\nhttp,x,all,1,2,0,y\nmodel,x,all,0,1,0,z\n"
        new = report.merged(table, [report.row(ROOM, self.VERDICTS, "seed 1, 4")], ["model", "http"])
        self.assertEqual(new.splitlines()[1:], ['model,the model,"seed 1, 4",2,3,1,a | b', "http,x,all,1,2,0,y"])
        self.assertEqual(report.merged(new, [], ["model", "http"]), new)


if __name__ == "__main__":
    unittest.main()
