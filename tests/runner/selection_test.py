"""What is left of libtest's words once the tests are chosen."""

import tempfile
import unittest
from pathlib import Path

import selection


class Words(unittest.TestCase):
    def test_options_choose_no_test(self):
        words = ["one::", "--skip", "two", "--nocapture", "--test-threads", "1", "--exact", "--skip=three", "four", "--format=terse"]
        self.assertEqual(selection.options(words), ["--nocapture", "--test-threads", "1", "--format=terse"])
        self.assertEqual(selection.exactly(["a"], ["b", "--nocapture"]), ["a", "--exact", "--nocapture"])

    def test_the_program_lists_its_tests_itself(self):
        with tempfile.TemporaryDirectory() as work:
            program = Path(work) / "program"
            program.write_text('#!/bin/sh\n[ "$*" = "x --list" ] || exit 1\nprintf "m::a: test\\nb: test\\nc: benchmark\\n\\n2 tests, 1 benchmark\\n"\n')
            program.chmod(0o755)
            self.assertEqual(selection.listed(program, work, ["x"]), ["m::a", "b"])


if __name__ == "__main__":
    unittest.main()
