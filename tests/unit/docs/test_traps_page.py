# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/explanation/traps.md names tests that are there."""

import re
import subprocess

from tests.support import ROOT


def test_every_test_that_the_page_of_traps_names_exists():
    named = set(re.findall(r"`(Test\w+|test_\w+)`", (ROOT / "docs" / "explanation" / "traps.md").read_text()))
    files = subprocess.run(
        ["git", "ls-files", "*_test.go", "*/test_*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    defined = set()
    for file in files:
        defined |= set(re.findall(r"(?:func|def) (\w+)\(", (ROOT / file).read_text()))
    assert len(named) > 20
    assert named <= defined, named - defined
