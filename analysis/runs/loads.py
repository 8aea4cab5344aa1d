# SPDX-License-Identifier: GPL-3.0-or-later
"""Steady loads of a drive: request size, depth, rate and watts of a campaign's runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import IoCount, PhaseName

SMALL = 0.01
"""Of a load's requests, or of its bytes, so much of another kind changes nothing worth a row."""
DRIVE_SETS_PACE = 0.9
"""In what fraction of the phase a virtual drive must have set the pace for its times to show."""
SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
"""fio's engines that have one request under way a job, whatever iodepth says."""


@dataclass(frozen=True)
class Load:
    """What a run's workload phase asked of its drive, and what that did and drew.

    `operation`: read or write. `queue_depth`: requests under way at once; None where the load does
    not say, or where the drive did not set the pace. `watts`: by rail.
    """

    run: str
    operation: str
    request_bytes: int
    queue_depth: int | None
    bytes_per_second: float
    watts: dict[str, float]


def loads(campaign: Campaign, drive: str) -> tuple[list[Load], Counter[str]]:
    """Return the loads of a drive that are all reads or all writes, and why others are left out."""
    found: list[Load] = []
    left_out: Counter[str] = Counter()
    for run in campaign.without_controls.runs:
        if run.drive != drive:
            continue
        one = _load(run, drive)
        if isinstance(one, str):
            left_out[one] += 1
        else:
            found.append(one)
    return found, left_out


def _load(run: Run, drive: str) -> Load | str:
    """Return a run's load, or why it is none."""
    io = run.block_counts(drive)
    phase = run.phases.get(PhaseName.WORKLOAD)
    watts = {
        rail.rail: rail.corrected_joules / phase.seconds
        for rail in run.energy
        if phase and rail.phase == PhaseName.WORKLOAD and rail.drive == drive
        if rail.corrected_joules is not None
    }
    if not run.counts or io is None or phase is None or not watts:
        return "not measured to its end"
    return _of_requests(run, io, phase.seconds, watts)


def _of_requests(run: Run, io: IoCount, seconds: float, watts: dict[str, float]) -> Load | str:
    reads, writes, flushes = (io.reads or 0), (io.writes or 0), (io.flushes or 0)
    sizes = {"read": io.read_bytes or 0, "write": io.write_bytes or 0}
    operation = max(sizes, key=lambda kind: sizes[kind])
    requests = reads if operation == "read" else writes
    if flushes + (io.fua_writes or 0) > SMALL * requests:
        return "its flushes cost energy too"
    if requests == 0 or sum(sizes.values()) - sizes[operation] > SMALL * sizes[operation]:
        return "neither all reads nor all writes"
    share = run.result.device_bound_fraction if run.result else None
    paced = share is None or share >= DRIVE_SETS_PACE
    return Load(
        run.id,
        operation,
        round(sizes[operation] / requests),
        _queue_depth(run.load) if paced else None,
        sizes[operation] / seconds,
        watts,
    )


def _queue_depth(report: Mapping[str, Any]) -> int | None:
    """Return how many requests a fio load had under way; None of any other."""
    jobs = [job.get("job options") for job in report.get("jobs") or [] if isinstance(job, Mapping)]
    if not jobs or not all(isinstance(job, Mapping) for job in jobs):
        return None
    depths = [
        1 if job.get("ioengine", "psync") in SYNCHRONOUS else int(job.get("iodepth", 1))
        for job in jobs
        if job
    ]
    return sum(depths)
