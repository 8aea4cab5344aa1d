# SPDX-License-Identifier: GPL-3.0-or-later
"""A chapter of the lab report: a title, a template, and the content that the template shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from joulerig.analysis.report.analysed import Analysed

Content = TypeVar("Content")


@dataclass(frozen=True)
class Chapter(Generic[Content]):
    """One chapter of the report.

    Its figures, tables and sentences are in the content, their layout is in the template.

    Attributes
    ----------
    name : str
        The template is `chapters/<name>.html.j2`. It is given `chapter`, `content`, `analysed`,
        `campaign` and the macros of the frame, report.html.j2.
    title : str
        The heading; empty where the content has its own.
    content : callable
        Compute the content for an analysed campaign, None where the chapter does not apply to it.
        May raise joulerig.analysis.results.campaign.ResultsError.
    """

    name: str
    title: str
    content: Callable[[Analysed], Content | None]

    @property
    def template(self) -> str:
        """Return the template's path from the folder of the frame."""
        return f"chapters/{self.name}.html.j2"
