# SPDX-License-Identifier: GPL-3.0-or-later
"""Every command that the documentation shows is one that its program takes."""

from __future__ import annotations

import pytest

from tests.support import ROOT
from tests.support.shown_commands import find_fault, find_named, find_shown

FOLDERS = ("analysis", "ansible", "collectors", "docs", "firmware", "playbooks", "rig", "tests")
FOLDERS += ("virtuallab", "workloads")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += [
    page
    for folder in FOLDERS
    for page in sorted((ROOT / folder).rglob("*.md"))
    if "node_modules" not in page.parts
]
# A decision names commands that are gone; what it shows for copying is there.
SHOWN = [
    shown
    for page in PAGES
    for shown in find_shown(page, page.read_text())
    if shown.whole or "decisions" not in page.parts
]
SOURCES = [
    path
    for folder in ("analysis", "ansible", "joulerig", "rig", "virtuallab")
    for path in sorted((ROOT / folder).rglob("*.[pt][ys]"))
    if not {"node_modules", "uplot"} & set(path.parts)
]
NAMED = [named for source in SOURCES for named in find_named(source, source.read_text())]


@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_the_command_can_be_given(shown):
    assert find_fault(shown) == ""


@pytest.mark.parametrize("named", NAMED, ids=str)
def test_the_command_that_a_message_names_can_be_given(named):
    assert find_fault(named) == ""


@pytest.mark.parametrize("program", ["rig", "make", "ansible-playbook", "python"])
def test_commands_of_each_program_are_found(program):
    assert [shown for shown in SHOWN if shown.words[0] == program]


def faults(text: str) -> list[str]:
    return [fault for shown in find_shown(ROOT / "page.md", text) if (fault := find_fault(shown))]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("    rig meter list\n", "rig meter: no such command"),
        ("    rig results --no-such-option\n", "rig results: No such option"),
        ("    rig meters show\n", "rig meters show: Missing"),
        ("    rig plan playbooks/gone.yml\n", "playbooks/gone.yml: no such playbook"),
        ("    rig meters watch psu1 --seconds soon\n", "rig meters watch: "),
        ("A word of `rig meters shown`.\n", "rig meters shown: no such command"),
        ("```\nX=1 .venv/bin/rig plan playbooks/gone.yml\n```\n", "playbooks/gone.yml: no such playbook"),
        ("    make up && rig gone\n", "make: no target up"),
        ("`make -C firmware/power_tap gone`\n", "make: no target gone"),
        ("    true  # or: ansible-playbook playbooks/gone.yml\n", "playbooks/gone.yml: no such playbook"),
        ("    ansible-playbook --gone playbooks/demo.yml\n", "ansible-playbook: no such option"),
        ("    python -m joulerig_gone\n", "python -m joulerig_gone: no such module"),
        ("    .venv/bin/python -m pytest tests/gone\n", "pytest tests/gone: no such file or directory"),
    ],
)
def test_a_command_that_its_program_would_refuse_is_found(text, fault):
    assert faults(text)[0].startswith(fault)


def test_a_command_in_a_message_is_found():
    [named] = find_named(ROOT / "one.py", """raise UserError(f"{name}: 'rig meter show {name}' shows it")""")
    assert find_fault(named) == "rig meter: no such command"


@pytest.mark.parametrize(
    "text",
    [
        "    rig plan playbooks/demo.yml  # touches nothing\n",
        "`rig export [CAMPAIGN] [--output FOLDER] [--format csv,parquet]`\n",
        "`rig meters show` alone within a sentence\n",
        "`make bench-*` and `make` and\n`make\ndemo`\n",
        "```yaml\nrig: no command\n```\n",
        "`rig/lab/meters/families/` is a path\n",
    ],
)
def test_what_can_be_given_and_what_is_no_command_pass(text):
    assert faults(text) == []
