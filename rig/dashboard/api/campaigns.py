# SPDX-License-Identifier: GPL-3.0-or-later
"""All campaigns of the results folder, a line each; a journal is read again when it changed."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from joulerig.analysis.results import journal
from joulerig.analysis.results.schema import FINISHED, Status
from joulerig.rig.common.claim import Claim, Standing
from joulerig.rig.dashboard.api import files
from joulerig.rig.dashboard.campaign import state

MOST_CAMPAIGNS = 500
JOULES_PER_KWH = 3.6e6
# What the block layer counted of a run's workload phase; the module's own where iod was away.
WRITTEN = """
    SELECT sum(coalesce(
      (SELECT write_bytes FROM io WHERE run = run.id AND source = 'iod'),
      (SELECT write_bytes FROM io WHERE run = run.id AND source = 'host'))) FROM run"""


class Campaigns:
    """The campaigns below a results folder; each journal's line is kept until the file changes."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._lines: dict[str, tuple[journal.Signature, dict[str, Any]]] = {}
        self.executors: dict[str, str] = {}  # the process that executes it (process.identity), by campaign

    def list(self) -> dict[str, Any]:
        """Return {"campaigns": newest first, "problem": why a journal cannot be read, or ""}."""
        found, problem = [], ""
        lines: dict[str, tuple[journal.Signature, dict[str, Any]]] = {}
        for path in self._results.glob(f"*/{journal.FILE}"):
            name = path.parent.name
            try:
                stamp = journal.signature(path)
                known = self._lines.get(name)
                line = known[1] if known and known[0] == stamp else _line(path)
            except (OSError, sqlite3.Error, journal.JournalError, ValueError) as error:
                problem = f"{path}: {error}"
                continue
            if line:
                lines[name] = stamp, line
                found.append({**line, **_execution(line), "reports": files.reports(path.parent)})
        self._lines = lines
        self.executors = {one["id"]: one["claim"].executor for one in found if one["executed"]}
        found.sort(key=lambda one: (one["created_ns"], one["id"]), reverse=True)
        for one in found:
            del one["claim"]
        return {"campaigns": found[:MOST_CAMPAIGNS], "problem": problem}


def _line(path: Path) -> dict[str, Any]:
    """Return what a journal says of its campaign; empty where it has none yet."""
    with closing(journal.connect(path)) as opened:
        opened.row_factory = sqlite3.Row
        with journal.snapshot(opened) as database:
            row = database.execute(
                "SELECT id, name, question, kind, virtual, created_ns, finished_ns, executor,"
                " heartbeat_ns, asked,"
                " json_extract(definition, '$.phases') AS phases,"
                " json_extract(provenance, '$.playbook') AS playbook FROM campaign"
            ).fetchone()
            if row is None:
                return {}
            counted = database.execute("SELECT status, count(*) FROM run GROUP BY status").fetchall()
            cells = database.execute("SELECT DISTINCT cell FROM run ORDER BY cell").fetchall()
            energy = database.execute("SELECT sum(joules), count(*), count(joules) FROM energy").fetchone()
            written = database.execute(WRITTEN).fetchone()[0]
            last_event = database.execute("SELECT max(time_ns) FROM event").fetchone()[0]
    counts = Counter(dict(map(tuple, counted)))
    return {
        **{key: row[key] for key in ("id", "name", "question", "kind", "created_ns", "finished_ns")},
        "virtual": bool(row["virtual"]),
        "playbook": row["playbook"],
        "state": state.stands(row["finished_ns"], counts),
        "asked": row["asked"],
        "claim": Claim.from_row(row),
        "last_event_ns": last_event,
        "counts": {status: counts[status] for status in (Status.RUNNING, Status.PLANNED, *FINISHED)},
        "total": sum(counts.values()),
        "kwh": kwh(energy[0]),
        "kwh_missing": energy[1] - energy[2],
        "written_bytes": written,
        "comparable": plan_key(row["kind"], [one[0] for one in cells], row["phases"]),
    }


def kwh(joules: float | None) -> float | None:
    """Return joules as kWh; None where they are not known."""
    return None if joules is None else joules / JOULES_PER_KWH


def plan_key(kind: str, cells: list[str], phases: str | None) -> str:
    """Return what campaigns share that have the same cells and phases: each cell has its match."""
    text = json.dumps([kind, sorted(cells), json.loads(phases) if phases else None], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _execution(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether a process executes a campaign now."""
    return {"executed": line["claim"].standing == Standing.EXECUTED}
