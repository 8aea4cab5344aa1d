# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy of an interval from a rail's cumulative joule counter.

powerd integrates every sample on the meter's own time and stores the running total, so the energy
of an interval is a difference of two counter values whatever the stored rate, and a point that got
lost on the way costs nothing. Energy is never invented: the value is what was measured, and what is
not known about it (gaps, the power between points, the clocks, the meter) makes an interval around
it, each part kept by itself. Where the counter does not say what the interval drew, the answer is
no joules and why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from joulerig.analysis.energy import sampled
from joulerig.analysis.energy.uncertainty import COVERAGE_FACTOR

if TYPE_CHECKING:
    import polars as pl

DEFAULT_MAX_GAP_NS = 100_000_000
Source = Literal["stream", "poll", "register"]

_ROUNDING = 0.01  # a step whose gap is all of it but for the error of its two points' times
_SAME_NS = 1000  # instants this close are the same one, but for rounding
_COUNTS = ("samples", "expected", "lost", "duplicate", "repeated", "over_range", "impossible", "surplus")
_TOTALS = ("gap_seconds", "unbounded_seconds", "joules_low", "joules_high")
# Points without them, of earlier versions, have had none.
_SINCE_LATER = ("over_range", "impossible", "unbounded_seconds")
_POWERS = ("watts_min", "watts_max", "volts", "amps", "clock_residual_seconds")


