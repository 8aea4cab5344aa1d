# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of several folders share: real servers, emulated instruments, simulated campaigns, fixtures."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # of the repository
FIXTURES = ROOT / "tests" / "fixtures"
