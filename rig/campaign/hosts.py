# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a test host."""

from __future__ import annotations

import socket
from pathlib import Path


def holder(results: Path, campaign: str = "") -> str:
    """Return the name by which a test host knows a campaign of this controller.

    Without `campaign`: how all of them begin.
    """
    return f"{socket.gethostname()}:{results}/{campaign}"