@dataclass(frozen=True, eq=False)
class CounterPoints:
    """Points of one rail's counter, in time order, one array an attribute, all of one length.

    `time_ns` (UTC, strictly rising), `joules` (cumulative within a session), `session`; where the
    source has them, `joules_low`, `joules_high` (the same with the least and the most that the gaps
    can have drawn), the ledger `samples`, `expected`, `lost`, `duplicate`, `repeated`,
    `over_range`, `impossible`, `surplus`, `gap_seconds`, and `unbounded_seconds`, the time that is
    in neither (cumulative within a session), `watts_min`, `watts_max` (extremes of the samples
    since the point before), `volts`, `amps` (means since then) and `clock_residual_seconds`. Floats
    but time and joules may be NaN: a point where a stream begins has no power. Raises ValueError
    where lengths or order are wrong.
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
    joules_low: NDArray[np.float64] | None = None
    joules_high: NDArray[np.float64] | None = None
    duplicate: NDArray[np.int64] | None = None
    repeated: NDArray[np.int64] | None = None
    surplus: NDArray[np.int64] | None = None
    over_range: NDArray[np.int64] | None = None
    impossible: NDArray[np.int64] | None = None
    unbounded_seconds: NDArray[np.float64] | None = None
    volts: NDArray[np.float64] | None = None
    amps: NDArray[np.float64] | None = None
    clock_residual_seconds: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        _coerce(self, "time_ns", np.int64)
        _coerce(self, "joules", np.float64)
        _coerce(self, "session", np.object_)
        for name in _COUNTS:
            _coerce(self, name, np.int64)
        for name in (*_TOTALS, *_POWERS):
            _coerce(self, name, np.float64)
        if np.any(np.diff(self.time_ns) <= 0):
            raise ValueError(
                "time_ns: not strictly rising; give the points of one rail of one meter, in time order"
            )
        if not np.all(np.isfinite(self.joules)):
            raise ValueError("joules: not finite")

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> CounterPoints:
        """Build the points from the rows of one rail.

        Columns: `time_ns` (or `time`), `joules`, `session` and any of the others.
        """
        import polars as pl  # takes as long to import as a small journal to read

        if frame.is_empty():
            return cls(np.empty(0), np.empty(0), np.empty(0, dtype=object))
        if "time_ns" not in frame.columns:
            frame = frame.rename({"time": "time_ns"})
        frame = frame.drop_nulls("joules").sort("time_ns")
        frame = frame.with_columns(
            pl.col(name).fill_null(0) for name in _SINCE_LATER if name in frame.columns
        )
        present = {
            name: frame[name].to_numpy()
            for name in (*_COUNTS, *_TOTALS)
            if name in frame.columns and frame[name].null_count() == 0
        }
        # A point where a stream begins has counters and no power: that makes the others' no less
        # known.
        present |= {
            name: frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
            for name in _POWERS
            if name in frame.columns and frame[name].null_count() < frame.height
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
class Supply:
    """What feeds a rail: its greatest current and its resistance; None: that is not declared."""

    amps: float | None = None
    ohms: float | None = None


@dataclass(frozen=True)
class EnergyBudget:
    """What the interval around an energy is made of, in joules; None: that part is not known.

    `gap_low`, `gap_high`: what the gaps drew at least and at most, to be added to the value, which
    has none of it. `product`: how much of the value can be too much, for it is the product of mean
    volts and mean amps. Of both the value is corrected by the middle. The others go both ways:
    `interpolation` (the power between the points around the two ends), `alignment` (the ends' own
    instants), `meter` (expanded uncertainty, k = 2, of joulerig.analysis.energy.uncertainty): it is
    twice a standard uncertainty, the others are limits.
    """

    gap_low: float | None = None
    gap_high: float | None = None
    interpolation: float | None = None
    alignment: float | None = None
    meter: float | None = None
    product: float | None = None

    @property
    def correction(self) -> float:
        """Return what is to be added to the value for its gaps and its product, in joules."""
        return gap_correction(self.gap_low, self.gap_high) + product_correction(self.product)

    def shares(self) -> dict[str, float]:
        """Return each known part's share of the interval's width; empty where there is no width."""
        halves = {
            "gaps": None if self.gap_low is None else (self.gap_high - self.gap_low) / 2,
            "interpolation": self.interpolation,
            "alignment": self.alignment,
            "product": None if self.product is None else self.product / 2,
            "meter": self.meter,
        }
        known = {name: half for name, half in halves.items() if half is not None}
        width = sum(known.values())
        return {name: half / width for name, half in known.items()} if width > 0 else {}


def standard_uncertainties(
    *,
    gap_low: NDArray[np.float64],
    gap_high: NDArray[np.float64],
    interpolation: NDArray[np.float64],
    alignment: NDArray[np.float64],
    product: NDArray[np.float64],
    meter: NDArray[np.float64],
    gap_correction: NDArray[np.float64],
    product_correction: NDArray[np.float64],
) -> dict[str, NDArray[np.float64]]:
    """Return the standard uncertainty of each part of `EnergyBudget`, in joules, of many energies.

    The gaps' parts are one, `gaps`. NaN: that part is not known. What has limits lies anywhere
    within them alike (JCGM 100:2008, 4.3.7); the gaps' reach from gap_low to gap_high and the
    product's from -product to 0, so that their mean square around the corrected value counts.

    Parameters
    ----------
    gap_correction, product_correction : arrays of float, (energies,)
        What was added to each value for its gaps and for its product; 0 where nothing was.
    gap_low, ... : arrays of float, (energies,)
        As in `EnergyBudget`, NaN for None.
    """

    def around(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sqrt(low**2 + low * high + high**2)

    limits = {
        "gaps": around(gap_low - gap_correction, gap_high - gap_correction),
        "interpolation": interpolation,
        "alignment": alignment,
        "product": around(-product - product_correction, -product_correction),
    }
    found = {name: limit / math.sqrt(3) for name, limit in limits.items()}
    return found | {"meter": meter / COVERAGE_FACTOR}


def gap_correction(low: float | None, high: float | None) -> float:
    """Return what gaps that drew from `low` to `high` joules add to an energy without them.

    It is the middle: that the energy is too small is known, and by how much, within limits that are
    all alike (JCGM 100:2008, 3.2.4, F.2.4.5). 0 where the limits are not known, and where it is not
    known that the energy is too small, as between the readings of a polled meter.
    """
    if low is None or high is None or low < 0 < high:
        return 0.0
    return (low + high) / 2


def product_correction(product: float | None) -> float:
    """Return what is added to a product of means that can be up to `product` joules too high.

    It is the middle, as of gaps; 0 where the limit is not known.
    """
    return 0.0 if product is None else -product / 2


@dataclass(frozen=True)
class IntervalEnergy:
    """What a counter says of an interval.

    `joules` is what was measured, None where the counter does not say; `reason` then says why
    (empty otherwise). The true energy lies from `joules_low` to `joules_high` as far as `budget`
    goes: a gap widens and moves them, so that joules can be below both. They are None where a part
    other than the meter's is not known or bounded by nothing; a meter without a stated class is not
    in them. A rail that was never seen to feed back took energy, so `joules_low` is at least
    `floor_joules`: 0, or the interval at the least power below 0 that was seen. `bound_joules` is
    `budget.interpolation`. `samples`, `expected`, `lost`, `gap_seconds`, `duplicate`, `repeated`,
    `over_range`, `impossible` and `surplus` are the loss ledger **between the points that enclose
    the interval**, not interpolated: so it still balances, and a loss next to an end is not halved;
    `worst_gap_seconds` is the most of gap_seconds between two points that follow each other. They
    are 0 where the source has none. `volt_seconds` and `amp_seconds` are the integrals over the
    interval of the volts and the amps that were measured, None where the points have none.
    `spread_watts`: the greatest less the least power of a point's samples, the median over the
    points within; None where the points have no extremes, and of several rails. `sampled_joules`:
    half of the 95 % interval of the joules as a sample of a polled meter (analysis.energy.sampled),
    between the points that enclose the interval; None where they are not shown to be one.
    """

    joules: float | None
    reason: str = ""
    bound_joules: float | None = None
    samples: int = 0
    expected: int = 0
    lost: int = 0
    gap_seconds: float = 0.0
    duplicate: int = 0
    repeated: int = 0
    surplus: int = 0
    over_range: int = 0
    worst_gap_seconds: float = 0.0
    budget: EnergyBudget = EnergyBudget()
    volt_seconds: float | None = None
    amp_seconds: float | None = None
    floor_joules: float = 0.0
    spread_watts: float | None = None
    impossible: int = 0
    sampled_joules: float | None = None

    @property
    def joules_low(self) -> float | None:
        low = self._moved(-1, self.budget.gap_low)
        return None if low is None else max(low, self.floor_joules)

    @property
    def joules_high(self) -> float | None:
        return self._moved(1, self.budget.gap_high)

    def _moved(self, sign: int, gap: float | None) -> float | None:
        parts = self.budget
        if None in (self.joules, gap, parts.interpolation, parts.alignment, parts.product):
            return None
        either_way = parts.interpolation + parts.alignment + (parts.meter or 0.0)
        return self.joules + gap + sign * either_way - (parts.product if sign < 0 else 0.0)

    def with_meter(self, expanded_joules: float | None) -> IntervalEnergy:
        """Return this energy with the meter's expanded uncertainty in its budget."""
        return replace(self, budget=replace(self.budget, meter=expanded_joules))


