# SPDX-License-Identifier: GPL-3.0-or-later
"""Least squares of a flash profile's times and energies against what was measured of a drive.

Rates: relative errors, Levenberg-Marquardt within bounds (scipy's `least_squares`). Watts: linear,
relative errors, no parameter below 0 (scipy's `lsq_linear`). Standard uncertainties are those of
the linearised fit, from the scatter of its residuals. A parameter that the rows leave open keeps
its value of the base profile: one whose uncertainty is more than its value and the base's, and one
that no row depends on.

Hold-out: rows are sorted by operation, size, depth and amplification, and numbered; each third of
them, by their number modulo 3, is predicted by a fit to the other two. So each row has an error
that its own measurement had no part in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares, lsq_linear

from joulerig.rig.common.errors import UserError
from joulerig.virtuallab.fit import model
from joulerig.virtuallab.fit.model import Floats, Times
from joulerig.virtuallab.fit.rows import LEAST_ROWS, Operation, Row
from joulerig.virtuallab.profile import Flash, Profile

FOLDS = 3
HEADROOM = 1.1
"""What a profile may draw, in the most that was measured."""
KINDS: tuple[Operation, ...] = ("read", "write")
STARTS = 4
NOTHING = 1e-3
"""An energy of less than so many of its uncertainties is 0."""
UNITS = (0.25, 0.5, 2.0, 4.0, 8.0)
"""Numbers of flash units that are tried, in those of the base."""
MOST_UNITS = 128  # FLASH_MAX_CHANNELS
WORSE = 1.5
"""A number of units is another than the base's where that has so many times the squared errors."""


@dataclass(frozen=True)
class Parameter:
    """A number of the profile, by its key there.

    `fitted`: found from the rows, with its standard `uncertainty`; without one it only follows
    from what was: a command that is shorter than the shortest operation, a number of units.
    Else kept from the base profile.
    """

    key: str
    value: float
    unit: str
    fitted: bool
    uncertainty: float | None = None


@dataclass(frozen=True)
class Residual:
    """Relative errors of the fit at a row, model over measurement less 1.

    `rate` is None where the row says nothing of times. `held_out_*`: of the fit that left the row
    out.
    """

    row: Row
    rate: float | None
    watts: float
    held_out_rate: float | None
    held_out_watts: float


@dataclass(frozen=True)
class Fit:
    """A profile fitted to rows."""

    profile: Profile
    parameters: list[Parameter]
    residuals: list[Residual]


@dataclass(frozen=True)
class _Candidate:
    """A time that may be fitted: which rows depend on it, and a first guess from these."""

    key: str
    unit: str
    scale: float  # of the profile's unit, in seconds or bytes a second
    concerns: Callable[[Row, Times], bool]
    guess: Callable[[list[Row], Times], float]


def _seconds(row: Row) -> float:
    return (row.queue_depth or 1) / row.per_second


def _is_short(row: Row, times: Times) -> bool:
    return row.operation == "read" and row.request_bytes < times.page_bytes / 2


def _is_paged(row: Row, times: Times) -> bool:
    return row.operation == "read" and not _is_short(row, times)


def _shows_the_command(row: Row, _: Times) -> bool:
    """Return whether it is one of several reads at once: their pages are read side by side."""
    return row.operation == "read" and (row.queue_depth or 1) > 1


def _shows_the_link(row: Row, _: Times) -> bool:
    """Return whether it is no small write alone: that is its command, and hardly its transfer."""
    small = (row.queue_depth or 1) == 1 and row.request_bytes <= model.FTL_PAGE_BYTES
    return row.operation == "write" and row.amplification <= 1 and not small


def _shortest(rows: list[Row], less: float) -> float:
    shortest = min(map(_seconds, rows))
    return max(shortest - less, shortest / 2)


def _fastest(rows: list[Row], _: Times) -> float:
    return 1.1 * max(row.bytes_per_second for row in rows)


def _program(rows: list[Row], times: Times) -> float:
    one = min(rows, key=lambda row: row.bytes_per_second)
    return times.channels * times.page_bytes / one.bytes_per_second / one.amplification


