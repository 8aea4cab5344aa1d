# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that the documentation shows exist."""

import re
import sys

import pytest

from tests.support import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "decisions" not in page.parts]
TEXT = "\n".join(page.read_text() for page in PAGES)


@pytest.fixture(scope="module")
def commands():
    sys.path.insert(0, str(ROOT / "tools" / "site"))
    try:
        import reference
    finally:
        sys.path.pop(0)
    return reference.commands()


def test_every_option_of_rig_that_the_docs_show_exists(commands):
    shown = re.findall(r"(?:^|`) *rig ([a-z][a-z ]*[a-z])([^`\n#]*)", TEXT, re.MULTILINE)
    assert len(shown) > 20
    for words, rest in shown:
        name = max((n for n in commands if f"{words} ".startswith(f"{n} ")), key=len, default=None)
        if name is None:
            assert any(n.startswith(f"{words} ") for n in commands), f"rig {words}"
            continue
        allowed = {opt for param in commands[name].params for opt in param.opts} | {"--help"}
        used = set(re.findall(r"(?<!\S)\[?(--[a-z-]+)", rest))
        assert used <= allowed, f"rig {name}: {used - allowed}"


def test_every_target_of_make_that_the_docs_show_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = set(re.findall(r"(?:^ *|`)make ([a-z][a-z-]+)", TEXT, re.MULTILINE))
    assert shown <= targets, shown - targets


def test_every_playbook_that_the_docs_show_exists():
    shown = set(re.findall(r"playbooks/([a-z_0-9]+\.yml)", TEXT)) - {"my_first.yml", "my_campaign.yml"}
    assert all((ROOT / "playbooks" / name).is_file() for name in shown), shown
