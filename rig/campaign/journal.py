# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's journal: every run with its status, in SQLite; what is in it survives the controller."""

from __future__ import annotations

import fcntl
import json
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.common.sqlite import transaction

SCHEMA = Path(__file__).parent / "journal.sql"
VERSION = 5
# Columns of `energy` in version 2.
ENERGY_2 = (
    "run, phase, meter, rail, drive, joules, true_joules, samples, expected, lost, gap_seconds, joules_low,"
    " joules_high, gap_low_joules, gap_high_joules, interpolation_joules, alignment_joules, product_joules,"
    " meter_joules, volt_seconds, amp_seconds, duplicate, repeated, surplus, worst_gap_seconds"
)
# Columns of `performance` before version 4.
PERFORMANCE_3 = (
    "run, seconds, ops, read_bytes, write_bytes, syncs, ops_per_second, mb_per_second, latency_p50_seconds,"
    " latency_p99_seconds"
)
# What brings a journal of the version before to the next one.
UPGRADES = {
    1: [
        *(
            f"ALTER TABLE energy ADD COLUMN {name} REAL"
            for name in (
                "joules_low",
                "joules_high",
                "gap_low_joules",
                "gap_high_joules",
                "interpolation_joules",
                "alignment_joules",
                "product_joules",
                "meter_joules",
                "volt_seconds",
                "amp_seconds",
            )
        ),
        *(f"ALTER TABLE energy ADD COLUMN {name} INTEGER" for name in ("duplicate", "repeated", "surplus")),
        "ALTER TABLE energy ADD COLUMN worst_gap_seconds REAL",
        "ALTER TABLE result ADD COLUMN joules_low REAL",
        "ALTER TABLE result ADD COLUMN joules_high REAL",
    ],
    # SQLite changes no primary key in place.
    2: [
        "ALTER TABLE energy RENAME TO energy_before",
        """CREATE TABLE energy (
          run TEXT NOT NULL REFERENCES run(id), phase TEXT NOT NULL, meter TEXT NOT NULL, rail TEXT NOT NULL,
          drive TEXT NOT NULL, joules REAL, true_joules REAL, samples INTEGER NOT NULL,
          expected INTEGER NOT NULL, lost INTEGER NOT NULL, gap_seconds REAL NOT NULL, joules_low REAL,
          joules_high REAL, gap_low_joules REAL, gap_high_joules REAL, interpolation_joules REAL,
          alignment_joules REAL, product_joules REAL, meter_joules REAL, volt_seconds REAL, amp_seconds REAL,
          duplicate INTEGER, repeated INTEGER, surplus INTEGER, worst_gap_seconds REAL,
          PRIMARY KEY (run, phase, meter, rail, drive))""",
        f"INSERT INTO energy ({ENERGY_2}) SELECT {ENERGY_2} FROM energy_before",
        "DROP TABLE energy_before",
        "ALTER TABLE result ADD COLUMN device_bound_fraction REAL",
    ],
    # Nor does it take a NOT NULL away.
    3: [
        "ALTER TABLE performance RENAME TO performance_before",
        """CREATE TABLE performance (
          run TEXT PRIMARY KEY REFERENCES run(id), seconds REAL NOT NULL, ops INTEGER NOT NULL,
          read_bytes INTEGER, write_bytes INTEGER, syncs INTEGER, ops_per_second REAL NOT NULL,
          mb_per_second REAL, latency_p50_seconds REAL, latency_p99_seconds REAL,
          unit TEXT NOT NULL DEFAULT 'operation', figure_name TEXT, figure_unit TEXT, figure REAL,
          figure_better TEXT)""",
        f"INSERT INTO performance ({PERFORMANCE_3}) SELECT {PERFORMANCE_3} FROM performance_before",
        "DROP TABLE performance_before",
    ],
    4: ["ALTER TABLE result ADD COLUMN cpu_joules REAL"],
}
FINAL = ("ok", "partial", "failed", "lost", "not-run")
# A status only worsens; what may follow what.
ALLOWED = {
    "planned": {"running", "not-run"},
    "running": {"ok", "partial", "failed", "lost", "not-run"},
    "ok": {"partial", "failed"},
    "partial": {"failed"},
    "failed": set(),
    "lost": set(),
    "not-run": set(),
}