def energy_between(
    points: CounterPoints,
    start_ns: int,
    end_ns: int,
    *,
    max_gap_ns: int = DEFAULT_MAX_GAP_NS,
    edge_error_ns: int = 0,
    mean_products: Supply | None = None,
    source: Source = "stream",
) -> IntervalEnergy:
    """Compute the energy between two instants.

    The counter at an end is interpolated linearly between the points around it; an end that falls
    on a point takes that point.

    Parameters
    ----------
    points : CounterPoints
        One rail of one meter.
    start_ns, end_ns : int
        UTC ns on the points' axis (the controller's clock).
    max_gap_ns : int
        Points around an end further apart than this have not been seen without a hole: what the
        rail drew between them is bounded by what it was seen to draw at any time, not by the later
        point's extremes.
    edge_error_ns : int
        How far each of the two instants may be from the points' axis, the fit of the points' own
        times (`clock_residual_seconds`, added here) left out: the host's clock, the path from
        instrument to controller.
    mean_products : Supply or None
        The counter was made of mean volts times mean amps of each sample's window, on a rail that
        this feeds; None: it was not.
    source : "stream", "poll" or "register"
        What the counter was made of: samples of a stream, readings at instants, or the readings of
        a register of energy in the instrument, which rises in steps.

    Returns
    -------
    IntervalEnergy
        Without joules where

        - the interval is not covered: it starts before the first point or ends after the last;
        - an end lies in a gap, or between points further apart than `max_gap_ns`, and no point
          gives a power;
        - all of it lies in one gap: nothing of it was measured;
        - the session changes between the points that enclose the interval. A new session counts
          from zero, and what the rail drew between the last point of one and the first of the next
          was counted by neither: the sum of the two would be too small by an unknown amount;
        - the session of a point is not known (None);
        - the sample counter runs backwards inside a session: the counter was reset and does not say
          so. (Joules that fall are no such sign: power has a sign, and a rail near zero or one that
          feeds back counts down.)

    Raises
    ------
    ValueError
        `end_ns` before `start_ns`, `max_gap_ns` not positive, or `edge_error_ns` negative.

    Notes
    -----
    *Interpolation.* Between points at 0 and d, with the mean power w known and the power p(t)
    within [watts_min, watts_max], the true energy at fraction a differs from the line by at most
    ``a (1 - a) d (watts_max - watts_min)``: over the part before, the mean is w1, over the part
    after w2, and a w1 + (1 - a) w2 = w, so the error is a d (w1 - w) = a (1 - a) d (w1 - w2). It
    vanishes on a point and never exceeds d (watts_max - watts_min) / 4, hence always
    ``|error| <= d (watts_max - watts_min)`` with d the distance between points. The part of the
    budget is the sum over both ends. It bounds the interpolation alone, not the meter: watts_min
    and watts_max are extremes of samples, so a meter whose samples are means over a window knows
    nothing finer than that window.

    A register shows nothing between two of its steps: of each end anything up to a step can be in
    it or not, and of the difference as much, either way. The step is the least rise that was seen
    within a session, as instruments do not report theirs; where none was seen the part is not
    known.

    *Gaps.* A gap of g seconds adds from g times the least to g times the greatest power that the
    rail was seen to draw, and where it was over range from none to what its supply delivers: by the
    counters joules_low and joules_high (which for an instrument that is asked for each reading have
    the same between two readings), and by the points at hand where these saw more (or the
    counters are not there). Where nothing bounds it (unbounded_seconds), there is no part.
    Where an end lies in a step of length
    d with a gap of g, of which L is inside, J counted, and every power within [l, h] (in the gap
    within [k, m]), the part inside is at least ``max(L l, J + g k - (d - L) h)`` and at most
    ``min(L h, J + g m - (d - L) l)``: what is not inside is outside.

    *Alignment.* An end moved by e changes the energy by at most e times the greatest magnitude of
    power around it: of the points within e, of the enclosing ones at least. Both ends count, each
    with its own.

    *Product of means.* Where a rail droops by R I within a window, the mean of V I is the product
    of the means less R var(I). With every I from 0 to I_max and mean i, var(I) is at most i (I_max
    - i) (Bhatia and Davis, A better bound on the variance, American Mathematical Monthly 107(4),
    2000, 353-357); that is concave in i, so the mean of a point's windows stands for them. R and
    I_max are the supply's as declared: a load that changes within every window alike leaves no
    trace in the samples, so neither can be had from them.
    """
    if end_ns < start_ns:
        raise ValueError(f"end_ns {end_ns} is before start_ns {start_ns}")
    if max_gap_ns <= 0:
        raise ValueError(f"max_gap_ns {max_gap_ns}: not positive")
    if edge_error_ns < 0:
        raise ValueError(f"edge_error_ns {edge_error_ns}: negative")
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
        reason = f"interval not covered: {' and '.join(missing)}"
        return IntervalEnergy(None, reason, **_ledger(points, first, last))
    first = int(np.searchsorted(time_ns, start_ns, side="right")) - 1
    last = int(np.searchsorted(time_ns, end_ns, side="left"))
    ledger = _ledger(points, first, last)
    if reason := _broken(points, first, last) or _unknown_at_an_end(points, start_ns, end_ns, max_gap_ns):
        return IntervalEnergy(None, reason, **ledger)
    joules = _counter_at(points.joules, time_ns, end_ns) - _counter_at(points.joules, time_ns, start_ns)
    gap_low, gap_high, interpolation = _unmeasured(points, start_ns, end_ns, max_gap_ns)
    if source == "register" and interpolation is not None:
        step = _least_rise(points)
        interpolation = None if step is None else interpolation + step
    if _unbounded(points, first, last):
        gap_low = gap_high = None
    ends = [_alignment(points, instant, edge_error_ns) for instant in (start_ns, end_ns)]
    budget = EnergyBudget(
        gap_low,
        gap_high,
        interpolation,
        alignment=None if None in ends else sum(ends),
        product=0.0 if mean_products is None else _product(points, mean_products, start_ns, end_ns),
    )
    return IntervalEnergy(
        joules,
        "",
        interpolation,
        **ledger,
        budget=budget,
        volt_seconds=_integral(points, points.volts, start_ns, end_ns),
        amp_seconds=_integral(points, points.amps, start_ns, end_ns),
        floor_joules=min(0.0, joules, _least_watts(points, last) * (end_ns - start_ns) * 1e-9),
        spread_watts=_spread(points, first, last),
        sampled_joules=_sampled(points, first, last) if source == "poll" else None,
    )


