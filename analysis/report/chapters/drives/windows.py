# SPDX-License-Identifier: GPL-3.0-or-later
"""The greatest mean power over the windows of standards, in the report."""

from __future__ import annotations

from dataclasses import dataclass

from joulerig.analysis.drives import windows
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter

_MOST_CELLS = 20


@dataclass(frozen=True)
class WindowsContent:
    """By cell and name of a window its greatest watts over the runs, or why there are none.

    The cells of the greatest power, of `of` cells.
    """

    names: list[str]
    cells: dict[str, dict[str, tuple[float | None, str]]]
    of: int


def content(analysed: Analysed) -> WindowsContent | None:
    """Return the windows; None where no run has any."""
    rows = windows.table(analysed.campaign, analysed.over_time)
    if rows["watts"].drop_nulls().is_empty():
        return None
    found = windows.greatest_by_cell(rows)

    def greatest(cell: str) -> float:
        return max((watts for watts, _ in found[cell].values() if watts is not None), default=0.0)

    shown = sorted(found, key=greatest, reverse=True)[:_MOST_CELLS]
    return WindowsContent(list(windows.NAMES.values()), {cell: found[cell] for cell in shown}, len(found))


WINDOWS = Chapter("windows", "Greatest power under load", content)
