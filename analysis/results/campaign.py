# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: RUF009 (each _part() is a descriptor, that is its own field's)
"""Read a campaign's results folder: its journal and the files of its runs. Writes nothing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from joulerig import json_text
from joulerig.analysis.energy import meters
from joulerig.analysis.energy.indicator import moved
from joulerig.analysis.results import journal, schema
from joulerig.analysis.results.columns import declared_columns
from joulerig.analysis.results.schema import (
    Attempt,
    CampaignRow,
    IoCount,
    Performance,
    Phase,
    PhaseName,
    RailEnergy,
    Result,
    RunRow,
    Status,
)
from joulerig.errors import JoulerigError
from joulerig.garbage import none_collected

if TYPE_CHECKING:
    import polars as pl

PRECONDITION_FILE = "precondition.json"  # in a run's folder
UNIT_BYTES = 512_000  # of a data unit in an NVMe drive's health report (base specification, SMART log)


def current_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a precondition's recipe by its present keys: `passes` was `fill` at first."""
    return {"passes" if key == "fill" else key: value for key, value in recipe.items()}


class ResultsError(JoulerigError):
    """A results folder that cannot be read; the message is one line that names it."""


# What comparisons need of a run's load, in the order of `LoadAmounts.from_stored`.
_STORED = {
    "performance": ("seconds", "ops", "read_bytes", "write_bytes"),
    "result": ("joules", "corrected_joules"),
    "phase": ("start_ns", "end_ns"),
}
RAIL_AMOUNTS = (
    "drive",
    "rail",
    "meter",
    "joules",
    "gap_seconds",
    "gap_low_joules",
    "gap_high_joules",
    "interpolation_joules",
    "alignment_joules",
    "product_joules",
    "meter_joules",
    "volt_seconds",
    "amp_seconds",
    "samples",
    "spread_watts",
)


class LoadAmounts(NamedTuple):
    """What a run's load did and took; None: not known.

    `seconds`: by the load's own report. `joules`: those that AI is of. `corrected`: they are in the
    middle of what gaps and V x I leave open, which those of a journal of before are not.
    `phase_seconds`, `phase_start_ns` (0 without one): of the workload phase, on the controller's
    clock.
    """

    ops: int | None
    seconds: float | None
    bytes_moved: int | None
    joules: float | None
    corrected: bool
    phase_seconds: float | None
    phase_start_ns: int

    @classmethod
    def from_stored(
        cls,
        seconds: float | None,
        ops: int | None,
        read_bytes: int | None,
        write_bytes: int | None,
        joules: float | None,
        corrected_joules: float | None,
        start_ns: int | None,
        end_ns: int | None,
    ) -> Self:
        """Make the amounts of what the journal has, None where it has no row."""
        return cls(
            ops,
            seconds,
            moved(read_bytes, write_bytes),
            schema.ai_joules(joules, corrected_joules),
            corrected_joules is not None,
            None if start_ns is None or end_ns is None else schema.seconds_between(start_ns, end_ns),
            start_ns or 0,
        )


class _Part:
    """A part of a run, that its campaign reads for all runs when it is asked for first.

    A dataclass takes no default from a descriptor that has no value of the class, and what a
    constructor gives goes before it, as it does before a `cached_property`.
    """

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, run: Run | None, _: type) -> Any:
        if run is None or "_parts" not in run.__dict__:
            raise AttributeError(self._name)
        found = run.__dict__[self._name] = run.__dict__["_parts"].of_run(self._name, run.id)
        return found


def _part() -> Any:
    return _Part()


