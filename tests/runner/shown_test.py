"""What shown.py passes on of a test run's output."""

import unittest

import shown

RUN = """\
   Compiling pendulum v0.1.0 (/work)
warning: unused variable: `x`
     Running tests/a.rs (target/debug/deps/a-1)

running 3 tests
test a ... ok
test b ... FAILED
test c ... ok

successes:

---- a stdout ----
SKIPPED a: no netem
error 1: as it should be

---- c stdout ----
failures: none

successes:
    a
    c

failures:

---- b stdout ----
thread 'b' panicked at src/b.rs:1:1:
no

failures:
    b

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""


def of(text, progress=False):
    return [line.rstrip("\n") for line in shown.shown(text.splitlines(keepends=True), progress)]


class Shown(unittest.TestCase):
    def test_failures_skips_warnings_and_results_are_passed_on(self):
        lines = of(RUN)
        for kept in ("warning: unused variable: `x`", "test b ... FAILED", "SKIPPED a: no netem", "no", "    b"):
            self.assertIn(kept, lines)
        self.assertTrue(lines[-1].startswith("test result: FAILED. 2 passed"))

    def test_what_passed_is_left_out(self):
        lines = of(RUN)
        for gone in ("   Compiling pendulum v0.1.0 (/work)", "test a ... ok", "error 1: as it should be", "running 3 tests"):
            self.assertNotIn(gone, lines)

    def test_what_passed_in_some_time_is_left_out(self):
        self.assertEqual(of(RUN.replace("... ok", "... ok <0.4s>")), of(RUN))

    def test_somebody_who_waits_sees_each_test(self):
        lines = of(RUN, progress=True)
        self.assertIn("test a ... ok", lines)
        self.assertNotIn("error 1: as it should be", lines)

    def test_programs_without_a_test_say_nothing(self):
        text = "\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 5 filtered out; finished in 0.00s\n\n"
        self.assertEqual(of(text), [])

    def test_the_guests_lines_are_passed_on(self):
        text = "vm: 6.1 smoke: 23/0/0 passed/failed/skipped; 5.0 s to boot, 20.0 s in all\nvm total: 23 passed, 0 failed, 0 skipped\n"
        self.assertEqual("\n".join(of(text)) + "\n", text)

    def test_of_unittest_only_what_failed_is_passed_on(self):
        text = "test_a (m.C.test_a)\nWhat it is for. ... ok\ntest_b (m.C.test_b) ... FAIL\nRan 2 tests in 0.1s\n"
        self.assertEqual(of(text), ["test_b (m.C.test_b) ... FAIL", "Ran 2 tests in 0.1s"])


if __name__ == "__main__":
    unittest.main()
