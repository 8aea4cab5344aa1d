# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped studies: their pages are generated, and their claims need no drawing library."""

import subprocess
import sys

import pytest

from joulerig.analysis import studies
from tests.support import ROOT


@pytest.mark.parametrize("name", studies.STUDIES)
def test_the_page_in_the_repository_is_the_generated_one(name):
    """`python -m joulerig.analysis.studies docs/studies` writes it."""
    page = (ROOT / "docs" / "studies" / f"{name}.md").read_text()
    assert page == studies.STUDIES[name].page()


def test_the_index_in_the_repository_is_the_generated_one():
    assert studies.index() in (ROOT / "docs" / "studies" / "README.md").read_text()


def test_claims_are_judged_and_campaigns_checked_without_matplotlib():
    code = "import sys, joulerig.analysis.tables.comparisons as _; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