@dataclass(frozen=True)
class Run(RunRow):
    """One execution of a cell. Parts that the run did not come to are None or empty."""

    folder: Path = _part()
    phases: dict[str, Phase] = _part()
    performance: Performance | None = _part()
    energy: tuple[RailEnergy, ...] = _part()
    result: Result | None = _part()
    io: dict[str, IoCount] = _part()
    attempts: tuple[Attempt, ...] = _part()

    @cached_property
    def load_amounts(self) -> LoadAmounts:
        """Return what comparisons need of the run's load."""
        records = (self.performance, self.result, self.phases.get(PhaseName.WORKLOAD))
        return LoadAmounts.from_stored(
            *(
                None if record is None else getattr(record, name)
                for record, names in zip(records, _STORED.values(), strict=True)
                for name in names
            )
        )

    @cached_property
    def rail_amounts(self) -> tuple[tuple[Any, ...], ...]:
        """Return what they need of the load's energy, one row a rail: values of `RAIL_AMOUNTS`."""
        rails = (rail for rail in self.energy if rail.phase == PhaseName.WORKLOAD)
        return tuple(tuple(getattr(rail, name) for name in RAIL_AMOUNTS) for rail in rails)

    @property
    def counts(self) -> bool:
        """Return whether the run enters its cell's AI: it is ok, and has performance and joules.

        The joules must be above 0, as they are divided by.
        """
        return self._worked and (self.load_amounts.joules or 0.0) > 0

    def block_counts(self, drive: str) -> IoCount | None:
        """Return what the block layer passed to a drive of the run, as the host's agent counted."""
        return self.io.get(f"iod {drive}") or self.io.get("iod")

    @property
    def clock(self) -> tuple[int, int]:
        """Return the controller's clock less the host's in its first phase, and its error, in ns.

        Both are 0 of a run that came to no phase.
        """
        first = next(iter(self.phases.values()), None)
        return (first.clock_offset_ns, first.clock_error_ns) if first else (0, 0)

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
        return self.status == Status.OK and (self.load_amounts.seconds or 0.0) > 0

    @cached_property
    def precondition(self) -> dict[str, Any]:
        """Return `precondition.json`, how the drive came to its state; empty where not asked for.

        Keys: reused, why, by (a run), recipe, verdict, and, where it was made for this run,
        stretches of rounds. Raises ResultsError.
        """
        found = _json_file(self.folder, PRECONDITION_FILE)
        return {**found, "recipe": current_recipe(found["recipe"])} if "recipe" in found else found

    @cached_property
    def load(self) -> dict[str, Any]:
        """Return `load.json`: the load's own report; empty where the run left none.

        Raises ResultsError.
        """
        return _json_file(self.folder, "load.json")

    @cached_property
    def health_before(self) -> dict[str, Any]:
        """Return `smart_before.json`: the drive's health report, of several drives by drive.

        Empty where there is none. Raises ResultsError.
        """
        return _json_file(self.folder, "smart_before.json")

    @cached_property
    def health_after(self) -> dict[str, Any]:
        """Return `smart_after.json`, as `health_before`."""
        return _json_file(self.folder, "smart_after.json")

    @cached_property
    def seeks(self) -> dict[str, Any]:
        """Return requests, seeks and distance_bytes by drive; empty where not counted.

        Raises ResultsError.
        """
        return (_json_file(self.folder, "result.json").get("seeks") or {}).get("drives") or {}

    @cached_property
    def free_nids(self) -> dict[str, Any]:
        """Return f2fs's syncs, scans and their seconds by the kernel's trace, or `why` it has none.

        Empty where it was not asked for. Raises ResultsError.
        """
        return _json_file(self.folder, "result.json").get("free_nids") or {}

    @cached_property
    def power_reports(self) -> list[dict[str, Any]] | None:
        """Return what drives reported of their own power, by phase; None where none was asked.

        Raises ResultsError.
        """
        return _json_file(self.folder, "result.json").get("power_reports")

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Return `settings.json`: what was in effect; empty where the run left none.

        Raises ResultsError.
        """
        return _json_file(self.folder, "settings.json")


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
        for run in self.runs:
            if not run.is_control:
                cells.setdefault(run.cell, []).append(run)
        return cells


class _Parts:
    """What the journal in a results folder has of a campaign, each part read when it is asked for.

    All of it is as of one instant.
    """

    def __init__(self, folder: Path) -> None:
        """Copy the journal. Raises ResultsError."""
        self._path = folder / journal.FILE
        self._folders = folder / "runs"
        self._by_part: dict[str, Mapping[str, Any]] = {}
        with self._errors():
            self._copy = journal.copy(self._path)

    def rows(self, table: str, columns: Sequence[str] = (), phase: str | None = None) -> journal.Rows:
        """Return a table's rows, as `journal.JournalCopy.rows`. Raises ResultsError."""
        with self._errors():
            return self._copy.rows(table, columns, phase)

    def by_run(self, table: str) -> dict[str, list[Any]]:
        """Return the rows of a table as its data classes, by run."""
        found: dict[str, list[Any]] = {}
        with none_collected():
            rows, record = self.rows(table), schema.TABLES[table].record
            names = rows.names[1:]  # the first one is `run`
            for values in rows.values:
                one = _made(record, zip(names, values[1:], strict=True))
                found.setdefault(values[0], []).append(one)
        return found

    def of_run(self, part: str, run: str) -> Any:
        """Return a part of a run. Raises ResultsError."""
        if part == "folder":
            return self._folders / run
        table, made = _MADE[part]
        if part not in self._by_part:
            self._by_part[part] = self.by_run(table)
        return made(self._by_part[part].get(run, ()))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except journal.JournalError as error:
            raise ResultsError(f"{self._path}: {error}") from None
        except sqlite3.DatabaseError as error:
            raise ResultsError(f"{self._path}: cannot be read as a journal: {error}") from None


