# SPDX-License-Identifier: GPL-3.0-or-later
"""Know which campaigns this controller opened, and by which playbooks.

A results folder may come from elsewhere: it is data, and what it says of itself is no proof. So the
controller keeps a record of each campaign that it opens in its own state, var/campaigns/.
"""

from __future__ import annotations

import json
from pathlib import Path

from joulerig.analysis.results.schema import Status
from joulerig.plural import counted
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import files, paths
from joulerig.rig.common.bounded import CampaignId, Nanoseconds, Part, one_line, read
from joulerig.rig.common.errors import UserError

FOLDER = "campaigns"
MOST_SHOWN = 12  # names of one kind


class Origin(Part):
    """This controller's record of a campaign that it opened."""

    id: CampaignId
    created_ns: Nanoseconds
    folder: Path
    playbook: Path


def record(journal: Journal, playbook: Path) -> None:
    """Keep that this controller opened a campaign by a playbook."""
    campaign = journal.campaign
    kept = Origin(
        id=campaign["id"],
        created_ns=campaign["created_ns"],
        folder=journal.folder.resolve(),
        playbook=playbook.resolve(),
    )
    path = _path(paths.var(), kept.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, kept.model_dump_json(indent=1) + "\n")


def find(journal: Journal, var: Path) -> Origin | None:
    """Return what the controller whose state is in `var` keeps of a campaign.

    None: it did not open it, or not in this folder.
    """
    campaign = journal.campaign
    path = _path(var, campaign["id"])
    try:
        kept = read(Origin, json.loads(path.read_text()), paths.short(path))
    except (OSError, ValueError, UserError):
        return None
    same = (kept.created_ns, kept.folder) == (campaign["created_ns"], journal.folder.resolve())
    return kept if same else None


def folders() -> list[Path]:
    """Return the folders of the campaigns that this controller opened."""
    found = []
    for path in sorted((paths.var() / FOLDER).glob("*.json")) if paths.has_state() else ():
        try:
            found.append(read(Origin, json.loads(path.read_text()), paths.short(path)).folder)
        except (OSError, ValueError, UserError):
            continue
    return found


def summary(journal: Journal) -> str:
    """Return, on one line, what the resumption of a campaign would execute."""
    runs = [run for run in journal.runs() if run["status"] in (Status.PLANNED, Status.RUNNING, Status.LOST)]

    def names(key: str) -> str:
        found = [one_line(name, 60) for name in dict.fromkeys(str(run[key]) for run in runs)]
        return ", ".join(found[:MOST_SHOWN]) + (" ..." if found[MOST_SHOWN:] else "")

    if not runs:
        return "no run"
    return (
        f"{counted(len(runs), 'run')} on {names('host')}: drives {names('drive')} wiped,"
        f" file systems {names('filesystem')}, workloads {names('workload')}"
    )


def _path(var: Path, campaign: str) -> Path:
    return var / FOLDER / f"{campaign}.json"
