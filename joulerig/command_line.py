# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `rig`: starts the controller's command line where the controller is installed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `rig`; without the extra [controller], say in one line how to get it."""
    try:
        from joulerig.rig.cli.main import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("joulerig"):
            raise
        print(
            f"rig: the Python package {error.name!r} is missing;"
            " the controller is an extra: pip install '.[controller]' in the checkout",
            file=sys.stderr,
        )
        sys.exit(2)
    run()
