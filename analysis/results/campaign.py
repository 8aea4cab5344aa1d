# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a campaign's results folder: its journal and the files of its runs. Writes nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from joulerig.analysis.energy import meters
from joulerig.analysis.results import journal, schema
from joulerig.analysis.results.columns import declared_columns
from joulerig.analysis.results.schema import (
    Attempt,
    CampaignRow,
    IoCount,
    Performance,
    Phase,
    RailEnergy,
    Result,
    RunRow,
    Status,
)
from joulerig.errors import JoulerigError

PRECONDITION_FILE = "precondition.json"  # in a run's folder


def current_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a precondition's recipe by its present keys: `passes` was `fill` at first."""
    return {"passes" if key == "fill" else key: value for key, value in recipe.items()}


class ResultsError(JoulerigError):
    """A results folder that cannot be read; the message is one line that names it."""


@dataclass(frozen=True)
class Run(RunRow):
    """One execution of a cell. Parts that the run did not come to are None or empty."""

    folder: Path
    phases: dict[str, Phase]
    performance: Performance | None
    energy: tuple[RailEnergy, ...]
    result: Result | None
    io: dict[str, IoCount]
    attempts: tuple[Attempt, ...] = ()

    @property
    def counts(self) -> bool:
        """Return whether the run enters its cell's AI: it is ok, and has performance and joules.

        The joules must be above 0, as they are divided by.
        """
        return self._worked and self.result is not None and (self.result.joules or 0.0) > 0

    @property
    def unmetered(self) -> bool:
        """Return whether the run is ok with performance alone: no drive of it has a rail."""
        return self._worked and (self.result is None or self.result.joules is None)

    @property
    def _worked(self) -> bool:
        return self.status == Status.OK and self.performance is not None and self.performance.seconds > 0

    @cached_property
    def precondition(self) -> dict[str, Any]:
        """Return `precondition.json`, how the drive came to its state; empty where not asked for.

        Keys: reused, why, by (a run), recipe, verdict, and, where it was made for this run,
        stretches of rounds. Raises ResultsError.
        """
        found = _json_file(self.folder / PRECONDITION_FILE)
        return {**found, "recipe": current_recipe(found["recipe"])} if "recipe" in found else found

    @cached_property
    def load(self) -> dict[str, Any]:
        """Return `load.json`: the load's own report; empty where the run left none.

        Raises ResultsError.
        """
        return _json_file(self.folder / "load.json")

    @cached_property
    def seeks(self) -> dict[str, Any]:
        """Return requests, seeks and distance_bytes by drive; empty where not counted.

        Raises ResultsError.
        """
        return (_json_file(self.folder / "result.json").get("seeks") or {}).get("drives") or {}

    @cached_property
    def free_nids(self) -> dict[str, Any]:
        """Return f2fs's syncs, scans and their seconds by the kernel's trace, or `why` it has none.

        Empty where it was not asked for. Raises ResultsError.
        """
        return _json_file(self.folder / "result.json").get("free_nids") or {}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Return `settings.json`: what was in effect; empty where the run left none.

        Raises ResultsError.
        """
        return _json_file(self.folder / "settings.json")


@dataclass(frozen=True, kw_only=True)
class Campaign(CampaignRow):
    """A campaign as its journal had it at one instant. `tables`: the journal's own."""

    folder: Path
    runs: tuple[Run, ...]
    tables: dict[str, pl.DataFrame]

    @property
    def revision(self) -> str | None:
        """Return the git revision of the code that ran; None where none was recorded."""
        return meters.subtree(self.provenance, "controller").get("revision") or self.provenance.get(
            "git_revision"
        )

    def drives(self, run: Run) -> list[str]:
        """Return the drives that a run stood on.

        Its own or its array's members, and an external journal's.
        """
        own = meters.subtree(self.lab, "hosts", run.host, "arrays", run.drive).get("members", [run.drive])
        other = run.factors.get("journal", "internal")
        return [*own, *([other] if other != "internal" else [])]

    def emulated(self, run: Run) -> dict[str, str]:
        """Return what plays each of a run's emulated drives: "scsi_debug, 8 ms a request"."""
        known = meters.subtree(self.provenance, "emulated", run.host)
        return {drive: known[drive] for drive in self.drives(run) if drive in known}

    def cells(self) -> dict[str, list[Run]]:
        """Group the runs by cell, in the order in which the cells first come up."""
        cells: dict[str, list[Run]] = {}
        for run in self.runs:
            cells.setdefault(run.cell, []).append(run)
        return cells


def load(folder: Path | str) -> Campaign:
    """Read the campaign in `folder`, without writing, as of one instant: also while it runs.

    Raises
    ------
    ResultsError
        No folder or journal there; not SQLite, or not a journal of this project; a version that
        this program does not know; no campaign in it.
    """
    folder = Path(folder)
    path = folder / journal.FILE
    if not folder.is_dir():
        raise ResultsError(f"{folder}: no such folder; results/<campaign-id> is meant")
    if not path.is_file():
        raise ResultsError(f"{folder}: no {journal.FILE} in it: not the results folder of a campaign")
    try:
        rows = journal.read(path)
    except journal.JournalError as error:
        raise ResultsError(f"{path}: {error}") from None
    except sqlite3.DatabaseError as error:
        raise ResultsError(f"{path}: cannot be read as a journal: {error}") from None
    if not rows["campaign"]:
        raise ResultsError(f"{path}: the journal holds no campaign")
    try:
        return _campaign(folder, rows)
    except json.JSONDecodeError as error:
        raise ResultsError(f"{path}: a column that holds JSON does not: {error}") from None


def _campaign(folder: Path, rows: dict[str, list[dict[str, Any]]]) -> Campaign:
    by_run: dict[str, dict[str, list[Any]]] = {name: {} for name in schema.PER_RUN}
    for name, found in by_run.items():
        for row in rows[name]:
            found.setdefault(row["run"], []).append(_record(schema.TABLES[name].record, row))
    runs = []
    for row in rows["run"]:
        parts = {name: found.get(row["id"], []) for name, found in by_run.items()}
        runs.append(
            Run(
                **_decoded(RunRow, row),
                folder=folder / "runs" / row["id"],
                phases={phase.phase: phase for phase in parts["phase"]},
                performance=next(iter(parts["performance"]), None),
                energy=tuple(parts["energy"]),
                result=next(iter(parts["result"]), None),
                io={count.source: count for count in parts["io"]},
                attempts=tuple(parts["attempt"]),
            )
        )
    return Campaign(
        **_decoded(CampaignRow, rows["campaign"][0]),
        folder=folder,
        runs=tuple(runs),
        tables={name: pl.DataFrame(found, infer_schema_length=None) for name, found in rows.items()},
    )


def _record(record: type[Any], row: Mapping[str, Any]) -> Any:
    """Return a row of the journal as its data class, which has no `run`."""
    return record(**{name: row[name] for name in declared_columns(record)})


def _decoded(record: type[Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row of the journal. Raises json.JSONDecodeError."""
    found = {name: row[name] for name in declared_columns(record)}
    for name, one in declared_columns(record).items():
        if one.kind.startswith("dict"):
            found[name] = json.loads(row[name])
        elif one.kind == "bool":
            found[name] = bool(row[name])
    return found


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
