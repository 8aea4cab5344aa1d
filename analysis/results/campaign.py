# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a campaign's results folder: its journal, and what each run left beside it. Writes nothing."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from joulerig.analysis.energy import meters
from joulerig.analysis.energy.indicator import moved
from joulerig.analysis.energy.interval import EnergyBudget
from joulerig.errors import JoulerigError

JOURNAL = "journal.sqlite"
JOURNAL_VERSION = 5
PRECONDITION_FILE = "precondition.json"  # in a run's folder
STATUSES = ("planned", "running", "ok", "partial", "failed", "lost", "not-run")
FINISHED = ("ok", "partial", "failed", "lost", "not-run")


class ResultsError(JoulerigError):
    """A results folder that cannot be read; the message is one line that names it."""


@dataclass(frozen=True)
class Phase:
    """An interval of a run, on the controller's clock."""

    phase: str
    start_ns: int
    end_ns: int
    clock_offset_ns: int
    clock_error_ns: int

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) * 1e-9


@dataclass(frozen=True)
class Performance:
    """What the workload reported of its phase; None where its report does not tell.

    `unit`: what one of the ops is. `figure`: the figure of merit of a program of others, named and with a
    unit; `figure_better`: higher or lower.
    """

    seconds: float
    ops: int
    read_bytes: int | None
    write_bytes: int | None
    syncs: int | None
    ops_per_second: float
    mb_per_second: float | None
    latency_p50_seconds: float | None
    latency_p99_seconds: float | None
    unit: str = "operation"
    figure_name: str | None = None
    figure_unit: str | None = None
    figure: float | None = None
    figure_better: str | None = None

    @property
    def bytes_moved(self) -> int | None:
        return moved(self.read_bytes, self.write_bytes)


@dataclass(frozen=True)
class RailEnergy:
    """Of one rail over one phase; `joules` None without a measurement, `true_joules` on the virtual lab
    alone. From `joules_low` on: analysis.energy.interval.IntervalEnergy's; None where it is not known, in a
    journal of version 1 nowhere.
    """

    phase: str
    meter: str
    rail: str
    drive: str
    joules: float | None
    true_joules: float | None
    samples: int
    expected: int
    lost: int
    gap_seconds: float
    joules_low: float | None = None
    joules_high: float | None = None
    gap_low_joules: float | None = None
    gap_high_joules: float | None = None
    interpolation_joules: float | None = None
    alignment_joules: float | None = None
    product_joules: float | None = None
    meter_joules: float | None = None
    volt_seconds: float | None = None
    amp_seconds: float | None = None
    duplicate: int | None = None
    repeated: int | None = None
    surplus: int | None = None
    worst_gap_seconds: float | None = None

    @property
    def unaccounted(self) -> int | None:
        """Samples expected that no column of the ledger has; 0 where it balances, None where parts are not
        known.
        """
        if self.duplicate is None or self.repeated is None:
            return None
        return self.expected - self.samples - self.lost - self.duplicate - self.repeated

    @property
    def budget(self) -> EnergyBudget:
        return EnergyBudget(
            self.gap_low_joules,
            self.gap_high_joules,
            self.interpolation_joules,
            self.alignment_joules,
            self.meter_joules,
            self.product_joules,
        )


@dataclass(frozen=True)
class Result:
    """Work per joule of a run's workload phase."""

    joules: float | None
    true_joules: float | None
    error_percent: float | None
    mean_watts: float | None
    ai_ops_per_joule: float | None
    ai_mb_per_joule: float | None
    joules_low: float | None = None
    joules_high: float | None = None
    device_bound_fraction: float | None = None
    cpu_joules: float | None = None

    @property
    def truth_within(self) -> bool | None:
        """Whether the true joules lie from low to high; None where one of the three is not known."""
        if None in (self.true_joules, self.joules_low, self.joules_high):
            return None
        return self.joules_low <= self.true_joules <= self.joules_high


@dataclass(frozen=True)
class IoCount:
    """Counters over the workload phase, by who counted: iod, twin or host."""

    source: str
    reads: int | None
    read_bytes: int | None
    writes: int | None
    write_bytes: int | None
    flushes: int | None
    discards: int | None
    fua_writes: int | None
    journal_transactions: int | None


