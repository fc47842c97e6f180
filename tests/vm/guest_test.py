"""What the runner decides about kernels, modules, suites and the end of a boot. Boots nothing, fetches nothing."""

import contextlib
import dataclasses
import io
import subprocess
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import initramfs
import kernels
import machines
import qemu
import run
import suites
from run import counts


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

    def test_names_of_kernels_and_machines(self):
        self.assertEqual(kernels.select([]), ["6.1", "6.12", "7.2"])
        self.assertEqual(kernels.select(["arm64"]), ["6.12-arm64", "7.2-arm64"])
        with self.assertRaisesRegex(kernels.KernelError, "5.4"):
            kernels.select(["6.1", "5.4"])

    def test_a_kernel_s_version_tells_its_machine(self):
        def version(name, release):
            return kernels.Kernel(name, release, None, None).version

        self.assertEqual(version("6.12", "6.12.117+deb12-cloud-amd64"), "6.12.117+deb12")
        self.assertEqual(version("6.12-arm64", "6.12.117+deb12-cloud-arm64"), "6.12.117+deb12-arm64")


class Guests(unittest.TestCase):
    """Which suites share a guest, and what its log says of each."""

    TABLE = [
        suites.Suite("a", 10, script="a.sh"),
        suites.Suite("b", 30, script="b.sh", guest="second"),
        suites.Suite("c", 10, script="c.sh", kernels=["6.1"]),
    ]
    A_PASSED = f"{suites.BEGIN} a 3.5\nrunning 1 test\ntest x ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored;\n{suites.DONE} a 0 5.0\n"

    def test_suites_share_guests_and_the_longest_begins(self):
        found = [(kernel, [suite.name for suite in table]) for kernel, table in run.guests(["6.1", "7.2"], self.TABLE)]
        self.assertEqual(found, [("6.1", ["b"]), ("7.2", ["b"]), ("6.1", ["a", "c"]), ("7.2", ["a"])])

    def test_each_suite_has_its_part_of_the_log(self):
        found = run.parts(f"PENDULUM-VM start 3\n{self.A_PASSED}{suites.BEGIN} b 5.0\nhalf")
        self.assertEqual(found["a"].ended, run.Ended(0, 1.5))
        self.assertEqual((found["b"].lines, found["b"].ended), (["half"], run.Ended()))

    def test_a_log_is_read_while_the_guest_writes_it(self):
        log = f"PENDULUM-VM start 3\r\n{self.A_PASSED}"
        begun, ended = log.index(" a 3.5\n") + len(" a 3.5"), len(log) - 1
        for written in range(len(log) + 1):
            found = run.parts(log[:written])
            self.assertEqual("a" in found, written > begun, written)
            if "a" in found:
                self.assertEqual(found["a"].ended, run.Ended(0, 1.5) if written > ended else run.Ended(), written)

    def boots(self, *outcomes):
        """What run_guest makes of guests that end so, one after the other: (log, problem)."""
        outcomes, booted = list(outcomes), []
        with tempfile.TemporaryDirectory() as logs:

            def boot(guest, table, built, home, niceness):
                booted.append([suite.name for suite in table])
                log, problem = outcomes.pop(0)
                path = Path(home) / "guest.log"
                path.write_text(log)
                path.with_suffix(".console.log").write_text("")
                return path, qemu.Outcome(3.0, 9.0, None if problem else 0, problem), run.parts(log)

            with unittest.mock.patch.object(run, "boot_suites", boot), contextlib.redirect_stdout(io.StringIO()):
                guest = run.Guest(kernels.Kernel("6.1", "6.1.0-amd64", None, None), None, None)
                cells = run.run_guest(guest, self.TABLE[:2], {}, Path(logs), 0)
        return booted, [(cell.suite, cell.text()) for cell in cells]

    def test_a_suite_that_brings_its_guest_down_has_failed_and_the_rest_gets_another(self):
        first = (f"{suites.BEGIN} a 3.5\nrunning 1 test\n", "Kernel panic - not syncing")
        second = (self.A_PASSED.replace(" a ", " b "), None)
        booted, cells = self.boots(first, second)
        self.assertEqual(booted, [["a", "b"], ["b"]])
        # The program without a result, and the guest without the suite's end.
        self.assertEqual(cells, [("a", "0/2/0"), ("b", "1/0/0")])

    def test_a_guest_that_never_begins_fails_every_suite(self):
        booted, cells = self.boots(("", "Kernel panic"), ("", "Kernel panic"))
        self.assertEqual((booted, cells), ([["a", "b"], ["b"]], [("a", "0/1/0"), ("b", "0/1/0")]))

    def test_a_guest_that_panics_behind_its_suites_has_failed(self):
        booted, cells = self.boots((self.A_PASSED + self.A_PASSED.replace(" a ", " b "), "Kernel panic"))
        self.assertEqual((booted, cells), ([["a", "b"]], [("a", "1/0/0"), ("b", "1/1/0")]))

    def test_a_silent_suite_fails(self):
        _, cells = self.boots((f"{suites.BEGIN} a 1\n{suites.DONE} a 0 2\n" + self.A_PASSED.replace(" a ", " b "), None))
        self.assertEqual(cells, [("a", "0/1/0"), ("b", "1/0/0")])

    def test_what_skips_itself_where_it_is_judged_alone_has_failed(self):
        part = run.parts(self.A_PASSED.replace("test x ... ok", "test x ... SKIPPED x: no clang-19\nok"))["a"]
        for suite, text in [
            (suites.Suite("a", 1, test="shape", kernels=["6.12"], host=False), "0/1/0"),
            (suites.Suite("a", 1, test="shape", kernels=None, host=False), "0/0/1"),
            (suites.Suite("a", 1, test="shape", kernels=["6.12"]), "0/0/1"),
        ]:
            self.assertEqual(run.Cell("6.12", "a", run.judge(part, None, suite)).text(), text)


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

    def test_a_named_suite_runs_on_the_kernels_that_are_named_with_it(self):
        table = [suites.Suite(name, 60, script="smoke.sh", kernels=["7.2"]) for name in ("one", "two")]
        self.assertEqual([(suite.name, suite.kernels) for suite in suites.named(table, ["two"], [])], [("two", ["7.2"])])
        self.assertEqual([(suite.name, suite.kernels) for suite in suites.named(table, ["two"], ["6.1"])], [("two", None)])
        with self.assertRaisesRegex(suites.SuiteError, "no suite 'three'; there are one, two"):
            suites.named(table, ["one", "three"], [])

    def test_words_choose_tests_of_suites(self):
        with tempfile.TemporaryDirectory() as work:
            program = Path(work) / "program"
            program.write_text('#!/bin/sh\nfor name in m::a m::b n::a; do case "$name" in "${1#--list}"*) echo "$name: test" ;; esac; done\n')
            program.chmod(0o755)
            built = {name: suites.Programs(program, Path(work), []) for name in ("m", "n")}
            table = [suites.Suite(name, 60, test="g", arguments=[f"{name}::", "--nocapture"]) for name in built]
            script = suites.Suite("smoke", 60, script="smoke.sh")
            chosen = suites.chosen_tests([script, *table], built, ["m::b"])
        self.assertEqual([(suite.name, suite.arguments) for suite in chosen], [("m", ["m::b", "--exact", "--nocapture"])])

    def test_only_what_is_judged_here_alone_is_taken_from_the_host(self):
        table = [suites.Suite("one", 60, test="g"), suites.Suite("two", 60, test="g", host=False), suites.Suite("three", 60, test="h", host=False)]
        self.assertEqual([suite.name for suite in suites.only_in_guests(table, "g")], ["two"])

    def test_an_installed_agent_stands_in_for_the_one_that_was_built(self):
        built = suites.Programs(Path("/t/cli-1"), Path("/w/agent"), [Path("/t/pendulum"), Path("/t/pendulum-lab")])
        self.assertEqual(dict(built.files()), {path: path for path in (built.test, *built.binaries)})
        installed = dict(dataclasses.replace(built, agent=Path("/package/pendulum-aarch64")).files())
        self.assertEqual(installed, dict(built.files()) | {Path("/t/pendulum"): Path("/package/pendulum-aarch64")})


