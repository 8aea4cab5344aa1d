# SPDX-License-Identifier: GPL-3.0-or-later
"""Drive profiles: what a twin draws from each of its rails, from `profiles/<name>.yml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

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
    plp: bool = False
    write_cache_bytes: NonNegativeInt = 0
    ready_seconds: NonNegativeFloat = 0.0

    def parameters(self) -> list[str]:
        """The profile as parameters of the twin's plugin."""
        rails = [
            f"rail={name},{r.volts!r},{r.source_ohms!r},{r.idle_watts!r},{r.read_joules_per_byte!r},"
            f"{r.write_joules_per_byte!r},{r.command_joules!r},{r.flush_joules!r}"
            for name, r in self.rails.items()
        ]
        return [
            *rails,
            f"plp={'yes' if self.plp else 'no'}",
            f"write_cache={self.write_cache_bytes}",
            f"ready={round(self.ready_seconds * 1e9)}",
        ]


def names() -> list[str]:
    """The profiles that are shipped."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def load(name: str, source: str = "profile") -> Profile:
    """The profile `name`; `source` is what names it, for the error message. Raises UserError."""
    path = FOLDER / f"{name}.yml"
    if not path.is_file():
        raise UserError(f"{source}: {name!r} is no drive profile; allowed: {', '.join(names())}")
    return validate(Profile, yaml.safe_load(path.read_text()), path.name)
