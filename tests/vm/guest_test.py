"""What the runner decides about kernels, modules, suites and the end of a boot. Boots nothing, fetches nothing."""

import io
import json
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

import counts
import initramfs
import kernels
import qemu
import run
import suites

SUITE = suites.Suite("bpf", 60, package="pendulum", target="test bpf")


class Kernels(unittest.TestCase):
    def test_the_newest_is_the_highest_number_not_the_last_name(self):
        names = ["linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-56-cloud-amd64", "linux-image-6.1.0-60-amd64"]
        found = kernels.newest(names, kernels.CATALOGUE["6.1"][0])
        self.assertEqual(found[1], "6.1.0-56-cloud-amd64")

    def test_nothing_matches(self):
        self.assertIsNone(kernels.newest(["linux-image-5.10.0-9-cloud-amd64"], kernels.CATALOGUE["6.1"][0]))

    def test_backports_that_moved_on(self):
        patterns = kernels.CATALOGUE["7.2"][0]
        both = ["linux-binary-7.3.4+deb13-cloud-amd64", "linux-binary-7.2.12+deb13-cloud-amd64"]
        self.assertEqual(kernels.newest(both, patterns)[1], "7.2.12+deb13-cloud-amd64")
        self.assertEqual(kernels.newest(both[:1], patterns)[1], "7.3.4+deb13-cloud-amd64")

    def test_an_unknown_name(self):
        self.assertEqual(kernels.select([]), list(kernels.CATALOGUE))
        with self.assertRaisesRegex(kernels.KernelError, "5.10"):
            kernels.select(["6.1", "5.10"])


class Boots(unittest.TestCase):
    def test_only_what_emulation_does_to_a_kernel_is_tried_again(self):
        panic = "[    3.9] Kernel panic - not syncing: Fatal exception in interrupt"
        self.assertTrue(qemu.Outcome(None, 8.7, None, panic).died_of_emulation)
        self.assertFalse(qemu.Outcome(5.0, 30.0, None, panic).died_of_emulation)
        self.assertFalse(qemu.Outcome(None, 180.0, None, "it had not ended after 180 s").died_of_emulation)
        self.assertFalse(qemu.Outcome(5.0, 30.0, 1, None).died_of_emulation)
        console = "[  139.18] Oops: int3: 0000 [#1] SMP NOPTI\n[  139.20] Kernel panic - not syncing: Fatal exception in interrupt\n"
        self.assertTrue(qemu.Outcome(11.6, 142.6, None, qemu.why_no_end(console, "")).died_of_emulation)


class Together(unittest.TestCase):
    def test_a_guest_that_must_be_alone_waits_for_all_others_and_they_for_it(self):
        machine, order = run.Machine(2), []
        alone = threading.Thread(target=lambda: self.be(machine, True, order))
        with machine.room(False), machine.room(False):
            alone.start()
            order.append("two")
        alone.join(10)
        with machine.room(False):
            order.append("one")
        self.assertEqual((order, machine.free), (["two", "alone", "one"], 2))

    def be(self, machine, alone, order):
        with machine.room(alone):
            order.append("alone")


class Modules(unittest.TestCase):
    DEPENDENCIES = {
        "kernel/net/sched/sch_cake.ko.xz": [],
        "kernel/net/sched/act_mirred.ko.xz": ["kernel/net/a.ko.xz"],
        "kernel/net/a.ko.xz": [],
        "kernel/fs/ext4.ko.xz": [],
    }

    def test_what_a_module_needs_comes_with_it(self):
        chosen = initramfs.closure(["act_*"], self.DEPENDENCIES)
        self.assertEqual(chosen, ["kernel/net/a.ko.xz", "kernel/net/sched/act_mirred.ko.xz"])

    def test_dashes_and_underscores_are_the_same(self):
        self.assertEqual(initramfs.closure(["af_packet_diag"], {"kernel/af-packet-diag.ko": []}), ["kernel/af-packet-diag.ko"])


