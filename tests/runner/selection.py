"""Which tests of a libtest program run. The program lists them itself, so that filters mean here what they mean there."""

import subprocess

# Options of libtest that take a value, which may be the next word.
WITH_VALUE = {"--skip", "--test-threads", "--format", "--color", "--logfile"}


def listed(program, directory, words=()):
    """The tests that the program would run with these words, in its order. Runs none."""
    done = subprocess.run([program, *words, "--list"], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    return [line.removesuffix(": test") for line in done.stdout.splitlines() if line.endswith(": test")]


def options(words):
    """The words that choose no test: without names, `--skip NAME` and `--exact`."""
    kept, left = [], list(words)
    while left:
        word = left.pop(0)
        value = [left.pop(0)] if word in WITH_VALUE and left else []
        if word.startswith("-") and word != "--exact" and word.partition("=")[0] != "--skip":
            kept += [word, *value]
    return kept


def exactly(names, words):
    """Words that run just these tests, with the options of `words`."""
    return [*names, "--exact", *options(words)]
