# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reader of a lab report sees, as text."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path

import pypdf

from joulerig.analysis import report


def page(folder: Path) -> str:
    """The report's HTML."""
    (path,) = report.write(folder, ["html"])
    return path.read_text(encoding="utf-8")


def words(source: str) -> str:
    """What a reader of the HTML sees, on one line."""
    body = re.sub(r"<(style|head)>.*?</\1>", " ", source, flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def pdf_pages(folder: Path) -> list[str]:
    (path,) = report.write(folder, ["pdf"])
    return text_of_pages(pypdf.PdfReader(path))


def text_of_pages(pdf: pypdf.PdfReader) -> list[str]:
    return [" ".join(page.extract_text().split()) for page in pdf.pages]


def svgs(source: str) -> list[str]:
    found = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', source)
    return [base64.b64decode(data).decode() for data in found]
