# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the words of documentation, comments, messages and identifiers.

    python -m tools.prose              check
    python -m tools.prose --list KEY   list the findings of one key, such as "lines of comments"
    python -m tools.prose --lower      lower the ceilings to the counts of today

Counts the words that tools/words.json would have replaced, functions whose name is one of its bare
words, and lines of documentation and of comments over 100 columns (generated tables, under
docs/reference/ and docs/studies/, may be wider). No count may be above its ceiling in
tools/ceilings/prose.json.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import ratchet

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 100
READ = {
    ".c",
    ".cfg",
    ".css",
    ".f",
    ".go",
    ".h",
    ".html",
    ".ini",
    ".j2",
    ".md",
    ".py",
    ".sh",
    ".sql",
    ".toml",
    ".ts",
    ".yml",
}
READ_BY_NAME = {"Makefile", "run", "setup"}
NOT_OURS = ("results/", "tests/fixtures/", "tools/words.json")
GENERATED_TABLES = ("docs/reference/", "docs/studies/")
LONG_DOCS = "lines of documentation over 100 columns"
LONG_COMMENTS = "lines of comments over 100 columns"
FUNCTIONS = "functions named by a bare word"
# Identifiers count by their parts: both read_data and readData hold "data".
PART_OF_A_NAME = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")
# Python, Go and TypeScript; C; a function that is given a name by assignment.
DEFINITION = (
    r"^\s*(?:(?:async )?def|func(?: \([^)]*\))?|(?:export )?(?:async )?function\*?)\s+_?(?:{names})\s*[(\[]"
    r"|^(?:static )?(?:struct )?\w+ \*?(?:{names})\([^;]*$"
    r"|^\s*(?:const |let )?_?(?:{names}) :?= (?:func\b|lambda\b|(?:async )?\(?[^()]*\)? =>)"
)
COMMENT = re.compile(r"\s*(?:# |//|/?\*\s)")


@dataclass(frozen=True)
class Finding:
    key: str
    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Vocabulary:
    """The words to be replaced, each with its replacement, and names that no function has."""

    words: dict[str, str]
    functions: tuple[str, ...]

    @classmethod
    def load(cls, path: Path = ROOT / "tools" / "words.json") -> Vocabulary:
        table = json.loads(path.read_text())
        return cls(table["words"], tuple(table["functions"]))

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(rf"\b(?:{'|'.join(f'({word})' for word in self.words)})\b", re.IGNORECASE)

    @property
    def definition(self) -> re.Pattern[str]:
        return re.compile(DEFINITION.format(names="|".join(self.functions)))


def find_in(file: str, text: str, vocabulary: Vocabulary) -> Iterator[Finding]:
    """Find the words, names and long lines of one file."""
    words = list(vocabulary.words)
    pattern, definition = vocabulary.pattern, vocabulary.definition
    documentation = file.endswith(".md")
    code_block = False
    for number, line in enumerate(text.splitlines(), start=1):
        for match in pattern.finditer(PART_OF_A_NAME.sub(" ", line)):
            yield Finding(words[(match.lastindex or 1) - 1], file, number, line)
        if definition.match(line):
            yield Finding(FUNCTIONS, file, number, line)
        if documentation and line.lstrip().startswith("```"):
            code_block = not code_block
        if len(line) <= COLUMNS or code_block:
            continue
        table = line.lstrip().startswith("|") and file.startswith(GENERATED_TABLES)
        if documentation and not table:
            yield Finding(LONG_DOCS, file, number, line)
        elif not documentation and COMMENT.match(line):
            yield Finding(LONG_COMMENTS, file, number, line)


def read_files(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Read the tracked files that people write, with their names."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    tracked = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout.decode()
    for name in sorted(filter(None, tracked.split("\0"))):
        path = root / name
        if name.startswith(NOT_OURS) or path.is_symlink() or not path.is_file():
            continue
        if path.suffix in READ or path.name in READ_BY_NAME:
            yield name, path.read_text(errors="replace")


def report(findings: Iterable[Finding], allowed: dict[str, int], vocabulary: Vocabulary) -> list[str]:
    """Describe each count that is above its ceiling, with the files that have the most of it."""
    findings = list(findings)
    counts = Counter(finding.key for finding in findings)
    lines = []
    for key in ratchet.find_exceeded(counts, allowed):
        files = Counter(finding.file for finding in findings if finding.key == key).most_common(5)
        instead = f"; write instead: {vocabulary.words[key]}" if key in vocabulary.words else ""
        lines.append(f"{key}: {counts[key]}, allowed are {allowed.get(key, 0)}{instead}")
        lines += [f"    {file}: {count}" for file, count in files]
    return lines


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools.prose", description="Check words and the width of text.")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--list", metavar="WORD", help="list where this word is used")
    mode.add_argument("--lower", action="store_true", help="lower the ceilings to the counts of today")
    options = parser.parse_args(arguments)
    vocabulary = Vocabulary.load()
    findings = [found for file, text in read_files() for found in find_in(file, text, vocabulary)]
    if options.list:
        for found in findings:
            if options.list in found.key:
                print(f"{found.file}:{found.line}: {found.text.strip()}")
        return 0
    counts = Counter(found.key for found in findings)
    allowed = ratchet.read("prose")
    if options.lower:
        allowed = ratchet.lower(counts, allowed)
        ratchet.write("prose", allowed)
    faults = report(findings, allowed, vocabulary)
    print("\n".join(faults) or ", ".join(f"{key}: {count}" for key, count in sorted(counts.items())))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
