# SPDX-License-Identifier: GPL-3.0-or-later
"""Drive profiles: what a twin draws from each of its rails, from `profiles/<name>.yml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, NonNegativeFloat, PositiveFloat

from rig.errors import Strict, UserError, validate

FOLDER = Path(__file__).parent / "profiles"


class RailModel(Strict):
    """Power of one rail: idle watts, and the joules that each operation adds.

    `source_ohms` is what lies between the supply and the drive: the rail droops by ohms x amps.
    """

    volts: PositiveFloat
    source_ohms: NonNegativeFloat
    idle_watts: NonNegativeFloat
    read_joules_per_byte: NonNegativeFloat = 0.0
    write_joules_per_byte: NonNegativeFloat = 0.0
    command_joules: NonNegativeFloat = 0.0
    flush_joules: NonNegativeFloat = 0.0


class Profile(Strict):
    """A kind of drive. `sources` says where each number comes from, and which are free choices."""

    description: str
    model: Annotated[str, Field(max_length=40)]
    sources: list[str]
    rails: Annotated[dict[str, RailModel], Field(min_length=1, max_length=4)]


def names() -> list[str]:
    """The profiles that are shipped."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def load(name: str, source: str = "profile") -> Profile:
    """The profile `name`; `source` is what names it, for the error message. Raises UserError."""
    path = FOLDER / f"{name}.yml"
    if not path.is_file():
        raise UserError(f"{source}: {name!r} is no drive profile; allowed: {', '.join(names())}")
    return validate(Profile, yaml.safe_load(path.read_text()), path.name)