def total(parts: Iterable[IntervalEnergy]) -> IntervalEnergy:
    """Sum over the rails of a drive, or over the drives of an array.

    No joules where there is no rail, and where a rail has none: a part of a drive's energy is not
    the drive's energy. The first reason stands. Bounds add up; None where one is not known.
    """
    parts = list(parts)
    missing = [part.reason or "no joules" for part in parts if part.joules is None]
    complete = bool(parts) and not missing

    def added(values: list[float | None]) -> float | None:
        return float(sum(values)) if complete and None not in values else None

    return IntervalEnergy(
        joules=added([part.joules for part in parts]),
        reason="" if complete else (missing[0] if missing else "no rail is measured"),
        bound_joules=added([part.bound_joules for part in parts]),
        **{name: sum(getattr(part, name) for part in parts) for name in _COUNTS},
        gap_seconds=float(sum(part.gap_seconds for part in parts)),
        floor_joules=sum(part.floor_joules for part in parts),
        sampled_joules=added([part.sampled_joules for part in parts]),
        worst_gap_seconds=max((part.worst_gap_seconds for part in parts), default=0.0),
        budget=EnergyBudget(
            **{
                field.name: added([getattr(part.budget, field.name) for part in parts])
                for field in fields(EnergyBudget)
            }
        ),
    )


