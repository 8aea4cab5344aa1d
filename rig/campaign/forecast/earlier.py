# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier runs took, from the journals of a results folder."""

from __future__ import annotations

import json
import sqlite3
import statistics
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joulerig.analysis.results import journal as journals
from joulerig.analysis.results.schema import WORKED, CampaignKind, EventKind, PhaseName
from joulerig.errors import UNREADABLE
from joulerig.garbage import none_collected
from joulerig.rig.campaign import factors
from joulerig.rig.campaign.definition import PlannedRun
from joulerig.rig.lab.kernels import INSTALLED
from joulerig.rig.lab.model import Lab

MOST_JOURNALS = 50  # the newest ones
MOST_RUNS = 5_000  # of all of them together

DECIDING = ("filesystem", "workload", "fill", "age")  # factors that decide how long a run takes
KIND = ("interface", "size_bytes", "model", "profile")  # keys of a drive

Group = tuple[Any, ...]


@dataclass(frozen=True)
class Subject:
    """What decides how long a run takes and how much it writes.

    Drives by serial, and by what drives of a kind have in common; `filled`: the fraction that other
    data filled, and how often they did; `use_bytes`: how much of them was used, None where all.
    """

    drives: tuple[str, ...]
    kinds: tuple[Group, ...]
    filesystem: str
    workload: str
    filled: tuple[str, str]
    use_bytes: int | None

    @classmethod
    def of_run(
        cls,
        drives: Iterable[Mapping[str, Any]],
        levels: Mapping[str, str],
        use_bytes: int | None,
    ) -> Subject:
        members = list(drives)
        return cls(
            tuple(one["serial"] for one in members),
            tuple(tuple(one.get(key) for key in KIND) for one in members),
            levels["filesystem"],
            levels["workload"],
            (levels.get("fill", "0"), levels.get("age", "0")),
            use_bytes,
        )

    def groups(self) -> tuple[Group, ...]:
        """Return the groups of runs that it is of, those most like it first."""
        filled = self.filled, self.use_bytes
        return (
            (self.drives, self.filesystem, self.workload, *filled),
            (self.drives, self.workload, *filled),
            (self.kinds, self.filesystem, self.workload, *filled),
            (self.kinds, self.workload, *filled),
        )


@dataclass(frozen=True)
class Sample:
    """An earlier run. What its journal does not have is None.

    `outside_seconds`: outside the phases whose length its campaign declared, without boots and
    preconditioning; `booted`: whether a boot is in it all the same. `watts`: mean power of its
    drives over all phases. `work_per_joule`: AI.
    """

    campaign: str
    subject: Subject
    levels: tuple[tuple[str, str], ...]
    outside_seconds: float
    booted: bool
    load_seconds: float
    asked_seconds: float
    precondition_seconds: float | None
    bytes_per_second: float | None
    watts: float | None
    work_per_joule: float | None


@dataclass
class Earlier:
    """Earlier runs, by group."""

    samples: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._groups: dict[Group, list[Sample]] = {}
        self._medians: dict[tuple[Group, str], float | None] = {}
        for sample in self.samples:
            for group in sample.subject.groups():
                self._groups.setdefault(group, []).append(sample)

    def alike(self, subject: Subject) -> list[Sample]:
        """Return the earlier runs most like `subject`'s; empty where there is none."""
        return next((self._groups[one] for one in subject.groups() if one in self._groups), [])

    def median(self, subject: Subject, figure: str) -> float | None:
        """Return the median of a figure of the runs most like `subject`'s that have it."""
        for group in subject.groups():
            if group not in self._groups:
                continue
            if (group, figure) not in self._medians:
                self._medians[group, figure] = _median(self._groups[group], figure)
            if (found := self._medians[group, figure]) is not None:
                return found
        return None

    def boot_seconds(self) -> float | None:
        """Return how much longer the runs took before which the host booted another kernel."""
        booted = [one.outside_seconds for one in self.samples if one.booted]
        others = [one.outside_seconds for one in self.samples if not one.booted]
        if not booted or not others:
            return None
        return max(0.0, statistics.median(booted) - statistics.median(others))

    def precondition_seconds(self, serial: str) -> float | None:
        """Return the median of the seconds that a drive's preconditioning took."""
        found = [
            one.precondition_seconds
            for one in self.samples
            if one.precondition_seconds is not None and one.subject.drives[:1] == (serial,)
        ]
        return statistics.median(found) if found else None


def _median(samples: list[Sample], figure: str) -> float | None:
    usable = [one for one in samples if not (one.booted and figure == "outside_seconds")]
    found = [value for one in usable if (value := getattr(one, figure)) is not None]
    return statistics.median(found) if found else None


def subject_of(run: PlannedRun, lab: Lab, use_bytes: int | None) -> Subject:
    """Return what decides how long a planned run takes."""
    names = lab.member_drives(run.host, *factors.stands_on(run.drive, run.levels))
    drives = [lab.hosts[run.host].drives[name].model_dump() for name in names]
    return Subject.of_run(drives, run.levels, use_bytes)


