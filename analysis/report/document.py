# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign as one self-contained HTML document, and that document as PDF."""

from __future__ import annotations

import base64
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import markupsafe

from joulerig import text
from joulerig.analysis.drawing import Svg
from joulerig.analysis.drawing.pdf import pdf
from joulerig.analysis.energy import meters
from joulerig.analysis.report import answer, fonts
from joulerig.analysis.report.analysed import Analysed, Draw, draw_here
from joulerig.analysis.report.chapters import CHAPTERS
from joulerig.analysis.results.campaign import Campaign
from joulerig.plural import counted

__all__ = ["html", "pdf", "rendered"]

_HERE = Path(__file__).parent


def html(campaign: Campaign, draw: Draw = draw_here) -> str:
    """Return the report as HTML; the same campaign gives the same text, wherever figures are drawn.

    Raises analysis.results.campaign.ResultsError.
    """
    analysed = Analysed(campaign, draw)
    found = [(chapter, chapter.content(analysed)) for chapter in CHAPTERS]
    return rendered(
        "report.html.j2",
        {
            "campaign": campaign,
            "analysed": analysed,
            "expired": analysed.expired,
            "chapters": [(chapter, content) for chapter, content in found if content is not None],
        },
    )


def rendered(template: str, content: Mapping[str, Any]) -> str:
    """Render a template of this folder as a self-contained document.

    Style and fonts are inside it.
    """
    filled = _templates().get_template(template).render(content)
    style = (_HERE / "report.css").read_text(encoding="utf-8")
    return filled.replace("/* style */", fonts.css(filled + style) + "\n" + style, 1)


@functools.cache
def _templates() -> jinja2.Environment:
    """Return the templates of this folder, each of which is compiled once in a process."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        text=text,
        counted=counted,
        combination=answer.combination,
        scaled=_scaled,
        EXPIRED=meters.EXPIRED,
    )
    environment.filters["svg"] = _embedded
    return environment


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by


def _embedded(figure: Svg, description: str) -> markupsafe.Markup:
    # As an image, not inline: identifiers of several SVGs in one document would clash.
    data = base64.b64encode(figure.text.encode()).decode()
    return markupsafe.Markup('<img style="width: {}in" alt="{}" src="data:image/svg+xml;base64,{}">').format(
        round(figure.width_inches, 3), description, data
    )
