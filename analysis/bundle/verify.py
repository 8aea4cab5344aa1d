# SPDX-License-Identifier: GPL-3.0-or-later
"""The offline check of a bundle or a results folder.

Checks hashes, and recomputes every number from raw data.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import jinja2
import polars as pl

from joulerig import json_text
from joulerig.analysis import report, results
from joulerig.analysis.bundle import archive, crate, environment, manifest, recompute, reports, waveforms
from joulerig.analysis.bundle import tables as files_of_tables
from joulerig.analysis.bundle.archive import BundleError
from joulerig.analysis.bundle.check import FAILED, Check, Tally, judged, uncheckable
from joulerig.analysis.export import frames
from joulerig.analysis.powercut import folder as power_cuts
from joulerig.analysis.powercut import tables as power_cut_tables
from joulerig.analysis.powercut.folder import AFTER, CUT, FORMER_MANIFEST, WITNESS_LOG, is_former
from joulerig.analysis.results import power_points, run_file
from joulerig.analysis.results.campaign import PRECONDITION_FILE, Campaign, ResultsError
from joulerig.analysis.results.journal import FILE as JOURNAL
from joulerig.analysis.results.journal import connect
from joulerig.analysis.results.schema import FINISHED, WORKED, CampaignKind, Status
from joulerig.analysis.runs import loss_ledger
from joulerig.analysis.runs.cluster import Map, in_process
from joulerig.analysis.tables import runs_and_cells
from joulerig.errors import UNREADABLE
from joulerig.plural import counted

_STUMBLES = (
    *UNREADABLE,
    BundleError,
    OSError,
    ResultsError,
    jinja2.TemplateError,
    pl.exceptions.PolarsError,
    power_points.PowerFileError,
    run_file.RunFileError,
    sqlite3.Error,
)
_NOT_PACKED = {".lock", f"{JOURNAL}-wal", f"{JOURNAL}-shm"}


def verify(source: Path, here: Mapping[str, Any], mapped: Map[Any, Any] = in_process) -> Iterator[Check]:
    """Yield the checklist of a bundle (zip or unpacked) or results folder, as checks are made.

    Needs nothing but `source`, and writes nothing to it. `here`:
    joulerig.analysis.bundle.environment.here. `mapped`: by which waveforms are summed
    (joulerig.analysis.runs.cluster.mapping).

    Raises
    ------
    BundleError
        No such file or folder, neither a zip nor a folder with a journal or a manifest, a zip that
        is cut short, or one that joulerig.analysis.bundle.archive.extract refuses.
    """
    if source.is_dir():
        if not any((source / name).exists() for name in (JOURNAL, manifest.FILE, FORMER_MANIFEST)):
            raise BundleError(
                f"{source}: neither {JOURNAL} nor {manifest.FILE} in it: no bundle, no campaign"
            )
        if special := _special(source):
            raise BundleError(f"{source}: refused: {special} is neither a file nor a folder")
        yield uncheckable("zip", "a folder")
        yield from _check_folder(source, here, mapped)
        return
    if not source.is_file():
        raise BundleError(f"{source}: no such file or folder; give a bundle (zip or folder) or a campaign")
    with tempfile.TemporaryDirectory(prefix="joulerig-verify-") as name:
        count, damaged = archive.extract(source, Path(name))
        yield judged("zip", counted(count, "file"), damaged)
        yield from _check_folder(Path(name), here, mapped)


def _special(folder: Path) -> str:
    """Return the name of a pipe, socket or device in a folder, which reading may wait for."""
    for path in folder.rglob("*"):
        if path.exists() and not path.is_file() and not path.is_dir():
            return path.relative_to(folder).as_posix()
    return ""


def failed(checks: Sequence[Check]) -> bool:
    return any(check.state == FAILED for check in checks)


def _check_folder(folder: Path, here: Mapping[str, Any], mapped: Map[Any, Any]) -> Iterator[Check]:
    yield _guarded("manifest", lambda: _manifest(folder))
    yield _guarded("RO-Crate", lambda: _crate(folder))
    if is_former(folder):
        yield from _check_former_power_cuts(folder, here)
        return
    yield _guarded("journal", lambda: _journal(folder / JOURNAL))
    try:
        campaign = results.load(folder)
    except _STUMBLES as error:
        yield Check("campaign", FAILED, "nothing more can be checked", (_one_line(error, folder),))
        return
    yield _guarded("events", lambda: _events(campaign))
    yield _guarded("completeness", lambda: _completeness(campaign))
    yield _guarded("ledger", lambda: _ledger(campaign))
    try:
        again, tallies = recompute.recompute(campaign)
    except _STUMBLES as error:
        yield Check("recomputation", FAILED, "nothing more can be checked", (_one_line(error, folder),))
        return
    for kind, nouns in recompute.KINDS.items():
        yield tallies[kind].check(kind, *nouns)
    if not any(tally.compared for tally in tallies.values()):
        yield judged("recomputation", "", ["nothing was recomputed: no number follows from a run's file"])
    if waveforms.kept(again):
        yield _guarded(waveforms.NAME, lambda: waveforms.check(again, mapped))
    yield _guarded("AI of cells", lambda: _cells(campaign, again))
    yield _guarded("tables", lambda: files_of_tables.check(folder, _tables(folder, again)))
    try:
        html = reports.html(again)
    except _STUMBLES as error:
        yield Check("report.html", FAILED, "the report cannot be made", (_one_line(error, folder),))
        return
    origin = environment.origin(folder, here)
    yield _guarded("report.html", lambda: reports.check_html(folder, html, origin))
    yield _guarded("report.pdf", lambda: reports.check_pdf(folder, html, origin))


def _check_former_power_cuts(folder: Path, here: Mapping[str, Any]) -> Iterator[Check]:
    """Check power cuts without a journal: verdicts, tables and report, from the witness logs.

    A broken promise is a result, not a failed check.
    """
    try:
        cuts = power_cuts.load(folder)
        html = report.former_html(cuts)
    except _STUMBLES as error:
        yield Check("power cuts", FAILED, "nothing more can be checked", (_one_line(error, folder),))
        return
    verdicts = cuts.verdicts().values()
    count, broken = sum(one.cuts for one in verdicts), sum(one.broken_cuts for one in verdicts)
    detail = f"{counted(count, 'cut')} of {counted(len(cuts.subjects), 'subject')}, {broken} broke a promise"
    yield judged("power cuts", detail, [])
    yield _guarded("tables", lambda: files_of_tables.check(folder, power_cut_tables.frames(cuts)))
    origin = environment.origin(folder, here)
    yield _guarded("report.html", lambda: reports.check_html(folder, html, origin))
    yield _guarded("report.pdf", lambda: reports.check_pdf(folder, html, origin))


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    """Make a check; report it as failed where content that others wrote makes it stumble."""
    try:
        return check()
    except _STUMBLES as error:
        return Check(name, FAILED, "cannot be checked", (_one_line(error),))


def _one_line(error: Exception, folder: Path | None = None) -> str:
    message = " ".join(str(error).split())[:240]
    return message.replace(f"{folder}/", "") if folder else message


def _manifest(folder: Path) -> Check:
    if not (folder / manifest.FILE).is_file():
        return uncheckable("manifest", f"no {manifest.FILE}: a results folder, or a bundle that has lost it")
    digests = manifest.parse(folder / manifest.FILE)
    found = manifest.compare(folder, digests)
    offenders = [
        *(f"changed: {what}" for what in found.changed),
        *(f"missing: {name}" for name in found.missing),
        *(f"not in the manifest: {name}" for name in found.surplus),
    ]
    return judged("manifest", f"SHA-256 of {counted(len(digests), 'file')}", offenders)


def _crate(folder: Path) -> Check:
    path = folder / crate.FILE
    if not path.is_file():
        return uncheckable("RO-Crate", f"no {crate.FILE}")
    names = set(manifest.names(folder)) - {crate.FILE}
    wrong = crate.problems(json_text.read(path), names)
    return judged("RO-Crate", f"{counted(len(names), 'file')} described", wrong)


def _journal(path: Path) -> Check:
    try:
        with closing(connect(path)) as journal:
            version = journal.execute("PRAGMA user_version").fetchone()[0]
            wrong = [row[0] for row in journal.execute("PRAGMA integrity_check") if row[0] != "ok"]
            wrong += [
                f"table {table}, row {row}: refers to a row of {parent} that is not there"
                for table, row, parent, _ in journal.execute("PRAGMA foreign_key_check")
            ]
    except sqlite3.DatabaseError as error:
        return judged("journal", "cannot be read", [str(error)])
    return judged("journal", f"SQLite's integrity and references, version {version}", wrong)


def _events(campaign: Campaign) -> Check:
    """Check that the status of each run is what the events say it became last."""
    last: dict[str, str] = {}
    for row in campaign.tables["event"].iter_rows(named=True):
        if row["event"] == "status":
            last[row["run"]] = json_text.parse(row["detail"])["to"]
        elif row["event"] == "resumed":
            last[row["run"]] = Status.PLANNED
    if not last:
        return uncheckable("events", "no change of a status is recorded")
    wrong = [
        f"{run.id}: its status is {run.status}, its events end with {last[run.id]}"
        for run in campaign.runs
        if run.id in last and last[run.id] != run.status
    ]
    return judged("events", f"last status of {counted(len(last), 'run')}", wrong)


def _completeness(campaign: Campaign) -> Check:
    """Check that all planned runs are there, and that each that worked has its files."""
    wrong = []
    for row in campaign.tables["event"].iter_rows(named=True):
        planned = json_text.parse(row["detail"]).get("runs") if row["event"] == "created" else None
        if planned is not None and planned != len(campaign.runs):
            wrong.append(f"{counted(planned, 'run')} planned, {len(campaign.runs)} in the journal")
    expected = 0
    for run in campaign.runs:
        files = _expected_files(campaign, run)
        expected += len(files)
        wrong += [f"runs/{run.id}/{name}: missing" for name in files if not (run.folder / name).is_file()]
    known = {run.id for run in campaign.runs}
    folders = campaign.folder / "runs"
    there = sorted(path.name for path in folders.iterdir()) if folders.is_dir() else []
    wrong += [f"runs/{name}: of no run in the journal" for name in there if name not in known]
    to_come = sum(run.status not in FINISHED for run in campaign.runs)
    if campaign.finished_ns is not None:
        wrong += [
            f"{run.id}: {run.status}, though the campaign is over"
            for run in campaign.runs
            if run.status not in FINISHED
        ]
    elif not wrong:
        detail = f"the campaign is not over: {to_come} of {counted(len(campaign.runs), 'run')} to come"
        return uncheckable("completeness", f"{detail}; {counted(expected, 'file')} of the others found")
    return judged(
        "completeness",
        f"{counted(len(campaign.runs), 'run')}, {counted(expected, 'file')} of those that worked",
        wrong,
    )


def _expected_files(campaign: Campaign, run: results.Run) -> list[str]:
    """List what a run that worked leaves in its folder, by what the journal has of it."""
    if run.status not in WORKED:
        return []
    if campaign.kind == CampaignKind.POWER_CUT:
        files = [AFTER, CUT, WITNESS_LOG]
    else:
        files = ["result.json", "load.json", "settings.json"]
    if any(rail.joules is not None for rail in run.energy):
        files.append("power.csv")
    if any(rail.true_joules is not None for rail in run.energy):
        files.append("truth.json")
    if campaign.definition.get("precondition"):
        files.append(PRECONDITION_FILE)
    if campaign.definition.get("waveforms") and run.energy:
        files.append("waveforms.json")
    return files


def _ledger(campaign: Campaign) -> Check:
    """Check the loss ledger of each phase and rail, and of each power point.

    expected = samples + lost + duplicate + repeated + over_range + impossible.
    """
    rails = [(run, rail) for run in campaign.runs for rail in run.energy if rail.unaccounted is not None]
    wrong = [
        f"{run.id}: {rail.phase}: {rail.drive} {rail.rail} on {rail.meter}: {rail.expected} expected,"
        f" {rail.expected - rail.unaccounted} accounted for"
        for run, rail in rails
        if rail.unaccounted != 0
    ]
    later = (pl.col(name).fill_null(0) for name in ("over_range", "impossible"))
    accounted = pl.sum_horizontal("samples", "lost", "duplicate", "repeated", *later, ignore_nulls=False)
    points = 0
    for frame in frames.powers(campaign):
        points += frame.select((pl.col("expected") - accounted).is_not_null().sum()).item()
        off = frame.filter(pl.col("expected") != accounted)
        if off.height:
            first = off.row(0, named=True)
            points_off = counted(off.height, "point")
            wrong.append(f"{first['run']}: power.csv: {points_off} off, the first at {first['time_ns']}")
    if not rails and not points:
        return uncheckable("ledger", "nothing was measured, or parts of the ledger are not known")
    parts = (
        counted(len(loss_ledger.meter_ledgers(campaign)), "meter"),
        counted(len(rails), "phase and rail", "phases and rails"),
        counted(points, "power point"),
    )
    return judged("ledger", ", ".join(parts), wrong)


def _tables(folder: Path, again: Campaign) -> dict[str, pl.DataFrame]:
    """Recompute the tables; the long series only where `folder` has files of them."""
    found = frames.small(again)
    return found if files_of_tables.present(folder) <= set(found) else found | frames.long(again)


def _cells(campaign: Campaign, again: Campaign) -> Check:
    stored, computed = runs_and_cells.cells(campaign), runs_and_cells.cells(again)
    columns = [name for name in computed.columns if name.startswith("ai_")]
    tally = Tally()
    files_of_tables.compare_frames(stored, computed, columns, tally)
    return tally.check("AI of cells", "figure")
