# SPDX-License-Identifier: GPL-3.0-or-later
"""A method's reading of an energy, and what it is of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """A method's energy of a drive over a phase of a run, and its expanded uncertainty."""

    joules: float
    expanded: float | None


Key = tuple[str, str, str]  # drive, run, phase
Readings = Mapping[str, Mapping[Key, Reading]]  # by method
