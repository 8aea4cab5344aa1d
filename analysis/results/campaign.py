# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a campaign's results folder: its journal and the files of its runs. Writes nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

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
from joulerig.garbage import none_collected

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
        return self._worked and self.result is not None and (self.result.ai_joules or 0.0) > 0

    def gap_correction(self, rail: RailEnergy) -> float:
        """Return what the run's AI counts of a rail's gaps, in joules; 0 in a journal of before."""
        corrected = self.result is not None and self.result.corrected_joules is not None
        return rail.budget.correction if corrected else 0.0

    @property
    def is_control(self) -> bool:
        """Return whether it is one for the control of cross-talk, which no cell has."""
        return schema.is_control(self.factors)

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
    def health_before(self) -> dict[str, Any]:
        """Return `smart_before.json`: the drive's health report, of several drives by drive.

        Empty where there is none. Raises ResultsError.
        """
        return _json_file(self.folder / "smart_before.json")

    @cached_property
    def health_after(self) -> dict[str, Any]:
        """Return `smart_after.json`, as `health_before`."""
        return _json_file(self.folder / "smart_after.json")

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
    tables: Mapping[str, pl.DataFrame]

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

    @property
    def without_controls(self) -> Self:
        """Return the campaign without its runs for the control of cross-talk."""
        return replace(self, runs=tuple(run for run in self.runs if not run.is_control))

    def cells(self) -> dict[str, list[Run]]:
        """Group the runs by cell, in the order in which the cells first come up.

        Runs for the control of cross-talk are in none.
        """
        cells: dict[str, list[Run]] = {}
        for run in self.without_controls.runs:
            cells.setdefault(run.cell, []).append(run)
        return cells


class Tables(Mapping[str, pl.DataFrame]):
    """The journal's tables by name, each a frame once it is asked for: few readers need any."""

    def __init__(self, rows: Mapping[str, journal.Rows]) -> None:
        self._rows = rows
        self._frames: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._frames:
            self._frames[name] = pl.DataFrame(self._rows[name].by_name(), infer_schema_length=None)
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


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
        with none_collected():
            rows = journal.read(path)
    except journal.JournalError as error:
        raise ResultsError(f"{path}: {error}") from None
    except sqlite3.DatabaseError as error:
        raise ResultsError(f"{path}: cannot be read as a journal: {error}") from None
    if not rows["campaign"].values:
        raise ResultsError(f"{path}: the journal holds no campaign")
    try:
        with none_collected():
            return _campaign(folder, rows)
    except json.JSONDecodeError as error:
        raise ResultsError(f"{path}: a column that holds JSON does not: {error}") from None


def _campaign(folder: Path, rows: Mapping[str, journal.Rows]) -> Campaign:
    attempts, phases, performances, energies, results, io = (
        _by_run(schema.TABLES[name], rows[name])
        for name in ("attempt", "phase", "performance", "energy", "result", "io")
    )
    runs, folders = [], folder / "runs"
    for fields in _decoded(RunRow, rows["run"]):
        run = fields["id"]
        runs.append(
            Run(
                **fields,
                folder=folders / run,
                phases={phase.phase: phase for phase in phases.get(run, ())},
                performance=next(iter(performances.get(run, ())), None),
                energy=tuple(energies.get(run, ())),
                result=next(iter(results.get(run, ())), None),
                io={count.source: count for count in io.get(run, ())},
                attempts=tuple(attempts.get(run, ())),
            )
        )
    return Campaign(
        **next(_decoded(CampaignRow, rows["campaign"])), folder=folder, runs=tuple(runs), tables=Tables(rows)
    )


def _by_run(table: schema.Table, rows: journal.Rows) -> dict[str, list[Any]]:
    """Return the rows of a table as its data classes, by run, which is their first column."""
    names = rows.names[1:]
    found: dict[str, list[Any]] = {}
    for run, *values in rows.values:
        one = object.__new__(table.record)
        # Not by its __init__, which sets the fields of a frozen data class one by one: a journal of
        # 10,000 runs has 150,000 such rows.
        one.__dict__.update(zip(names, values, strict=True))
        found.setdefault(run, []).append(one)
    return found


def _decoded(record: type[Any], rows: journal.Rows) -> Iterator[dict[str, Any]]:
    """Yield the fields of each row of a table. Raises json.JSONDecodeError."""
    kinds = {name: one.kind for name, one in declared_columns(record).items()}
    json_columns = [name for name, kind in kinds.items() if kind.startswith("dict")]
    flags = [name for name, kind in kinds.items() if kind == "bool"]
    for values in rows.values:
        found = dict(zip(rows.names, values, strict=True))
        for name in json_columns:
            found[name] = json.loads(found[name])
        for name in flags:
            found[name] = bool(found[name])
        yield found


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
