# SPDX-License-Identifier: GPL-3.0-or-later
"""The terminal of commands: what is printed there is text, wherever it came from.

Text of hosts, meters, bundles and journals is among it. No markup or emoji is looked for in it, and
control characters, with which it could rewrite the screen or the terminal's title, are replaced.
`tests/unit/rig/cli/test_terminal.py` refuses another way to print.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from joulerig.rig.common.bounded import printable


class Terminal(Console):
    """A console that prints text unchanged, but for control characters. A style is no markup's."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text, keep="\n\t"), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, keep="\n"), style, control)


def page(width: int) -> Terminal:
    """Return a terminal that keeps what is printed, for `export_text`."""
    return Terminal(width=width, record=True, file=io.StringIO())