# The first is the last to be kept from the base.
_CANDIDATES = (
    _Candidate("page_read", "us", 1e-6, _is_paged, lambda rows, t: _shortest(rows, t.read)),
    _Candidate("short_read", "us", 1e-6, _is_short, lambda rows, t: _shortest(rows, t.read)),
    _Candidate("read_bytes_per_second", "B/s", 1.0, lambda row, _: row.operation == "read", _fastest),
    _Candidate(
        "next_page",
        "us",
        1e-6,
        lambda row, t: _is_paged(row, t) and row.request_bytes > t.page_bytes,
        lambda rows, t: 1e-6,
    ),
    _Candidate(
        "write",
        "us",
        1e-6,
        lambda row, _: row.operation == "write" and row.amplification <= 1,
        lambda rows, t: _shortest(rows, min(row.request_bytes for row in rows) / t.write_bytes_per_second),
    ),
    _Candidate(
        "program", "us", 1e-6, lambda row, _: row.operation == "write" and row.amplification > 1, _program
    ),
    _Candidate("read", "us", 1e-6, _shows_the_command, lambda rows, t: _shortest(rows, 0.0) / 4),
    _Candidate("write_bytes_per_second", "B/s", 1.0, _shows_the_link, _fastest),
)


def fit(rows: Sequence[Row], base: Profile, description: str, source: str) -> Fit:
    """Fit a profile to `rows`, with what they leave open from `base`.

    Parameters
    ----------
    rows : sequence of Row
        What was measured: watts of the rails that `base` has.
    base : Profile
        With `flash`.
    description : str
        Of the new profile.
    source : str
        What the rows are, for the profile's `sources`.

    Raises UserError: there are too few rows.
    """
    assert base.flash is not None
    if len(rows) < LEAST_ROWS:
        raise UserError(f"{source}: rows: {len(rows)}; a fit needs at least {LEAST_ROWS}")
    ordered = sorted(rows, key=lambda r: (r.operation, r.request_bytes, r.queue_depth or 0, r.amplification))
    whole = _Fitted(ordered, base, base.flash)
    held_out: dict[int, tuple[float | None, float]] = {}
    for fold in range(FOLDS):
        others = [row for n, row in enumerate(ordered) if n % FOLDS != fold]
        if others:
            part = _Fitted(others, base, base.flash)
            held_out |= {n: part.errors(ordered[n]) for n in range(fold, len(ordered), FOLDS)}
    residuals = [Residual(row, *whole.errors(row), *held_out[n]) for n, row in enumerate(ordered)]
    return Fit(whole.profile(base, description, source), whole.parameters, residuals)


class _Fitted:
    """Times and energies from some rows."""

    def __init__(self, rows: list[Row], base: Profile, flash: Flash) -> None:
        self.most_watts = {rail: max(row.watts[rail] for row in rows) for rail in base.rails}
        self.times, self.time_parameters = _fit_times(
            [row for row in rows if row.queue_depth is not None and row.operation != "idle"], flash
        )
        self.energies: dict[str, dict[str, Parameter]] = {
            rail: _fit_watts(rows, rail, base) for rail in base.rails
        }

    def errors(self, row: Row) -> tuple[float | None, float]:
        """Return the relative errors of rate and watts at a row; watts are those at its rate."""
        known = row.queue_depth is not None and row.operation != "idle"
        rate = model.bytes_per_second(self.times, row) / row.bytes_per_second - 1 if known else None
        drawn = sum(
            energy.value * term
            for energies in self.energies.values()
            for energy, term in zip(energies.values(), model.watts_terms(row), strict=True)
        )
        return rate, drawn / row.total_watts - 1

    @property
    def parameters(self) -> list[Parameter]:
        return self.time_parameters + [one for rail in self.energies.values() for one in rail.values()]

    def profile(self, base: Profile, description: str, source: str) -> Profile:
        latency: dict[str, float] = {}
        flash: dict[str, float] = {}
        for one in self.time_parameters:
            if one.fitted:
                value = rounded(one.value) if one.unit else round(one.value)
                (latency if one.unit == "us" else flash)[one.key] = value
        found = base.model_dump(exclude_none=True)
        found["flash"] |= flash
        found["flash"]["latency_us"] |= latency
        for rail, energies in self.energies.items():
            for name, one in energies.items():
                if not one.fitted:
                    continue
                if name == "gc_joules_per_byte":
                    work = found["rails"][rail]["work"].setdefault("gc", {})
                    work["joules_per_byte"] = rounded(one.value)
                else:
                    found["rails"][rail][name] = rounded(one.value)
        kept = [one.key for one in self.parameters if not one.fitted]
        sources = [f"fitted to {source}: {', '.join(one.key for one in self.parameters if one.fitted)}"]
        sources.append(
            f"left open by it and kept, with all else, from {base.model}: {', '.join(kept) or '-'}"
        )
        sources += [f"{one}: raised, for more was measured" for one in self._raise_limits(found)]
        found |= {"description": description, "sources": sources + [f"there: {one}" for one in base.sources]}
        return Profile.model_validate(found)

    def _raise_limits(self, found: dict[str, Any]) -> list[str]:
        """Let a profile draw what was measured, and a tenth more; return the keys that changed."""
        changed = []
        for rail, most in self.most_watts.items():
            least = rounded(HEADROOM * most)
            for state in found["power_states"]:
                if state["name"] == found.get("operating_state") and state["watts"][rail] < least:
                    state["watts"][rail] = least
                    changed.append(f"power_states: {state['name']}: watts: {rail}")
            one = found["rails"][rail]
            if one.get("active_watts", math.inf) < least - one["idle_watts"]:
                one["active_watts"] = rounded(least - one["idle_watts"])
                changed.append(f"rails: {rail}: active_watts")
        return changed


