# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers that people write, each with a greatest value: names as pydantic's, which have none.

A number that is a mistake of a few digits is refused where it stands, before it takes memory, a
disk or a year. `tests/unit/rig/common/test_numbers.py` refuses a key of a model without a bound.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MOST = 10**16  # beyond the bytes of any drive
PositiveInt = Annotated[int, Field(gt=0, le=MOST)]
NonNegativeInt = Annotated[int, Field(ge=0, le=MOST)]
PositiveFloat = Annotated[float, Field(gt=0, le=MOST)]
NonNegativeFloat = Annotated[float, Field(ge=0, le=MOST)]
Real = Annotated[float, Field(ge=-MOST, le=MOST)]

MOST_COUNT = 100_000
Count = Annotated[int, Field(ge=1, le=MOST_COUNT)]
"""A count: runs of a cell, passes, failures."""
MOST_SECONDS = 30 * 86_400
Seconds = Annotated[int, Field(ge=0, le=MOST_SECONDS)]
PositiveSeconds = Annotated[int, Field(ge=1, le=MOST_SECONDS)]
Seed = Annotated[int, Field(ge=0, lt=1 << 63)]
