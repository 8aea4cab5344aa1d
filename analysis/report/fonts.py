# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's fonts, cut down to the letters it uses.

With them HTML and PDF look the same wherever they are made.
"""

from __future__ import annotations

import base64
import functools
import io
import string
from pathlib import Path

import matplotlib
from fontTools import subset
from fontTools.ttLib import TTFont

# Both come with matplotlib, under licences that allow embedding (STIX: OFL-like; DejaVu: Bitstream
# Vera's).
_FILES = (
    ("Report", 400, "normal", "STIXGeneral.ttf"),
    ("Report", 700, "normal", "STIXGeneralBol.ttf"),
    ("Report", 400, "italic", "STIXGeneralItalic.ttf"),
    ("Report Mono", 400, "normal", "DejaVuSansMono.ttf"),
)


def css(text: str) -> str:
    """Return @font-face rules with the fonts embedded, for a document that shows `text`."""
    letters = frozenset(text) | frozenset(string.printable)
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return "\n".join(
        f"@font-face {{ font-family: '{family}'; font-weight: {weight}; font-style: {style};"
        f" src: url(data:font/woff2;base64,{_woff2(folder / file, letters)}) format('woff2') }}"
        for family, weight, style, file in _FILES
    )


@functools.lru_cache(maxsize=16)
def _woff2(path: Path, letters: frozenset[str]) -> str:
    """Return a font with these letters alone, in base64.

    It is cached, as `rig verify` asks for the same ones again.
    """
    options = subset.Options(flavor="woff2", layout_features=["kern", "liga"], notdef_outline=True)
    options.drop_tables += ["FFTM"]
    font = TTFont(path, recalcTimestamp=False, lazy=True)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=[ord(letter) for letter in letters])
    cutter.subset(font)
    font.flavor = "woff2"
    with io.BytesIO() as file:
        font.save(file)
        return base64.b64encode(file.getvalue()).decode()
