# SPDX-License-Identifier: GPL-3.0-or-later
"""Campaigns of which every number can be computed again."""

import shutil
from pathlib import Path

import pytest

from tests.support import verifiable_campaign


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    return verifiable_campaign.build(tmp_path_factory.mktemp("built") / "c", filesystems=("ext4",))


@pytest.fixture
def folder(built, tmp_path) -> Path:
    """A copy of the campaign, which a test may change."""
    return Path(shutil.copytree(built, tmp_path / "c"))
