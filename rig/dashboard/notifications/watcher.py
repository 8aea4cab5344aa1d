# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at campaigns' journals again and again: what is new there, each thing once."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig.analysis.results import journal
from joulerig.rig.common import files, process
from joulerig.rig.dashboard.notifications import happenings
from joulerig.rig.dashboard.notifications.happenings import Happening

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Standing:
    """A journal as it was read. `executor`: the process that has to be alive; "" where none has."""

    signature: journal.Signature
    campaign: str
    name: str
    executor: str


class Watcher:
    """What is new in the journals below a results folder since the last look.

    `kept`: the file that says how far each journal was read, so that a restart repeats nothing and
    leaves nothing out. Journals that are there at the very first look are not news. `clock`: the
    lab's time, ns since 1970 UTC. A journal is opened only where its files have changed.
    """

    def __init__(self, results_dir: Path, kept: Path, clock: Callable[[], int]) -> None:
        self._results, self._kept, self._clock = results_dir, kept, clock
        self._seen: dict[str, dict[str, Any]] | None = _read(kept)
        self._standing: dict[Path, Standing] = {}

    def look(self) -> list[Happening]:
        """Return what is new, by campaign in its order."""
        first = self._seen is None
        seen = self._seen = self._seen or {}
        before = json.dumps(seen)
        found: list[Happening] = []
        for path in sorted(self._results.glob("*/journal.sqlite")):
            try:
                known = seen.setdefault(path.parent.name, {"seq": 0, "abandoned": ""})
                found += self._look_at(path, known)
            except (OSError, sqlite3.Error, journal.JournalError, ValueError, KeyError) as error:
                log.warning("%s: %s", path, error)
        if json.dumps(seen) != before or first:
            files.replace(self._kept, json.dumps(seen, indent=1))
        return [] if first else found

    def _look_at(self, path: Path, known: dict[str, Any]) -> Iterator[Happening]:
        signature = journal.signature(path)
        last = self._standing.get(path)
        if last is None or last.signature != signature:
            yield from self._read_journal(path, signature, known)
            last = self._standing.get(path)
        if last is None or not last.executor or last.executor == known["abandoned"]:
            return
        if not process.is_alive(last.executor):
            known["abandoned"] = last.executor
            yield happenings.abandoned(last.campaign, last.name, process.shown(last.executor), self._clock())

    def _read_journal(
        self, path: Path, signature: journal.Signature, known: dict[str, Any]
    ) -> Iterator[Happening]:
        """Yield what is new in a journal, and keep how it stands."""
        with closing(journal.connect(path)) as database:
            database.row_factory = sqlite3.Row
            columns = "id, name, finished_ns, executor, asked"
            campaign = database.execute(f"SELECT {columns} FROM campaign").fetchone()
            if campaign is None:
                return
            query = "SELECT seq, time_ns, run, event, detail FROM event WHERE seq > ? ORDER BY seq"
            events = database.execute(query, (known["seq"],)).fetchall()
            if events:
                ids = "SELECT id, cell, host FROM run"
                runs = {row["id"]: dict(row) for row in database.execute(ids)}
                known["seq"] = events[-1]["seq"]
                yield from happenings.of_events(campaign["id"], campaign["name"], runs, map(dict, events))
            over = campaign["finished_ns"] is not None or campaign["asked"]
            executor = "" if over else campaign["executor"] or ""
            self._standing[path] = Standing(signature, campaign["id"], campaign["name"], executor)


def _read(kept: Path) -> dict[str, dict[str, Any]] | None:
    """Return what was kept; None where nothing was, or it cannot be read."""
    try:
        found = json.loads(kept.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
