# SPDX-License-Identifier: GPL-3.0-or-later
"""What a workload of engine `sync` calls after each write."""

from __future__ import annotations

from typing import Any, Literal

from joulerig.rig import workloads
from joulerig.rig.campaign.factors.factor import Factor, Subject
from joulerig.rig.workloads import place

CALLS = ("fsync", "fdatasync", "none")


def _refusal(_call: str, subject: Subject) -> str:
    known = subject.lab.once(workloads.load)
    workload = subject.levels["workload"]
    if known[workload].calls_sync:
        return ""
    able = ", ".join(name for name, one in known.items() if one.calls_sync)
    return f"{workload!r} does not set its sync call; allowed: {able}, or exclude that cell"


def _arguments(call: str, subject: Subject) -> dict[str, Any]:
    name = subject.levels["workload"]
    workload = workloads.load(subject.lab)[name].with_sync(call)
    return {"workload": {"name": name, **workload.delivered(place.on_host)}}


FACTOR = Factor(
    title="Sync call",
    help="The call that a workload of engine `sync` makes after each write, overriding its own.",
    allowed=", ".join(CALLS),
    level=Literal[CALLS],
    default="the workload's own",
    refusal=_refusal,
    arguments=_arguments,
    order=7,
)
