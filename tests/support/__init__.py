# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared by tests of several folders: servers, emulated instruments, campaigns, fixtures."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # of the repository
FIXTURES = ROOT / "tests" / "fixtures"


def python_sources(*folders: str) -> list[Path]:
    """Return the Python files below folders of the repository, and of the package's own."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    own = sorted((ROOT / "joulerig").glob("*.py"))
    return [path for path in found if "node_modules" not in path.parts] + own
