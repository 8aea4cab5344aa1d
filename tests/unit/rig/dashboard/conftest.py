# SPDX-License-Identifier: GPL-3.0-or-later
"""A journal that a test writes as campaigns do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dashboard_journal import NAME, T0, WritableJournal


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def journal(results: Path) -> Iterator[WritableJournal]:
    journal = WritableJournal(results, NAME, T0)
    yield journal
    journal.close()
