# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab report of a bundle: how it is made, and compared with the one that the raw data give."""

from __future__ import annotations

import html as markup
import re
from dataclasses import dataclass
from pathlib import Path

from joulerig.analysis.bundle.check import Check, judged, uncheckable
from joulerig.analysis.report import document
from joulerig.analysis.results.campaign import Campaign
from joulerig.plural import counted

HTML, PDF = "report/report.html", "report/report.pdf"
_HTML_NAME, _PDF_NAME = "report.html", "report.pdf"
_NUMBER = re.compile(r"\d")
_FIGURE = re.compile(r'src="data:image/svg\+xml;base64,([^"]*)"')


def html(campaign: Campaign) -> str:
    """Render the report's HTML.

    A damaged file that it names is named by its path from the campaign's folder.
    """
    return _placeless(document.html(campaign), campaign.folder)


@dataclass(frozen=True)
class Origin:
    """Why the same numbers may be presented differently.

    `program`: by another revision of the program; `libraries`: with other libraries. Each is empty
    where these are the same.
    """

    program: str = ""
    libraries: str = ""

    def why(self) -> str:
        return "; ".join(part for part in (self.program, self.libraries) if part)


def check_html(folder: Path, again: str, origin: Origin) -> Check:
    """Compare report.html below `folder` with `again`, the HTML of the recomputed campaign."""
    path = folder / HTML
    if not path.is_file():
        return uncheckable(_HTML_NAME, "there is none")
    try:
        stored = _placeless(path.read_text(encoding="utf-8"), folder)
    except (OSError, UnicodeDecodeError) as error:
        return judged(_HTML_NAME, "cannot be read", [str(error)])
    before, after = _texts(stored), _texts(again)
    numbers = sum(bool(_NUMBER.search(text)) for _, text in after)
    drawn, figures = _FIGURE.findall(stored), _FIGURE.findall(again)
    detail = (
        f"{counted(numbers, 'text with numbers', 'texts with numbers')},"
        f" {counted(len(figures), 'figure')}, as the raw data give them"
    )
    offenders = _differences(before, after)
    if offenders and origin.program:
        return uncheckable(_HTML_NAME, f"{origin.program}: {counted(len(offenders), 'other text')}")
    if not offenders and drawn != figures:
        if origin.why():
            return uncheckable(_HTML_NAME, f"its texts are the same, its figures are not: {origin.why()}")
        off = [
            index
            for index, pair in enumerate(zip(drawn, figures, strict=False), start=1)
            if pair[0] != pair[1]
        ]
        which = ", ".join(map(str, off)) or "number of figures"
        offenders = [f"figure {which} of {len(figures)} is not the one that the raw data give"]
    elif not offenders and stored != again:
        if origin.why():
            return uncheckable(
                _HTML_NAME, f"its texts and figures are the same, its style is not: {origin.why()}"
            )
        offenders = [
            "texts and figures are the same, but not what stands between them (style, fonts, markup)"
        ]
    return judged(_HTML_NAME, detail, offenders)


def check_pdf(folder: Path, again: str, origin: Origin) -> Check:
    """Compare report.pdf below `folder` with the PDF of `again`."""
    path = folder / PDF
    if not path.is_file():
        return uncheckable(_PDF_NAME, "there is none")
    same = path.read_bytes() == document.pdf(again)
    if not same and origin.why():
        return uncheckable(_PDF_NAME, f"not the same bytes: {origin.why()}")
    wrong = [] if same else ["it is not the PDF that the raw data's report gives"]
    return judged(_PDF_NAME, "the same bytes as the raw data's report gives" if same else "", wrong)


def _placeless(source: str, folder: Path) -> str:
    return source.replace(f"{folder}/", "")


def _texts(source: str) -> list[tuple[str, str]]:
    """Return (section, text) of all that a reader sees, in order."""
    body = re.sub(r"<(style|head)>.*?</\1>", " ", source, flags=re.S)
    found, section = [], ""
    for tag, text in re.findall(r"<([^>]*)>([^<]*)", body):
        text = " ".join(markup.unescape(text).split())
        if tag.startswith(("h1", "h2")):
            section = text
        if text:
            found.append((section, text))
    return found


def _differences(stored: list[tuple[str, str]], again: list[tuple[str, str]]) -> list[str]:
    wrong = [
        f"{right[0]}: {before[1]!r} is there, {right[1]!r} comes out"
        for before, right in zip(stored, again, strict=False)
        if before != right
    ]
    if len(stored) != len(again):  # what follows the first of them is only moved
        wrong = [*wrong[:1], f"{counted(len(stored), 'text')} stored, {len(again)} recomputed"]
    return wrong
