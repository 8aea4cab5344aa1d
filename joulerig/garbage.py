# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep Python's garbage collector away from work that makes many objects and keeps them all."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def none_collected() -> Iterator[None]:
    """Switch the garbage collector off while objects are made that are all kept.

    It searches all objects each time that their number has grown by a quarter: that takes a tenth
    of WeasyPrint's time, and a third of that of loading a large journal.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
