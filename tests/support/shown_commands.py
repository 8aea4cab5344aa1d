# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that a text shows, and whether `rig`, make, Ansible and Python would take them."""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import typer.main
from ansible.cli.playbook import PlaybookCLI
from typer.exceptions import TyperException

from joulerig.rig.cli.main import app
from joulerig.rig.common import paths
from tests.support import ROOT

SHELLS = ("", "sh", "bash", "console", "shell", "text")  # languages of fenced blocks with commands
YOURS = ("my_first.yml", "my_campaign.yml")  # playbooks that a page has its reader write
_WORDS_BEFORE = ("$", "do", "then", "nice", "sudo", "time")
_FENCE = re.compile(r"^ *(```|~~~) *([a-z-]*)")


@dataclass(frozen=True)
class Shown:
    """A command as `words`.

    `whole`: a reader can copy it as it is; else a sentence mentions it.
    """

    page: Path
    line: int
    words: tuple[str, ...]
    whole: bool

    def __str__(self) -> str:
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}: {' '.join(self.words)}"


def find_shown(page: Path, text: str) -> Iterator[Shown]:
    """Yield the commands in fenced and indented blocks and in code within sentences."""
    for line, code, whole in _codes(text):
        for part in _parts(code):
            words = _words(part)
            if words and (len(words) > 1 or words[0] == "make"):
                yield Shown(page, line, words, whole)


def find_named(source: Path, text: str) -> Iterator[Shown]:
    """Yield the commands that a program's messages name in single quotes, as 'rig up'."""
    for match in re.finditer(r"'((?:rig|make|ansible-playbook) [^'\"\n]+)'", text):
        words = _words(re.sub(r"\{[^}]*\}", "VALUE", match[1]))
        yield Shown(source, text.count("\n", 0, match.start()) + 1, words, whole=False)


def _codes(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield (line, code, whether it is a line of a block)."""
    prose, language = [], None
    for number, line in enumerate(text.split("\n"), start=1):
        fence = _FENCE.match(line)
        if fence:
            language = fence[2] if language is None else None
        elif language is not None:
            if language in SHELLS:
                yield number, line.strip(), True
        elif line.startswith("    "):
            yield number, line.strip(), True
        prose.append("" if fence or language is not None else line)
    joined = "\n".join(prose)
    for match in re.finditer(r"(?<!`)`([^`]+)`(?!`)", joined):
        number = joined.count("\n", 0, match.start()) + 1
        yield number, re.sub(r"\s*\n\s*", " ", match[1]).strip(), False


def _parts(code: str) -> Iterator[str]:
    """Yield the commands of a line of shell, also that of a comment "or: COMMAND"."""
    code, _, comment = code.partition(" #")
    yield from re.split(r"&&|\|\||[|;]", code)
    if comment.strip().startswith("or: "):
        yield comment.strip().removeprefix("or: ")


def _words(part: str) -> tuple[str, ...]:
    """Return a command as words, beginning with the program; empty where it is none of ours."""
    try:
        words = shlex.split(part)
    except ValueError:
        return ()
    while words and (words[0] in _WORDS_BEFORE or re.match(r"[A-Z_]+=", words[0])):
        words = words[1:]
    if not words:
        return ()
    program = words[0].removeprefix(".venv/bin/")
    if program == "python3":
        program = "python"
    if program not in CHECKS or (program == "python" and words[1:2] != ["-m"]):
        return ()
    return program, *words[1:]


def find_fault(shown: Shown) -> str:
    """Return why the program would not take the command, or ""."""
    words = [word.strip("[]") for word in shown.words[1:]]  # [--json] may be left out
    return CHECKS[shown.words[0]](shown, [word for word in words if word])


def _check_rig(shown: Shown, words: list[str]) -> str:
    command = _rig()
    called = "rig"
    while hasattr(command, "commands"):
        if not words or words == ["--help"]:
            return ""
        called, command = f"{called} {words[0]}", command.commands.get(words[0])
        if command is None:
            return f"{called}: no such command"
        words = words[1:]
    try:
        parsed = command.make_context(called, [word for word in words if word != "--help"])
    except TyperException as error:
        lacks = type(error).__name__ in ("MissingParameter", "BadOptionUsage")
        return "" if lacks and not shown.whole else f"{called}: {error}"
    playbook = parsed.params.get("playbook")
    return _check_playbook(str(playbook)) if playbook else ""


@functools.cache
def _rig() -> Any:
    return typer.main.get_command(app)


def _check_playbook(playbook: str) -> str:
    if (
        playbook.isupper()
        or Path(playbook).name in YOURS
        or (ROOT / paths.playbook(Path(playbook))).is_file()
    ):
        return ""
    return f"{playbook}: no such playbook"


def _check_ansible(shown: Shown, words: list[str]) -> str:
    command = PlaybookCLI(["ansible-playbook", *words])
    command.init_parser()
    try:
        parsed = command.parser.parse_args(words)
    except SystemExit:
        return "ansible-playbook: no such option, or no playbook"
    return next(filter(None, map(_check_playbook, parsed.args)), "")


def _check_make(shown: Shown, words: list[str]) -> str:
    """Check targets in the Makefile at the root, and where a page is next to one, in that."""
    folders = [ROOT, shown.page.parent]
    if words[:1] == ["-C"]:
        folders, words = [ROOT / words[1]], words[2:]
    targets = {target for folder in folders for target in _targets(folder)}
    wanted = [word for word in words if "=" not in word]
    missing = [word for word in wanted if not any(fnmatch(target, word) for target in targets)]
    return f"make: no target {missing[0]}" if missing else "" if targets else "make: no Makefile"


@functools.cache
def _targets(folder: Path) -> frozenset[str]:
    """Return the targets of the Makefile of a folder, as make itself lists them."""
    if not (folder / "Makefile").is_file():
        return frozenset()
    # -n and a target that is there: nothing is made, the rules are read.
    command = ["make", "-C", str(folder), "-pRrqn", "-f", "Makefile", "Makefile"]
    database = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return frozenset(re.findall(r"^([A-Za-z][\w-]*):(?!=)", database, re.MULTILINE))


def _check_python(shown: Shown, words: list[str]) -> str:
    """Check that a module is there, and each path that pytest is given."""
    module, arguments = words[1], words[2:]
    if importlib.util.find_spec(module) is None:
        return f"python -m {module}: no such module"
    tests = [one for one in arguments if module == "pytest" and one.startswith("tests")]
    missing = [one for one in tests if not (ROOT / one).exists()]
    return f"pytest {missing[0]}: no such file or directory" if missing else ""


CHECKS = {
    "rig": _check_rig,
    "make": _check_make,
    "ansible-playbook": _check_ansible,
    "python": _check_python,
}
