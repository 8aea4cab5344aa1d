# SPDX-License-Identifier: GPL-3.0-or-later
"""What matters and what limits the precision: sentences and rows of the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from joulerig.analysis.compare import cemp, elasticity
from joulerig.analysis.compare.cells import RUN_TO_RUN, Comparison
from joulerig.analysis.compare.elasticity import Elasticity, LoadLevels
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.answer import Group, Row
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.statistics.effects import BLOCK, Effect
from joulerig.analysis.statistics.ranking import ALPHA
from joulerig.text import percent, probability

# By source of uncertainty: its heading, and what makes it less.
PARTS = {
    RUN_TO_RUN: ("run to run", "more replicates"),
    "gaps": ("gaps", "a meter that loses nothing"),
    "interpolation": ("interpolation", "a longer phase"),
    "alignment": ("alignment", "a longer phase, or a better clock"),
    "product": ("V × I", "shorter samples"),
    "meter": ("meter", "a calibration, or a better class"),
}


def matters(compared: Sequence[Comparison]) -> list[str]:
    """Return a sentence for each factor: where it has an effect, and where none is seen."""
    by_source: dict[str, list[tuple[Comparison, Effect]]] = {}
    for one in compared:
        for effect in one.by_factor.sources if one.by_factor else ():
            if effect.source != BLOCK and effect.p is not None:
                by_source.setdefault(effect.source, []).append((one, effect))
    return [_sentence(source, found) for source, found in by_source.items()]


def _sentence(source: str, found: Sequence[tuple[Comparison, Effect]]) -> str:
    with_effect = [_where(one, effect) for one, effect in found if effect.p is not None and effect.p <= ALPHA]
    without = [_where(one, effect) for one, effect in found if effect.p is not None and effect.p > ALPHA]
    sentences = [f"has an effect on {'; '.join(with_effect)}"] if with_effect else []
    sentences += [f"{'No' if sentences else 'no'} effect is seen on {'; '.join(without)}"] if without else []
    return f"{source[0].upper()}{source[1:]}: {'. '.join(sentences)}."


def _where(one: Comparison, effect: Effect) -> str:
    return f"{one.name} ({percent(effect.share)} % of the variation, p {probability(effect.p, sign=True)})"


@dataclass(frozen=True)
class Budget:
    """The uncertainty budget of one cell's AI.

    `standard`: relative standard uncertainty; `shares`: of the variance; `remedy`: what would help.
    """

    cell: Row
    standard: float
    shares: dict[str, float]
    unknown: str
    remedy: str


def budgets(group: Group) -> list[Budget]:
    """Return the budget of each cell with an AI."""
    found = []
    for cell in group.ranked:
        precision = group.comparison.precision[cell["cell"]]
        standard = math.sqrt(sum(part**2 for part in precision.parts.values()))
        greatest = max(precision.shares, key=precision.shares.__getitem__, default=None)
        if RUN_TO_RUN in precision.unknown:
            greatest = RUN_TO_RUN
        found.append(
            Budget(
                cell,
                standard,
                precision.shares,
                ", ".join(precision.unknown.values()),
                PARTS[greatest][1] if greatest else "",
            )
        )
    return found


@dataclass(frozen=True)
class Precision:
    """Sentences on the factors, and the tables by drive and workload, of those that have them."""

    sentences: list[str]
    effects: list[Group]
    budgets: list[tuple[Group, list[Budget]]]
    changes: list[tuple[Group, list[cemp.Change]]]
    elasticities: list[tuple[LoadLevels, Elasticity]]
    budget_parts: dict[str, tuple[str, str]] = field(default_factory=lambda: PARTS)
    cemp_definition: str = cemp.DEFINITION


def precision(analysed: Analysed) -> Precision:
    """Return which factors matter, and what the uncertainty of each AI is made of."""
    groups = analysed.groups
    return Precision(
        matters(analysed.comparisons),
        [group for group in groups if group.comparison.by_factor],
        [(group, budgets(group)) for group in groups if group.ranked],
        [(group, found) for group in groups if (found := group.comparison.changes)],
        elasticity.by_combination(analysed.campaign, analysed.comparisons),
    )


PRECISION = Chapter("precision", "What matters, and what limits the precision", precision)
