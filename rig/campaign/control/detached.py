# SPDX-License-Identifier: GPL-3.0-or-later
"""Resume a campaign by `rig run --resume`, as a process that outlives its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from joulerig.rig.campaign import origin
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError


def command(journal: Journal, var: Path) -> list[str]:
    """Return the command that resumes a campaign which this controller opened.

    `var`: the folder of its state, which has the playbook. Raises UserError.
    """
    name = journal.campaign["id"]
    kept = origin.find(journal, var)
    goes_on = f"'rig run PLAYBOOK --resume {name}' goes on with it"
    if kept is None:
        raise UserError(f"{name}: this controller did not open it; {goes_on}, and says what it executes")
    if not kept.playbook.is_file():
        raise UserError(f"{name}: its playbook {paths.short(kept.playbook)} is gone; {goes_on}")
    program = [sys.executable, "-m", "joulerig.rig.cli.main"]
    return [*program, "run", str(kept.playbook), "--resume", name]


def start(words: list[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a command in a new session, output into `log`.

    Neither a signal to its parent's group nor its parent's end reaches it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return subprocess.Popen(
            words,
            cwd=paths.ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
