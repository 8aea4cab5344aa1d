# SPDX-License-Identifier: GPL-3.0-or-later
"""Resume a campaign by `rig run --resume`, as a process that outlives its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError


def command(journal: Journal) -> list[str]:
    """Return the command that resumes a campaign. Raises UserError where its playbook is gone."""
    campaign = journal.campaign
    named = campaign["provenance"].get("playbook", "")
    playbook = paths.playbook(paths.ROOT / named)
    if not named or not playbook.is_file():
        raise UserError(
            f"{campaign['id']}: its playbook {named or 'is unknown'} is gone; 'rig run PLAYBOOK --resume"
            f" {campaign['id']}' goes on with it"
        )
    program = [sys.executable, "-m", "joulerig.rig.cli.main"]
    return [*program, "run", str(playbook), "--resume", str(campaign["id"])]


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