def _least_watts(points: CounterPoints, last: int) -> float:
    """Return the least power that is known of the points up to the one behind `last`, or 0."""
    seen = _seen(points, max(last - 1, 0), last)
    return 0.0 if seen is None else seen[0]


def _least_rise(points: CounterPoints) -> float | None:
    """Return the least step in which the counter rose within a session; None where it did not."""
    rises = np.diff(points.joules)[points.session[1:] == points.session[:-1]]
    rises = rises[rises > 0]
    return float(rises.min()) if len(rises) else None


def _sampled(points: CounterPoints, first: int, last: int) -> float | None:
    """Return half of the interval of the counter's rise as a sample; None across a gap."""
    if _gap(points, first, last) > 0 or points.repeated is None or points.samples is None:
        return None
    within = slice(first, last + 1)
    seconds = (points.time_ns[within] - points.time_ns[first]) * 1e-9
    repeated = int(points.repeated[last] - points.repeated[first])
    readings = repeated + int(points.samples[last] - points.samples[first])
    return sampled.half_width(seconds, points.joules[within], repeated / max(readings, 1))


def _spread(points: CounterPoints, first: int, last: int) -> float | None:
    """Return the median over the points after `first` of the range of their samples."""
    if points.watts_min is None or points.watts_max is None:
        return None
    ranges = (points.watts_max - points.watts_min)[first + 1 : last + 1]
    ranges = ranges[np.isfinite(ranges)]
    return float(np.median(ranges)) if len(ranges) else None


def _broken(points: CounterPoints, first: int, last: int) -> str:
    """Return why the counter did not go on from point `first` to `last`; empty where it did."""
    within = points.session[first : last + 1]
    if any(session is None for session in within):
        return "session not known: nothing tells that the counter went on"
    if np.any(within[1:] != within[:-1]):
        changes = int(np.count_nonzero(within[1:] != within[:-1]))
        times = f"{changes} time{'s' * (changes > 1)}"
        return f"session changed {times}: the energy between two sessions was not counted"
    if points.samples is not None and np.any(np.diff(points.samples[first : last + 1]) < 0):
        return "counter reset inside a session: samples run backwards"
    return ""


