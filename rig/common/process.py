# SPDX-License-Identifier: GPL-3.0-or-later
"""Identify a process so that no other one, on whichever machine, is mistaken for it."""

from __future__ import annotations

import hashlib
import os
import re
import select
import socket
from dataclasses import astuple, dataclass
from pathlib import Path

from joulerig.analysis.results.phases import STEP_NS
from joulerig.rig.common import host_library

host_library.find()

from ansible.module_utils.joulerig.clocks import offset  # noqa: E402

MACHINE_ID = Path("/etc/machine-id")
UNKNOWN = "-"  # the machine, where its id may be another's as well
# The namespace of the pids of a machine itself (PROC_PID_INIT_INO of <linux/proc_ns.h>): all others
# are of containers, which may have their image's machine-id, or none.
OF_THE_MACHINE = "4026531836"
# A journal may come from another machine, with whatever is in it.
_FORM = re.compile(r"[\w.-]{1,64} ([0-9a-f]{16}|-) [0-9a-f-]{36} \d{1,19} \d{1,10} \d{1,19}", re.ASCII)


@dataclass(frozen=True)
class _Process:
    """The parts of an identity. `host`: the machine's name, for people alone."""

    host: str
    machine: str
    boot: str
    namespace: str
    pid: str
    start: str

    @property
    def place(self) -> tuple[str, str, str]:
        """Return where its pid is looked up."""
        return self.machine, self.boot, self.namespace


def identity(pid: int) -> str:
    """Return "host machine boot namespace pid start" of a process.

    Raises ProcessLookupError if it has ended.
    """
    start = _started(pid)
    if start is None:
        raise ProcessLookupError(pid)
    host = re.sub(r"[^\w.-]", "-", socket.gethostname() or UNKNOWN, flags=re.ASCII)
    return " ".join(astuple(_Process(host, *_place(), str(pid), start)))


def is_alive(process: str) -> bool | None:
    """Check whether a process of `identity` is alive; None: it can't be seen from here."""
    parts = _parts(process)
    if parts is None or parts.place != _place():
        return None
    return _started(int(parts.pid)) == parts.start


def is_of_earlier_boot(process: str) -> bool:
    """Check whether a process of `identity` ran before this machine booted."""
    parts = _parts(process)
    machine, boot, _ = _place()
    return parts is not None and parts.machine == machine != UNKNOWN and parts.boot != boot


def may_be_here(process: str) -> bool:
    """Check whether a process of `identity` may run here: another machine's id excludes it."""
    parts = _parts(process)
    return parts is None or UNKNOWN in (parts.machine, _machine()) or parts.machine == _machine()


def pid_here(process: str) -> int | None:
    """Return the pid of a process of `identity`; None if it can't be seen from here."""
    parts = _parts(process)
    return int(parts.pid) if parts is not None and parts.place == _place() else None


def is_stopped(pid: int) -> bool:
    """Check whether a signal or a debugger has stopped a process."""
    return (_fields(pid) or [""])[0] in ("T", "t")


def has_ended(descriptor: int, seconds: float = 0.0) -> bool:
    """Wait so long for the end of the process of a pidfd; return whether it came."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def shown(process: str) -> str:
    """Return a process of `identity` for people."""
    parts = _parts(process)
    return f"process {parts.pid} of {parts.host}" if parts else "an unknown process"


def machine() -> str:
    """Return this machine by a name that no other has, whatever its host name is.

    Without an id that is the machine's alone it lasts until the next boot.
    """
    known, boot, _ = _place()
    return hashlib.sha256(f"joulerig {known} {boot if known == UNKNOWN else ''}".encode()).hexdigest()[:16]


def boot_ns() -> int:
    """Return when this machine booted, by its clock, UTC: it moves where that clock is set."""
    return offset.booted_ns()


class ClockWatch:
    """Watch this machine's clock, from now on, for being set; slewing is no step."""

    def __init__(self) -> None:
        self._booted_ns = boot_ns()

    def step_ns(self) -> int:
        """Return how far the clock was set forward; 0 within the error of a measurement."""
        step = boot_ns() - self._booted_ns
        return step if abs(step) > STEP_NS else 0


def _parts(process: str) -> _Process | None:
    return _Process(*process.split(" ")) if _FORM.fullmatch(process) else None


def _place() -> tuple[str, str, str]:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return _machine(), boot, _namespace()


def _machine() -> str:
    """Return a hash of the machine's id, which is not for the eyes of others; else UNKNOWN."""
    try:
        number = MACHINE_ID.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return UNKNOWN
    if not re.fullmatch("[0-9a-f]{32}", number) or _namespace() != OF_THE_MACHINE:
        return UNKNOWN
    return hashlib.sha256(f"joulerig {number}".encode()).hexdigest()[:16]


def _namespace() -> str:
    return re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))


def _started(pid: int) -> str | None:
    """Return when a process started, in ticks since the boot; None if it has ended."""
    fields = _fields(pid)
    return None if fields is None or fields[0] in "ZX" else fields[19]


def _fields(pid: int) -> list[str] | None:
    """Return the state of a process and what follows it in /proc/PID/stat; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()
