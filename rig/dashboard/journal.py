# SPDX-License-Identifier: GPL-3.0-or-later
"""Campaigns' journals, read-only: which there are, and what a campaign's says."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

CAMPAIGN_COLUMNS = "id, name, question, created_ns, finished_ns, lab, virtual"
RUN_COLUMNS = (
    "id, ordinal, replicate, host, drive, filesystem, scheduler, workload, cell, factors, status, reason,"
    " started_ns, ended_ns"
)
RESULTS = (
    "SELECT result.run, joules, mean_watts, error_percent, ai_ops_per_joule, ai_mb_per_joule, ops, seconds,"
    " (read_bytes + write_bytes) / 1e6 AS megabytes, {bounds} FROM result JOIN performance USING (run)"
)
PRECONDITION_NOTES = (
    "SELECT run, time_ns, detail FROM event WHERE event = 'note' AND run IS NOT NULL"
    " AND detail LIKE '%\"precondition\"%' ORDER BY seq"
)
# By the journal's version: the first had none.
BOUNDS = {1: "NULL AS joules_low, NULL AS joules_high"}


class Journal:
    """One campaign's journal, opened read-only; `changed` is cheap, `read` is not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode = path.stat().st_ino
        self._database = sqlite3.connect(
            f"file:{path}?mode=ro", uri=True, timeout=1.0, check_same_thread=False, isolation_level=None
        )
        self._database.row_factory = sqlite3.Row
        self._version: int | None = None

    def close(self) -> None:
        self._database.close()

    def stale(self) -> bool:
        """The file is gone or is another one."""
        try:
            return self.path.stat().st_ino != self._inode
        except OSError:
            return True

    def changed(self) -> bool:
        """Somebody wrote since the last call (the first one says yes)."""
        version = self._database.execute("PRAGMA data_version").fetchone()[0]
        before, self._version = self._version, version
        return version != before

    def read(self) -> dict[str, Any] | None:
        """Campaign, runs, results, newest event, all of one instant; None while there is no campaign row."""
        self._database.execute("BEGIN")  # one snapshot: a run and its result belong together
        try:
            campaign = self._one(f"SELECT {CAMPAIGN_COLUMNS} FROM campaign")
            if campaign is None:
                return None
            version = self._database.execute("PRAGMA user_version").fetchone()[0]
            found = RESULTS.format(bounds=BOUNDS.get(version, "joules_low, joules_high"))
            return {
                "campaign": campaign,
                "runs": self._all(f"SELECT {RUN_COLUMNS} FROM run ORDER BY ordinal"),
                "results": {row["run"]: row for row in self._all(found)},
                "settlings": _settlings(self._all(PRECONDITION_NOTES)),
                "last_event_ns": self._database.execute("SELECT max(time_ns) FROM event").fetchone()[0],
            }
        finally:
            self._database.execute("COMMIT")

    def created_ns(self) -> int | None:
        row = self._database.execute("SELECT created_ns FROM campaign").fetchone()
        return row[0] if row else None

    def _one(self, sql: str) -> dict[str, Any] | None:
        row = self._database.execute(sql).fetchone()
        return dict(row) if row else None

    def _all(self, sql: str) -> list[dict[str, Any]]:
        return [dict(row) for row in self._database.execute(sql)]


class Journals:
    """The journals below a results folder."""

    def __init__(self, results_dir: Path) -> None:
        self.results_dir = results_dir
        self.problem = ""  # why a journal that is there cannot be read
        self._created: dict[tuple[str, int], int] = {}  # (campaign id, inode) -> created_ns
        self._open: dict[str, Journal] = {}

    def list(self) -> list[str]:
        """Campaign ids, newest first."""
        found = []
        self.problem = ""
        for path in self.results_dir.glob("*/journal.sqlite"):
            try:
                key = (path.parent.name, path.stat().st_ino)
                if key not in self._created:
                    journal = Journal(path)
                    try:
                        created = journal.created_ns()
                    finally:
                        journal.close()
                    if created is None:
                        continue
                    self._created[key] = created
                found.append((self._created[key], path.parent.name))
            except (OSError, sqlite3.Error) as error:
                self.problem = f"{path}: {error}"
        return [name for _, name in sorted(found, reverse=True)]

    def get(self, campaign: str) -> Journal | None:
        """The journal of a campaign that `list` names, kept open."""
        journal = self._open.get(campaign)
        if journal is not None and journal.stale():
            self._open.pop(campaign).close()
            journal = None
        if journal is None:
            try:
                journal = self._open[campaign] = Journal(self.results_dir / campaign / "journal.sqlite")
            except (OSError, sqlite3.Error) as error:
                self.problem = f"{self.results_dir / campaign}: {error}"
                return None
        return journal

    def keep(self, campaigns: set[str]) -> None:
        """Close the journals of all other campaigns."""
        for name in set(self._open) - campaigns:
            self._open.pop(name).close()


def _settlings(notes: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """run -> how its drive is preconditioned before it: {began_ns, ended_ns (None: not yet), at_most_seconds,
    at_most_rounds}. A run that was taken up again has that of its last attempt."""
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
    """host -> array -> its member drives, from a journal's lab model."""
    try:
        hosts = json.loads(lab).get("hosts", {})
        return {
            name: {array: list(spec["members"]) for array, spec in (host.get("arrays") or {}).items()}
            for name, host in hosts.items()
        }
    except (ValueError, AttributeError, KeyError, TypeError):
        return {}
