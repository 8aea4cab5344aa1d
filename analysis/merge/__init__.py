# SPDX-License-Identifier: GPL-3.0-or-later
"""One campaign of what several controllers executed of it; the results folders stay as they are."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig import atomic, json_text, sqlite
from joulerig.analysis.merge import described
from joulerig.analysis.merge.choice import Taken, choose
from joulerig.analysis.merge.source import MergeError, Source
from joulerig.analysis.results import journal
from joulerig.analysis.results.schema import FINISHED, PER_RUN, EventKind
from joulerig.plural import counted

__all__ = ["MergeError", "Merged", "merge"]

STAGE = ".merge-"  # a folder next to the new one; its process holds its lock


@dataclass(frozen=True)
class Merged:
    """A campaign that was merged. `statuses`: how many runs have each."""

    folder: Path
    hosts: tuple[str, ...]
    runs: int
    statuses: dict[str, int]


def merge(folders: Sequence[Path], target: Path) -> Merged:
    """Merge the campaigns in `folders` into the new folder `target`, whole or not at all.

    They have the same definition, and each run of the plan was executed in one of them only. The
    folder's name is the new campaign's id; runs keep theirs, and so do their files.

    Raises
    ------
    MergeError
        They are no parts of one campaign; the message names the folders, and what is in the way.
    joulerig.analysis.results.campaign.ResultsError
        A folder is no campaign's, or of a version that this program does not read.
    OSError
    """
    if target.exists():
        raise MergeError(f"{target}: already exists; a merged campaign gets a new folder")
    sources = [Source.read(folder) for folder in folders]
    if len({one.folder.resolve() for one in sources}) < max(2, len(sources)):
        raise MergeError("two or more different results folders are merged")
    taken = choose(sources)
    campaign = _campaign_row(sources, taken, target.name)
    events = _events(sources, taken, campaign)
    with _stage(target.parent) as stage:
        work = stage / target.name
        work.mkdir()
        _write_journal(work / journal.FILE, campaign, taken, events)
        (work / "runs").mkdir()
        for one in taken:
            if (files := one.source.folder / "runs" / one.id).is_dir():
                shutil.copytree(files, work / "runs" / one.id, symlinks=True)
        atomic.move(work, target)
    statuses: dict[str, int] = {}
    for one in taken:
        statuses[one.run["status"]] = statuses.get(one.run["status"], 0) + 1
    hosts = dict.fromkeys(one.run["host"] for one in taken)
    return Merged(target, tuple(hosts), len(taken), statuses)


def _campaign_row(sources: Sequence[Source], taken: Sequence[Taken], name: str) -> dict[str, Any]:
    first = sources[0].campaign
    ends = [one.campaign["finished_ns"] for one in sources]
    over = None not in ends and all(one.run["status"] in FINISHED for one in taken)
    lab, provenance = described.describe(sources, taken)
    return {
        **first,
        "id": name,
        "created_ns": min(one.campaign["created_ns"] for one in sources),
        "finished_ns": max(ends) if over else None,
        "lab": json.dumps(lab),
        "provenance": json.dumps(provenance),
        "executor": None,
        "heartbeat_ns": None,
        "asked": None,
    }


def _events(
    sources: Sequence[Source], taken: Sequence[Taken], campaign: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the events of the campaigns and of the runs that were taken, in order of time.

    What is in several journals, because one was copied, is there once. A campaign's own beginning
    and end become notes: the merged one has its own.
    """
    from_source = {one.id: one.source for one in taken}
    found: list[tuple[int, dict[str, Any]]] = []
    seen: set[tuple[Any, ...]] = set()
    for source in sources:
        latest = 0  # a journal's own order holds, also where its clock was set back
        for row in source.rows["event"]:
            latest = max(latest, row["time_ns"])
            key = (source.name, row["time_ns"], row["run"], row["event"], row["detail"])
            if key in seen or (row["run"] is not None and from_source.get(row["run"]) is not source):
                continue
            seen.add(key)
            event = {name: value for name, value in row.items() if name != "seq"}
            if row["event"] in (EventKind.CREATED, EventKind.FINISHED):
                noted = {"campaign": source.name, row["event"]: json_text.parse(row["detail"])}
                event |= {"event": EventKind.NOTE.value, "detail": json.dumps(noted)}
            found.append((latest, event))
    found.sort(key=lambda one: one[0])
    created = {"runs": len(taken), "merged": [one.name for one in sources]}
    events = [_event(campaign["created_ns"], EventKind.CREATED, created), *(event for _, event in found)]
    if campaign["finished_ns"] is not None:
        events.append(_event(campaign["finished_ns"], EventKind.FINISHED, {"runs": len(taken)}))
    return events


def _event(time_ns: int, kind: EventKind, detail: Mapping[str, Any]) -> dict[str, Any]:
    return {"time_ns": time_ns, "run": None, "event": kind.value, "detail": json.dumps(detail)}


def _write_journal(
    path: Path, campaign: Mapping[str, Any], taken: Sequence[Taken], events: Sequence[Mapping[str, Any]]
) -> None:
    with closing(sqlite.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN")
        journal.create_tables(database)
        _insert(database, "campaign", campaign)
        for one in taken:
            _insert(database, "run", one.run)
        for table in PER_RUN:
            for one in taken:
                for row in one.source.of_run(table, one.id):
                    _insert(database, table, row)
        for event in events:
            _insert(database, "event", event)
        database.execute("COMMIT")


def _insert(database: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    marks = ", ".join("?" for _ in row)
    database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


@contextlib.contextmanager
def _stage(parent: Path) -> Iterator[Path]:
    """Yield a folder to work in, which is removed; remove those that killed processes left."""
    atomic.make_folder(parent)
    for left in parent.glob(f"{STAGE}*"):
        with contextlib.suppress(OSError), _locked(left):
            shutil.rmtree(left)
    stage = Path(tempfile.mkdtemp(prefix=STAGE, dir=parent))
    try:
        with _locked(stage):
            yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock. Raises OSError where another process does."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def describe(merged: Merged) -> str:
    """Return what was merged, on one line."""
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(merged.statuses.items()))
    return f"{counted(merged.runs, 'run')} of {counted(len(merged.hosts), 'host')}: {statuses}"
