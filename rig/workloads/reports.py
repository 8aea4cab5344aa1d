# SPDX-License-Identifier: GPL-3.0-or-later
"""What a load's own report says it did, whatever loaded: the journal's `performance` row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from joulerig.rig.workloads import fio_report, flowop_report, program_report
from joulerig.rig.workloads.performance import Performance

_OF_TOOL: dict[str, Callable[[Mapping[str, Any]], Performance]] = {
    "fio": fio_report.performance,
    "flowop": flowop_report.performance,
    "program": program_report.performance,
}


def performance(tool: str, report: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The row, without `run`, of a load that took `seconds`; `tool`: fio, flowop or program.

    Raises ArithmeticError, LookupError, TypeError or ValueError where the report cannot be read.
    """
    return _OF_TOOL[tool](report).row(seconds)
