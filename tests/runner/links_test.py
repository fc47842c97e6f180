"""Which links of a document are found to lead nowhere."""

import tempfile
import unittest
from pathlib import Path

import links


class Links(unittest.TestCase):
    def test_a_link_leads_to_a_file_and_to_a_heading_in_it(self):
        with tempfile.TemporaryDirectory() as work:
            page = Path(work) / "page.md"
            (Path(work) / "other.md").write_text("# Two words\n\n## `rate`, or none\n")
            page.touch()
            text = "# Here\n[a](other.md) [b](other.md#two-words) [c](other.md#rate-or-none) [d](#here) [e](https://gone.example/x)"
            self.assertEqual(list(links.broken(page, text)), [])
            text = "# Here\n[a](gone.md) [b](other.md#three-words) [d](#there)"
            self.assertEqual(list(links.broken(page, text)), ["gone.md", "other.md#three-words", "#there"])


if __name__ == "__main__":
    unittest.main()
