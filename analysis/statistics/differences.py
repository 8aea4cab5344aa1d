# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences between cells in blocks: log(value) = cell + block, each cell with its own variance.

Races and rankings both compare cells by these functions. What no replicate averages out, and two
cells do not have in common, is added to the half-width of their difference as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from joulerig.analysis.statistics import LOG_ROUNDING, shrinkage

FEWEST_BLOCKS = 2
CAUTION = 1.0  # standard errors, of `shrinkage.fit_prior`
FEW_RUNS, FEW_CELLS = 5, 6  # with fewer, a cell's own variance is a floor even so
CERTAINTY = 0.9  # of the campaigns show a difference that is called detectable
STRONGEST_CORRELATION = math.sqrt(0.5)  # of two comparisons with one cell, where all vary alike
_GREATEST_BOUND, _BOUND_ROUNDING = 8.0, 1e-12  # standard normal deviates
_DETECTABLE_ROUNDING, _DETECTABLE_NODES = 1e-6, 64
_NORMAL_NODES = np.linspace(-6.0, 6.0, 49)
_NORMAL_WEIGHTS = np.exp(-(_NORMAL_NODES**2) / 2) / np.exp(-(_NORMAL_NODES**2) / 2).sum()


@dataclass(frozen=True)
class Systematic:
    """What can be wrong with a value and does not vary from run to run, as fractions of the value.

    `own`: the limit of what is this value's alone. `common`: by its source, with its sign, the
    limit of what values that have the source too err by in proportion; of two values it is the
    difference that counts.
    """

    own: float = 0.0
    common: Mapping[Hashable, float] = field(default_factory=dict)


def limit_of_difference(one: Systematic, other: Systematic) -> float:
    """Return the limit of what is wrong with the difference of two logarithms, or infinity."""
    if max(one.own, other.own) >= 1:
        return math.inf
    keys = {*one.common, *other.common}
    shared = math.fsum(abs(one.common.get(key, 0.0) - other.common.get(key, 0.0)) for key in keys)
    return shared - math.log1p(-one.own) - math.log1p(-other.own)


def mean_systematic(found: Sequence[Systematic]) -> Systematic:
    """Return what is wrong with the mean of values."""
    sources = dict.fromkeys(source for one in found for source in one.common)
    return Systematic(
        math.fsum(one.own for one in found) / len(found),
        {source: math.fsum(one.common.get(source, 0.0) for one in found) / len(found) for source in sources},
    )


@dataclass(frozen=True, eq=False)
class SystematicRuns:
    """What is wrong with the values of a cell's runs: `Systematic` with an entry a run.

    `blocks`: of the runs. `own` (runs,), and `common` (runs,) by source, 0 where a run has it not.
    """

    blocks: Sequence[int]
    own: NDArray[np.float64]
    common: Mapping[Hashable, NDArray[np.float64]]

    @classmethod
    def from_pairs(cls, runs: Sequence[tuple[int, Systematic]]) -> Self:
        """Arrange what is wrong with each run, next to its block."""
        found = [one for _, one in runs]
        sources = dict.fromkeys(source for one in found for source in one.common)
        return cls(
            [block for block, _ in runs],
            np.array([one.own for one in found], dtype=float),
            {source: np.array([one.common.get(source, 0.0) for one in found]) for source in sources},
        )

    @property
    def mean(self) -> Systematic:
        """Return what is wrong with the mean of the values, of at least one run."""
        count = len(self.blocks)
        return Systematic(
            math.fsum(self.own.tolist()) / count,
            {source: math.fsum(parts.tolist()) / count for source, parts in self.common.items()},
        )


SystematicByCell = Mapping[str, SystematicRuns]


