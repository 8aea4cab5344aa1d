# SPDX-License-Identifier: GPL-3.0-or-later
"""Traces that are drawn instead of recorded: `flowop generate`, its result kept in the cache."""

from __future__ import annotations

import hashlib
import subprocess
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from joulerig.rig.common import files, paths
from joulerig.rig.common.errors import Strict, UserError
from joulerig.rig.common.numbers import PositiveFloat, PositiveInt
from joulerig.rig.workloads import place

Threads = Annotated[int, Field(gt=0, le=4096)]
Share = Annotated[float, Field(ge=0, le=1)]
Sizes = Annotated[str, Field(pattern=r"^([0-9]+|gamma:[0-9.]+:[0-9.]+)$")]


class Synthetic(Strict):
    """The parameters of a drawn trace (docs/reference/workloads.md); flowop's defaults.

    `sync_share`: of the writes, those that an fsync follows.
    """

    ops: Annotated[int, Field(gt=0, le=10**8)] | None = None
    write_share: Share | None = None
    unlink_share: Share | None = None
    sync_share: Share | None = None
    files: Annotated[int, Field(gt=0, le=10**7)] | None = None
    file_bytes: Sizes | None = None
    io_bytes: Sizes | None = None
    threads: Threads | None = None
    rate: PositiveFloat | None = None
    seed: PositiveInt | None = None

    def words(self) -> tuple[str, ...]:
        """Return the options of `flowop generate`."""
        settings = self.model_dump(exclude_none=True)
        return tuple(
            word for key, value in settings.items() for word in (f"--{key.replace('_', '-')}", f"{value}")
        )

    def path(self) -> Path:
        """Return the file of the trace: the same for the same parameters."""
        digest = hashlib.sha256(" ".join(self.words()).encode()).hexdigest()[:12]
        return paths.cache() / "traces" / f"synthetic-{digest}.trace"


@cache
def made(synthetic: Synthetic) -> Path:
    """Return the trace, drawn by this checkout's flowop. Raises UserError if that fails."""
    command = [place.built_flowop(), "generate", *synthetic.words()]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError(" ".join(done.stderr.split()))
    path = synthetic.path()
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, done.stdout)
    return path
