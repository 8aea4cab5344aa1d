# SPDX-License-Identifier: GPL-3.0-or-later
"""How full the file system is before the workload lays out its files."""

from __future__ import annotations

from dataclasses import replace

from joulerig.rig.campaign.factors.factor import Estimate, Factor, number

MOST = 0.95  # some file systems refuse work, or take for ever, when they are full


def _problem(level: float) -> str:
    return "" if 0 <= level <= MOST else f"is no part of a file system; allowed: 0 to {MOST:g}"


def _estimate(level: str, estimate: Estimate) -> Estimate:
    return replace(estimate, filled_fraction=float(level))


FACTOR = Factor(
    title="Fill level",
    help="Fraction of the file system that is filled with other data before the workload creates its files.",
    allowed=f"0 to {MOST:g}",
    level=number(_problem),
    default="0",
    arguments=lambda level, _: {"fill": float(level)},
    estimate=_estimate,
    order=8,
)
