#!/usr/bin/env python3
"""Checks the words of documents and of texts in the code: how often a reader stumbles, how long sentences are, and how many words there are.

usage: prose.py [PATH…]     prints each flagged phrase of these files, or of all that are checked, and fails beyond the bounds below
"""

import html
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Flagged phrases per 1,000 words, of all files and of any one.
FLAGS, FLAGS_OF_A_FILE = 1.5, 4.0
#: A sentence of more words is long; at most this share of the documents' sentences may be.
LONG, LONG_SHARE = 25, 0.03
#: Words of all documents, and of docs/results.
WORDS, WORDS_OF_RESULTS = 45_000, 8_000
#: A file of fewer words is judged with the others only.
FEW = 100

DOCUMENTS = ["*.md", "deploy/pendulum.toml", "deploy/openwrt/files/pendulum.toml"]
TEXTS = ["agent/src/*.rs", "agent/wire/src/*.rs", "model/src/*.rs", "agent/web/src/*.ts", "agent/web/index.html", "dashboards/grafana/*.py", "dashboards/rules/*.yml"]
#: Tests, and pages that are written from texts which are checked where they are.
LEFT_OUT = re.compile(r"(^|/)tests?(\.rs|/)|_test\.|\.test\.|docs/reference/(man/|api-fields\.md)|docs/screenshots/|agent/web/src/api\.ts|top/draw/states\.rs|agent/src/generated")

#: A phrase, and the words to use.
PHRASES = [
    (r"told|tell|tells|telling", "configured (by a person), reported (by a program), shown (to a person)"),
    (r"stands? (in|there|still|behind|before|beside|where)|standing (in|there|behind)|stood", "is queued, is in"),
    (r"beside", "alongside, compared with, during"),
    (r"anew|as ever|all the same", "again, unchanged, still"),
    (r"looked for|is had|to be had", "is estimated, is available"),
    (r"sent again|ACKs in a row", "retransmitted, ACK burst"),
    (r"rungs?|ladder", "check, fallback"),
    (r"taken for|takes? \w+ for|put right|out of use", "treated as, mistaken for; corrected; suspended"),
    (r"by chance", "random"),
    (r"(for|to) who|who wants to|whoever|nobody's", "to …, anyone who …"),
    (r"what (is|was|are|were|it|they|he|comes|came|fills|leaves|enters|passes|passed|waits|stands|happens|has|can|could|others|hides|changes)", "name the thing"),
    (r"so (long|many|much)", "a number with its unit"),
    (r"by itself|for itself|of (its|their) own", "automatically; separate, dedicated"),
    (r"is said|says? so|said (so|to|of)", "is reported"),
    (r"turns (with|of)", "A/B intervals"),
    (r"goes? on", "continues"),
    (r"(is|are|was) not (yet )?known|not known yet", "unknown"),
    (r"has to be|need not", "must; does not need to"),
    (r"there (is|are) (no|nothing|none)( \w+)? to", "shorter"),
]
FLAGGED = [(re.compile(rf"\b({phrase})\b(?!-)", re.IGNORECASE), better) for phrase, better in PHRASES]

#: Comments, which are passed over, and string literals.
RUST = re.compile(r'//[^\n]*|/\*.*?\*/|#\[doc.*?\]|b?r(#*)".*?"\1|(?P<text>b?"(?:\\.|[^"\\])*")|\'(?:\\.|[^\'\\])\'', re.DOTALL)
TYPESCRIPT = re.compile(r'//[^\n]*|/\*.*?\*/|(?P<text>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`)', re.DOTALL)
PYTHON = re.compile(r'#[^\n]*|""".*?"""|(?P<text>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')', re.DOTALL)


