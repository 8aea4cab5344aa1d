# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page of one campaign needs beyond the message `campaign` of /live."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from joulerig.analysis import results
from joulerig.analysis.compare import cells as comparisons
from joulerig.analysis.compare.cells import Comparison
from joulerig.analysis.energy import meters
from joulerig.analysis.results import journal
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.results.schema import CELL_FACTORS, EventKind, PhaseName, is_control
from joulerig.rig.campaign import drive_record
from joulerig.rig.dashboard.api.after_load import AfterLoads
from joulerig.rig.dashboard.api.campaigns import kwh
from joulerig.rig.dashboard.campaign import ai_table, words
from joulerig.rig.dashboard.campaign.journal import Journal

MOST_EVENTS = 200
LOG_BYTES = 16_384
LOG_LINES = 100
HIDDEN = "***"
# Of the workload phase of each run; NULL where it has none.
MEASURED = """
    SELECT run.id, device_bound_fraction,
      (SELECT slowness FROM phase WHERE run = run.id AND phase = 'workload') AS slowness,
      (SELECT 100.0 * sum(lost) / nullif(sum(expected), 0) FROM energy
       WHERE run = run.id AND phase = 'workload') AS lost_percent,
      (SELECT count(*) FROM attempt WHERE run = run.id) AS attempts
    FROM run LEFT JOIN result ON result.run = run.id"""
ENERGY = "SELECT sum(joules), count(*), count(joules) FROM energy"
EVENTS = f"SELECT time_ns, run, event, detail FROM event ORDER BY seq DESC LIMIT {MOST_EVENTS}"
NOTED = "SELECT run, event, detail FROM event WHERE event IN (?, ?) ORDER BY seq"
RUN_FIELDS = ("id", "ordinal", "replicate", "host", "status", "reason", "started_ns", "ended_ns")


def read(
    folder: Path, state_dir: Path | None, *, has_log: bool, after: AfterLoads | None = None
) -> dict[str, Any]:
    """Return the reply for the campaign in `folder`. Raises sqlite3.Error, JoulerigError.

    `state_dir`: of the drives' record and the log; None: there is none. `has_log`: whether the log
    of campaigns is of this one. `after`: remembers traces of runs between calls.
    """
    campaign = results.load(folder)
    with closing(_Opened(folder / journal.FILE)) as opened:
        content = opened.journal.read() or {"runs": [], "results": {}, "standing": None}
        found = opened.further()
    runs = {run["id"]: run for run in content["runs"]}
    table = (
        ai_table.build(content["runs"], content["results"], content["standing"])
        if content["standing"]
        else []
    )
    joules, rows, known = found["energy"]
    return {
        "id": campaign.id,
        "kind": campaign.kind,
        "cells": _cells(campaign, content, table, found, after or AfterLoads()),
        "endurance": endurance(campaign, state_dir),
        "kwh": kwh(joules),
        "kwh_missing": rows - known,
        "events": [
            {
                "time_ns": event["time_ns"],
                "run": event["run"],
                "kind": event["event"],
                "text": words.describe(
                    event["event"], json.loads(event["detail"]), runs.get(event["run"] or "", {})
                ),
            }
            for event in reversed(found["events"])
        ],
        "log": log_tail(state_dir, has_log=has_log),
    }


class _Opened:
    """A journal while it is read."""

    def __init__(self, path: Path) -> None:
        self.journal = Journal(path)
        self._database = journal.connect(path)
        self._database.row_factory = sqlite3.Row

    def close(self) -> None:
        self.journal.close()
        self._database.close()

    def further(self) -> dict[str, Any]:
        """Return what the live message does not need, of one instant."""
        with journal.snapshot(self._database) as database:
            noted = database.execute(NOTED, (EventKind.PRECONDITIONING, EventKind.LOOK)).fetchall()
            return {
                "measured": {row["id"]: dict(row) for row in database.execute(MEASURED)},
                "energy": tuple(database.execute(ENERGY).fetchone()),
                "events": database.execute(EVENTS).fetchall(),
                "steady": _steady(noted),
                "dropped": _dropped(noted),
            }


