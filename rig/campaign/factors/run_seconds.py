# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the workload phase takes."""

from __future__ import annotations

from dataclasses import replace

from joulerig.rig.campaign.factors.factor import Estimate, Factor, whole_number
from joulerig.rig.common.numbers import MOST_SECONDS


def _problem(level: float) -> str:
    return (
        ""
        if 0 < level <= MOST_SECONDS
        else f"is not a valid length; allowed: whole seconds from 1 to {MOST_SECONDS}"
    )


def _estimate(level: str, estimate: Estimate) -> Estimate:
    return replace(estimate, workload_seconds=int(level))


FACTOR = Factor(
    title="Length of the load",
    help="Seconds of the workload phase, overriding the campaign's `phases.workload_seconds`.",
    allowed="whole seconds from 1 on",
    level=whole_number(_problem),
    default="the campaign's `phases.workload_seconds`",
    arguments=lambda level, _: {"phases": {"workload": int(level)}},
    estimate=_estimate,
    order=9,
)