def of_markdown(text):
    """Line and paragraph: without code, a table by its cells."""
    in_code, paragraph, start = False, [], 1
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
            line = ""
        is_table, is_item = line.lstrip().startswith("|"), re.match(r"\s*([*-]|\d+\.|#+) ", line)
        if paragraph and (not line.strip() or in_code or is_table or is_item):
            yield start, " ".join(paragraph)
            paragraph = []
        if in_code or not line.strip() or re.fullmatch(r"[\s|:-]+", line):
            continue
        if is_table:
            yield from ((number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")))
            continue
        start = start if paragraph else number
        paragraph.append(line.strip().lstrip("#*- ") if is_item else line.strip())


def of_comments(text, mark):
    """Line and paragraph of the comments behind a mark."""
    paragraph, start = [], 1
    for number, line in enumerate([*text.split("\n"), ""], 1):
        comment = line.strip()
        if comment.startswith(mark) and " = " not in comment:
            start = start if paragraph else number
            paragraph.append(comment.lstrip(mark).strip())
        elif paragraph:
            yield start, " ".join(paragraph)
            paragraph = []


def of_literals(text, pattern):
    """Line and text of the string literals that people read: of three words and more."""
    for found in pattern.finditer(text):
        literal = found.groupdict().get("text")
        if not literal:
            continue
        literal = re.sub(r"\\\n\s*", "", literal).strip("b").strip("\"'`")
        if literal.count(" ") >= 2 and re.search(r"[a-z]{3}", literal):
            yield text.count("\n", 0, found.start()) + 1, re.sub(r"\\[nt]", " ", literal)


def of_html(text):
    for found in re.finditer(r">([^<]+)<|(?:title|aria-label|placeholder)=\"([^\"]+)\"", re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL)):
        yield text.count("\n", 0, found.start()) + 1, html.unescape(found[1] or found[2])


def passages(name, text):
    """Line and text of everything in a file that people read."""
    suffix = Path(name).suffix
    if suffix == ".md":
        return of_markdown(text)
    if suffix == ".toml":
        return of_comments(text, "#")
    if suffix == ".html":
        return of_html(text)
    if suffix == ".yml":
        return ((number, found[1]) for number, line in enumerate(text.split("\n"), 1) if (found := re.match(r"\s+(?:summary|description|first_step): '?(.*?)'?$", line)))
    if suffix == ".rs":
        text = re.split(r"\n#\[cfg\(test\)\]\nmod \w+ \{", text)[0]
        literals = of_literals(text, RUST)
        # Comments of the interface are its reference, those of the command line its help.
        return (*literals, *of_comments(text, "///")) if name.startswith(("agent/wire/", "agent/src/cli/", "agent/src/cli.rs")) else literals
    return of_literals(text, TYPESCRIPT if suffix == ".ts" else PYTHON)


def sentences(passage):
    """A passage's sentences. Code, addresses of links and placeholders count as one word."""
    plain = re.sub(r"\{[^}]*\}", "X", re.sub(r"`+[^`]*`+", "X", re.sub(r"\]\([^)]*\)", "]", passage))).replace("*", "")
    return [sentence for sentence in re.split(r"(?<=[.!?:;])\s+", plain.strip()) if re.search(r"\w", sentence)]


@dataclass
class Count:
    """What was found in a file, or in several."""

    words: int = 0
    sentences: int = 0
    long: int = 0
    flagged: int = 0

    def __add__(self, other):
        return Count(self.words + other.words, self.sentences + other.sentences, self.long + other.long, self.flagged + other.flagged)

    def flags(self):
        """Flagged phrases per 1,000 words."""
        return 1000 * self.flagged / max(self.words, 1)


def judge(name, text):
    """The count of one file, and a line for each flagged phrase and each long sentence."""
    count, lines = Count(), []
    for line, passage in passages(name, text):
        for sentence in sentences(passage):
            length = len(sentence.split())
            hits = [(found[0], better) for pattern, better in FLAGGED for found in pattern.finditer(sentence)]
            count += Count(length, 1, length > LONG, len(hits))
            lines += [f"{name}:{line}: '{phrase}': say {better}" for phrase, better in hits]
            if length > LONG:
                lines.append(f"{name}:{line}: {length} words: {sentence[:90]}…")
    return count, lines


def is_document(name):
    return name.endswith((".md", ".toml"))


def complaints(counts):
    """Which bounds are broken, by the counts of files."""
    total = sum(counts.values(), Count())
    documents = sum((count for name, count in counts.items() if is_document(name)), Count())
    results = sum((count for name, count in counts.items() if name.startswith("docs/results/")), Count())
    for name, count in counts.items():
        if count.words >= FEW and count.flags() > FLAGS_OF_A_FILE:
            yield f"{name}: {count.flags():.1f} flagged phrases per 1,000 words, at most {FLAGS_OF_A_FILE}"
    if total.flags() > FLAGS:
        yield f"{total.flags():.1f} flagged phrases per 1,000 words, at most {FLAGS}"
    if documents.long > LONG_SHARE * documents.sentences:
        yield f"{documents.long} of {documents.sentences} sentences of documents have more than {LONG} words, at most {LONG_SHARE:.0%} may"
    if documents.words > WORDS:
        yield f"{documents.words} words in documents, at most {WORDS}"
    if results.words > WORDS_OF_RESULTS:
        yield f"{results.words} words in docs/results, at most {WORDS_OF_RESULTS}"


def main(paths):
    listed = subprocess.run(["git", "ls-files", "--", *DOCUMENTS, *TEXTS], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    names = [name for name in listed if name and not LEFT_OUT.search(name) and (ROOT / name).exists()]
    judged = {name: judge(name, (ROOT / name).read_text(encoding="utf-8")) for name in names}
    broken = list(complaints({name: count for name, (count, _) in judged.items()}))
    for name, (_, lines) in judged.items():
        if name in paths or (broken and not paths):
            print(*lines, sep="\n", end="\n" if lines else "")
    for complaint in broken:
        print(complaint)
    total = sum((count for count, _ in judged.values()), Count())
    documents = sum((count for name, (count, _) in judged.items() if is_document(name)), Count())
    print(f"{total.flags():.1f} flagged phrases per 1,000 words; documents: {documents.words} words, {documents.long} of {documents.sentences} sentences of more than {LONG}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
