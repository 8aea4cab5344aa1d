# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder for loads; other users may come by, as PostgreSQL's does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="joulerig-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