def _made(record: type[Any], fields: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Any:
    """Return an object of a frozen data class with these fields.

    Not by its __init__, which sets them one by one: a journal of 10,000 runs has 150,000 rows.
    """
    one = object.__new__(record)
    one.__dict__.update(fields)
    return one


def _only(rows: Sequence[Any]) -> Any:
    return rows[0] if rows else None


# By part of a run: its table, and how it is made of the run's rows.
_MADE: Mapping[str, tuple[str, Callable[[Sequence[Any]], Any]]] = {
    "phases": ("phase", lambda rows: {row.phase: row for row in rows}),
    "performance": ("performance", _only),
    "energy": ("energy", tuple),
    "result": ("result", _only),
    "io": ("io", lambda rows: {row.source: row for row in rows}),
    "attempts": ("attempt", tuple),
}


class Tables(Mapping[str, "pl.DataFrame"]):
    """The journal's tables by name, each a frame once it is asked for: few readers need any."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts
        self._frames: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        import polars as pl

        if name not in self._frames:
            rows = self._parts.rows(name).by_name()
            self._frames[name] = pl.DataFrame(rows, infer_schema_length=None)
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(schema.TABLES)

    def __len__(self) -> int:
        return len(schema.TABLES)


def load(folder: Path | str) -> Campaign:
    """Read the campaign in `folder`, without writing, as of one instant: also while it runs.

    What comparisons of cells need of its runs is read at once, the rest when it is asked for.

    Raises
    ------
    ResultsError
        No folder or journal there; not SQLite, or not a journal of this project; a version that
        this program does not know; no campaign in it. Also later, where a table that was not read
        at once cannot be read.
    """
    folder = Path(folder)
    path = folder / journal.FILE
    if not folder.is_dir():
        raise ResultsError(f"{folder}: no such folder; results/<campaign-id> is meant")
    if not path.is_file():
        raise ResultsError(f"{folder}: no {journal.FILE} in it: not the results folder of a campaign")
    parts = _Parts(folder)
    campaigns = parts.rows("campaign")
    if not campaigns.values:
        raise ResultsError(f"{path}: the journal holds no campaign")
    try:
        with none_collected():
            (fields,) = _decoded(CampaignRow, campaigns)
            return Campaign(**fields, folder=folder, runs=tuple(_runs(parts)), tables=Tables(parts))
    except ValueError as error:
        raise ResultsError(f"{path}: cannot be read as a journal: {error}") from None


def _runs(parts: _Parts) -> Iterator[Run]:
    """Yield the runs, with what comparisons need of their loads.

    Raises ValueError, ResultsError.
    """
    stored = []
    for table, columns in _STORED.items():
        phase = PhaseName.WORKLOAD if table == "phase" else None
        rows = parts.rows(table, ("run", *columns), phase).values
        stored.append(({row[0]: row[1:] for row in rows}, (None,) * len(columns)))
    (performances, no_performance), (results, no_result), (phases, no_phase) = stored
    rails: dict[str, list[tuple[Any, ...]]] = {}
    for row in parts.rows("energy", ("run", *RAIL_AMOUNTS), PhaseName.WORKLOAD).values:
        rails.setdefault(row[0], []).append(row[1:])
    for fields in _decoded(RunRow, parts.rows("run")):
        run = fields["id"]
        if run in ("", ".", "..") or "/" in run or not run.isprintable():
            raise ValueError(f"run.id: {run[:80]!r} is no name of a folder")
        fields["_parts"] = parts
        fields["load_amounts"] = LoadAmounts.from_stored(
            *performances.get(run, no_performance), *results.get(run, no_result), *phases.get(run, no_phase)
        )
        fields["rail_amounts"] = tuple(rails.get(run, ()))
        yield _made(Run, fields)


def _decoded(record: type[Any], rows: journal.Rows) -> Iterator[dict[str, Any]]:
    """Yield the fields of each row of a table. Raises ValueError."""
    kinds = {name: one.kind for name, one in declared_columns(record).items()}
    json_columns = [name for name, kind in kinds.items() if kind.startswith("dict")]
    flags = [name for name, kind in kinds.items() if kind == "bool"]
    known: dict[str, dict[str, Any]] = {}  # replicates have the same factors
    for values in rows.values:
        found = dict(zip(rows.names, values, strict=True))
        for name in json_columns:
            text = found[name]
            if text not in known:
                known[text] = _object(name, text)
            found[name] = known[text].copy()
        for name in flags:
            found[name] = bool(found[name])
        yield found


def _object(name: str, text: str) -> dict[str, Any]:
    """Return the object that a column's JSON holds. Raises ValueError."""
    try:
        return json_text.parse_object(text)
    except ValueError as error:
        raise ValueError(f"a column that holds JSON does not: {name}: {error}") from None


def _json_file(folder: Path, name: str) -> dict[str, Any]:
    # A Path of each file takes longer to make than most of them to read.
    path = os.path.join(folder, name)
    try:
        return json_text.read_object(path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: cannot be read as JSON: {error}") from None
