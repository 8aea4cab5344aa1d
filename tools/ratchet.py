# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep counts of known faults from growing: each has a committed ceiling, which only goes down.

A check counts its faults by key and compares them with tools/ceilings/NAME.json. A key that is not
there has the ceiling 0, so that what is new has no fault at all. `--lower` writes the counts of
today where they are lower.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).with_name("ceilings")


def read(name: str, folder: Path = FOLDER) -> dict[str, int]:
    """Read the ceilings of a check by key."""
    ceilings: dict[str, int] = json.loads((folder / f"{name}.json").read_text())
    return ceilings


def write(name: str, ceilings: Mapping[str, int], folder: Path = FOLDER) -> None:
    """Write the ceilings of a check; those of 0 are left out."""
    folder.mkdir(exist_ok=True)
    kept = {key: count for key, count in sorted(ceilings.items()) if count}
    (folder / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")


def find_exceeded(counts: Mapping[str, int], ceilings: Mapping[str, int]) -> list[str]:
    """List the keys whose count is above their ceiling."""
    return [key for key, count in sorted(counts.items()) if count > ceilings.get(key, 0)]


def lower(counts: Mapping[str, int], ceilings: Mapping[str, int]) -> dict[str, int]:
    """Lower each ceiling to its count; none rises."""
    return {key: min(ceiling, counts.get(key, 0)) for key, ceiling in ceilings.items()}
