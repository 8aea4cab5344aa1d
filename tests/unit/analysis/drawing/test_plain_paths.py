# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of figures drawn for WeasyPrint at once: the same operators, where they are plain."""

from __future__ import annotations

import base64
import re
import zlib

import numpy as np
import pytest
import weasyprint

from joulerig.analysis.drawing import plain_paths
from joulerig.analysis.report import document

PLAIN = "M 0 10.5 \nL 20 -3.25 \nQ 7 8.125 9 10 \nC 1 2 3 4 5.5 6 \nz\nM 30 30 \nL 31 30 \nz\nL 1 1 \n"


def page(path: str, attributes: str = "") -> str:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="100pt" height="100pt" viewBox="0 0 100 100">'
        f'<defs><marker id="a"><path d="M 0 0 L 1 1"/></marker></defs><path d="{path}" {attributes}/></svg>'
    )
    return f'<img src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}">'


def drawn(pdf: bytes) -> list[tuple[str, list[float]]]:
    """Return the operators of the page's paths, with their numbers."""
    streams = [zlib.decompress(one) for one in re.findall(rb"stream\n(.*?)\nendstream", pdf, flags=re.S)]
    found = []
    for line in b"\n".join(streams).decode("latin-1").splitlines():
        *numbers, operator = line.split() or [""]
        if operator in ("m", "l", "c", "h"):
            found.append((operator, [float(number) for number in numbers]))
    return found


@pytest.mark.parametrize("attributes", ["", 'style="fill: none; stroke: #000000" transform="rotate(30)"'])
def test_a_plain_path_is_drawn_as_weasyprint_draws_it(attributes):
    own = drawn(weasyprint.HTML(string=page(PLAIN, attributes)).write_pdf())
    ours = drawn(document.pdf(page(PLAIN, attributes)))
    assert own[0] == ("m", [0, 0])  # before the path's own first move: without effect
    assert [operator for operator, _ in ours] == [operator for operator, _ in own[1:]]
    for (_, one), (_, other) in zip(ours, own[1:], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_it_is_drawn_by_the_operators_of_this_module(monkeypatch):
    monkeypatch.setattr(plain_paths, "operators", lambda _: "1 2 m\n3 4 l")
    assert drawn(document.pdf(page(PLAIN))) == [("m", [1, 2]), ("l", [3, 4])]


@pytest.mark.parametrize(
    "path",
    [
        "m 0 0 l 1 1",
        "M 0 0 A 1 1 0 0 0 2 2",
        "M0 0L1 1",
        "M 0,0 L 1,1",
        "M 0 0 L 1 1 2 2",
        "L 1 1",
        "M 0",
        "M 1e3 0",
    ],
)
def test_other_paths_are_weasyprints(path):
    assert plain_paths.operators(path) is None


def test_a_path_with_marks_along_it_is_weasyprints(monkeypatch):
    asked = []
    monkeypatch.setattr(plain_paths, "operators", asked.append)
    document.pdf(page(PLAIN, 'marker="url(#a)"'))
    assert PLAIN.replace("\n", " ").split() not in [path.split() for path in asked]


def test_weasyprint_draws_itself_again_afterwards():
    own = weasyprint.svg.TAGS["path"]
    document.pdf(page(PLAIN))
    assert weasyprint.svg.TAGS["path"] is own
