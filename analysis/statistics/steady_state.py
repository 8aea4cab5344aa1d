# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a drive has settled, by operations a second and watts of the rounds that loaded it.

SNIA Solid State Storage Performance Test Specification, "Steady State": over a window of 5 rounds
the range is within 20 % of the mean, and the least-squares line rises or falls by at most 10 % of
it. SNIA judges what is measured; here a drive's power is measured too, so both must hold.

It needs nothing but Python itself: test hosts run it as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ROUNDS = 5
RANGE_LIMIT = 0.20
SLOPE_LIMIT = 0.10
SERIES = ("iops", "watts")


@dataclass(frozen=True)
class Window:
    """Some rounds in a row of one series, `first` to `last` (numbers from 1).

    `mean` in the series' unit; `range_fraction`: greatest less least, `slope_fraction`: what the
    least-squares line rises or falls by from the first round to the last, both as parts of the
    mean. None where a round's value is not known or the mean is not above 0. `reason`: the figures,
    or why there are none.
    """

    series: str
    first: int
    last: int
    mean: float | None
    range_fraction: float | None
    slope_fraction: float | None
    steady: bool
    reason: str


@dataclass(frozen=True)
class Verdict:
    """Whether a drive has settled, and the windows that show it.

    `round`: at which it became steady, None where it never did. `rounds`: how many were judged,
    after `rounds_before` that were not: a window has no pause in it. `judged_on`: the series.
    `windows`: of each series, the one that the verdict rests on; none where there are too few
    rounds.
    """

    steady: bool
    round: int | None
    rounds: int
    rounds_before: int
    judged_on: tuple[str, ...]
    windows: tuple[Window, ...]
    reason: str


def judge_window(series: str, values: Sequence[float | None], first: int = 1) -> Window:
    """Judge the window of all of `values`, the first of which is round `first`."""
    last = first + len(values) - 1
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < len(values):
        return Window(series, first, last, None, None, None, False, f"{series} of a round is not known")
    mean = math.fsum(known) / len(known)
    if mean <= 0:
        return Window(series, first, last, mean, None, None, False, f"{series} has a mean of {mean:g}")
    spread = (max(known) - min(known)) / mean
    slope = abs(_rise(known)) / mean
    reason = (
        f"{series} range {100 * spread:.1f} % of {100 * RANGE_LIMIT:.0f} % allowed,"
        f" slope {100 * slope:.1f} % of {100 * SLOPE_LIMIT:.0f} % allowed"
    )
    steady = spread <= RANGE_LIMIT and slope <= SLOPE_LIMIT
    return Window(series, first, last, mean, spread, slope, steady, reason)


def _rise(values: Sequence[float]) -> float:
    """Return what the least-squares line rises by, from the first value to the last.

    The line is through values at equal distances.
    """
    middle = (len(values) - 1) / 2
    mean = math.fsum(values) / len(values)
    above = math.fsum((x - middle) * (y - mean) for x, y in enumerate(values))
    return above / math.fsum((x - middle) ** 2 for x in range(len(values))) * (len(values) - 1)


def judge(rounds: Sequence[Mapping[str, float | None]], rounds_before: int = 0) -> Verdict:
    """Judge rounds in a row of equal length: {"iops": 1/s, "watts": W} of each.

    The verdict rests on the first window in which every series is steady, or, where there is none,
    on the last. Where no round has watts, operations alone are judged, and the reason says so;
    where only some have, a window without all of its watts is not steady.
    """
    measured = any(_is_known(one.get("watts")) for one in rounds)
    judged_on = SERIES if measured or not rounds else SERIES[:1]
    alone = "" if measured or not rounds else "; no watts: judged on iops alone"
    last = rounds_before + len(rounds)
    windows: tuple[Window, ...] = ()
    for end in range(ROUNDS, len(rounds) + 1):
        span = rounds[end - ROUNDS : end]
        first = rounds_before + end - ROUNDS + 1
        windows = tuple(judge_window(name, [one.get(name) for one in span], first) for name in judged_on)
        if all(window.steady for window in windows):
            at = rounds_before + end
            why = f"steady at round {at}: " + "; ".join(window.reason for window in windows)
            return Verdict(True, at, len(rounds), rounds_before, judged_on, windows, why + alone)
    wrong = [window.reason for window in windows if not window.steady]
    why = f"not steady after {last} rounds: " + ("; ".join(wrong) or f"{ROUNDS} in a row are needed") + alone
    return Verdict(False, None, len(rounds), rounds_before, judged_on, windows, why)


def _is_known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
