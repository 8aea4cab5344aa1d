# SPDX-License-Identifier: GPL-3.0-or-later
"""How two rankings of the same cells differ, by AI and with more joules, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from joulerig.analysis.compare.cells import Comparison
from joulerig.analysis.results.campaign import Run
from joulerig.analysis.statistics.ranking import Ranking
from joulerig.plural import counted


def difference(one: Comparison, other: Ranking, how: str) -> str:
    """Say how the ranking of a comparison and another one differ, as far as their tests tell.

    `how`: what the other one is, such as "to quiescence". Empty where they do not differ.
    """
    ranking = one.ranking
    if len(ranking.order) < 2:
        return ""
    if not (ranking.method and other.method):
        first, first_other = (_name(one, found.order[0]) for found in (ranking, other))
        if first != first_other:
            return f"by readings alone {first} is first by AI, and {first_other} {how}"
        return "" if ranking.order == other.order else f"by readings alone {first} is first, others change"
    if set(ranking.contenders) != set(other.contenders):
        best, best_other = (
            " or ".join(_name(one, cell) for cell in found.contenders) for found in (ranking, other)
        )
        return f"the best may be {best} by AI, and {best_other} {how}"
    turned = _reversed_pairs(ranking, other)
    if not turned:
        return ""
    first, second = turned[0]
    more = f", and {counted(len(turned) - 1, 'more pair')}" if len(turned) > 1 else ""
    return f"{_name(one, first)} is better than {_name(one, second)} by AI, and worse {how}{more}"


def with_joules(run: Run, joules: float | None) -> Run:
    """Return a run that has a result, with other joules."""
    assert run.result is not None
    return replace(run, result=replace(run.result, joules=joules, corrected_joules=joules))


def places(one: Comparison, other: Ranking | None, cell: str, how: str) -> dict[str, Any]:
    """Return a table's columns of where a cell stands by AI, and by the other ranking.

    `how`: what the names of the latter's columns end in.
    """
    return {
        **{key: value for key, value in one.columns.items() if key != "quantity"},
        "cell": cell,
        "rank": one.ranking.order.index(cell) + 1,
        f"rank_{how}": other.order.index(cell) + 1 if other else None,
        "may_be_best": _may_be_best(one.ranking, cell),
        f"may_be_best_{how}": _may_be_best(other, cell),
    }


def _may_be_best(ranking: Ranking | None, cell: str) -> bool | None:
    """Return whether a cell may be the best; None where no ranking says so of any."""
    return cell in ranking.contenders if ranking and ranking.contenders else None


def _reversed_pairs(ranking: Ranking, other: Ranking) -> list[tuple[str, str]]:
    """Return the pairs that either ranking separates and the other one has the other way round."""
    signs = {frozenset((pair.first, pair.second)): pair for pair in other.pairs}
    found = []
    for pair in ranking.pairs:
        same = signs[frozenset((pair.first, pair.second))]
        if pair.difference is None or same.difference is None or not (pair.separated or same.separated):
            continue
        same_way = pair.first == same.first
        if pair.difference * (same.difference if same_way else -same.difference) < 0:
            better = pair.difference > 0
            found.append((pair.first, pair.second) if better else (pair.second, pair.first))
    return found


def _name(one: Comparison, cell: str) -> str:
    return one.cells[cell].combination
