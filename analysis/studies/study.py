# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare a published study: what a module of this folder assigns to `STUDY`."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from joulerig.analysis.drawing import Svg
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.studies.claims import Claim, Measured


@dataclass(frozen=True)
class StudyFigure:
    """A figure of a study.

    `draw` returns None where no run of the campaign has what the figure needs.
    """

    draw: Callable[[Campaign], Svg | None]
    caption: str


@dataclass(frozen=True)
class Study:
    """A published study that a campaign can repeat.

    Attributes
    ----------
    title : str
        Heading of the report's section and of the documentation page.
    reference : str
        Authors, year, where it was published, DOI.
    factors : tuple of str
        Factors that the study itself distinguishes. Levels of any other factor are judged
        separately.
    claims : tuple of Claim
        What was published, and what is inferred from it.
    measure : callable
        Measure the claims in a campaign whose runs differ in `factors` alone.
    figures : tuple of StudyFigure
        The study's own figures, in the order of the report.
    figures_elsewhere : str
        Where the report shows them, for a study without own figures.
    name, text : str
        Name of its module, and the body of that module's docstring: the Markdown of its
        documentation page. Both are filled in when the module is found.
    """

    title: str
    reference: str
    factors: tuple[str, ...]
    claims: tuple[Claim, ...]
    measure: Callable[[Campaign], Iterable[Measured]]
    figures: tuple[StudyFigure, ...] = ()
    figures_elsewhere: str = ""
    name: str = ""
    text: str = ""

    @property
    def claims_from_the_io_path(self) -> tuple[Claim, ...]:
        """Return the claims that a virtual lab can judge as well as a bench."""
        return tuple(claim for claim in self.claims if claim.from_the_io_path)

    def page(self) -> str:
        """Return the documentation page as Markdown.

        It has title, reference, text and a table of the claims.
        """
        claims = "\n".join(
            f"| `{claim.key}` | {claim.text} | {claim.origin} | {'yes' if claim.from_the_io_path else ''} |"
            for claim in self.claims
        )
        reference = textwrap.fill(f"{self.reference}.", 100, break_on_hyphens=False)
        return (
            f"# {self.title}\n\n{reference}\n\nPlaybook: `playbooks/{self.name}.yml`.\n\n{self.text}\n\n"
            "## Claims\n\n`claims.csv` names each claim by its key.\n\n"
            f"| key | claim | origin | follows from the I/O path alone |\n|---|---|---|---|\n{claims}\n"
        )
