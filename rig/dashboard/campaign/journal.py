# SPDX-License-Identifier: GPL-3.0-or-later
"""Campaigns' journals, read-only: which there are, and what a campaign's says."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from joulerig.analysis import results
from joulerig.analysis.results import journal
from joulerig.analysis.results.schema import FINISHED, EventKind
from joulerig.rig.dashboard.campaign import ai_table

CAMPAIGN_COLUMNS = (
    "id, name, question, created_ns, finished_ns, lab, virtual,"
    " coalesce(json_extract(definition, '$.side_by_side'), 0) AS side_by_side"
)
RUN_COLUMNS = (
    "id, ordinal, replicate, host, drive, filesystem, scheduler, workload, cell, factors, status, reason,"
    " started_ns, ended_ns,"
    # What slow motion of a virtual lab added for those who wait: a run's times are the lab's.
    " coalesce((SELECT sum((slowness - 1) * (end_ns - start_ns)) FROM phase WHERE run = run.id), 0) / 1e9"
    " AS slow_seconds"
)
RESULTS = (
    "SELECT result.run, joules, mean_watts, error_percent, ai_ops_per_joule, ai_mb_per_joule, ops, seconds,"
    " (read_bytes + write_bytes) / 1e6 AS megabytes, joules_low, joules_high,"
    " coalesce(corrected_joules, joules) AS ai_joules"
    " FROM result JOIN performance USING (run)"
)
PRECONDITIONING = "SELECT run, time_ns, detail FROM event WHERE event = ? AND run IS NOT NULL ORDER BY seq"


class Journal:
    """One campaign's journal, opened read-only; `changed` is cheap, `read` is not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode = path.stat().st_ino
        self._database = journal.connect(path)
        self._database.row_factory = sqlite3.Row
        self._version: int | None = None
        self._stood: tuple[tuple[Any, ...], ai_table.Standing] | None = None

    def close(self) -> None:
        self._database.close()

    def stale(self) -> bool:
        """Return whether the file is gone or was replaced."""
        try:
            return self.path.stat().st_ino != self._inode
        except OSError:
            return True

    def changed(self) -> bool:
        """Return whether a process wrote since the last call (true at the first call)."""
        version = self._database.execute("PRAGMA data_version").fetchone()[0]
        before, self._version = self._version, version
        return version != before

    def read(self) -> dict[str, Any] | None:
        """Return campaign, runs, results, newest event, of one instant, and what stands by then.

        None without a campaign row. Raises sqlite3.Error, and ResultsError for a damaged journal.
        """
        with journal.snapshot(self._database) as database:  # a run and its result belong together

            def rows(sql: str, *values: str) -> list[dict[str, Any]]:
                return [dict(row) for row in database.execute(sql, values)]

            campaigns = rows(f"SELECT {CAMPAIGN_COLUMNS} FROM campaign")
            if not campaigns:
                return None
            found = {
                "campaign": campaigns[0],
                "runs": rows(f"SELECT {RUN_COLUMNS} FROM run ORDER BY ordinal"),
                "results": {row["run"]: row for row in rows(RESULTS)},
                "settlings": _settlings(rows(PRECONDITIONING, EventKind.PRECONDITIONING)),
                "last_event_ns": database.execute("SELECT max(time_ns) FROM event").fetchone()[0],
            }
        ended = {run["id"]: run["status"] for run in found["runs"] if run["status"] in FINISHED}
        return {**found, "standing": self._stands(ended, found["results"])}

    def _stands(self, *by: Any) -> ai_table.Standing:
        """Return what stands, computed again where what it stands by differs from the last time.

        Not of the same instant: a run that ended meanwhile may be in it already.
        """
        if self._stood is None or by != self._stood[0]:
            self._stood = by, ai_table.standing(results.load(self.path.parent))
        return self._stood[1]

    def created_ns(self) -> int | None:
        row = self._database.execute("SELECT created_ns FROM campaign").fetchone()
        return row[0] if row else None


class Journals:
    """The journals below a results folder."""

    def __init__(self, results_dir: Path) -> None:
        self.results_dir = results_dir
        self.problem = ""  # why a journal that is there cannot be read
        self._created: dict[tuple[str, int], int] = {}  # (campaign id, inode) -> created_ns
        self._open: dict[str, Journal] = {}

    def list(self) -> list[str]:
        """Return the campaign ids, newest first."""
        found = []
        self.problem = ""
        for path in self.results_dir.glob("*/journal.sqlite"):
            try:
                key = (path.parent.name, path.stat().st_ino)
                if key not in self._created:
                    opened = Journal(path)
                    try:
                        created = opened.created_ns()
                    finally:
                        opened.close()
                    if created is None:
                        continue
                    self._created[key] = created
                found.append((self._created[key], path.parent.name))
            except (OSError, sqlite3.Error, journal.JournalError) as error:
                self.problem = f"{path}: {error}"
        return [name for _, name in sorted(found, reverse=True)]

    def get(self, campaign: str) -> Journal | None:
        """Return the journal of a campaign that `list` names, kept open."""
        opened = self._open.get(campaign)
        if opened is not None and opened.stale():
            self._open.pop(campaign).close()
            opened = None
        if opened is None:
            try:
                opened = self._open[campaign] = Journal(self.results_dir / campaign / "journal.sqlite")
            except (OSError, sqlite3.Error, journal.JournalError) as error:
                self.problem = f"{self.results_dir / campaign}: {error}"
                return None
        return opened

    def keep(self, campaigns: set[str]) -> None:
        """Close the journals of all other campaigns."""
        for name in set(self._open) - campaigns:
            self._open.pop(name).close()


def _settlings(notes: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return, by run, how its drive is preconditioned before it.

    {began_ns, ended_ns (None: not yet), at_most_seconds, at_most_rounds}; of a run that was
    repeated, that of its last attempt.
    """
    found: dict[str, dict[str, Any]] = {}
    for note in notes:
        detail = json.loads(note["detail"])
        if detail["precondition"] == "begun":
            most = {key: detail[key] for key in ("at_most_seconds", "at_most_rounds")}
            found[note["run"]] = {"began_ns": note["time_ns"], "ended_ns": None, **most}
        elif detail["precondition"] == "ended":
            found[note["run"]]["ended_ns"] = note["time_ns"]
    return found


def array_members(lab: str) -> dict[str, dict[str, list[str]]]:
    """Return host -> array -> its member drives, from a journal's lab model."""
    try:
        hosts = json.loads(lab).get("hosts", {})
        return {
            name: {array: list(spec["members"]) for array, spec in (host.get("arrays") or {}).items()}
            for name, host in hosts.items()
        }
    except (ValueError, AttributeError, KeyError, TypeError):
        return {}