def _unknown_at_an_end(points: CounterPoints, start_ns: int, end_ns: int, max_gap_ns: int) -> str:
    """Return why the gap or hole in which an end lies cannot be bounded; empty where it can."""
    ends = {name: _around(points.time_ns, at) for name, at in (("start", start_ns), ("end", end_ns))}
    for name, (before, after) in ends.items():
        distance = int(points.time_ns[after]) - int(points.time_ns[before])
        if distance > max_gap_ns and _seen(points, before, after) is None:
            apart, allowed = _seconds(distance), _seconds(max_gap_ns)
            return f"gap: the points around its {name} are {apart} apart, {allowed} allowed"
    before, after = ends["start"]
    if ends["end"] == (before, after) and before < after:
        length = (int(points.time_ns[after]) - int(points.time_ns[before])) * 1e-9
        if _gap(points, before, after) >= (1 - _ROUNDING) * length:
            return "gap: nothing of it was measured"
    return ""


def _unbounded(points: CounterPoints, first: int, last: int) -> bool:
    """Return whether the power was bounded by nothing for a time between two points."""
    unbounded = points.unbounded_seconds
    return unbounded is not None and bool(unbounded[last] > unbounded[first])


def _gap(points: CounterPoints, before: int, after: int) -> float:
    """Return the seconds of gaps from one point to another, at most the time between them."""
    if points.gap_seconds is None:
        return 0.0
    length = (int(points.time_ns[after]) - int(points.time_ns[before])) * 1e-9
    return min(max(float(points.gap_seconds[after] - points.gap_seconds[before]), 0.0), length)


def _seen(points: CounterPoints, before: int, after: int) -> tuple[float, float] | None:
    """Return the least and greatest watts in the points up to `after`; None if not known.

    Of the session of step `before` to `after`. Points that come after a gap are the nearest to it
    on their side: the one that ends the first step behind `after` counts too.
    """
    if points.watts_min is None or points.watts_max is None:
        return None
    upto = min(after + 2, len(points.time_ns))
    same = points.session[:upto] == points.session[after]
    low, high = points.watts_min[:upto][same], points.watts_max[:upto][same]
    low, high = low[np.isfinite(low)], high[np.isfinite(high)]
    return (float(low.min()), float(high.max())) if len(low) and len(high) else None


def _unmeasured(
    points: CounterPoints, start_ns: int, end_ns: int, max_gap_ns: int
) -> tuple[float | None, float | None, float | None]:
    """Compute gap low, gap high and interpolation of the budget; see `energy_between`, notes."""
    parts = []
    start, end = _around(points.time_ns, start_ns), _around(points.time_ns, end_ns)
    if start == end and start[0] < start[1] and _holed(points, *start, max_gap_ns):
        parts.append(_holed_step(points, *start, end_ns - start_ns))
    else:
        for (before, after), instant, inside in (
            (start, start_ns, int(points.time_ns[start[1]]) - start_ns),
            (end, end_ns, end_ns - int(points.time_ns[end[0]])),
        ):
            if before == after:
                continue
            if _holed(points, before, after, max_gap_ns):
                parts.append(_holed_step(points, before, after, inside))
            else:
                bound = _line_bound(points, before, after, instant)
                parts.append(None if bound is None else (*_unseen(points, before, after), bound))
        if end[0] > start[1]:
            parts.append(_whole_gaps(points, start[1], end[0]))
    if None in parts:
        return None, None, None
    return tuple(float(sum(part[index] for part in parts)) for index in range(3))


def _unseen(points: CounterPoints, before: int, after: int) -> tuple[float, float]:
    """Return what the counters' own low and high add in a step without a gap.

    Nothing is known between readings. All of it counts, whatever part of the step is inside:
    nothing shows where in the step it lies.
    """
    if points.joules_low is None or points.joules_high is None:
        return 0.0, 0.0
    low, high = points.joules_low - points.joules, points.joules_high - points.joules
    return min(0.0, float(low[after] - low[before])), max(0.0, float(high[after] - high[before]))


