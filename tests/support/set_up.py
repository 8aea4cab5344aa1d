# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make setup` installs."""

from __future__ import annotations

import subprocess

from tests.support import ROOT


def set_up_packages() -> set[str]:
    """Return the Debian packages that set-up installs on the controller's machine."""
    command = [ROOT / "tools" / "setup", "--packages"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(listed.stdout.split())
