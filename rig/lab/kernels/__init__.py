# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernels a campaign can name: the host's own, and ones built from Debian's source."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from joulerig.rig.common.errors import Strict, validate
from joulerig.rig.lab import definitions
from joulerig.rig.lab.model import Lab, TestHost

SHIPPED = Path(__file__).parent / "kernels.yml"
KIND = "kernel"
INSTALLED = "installed"
Configuration = Literal["debian", "virtual"]


class Kernel(Strict):
    """A kernel to boot for a block of runs.

    `tick_hertz`: its timer interrupts a second (CONFIG_HZ); none: the host's own kernel.
    """

    description: str
    tick_hertz: Literal[100, 250, 300, 1000] | None = None


def load(lab: Lab) -> dict[str, Kernel]:
    """Return the shipped kernels and those of `kernels.yml` next to the inventory.

    Raises UserError.
    """
    shipped = definitions.read(SHIPPED, KIND, _entry)
    return definitions.with_own(shipped, [lab.folder / "kernels.yml"], KIND, _entry)


def _entry(name: str, entry: Any, source: str) -> Kernel:
    return validate(Kernel, entry, source, name)


def configuration(host: TestHost) -> Configuration:
    """Return the configuration of a host's kernels: Debian's, reduced for a virtual host."""
    return "virtual" if host.virtual else "debian"