class Journal:
    """The journal of one campaign. Every method that writes is one transaction."""

    def __init__(self, folder: Path) -> None:
        path = folder / "journal.sqlite"
        if not path.is_file():
            raise UserError(f"{paths.short(folder)}: no campaign there (no journal.sqlite)")
        self.folder = folder
        self._db = sqlite3.connect(path, isolation_level=None, timeout=30)
        self._db.row_factory = sqlite3.Row
        try:
            self._db.execute("PRAGMA foreign_keys = ON")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            while version in UPGRADES:
                version = self._upgrade()
        except sqlite3.DatabaseError as error:
            raise UserError(f"{paths.short(path)}: cannot be read: {error}") from None
        if version != VERSION:
            raise UserError(
                f"{paths.short(path)}: journal version {version}; this Joulerig reads version {VERSION}"
            )

    @classmethod
    def create(cls, folder: Path, campaign: Mapping[str, Any], runs: list[Mapping[str, Any]]) -> Journal:
        """Begin a campaign: its journal appears whole, or nothing is left. Raises UserError if it exists."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.mkdir()
        except FileExistsError:
            raise UserError(f"{paths.short(folder)}: exists already") from None
        unfinished = folder / "journal.sqlite.new"
        try:
            with closing(sqlite3.connect(unfinished, isolation_level=None)) as db:
                db.execute("PRAGMA journal_mode = WAL")
                db.executescript("BEGIN; " + SCHEMA.read_text() + " COMMIT;")
                db.execute("BEGIN")
                _insert(db, "campaign", campaign)
                for run in runs:
                    _insert(db, "run", run)
                _event(db, None, "created", {"runs": len(runs)})
                db.execute("COMMIT")
            unfinished.rename(folder / "journal.sqlite")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(folder)

    def close(self) -> None:
        self._db.close()

    @property
    def campaign(self) -> dict[str, Any]:
        """The campaign's row, its JSON columns decoded."""
        row = dict(self._db.execute("SELECT * FROM campaign").fetchone())
        return {**row, **{key: json.loads(row[key]) for key in ("definition", "lab", "provenance")}}

    def runs(self) -> list[dict[str, Any]]:
        """All runs in order of execution."""
        rows = self._db.execute("SELECT * FROM run ORDER BY ordinal").fetchall()
        return [{**dict(row), "factors": json.loads(row["factors"])} for row in rows]

    def rows(self, table: str, run: str) -> list[dict[str, Any]]:
        """A run's rows of phase, performance, energy, result or io."""
        return [dict(row) for row in self._db.execute(f"SELECT * FROM {table} WHERE run = ?", (run,))]

    def take(self, host: str) -> dict[str, Any] | None:
        """The next planned run of `host`, now running; None when there is none left."""
        with transaction(self._db):
            row = self._db.execute(
                "SELECT * FROM run WHERE host = ? AND status = 'planned' ORDER BY ordinal LIMIT 1", (host,)
            ).fetchone()
            if row is None:
                return None
            self._set_status(row["id"], "running", "")
            self._db.execute("UPDATE run SET started_ns = ? WHERE id = ?", (time.time_ns(), row["id"]))
            row = self._db.execute("SELECT * FROM run WHERE id = ?", (row["id"],)).fetchone()
        return {**dict(row), "factors": json.loads(row["factors"])}

    @contextmanager
    def executing(self) -> Iterator[None]:
        """Held by whoever executes runs of this campaign, so that nobody takes them for interrupted."""
        with self._lock(fcntl.LOCK_SH):
            yield

    @contextmanager
    def _lock(self, kind: int) -> Iterator[None]:
        with open(self.folder / ".lock", "a") as lock:
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
            except OSError:
                raise UserError(f"{paths.short(self.folder)}: is being executed; let it end first") from None
            yield

    def finish(
        self, run: str, status: str, reason: str, tables: Mapping[str, list[Mapping[str, Any]]]
    ) -> None:
        """End a run with all that came of it: `tables` has rows of phase, performance, energy, result, io."""
        with transaction(self._db):
            for table, rows in tables.items():
                for row in rows:
                    _insert(self._db, table, {"run": run, **row})
            self._set_status(run, status, reason)
            self._db.execute("UPDATE run SET ended_ns = ? WHERE id = ?", (time.time_ns(), run))

    def give_back(self) -> list[str]:
        """Plan again what was interrupted (running) or lost, for a resumption. Gives those runs' ids.

        Raises UserError while the campaign is being executed.
        """
        with self._lock(fcntl.LOCK_EX), transaction(self._db):
            rows = self._db.execute(
                "SELECT id, status FROM run WHERE status IN ('running', 'lost')"
            ).fetchall()
            for row in rows:
                for table in ("phase", "performance", "energy", "result", "io"):
                    self._db.execute(f"DELETE FROM {table} WHERE run = ?", (row["id"],))
                self._db.execute(
                    "UPDATE run SET status = 'planned', reason = '', started_ns = NULL, ended_ns = NULL"
                    " WHERE id = ?",
                    (row["id"],),
                )
                _event(self._db, row["id"], "resumed", {"was": row["status"]})
            if rows:
                self._db.execute("UPDATE campaign SET finished_ns = NULL")
        return [row["id"] for row in rows]

    def conclude(self) -> None:
        """Mark the campaign as over."""
        with transaction(self._db):
            self._db.execute("UPDATE campaign SET finished_ns = ?", (time.time_ns(),))
            _event(self._db, None, "finished", self.counts())

    def note(self, run: str | None, detail: Mapping[str, Any]) -> None:
        """Record something worth knowing later."""
        with transaction(self._db):
            _event(self._db, run, "note", detail)

    def counts(self) -> dict[str, int]:
        """How many runs have each status."""
        return {
            row["status"]: row["n"]
            for row in self._db.execute(
                "SELECT status, count(*) AS n FROM run GROUP BY status ORDER BY status"
            )
        }

    def _set_status(self, run: str, status: str, reason: str) -> None:
        now = self._db.execute("SELECT status FROM run WHERE id = ?", (run,)).fetchone()["status"]
        if status not in ALLOWED[now]:
            raise ValueError(f"run {run}: {now} cannot become {status}: a status only worsens")
        self._db.execute("UPDATE run SET status = ?, reason = ? WHERE id = ?", (status, reason, run))
        _event(self._db, run, "status", {"from": now, "to": status, "reason": reason})

    def _upgrade(self) -> int:
        """Bring the journal to the next version, unless somebody else just did; gives its version."""
        with transaction(self._db):
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            for statement in UPGRADES.get(version, []):
                self._db.execute(statement)
            if version in UPGRADES:
                version += 1
                self._db.execute(f"PRAGMA user_version = {version}")
        return version