class Programs(unittest.TestCase):
    def test_foreign_ones_come_with_their_libraries_and_absolute_links_stay_below_the_root(self):
        with tempfile.TemporaryDirectory() as root:
            for name in ("usr/bin", "usr/sbin", "usr/lib/m"):
                (Path(root) / name).mkdir(parents=True)
            (Path(root) / "usr/bin/ip").write_bytes(b"")
            (Path(root) / "usr/sbin/ip").symlink_to("/usr/bin/ip")
            (Path(root) / "usr/lib/m/libx.so.1").write_bytes(b"")
            tools = machines.ForeignTools(root, "m")
            self.assertEqual((tools.find("ip"), tools.file(tools.find("ip"))), ("/usr/sbin/ip", Path(root) / "usr/bin/ip"))
            with self.assertRaisesRegex(machines.MissingTool, "'tc'"):
                tools.find("tc")
            needs = {"program": "(NEEDED) Shared library: [libx.so.1]\n[Requesting program interpreter: /lib/ld.so]", "libx.so.1": "", "ld.so": ""}

            def readelf(command, **_):
                return unittest.mock.Mock(stdout=needs[Path(command[-1]).name])

            with unittest.mock.patch.object(subprocess, "run", readelf):
                self.assertEqual(sorted(tools.libraries(Path("program"))), ["/lib/ld.so", "/usr/lib/m/libx.so.1"])
                needs["program"] = "(NEEDED) Shared library: [liby.so.1]"
                with self.assertRaisesRegex(machines.MissingTool, "liby.so.1"):
                    tools.libraries(Path("program"))

    def test_both_machines_have_a_port_for_each_kind_of_output(self):
        for name, log in (("6.12", "file:log"), ("6.12-arm64", "file,id=log,path=log")):
            words = qemu.command(kernels.Kernel(name, name, "image", None), "initramfs", "log", "console", True, 2)
            self.assertTrue({"file:console", log} <= set(words), words)


