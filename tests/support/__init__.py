# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared by tests of several folders: servers, emulated instruments, campaigns, fixtures."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # of the repository
FIXTURES = ROOT / "tests" / "fixtures"
