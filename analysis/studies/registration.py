# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a study's campaign fixed before it ran, and which named cells it did not run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from joulerig.analysis.results.campaign import Run
from joulerig.analysis.results.schema import Status

Levels = Mapping[str, str]


@dataclass(frozen=True)
class RegisteredClaim:
    """A claim's registration.

    `least`: the smallest ratio that "above 1" can have meant. `cells`: the levels of each factor
    whose combinations are the cells that it names.
    """

    least: float = 1.0
    cells: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Registration:
    """The terms that a playbook fixes before a campaign (keys `registered`, `replicates`).

    `ladder`: factors of slow motion, ascending. `hours`: what all attempts of the short form may
    take. `greatest_width`: upper over lower limit of an interval that decides. `blocks`: of an
    attempt.
    """

    ladder: tuple[float, ...]
    hours: float
    greatest_width: float
    blocks: int
    claims: Mapping[str, RegisteredClaim]

    @classmethod
    def read(cls, definition: Mapping[str, Any]) -> Registration | None:
        """Return the registration in a campaign's definition; None where there is no whole one."""
        try:
            found = definition["registered"]
            return cls(
                tuple(sorted(float(k) for k in found["ladder"])),
                float(found["hours"]),
                float(found["greatest_width"]),
                int(definition["replicates"]),
                {str(key): _read_claim(one) for key, one in found["claims"].items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            return None

    def claim(self, key: str) -> RegisteredClaim:
        """Return a claim's registration; one that asks for nothing where it has none."""
        return self.claims.get(key, RegisteredClaim())


def _read_claim(found: Mapping[str, Any]) -> RegisteredClaim:
    cells = {
        str(factor): tuple(map(str, [levels] if isinstance(levels, str) else levels))
        for factor, levels in found["cells"].items()
    }
    return RegisteredClaim(float(found.get("least") or 1.0), cells)


def cells_not_run(cells: Mapping[str, Sequence[str]], levels: Levels, runs: Iterable[Run]) -> str:
    """Return which of the cells that a claim names have no run that is ok; empty where all have.

    Parameters
    ----------
    cells : mapping
        As of `RegisteredClaim`.
    levels : mapping
        What the claim is judged for here, by factor: of a factor among these, the cells are those
        with its level, and runs with other levels are not looked at.
    runs : iterable of Run

    Returns
    -------
    str
        Such as "xfs, reiserfs did not run". A level that ran in none of the cells is named alone.
    """
    wanted = {factor: [levels[factor]] if factor in levels else list(mine) for factor, mine in cells.items()}
    looked_at = [*wanted, *(factor for factor in levels if factor not in wanted)]
    there = {
        tuple(_level(run, factor) for factor in wanted)
        for run in runs
        if run.status == Status.OK
        and all(_level(run, factor) == levels[factor] for factor in looked_at if factor in levels)
    }
    cells_wanted = list(itertools.product(*wanted.values()))
    missing = [cell for cell in cells_wanted if cell not in there]
    if not missing:
        return ""
    if len(missing) == len(cells_wanted):
        named = (
            [" with ".join(cell) for cell in missing[:1]] if len(missing) == 1 else _shared(wanted, levels)
        )
        return f"{', '.join(named)} did not run"
    named = []
    for place, factor in enumerate(wanted):
        for level in wanted[factor]:
            having = [cell for cell in cells_wanted if cell[place] == level]
            if len(having) < len(cells_wanted) and all(cell not in there for cell in having):
                named.append(level)
                missing = [cell for cell in missing if cell[place] != level]
    return f"{', '.join([*named, *(' with '.join(cell) for cell in missing)])} did not run"


def _shared(wanted: Mapping[str, Sequence[str]], levels: Levels) -> list[str]:
    """Return the levels that vary over cells none of which ran; all, where none varies."""
    varied = [level for mine in wanted.values() if len(mine) > 1 for level in mine]
    return varied or [level for mine in wanted.values() for level in mine]


def _level(run: Run, factor: str) -> str:
    """Return a run's level of a factor, the drive among them; empty where it has none."""
    if factor in ("drive", "filesystem", "scheduler", "workload"):
        return str(getattr(run, factor))
    return str(run.factors.get(factor, ""))
