# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign whose drive draws what a linear model says, through nine loads on two file systems."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.support import simulated_campaign

TRUE = {
    "active_watts": 2.0,
    "joules_per_read_byte": 2.2e-9,
    "joules_per_written_byte": 3.3e-9,
    "joules_per_request": 1.5e-5,
    "joules_per_flush": 1.2e-3,
}
ACCURACY = {"volts": {"gain_percent": 0.1, "offset": 0.002}, "amps": {"gain_percent": 0.2, "offset": 1e-4}}
# Bytes read, bytes written, bytes of a request, writes a flush (0: none), each a second.
LOADS = {
    "read-small": (2.4e8, 0.0, 4096, 0),
    "read-large": (1.2e9, 0.0, 131072, 0),
    "read-paced": (2e7, 0.0, 16384, 0),
    "write-small": (0.0, 1.8e8, 4096, 0),
    "write-large": (0.0, 7e8, 131072, 0),
    "mixed": (1.5e8, 1.5e8, 16384, 0),
    "sync-each": (0.0, 7.5e6, 8192, 1),
    "sync-16": (0.0, 7.5e7, 4096, 16),
    "sync-paced": (0.0, 1.5e6, 4096, 4),
}
DRIVE = "nvme-plp"


def build(
    folder: Path,
    *,
    loads: Mapping[str, tuple[float, float, int, int]] = LOADS,
    true: Mapping[str, float] = TRUE,
    scatter: float = 0.005,
    replicates: int = 3,
    **given: object,
) -> Path:
    """Make a results folder. `scatter`: of the energy of a run."""
    given = {"drives": (DRIVE,), "filesystems": ("ext4", "xfs"), "schedulers": ("none",), **given}
    given.setdefault("accuracy", ACCURACY)
    made = simulated_campaign.build(folder, workloads=tuple(loads), replicates=replicates, **given)
    rng = np.random.default_rng(5)
    with sqlite3.connect(made / "journal.sqlite") as database:
        for run, workload, filesystem in database.execute(
            "SELECT id, workload, filesystem FROM run"
        ).fetchall():
            _set(database, run, loads[workload], 1.35 if filesystem == "xfs" else 1.0, true, scatter, rng)
    return made


def _set(
    database: sqlite3.Connection,
    run: str,
    load: tuple[float, float, int, int],
    factor: float,
    true: Mapping[str, float],
    scatter: float,
    rng: np.random.Generator,
) -> None:
    seconds = simulated_campaign.PHASES["workload"]
    pace = 1 + 0.05 * rng.uniform(-1, 1)
    read, write, size, each = load
    reads, flushes = pace * read / size, pace * write / size / each if each else 0.0
    writes = pace * factor * write / size + flushes
    terms = (1.0, pace * read, pace * factor * write, reads + writes, flushes)
    watts = sum(value * term for value, term in zip(true.values(), terms, strict=True))
    joules = watts * seconds * (1 + scatter * rng.normal())
    database.execute(
        "UPDATE io SET reads = ?, read_bytes = ?, writes = ?, write_bytes = ?, flushes = ? WHERE run = ?",
        [round(seconds * one) for one in (reads, terms[1], writes, terms[2], flushes)] + [run],
    )
    database.execute(
        "UPDATE performance SET syncs = ?, write_bytes = ? WHERE run = ?",
        (round(seconds * flushes), round(seconds * pace * write), run),
    )
    database.execute(
        "UPDATE result SET joules = ?, corrected_joules = ?, joules_low = ?, joules_high = ? WHERE run = ?",
        (joules, joules, 0.99 * joules, 1.01 * joules, run),
    )
    database.execute(
        "UPDATE energy SET joules = ?, amp_seconds = ? / volt_seconds * ?, gap_low_joules = 0,"
        " gap_high_joules = 0, meter_joules = 0.003 * ? WHERE run = ? AND phase = 'workload'"
        " AND joules IS NOT NULL",
        (joules, joules, seconds, joules, run),
    )
