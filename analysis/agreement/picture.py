# SPDX-License-Identifier: GPL-3.0-or-later
"""Bland and Altman's picture: differences over means, with bias and limits of agreement."""

from __future__ import annotations

from joulerig.analysis import drawing
from joulerig.analysis.agreement.methods import Compared


def draw(compared: Compared, *, virtual: bool) -> drawing.Svg:
    """Return the picture of two methods."""
    found = compared.found
    with drawing.canvas(3.2) as figure:
        axes = figure.subplots()
        axes.plot(found.means, [100 * one for one in found.differences], "o", markersize=3)
        axes.axhline(0, linewidth=0.6, color="#666666")
        for line, style in ((found.bias, "-"), (found.low_limit, "--"), (found.high_limit, "--")):
            if line is not None:
                middle, low, high = (100 * end for end in line)
                axes.axhline(middle, linestyle=style, color=drawing.COLOURS[1])
                axes.axhspan(low, high, alpha=0.12, linewidth=0, color=drawing.COLOURS[1])
        axes.set_xlabel("mean of both (W)")
        axes.set_ylabel(f"{compared.one} less {compared.other} (%)")
        return drawing.to_svg(figure, virtual)
