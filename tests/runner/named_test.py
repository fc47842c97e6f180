"""Which names in a document are found to be of nothing."""

import unittest

import named


class Named(unittest.TestCase):
    def missing(self, text):
        present = {"docs/a.md", "docs/b.md", "tests/vm/"}
        return list(named.missing(text, {"docs", "tests"}, present.__contains__, {"test", "vm"}, {"smoke"}))

    def test_present_names_pass(self):
        text = "`docs/a.md`, `docs/{a,b}.md`, `tests/vm/`, `./dev test unit`\n```\n./dev vm 6.1 --suite smoke\n```\n"
        self.assertEqual(self.missing(text), [])

    def test_other_text_is_no_path(self):
        self.assertEqual(self.missing("docs/gone.md, `up/down`, `/api/v1/state`, `docs`, `docs/x y`"), [])

    def test_missing_names_are_found(self):
        self.assertEqual(self.missing("`docs/{a,gone}.md` and `./dev tset`"), ["docs/gone.md", "./dev tset"])
        self.assertEqual(self.missing("```\n./dev vm --suite somke\n```\n"), ["--suite somke"])

    def test_the_commands_are_those_of_the_help(self):
        self.assertLessEqual({"test", "vm", "lint", "help"}, named.commands())


if __name__ == "__main__":
    unittest.main()
