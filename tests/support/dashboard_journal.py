# SPDX-License-Identifier: GPL-3.0-or-later
"""Journals as a campaign writes them, a transaction an event."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from joulerig.analysis.results import journal

SECOND = 1_000_000_000
T0 = 1_794_600_000 * SECOND
NAME = "demo-20261113-120000"
QUESTION = "Which file system and I/O scheduler do the most synced 4 KiB writes per joule?"


class WritableJournal:
    """The engine's side of a journal."""

    def __init__(
        self, results: Path, campaign: str, created_ns: int, *, virtual: bool = True, **more: Any
    ) -> None:
        self.folder = results / campaign
        self.folder.mkdir(parents=True)
        self.campaign = campaign
        self.database = sqlite3.connect(self.folder / "journal.sqlite", isolation_level=None)
        self.database.execute("PRAGMA journal_mode=WAL")
        journal.create_tables(self.database)
        lab = {"hosts": {"vhost1": {"arrays": {"hdd-array": {"members": ["hdd-1", "hdd-2", "hdd-3"]}}}}}
        self.insert(
            "campaign",
            id=campaign,
            name=more.get("name", "demo"),
            question=more.get("question", QUESTION),
            created_ns=created_ns,
            definition=json.dumps(more.get("definition", {})),
            lab=json.dumps(lab),
            virtual=int(virtual),
            provenance="{}",
        )
        self.event("created", created_ns, runs=0)

    def age(self, seconds: int = 60) -> None:
        """Have its files been written that long ago."""
        then = time.time_ns() - seconds * SECOND
        for file in self.folder.iterdir():
            os.utime(file, ns=(then, then))

    def close(self) -> None:
        self.database.close()

    def insert(self, table: str, **row: Any) -> None:
        marks = ",".join("?" * len(row))
        self.database.execute(f"INSERT INTO {table} ({','.join(row)}) VALUES ({marks})", list(row.values()))

    def event(self, event: str, time_ns: int, run: str | None = None, **detail: Any) -> None:
        self.insert("event", time_ns=time_ns, run=run, event=event, detail=json.dumps(detail))

    def plan(
        self,
        drives: Sequence[str] = ("nvme-plp",),
        filesystems: Sequence[str] = ("ext4", "xfs"),
        schedulers: Sequence[str] = ("none", "bfq"),
        workloads: Sequence[str] = ("randwrite-fsync",),
        replicates: int = 1,
        hosts: Sequence[str] = ("vhost1",),
        **factors: Any,
    ) -> list[str]:
        """Plan all combinations; gives the runs' ids."""
        planned = list(product(range(1, replicates + 1), hosts, drives, filesystems, schedulers, workloads))
        ids = [f"{self.campaign}-{number:04d}" for number in range(1, len(planned) + 1)]
        with self.database:
            self.database.execute("BEGIN")
            for number, (replicate, host, drive, filesystem, scheduler, workload) in enumerate(planned, 1):
                self.insert(
                    "run",
                    id=ids[number - 1],
                    ordinal=number,
                    block=replicate,
                    replicate=replicate,
                    host=host,
                    drive=drive,
                    filesystem=filesystem,
                    scheduler=scheduler,
                    workload=workload,
                    cell=f"{drive}/{filesystem}/{scheduler}/{workload}",
                    factors=json.dumps(
                        {
                            "drive": drive,
                            "filesystem": filesystem,
                            "scheduler": scheduler,
                            "workload": workload,
                            **factors,
                        }
                    ),
                    status="planned",
                )
        self.database.execute(
            "UPDATE event SET detail = ? WHERE event = 'created'", (json.dumps({"runs": len(ids)}),)
        )
        return ids

    def begin(self, run: str, time_ns: int) -> None:
        self.database.execute(
            "UPDATE run SET status = 'running', started_ns = ? WHERE id = ?", (time_ns, run)
        )
        self.event("status", time_ns, run, **{"from": "planned", "to": "running", "reason": ""})

    def end(
        self,
        run: str,
        time_ns: int,
        status: str = "ok",
        reason: str = "",
        ops: int = 0,
        joules: float | None = None,
        **bounds: float,
    ) -> None:
        """End a run.

        `ops` gives it 10 s of performance, `joules` an AI, `bounds` their interval.
        """
        with self.database:
            self.database.execute("BEGIN")
            self.database.execute(
                "UPDATE run SET status = ?, reason = ?, ended_ns = ? WHERE id = ?",
                (status, reason, time_ns, run),
            )
            if ops:
                self.insert(
                    "performance",
                    run=run,
                    seconds=10.0,
                    ops=ops,
                    read_bytes=0,
                    write_bytes=ops * 4096,
                    syncs=ops,
                    ops_per_second=ops / 10,
                    mb_per_second=ops * 4096 / 1e7,
                )
                self.insert(
                    "result",
                    run=run,
                    joules=joules,
                    mean_watts=joules and joules / 10,
                    ai_ops_per_joule=joules and ops / joules,
                    ai_mb_per_joule=joules and ops * 4096 / 1e6 / joules,
                    **bounds,
                )
            self.event("status", time_ns, run, **{"from": "running", "to": status, "reason": reason})

    def finish(self, time_ns: int) -> None:
        self.database.execute("UPDATE campaign SET finished_ns = ?", (time_ns,))
        self.event("finished", time_ns)