class Ends(unittest.TestCase):
    def test_the_end_marker(self):
        self.assertEqual(qemu.end_status("PENDULUM-VM start 2.9\nx\nPENDULUM-VM end 101\n"), 101)
        for ended_before in ["PENDULUM-VM start 2.9\n", "x\nPENDULUM-VM end", "x\nPENDULUM-VM end 10"]:
            self.assertIsNone(qemu.end_status(ended_before))
        self.assertIn("Kernel panic", qemu.why_no_end("[ 1.0] Kernel panic - not syncing: VFS\n", ""))

    def test_the_table(self):
        cells = [run.Cell("6.1", "smoke", counts.Counts(passed=3)), run.Cell("7", "bpf", counts.Counts(failed=1))]
        lines = run.table_text(cells).splitlines()
        self.assertEqual([line.split() for line in lines], [["kernel", "smoke", "bpf"], ["6.1", "3/0/0", "-"], ["7", "-", "0/1/0"]])


class Qemu(unittest.TestCase):
    def checked(self, says, status=0):
        with tempfile.TemporaryDirectory() as work:
            program = Path(work) / "qemu"
            program.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
            program.chmod(0o755)
            qemu.check(program)

    def test_an_old_one_is_named_with_the_version_that_is_needed(self):
        self.checked("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)")
        self.checked("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)")
        for says in ("QEMU emulator version 5.2.0 (Debian 1:5.2+dfsg-11)", "something else", ""):
            with self.assertRaisesRegex(qemu.QemuError, "7.2 or newer"):
                self.checked(says)

    def test_a_missing_or_broken_one_is_named_with_its_package(self):
        with self.assertRaisesRegex(qemu.QemuError, "Debian's package"):
            qemu.check("/nonexistent/qemu")
        with self.assertRaisesRegex(qemu.QemuError, "Debian's package"):
            self.checked("library missing", 127)

    def test_guests_need_no_kvm_and_two_of_them_fit_into_4_gb(self):
        command = qemu.command(kernels.Kernel("6.12", "6.12", "image", None), "initramfs", "log", "console", True, 2)
        self.assertNotIn("kvm", " ".join(map(str, command)))
        self.assertLessEqual(run.GUESTS_AT_ONCE * (qemu.MEMORY_MIB + qemu.TRANSLATED_MIB + 128), 3072)


class InitScript(unittest.TestCase):
    def test_it_parses(self):
        subprocess.run(["bash", "-n", suites.HERE / "init"], check=True)


if __name__ == "__main__":
    unittest.main()
