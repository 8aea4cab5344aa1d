# SPDX-License-Identifier: GPL-3.0-or-later
"""What each file system promises over a power cut, and what is run on it after one: `recovery.yml`."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import Field

from joulerig.rig.common.errors import Strict, validate


class AfterCut(Strict):
    """What a file system promises of renames and of fsync, and what is run on it after a cut.

    `before_mount`, `repair` and `check` get the device as their last argument; empty: there is none.
    """

    atomic_rename: bool = True
    fsync_flushes: bool = True
    before_mount: list[str] = Field(default_factory=list)
    repair: list[str] = Field(default_factory=list)
    check: list[str] = Field(default_factory=list)


def load() -> dict[str, AfterCut]:
    """By the names of rig/lab/filesystems/filesystems.yml."""
    source = Path(__file__).parent / "recovery.yml"
    return {
        name: validate(AfterCut, entry, source.name, name)
        for name, entry in yaml.safe_load(source.read_text()).items()
    }