def _steady(noted: list[sqlite3.Row]) -> dict[str, bool]:
    """Return, by run, whether its drive was steady at the end of its precondition."""
    found: dict[str, bool] = {}
    for row in noted:
        detail = json.loads(row["detail"])
        if row["event"] == EventKind.PRECONDITIONING and detail.get("precondition") == "ended":
            found[row["run"]] = bool(detail.get("steady"))
    return found


def _dropped(noted: list[sqlite3.Row]) -> dict[str, dict[str, str]]:
    """Return, by cell, which look of which race left it out, and why."""
    found: dict[str, dict[str, str]] = {}
    for row in noted:
        if row["event"] == EventKind.LOOK:
            detail = json.loads(row["detail"])
            by = f"{detail.get('race')}, look {detail.get('look')}"
            for one in detail.get("dropped", ()):
                found.setdefault(one["cell"], {"by": by, "reason": one["reason"]})
    return found


def _cells(
    campaign: Campaign,
    content: Mapping[str, Any],
    table: list[dict[str, Any]],
    found: Mapping[str, Any],
    after: AfterLoads,
) -> list[dict[str, Any]]:
    """Return the cells in plan order, each with its runs, its AI and why it was left out."""
    figures: dict[tuple[str, ...], dict[str, Any]] = {}
    untested: dict[tuple[str, ...], str] = {}
    for block in table:
        group = (block["drive"], block["workload"], json.dumps(block["factors"], sort_keys=True))
        untested[group] = block["untested"]
        for filesystem, row in block["cells"].items():
            figures |= {(*group, filesystem, scheduler): cell for scheduler, cell in row.items()}
    compared = comparisons.compare_cells(campaign)
    intervals, to_quiescence = _intervals(compared), after.by_cell(campaign, compared)
    cells: dict[str, dict[str, Any]] = {}
    for run in content["runs"]:
        if is_control(levels := ai_table.factors(run)):
            continue
        cell = cells.get(run["cell"])
        if cell is None:
            further = {name: level for name, level in levels.items() if name not in CELL_FACTORS}
            group = (run["drive"], run["workload"], json.dumps(further, sort_keys=True))
            shown = figures.get((*group, run["filesystem"], run["scheduler"]), {})
            cell = cells[run["cell"]] = {
                **{name: run[name] for name in ("drive", "workload", "filesystem", "scheduler", "cell")},
                "factors": further,
                "runs": [],
                "ai": {
                    metric: {**shown[metric], "interval": intervals.get((run["cell"], metric))}
                    for metric in ai_table.WORK
                    if metric in shown
                },
                "to_quiescence": to_quiescence.get(run["cell"]),
                "unmetered": shown.get("unmetered"),
                "untested": untested.get(group, ""),
                "dropped": found["dropped"].get(run["cell"]),
            }
        cell["runs"].append(_run(run, content["results"].get(run["id"]) or {}, found))
    return list(cells.values())


