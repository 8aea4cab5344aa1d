# SPDX-License-Identifier: GPL-3.0-or-later
"""A column that declares its source is computed from what a run left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from joulerig.analysis.bundle import tables
from joulerig.analysis.results.columns import column, declared_columns
from joulerig.analysis.results.facts import RunFacts, compute_columns
from joulerig.analysis.results.schema import Phase, Table

FACTS = RunFacts(
    report={"jobs": [{"error": 0}]},
    settings={"cpu": {"governor": "performance"}},
    outcome={"counters": {"flushes": 6}},
    phases={"workload": Phase("workload", 0, 2_000_000_000, 0, 0)},
    performance={"ops": 12, "read_bytes": None},
    energy=[],
)


def row_type(kind: str, source: Callable[[Any], Any]) -> type[Any]:
    declared = column("1/s", "A figure.", since=9, source=source)
    return dataclass(type("Row", (), {"__annotations__": {"figure": kind}, "figure": declared}))


def compute(kind: str, source: Callable[[Any], Any]) -> tuple[Any, list[str]]:
    values, problems = compute_columns(row_type(kind, source), FACTS)
    return values["figure"], problems


@pytest.mark.parametrize(
    ("kind", "source", "value"),
    [
        ("int | None", lambda run: run.outcome["counters"]["flushes"], 6),
        ("str | None", lambda run: run.settings["cpu"]["governor"], "performance"),
        ("float | None", lambda run: run.performance["ops"] / run.phases["workload"].seconds, 6.0),
        ("float | None", lambda run: run.report["jobs"][0]["error"], 0),
        ("int | None", lambda run: run.performance["read_bytes"], None),
    ],
)
def test_a_value_follows_from_what_the_run_left(
    kind: str, source: Callable[[Any], Any], value: object
) -> None:
    assert compute(kind, source) == (value, [])


@pytest.mark.parametrize(
    "source", [lambda run: run.settings["disk"]["watts"], lambda run: run.report["jobs"][7]]
)
def test_what_a_run_does_not_have_is_null(source: Callable[[Any], Any]) -> None:
    assert compute("float | None", source) == (None, [])


@pytest.mark.parametrize(
    ("kind", "source", "problem"),
    [
        ("float | None", lambda run: 1 / len(run.energy), "ZeroDivisionError: division by zero"),
        ("int | None", lambda run: run.settings["cpu"]["governor"], "'performance': a str; allowed: int"),
        ("int | None", lambda run: True, "True: a bool; allowed: int"),
        ("int | None", lambda run: run.energies, "AttributeError: "),
    ],
)
def test_a_source_that_fails_is_null_with_a_problem_on_one_line(
    kind: str, source: Callable[[Any], Any], problem: str
) -> None:
    value, [found] = compute(kind, source)
    assert value is None
    assert found.startswith(f"column figure: {problem}")
    assert "\n" not in found


@pytest.mark.parametrize("kind", ["int", "dict[str, Any] | None"])
def test_a_column_with_a_source_may_be_null_and_is_plain(kind: str) -> None:
    with pytest.raises(ValueError, match=r"^column figure: declares a source, so its type is one of str"):
        declared_columns(row_type(kind, lambda run: 1))


def test_only_tables_with_one_row_a_run_have_such_columns() -> None:
    with pytest.raises(ValueError, match=r"^table events: column figure declares a source; only"):
        Table("events", row_type("int | None", lambda run: 1), key=("run", "event"))


@pytest.mark.parametrize(
    ("values", "missing"), [([None, None], []), ([None, 2.0], ["column 'cpu_joules' is missing"])]
)
def test_a_table_made_before_a_column_came_is_compared_without_it(
    tmp_path: Path, values: list[float | None], missing: list[str]
) -> None:
    now = pl.DataFrame({"run": ["c-1", "c-2"], "cpu_joules": pl.Series(values, dtype=pl.Float64)})
    now.drop("cpu_joules").write_parquet(tmp_path / "runs.parquet")
    assert tables.compare(tmp_path / "runs.parquet", now) == (2, missing)