@none_collected()
def read(results: Path, drives: Iterable[str], workloads: Iterable[str]) -> Earlier:
    """Return the newest earlier runs of these drives (or arrays) and workloads that worked.

    A journal that cannot be read is left out.
    """
    found: list[Sample] = []
    wanted = list(drives), list(workloads)
    paths = sorted(results.glob(f"*/{journals.FILE}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in paths[:MOST_JOURNALS]:
        if len(found) >= MOST_RUNS:
            break
        try:
            with closing(journals.connect(path)) as database:
                database.row_factory = sqlite3.Row
                with journals.snapshot(database) as journal:
                    found += _samples(journal, *wanted, MOST_RUNS - len(found))
        except (journals.JournalError, sqlite3.DatabaseError, *UNREADABLE):
            continue
    return Earlier(found)


def _samples(
    journal: sqlite3.Connection, drives: list[str], workloads: list[str], most: int
) -> Iterator[Sample]:
    campaign = journal.execute("SELECT * FROM campaign").fetchone()
    if campaign is None or campaign["kind"] != CampaignKind.MEASUREMENT:
        return
    definition = json.loads(campaign["definition"])
    phases = definition.get("phases") or {}
    hosts = json.loads(campaign["lab"]).get("hosts") or {}
    chosen = (
        f"status IN ({_marks(WORKED)}) AND drive IN ({_marks(drives)}) AND workload IN ({_marks(workloads)})"
        " AND started_ns < ended_ns ORDER BY ordinal DESC LIMIT ?"
    )
    values = [*WORKED, *drives, *workloads, most]
    runs = journal.execute(f"SELECT * FROM run WHERE {chosen}", values).fetchall()
    ids = f"run IN (SELECT id FROM run WHERE {chosen})"

    def by_run(columns: str, table: str, more: str = "") -> dict[str, list[sqlite3.Row]]:
        rows: dict[str, list[sqlite3.Row]] = {}
        for row in journal.execute(f"SELECT run, {columns} FROM {table} WHERE {ids} {more}", values):
            rows.setdefault(row["run"], []).append(row)
        return rows

    lengths = by_run("phase, (end_ns - start_ns) / 1e9 AS seconds", "phase")
    written = by_run("source, write_bytes", "io", "AND source IN ('host', 'iod')")
    done = by_run("write_bytes", "performance")
    joules = by_run("sum(joules) AS joules, count(*) - count(joules) AS lacks", "energy", "GROUP BY run")
    indicators = by_run("ai_ops_per_joule AS ai", "result")
    noted = by_run("time_ns, detail", "event", f"AND event = '{EventKind.PRECONDITIONING}' ORDER BY seq")
    booted = _booted(journal)
    for run in runs:
        levels = {name: str(level) for name, level in json.loads(run["factors"]).items() if name != "drive"}
        members = _members(hosts.get(run["host"]) or {}, factors.stands_on(run["drive"], levels))
        seconds = {row["phase"]: row["seconds"] for row in lengths.get(run["id"], ())}
        if not members or PhaseName.WORKLOAD not in seconds:
            continue
        load = seconds[PhaseName.WORKLOAD]
        declared = sum(seconds.get(name, 0.0) for name in (PhaseName.IDLE, PhaseName.TAIL))
        declared += load + phases.get("rest_seconds", 0)
        preconditioned = _precondition_seconds(noted.get(run["id"], []))
        whole = (run["ended_ns"] - run["started_ns"]) / 1e9 - (preconditioned or 0.0)
        counts = {row["source"]: row["write_bytes"] for row in written.get(run["id"], ())}
        of_load = next((row["write_bytes"] for row in done.get(run["id"], ())), None)
        amount = next(
            (one for one in (counts.get("iod"), counts.get("host"), of_load) if one is not None), None
        )
        energy = next(iter(joules.get(run["id"], ())), None)
        measured = energy["joules"] if energy is not None and not energy["lacks"] else None
        yield Sample(
            campaign=campaign["id"],
            subject=Subject.of_run(members, levels, definition.get("use_bytes")),
            levels=tuple(sorted(levels.items())),
            outside_seconds=max(0.0, whole - declared),
            booted=run["id"] in booted,
            load_seconds=load,
            asked_seconds=float(levels.get("run_seconds") or phases.get("workload_seconds") or load),
            precondition_seconds=preconditioned,
            bytes_per_second=amount / load if amount is not None and load > 0 else None,
            watts=measured / sum(seconds.values()) if measured else None,
            work_per_joule=next((row["ai"] for row in indicators.get(run["id"], ())), None),
        )


def _marks(values: Iterable[Any]) -> str:
    return ", ".join("?" for _ in values)


def _members(host: Mapping[str, Any], names: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return the drives that these consist of, as the journal's lab had them; empty if unknown."""
    drives, arrays = host.get("drives") or {}, host.get("arrays") or {}
    members = [m for name in names for m in (arrays[name]["members"] if name in arrays else [name])]
    return [drives[name] for name in members] if all(name in drives for name in members) else []


def _booted(journal: sqlite3.Connection) -> set[str]:
    """Return the runs before which the host booted another kernel than the run before."""
    found: set[str] = set()
    now: dict[str, str] = {}
    rows = journal.execute(
        "SELECT id, host, coalesce(json_extract(factors, '$.kernel'), ?) AS kernel FROM run"
        " WHERE started_ns IS NOT NULL AND json_extract(factors, '$.kernel') IS NOT NULL ORDER BY ordinal",
        (INSTALLED,),
    )
    for row in rows:
        if row["kernel"] != now.get(row["host"], INSTALLED):
            found.add(row["id"])
        now[row["host"]] = row["kernel"]
    return found


def _precondition_seconds(events: list[sqlite3.Row]) -> float | None:
    """Return the time between the events "begun" and "ended" of a run's preconditioning."""
    at = {json.loads(row["detail"]).get("precondition"): row["time_ns"] for row in events}
    return (at["ended"] - at["begun"]) / 1e9 if {"begun", "ended"} <= at.keys() else None
