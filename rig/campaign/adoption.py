# SPDX-License-Identifier: GPL-3.0-or-later
"""No run is executed while a drive of the campaign holds what this rig may not wipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from joulerig.analysis.results.schema import Status
from joulerig.rig.campaign import contents, factors
from joulerig.rig.campaign.execution.outcome import failure
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common.bounded import read
from joulerig.rig.common.errors import UserError


def drives(journal: Journal, host: str) -> list[str]:
    """Return the drives and arrays that the planned runs of a host write to.

    None where the host may be in a run that an earlier process began: they were looked at before
    it, and it may take hours.
    """
    if journal.goes_on(host):
        return []
    names = [
        name
        for run in journal.runs()
        if run["host"] == host and run["status"] == Status.PLANNED
        for name in factors.stands_on(run["drive"], run["factors"])
    ]
    return list(dict.fromkeys(names))


def check(host: str, reply: Mapping[str, Any]) -> None:
    """Refuse the campaign where a drive's content is not the rig's and no person released it.

    `reply`: of module joulerig_contents. A drive that is missing or in use is no reason: each of
    its runs is refused with its own. Raises UserError.
    """
    if reply.get("failed"):
        raise UserError(f"{host}: {failure(reply)}")
    found = read(contents.Reply, reply, host).found
    foreign = [contents.adopt_hint(host, name, one) for name, one in found.items() if one.foreign]
    if foreign:
        raise UserError("; ".join(foreign) + "; no run was executed")
