# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapters of the cells' numbers: all cells, power and I/O, figures of merit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.answer import Group
from joulerig.analysis.report.chapter import Chapter


@dataclass(frozen=True)
class Groups:
    """The cells by drive and workload."""

    groups: list[Group]


@dataclass(frozen=True)
class FiguresOfMerit:
    """The cells whose program reports a figure of merit."""

    cells: list[dict[str, Any]]


def groups(analysed: Analysed) -> Groups:
    """Return the cells by drive and workload."""
    return Groups(analysed.groups)


def figures_of_merit(analysed: Analysed) -> FiguresOfMerit | None:
    """Return the cells that have a figure of merit; None where no cell has one."""
    cells = [cell for cell in analysed.cells if cell["figure"] is not None]
    return FiguresOfMerit(cells) if cells else None


CELLS = Chapter("cells", "Cells", groups)
POWER_AND_IO = Chapter("power_and_io", "Other figures per joule and per watt", groups)
FIGURES_OF_MERIT = Chapter("figures_of_merit", "Figures of merit", figures_of_merit)
