"""The table of groups, the order in which they run, and how long tests took."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import counts
import groups
import runner
import times
from runner import suites

import kernels  # noqa: E402 # from tests/vm, which runner puts on the path

LOG = """\
running 3 tests
test a ... ok <0.250s>
test m::b ... printed
more of it
ok <12.500s>
test c ... FAILED <1.000s>
test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
"""


class Table(unittest.TestCase):
    def test_it_has_every_group_of_the_workspace_once(self):
        names = [group.name for group in groups.load().groups]
        wanted = {group for group, _, _ in groups.targets()} | set(groups.OTHERS)
        self.assertEqual((sorted(names), len(names)), (sorted(wanted), len(wanted)))

    def test_what_needs_no_root_is_known(self):
        free = {group.name for group in groups.load().groups if not group.needs_root}
        self.assertTrue({"unit", "scripts", "vm"} <= free)
        self.assertFalse(free & {"bpf", "queue", "cli"})

    def test_without_root_it_says_at_once_what_needs_none(self):
        words = ["runner.py", "--logs", "/nowhere", "--target", "/nowhere", "--names"]
        with unittest.mock.patch.object(os, "geteuid", lambda: 1000), contextlib.redirect_stderr(io.StringIO()) as said:
            with unittest.mock.patch.object(sys, "argv", [*words, "unit", "queue"]):
                self.assertEqual(runner.main(), runner.NO_PERMISSION)
            self.assertRegex(said.getvalue(), r"(?s)queue\n.*any of: .*unit")
            with unittest.mock.patch.object(sys, "argv", [*words, "unit"]), contextlib.redirect_stdout(io.StringIO()) as names:
                self.assertEqual(runner.main(), 0)
        self.assertEqual(names.getvalue(), "unit:unit\n")

    def test_help_is_text_and_nothing_else(self):
        """A build or a guest would take longer than anybody waits for help. What help would build may be in the cache already, so it gets an empty one."""
        root = Path(__file__).resolve().parents[2]
        commands = ["demo", "test", "vm", "fuzz", "mutants", "ns3", "bench", "page", "package", "generate", "lint"]
        for command in commands:
            with tempfile.TemporaryDirectory() as empty:
                env = os.environ | {"XDG_CACHE_HOME": empty, "CARGO_TARGET_DIR": f"{empty}/target"}
                asked = subprocess.run([root / "dev", command, "--help"], capture_output=True, text=True, timeout=60, env=env)
                self.assertEqual(os.listdir(empty), [], command)
            self.assertEqual(asked.returncode, 0, f"{command}: {asked.stderr}")
            self.assertTrue(asked.stdout.startswith("usage: "), f"{command}: {asked.stdout}")
            self.assertEqual(asked.stderr, "", command)

    def test_what_guests_alone_judge_belongs_to_a_group(self):
        table = groups.load()
        usual = kernels.select([])
        for suite in suites.load():
            if not suite.host:
                judges = [name for name in suite.kernels if name in usual]
                self.assertEqual(len(judges), 1, f"{suite.name}: of the kernels of ./dev test, one judges for the host")
                table.find(suite.test)

    def test_long_forms_belong_to_groups(self):
        table = groups.load()
        for long in table.longs:
            table.find(long.group)

    def test_an_unknown_group_is_named(self):
        with self.assertRaisesRegex(groups.GroupError, "'units'.*unit"):
            runner.chosen_groups(groups.load(), ["units"])

    def test_guests_run_for_the_groups_that_leave_tests_to_them(self):
        def names(*wanted):
            chosen, left = runner.chosen_groups(groups.load(), wanted)
            return [group.name for group in chosen], left

        self.assertEqual(names("unit"), (["unit"], []))
        self.assertEqual(names("unit", "live"), (["live", "unit", "vm"], ["live"]))
        chosen, left = names()
        self.assertEqual((chosen.count("vm"), left), (1, []))


class Builds(unittest.TestCase):
    def test_everything_is_built_at_once(self):
        self.assertEqual(groups.selection(["unit", "cli", "vm"]), ["--workspace"])
        self.assertEqual(groups.selection(["unit", "cli"]), ["--workspace", "--lib", "--bins", "--test", "cli"])
        self.assertEqual(groups.selection(["package"]), ["--workspace", "--test", "cli"])
        self.assertEqual(groups.selection(["scripts", "doc"]), [])

    def test_programs_and_their_groups(self):
        def artifact(name, kind, test, executable="/t/x"):
            target = {"name": name, "kind": [kind]}
            message = {"reason": "compiler-artifact", "executable": executable, "target": target, "profile": {"test": test}}
            return json.dumps({**message, "manifest_path": "/w/agent/Cargo.toml"})

        lines = [artifact("pendulum", "lib", False, None), artifact("pendulum", "bin", False), artifact("pendulum", "lib", True), artifact("cli", "test", True)]
        found = [(program.group, program.target, program.directory) for program in groups.programs(lines)]
        self.assertEqual(found, [("unit", "pendulum", Path("/w/agent")), ("cli", "cli", Path("/w/agent"))])


class Running(unittest.TestCase):
    def ran(self, script, limit_s=60, words=()):
        """What a group comes to whose one program is this shell script."""
        with tempfile.TemporaryDirectory() as logs:
            program, options = self.of(logs, script, words)
            group = groups.Group("g", "namespaces", "", limit_s=limit_s)
            counted, _ = runner.run_group(group, groups.Built([program]), [], options)
            return counted

    @staticmethod
    def of(logs, script, words=()):
        path = Path(logs) / "program"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        options = runner.Options(Path(logs), Path(logs), list(words), groups.Table([], []))
        return groups.Program("p", "g", "test", path, Path(logs)), options

    def test_a_test_that_fails_has_failed(self):
        counted = self.ran("printf 'running 1 test\\ntest t ... FAILED\\ntest result: FAILED. 0 passed; 1 failed; 0 ignored;\\n'; exit 101\n")
        self.assertEqual((counted.passed, counted.failed, counted.failures), (0, 1, ["t"]))

    # Lists its tests, those that are asked for.
    LISTS = """for name in a::x a::y b::z; do
        case "$name" in $1*) echo "$name: test" ;; esac
    done
    """

    def test_what_guests_judge_is_left_out(self):
        table = [suites.Suite("in guests", 60, test="g", arguments=["a::"], host=False), suites.Suite("too", 60, test="g", arguments=["b::"])]
        with tempfile.TemporaryDirectory() as logs, unittest.mock.patch.object(suites, "load", lambda: table):
            program, options = self.of(logs, self.LISTS.replace("$1*", '"${1#--list}"*'))
            self.assertEqual(runner.on_this_machine(program, options), ["b::z", "--exact"])
            program, options = self.of(logs, self.LISTS, ["a::x", "--nocapture"])
            self.assertIsNone(runner.on_this_machine(program, options))
            self.assertEqual(runner.steps_of(groups.Group("g", "namespaces", ""), groups.Built([program]), options), [])

    def test_guests_get_what_was_asked_for(self):
        options = runner.Options(Path("/logs"), Path("/target"), ["a b", "--nocapture"], groups.Table([], []), guests_of=["live", "queue"], guest_limit_s=9)
        words = runner.guests(options).command
        self.assertEqual(words[words.index("--group"):], ["--group", "live", "--group", "queue", "--only", "'a b' --nocapture", "--limit", 9])

    def test_a_program_that_crashes_has_failed(self):
        self.assertEqual(self.ran("echo running 2 tests\nkill -9 $$\n").failed, 1)

    def test_a_program_that_does_not_end_has_failed(self):
        self.assertEqual(self.ran("echo running 2 tests\nexec sleep 60\n", limit_s=0.2).failed, 1)

    def test_a_program_that_was_not_built_has_failed(self):
        with tempfile.TemporaryDirectory() as logs:
            options = runner.Options(Path(logs), Path(logs), [], groups.Table([], []))
            counted, _ = runner.run_group(groups.Group("g", "unit", ""), groups.Built(), ["g"], options)
        self.assertEqual((counted.passed, counted.failed), (0, 1))


class Times(unittest.TestCase):
    def test_each_test_has_its_own(self):
        self.assertEqual(list(times.of_log(LOG.splitlines())), [(0.25, "a"), (12.5, "m::b"), (1.0, "c")])

    def test_the_slowest_come_first_with_where_they_ran(self):
        with tempfile.TemporaryDirectory() as home:
            host, guest = Path(home) / "host", Path(home) / "vm/6.1.0-56"
            for path in (host / "cli.log", guest / "bpf.log", guest / "guest-smoke.log"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(LOG)
            lines = times.slowest(host, guest.parent, 3)
        self.assertEqual([line.split() for line in lines], [["12.5", "s", "cli:", "m::b"], ["12.5", "s", "bpf", "on", "6.1.0-56:", "m::b"], ["1.0", "s", "cli:", "c"]])

    def test_a_clock(self):
        self.assertEqual(runner.clock(192.7), "3:12")

    def test_counting_is_not_disturbed(self):
        self.assertEqual(counts.count(LOG.splitlines(), 101).failures, ["c"])


if __name__ == "__main__":
    unittest.main()