@dataclass(frozen=True)
class Run:
    """One execution of a cell. Parts that the run did not come to are None or empty."""

    id: str
    ordinal: int
    block: int
    replicate: int
    host: str
    drive: str
    filesystem: str
    scheduler: str
    workload: str
    cell: str
    factors: dict[str, Any]
    status: str
    reason: str
    started_ns: int | None
    ended_ns: int | None
    folder: Path
    phases: dict[str, Phase]
    performance: Performance | None
    energy: tuple[RailEnergy, ...]
    result: Result | None
    io: dict[str, IoCount]

    @property
    def counts(self) -> bool:
        """Whether the run enters its cell's AI: it is ok, with performance and joules to divide by."""
        return self._worked and self.result is not None and (self.result.joules or 0.0) > 0

    @property
    def unmetered(self) -> bool:
        """Whether the run is ok with performance alone: no drive of it has a rail."""
        return self._worked and (self.result is None or self.result.joules is None)

    @property
    def _worked(self) -> bool:
        return self.status == "ok" and self.performance is not None and self.performance.seconds > 0

    @cached_property
    def precondition(self) -> dict[str, Any]:
        """`precondition.json`: how its drive came to its state; empty where none was asked for. Raises
        ResultsError.

        reused, why, by (a run), recipe, verdict, and, where it was made for this run, stretches of rounds.
        """
        return _json_file(self.folder / PRECONDITION_FILE)

    @cached_property
    def load(self) -> dict[str, Any]:
        """`load.json`: the load's own report; empty where the run left none. Raises ResultsError."""
        return _json_file(self.folder / "load.json")

    @cached_property
    def seeks(self) -> dict[str, Any]:
        """By drive: requests, seeks, distance_bytes; empty where nobody counted them. Raises ResultsError."""
        return (_json_file(self.folder / "result.json").get("seeks") or {}).get("drives") or {}

    @cached_property
    def free_nids(self) -> dict[str, Any]:
        """Of f2fs: syncs, scans and their seconds by the kernel's trace, or `why` there are none; empty where
        nobody asked. Raises ResultsError.
        """
        return _json_file(self.folder / "result.json").get("free_nids") or {}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """`settings.json`: what was in effect; empty where the run left none. Raises ResultsError."""
        return _json_file(self.folder / "settings.json")


@dataclass(frozen=True)
class Campaign:
    """A campaign as its journal had it at one instant. `tables`: the journal's tables, unchanged."""

    folder: Path
    id: str
    name: str
    question: str
    created_ns: int
    finished_ns: int | None
    definition: dict[str, Any]
    lab: dict[str, Any]
    virtual: bool
    provenance: dict[str, Any]
    runs: tuple[Run, ...]
    tables: dict[str, pl.DataFrame]

    @property
    def revision(self) -> str | None:
        """The git revision of the code that ran; None where none was recorded."""
        return meters.at(self.provenance, "controller").get("revision") or self.provenance.get("git_revision")

    def drives(self, run: Run) -> list[str]:
        """The drives that a run stood on: its own or its array's members, and an external journal's."""
        own = meters.at(self.lab, "hosts", run.host, "arrays", run.drive).get("members", [run.drive])
        journal = run.factors.get("journal", "internal")
        return [*own, *([journal] if journal != "internal" else [])]

    def emulated(self, run: Run) -> dict[str, str]:
        """Those of a run's drives that something plays, and what: "scsi_debug, 8 ms a request"."""
        known = meters.at(self.provenance, "emulated", run.host)
        return {drive: known[drive] for drive in self.drives(run) if drive in known}

    def cells(self) -> dict[str, list[Run]]:
        """Runs by cell, in the order in which the cells first come up."""
        cells: dict[str, list[Run]] = {}
        for run in self.runs:
            cells.setdefault(run.cell, []).append(run)
        return cells


