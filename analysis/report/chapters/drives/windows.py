# SPDX-License-Identifier: GPL-3.0-or-later
"""The greatest mean power over the windows of standards, in the report."""

from __future__ import annotations

from dataclasses import dataclass

from joulerig.analysis.drives import windows
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter


@dataclass(frozen=True)
class WindowsContent:
    """By cell and name of a window its greatest watts over the runs, or why there are none."""

    names: list[str]
    cells: dict[str, dict[str, tuple[float | None, str]]]


def content(analysed: Analysed) -> WindowsContent | None:
    """Return the windows; None where no run has any."""
    rows = windows.table(analysed.campaign, analysed.over_time)
    if rows["watts"].drop_nulls().is_empty():
        return None
    return WindowsContent(list(windows.NAMES.values()), windows.greatest_by_cell(rows))


WINDOWS = Chapter("windows", "Greatest power under load", content)
