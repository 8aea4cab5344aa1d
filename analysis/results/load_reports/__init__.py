# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of the programs that load a drive, one parser each, as the journal's `performance` row.

A parser returns the columns of `analysis.results.schema.Performance` that its program's report has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from joulerig.analysis.energy import indicator
from joulerig.analysis.results.load_reports import fio, flowop, program

_PARSERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "fio": fio.parse,
    "flowop": flowop.parse,
    "program": program.parse,
}
_KEYS = {"fio": "jobs", "flowop": "classes", "program": "figure"}  # that its reports alone have


def detect_tool(report: Mapping[str, Any]) -> str | None:
    """Return which program made a report (fio, flowop or program); None for an unknown format."""
    return next((tool for tool, key in _KEYS.items() if key in report), None)


def performance(tool: str, report: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the `performance` row, without `run`, of a load that took `seconds`.

    `tool`: fio, flowop or program. Raises ArithmeticError, LookupError, TypeError or ValueError
    where the report cannot be read.
    """
    work = _PARSERS[tool](report)
    moved = indicator.moved(work["read_bytes"], work["write_bytes"])
    return {
        "seconds": seconds,
        "ops_per_second": work["ops"] / seconds,
        "mb_per_second": moved / 1e6 / seconds if moved is not None else None,
        "unit": "operation",
        "figure_name": None,
        "figure_unit": None,
        "figure": None,
        "figure_better": None,
        **work,
    }
