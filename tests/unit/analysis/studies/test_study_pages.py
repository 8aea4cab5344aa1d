# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped studies: their pages are generated, and their claims need no drawing library."""

import subprocess
import sys

import pytest

from joulerig.analysis import studies
from tests.support import ROOT

PAGES = ROOT / "docs" / "studies"


@pytest.mark.parametrize("name", studies.STUDIES)
def test_the_page_in_the_repository_is_the_generated_one(name):
    """`python -m joulerig.analysis.studies docs/studies` writes it."""
    page = (PAGES / f"{name}.md").read_text()
    assert page == studies.STUDIES[name].page()


def test_the_index_in_the_repository_is_the_generated_one():
    readme = (PAGES / "README.md").read_text()
    assert studies.index() in readme
    assert studies.update_index(readme) == readme


def test_every_page_in_the_repository_is_a_study_s():
    assert {page.stem for page in PAGES.glob("*.md")} == {*studies.STUDIES, "README"}


def test_writing_the_pages_updates_the_index_and_leaves_the_text_around_it(tmp_path):
    table = "| study | reference | playbook |\n|---|---|---|\n| [gone](gone.md) | none | `none` |\n"
    (tmp_path / "README.md").write_text(f"# Studies\n\n{table}\nThe end.\n")
    written = studies.write_pages(tmp_path)
    assert (tmp_path / "README.md").read_text() == f"# Studies\n\n{studies.index()}\nThe end.\n"
    assert {path.name for path in written} == {*(f"{name}.md" for name in studies.STUDIES), "README.md"}


def test_claims_are_judged_and_campaigns_checked_without_matplotlib():
    code = "import sys, joulerig.analysis.tables.comparisons as _; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
