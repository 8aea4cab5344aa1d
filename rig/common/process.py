# SPDX-License-Identifier: GPL-3.0-or-later
"""A process by a name that no later one has."""

from __future__ import annotations

import socket
from pathlib import Path


def identity(pid: int) -> str:
    """Return "machine boot pid start" of a process. Raises ProcessLookupError where it ended."""
    start = _started(pid)
    if start is None:
        raise ProcessLookupError(pid)
    return f"{socket.gethostname()} {_boot()} {pid} {start}"


def is_alive(process: str) -> bool:
    """Check whether a process of `identity` is there; one of another machine counts as such."""
    machine, boot, pid, start = process.split()
    if machine != socket.gethostname():
        return True
    return boot == _boot() and _started(int(pid)) == start


def pid_here(process: str) -> int | None:
    """Return the pid of a process of `identity`; None for one of another machine."""
    machine, _, pid, _ = process.split()
    return int(pid) if machine == socket.gethostname() else None


def shown(process: str) -> str:
    """Return a process of `identity` for people."""
    machine, _, pid, _ = process.split()
    return f"process {pid} of {machine}"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _started(pid: int) -> str | None:
    """Return when a process started, in ticks since the boot; None where it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = text[text.rindex(")") + 2 :].split()
    return None if state in "ZX" else fields[18]
