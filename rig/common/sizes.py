# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes as people write them: bytes, or a number with a binary unit."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from joulerig.rig.common.numbers import MOST

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def parse(value: Any) -> Any:
    """Return the bytes of a text such as "64 GiB"; anything else unchanged. Raises ValueError."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(rf"(\d+(?:\.\d+)?) ?({'|'.join(UNITS)})?", value.strip())
    number = float(found[1]) * UNITS.get(found[2], 1) if found else 0.5
    if not number.is_integer():
        raise ValueError(f"{value!r} is no size; allowed: bytes, or a number with {', '.join(UNITS)}")
    return int(number)


def show(size_bytes: int) -> str:
    """Return a size with the greatest unit of which it is a whole number: 64 GiB."""
    for unit, factor in reversed(UNITS.items()):
        if size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} bytes"


Size = Annotated[int, BeforeValidator(parse), Field(gt=0, le=MOST)]
"""Bytes; written as such, or as a text with a unit."""
