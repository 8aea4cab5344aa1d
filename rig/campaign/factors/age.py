# SPDX-License-Identifier: GPL-3.0-or-later
"""How old the file system is: how often its other data were deleted and written again."""

from __future__ import annotations

from dataclasses import replace

from joulerig.rig.campaign.factors.factor import Estimate, Factor, Subject, number

MOST = 20.0  # each is a pass over what is filled


def _problem(level: float) -> str:
    return "" if level <= MOST else f"is too much; allowed: 0 to {MOST:g}"


def _refusal(level: str, subject: Subject) -> str:
    if float(level) and not float(subject.levels.get("fill", "0")):
        return f"{level!r} needs a fill level above 0, since it is those data that are written again"
    return ""


def _estimate(level: str, estimate: Estimate) -> Estimate:
    return replace(estimate, filled_again=float(level))


FACTOR = Factor(
    title="Age",
    help=(
        "How often the bytes of `fill` are written again before the workload creates its files. Above 0"
        " they are files of 4 KiB to 4 MiB, written until the file system is full, of which some are deleted"
        " at random, and so on: its free room lies in pieces."
    ),
    allowed=f"0 to {MOST:g}",
    level=number(_problem),
    default="0",
    refusal=_refusal,
    arguments=lambda level, _: {"age": float(level)},
    estimate=_estimate,
    order=9,
)
