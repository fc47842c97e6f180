"""The table of groups, the order in which they run, and how long tests took."""

import json
import tempfile
import unittest
from pathlib import Path

import counts
import groups
import runner
import times

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

    def test_only_what_sends_real_packets_may_have_a_second_run(self):
        real = {group.name for group in groups.load().groups if group.real_packets}
        self.assertTrue({"live", "shape", "vm"} <= real)
        self.assertFalse(real & {"unit", "bpf", "ns3", "scripts"})

    def test_long_forms_belong_to_groups(self):
        table = groups.load()
        for long in table.longs:
            table.find(long.group)

    def test_an_unknown_group_is_named(self):
        with self.assertRaisesRegex(groups.GroupError, "'units'.*unit"):
            runner.chosen_groups(groups.load(), ["units"])


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
    def ran(self, script, layer="namespaces", limit_s=60):
        """What a group comes to whose one program is this shell script."""
        with tempfile.TemporaryDirectory() as logs:
            path = Path(logs) / "program"
            path.write_text("#!/bin/sh\n" + script)
            path.chmod(0o755)
            table = groups.Table([groups.Group("g", layer, "", limit_s=limit_s)], [])
            options = runner.Options(Path(logs), Path(logs), [], table)
            built = groups.Built([groups.Program("p", "g", "test", path, Path(logs))])
            counted, seconds = runner.run_group(table.groups[0], built, [], options)
            runner.once_more([(table.groups[0], counted, seconds)], built, options)
            return counted

    FAILS_ONCE = """if [ -e before ]; then
        printf 'running 1 test\\ntest t ... ok\\ntest result: ok. 1 passed; 0 failed; 0 ignored;\\n'; exit 0
    fi
    touch before
    printf 'running 1 test\\ntest t ... FAILED\\ntest result: FAILED. 0 passed; 1 failed; 0 ignored;\\n'; exit 101
    """

    FAILS = "printf 'running 1 test\\ntest t ... FAILED\\ntest result: FAILED. 0 passed; 1 failed; 0 ignored;\\n'; exit 101\n"
    THREE_FAIL_ONCE = FAILS_ONCE.replace("t ... FAILED\\n", "t ... FAILED\\ntest u ... FAILED\\ntest v ... FAILED\\n").replace("1 failed", "3 failed")

    def test_a_unit_test_that_fails_has_failed(self):
        counted = self.ran(self.FAILS_ONCE, layer="unit")
        self.assertEqual((counted.passed, counted.failed, counted.repeated), (0, 1, []))

    def test_a_test_with_real_packets_has_a_second_run_and_is_named(self):
        counted = self.ran(self.FAILS_ONCE)
        self.assertEqual((counted.passed, counted.failed), (1, 0))
        self.assertIn("t: failed, and passed", counted.repeated[0])

    def test_what_fails_twice_has_failed(self):
        counted = self.ran(self.FAILS)
        self.assertEqual((counted.passed, counted.failed, len(counted.repeated)), (0, 1, 1))

    def test_beside_two_other_failures_nothing_is_repeated(self):
        counted = self.ran(self.THREE_FAIL_ONCE)
        self.assertEqual((counted.passed, counted.failed, counted.repeated), (0, 3, []))

    def test_a_test_of_a_guest_is_run_in_a_guest_of_that_kernel(self):
        options = runner.Options(Path("/logs"), Path("/target"), [], groups.Table([], []))
        vm = groups.Group("vm", "guests", "")
        failures = ["6.12.117+deb12 shape: behind::a_rate", "6.1.0-56 queue-short: flows::end"]
        words = [step.command[-5:] for step in runner.again_steps(vm, failures, groups.Built(), options)]
        self.assertEqual(words, [["6.12", "--suite", "shape", "--exact", "behind::a_rate"], ["6.1", "--suite", "queue-short", "--exact", "flows::end"]])
        self.assertEqual(runner.again_steps(vm, [*failures, "7.2.12 queue: the guest ended before the suite did"], groups.Built(), options), [])

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
