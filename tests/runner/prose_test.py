"""Which words and sentences are counted, which are flagged, and which bounds a file may break."""

import unittest

import prose
from prose import Count


def texts(name, text):
    return [passage for _, passage in prose.passages(name, text)]


class Passages(unittest.TestCase):
    def test_a_document_is_its_paragraphs_items_and_cells_without_code(self):
        page = "# Title\n\nOne line\nand its end.\n* an item\n* another\n\n```\nnot this\n```\n\n| a | b |\n|---|---|\n| x \\| y | z |\n"
        self.assertEqual(texts("page.md", page), ["Title", "One line and its end.", "an item", "another", "a", "b", "x \\| y", "z"])

    def test_lines_are_those_of_the_file(self):
        self.assertEqual([line for line, _ in prose.passages("page.md", "first\n\nsecond\n| a | b |\n")], [1, 3, 4, 4])

    def test_of_rust_the_literals_that_are_sentences(self):
        source = 'fn f() {\n    // "not this one here"\n    g("key", "a rate is needed", "over \\\n      two lines", \'"\', "an \\"escaped\\" one");\n}\n'
        source += '#[cfg(test)]\nmod tests {\n    const A: &str = "this is a test";\n}\n'
        self.assertEqual(texts("agent/src/a.rs", source), ["a rate is needed", "over two lines", 'an \\"escaped\\" one'])
        self.assertEqual(texts("agent/wire/src/a.rs", "/// Why it\n/// is so.\nstruct A;\n"), ["Why it is so."])

    def test_of_the_page_literals_and_markup(self):
        self.assertEqual(texts("a.ts", "// it's not this one\nf('one of three', `two of ${n} here`, \"x\");"), ["one of three", "two of ${n} here"])
        self.assertEqual(texts("a.html", '<p title="a title">Text &amp; more</p><script>if (a > b) c < d;</script>'), ["a title", "Text & more"])

    def test_of_a_configuration_the_comments_without_keys(self):
        self.assertEqual(texts("a.toml", '# What it\n# does.\nkey = 1\n# other = "x"\n'), ["What it does."])

    def test_of_rules_what_a_person_is_shown(self):
        self.assertEqual(texts("a.yml", "  expr: up == 0\n  summary: 'It is down.'\n"), ["It is down."])


class Sentences(unittest.TestCase):
    def test_code_and_links_count_as_one_word(self):
        self.assertEqual(prose.sentences("Use `tc qdisc show dev x` and [a link](b/c.md). Then {count} more."), ["Use X and [a link].", "Then X more."])

    def test_phrases_are_flagged_as_whole_words(self):
        count, lines = prose.judge("page.md", "The rate that nobody told is untold.")
        self.assertEqual((count.words, count.flagged), (7, 1))
        self.assertIn("page.md:1: 'told'", lines[0])
        self.assertEqual(prose.judge("page.md", "It is configured, and the queue is short.")[1], [])

    def test_every_phrase_is_found(self):
        for sentence in [
            "packets stand behind the shaper", "it waits beside the others", "begins anew", "waits all the same", "a rate is looked for",
            "segments are sent again", "all rungs are there", "it is taken for a queue", "links by chance", "for who wants it", "what fills it",
            "it waits so long", "a thing of its own", "the log says so", "turns with shaping", "the old agent goes on", "the rate is not known", "it has to be low",
            "there is nothing to gain",
        ]:  # fmt: skip
            self.assertGreater(prose.judge("page.md", sentence)[0].flagged, 0, sentence)

    def test_a_long_sentence_is_counted(self):
        count, lines = prose.judge("page.md", "word " * prose.LONG + "word. Short one.")
        self.assertEqual((count.sentences, count.long), (2, 1))
        self.assertIn("26 words", lines[0])


class Bounds(unittest.TestCase):
    def complaints(self, **changed):
        page = Count(words=1000, sentences=100, long=3, flagged=0)
        return list(prose.complaints({"docs/guide/page.md": page, **changed}))

    def test_within_them_nothing_is_said(self):
        self.assertEqual(self.complaints(), [])

    def test_one_file_may_not_hide_among_the_others(self):
        self.assertEqual(len(self.complaints(**{"agent/src/a.rs": Count(200, 20, 0, 1)})), 1, "5 per 1,000")
        self.assertEqual(self.complaints(**{"agent/src/a.rs": Count(50, 20, 0, 1)}), [], "too few words for a rate")

    def test_all_together(self):
        self.assertIn("2.0 flagged", self.complaints(**{"agent/src/a.rs": Count(1000, 20, 0, 4)})[0])
        self.assertIn("4 of 101 sentences", self.complaints(**{"docs/design/b.md": Count(50, 1, 1, 0)})[0])
        self.assertIn("46000 words", self.complaints(**{"docs/design/b.md": Count(45_000, 5000)})[0])
        self.assertIn("9000 words in docs/results", self.complaints(**{"docs/results/b.md": Count(9000, 500)})[0])

    def test_long_sentences_count_in_documents(self):
        self.assertEqual(self.complaints(**{"agent/src/a.rs": Count(1000, 20, 20, 0)}), [])


if __name__ == "__main__":
    unittest.main()