def _holed(points: CounterPoints, before: int, after: int, max_gap_ns: int) -> bool:
    distance = int(points.time_ns[after]) - int(points.time_ns[before])
    return distance > max_gap_ns or _gap(points, before, after) > 0


def _holed_step(
    points: CounterPoints, before: int, after: int, inside_ns: int
) -> tuple[float, float, float] | None:
    """Compute gap low, gap high and interpolation of the part inside of a step.

    The step has a gap or lacks points. None where no power was seen.
    """
    seen = _seen(points, before, after)
    if seen is None:
        return None
    length = (int(points.time_ns[after]) - int(points.time_ns[before])) * 1e-9
    inside = inside_ns * 1e-9
    counted = float(points.joules[after] - points.joules[before])
    gap = _gap(points, before, after)
    gap_low, gap_high, _ = _whole_gaps(points, before, after)
    low, high = seen
    if gap > 0:
        low, high = min(low, gap_low / gap), max(high, gap_high / gap)
    if counted != 0 and length - gap > _ROUNDING * length:
        mean = counted / (length - gap)
        low, high = min(low, mean), max(high, mean)
    least, most = inside * low, inside * high
    if points.gap_seconds is not None:
        least = max(least, counted + gap_low - (length - inside) * high)
        most = min(most, counted + gap_high - (length - inside) * low)
    value = counted * inside / length
    if gap > 0:
        return least - value, most - value, 0.0
    return 0.0, 0.0, max(value - least, most - value, 0.0)


def _whole_gaps(points: CounterPoints, first: int, last: int) -> tuple[float, float, float] | None:
    """Bound what the gaps from point `first` to `last` can have drawn.

    None where no power was seen.
    """
    gap = _gap(points, first, last)
    low: list[float] = []
    high: list[float] = []
    if points.joules_low is not None and points.joules_high is not None:
        for counter, found in ((points.joules_low, low), (points.joules_high, high)):
            extra = counter - points.joules
            found.append(float(extra[last] - extra[first]))
    elif gap == 0:
        return 0.0, 0.0, 0.0
    if gap > 0 and (seen := _seen(points, first, last)) is not None:
        low.append(gap * seen[0])
        high.append(gap * seen[1])
    return (min(low), max(high), 0.0) if low else None


def _alignment(points: CounterPoints, instant: int, edge_error_ns: int) -> float | None:
    """Bound what an end moved by its error can change, in joules.

    None where no power around it is known.
    """
    before, after = _around(points.time_ns, instant)
    error_ns = float(edge_error_ns)
    if points.clock_residual_seconds is not None:
        residual_ns = 1e9 * np.nan_to_num(points.clock_residual_seconds)
        # Points whose own time may be the instant: those around it, and after a clock that was set
        # back those that lie as far behind it as they are ahead of the clock.
        near = np.abs(points.time_ns - instant) <= residual_ns + edge_error_ns + _SAME_NS
        near[before : after + 1] = True
        error_ns += float(residual_ns[near].max())
    if error_ns == 0:
        return 0.0
    if points.watts_min is None or points.watts_max is None:
        return None
    # A point is of the step before it: take those behind the earliest instant up to behind the
    # last.
    first = int(np.searchsorted(points.time_ns, instant - error_ns, side="left"))
    last = int(np.searchsorted(points.time_ns, instant + error_ns, side="right"))
    last = min(max(last, after, before + 1), len(points.time_ns) - 1)
    first = min(first, before, last)
    watts = [points.watts_min[first : last + 1], points.watts_max[first : last + 1]]
    known = np.concatenate(watts)
    known = np.abs(known[np.isfinite(known)])
    steps = slice(max(first - 1, 0), last + 1)
    # The counters rise faster than the power on a time that runs slow, and than what was seen.
    goes_on = points.session[steps][1:] == points.session[steps][:-1]
    if points.gap_seconds is not None:
        goes_on = goes_on & (np.diff(points.gap_seconds[steps]) <= 0)
    seconds = np.diff(points.time_ns[steps]) * 1e-9
    for counter in (points.joules, points.joules_low, points.joules_high):
        if counter is not None:
            known = np.append(known, (np.abs(np.diff(counter[steps])) / seconds)[goes_on])
    before_first = max(first - 1, 0)
    if _unbounded(points, before_first, last):
        return None
    gap, whole = _gap(points, before_first, last), _whole_gaps(points, before_first, last)
    if gap > 0 and whole is not None:
        known = np.append(known, np.abs(whole[:2]) / gap)
    return error_ns * 1e-9 * float(known.max()) if len(known) else None


