# SPDX-License-Identifier: GPL-3.0-or-later
"""Merge the letters of each word in a figure into one outline.

matplotlib writes a word as two groups, and in them letter by letter, each a reference to the
letter's outline, which WeasyPrint reads, transforms and bounds again each time: half of its time
for the map of a large report. matplotlib has two ways to write text in SVG (`svg.fonttype`): these
references, or text for the reader's fonts. Text is no way out: a figure is embedded as an image,
which sees no font of the document, so that it would look different on each machine and the PDF's
bytes would differ. So the outlines are merged here.
"""

from __future__ import annotations

import functools
import re

_OUTLINE = re.compile(r'<path id="([^"]+)"(?: d="([^"]*)")? transform="scale\(0\.015625\)"/>\s*')
_LETTER = re.compile(r'<use xlink:href="#([^"]+)"(?: transform="translate\((\S+) (\S+)\)")?/>\s*')
_WORD = re.compile(
    r'<g id="(?P<id>[^"]+)">\s*(?P<comment><!--.*?-->\s*)'
    r'<g (?P<style>style="[^"]*" )?transform="(?P<moved>[^"]*)">\s*'
    r'(?P<letters>(?:<use xlink:href="#[^"]+"[^>]*/>\s*)+)</g>\s*</g>'
)
_DEFINITIONS = re.compile(r"<defs>\s*</defs>\s*")
_POINT = re.compile(r"(-?[\d.]+) (-?[\d.]+)")
_UNITS = 64  # of an outline in one of a word: 1 / 0.015625


def merged(svg: str) -> str:
    """Return a figure that matplotlib wrote as SVG, with every word as one path; it looks the same.

    A word with a letter whose outline is not in the SVG as expected stays as it is.
    """
    outlines = dict(_OUTLINE.findall(svg))

    def as_one(word: re.Match[str]) -> str:
        letters = _LETTER.findall(word["letters"])
        if len(letters) != word["letters"].count("<use") or any(name not in outlines for name, *_ in letters):
            return word[0]
        path = "".join(_moved(outlines[name], float(x or 0), float(y or 0)) for name, x, y in letters)
        return (
            f'{word["comment"]}<path id="{word["id"]}" {word["style"] or ""}d="{path}"'
            f' transform="{word["moved"]} scale(0.015625)"/>'
        )

    bare = _DEFINITIONS.sub("", _OUTLINE.sub("", svg))
    whole = _WORD.sub(as_one, bare)
    kept = set(re.findall(r'"#([^"]+)"', whole)) & outlines.keys()
    return svg if kept else whole


@functools.lru_cache(maxsize=4096)  # the figures of a report have many words in common
def _moved(outline: str, x: float, y: float) -> str:
    across, up = x * _UNITS, y * _UNITS
    return _POINT.sub(lambda at: f"{float(at[1]) + across:.0f} {float(at[2]) + up:.0f}", outline)