class Cpio(unittest.TestCase):
    def test_two_joined_archives(self):
        with tempfile.TemporaryDirectory() as base:
            image = Path(base) / "image"
            for name, text in (("/etc/one", "1\n"), ("/lib/two", "22\n")):
                with open(image, "ab") as output:
                    archive = initramfs.Archive(output)
                    archive.data(name, text)
                    archive.close()
            listed = image.read_bytes()
        self.assertEqual(len(listed) % 512, 0)
        self.assertIn(b"usr/lib/two\0", listed)
        self.assertEqual(listed.count(b"TRAILER!!!"), 2)

    def test_a_name_is_written_once(self):
        output = io.BytesIO()
        archive = initramfs.Archive(output)
        archive.data("/bin/ip", "real")
        archive.link("/usr/bin/ip", "/usr/bin/busybox")
        self.assertEqual(output.getvalue().count(b"usr/bin/ip\0"), 1)


class Suites(unittest.TestCase):
    def test_the_table_is_sound(self):
        table = suites.load()
        names = [suite.name for suite in table]
        self.assertEqual(len(names), len(set(names)))
        for suite in table:
            self.assertTrue(set(suite.kernels or []) <= set(kernels.CATALOGUE), suite.name)

    def test_a_suite_is_a_script_or_a_test_target(self):
        with self.assertRaisesRegex(suites.SuiteError, "either"):
            suites.Suite("neither", 60)

    def test_artifacts(self):
        def artifact(executable, kind, test):
            target = {"kind": [kind]}
            message = {"reason": "compiler-artifact", "executable": executable, "target": target, "profile": {"test": test}}
            return json.dumps({**message, "manifest_path": "/w/agent/Cargo.toml"})

        lines = [artifact(None, "lib", False), artifact("/t/pendulum", "bin", False), artifact("/t/bpf-1", "test", True)]
        programs = suites.parse_artifacts(SUITE, lines)
        self.assertEqual((programs.test, programs.directory), (Path("/t/bpf-1"), Path("/w/agent")))
        self.assertEqual(programs.binaries, [Path("/t/pendulum")])
        with self.assertRaises(suites.SuiteError):
            suites.parse_artifacts(SUITE, lines[:2])


class Judgement(unittest.TestCase):
    PASSED = "running 1 test\ntest a ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n"

    def judge(self, text, status=0, problem=None):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
            log.write(text)
            log.flush()
            counted = run.judge(qemu.Outcome(3.0, 4.0, status, problem), log.name, "bpf")
        return (counted.passed, counted.failed)

    def test_a_boot_without_its_end_fails_even_if_all_tests_passed(self):
        self.assertEqual(self.judge(self.PASSED), (1, 0))
        self.assertEqual(self.judge(self.PASSED, None, "Kernel panic - not syncing"), (1, 1))

    def test_a_silent_guest_fails(self):
        self.assertEqual(self.judge(""), (0, 1))

    def test_the_end_marker(self):
        self.assertEqual(qemu.end_status("PENDULUM-VM start 2.9\nx\nPENDULUM-VM end 101\n"), 101)
        self.assertIsNone(qemu.end_status("PENDULUM-VM start 2.9\n"))
        self.assertIn("Kernel panic", qemu.why_no_end("[ 1.0] Kernel panic - not syncing: VFS\n", ""))

    def test_the_table(self):
        cells = [run.Cell("6.1", "smoke", counts.Counts(passed=3)), run.Cell("7", "bpf", counts.Counts(failed=1))]
        lines = run.table_text(cells).splitlines()
        self.assertEqual([line.split() for line in lines], [["kernel", "smoke", "bpf"], ["6.1", "3/0/0", "-"], ["7", "-", "0/1/0"]])


class InitScript(unittest.TestCase):
    def test_it_parses(self):
        subprocess.run(["bash", "-n", suites.HERE / "init"], check=True)


if __name__ == "__main__":
    unittest.main()