def _product(points: CounterPoints, supply: Supply, start_ns: int, end_ns: int) -> float | None:
    """Bound how far products of means are above the mean of the products, in joules.

    Over the interval. None where the supply or the amps are not known, and where the amps exceed
    the supply's.
    """
    if supply.amps is None or supply.ohms is None or points.amps is None:
        return None
    first, last = _around(points.time_ns, start_ns)[0], _around(points.time_ns, end_ns)[1]
    amps = points.amps[first + 1 : last + 1]
    if not np.any(np.isfinite(amps)) or np.nanmax(amps) > supply.amps:
        return None
    variance = np.clip(points.amps * (supply.amps - points.amps), 0.0, None)
    return _integral(points, supply.ohms * variance, start_ns, end_ns) or 0.0


def _integral(
    points: CounterPoints, means: NDArray[np.float64] | None, start_ns: int, end_ns: int
) -> float | None:
    """Integrate a quantity from its means over the steps before the points.

    A step without a mean adds nothing.
    """
    if means is None:
        return None
    edges = np.clip(points.time_ns, start_ns, end_ns)
    seconds = np.diff(edges) * 1e-9
    if points.gap_seconds is not None:
        steps = np.diff(points.time_ns) * 1e-9
        measured = np.clip(1 - np.diff(points.gap_seconds) / steps, 0.0, 1.0)
        seconds = seconds * measured
    known = np.isfinite(means[1:])
    return float(np.sum(seconds[known] * means[1:][known])) if np.any(known & (seconds > 0)) else None


def _around(time_ns: NDArray[np.int64], instant: int) -> tuple[int, int]:
    """Return the indices of the points around a covered instant.

    The same one twice where it falls on a point.
    """
    after = int(np.searchsorted(time_ns, instant, side="left"))
    return (after, after) if time_ns[after] == instant else (after - 1, after)


def _counter_at(counter: NDArray[np.float64], time_ns: NDArray[np.int64], instant: int) -> float:
    """Interpolate a counter at an instant, on the line between the points around it."""
    before, after = _around(time_ns, instant)
    if before == after:
        return float(counter[after])
    fraction = (instant - int(time_ns[before])) / (int(time_ns[after]) - int(time_ns[before]))
    return float(counter[before]) + fraction * float(counter[after] - counter[before])


def _line_bound(points: CounterPoints, before: int, after: int, instant: int) -> float | None:
    """Bound how far the counter at an instant can be from the line.

    None where the step's power is not known.
    """
    if points.watts_min is None or points.watts_max is None:
        return None
    distance = int(points.time_ns[after]) - int(points.time_ns[before])
    fraction = (instant - int(points.time_ns[before])) / distance
    spread = float(points.watts_max[after] - points.watts_min[after])
    return fraction * (1 - fraction) * distance * 1e-9 * spread if np.isfinite(spread) else None


def _ledger(points: CounterPoints, first: int, last: int) -> dict[str, int | float]:
    """Sum the rises of the cumulative ledger from point `first` to `last`.

    A step into a new session adds nothing.
    """
    same = (
        points.session[first + 1 : last + 1] == points.session[first:last]
        if last > first
        else np.empty(0, bool)
    )

    def steps(values: NDArray | None) -> NDArray:
        if values is None or last <= first:
            return np.zeros(0)
        found = np.diff(values[first : last + 1])
        return found[same & (found > 0)]

    gaps = steps(points.gap_seconds)
    return {
        **{name: int(steps(getattr(points, name)).sum()) for name in _COUNTS},
        "gap_seconds": float(gaps.sum()),
        "worst_gap_seconds": float(gaps.max(initial=0.0)),
    }


def _seconds(ns: int) -> str:
    return f"{ns * 1e-9:.6g} s"
