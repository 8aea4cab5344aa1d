# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy of an interval from a rail's cumulative joule counter.

powerd integrates every sample on the meter's own time and stores the running total, so the energy of an
interval is a difference of two counter values whatever the stored rate, and a point that got lost on the way
costs nothing. Energy is never invented: where the counter does not say what the interval drew, the answer is
no joules and why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

DEFAULT_MAX_GAP_NS = 100_000_000


@dataclass(frozen=True, eq=False)
class CounterPoints:
    """Points of one rail's counter, in time order, one array an attribute, all of one length.

    `time_ns` (UTC, strictly rising), `joules` (cumulative within a session), `session`; where the source has
    them, `samples`, `expected`, `lost`, `gap_seconds` (cumulative within a session) and `watts_min`,
    `watts_max` (extremes of the samples since the point before). Raises ValueError where lengths or order are
    wrong.
    """

    time_ns: NDArray[np.int64]
    joules: NDArray[np.float64]
    session: NDArray[np.object_]
    samples: NDArray[np.int64] | None = None
    expected: NDArray[np.int64] | None = None
    lost: NDArray[np.int64] | None = None
    gap_seconds: NDArray[np.float64] | None = None
    watts_min: NDArray[np.float64] | None = None
    watts_max: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        _coerce(self, "time_ns", np.int64)
        _coerce(self, "joules", np.float64)
        _coerce(self, "session", np.object_)
        for name in ("samples", "expected", "lost"):
            _coerce(self, name, np.int64)
        for name in ("gap_seconds", "watts_min", "watts_max"):
            _coerce(self, name, np.float64)
        if np.any(np.diff(self.time_ns) <= 0):
            raise ValueError(
                "time_ns: not strictly rising; give the points of one rail of one meter, in time order"
            )
        if not np.all(np.isfinite(self.joules)):
            raise ValueError("joules: not finite")

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> CounterPoints:
        """From the rows of one rail: `time_ns` (or `time`), `joules`, `session` and any of the others."""
        if frame.is_empty():
            return cls(np.empty(0), np.empty(0), np.empty(0, dtype=object))
        if "time_ns" not in frame.columns:
            frame = frame.rename({"time": "time_ns"})
        frame = frame.drop_nulls("joules").sort("time_ns")
        optional = ("samples", "expected", "lost", "gap_seconds", "watts_min", "watts_max")
        present = {
            name: frame[name].to_numpy()
            for name in optional
            if name in frame.columns and frame[name].null_count() == 0
        }
        return cls(
            frame["time_ns"].to_numpy(), frame["joules"].to_numpy(), frame["session"].to_numpy(), **present
        )


def _coerce(points: CounterPoints, name: str, kind: type) -> None:
    values: ArrayLike | None = getattr(points, name)
    if values is None:
        return
    array = np.asarray(values).astype(kind)
    if array.shape != (len(points.time_ns),):
        raise ValueError(f"{name}: shape {array.shape}, time_ns has {len(points.time_ns)} points")
    object.__setattr__(points, name, array)


@dataclass(frozen=True)
class IntervalEnergy:
    """What a counter says of an interval.

    `joules` is None where it does not say; `reason` then tells why (empty otherwise). `bound_joules` is the
    largest error that interpolating at the two ends can have made (see `of_interval`); None where it is not
    known. `samples`, `expected`, `lost` and `gap_seconds` are the loss ledger **between the points that
    enclose the interval**, not interpolated: so expected - samples still balances with lost, and a loss next
    to an end is not halved. They are 0 where the source has none.
    """

    joules: float | None
    reason: str = ""
    bound_joules: float | None = None
    samples: int = 0
    expected: int = 0
    lost: int = 0
    gap_seconds: float = 0.0