def rounded(value: float) -> float:
    """Return a value with the four digits that a profile gives."""
    return float(f"{value:.4g}")


def _fit_times(rows: list[Row], flash: Flash) -> tuple[Times, list[Parameter]]:
    """Return the times that fit: with the base's number of flash units, or the least that fits."""
    start = Times.from_profile(flash)
    numbers = [start.channels, *(round(start.channels * ratio) for ratio in UNITS)]
    solutions = [
        _fit_of_units(rows, replace(start, channels=number))
        for number in numbers
        if 1 <= number <= MOST_UNITS and (rows or number == start.channels)
    ]
    least = min(one.squares for one in solutions)
    good = [one for one in solutions if one.squares <= WORSE * least]
    best = solutions[0] if solutions[0] in good else min(good, key=lambda one: one.times.channels)
    units = Parameter("channels", best.times.channels, "", best is not solutions[0])
    return best.times, [units, *best.parameters]


@dataclass(frozen=True)
class _Solution:
    times: Times
    parameters: list[Parameter]
    squares: float


def _fit_of_units(rows: list[Row], start: Times) -> _Solution:
    concerned = {
        one.key: found for one in _CANDIDATES if (found := [row for row in rows if one.concerns(row, start)])
    }
    chosen = [one for one in _CANDIDATES if one.key in concerned]
    given, start = start, _possible(start, rows)
    values = uncertainty = np.zeros(0)
    squares = 0.0
    while chosen:
        guesses = np.array([one.guess(concerned[one.key], start) for one in chosen])
        values, uncertainty, squares = _solve(rows, start, chosen, guesses)
        known = [
            max(value, getattr(start, one.key) or 0.0) for value, one in zip(values, chosen, strict=True)
        ]
        # The last of those that the rows leave open: once it is kept, they may fix the others.
        unknown = [n for n, u in enumerate(uncertainty) if not u <= known[n]]
        if not unknown:
            break
        del chosen[unknown[-1]]
        values = uncertainty = np.zeros(0)
    times = _with(start, chosen, values)
    parameters = []
    for one in _CANDIDATES:
        value = getattr(times, one.key)
        if value is None:
            continue
        uncertain = float(uncertainty[chosen.index(one)]) / one.scale if one in chosen else None
        fitted = one in chosen or value != getattr(given, one.key)
        parameters.append(Parameter(one.key, value / one.scale, one.unit, fitted, uncertain))
    return _Solution(times, parameters, squares)


def _possible(start: Times, rows: list[Row]) -> Times:
    """Return times whose commands are shorter than the shortest operation."""
    least = {
        kind: min([_seconds(row) for row in rows if row.operation == kind] or [math.inf]) for kind in KINDS
    }
    return replace(
        start,
        read=start.read if start.read < 0.9 * least["read"] else least["read"] / 4,
        write=start.write if start.write < 0.9 * least["write"] else least["write"] / 4,
    )