def _intervals(compared: Sequence[Comparison]) -> dict[tuple[str, str], dict[str, float]]:
    """Return the report's own 95 % interval of each cell and metric that has one."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for one in compared:
        for cell, precision in one.precision.items():
            for metric, interval in (("ops", precision.interval), ("mb", precision.interval_mb)):
                if interval is not None:
                    low, high = interval
                    found[cell, metric] = {"low": low, "high": high}
    return found


def _run(run: Mapping[str, Any], result: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    measured = found["measured"].get(run["id"]) or {}
    return {
        **{name: run[name] for name in RUN_FIELDS},
        "ops_per_joule": result.get("ai_ops_per_joule"),
        "mb_per_joule": result.get("ai_mb_per_joule"),
        "joules": result.get("joules"),
        "low": result.get("joules_low"),
        "high": result.get("joules_high"),
        "lost_percent": measured.get("lost_percent"),
        "steady": found["steady"].get(run["id"]),
        "slowness": measured.get("slowness"),
        "device_bound_fraction": measured.get("device_bound_fraction"),
        "attempts": measured.get("attempts", 0),
    }


def endurance(campaign: Campaign, state_dir: Path | None) -> list[dict[str, Any]]:
    """Return what a campaign wrote to each of its drives, and how much of its rating that is.

    `by`: "record" (all that its runs had written, preconditions too, by the drives' record), or
    "workload" (of the loads alone, as the block layer counted) where there is no record of them.
    """
    drives = {(run.host, drive): run for run in campaign.runs for drive in campaign.drives(run)}
    recorded = _recorded(campaign.id, state_dir)
    found = []
    for host, drive in sorted(drives):
        declared = meters.subtree(campaign.lab, "hosts", host, "drives", drive)
        rated = declared.get("rated_terabytes_written")
        rated_bytes = None if rated is None else float(rated) * 1e12
        if (serial := declared.get("serial")) in recorded:
            by, written = "record", recorded[serial]
        else:
            by, written = "workload", _loaded(campaign, host, drive)
        fraction = None if written is None or not rated_bytes else written / rated_bytes
        found.append(
            {
                "host": host,
                "drive": drive,
                "written_bytes": written,
                "by": by,
                "rated_bytes": rated_bytes,
                "fraction": fraction,
            }
        )
    return found


def _recorded(campaign: str, state_dir: Path | None) -> dict[Any, int | None]:
    path = state_dir / "drives.sqlite" if state_dir else None
    if path is None or not path.is_file():
        return {}
    try:
        return dict(drive_record.written_for(campaign, path))
    except sqlite3.Error:  # of another version, or damaged: the loads' own count is left
        return {}


def _loaded(campaign: Campaign, host: str, drive: str) -> int | None:
    """Return what the loads wrote to a drive; None where it has only a share that is not known."""
    total = 0
    for run in campaign.runs:
        if (
            run.host != host
            or drive not in campaign.drives(run)
            or run.phases.get(PhaseName.WORKLOAD) is None
        ):
            continue
        if len(campaign.drives(run)) > 1:
            found = run.io.get(f"iod {drive}")
        else:
            found = run.io.get("iod") or run.io.get("host")
        if found is None or found.write_bytes is None:
            return None
        total += found.write_bytes
    return total


def log_tail(state_dir: Path | None, *, has_log: bool) -> dict[str, Any]:
    """Return the last lines of the log of campaigns, and how old they are; else why there are none.

    What is in a secret's file is not shown, should it be in there.
    """
    path = state_dir / "log" / "campaign.log" if state_dir else None
    if state_dir is None or path is None or not path.is_file():
        return {"lines": [], "age_seconds": None, "why": "there is no log of campaigns"}
    if not has_log:
        return {"lines": [], "age_seconds": None, "why": "the log is of the campaign that was executed last"}
    with path.open("rb") as file:
        from_byte = file.seek(max(0, path.stat().st_size - LOG_BYTES))
        text = file.read().decode(errors="replace")
    if from_byte:
        text = text.partition("\n")[2]  # the rest of a line could be the rest of a secret
    lines = hide(text, state_dir / "secrets").splitlines()[-LOG_LINES:]
    return {"lines": lines, "age_seconds": max(0.0, time.time() - path.stat().st_mtime), "why": ""}


def hide(text: str, secrets: Path) -> str:
    """Return a text with the content of each file of `secrets` left out."""
    for path in sorted(secrets.glob("*")) if secrets.is_dir() else ():
        try:
            secret = path.read_text().strip()
        except (OSError, UnicodeDecodeError):
            continue
        if len(secret) >= 8:  # a shorter one is no secret of this rig's making
            text = text.replace(secret, HIDDEN)
    return text
