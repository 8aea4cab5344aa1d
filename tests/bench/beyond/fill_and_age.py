# SPDX-License-Identifier: GPL-3.0-or-later
"""Full and old file systems: their AI, and in how many pieces the files of an old one lie."""

from __future__ import annotations

import json

from joulerig.analysis.results.schema import Status
from tests.bench.beyond import NotShownError
from tests.bench.beyond._campaigns import newest, provided
from tests.support import ROOT
from tests.support.lab_driver import Lab

PLAYBOOK = ROOT / "playbooks" / "fill_and_age.yml"
CAMPAIGN_SECONDS = 3600


def show(lab: Lab) -> str:
    provided(lab.rig("run", "--short", str(PLAYBOOK), timeout=CAMPAIGN_SECONDS), "rig run")
    campaign = newest(lab, "fill-and-age")
    found = []
    for run in lab.results_of(campaign)["runs"]:
        levels = run["factors"]
        if run["status"] == Status.EXCLUDED or levels["age"] == "0":
            continue
        folder = lab.results / campaign / "runs" / run["id"]
        fill = json.loads((folder / "settings.json").read_text())["fill"]
        if abs(fill["used"] - float(levels["fill"])) > 0.02 or fill["written_bytes"] < 2 * fill["bytes"]:
            raise NotShownError(f"{run['id']}: {fill}")
        pieces = f"{fill['extents_per_file']:.2f} pieces a file"
        found.append(f"{run['cell']}: {run['ai_ops_per_joule']:.0f} ops/J, {pieces}")
    if not found:
        raise NotShownError("no run of an old file system")
    return "; ".join(found)
