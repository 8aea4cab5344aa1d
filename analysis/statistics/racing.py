# SPDX-License-Identifier: GPL-3.0-or-later
"""A race of cells: after each whole block, those go that are certainly behind the leader.

`replay` works out a race from its runs alone, every look from the first: the same runs give the
same drops, whatever was interrupted between them (docs/decisions/032-racing.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.statistics import letters
from joulerig.analysis.statistics.differences import (
    FEWEST_BLOCKS,
    Difference,
    Fit,
    SystematicByCell,
    Systematics,
)
from joulerig.analysis.statistics.ranking import ALPHA, Pair, Ranking

RACE = "race, t of shrunk variances"

RaceRuns = Mapping[str, Sequence[tuple[int, float | None]]]
"""By cell: (block from 1, value) of each run that has ended; None where it has no value.

A cell whose runs have not begun has an empty sequence.
"""
MetAlike = Callable[[Sequence[str], int], bool]
"""Says whether the runs of cells, in blocks up to a look, met the same modes, all of them known."""


@dataclass(frozen=True)
class Design:
    """The rules of a race, fixed before its first run.

    `looks`: after how many whole blocks cells may go, ascending. `spending`: the share of alpha of
    each look. `margin`: the race ends where all that are left are within this fraction of the
    leader; None where only a winner ends it. At looks up to `early_look`, a cell goes only if it is
    more than the fraction `early_behind` behind, and not if it is the runner-up: with two runs a
    cell its spread is hardly known. `least_runs`: with fewer values of the leader or of the
    runner-up this one stays, and cells with fewer are not called equal, unless they are known to
    have met the same modes (analysis.runs.modes). 0 in races of earlier versions.
    """

    blocks: int
    looks: tuple[int, ...]
    spending: tuple[float, ...]
    margin: float | None = None
    early_look: int = 2
    early_behind: float = 0.15
    least_runs: int = 0

    def __post_init__(self) -> None:
        if not self.looks or list(self.looks) != sorted(set(self.looks)):
            raise ValueError(f"looks: {list(self.looks)}: at least one is needed, in ascending order")
        if self.looks[0] < FEWEST_BLOCKS or self.looks[-1] > self.blocks:
            raise ValueError(
                f"looks: {list(self.looks)}: allowed are blocks {FEWEST_BLOCKS} to {self.blocks}"
            )
        if len(self.spending) != len(self.looks) or not all(spent > 0 for spent in self.spending):
            raise ValueError(f"spending: {list(self.spending)}: one value above 0 is needed for each look")
        if not self.alpha < 1:
            raise ValueError(f"spending: {self.alpha:g} in all: less than 1 is allowed")
        if self.margin is not None and not 0 < self.margin < 1:
            raise ValueError(f"margin: {self.margin:g}: a fraction between 0 and 1 is allowed")

    @classmethod
    def even(cls, blocks: int, alpha: float = ALPHA, margin: float | None = None) -> Design:
        """Spend `alpha` evenly over looks after each block from the second on.

        A campaign of several races shares its alpha among them (`ranking.sidak_level`).
        """
        if blocks < FEWEST_BLOCKS:
            raise ValueError(f"blocks: {blocks}: a race needs at least {FEWEST_BLOCKS}")
        looks = tuple(range(FEWEST_BLOCKS, blocks + 1))
        return cls(blocks, looks, (alpha / len(looks),) * len(looks), margin)

    @property
    def alpha(self) -> float:
        return math.fsum(self.spending)

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "looks": list(self.looks), "spending": list(self.spending)}

    @classmethod
    def from_json(cls, found: Mapping[str, object]) -> Design:
        names = {field.name for field in fields(cls)}
        found = {"least_runs": 0, **found}
        if found.keys() != names:
            wrong = ", ".join(sorted(found.keys() ^ names))
            raise ValueError(f"design of a race: unknown or missing: {wrong}")
        values: dict[str, Any] = dict(found)
        return cls(**{**values, "looks": tuple(values["looks"]), "spending": tuple(values["spending"])})


class Outcome(StrEnum):
    GOES_ON = "goes on"
    WINNER = "winner"
    EQUAL = "equal"
    COULD_NOT_TELL = "could not tell"


@dataclass(frozen=True)
class Dropped:
    """A cell that is out since `look`: `behind` the leader of that look, from `low` to `high`.

    As fractions of the leader.
    """

    look: int
    cell: str
    leader: str
    behind: float
    low: float
    high: float

    @property
    def reason(self) -> str:
        """Describe the drop: "raced out at look 3, 22.1 % behind ext4-bfq [14.8, 28.5]"."""
        return (
            f"raced out at look {self.look}, {100 * self.behind:.1f} % behind {self.leader}"
            f" [{100 * self.low:.1f}, {100 * self.high:.1f}]"
        )


@dataclass(frozen=True)
class Look:
    """What was decided after block `look`.

    `leader`: the best cell that was tested, None where none could be. `dropped`: farthest behind
    first. `kept`: the cells still in the race, by name; `untested`: those of them with fewer than
    two values, or with one that is not positive. `alpha_spent`: by this look and all before.
    """

    look: int
    leader: str | None
    dropped: tuple[Dropped, ...]
    kept: tuple[str, ...]
    untested: tuple[str, ...]
    alpha_spent: float


@dataclass(frozen=True)
class Race:
    """A race as far as its runs go: its looks, and the cells still in it, by name."""

    design: Design
    looks: tuple[Look, ...]
    kept: tuple[str, ...]
    outcome: Outcome

    @property
    def dropped(self) -> dict[str, Dropped]:
        return {dropped.cell: dropped for look in self.looks for dropped in look.dropped}

    @property
    def untested(self) -> tuple[str, ...]:
        return self.looks[-1].untested if self.looks else self.kept

    @property
    def alpha_spent(self) -> float:
        return self.looks[-1].alpha_spent if self.looks else 0.0

    @property
    def winner(self) -> str | None:
        return self.kept[0] if self.outcome is Outcome.WINNER else None

    @property
    def verdict(self) -> str:
        """Return the outcome in words."""
        names = ", ".join(self.kept)
        match self.outcome:
            case Outcome.WINNER:
                return f"{names} does the most: all others were raced out"
            case Outcome.EQUAL:
                return f"equal within {100 * (self.design.margin or 0):g} %: {names}"
            case Outcome.COULD_NOT_TELL:
                untested = f"; not tested: {', '.join(self.untested)}" if self.untested else ""
                return f"could not tell which does the most: {names}{untested}"
        return f"goes on with {len(self.kept)} after look {self.looks[-1].look if self.looks else 0}"


def replay(
    runs: RaceRuns,
    design: Design,
    systematic: SystematicByCell | None = None,
    met_alike: MetAlike | None = None,
) -> Race:
    """Run a race over the whole blocks present, from its first look on.

    A block is whole for a look where the run of every cell still in the race has ended, with a
    value or without. Runs of a cell in blocks after its drop are not used, nor are blocks that are
    not whole.

    Parameters
    ----------
    runs : mapping of cell to sequence of (block, value)
        All cells of the race, in any order; at most one run for each cell and block. Values in any
        unit, more is better.
    design : Design
    systematic : mapping of cell to SystematicRuns, or None
        What is wrong with the values in all runs alike; a look has that of the runs it sees.
    met_alike : callable, or None
        None where no modes are known.

    Raises
    ------
    ValueError
        For two runs of a cell in one block, a block that the design does not have, and a value that
        is not finite.

    Notes
    -----
    At each look log(value) = cell + block is fitted by least squares. A cell goes where its
    interval of the difference from the leader excludes 0: Student's t, two-sided at the look's
    share of alpha over the number of comparisons with one cell (Bonferroni over looks and cells).
    The best cell is therefore dropped with a probability of at most alpha / 2, as far as Student's
    t holds. Each cell has its own variance, shrunk but never below its own (`shrinkage`), with
    degrees of freedom by Satterthwaite.
    """
    table = _Table.from_runs(runs, design, systematic or {})
    race: list[Look] = []
    outcome = Outcome.GOES_ON
    out_after: dict[str, int] = {}
    for look, alpha in zip(design.looks, design.spending, strict=True):
        kept = [cell for cell in table.cells if cell not in out_after]
        if not table.is_whole(kept, look):
            break
        fit = table.fit(look, out_after)
        tested = [cell for cell in kept if cell in fit.tested]
        leader, behind = fit.compare_with_leader(tested, alpha / max(1, len(table.cells) - 1))
        may_end = partial(_may_end, table, design, look, met_alike)
        dropped = [
            Dropped(look, cell, str(leader), difference.behind, difference.low, difference.high)
            for place, (cell, difference) in enumerate(behind.items())
            if _goes(difference, design, early=look <= design.early_look, runner_up=place == 0)
            and (place or may_end([str(leader), cell]))
        ]
        out_after |= {one.cell: look for one in dropped}
        kept = [cell for cell in kept if cell not in out_after]
        untested = tuple(cell for cell in kept if cell not in tested)
        spent = math.fsum(design.spending[: len(race) + 1])
        race.append(Look(look, leader, tuple(reversed(dropped)), tuple(kept), untested, spent))
        if len(kept) == 1 < len(table.cells):  # a leader is tested, so nothing untested is left
            outcome = Outcome.WINNER
        elif design.margin and not untested and fit.all_within(design.margin, kept, alpha) and may_end(kept):
            outcome = Outcome.EQUAL
        elif look == design.looks[-1]:
            outcome = Outcome.COULD_NOT_TELL
        if outcome is not Outcome.GOES_ON:
            break
    return Race(design, tuple(race), race[-1].kept if race else table.cells, outcome)


def _goes(difference: Difference, design: Design, early: bool, runner_up: bool) -> bool:
    if early and (runner_up or difference.behind <= design.early_behind):
        return False
    return difference.low > 0


def _may_end(
    table: _Table, design: Design, look: int, met_alike: MetAlike | None, cells: Sequence[str]
) -> bool:
    """Return whether cells have runs enough for a race to end, or met the same modes."""
    if all(table.count(cell, look) >= design.least_runs for cell in cells):
        return True
    return met_alike is not None and met_alike(cells, look)


@dataclass(frozen=True)
class RaceRanking(Ranking):
    """The ranking of a race: who is out was decided by its looks, and stays so.

    `order`: the cells still in the race, then those raced out, then those not tested; each by its
    mean with the blocks taken out. A mean of raw values would favour the cells of the best blocks.
    """

    race: Race

    @property
    def winner(self) -> str | None:
        return None if self.withheld else self.race.winner

    @property
    def finalists(self) -> list[str]:
        """Return the leader, and the nearest of the cells that went last or are still there."""
        if self.race.winner and (dropped := self.race.looks[-1].dropped):
            return [self.race.winner, dropped[-1].cell]
        return super().finalists


@dataclass(frozen=True)
class _RacedPair(Pair):
    """A pair with the bounds of the last look; `raced_out`: an earlier look separated it."""

    raced_out: bool = False

    @property
    def separated(self) -> bool:
        return self.raced_out or super().separated


def rank(
    runs: RaceRuns,
    design: Design,
    systematic: SystematicByCell | None = None,
    met_alike: MetAlike | None = None,
) -> RaceRanking:
    """Rank the cells of a race by the bounds of its last look, in place of `ranking.rank`.

    Comparisons with the first cell have the race's own level. The others, which no look made, have
    the look's share of alpha over all pairs. A pair that the race has separated stays separated,
    directly or by a chain of drops. No test of a fixed number of runs is used: which cells have few
    runs depends on their values.
    """
    race = replay(runs, design, systematic, met_alike)
    if not race.looks:
        order = tuple(runs)
        untested = tuple(Pair(*names) for names in combinations(order, 2))
        why = f"fewer than {design.looks[0]} whole blocks"
        return RaceRanking(order, letters.display(order, []), untested, "", why, (), race)
    table, last = _Table.from_runs(runs, design, systematic or {}), race.looks[-1]
    out_after = {cell: one.look for cell, one in race.dropped.items()}
    fit = table.fit(last.look, out_after)
    order = (
        *fit.sort(cell for cell in race.kept if cell in fit.tested),
        *fit.sort(race.dropped),
        *(cell for cell in race.kept if cell not in fit.tested),
    )
    alpha = design.spending[len(race.looks) - 1]
    beaten_by = {cell: _chain(cell, race.dropped) for cell in order}
    pairs: list[_RacedPair] = []
    for place, one in enumerate(order):
        count = math.comb(len(order), 2) if place else len(order) - 1
        found = fit.compare(one, alpha / max(1, count))
        pairs += [_raced_pair(one, other, found, beaten_by) for other in order[place + 1 :]]
    separated = [(pair.first, pair.second) for pair in pairs if pair.separated]
    why = "" if any(pair.reach is not None for pair in pairs) else fit.why
    shown = letters.display(order, separated)
    with_best = () if why else tuple(pair for pair in pairs if pair.first == order[0])
    return RaceRanking(order, shown, tuple(pairs), "" if why else RACE, why, with_best, race)


def _raced_pair(
    one: str, other: str, found: Mapping[str, Difference], beaten_by: Mapping[str, set[str]]
) -> _RacedPair:
    if other not in found:
        return _RacedPair(one, other)
    raced_out = one in beaten_by[other] or other in beaten_by[one]
    difference = found[other]
    return _RacedPair(
        one,
        other,
        difference.logarithm,
        difference.half_width,
        systematic=difference.systematic,
        raced_out=raced_out,
    )


def _chain(cell: str, dropped: Mapping[str, Dropped]) -> set[str]:
    """Return the leaders that raced a cell out: its own, the one that raced this out, and so on."""
    found: set[str] = set()
    while cell in dropped:
        cell = dropped[cell].leader
        found.add(cell)
    return found


@dataclass(frozen=True)
class _Table:
    """Runs as arrays of cells, by name, and blocks: logarithms (NaN: no value), and which ended."""

    cells: tuple[str, ...]
    logs: NDArray[np.float64]
    ended: NDArray[np.bool_]
    systematics: Systematics

    @classmethod
    def from_runs(cls, runs: RaceRuns, design: Design, systematic: SystematicByCell) -> _Table:
        cells = tuple(sorted(runs))
        logs = np.full((len(cells), design.blocks), math.nan)
        ended = np.zeros(logs.shape, dtype=bool)
        for row, cell in enumerate(cells):
            for block, value in runs[cell]:
                if not 1 <= block <= design.blocks:
                    raise ValueError(f"{cell}: block {block}: allowed are 1 to {design.blocks}")
                if ended[row, block - 1]:
                    raise ValueError(f"{cell}: two runs in block {block}: one is allowed")
                ended[row, block - 1] = True
                if value is not None and not math.isfinite(value):
                    raise ValueError(f"{cell}: block {block}: {value}: a finite value or None is allowed")
                if value is not None:
                    logs[row, block - 1] = math.log(value) if value > 0 else -math.inf
        return cls(cells, logs, ended, Systematics.from_runs(cells, range(1, design.blocks + 1), systematic))

    def is_whole(self, kept: Iterable[str], look: int) -> bool:
        rows = [self.cells.index(cell) for cell in kept]
        return bool(self.ended[rows, :look].all())

    def count(self, cell: str, look: int) -> int:
        """Return how many values a cell has up to a look."""
        return int(np.count_nonzero(~np.isnan(self.logs[self.cells.index(cell), :look])))

    def fit(self, look: int, out_after: Mapping[str, int]) -> Fit:
        """Fit what a look sees: the logarithms of a dropped cell end with its last look."""
        logs = self.logs[:, :look].copy()
        for cell, last in out_after.items():
            logs[self.cells.index(cell), last:] = math.nan
        return Fit.from_logs(self.cells, logs, systematics=self.systematics.up_to(look))
