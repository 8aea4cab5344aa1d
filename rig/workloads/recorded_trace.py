# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab's own traces: `flowop check` reads one before it goes to a test host."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from joulerig.rig.common.errors import UserError
from joulerig.rig.workloads import place


def checked(path: Path) -> Path:
    """Return the path of a trace that can be replayed, and whose paths stay in the directory.

    Raises UserError with the trace's file and line.
    """
    found = path.stat()
    _check(path, found.st_mtime_ns, found.st_size)
    return path


@cache
def _check(path: Path, _modified_ns: int, _size: int) -> None:
    done = subprocess.run([place.built_flowop(), "check", path], capture_output=True, text=True)
    if done.returncode:
        raise UserError(" ".join(done.stderr.split()))
