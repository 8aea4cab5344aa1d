# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of long builds, whose output is for a log."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from joulerig.rig.common.errors import UserError


def run(
    command: Sequence[str],
    log: Path,
    what: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a command, its output at the end of `log`. Raises UserError: building `what` failed."""
    with log.open("a") as output:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    if done.returncode:
        raise UserError(f"{command[0]}: building {what} failed (exit {done.returncode}); its output: {log}")
