# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the paths of the report's figures for WeasyPrint, without its parser of any SVG path.

A figure has thousands of points, nearly all of them in the outlines of its words, and WeasyPrint
searches the rest of a path again for each of them: that took a fifth of the time of a large report.
matplotlib writes a path as letters and numbers with white space between them, all absolute, so
that splitting is parsing.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from weasyprint import svg

_PLAIN = re.compile(r"(?:[MLQCz]|-?[0-9]+(?:\.[0-9]+)?|\s)+")
_NUMBERS = {"M": 2, "L": 2, "Q": 4, "C": 6, "z": 0}


@contextlib.contextmanager
def drawn_at_once() -> Iterator[None]:
    """Have WeasyPrint draw plain paths by `operators`, and any other one itself.

    WeasyPrint has no such setting: it looks up what draws an element in `weasyprint.svg.TAGS`.
    """
    tags: dict[str, Any] = svg.TAGS
    own = tags["path"]
    tags["path"] = _drawing(own)
    try:
        yield
    finally:
        tags["path"] = own


def _drawing(own: Callable[..., None]) -> Callable[..., None]:
    def draw(image: Any, node: Any, font_size: float) -> None:
        found = None if "marker" in node.attrib else operators(node.get("d", ""))
        if found is None:
            own(image, node, font_size)
        else:
            image.stream.stream.append(found.encode())

    return draw


def operators(path: str) -> str | None:
    """Return a path as PDF's operators, in the path's own units; None where it is not plain.

    Plain is a path of absolute moves, lines, quadratic and cubic curves and ends, each with its
    letter and as many numbers as it needs, as matplotlib writes them. PDF has no quadratic curve:
    the cubic one that is the same is drawn (ISO 32000-2, 8.5.2).
    """
    if not _PLAIN.fullmatch(path):
        return None
    parts: list[str] = []
    words = path.split()
    place, x, y = 0, 0.0, 0.0
    begin = x, y
    while place < len(words):
        letter = words[place]
        count = _NUMBERS.get(letter)
        if count is None or (not parts and letter != "M"):
            return None
        try:
            at = [float(word) for word in words[place + 1 : place + 1 + count]]
        except ValueError:
            return None
        if len(at) < count:
            return None
        place += 1 + count
        if letter == "z":
            parts.append("h")
            x, y = begin
            continue
        if letter == "Q":
            over_x, over_y = 2 / 3 * at[0], 2 / 3 * at[1]
            at[:2] = over_x + x / 3, over_y + y / 3, over_x + at[2] / 3, over_y + at[3] / 3
        x, y = at[-2:]
        if letter == "M":
            begin = x, y
        parts.append(f"{' '.join(map(_number, at))} {_OPERATORS[letter]}")
    return "\n".join(parts)


_OPERATORS = {"M": "m", "L": "l", "Q": "c", "C": "c"}


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else f"{value:.4f}".rstrip("0")
