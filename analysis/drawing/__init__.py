# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures as SVG in one style: colours for colour-blind readers, equal bytes for equal input.

matplotlib is imported when a figure is drawn, not before: a study's claims are judged, and a
campaign's definition is checked, where it is not installed.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from joulerig.analysis.drawing import outlines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can distinguish; black and yellow left out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P")
HATCHES = ("", "////", "....")
INK, FAINT = "#1a1a1a", "#8a8a8a"
LEGEND_ABOVE: dict[str, Any] = {
    "fontsize": 8,
    "frameon": False,
    "loc": "lower left",
    "bbox_to_anchor": (0, 1),
}
STYLE: dict[Any, Any] = {
    "font.family": "STIXGeneral",
    "text.parse_math": False,  # a drive's name may have two dollar signs
    "font.size": 9.5,
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.6,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "hatch.linewidth": 0.4,
    "svg.fonttype": "path",
    "svg.hashsalt": "joulerig",
    "path.simplify": True,
}
WIDTH_INCHES = 6.9


@dataclass(frozen=True)
class Svg:
    """A figure: its SVG text, and its width on the page."""

    text: str
    width_inches: float


@contextlib.contextmanager
def canvas(height_inches: float, width_inches: float = WIDTH_INCHES) -> Iterator[Figure]:
    """Yield an empty figure, laid out by matplotlib, to draw on in the house's style.

    Call `to_svg` before the context ends: the style also governs how the SVG is written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        yield Figure(figsize=(width_inches, height_inches), layout="constrained")


def to_svg(figure: Figure, virtual: bool) -> Svg:
    """Return a drawn figure as SVG; `virtual` marks it as one of the virtual lab."""
    if virtual:
        # In the picture itself, so that a figure copied out of the report still says so.
        figure.text(
            0.999, 0.004, "virtual lab", ha="right", va="bottom", fontsize=7, style="italic", color=FAINT
        )
    with io.StringIO() as file:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # of names: boxes are drawn for them
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
        return Svg(outlines.merged(file.getvalue()), figure.get_size_inches()[0])


def scale_x_in_1_2_5(axes: Axes) -> None:
    """Label a logarithmic x axis at 1, 2 and 5 times the powers of ten, in plain digits."""
    from matplotlib.ticker import LogLocator

    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
