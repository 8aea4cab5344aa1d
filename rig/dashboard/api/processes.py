# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rig itself costs: processor time, memory and, where it is measured, watts.

A service is a process and its descendants: powerd's capturers are powerd's cost. RAPL measures
processor packages, of whatever runs there: a service's watts are its share of them by processor
time, which is an attribution and no measurement of that service.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig.rig.controller.services import PROCESSES

CAMPAIGN = "campaign "  # how the name of a campaign's executor begins
LEAST_SECONDS = 0.5  # between two readings that are compared
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
NO_RAPL = "this machine has no RAPL counter"
FIRST = "the counter has been read once"


@dataclass(frozen=True)
class _Process:
    parent: int
    ticks: int  # of processor time
    started: int  # ticks since the boot
    rss_bytes: int


@dataclass(frozen=True)
class _Reading:
    at: float
    ticks: Mapping[tuple[str, int], int]  # by service and start of its process
    busy_ticks: int
    joules: Mapping[str, float]  # by package


class Processes:
    """The rig's services, by name and pid (`pids`), on this machine."""

    def __init__(
        self,
        pids: Callable[[], Mapping[str, int]],
        proc: Path = Path("/proc"),
        powercap: Path = Path("/sys/class/powercap"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pids, self._proc, self._powercap, self._clock = pids, proc, powercap, clock
        self._last: _Reading | None = None
        self._found: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        """Return {"machine": {...}, "services": [...]}, over the time since the last reading.

        At the first one a service's processor time is that since its start.
        """
        now, last = self._clock(), self._last
        if last is not None and now - last.at < LEAST_SECONDS:
            return self._found
        processes = dict(self._processes())
        uptime_ticks = float((self._proc / "uptime").read_text().split()[0]) * TICKS
        joules, why = self._joules()
        ticks: dict[tuple[str, int], int] = {}
        services = []
        for name, pid in sorted(self._pids().items()):
            if pid not in processes:
                continue
            tree = [processes[one] for one in _tree(pid, processes)]
            key = name, processes[pid].started
            ticks[key] = sum(one.ticks for one in tree)
            services.append((name, pid, key, sum(one.rss_bytes for one in tree)))
        reading = _Reading(now, ticks, self._busy_ticks(), joules)
        package_watts, why = _package_watts(last, reading, why)
        busy = None if last is None else (reading.busy_ticks - last.busy_ticks) / TICKS / (now - last.at)
        shown = []
        for name, pid, key, rss_bytes in services:
            before = last.ticks.get(key) if last else None
            if before is None:
                seconds = max(uptime_ticks - key[1], 1) / TICKS
                fraction = ticks[key] / TICKS / seconds
            else:
                assert last is not None
                seconds = now - last.at
                fraction = max(ticks[key] - before, 0) / TICKS / seconds
            watts = package_watts * fraction / busy if package_watts and busy and before is not None else None
            shown.append(
                {
                    "name": name,
                    "part": "rig" if name in PROCESSES or name.startswith(CAMPAIGN) else "virtual lab",
                    "pid": pid,
                    "cpu_fraction": fraction,
                    "over_seconds": seconds,
                    "rss_bytes": rss_bytes,
                    "watts": watts,
                }
            )
        self._last = reading
        self._found = {
            "machine": {
                "processors": os.cpu_count(),
                "cpu_fraction": busy,
                "package_watts": package_watts,
                "why": why,
            },
            "services": shown,
        }
        return self._found

    def _processes(self) -> Iterator[tuple[int, _Process]]:
        for folder in self._proc.glob("[0-9]*"):
            try:
                text = (folder / "stat").read_text()
            except OSError:  # it has ended
                continue
            fields = text[text.rindex(")") + 2 :].split()
            yield (
                int(folder.name),
                _Process(
                    parent=int(fields[1]),
                    ticks=int(fields[11]) + int(fields[12]),
                    started=int(fields[19]),
                    rss_bytes=int(fields[21]) * PAGE,
                ),
            )

    def _busy_ticks(self) -> int:
        """Return the time in which processors worked, all together, but not for another guest."""
        user, nice, system, _, _, irq, softirq, *_ = map(
            int, (self._proc / "stat").read_text().splitlines()[0].split()[1:]
        )
        return user + nice + system + irq + softirq

    def _joules(self) -> tuple[dict[str, float], str]:
        """Return what the packages' counters stand at; where none can be read, why."""
        found: dict[str, float] = {}
        why = NO_RAPL
        for zone in sorted(self._powercap.glob("intel-rapl:*")):
            try:
                if (zone / "name").read_text().startswith("package"):
                    found[zone.name] = int((zone / "energy_uj").read_text()) / 1e6
            except OSError as error:
                why = f"RAPL cannot be read: {error.strerror}"
        return found, "" if found else why


def _tree(pid: int, processes: Mapping[int, _Process]) -> Iterator[int]:
    """Yield a process and its descendants."""
    children: dict[int, list[int]] = {}
    for one, process in processes.items():
        children.setdefault(process.parent, []).append(one)
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += children.get(one, [])


def _package_watts(last: _Reading | None, now: _Reading, why: str) -> tuple[float | None, str]:
    """Return the watts of all packages since the last reading; None and why where not known."""
    if why or last is None:
        return None, why or FIRST
    if last.joules.keys() != now.joules.keys() or any(
        joules < last.joules[zone] for zone, joules in now.joules.items()
    ):
        return None, "the counter began again"  # it does every few minutes to hours
    return sum(now.joules[zone] - last.joules[zone] for zone in now.joules) / (now.at - last.at), ""