def load(folder: Path | str) -> Campaign:
    """The campaign in `folder`, read-only, as of one instant: also while it runs.

    Raises
    ------
    ResultsError
        No folder or journal there; not SQLite, or not a journal of this project; a version that this program
        does not know; no campaign in it.
    """
    folder = Path(folder)
    journal = folder / JOURNAL
    if not folder.is_dir():
        raise ResultsError(f"{folder}: no such folder; results/<campaign-id> is meant")
    if not journal.is_file():
        raise ResultsError(f"{folder}: no {JOURNAL} in it: not the results folder of a campaign")
    try:
        rows = _read(journal)
    except sqlite3.DatabaseError as error:
        raise ResultsError(f"{journal}: cannot be read as a journal: {error}") from None
    if not rows["campaign"]:
        raise ResultsError(f"{journal}: the journal holds no campaign")
    try:
        return _campaign(folder, rows)
    except json.JSONDecodeError as error:
        raise ResultsError(f"{journal}: a column that holds JSON does not: {error}") from None


_TABLES = ("campaign", "run", "phase", "performance", "energy", "result", "io", "event")
_ORDER = {"run": "ordinal", "phase": "start_ns", "event": "seq"}


def _read(journal: Path) -> dict[str, list[dict[str, Any]]]:
    database = connect(journal)
    database.row_factory = sqlite3.Row
    try:
        # One transaction: a campaign that runs goes on writing, and tables of two instants would contradict.
        database.execute("BEGIN")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        present = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if version > JOURNAL_VERSION:
            raise ResultsError(
                f"{journal}: journal version {version}, this program reads {JOURNAL_VERSION}:"
                " a newer one wrote it; update this checkout"
            )
        missing = [name for name in _TABLES if name not in present]
        if missing or version < 1:
            lacks = f"no table {missing[0]!r}" if missing else f"user_version {version}"
            raise ResultsError(f"{journal}: not a journal of a campaign: {lacks}")
        return {
            name: [
                dict(row)
                for row in database.execute(f"SELECT * FROM {name} ORDER BY {_ORDER.get(name, 'rowid')}")
            ]
            for name in _TABLES
        }
    finally:
        database.close()


def connect(journal: Path) -> sqlite3.Connection:
    """A journal, read-only. Raises sqlite3.DatabaseError."""
    uri = f"file:{quote(str(journal.absolute()))}?mode=ro"
    database = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)
    try:
        database.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        database.close()
        # A WAL journal in a folder that cannot be written (an archive, another user's): SQLite cannot make
        # its shared memory there. Nobody else can write either, so without a log beside it the file is all
        # there is.
        if Path(f"{journal}-wal").exists():
            raise
        database = sqlite3.connect(f"{uri}&immutable=1", uri=True, isolation_level=None)
    return database


def _campaign(folder: Path, rows: dict[str, list[dict[str, Any]]]) -> Campaign:
    head = rows["campaign"][0]
    of_run: dict[str, dict[str, list[dict[str, Any]]]] = {
        name: {} for name in ("phase", "performance", "energy", "result", "io")
    }
    for name, by_run in of_run.items():
        for row in rows[name]:
            by_run.setdefault(row["run"], []).append(row)

    def parts(name: str, kind: type, run: str) -> list[Any]:
        names = [field.name for field in fields(kind)]
        return [
            kind(**{key: row[key] for key in names if key in row})  # what its version has
            for row in of_run[name].get(run, [])
        ]

    runs = []
    for row in rows["run"]:
        run = row["id"]
        runs.append(
            Run(
                **{**row, "factors": json.loads(row["factors"])},
                folder=folder / "runs" / run,
                phases={phase.phase: phase for phase in parts("phase", Phase, run)},
                performance=next(iter(parts("performance", Performance, run)), None),
                energy=tuple(parts("energy", RailEnergy, run)),
                result=next(iter(parts("result", Result, run)), None),
                io={count.source: count for count in parts("io", IoCount, run)},
            )
        )
    return Campaign(
        folder=folder,
        id=head["id"],
        name=head["name"],
        question=head["question"],
        created_ns=head["created_ns"],
        finished_ns=head["finished_ns"],
        definition=json.loads(head["definition"]),
        lab=json.loads(head["lab"]),
        virtual=bool(head["virtual"]),
        provenance=json.loads(head["provenance"]),
        runs=tuple(runs),
        tables={name: pl.DataFrame(rows[name], infer_schema_length=None) for name in _TABLES},
    )


def _json_file(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise ResultsError(f"{path}: a JSON {type(content).__name__} where an object is expected")
    return content
