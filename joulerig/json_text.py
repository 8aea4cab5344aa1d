# SPDX-License-Identifier: GPL-3.0-or-later
"""Read JSON that others wrote: all that is wrong with it is a ValueError; its size is bounded."""

from __future__ import annotations

import json
import os
import stat
from os import PathLike
from typing import Any

MOST_BYTES = 64 << 20  # ten times what fio's report of an hour with histograms takes


def parse(text: str | bytes) -> Any:
    """Return what a JSON text holds. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("lists or objects too deep in each other") from None


def read(path: str | PathLike[str]) -> Any:
    """Return what a JSON file holds. Raises OSError, ValueError."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe, on which reading may wait
            raise ValueError("is not a file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"over {MOST_BYTES} bytes; allowed: at most as many")
    return parse(content.decode("utf-8"))


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Return the object that a JSON text holds. Raises ValueError."""
    return _as_object(parse(text))


def read_object(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the object that a JSON file holds. Raises OSError, ValueError."""
    return _as_object(read(path))


def _as_object(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"a JSON {type(found).__name__} where an object is expected")
    return found