def latest(results: Path) -> Path:
    """The folder of the newest campaign that this Joulerig reads. Raises UserError when there is none."""
    created: dict[int, Path] = {}
    unreadable = None
    for path in sorted(results.glob("*/journal.sqlite")):
        try:
            journal = Journal(path.parent)
        except UserError as error:
            unreadable = error
            continue
        created[journal.campaign["created_ns"]] = path.parent
        journal.close()
    if created:
        return created[max(created)]
    raise unreadable or UserError(
        f"{paths.short(results)}: no campaign yet; 'rig run playbooks/demo.yml' launches one"
    )


def find(results: Path, name: str | None) -> Path:
    """The folder of the campaign `name` (an id), or of the newest one. Raises UserError."""
    if name is None:
        return latest(results)
    for folder in (results / name, Path(name)):
        if (folder / "journal.sqlite").is_file():
            return folder
    known = ", ".join(sorted(path.parent.name for path in results.glob("*/journal.sqlite"))[-5:]) or "none"
    raise UserError(f"{paths.short(results)}: no campaign {name!r}; the newest: {known}")


def _insert(db: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    columns = ", ".join(row)
    marks = ", ".join("?" for _ in row)
    db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", list(row.values()))


def _event(db: sqlite3.Connection, run: str | None, event: str, detail: Mapping[str, Any]) -> None:
    db.execute(
        "INSERT INTO event (time_ns, run, event, detail) VALUES (?, ?, ?, ?)",
        (time.time_ns(), run, event, json.dumps(detail)),
    )
