# SPDX-License-Identifier: GPL-3.0-or-later
"""A series of campaigns: its change is seen since the first one with the worse drive."""

from __future__ import annotations

import json

from tests.bench.beyond import NotShownError
from tests.bench.beyond._campaigns import measured, provided, worse_drive
from tests.support.lab_driver import Lab

EACH = 3  # campaigns before and after


def show(lab: Lab) -> str:
    before = [measured(lab, f"series-before-{number}") for number in range(EACH)]
    with worse_drive(lab) as inventory:
        after = [measured(lab, f"series-after-{number}", inventory) for number in range(EACH)]
    done = lab.rig("compare", *before, *after, "--series", "--json")
    provided(done, "rig compare --series")
    [cell] = json.loads(done.stdout)["cells"]
    changes = cell["changes"]
    if [one["since"] for one in changes] != [after[0]]:
        raise NotShownError(f"changes: {changes}, and the drive got worse from {after[0]} on")
    [change] = changes
    ends = " to ".join(f"{100 * change[end]:+.1f}" for end in ("low", "high"))
    return f"work per joule {100 * change['ratio']:+.1f} % ({ends} %) since campaign {EACH + 1} of {2 * EACH}"
