# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of the cache that take long to make: whole or absent, made by one process at a time."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from joulerig import atomic
from joulerig.rig.common import files

Made = TypeVar("Made")


def build_once(
    target: Path,
    cached: Callable[[], Made | None],
    make: Callable[[Path, Path], None],
    discard: Callable[[Path], object] = lambda work: shutil.rmtree(work, ignore_errors=True),
) -> Made:
    """Return what `cached` finds; if that is None, have `make` make the folder `target` first.

    `make` gets a new folder to work in, which `discard` removes afterwards, and the path that is to
    become `target`. Two processes that ask at once wait for each other, and what a killed one left
    is removed. A log may be at `target` with the suffix .log, where it stays. Raises whatever
    `make` raises.
    """
    if found := cached():
        return found
    target.parent.mkdir(parents=True, exist_ok=True)
    with files.locked(target.with_suffix(".lock")):
        if found := cached():  # by the process that was waited for
            return found
        prefix = f".{target.name}-"
        for left in target.parent.glob(f"{prefix}*"):
            discard(left)
        work = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
        try:
            made = work / "done"
            make(work, made)
            shutil.rmtree(target, ignore_errors=True)
            atomic.move(made, target)
        finally:
            discard(work)
    found = cached()
    assert found, f"{target} was just put in place"
    return found
