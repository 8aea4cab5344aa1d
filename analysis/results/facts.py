# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the columns of a run's rows that declare their `source`.

joulerig.analysis.results.schema declares them. The campaign engine records them when a run ends;
`rig verify` computes them again from the run's files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joulerig.analysis.results.columns import Column, declared_columns
from joulerig.analysis.results.schema import Phase

_PYTHON: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}


@dataclass(frozen=True)
class RunFacts:
    """What a finished run left, from which a column's `source` computes its value.

    `report`: the load's own (load.json). `settings`: what was in effect (settings.json). `outcome`:
    the host's other results (result.json: counters, seeks, ...). `phases`: by name. `performance`,
    `energy`: the run's rows of these tables without columns that have a source; `energy` is empty
    where nothing was measured.
    """

    report: Mapping[str, Any]
    settings: Mapping[str, Any]
    outcome: Mapping[str, Any]
    phases: Mapping[str, Phase]
    performance: Mapping[str, Any]
    energy: Sequence[Mapping[str, Any]]


def compute_columns(record: type[Any], facts: RunFacts) -> tuple[dict[str, Any], list[str]]:
    """Return the values of a table's columns that declare a source, and what is wrong with some.

    A column is NULL where the run lacks what it is computed from (LookupError), and where its
    source fails in another way or gives a value of another type, which is a problem on one line.
    """
    values: dict[str, Any] = {}
    problems = []
    for name, one in declared_columns(record).items():
        if one.source is not None:
            values[name], problem = _compute(one, facts)
            problems += [f"column {name}: {problem}"] if problem else []
    return values, problems


def _compute(column: Column, facts: RunFacts) -> tuple[Any, str]:
    assert column.source is not None
    try:
        value = column.source(facts)
    except LookupError:
        return None, ""
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        return None, f"{type(error).__name__}: {error}"
    allowed = _PYTHON[column.kind]
    if value is None or (isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool))):
        return value, ""
    return None, f"{value!r:.80}: a {type(value).__name__}; allowed: {column.kind}"
