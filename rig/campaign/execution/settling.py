# SPDX-License-Identifier: GPL-3.0-or-later
"""Complete runs whose energy arrived after they were recorded: InfluxDB or a meter had been away.

powerd keeps what InfluxDB does not take, and delivers it later.
"""

from __future__ import annotations

from collections.abc import Callable

from joulerig.analysis.results.schema import Status
from joulerig.rig.campaign import measure
from joulerig.rig.campaign.execution.record import settle_result
from joulerig.rig.campaign.opening import OpenCampaign


def settle(campaign: OpenCampaign, say: Callable[[str], None]) -> list[str]:
    """Settle a campaign's `partial` runs; return the ids of those that stay so.

    `say` gets a line for each run whose status changed. Raises UserError where InfluxDB does not
    answer, or a run's files cannot be read.
    """
    partial = [run for run in campaign.journal.runs() if run["status"] == Status.PARTIAL]
    if partial:
        measure.check(campaign.lab)
    stay = []
    for run in partial:
        status = settle_result(campaign, run)
        if status == Status.PARTIAL:
            stay.append(str(run["id"]))
        else:
            say(f"{run['id']} {run['cell']}: {Status.PARTIAL} -> {status}")
    return stay