@dataclass(frozen=True)
class Systematics:
    """Those of runs as arrays: `own` (cells, blocks), `common` (cells, blocks, sources)."""

    own: NDArray[np.float64]
    common: NDArray[np.float64]

    @classmethod
    def from_runs(cls, cells: Sequence[str], blocks: Sequence[int], runs: SystematicByCell) -> Systematics:
        """Arrange the runs of `cells` by `blocks`; runs of one cell and block as their mean."""
        positions = {block: column for column, block in enumerate(blocks)}
        found = [
            (row, [positions[block] for block in runs[cell].blocks], runs[cell])
            for row, cell in enumerate(cells)
            if cell in runs
        ]
        rows = np.array([row for row, columns, _ in found for _ in columns], dtype=np.intp)
        every = np.array([column for _, columns, _ in found for column in columns], dtype=np.intp)
        places: dict[Hashable, int] = {}
        for *_, one in found:
            for source in one.common:
                places.setdefault(source, len(places))
        common = np.zeros((len(cells), len(blocks), len(places)))
        own, counts = np.zeros((2, len(cells), len(blocks)))
        np.add.at(counts, (rows, every), 1.0)
        np.add.at(own, (rows, every), np.concatenate([np.empty(0), *(one.own for *_, one in found)]))
        for row, columns, one in found:
            for source, parts in one.common.items():
                np.add.at(common[row, :, places[source]], columns, parts)
        counts = np.maximum(counts, 1.0)
        return cls(own / counts, common / counts[:, :, None])

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Systematics:
        return cls(np.zeros(shape), np.zeros((*shape, 0)))

    def up_to(self, block: int) -> Systematics:
        """Return those of the first blocks alone."""
        return Systematics(self.own[:, :block], self.common[:, :block])

    def of_cells(self, present: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the limits of each cell's mean logarithm over the runs that are present.

        Own ones (cells,), infinite where they reach the value itself, and common ones
        (cells, sources).
        """
        counts = np.maximum(present.sum(axis=1), 1)
        own = np.where(present, self.own, 0.0).sum(axis=1) / counts
        with np.errstate(divide="ignore"):
            limits = -np.log1p(-np.minimum(own, 1.0))
        return limits, np.where(present[:, :, None], self.common, 0.0).sum(axis=1) / counts[:, None]


class Difference(NamedTuple):
    """The difference of two cells' logarithms, within +- `half_width`.

    `p`: two-sided, that it is 0, of this comparison alone. `systematic`: what of the half-width
    no replicate averages out. `error`: the standard error, with `degrees` of freedom.
    """

    logarithm: float
    half_width: float
    p: float
    systematic: float = 0.0
    error: float = math.nan
    degrees: float = math.nan

    @property
    def behind(self) -> float:
        """Return how far the second cell is behind the first, as a fraction of the first."""
        return -math.expm1(-self.logarithm)

    @property
    def low(self) -> float:
        return -math.expm1(self.half_width - self.logarithm)

    @property
    def high(self) -> float:
        return -math.expm1(-self.half_width - self.logarithm)


@dataclass(frozen=True, eq=False)
class Layout:
    """What a fit has by which runs have a value alone, whatever the values are.

    With N, n, P and S as in `Fit`: `present`: N. `shares`: P. `moved`: S^+ (e_block - P_cell) of
    each run, 0 where it has no value. `projector`: S S^+, on the differences of blocks that runs
    connect. `degrees`: of freedom of each cell's variance.
    """

    present: NDArray[np.bool_]
    shares: NDArray[np.float64]
    moved: NDArray[np.float64]
    projector: NDArray[np.float64]
    degrees: NDArray[np.float64]

    @classmethod
    def from_present(cls, present: NDArray[np.bool_]) -> Self:
        counts = present.sum(axis=1)
        shares = present / counts[:, None]
        within = np.where(present[:, :, None], np.eye(present.shape[1]) - shares[:, None, :], 0.0)
        information = np.einsum("ija,ijb->ab", within, within)
        inverse = np.linalg.pinv(information, hermitian=True, rcond=1e-10)
        moved = within @ inverse
        leverages = np.where(present, 1 / counts[:, None] + np.einsum("ija,ija->ij", moved, within), 1.0)
        degrees = (1 - leverages).sum(axis=1)
        degrees = np.where((counts >= FEWEST_BLOCKS) & (degrees > 1e-9), degrees, 0.0)
        return cls(present, shares, moved, information @ inverse, degrees)


@dataclass(frozen=True)
class Fit:
    """log(value) = cell + block by least squares, and each cell's variance.

    With N the cells x blocks matrix of which runs have a value, n its row sums and P = N / n, the
    blocks' effects solve S b = sum over runs of (e_block - P_cell) log(value), S = sum over runs of
    (e_block - P_cell)(e_block - P_cell)'. That is ordinary least squares with the cells eliminated;
    S has one row a block, so a look takes little time however many cells there are.

    `positions`: the row of each cell that takes part. `cautious`: doubt that the cells vary alike
    as far as the runs leave it open (`CAUTION`), as is due where nothing else guards a claim from
    few runs. Where the runs or the cells are few, no variance is below the cell's own then, and the
    degrees of freedom of a difference are halfway between Satterthwaite's and those of the less
    known cell. Without it, no variance is below the cell's own. `own`, `common`:
    `Systematics.of_cells`.
    """

    positions: Mapping[str, int]
    layout: Layout
    levels: NDArray[np.float64]
    variances: NDArray[np.float64]
    cautious: bool
    own: NDArray[np.float64]
    common: NDArray[np.float64]

    @classmethod
    def from_logs(
        cls,
        cells: Sequence[str],
        logs: NDArray[np.float64],
        cautious: bool = False,
        systematics: Systematics | None = None,
    ) -> Fit:
        """Fit an array of logarithms, (cells, blocks); NaN where there is no value.

        A cell with a value of minus infinity, or with none, takes no part.
        """
        systematics = Systematics.none(logs.shape) if systematics is None else systematics
        own, common = systematics.of_cells(~np.isnan(logs))
        used = ~np.isnan(logs).all(axis=1) & ~np.isneginf(logs).any(axis=1)
        positions = {cells[row]: place for place, row in enumerate(np.flatnonzero(used).tolist())}
        logs = logs[used]
        present = ~np.isnan(logs)
        values = np.where(present, logs, 0.0)
        layout = _layout(present.tobytes(), *present.shape)
        blocks = np.einsum("ija,ij->a", layout.moved, values)
        levels = values.sum(axis=1) / present.sum(axis=1) - layout.shares @ blocks
        residuals = np.where(present, values - levels[:, None] - blocks, 0.0)
        squares = (residuals**2).sum(axis=1)
        degrees = layout.degrees
        variances = np.divide(squares, degrees, out=np.zeros_like(squares), where=degrees > 0)
        return cls(positions, layout, levels, variances, cautious, own[used], common[used])

    @cached_property
    def tested(self) -> set[str]:
        """Return the cells with enough runs for a test, and a limit of what is wrong in all."""
        enough = (self.layout.degrees > 0) & np.isfinite(self.own)
        return {cell for cell, place in self.positions.items() if enough[place]}

    @cached_property
    def why(self) -> str:
        """Say why nothing can be tested; empty where something can."""
        if len(self.tested) < 2:
            if np.count_nonzero(self.layout.degrees > 0) >= 2:
                return "what the meters did not measure may be as much as what they did"
            return "fewer than two cells have two runs with a value in common blocks"
        if math.sqrt(float(np.median(self.variances[self.layout.degrees > 0]))) <= LOG_ROUNDING:
            return "the runs of each cell are all alike: there is no spread to test by"
        return ""

    @cached_property
    def few(self) -> NDArray[np.bool_]:
        """Return which cells' variances the runs hardly show, of a cautious fit."""
        runs = self.layout.present.sum(axis=1)
        found: NDArray[np.bool_] = (runs < FEW_RUNS) | (len(self.tested) < FEW_CELLS)
        return found & self.cautious

    @cached_property
    def shrunk(self) -> shrinkage.Shrunk:
        if not self.cautious:
            return shrinkage.shrink(self.variances, self.layout.degrees)
        return shrinkage.shrink(self.variances, self.layout.degrees, CAUTION, self.few)

    def sort(self, cells: Iterable[str]) -> list[str]:
        """Sort cells by their means with the blocks taken out, greatest first."""
        return sorted(cells, key=lambda cell: (-self.levels[self.positions[cell]], cell))

    def compare_with_leader(
        self, cells: Sequence[str], level: float
    ) -> tuple[str | None, dict[str, Difference]]:
        """Return the greatest of `cells`, and the difference of each other, nearest first.

        Without a test, (None, {}).
        """
        if self.why or len(cells) < 2:
            return None, {}
        leader, *others = self.sort(cells)
        found = self.compare(leader, level)
        return leader, {cell: found[cell] for cell in others if cell in found}

    def compare_with_best(self, alpha: float) -> tuple[str | None, dict[str, Difference]]:
        """Return the greatest cell, and the difference of each other from it, all at once.

        A cell whose interval is wholly behind is not the best one, and where all are, the greatest
        is: both with an error of at most `alpha`. Without a test, (None, {}).

        Notes
        -----
        Multiple comparisons with the best: J. C. Hsu, Constrained simultaneous confidence intervals
        for multiple comparisons with the best, Annals of Statistics 12(3), 1984, 1136-1144.
        """
        if len(self.tested) < 2:
            return None, {}
        leader, *others = self.sort(self.tested)
        level = level_with_best(self._correlations(leader, others), alpha)
        return self.compare_with_leader([leader, *others], level)

    def _correlations(self, leader: str, others: Sequence[str]) -> NDArray[np.float64]:
        """Return the root of the leader's share in the variance of each difference from it.

        It is taken as no greater than where all vary alike: the variance of a leader that varies
        more is known least.
        """
        variances = self.shrunk.variances / self.layout.present.sum(axis=1)
        own = variances[self.positions[leader]]
        each = variances[[self.positions[cell] for cell in others]]
        with np.errstate(invalid="ignore"):
            shares = np.where(own + each > 0, own / (own + each), 0.0)
        found: NDArray[np.float64] = np.minimum(np.sqrt(shares), STRONGEST_CORRELATION)
        return found

    def all_within(self, margin: float, cells: Sequence[str], level: float) -> bool:
        """Whether each of `cells` is less than the fraction `margin` behind the greatest.

        By one-sided bounds at `level` each. All of them must hold, so no correction for their
        number is due (R. L. Berger, Multiparameter hypothesis testing and acceptance sampling,
        Technometrics 24(4), 1982, 295-300).
        """
        _, behind = self.compare_with_leader(cells, 2 * level)
        compared = 0 < len(behind) == len(cells) - 1
        return compared and all(difference.high <= margin for difference in behind.values())

    def compare(self, one: str, level: float) -> dict[str, Difference]:
        """Return the difference one - other by other cell, at a two-sided level.

        Cells that cannot be tested against `one`, or that no blocks connect with it, are left out.
        """
        tested = self.tested
        if self.why or one not in tested:
            return {}
        found = (values.tolist() for values in self._differences(self.positions[one], level))
        differences = [Difference(*values) for values in zip(*found, strict=True)]
        return {
            cell: differences[place]
            for cell, place in self.positions.items()
            if cell in tested and not math.isnan(differences[place].half_width)
        }

    def contrasts(
        self, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return sums of the cells' levels, their variances, and the degrees of freedom of these.

        `weights` (sums, cells), by position. The variance of a sum that no blocks connect is of
        what the blocks are taken to be there, each group of connected ones with a mean of 0.
        """
        shrunk = self.shrunk
        apart = weights @ self.layout.shares
        moves = apart.any(axis=1)  # of cells with runs in the same blocks the blocks cancel
        # weight of each run (cell, block) in each sum
        each = weights[:, :, None] * self.layout.shares
        if moves.any():
            each[moves] -= np.einsum("da,cba->dcb", apart[moves], self.layout.moved)
        parts = (each**2).sum(axis=2) * shrunk.variances
        variances = parts.sum(axis=1)
        terms = np.divide(parts**2, shrunk.degrees, out=np.zeros_like(parts), where=parts > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            degrees = np.minimum(variances**2 / terms.sum(axis=1), shrunk.pooled_degrees)
        taking_part = weights != 0
        least = np.where(taking_part, shrunk.degrees, math.inf).min(axis=1)
        few = (taking_part & self.few).any(axis=1)
        degrees = np.where(few, (degrees + np.minimum(degrees, least)) / 2, degrees)
        return weights @ self.levels, variances, degrees

    def _differences(self, one: int, level: float) -> tuple[NDArray[np.float64], ...]:
        """Return levels[one] - levels and, of each, what a `Difference` has, in its order.

        Half-widths are NaN where no blocks connect the cells. Limits add up: whatever is wrong
        within them, an interval then covers as often as without it. (A quadratic sum at the same
        quantile covers less: one error within its limits moves all comparisons of a campaign.)
        """
        systematic = self.own[one] + self.own + np.abs(self.common[one] - self.common).sum(axis=1)
        weights = -np.eye(len(self.levels))
        weights[:, one] += 1
        _, variances, degrees = self.contrasts(weights)
        differences = self.levels[one] - self.levels
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.sqrt(variances)
            half_widths = -special.stdtrit(degrees, level / 2) * errors + systematic
            beyond = np.maximum(np.abs(differences) - systematic, 0.0)
            p_values = 2 * special.stdtr(degrees, -beyond / errors)
        half_widths[one] = math.nan
        apart = self.layout.shares[one] - self.layout.shares
        moves = apart.any(axis=1)
        if moves.any():
            connected = np.isclose(apart[moves] @ self.layout.projector, apart[moves], atol=1e-8).all(axis=1)
            half_widths[np.flatnonzero(moves)[~connected]] = math.nan
        return differences, half_widths, p_values, systematic, errors, degrees


@lru_cache(maxsize=8)
def _layout(present: bytes, cells: int, blocks: int) -> Layout:
    """Return the layout of runs: groups of cells that have runs in the same blocks share theirs."""
    return Layout.from_present(np.frombuffer(present, dtype=bool).reshape(cells, blocks))


def detectable(bound: float, degrees: float) -> float:
    """Return the true difference, in standard errors, that `CERTAINTY` of campaigns show.

    A campaign shows it where its difference is beyond `bound` estimated standard errors, with so
    many degrees of freedom. That is the noncentrality of t (whose inverse in SciPy does not end for
    one degree of freedom and a bound of hundreds).
    """
    deviations, weights = estimated_deviations(degrees, _DETECTABLE_NODES)
    greatest = bound * float(deviations[-1]) + _GREATEST_BOUND

    def excess(difference: float) -> float:
        return float(weights @ special.ndtr(difference - bound * deviations)) - CERTAINTY

    return _root(excess, greatest, _DETECTABLE_ROUNDING * greatest)


def estimated_deviations(degrees: float, nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of an estimated standard deviation whose true value is 1.

    The trapezoidal rule over log s, in which the density of chi dies away on both sides.
    """
    low, high = (math.log(special.chdtri(degrees, chance) / degrees) / 2 for chance in (1 - 1e-3, 1e-6))
    logs = np.linspace(low, high, nodes)
    weights = np.exp(degrees * (logs - np.exp(2 * logs) / 2 + 0.5))
    return np.exp(logs), weights / weights.sum()


def level_with_best(correlations: ArrayLike, alpha: float) -> float:
    """Return the two-sided level of each comparison with the best, of which any errs with `alpha`.

    Each is a one-sided test at half of it. Where two best cells are equal either may be named
    wrongly, so it is at most `alpha`.

    Parameters
    ----------
    correlations : array of float, (comparisons,)
        Each comparison's correlation with what all have in common, from 0 to below 1; two
        comparisons are correlated by the product of theirs.

    Notes
    -----
    C. W. Dunnett, A multiple comparison procedure for comparing several treatments with a control,
    Journal of the American Statistical Association 50, 1955, 1096-1121, for a variance that is
    known: ``P(all Z_j < d) = ∫ φ(z) Π Φ((d + λ_j z) / sqrt(1 - λ_j^2)) dz``. The level is that of a
    single comparison at d, so that Student's t can be taken at it with each one's own degrees.
    """
    common = np.asarray(correlations, dtype=float)[:, None]
    own = np.sqrt(1 - common**2)

    def excess(bound: float) -> float:
        below = special.ndtr((bound + common * _NORMAL_NODES) / own).prod(axis=0)
        return float(below @ _NORMAL_WEIGHTS) - (1 - alpha)

    return min(2 * float(special.ndtr(-_root(excess, _GREATEST_BOUND, _BOUND_ROUNDING))), alpha)


def _root(rising: Callable[[float], float], greatest: float, rounding: float) -> float:
    """Return where a rising function of 0 to `greatest` is 0, by bisection."""
    low, high = 0.0, greatest
    while high - low > rounding:
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return (low + high) / 2