def of_interval(
    points: CounterPoints, start_ns: int, end_ns: int, *, max_gap_ns: int = DEFAULT_MAX_GAP_NS
) -> IntervalEnergy:
    """Energy between two instants.

    The counter at an end is interpolated linearly between the points around it; an end that falls on a point
    takes that point.

    Parameters
    ----------
    points : CounterPoints
        One rail of one meter.
    start_ns, end_ns : int
        UTC ns on the points' axis (the controller's clock).
    max_gap_ns : int
        Points around an end further apart than this do not tell the power at that end.

    Returns
    -------
    IntervalEnergy
        Without joules where

        - the interval is not covered: it starts before the first point or ends after the last;
        - the points around an end are further apart than `max_gap_ns`;
        - the session changes between the points that enclose the interval. A new session counts from zero,
          and what the rail drew between the last point of one and the first of the next was counted by
          neither: the sum of the two would be too small by an amount that nobody knows;
        - the session of a point is not known (None);
        - the sample counter runs backwards inside a session: the counter was reset and does not say so.
          (Joules that fall are no such sign: power has a sign, and a rail near zero or one that feeds back
          counts down.)

    Raises
    ------
    ValueError
        `end_ns` before `start_ns`, or `max_gap_ns` not positive.

    Notes
    -----
    Between points at 0 and d, with the mean power w known and the power p(t) within [watts_min, watts_max],
    the true energy at fraction a differs from the line by at most ``a (1 - a) d (watts_max - watts_min)``:
    over the part before, the mean is w1, over the part after w2, a w1 + (1 - a) w2 = w, so the error is a d
    (w1 - w) = a (1 - a) d (w1 - w2). It vanishes on a point and never exceeds d (watts_max - watts_min) / 4,
    hence always ``|error| <= d (watts_max - watts_min)`` with d the distance between points. `bound_joules`
    is the sum over both ends. It bounds the interpolation alone, not the meter: watts_min and watts_max are
    extremes of samples, so a meter whose samples are means over a window knows nothing finer than that
    window.
    """
    if end_ns < start_ns:
        raise ValueError(f"end_ns {end_ns} is before start_ns {start_ns}")
    if max_gap_ns <= 0:
        raise ValueError(f"max_gap_ns {max_gap_ns}: not positive")
    time_ns = points.time_ns
    if len(time_ns) == 0:
        return IntervalEnergy(None, "no points")
    if start_ns < time_ns[0] or end_ns > time_ns[-1]:
        first = int(np.searchsorted(time_ns, start_ns, side="left"))
        last = int(np.searchsorted(time_ns, end_ns, side="right")) - 1
        missing = []
        if start_ns < time_ns[0]:
            missing.append(f"the first point is {_seconds(int(time_ns[0]) - start_ns)} after its start")
        if end_ns > time_ns[-1]:
            missing.append(f"the last point is {_seconds(end_ns - int(time_ns[-1]))} before its end")
        return IntervalEnergy(
            None, f"interval not covered: {' and '.join(missing)}", None, *_ledger(points, first, last)
        )
    first = int(np.searchsorted(time_ns, start_ns, side="right")) - 1
    last = int(np.searchsorted(time_ns, end_ns, side="left"))
    ledger = _ledger(points, first, last)
    for end, instant in (("start", start_ns), ("end", end_ns)):
        before, after = _around(time_ns, instant)
        distance = int(time_ns[after]) - int(time_ns[before])
        if distance > max_gap_ns:
            apart, allowed = _seconds(distance), _seconds(max_gap_ns)
            reason = f"gap: the points around its {end} are {apart} apart, {allowed} allowed"
            return IntervalEnergy(None, reason, None, *ledger)
    within = points.session[first : last + 1]
    if any(session is None for session in within):
        return IntervalEnergy(
            None, "session not known: nothing tells that the counter went on", None, *ledger
        )
    if np.any(within[1:] != within[:-1]):
        changes = int(np.count_nonzero(within[1:] != within[:-1]))
        times = f"{changes} time{'s' * (changes > 1)}"
        reason = f"session changed {times}: the energy between two sessions was not counted"
        return IntervalEnergy(None, reason, None, *ledger)
    if points.samples is not None and np.any(np.diff(points.samples[first : last + 1]) < 0):
        return IntervalEnergy(None, "counter reset inside a session: samples run backwards", None, *ledger)
    start_joules, start_bound = _at(points, start_ns)
    end_joules, end_bound = _at(points, end_ns)
    bound = None if start_bound is None or end_bound is None else start_bound + end_bound
    return IntervalEnergy(end_joules - start_joules, "", bound, *ledger)


def total(parts: Iterable[IntervalEnergy]) -> IntervalEnergy:
    """Sum over the rails of a drive, or over the drives of an array.

    No joules where there is no rail, and where a rail has none: a part of a drive's energy is not the drive's
    energy. The first reason stands. Bounds add up; None where one is not known.
    """
    parts = list(parts)
    bounds = [part.bound_joules for part in parts]
    missing = [part.reason or "no joules" for part in parts if part.joules is None]
    complete = bool(parts) and not missing
    return IntervalEnergy(
        joules=float(sum(part.joules for part in parts)) if complete else None,
        reason="" if complete else (missing[0] if missing else "no rail is measured"),
        bound_joules=float(sum(bounds)) if complete and None not in bounds else None,
        samples=sum(part.samples for part in parts),
        expected=sum(part.expected for part in parts),
        lost=sum(part.lost for part in parts),
        gap_seconds=float(sum(part.gap_seconds for part in parts)),
    )


def _around(time_ns: NDArray[np.int64], instant: int) -> tuple[int, int]:
    """Indices of the points around a covered instant; the same one twice where it falls on a point."""
    after = int(np.searchsorted(time_ns, instant, side="left"))
    return (after, after) if time_ns[after] == instant else (after - 1, after)


def _at(points: CounterPoints, instant: int) -> tuple[float, float | None]:
    """The counter at an instant, and the bound of its interpolation."""
    before, after = _around(points.time_ns, instant)
    if before == after:
        return float(points.joules[after]), 0.0
    distance = int(points.time_ns[after]) - int(points.time_ns[before])
    fraction = (instant - int(points.time_ns[before])) / distance
    rise = float(points.joules[after] - points.joules[before])
    joules = float(points.joules[before]) + fraction * rise
    if points.watts_min is None or points.watts_max is None:
        return joules, None
    spread = float(points.watts_max[after] - points.watts_min[after])
    return joules, fraction * (1 - fraction) * distance * 1e-9 * spread


def _ledger(points: CounterPoints, first: int, last: int) -> tuple[int, int, int, float]:
    """Rises of the cumulative ledger from point `first` to `last`; a step into a new session is none."""
    same = (
        points.session[first + 1 : last + 1] == points.session[first:last]
        if last > first
        else np.empty(0, bool)
    )

    def rise(values: NDArray | None) -> float | int:
        if values is None or last <= first:
            return 0
        steps = np.diff(values[first : last + 1])
        return steps[same & (steps > 0)].sum().item()

    return (
        int(rise(points.samples)),
        int(rise(points.expected)),
        int(rise(points.lost)),
        float(rise(points.gap_seconds)),
    )


def _seconds(ns: int) -> str:
    return f"{ns * 1e-9:.6g} s"
