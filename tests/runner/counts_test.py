"""What counts.py makes of the output of each runner."""

import contextlib
import io
import unittest

import counts

LIBTEST = """
     Running unittests src/lib.rs (target/debug/deps/model-1)
running 4 tests
test segment::a ... ok
test segment::b ... ignored, needs a printer
test segment::c ... FAILED
test segment::d - should panic ... ok

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""


def counted(text, status=0):
    return counts.count(text.splitlines(), status)


def numbers(c):
    return (c.passed, c.failed, c.skipped)


class Libtest(unittest.TestCase):
    def test_sums_results_and_names_what_did_not_pass(self):
        c = counted(LIBTEST + LIBTEST, status=101)
        self.assertEqual(numbers(c), (4, 2, 2))
        self.assertEqual(c.failures, ["segment::c"] * 2)
        self.assertEqual(c.skips, ["segment::b: needs a printer"] * 2)

    def test_what_a_failed_test_said_is_kept(self):
        said = "thread 'segment::c' (7) panicked at src/lib.rs:5:9:\nassertion failed: 0.4 of the rate\n  left: 1\nnote: run with `RUST_BACKTRACE=1`\n"
        passed = "successes:\n---- segment::a stdout ----\nthread 'segment::a' panicked at src/a.rs:1:1:\nas it should\n"
        output = f"{passed}\nfailures:\n\n---- segment::c stdout ----\na line before\n{said}\nfailures:\n    segment::c\n\ntest result"
        c = counted(LIBTEST.replace("test result", output), status=101)
        self.assertEqual(c.why, {"segment::c": ["src/lib.rs:5:9", "assertion failed: 0.4 of the rate", "  left: 1"]})

    def test_a_test_whose_output_is_not_captured_is_named_too(self):
        said = "thread 'm::b' (715) panicked at src/b.rs:7:9:\ntbf: no comparison\nnote: run with `RUST_BACKTRACE=1`\nFAILED\n"
        listed = "\nfailures:\n\nfailures:\n    m::b\n\n"
        result = "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n"
        c = counted(f"running 2 tests\ntest m::a ... ok\ntest m::b ... tbf: 7 left\n\n{said}{listed}{result}", status=101)
        self.assertEqual((numbers(c), c.failures), ((1, 1, 0), ["m::b"]))
        self.assertEqual(c.why, {"m::b": ["src/b.rs:7:9", "tbf: no comparison"]})

    def test_what_a_test_returned_is_kept(self):
        c = counted(LIBTEST.replace("test result", "failures:\n---- segment::c stdout ----\nError: no such device\n\ntest result"), status=101)
        self.assertEqual(c.why, {"segment::c": ["Error: no such device"]})

    def test_the_time_of_each_test_changes_nothing(self):
        text = LIBTEST.replace("... ok", "... ok <0.123s>").replace("... FAILED", "... FAILED <12.5s>")
        c = counted(text, status=101)
        self.assertEqual((numbers(c), c.failures), ((2, 1, 1), ["segment::c"]))

    def test_a_test_that_skips_itself_has_not_passed(self):
        text = "running 2 tests\ntest a ... ok\ntest m::b ... SKIPPED m::b: not root\nok\n"
        text += "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n"
        c = counted(text + text)
        self.assertEqual(numbers(c), (2, 0, 2))
        self.assertEqual(c.skips, ["m::b: not root"] * 2)

    def test_a_program_that_dies_is_a_failure(self):
        self.assertEqual(numbers(counted("running 3 tests\ntest a ... ok\n", status=101)), (0, 1, 0))

    def test_a_build_that_breaks_is_a_failure(self):
        c = counted("error[E0433]: failed to resolve\n", status=101)
        self.assertEqual(numbers(c), (0, 1, 0))
        self.assertIn("status 101", c.failures[0])

    def test_success_with_a_failing_status_is_a_failure(self):
        good = "running 1 test\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n"
        self.assertEqual(numbers(counted(good, status=1)), (1, 1, 0))


class OtherRunners(unittest.TestCase):
    def test_unittest(self):
        self.assertEqual(numbers(counted("Ran 12 tests in 0.003s\n\nOK\n")), (12, 0, 0))
        bad = "Ran 12 tests in 0.003s\n\nFAILED (failures=1, errors=2)\n"
        self.assertEqual(numbers(counted(bad, status=1)), (9, 3, 0))

    def test_a_failed_unittest_is_named_with_its_exception(self):
        block = "FAIL: test_x (guest_test.Boot.test_x)\nwhat it is for\n-----\nTraceback (most recent call last):\n  File \"x\", line 1\nAssertionError: 1 != 2\n\n-----\n"
        c = counted(f"test_x (guest_test.Boot.test_x) ... FAIL\n=====\n{block}Ran 2 tests in 0.1s\n\nFAILED (failures=1)\n", status=1)
        self.assertEqual((numbers(c), c.failures, c.why), ((1, 1, 0), ["Boot.test_x"], {"Boot.test_x": ["AssertionError: 1 != 2"]}))

    def test_the_guests_total_replaces_what_their_logs_showed(self):
        text = "  | running 3 tests\nvm skipped: 7 smoke: no mirror\nvm failed: 6.1 smoke: fentry\nvm why: it is not there\nvm total: 5 passed, 1 failed, 1 skipped\n"
        c = counted(text, status=1)
        self.assertEqual(numbers(c), (5, 1, 1))
        self.assertEqual((c.failures, c.skips), (["6.1 smoke: fentry"], ["7 smoke: no mirror"]))
        self.assertEqual(c.why, {"6.1 smoke: fentry": ["it is not there"]})


class Total(unittest.TestCase):
    def total(self, *records):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = counts.total([{"group": "g", "failures": [], "skips": [], "why": {}, **record} for record in records])
        return status, output.getvalue().splitlines()

    def test_one_plain_line_at_the_end(self):
        status, lines = self.total({"passed": 3, "failed": 0, "skipped": 1, "skips": ["t: why"]}, {"passed": 2, "failed": 0, "skipped": 0})
        self.assertEqual((status, lines), (0, ["skipped: g: t: why", "5 passed, 0 failed, 1 skipped"]))

    def test_a_failure_is_told_with_its_words(self):
        _, lines = self.total({"passed": 0, "failed": 1, "skipped": 0, "failures": ["t"], "why": {"t": ["0.4 of the rate"]}})
        self.assertEqual(lines, ["FAILED: g: t", "    0.4 of the rate", "0 passed, 1 failed, 0 skipped"])

    def test_any_failure_fails(self):
        self.assertEqual(self.total({"passed": 3, "failed": 1, "skipped": 0})[0], 1)

    def test_no_test_at_all_fails(self):
        self.assertEqual(self.total({"passed": 0, "failed": 0, "skipped": 4})[0], 1)


if __name__ == "__main__":
    unittest.main()