def _with(times: Times, chosen: Sequence[_Candidate], values: Floats) -> Times:
    """Return times with those chosen; of a page no part takes longer than the whole."""
    found: dict[str, Any] = {one.key: float(value) for one, value in zip(chosen, values, strict=True)}
    new = replace(times, **found)
    if new.short_read is None or new.short_read <= new.page_read:
        return new
    if "page_read" in found:
        return replace(new, short_read=new.page_read)
    return replace(new, page_read=new.short_read)


def _solve(
    rows: list[Row], start: Times, chosen: Sequence[_Candidate], guesses: Floats
) -> tuple[Floats, Floats, float]:
    """Return the chosen times, their standard uncertainties, and the sum of squared errors.

    An uncertainty is infinite where the rows leave a time open.
    """

    loads = model.Loads.from_rows(rows, start.page_bytes)
    measured = np.log([row.bytes_per_second for row in rows])

    def errors(ratios: Floats) -> Floats:
        times = _with(start, chosen, ratios * guesses)
        return np.log(model.load_rates(times, loads)) - measured

    # A rate is the least of several terms, so a start may end elsewhere than at the best fit.
    starts = np.exp(np.random.default_rng(1).uniform(-0.5, 0.5, (STARTS, len(chosen))))
    starts[0] = 1.0
    least = np.full(len(chosen), 1e-6)
    best = min(
        (least_squares(errors, first, bounds=(least, np.inf), x_scale="jac") for first in starts),
        key=lambda one: one.cost,
    )
    squares = float(2 * best.cost)
    jacobian = np.asarray(best.jac, dtype=np.float64)
    return best.x * guesses, _uncertainty(jacobian, squares) * guesses, squares


def _uncertainty(jacobian: Floats, squares: float) -> Floats:
    """Return the standard uncertainties of a linearised fit; infinite where left open."""
    rows, columns = jacobian.shape
    norms = np.linalg.norm(jacobian, axis=0)
    seen = norms > 0
    found = np.full(columns, np.inf)
    if rows <= columns or not seen.any():
        return found
    scaled = jacobian[:, seen] / norms[seen]
    _, singular, axes = np.linalg.svd(scaled, full_matrices=False)
    # Along an axis this short the rows say nothing: what has a part in it is open.
    weak = singular < 1e-6 * singular[0]
    variance = ((axes[~weak] / singular[~weak, None]) ** 2).sum(axis=0) * squares / (rows - columns)
    open_too = (np.abs(axes[weak]) > 1e-3).any(axis=0) if weak.any() else np.zeros(len(axes[0]), dtype=bool)
    found[seen] = np.where(open_too, np.inf, np.sqrt(variance) / norms[seen])
    return found


def _fit_watts(rows: list[Row], rail: str, base: Profile) -> dict[str, Parameter]:
    """Return each of `WATTS` of a rail, by its name there."""
    given = base.rails[rail]
    gc = given.work.get("gc")
    kept = {name: getattr(given, name) for name in model.WATTS[:-1]}
    kept["gc_joules_per_byte"] = gc.joules_per_byte if gc else 0.0
    watts = np.array([max(row.watts[rail], 1e-6) for row in rows])
    terms = np.array([model.watts_terms(row) for row in rows]) / watts[:, None]
    chosen = [n for n in range(len(model.WATTS)) if terms[:, n].any()]
    while True:
        rest = 1 - sum(
            (terms[:, n] * kept[name] for n, name in enumerate(model.WATTS) if n not in chosen),
            start=np.zeros(len(rows)),
        )
        used = terms[:, chosen]
        norms = np.linalg.norm(used, axis=0)
        solved = lsq_linear(used / norms, rest, bounds=(0, np.inf))
        uncertainty = _uncertainty(used, 2 * solved.cost)
        # The solver stays a little inside of its bound.
        values = np.where(solved.x / norms < NOTHING * uncertainty, 0.0, solved.x / norms)
        unknown = [
            n for n, u in enumerate(uncertainty) if not u <= max(values[n], kept[model.WATTS[chosen[n]]])
        ]
        if not unknown or len(chosen) == 1:
            break
        del chosen[unknown[-1]]
    units = dict(zip(model.WATTS, ("W", "J/B", "J/B", "J", "J/B"), strict=True))
    return {
        name: Parameter(
            f"{rail}.{name}",
            float(values[chosen.index(n)]) if n in chosen else kept[name],
            units[name],
            n in chosen,
            float(uncertainty[chosen.index(n)]) if n in chosen else None,
        )
        for n, name in enumerate(model.WATTS)
    }
