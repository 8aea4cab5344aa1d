# SPDX-License-Identifier: GPL-3.0-or-later
"""What test hosts reported of themselves and their drives, as runs and playbooks recorded it.

Nothing here asks a host: a page that is looked at must not disturb one. So each of it has an age.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from joulerig.analysis.results import journal
from joulerig.analysis.results.schema import Status
from joulerig.rig.campaign import events
from joulerig.rig.campaign.contents import Reply as Contents
from joulerig.rig.campaign.reservations.asking import Reply as Reservations
from joulerig.rig.common.bounded import read
from joulerig.rig.common.errors import UserError

MOST_CAMPAIGNS = 20  # that are looked through for what their runs recorded
MOST_BYTES = 1 << 20  # of a file
LAST_RUNS = (
    "SELECT id, host, drive, max(ended_ns) AS ended_ns FROM run WHERE ended_ns IS NOT NULL"
    " AND status IN ('ok', 'partial') GROUP BY host, drive ORDER BY ended_ns DESC"
)
RUNNING = "SELECT id, host, drive, started_ns FROM run WHERE status = ?"
OF_RESERVATION = {"owner", "purpose", "campaign", "made", "expires"}
IDENTITY = ("model", "firmware", "serial", "wwn", "size_bytes", "interface")


def by_runs(results: Path, campaigns: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what the last runs recorded of each host and its drives.

    {host: {"host": ..., "drives": {name: ...}}}, each with `run` and `time_ns`, the run's end.
    `campaigns`: newest first.
    """
    found: dict[str, dict[str, Any]] = {}
    for campaign in campaigns[:MOST_CAMPAIGNS]:
        for run in _rows(results / campaign, LAST_RUNS):
            about = found.setdefault(run["host"], {"host": None, "drives": {}})
            if run["drive"] in about["drives"]:
                continue
            settings = _json(results / campaign / "runs" / run["id"] / "settings.json")
            stamp = {"run": run["id"], "time_ns": run["ended_ns"]}
            host = settings.get("host") or {}
            if about["host"] is None and host:
                about["host"] = {"kernel": host.get("kernel"), "cpus": host.get("cpus"), **stamp}
            for name, drive in _drives(run["drive"], settings):
                kept = {key: drive.get(key) for key in IDENTITY}
                state = _power_state(settings, None if name == run["drive"] else name)
                about["drives"].setdefault(name, {**kept, "power_state": state, **stamp})
    return found


def _power_state(settings: Mapping[str, Any], member: str | None) -> dict[str, Any] | None:
    """Return the power state that an NVMe drive was in before the load; None where none is known.

    `member`: the drive's name where the run is on an array.
    """
    try:
        of_drives = settings["power"]["drive"]
        power = of_drives if member is None else of_drives[member]
        number = power["power_state"]
        return {"number": number, "most_watts": power["power_states"][number]["max_watts"]}
    except (KeyError, IndexError, TypeError):  # of a drive without any, or of a former release
        return None


def _drives(name: str, settings: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the drives that a run's settings are of: one, or the members of an array by name."""
    drive = settings.get("drive")
    if not isinstance(drive, dict):
        return
    if "serial" in drive:
        yield name, drive
        return
    for member, one in drive.items():
        if isinstance(one, dict):
            yield member, one


def leases(results: Path, executed: Sequence[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the runs that hold a drive now, by host and drive: of campaigns that are executed."""
    return {
        (run["host"], run["drive"]): {"campaign": campaign, "run": run["id"], "since_ns": run["started_ns"]}
        for campaign in executed
        for run in _rows(results / campaign, RUNNING, Status.RUNNING)
    }


def by_playbooks(logs: Path | None) -> dict[str, Any]:
    """Return what playbooks recorded last.

    {"contents": {host: {drive: ...}}, "reservations": {host: ...}}. Contents: what a drive was
    found to hold and whether it may be wiped. Reservations: who has a host. Each has its
    `age_seconds`.
    """
    contents: dict[str, dict[str, Any]] = {}
    reservations: dict[str, Any] = {}
    paths = sorted(logs.glob("*.events"), key=_modified) if logs and logs.is_dir() else []
    for path in paths:
        age = max(0.0, time.time() - _modified(path))
        for event in _events(path):
            if isinstance(reply := _reply(event), Contents):
                for name, one in reply.found.items():
                    contents.setdefault(event["host"], {})[name] = {
                        "may_be_wiped": bool(one.free) and not one.problem,
                        "why": one.problem or one.free,
                        "holds": one.holds or None,
                        "age_seconds": age,
                    }
            elif isinstance(reply, Reservations):
                kept = [one.model_dump(include=OF_RESERVATION) for one in reply.held]
                reservations[event["host"]] = {"held": kept, "age_seconds": age}
    return {"contents": contents, "reservations": reservations}


def _reply(event: Mapping[str, Any]) -> Contents | Reservations | None:
    """Return what a host replied; None where the event is not shown or the reply is not whole."""
    models: dict[str, type[Contents] | type[Reservations]] = {
        events.CONTENTS: Contents,
        events.RESERVATION: Reservations,
    }
    model = models.get(str(event.get("event")))
    try:
        return read(model, event["reply"], event["host"]) if model else None
    except UserError:
        return None


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole lines of a file of events, as far as they are such."""
    try:
        lines = path.read_bytes()[-MOST_BYTES:].split(b"\n")[:-1]
    except OSError:
        return
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if not isinstance(event, dict) or not isinstance(event.get("host"), str):
            continue
        if isinstance(event.get("reply"), dict):
            yield event


def _rows(folder: Path, query: str, *values: str) -> list[dict[str, Any]]:
    """Return rows of a campaign's journal; none where it cannot be read."""
    try:
        with closing(journal.connect(folder / journal.FILE)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(query, values)]
    except sqlite3.Error:
        return []


def _json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MOST_BYTES:
            return {}
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
