# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign as one self-contained HTML document, and that document as PDF."""

from __future__ import annotations

import base64
import contextlib
import gc
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jinja2
import markupsafe
from weasyprint import HTML
from weasyprint.urls import URLFetcher

from joulerig.analysis.drawing import Svg
from joulerig.analysis.energy import meters
from joulerig.analysis.report import answer, fonts, text
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapters import CHAPTERS
from joulerig.analysis.results.campaign import Campaign
from joulerig.plural import counted

_HERE = Path(__file__).parent


def html(campaign: Campaign) -> str:
    """Return the report as HTML; the same campaign gives the same text.

    Raises analysis.results.campaign.ResultsError.
    """
    analysed = Analysed(campaign)
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
    filled = environment.get_template(template).render(content)
    style = (_HERE / "report.css").read_text(encoding="utf-8")
    return filled.replace("/* style */", fonts.css(filled + style) + "\n" + style, 1)


def pdf(document: str) -> bytes:
    """Return `html`'s document as PDF. Nothing outside it is fetched: it holds all it needs."""
    logging.getLogger("weasyprint").setLevel(logging.ERROR)  # it warns of CSS that is for screens
    fetcher = URLFetcher(allowed_protocols=["data"], fail_on_errors=True)
    with _nothing_collected():
        written: bytes | None = HTML(string=document, url_fetcher=fetcher).write_pdf()
    assert written is not None
    return written


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """Switch the garbage collector off while WeasyPrint works.

    WeasyPrint keeps all its boxes to the end: to search them for garbage takes a tenth of its time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by


def _embedded(figure: Svg, description: str) -> markupsafe.Markup:
    # As an image, not inline: identifiers of several SVGs in one document would clash.
    data = base64.b64encode(figure.text.encode()).decode()
    return markupsafe.Markup('<img style="width: {}in" alt="{}" src="data:image/svg+xml;base64,{}">').format(
        round(figure.width_inches, 3), description, data
    )
