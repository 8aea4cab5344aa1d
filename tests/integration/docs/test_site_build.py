# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation site builds without a warning, and needs no network."""

import os
import re
import subprocess
import sys

import pytest

from tests.support import ROOT


@pytest.mark.long
def test_the_site_builds_with_every_link_and_anchor_resolved(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        assert not re.search(r'<(script|img|link)[^>]+(src|href)="https?:', page.read_text()), page.name
