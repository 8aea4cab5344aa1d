# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables that an export has in addition to those of analysis.tables.runs_and_cells.

Phases, energy by rail, I/O counts, series, waveforms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from joulerig import json_text
from joulerig.analysis.powercut import folder as power_cuts
from joulerig.analysis.powercut import tables as power_cut_tables
from joulerig.analysis.results import power_points as power
from joulerig.analysis.results import progress, waveform
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.results.columns import frame_schema
from joulerig.analysis.results.schema import CampaignKind, IoCount, Phase, RailEnergy
from joulerig.analysis.tables import runs_and_cells

_OF_RUN = {"campaign": pl.String, "run": pl.String}

PHASE_COLUMNS = {**_OF_RUN, **frame_schema(Phase), "seconds": pl.Float64}
ENERGY_COLUMNS = {**_OF_RUN, **frame_schema(RailEnergy)}
IO_COLUMNS = {**_OF_RUN, **frame_schema(IoCount)}
POWER_COLUMNS = {**_OF_RUN, **power.COLUMNS}
PROGRESS_COLUMNS = {**_OF_RUN, **progress.COLUMNS}
ROUND_COLUMNS = {
    **_OF_RUN,
    "drive": pl.String,
    "stretch": pl.Int64,
    "round": pl.Int64,
    "iops": pl.Float64,
    "watts": pl.Float64,
}
WAVEFORM_COLUMNS = {
    **_OF_RUN,
    "meter": pl.String,
    "file": pl.String,
    "bytes": pl.Int64,
    "sample_rate_hz": pl.Float64,
    "recorded": pl.Int64,
    "dropped": pl.Int64,
    "cut": pl.Int64,
    "error": pl.String,
}


def phases(campaign: Campaign) -> pl.DataFrame:
    """Return one row for each phase of a run. Columns: `PHASE_COLUMNS`."""
    rows = [
        {**_head(campaign, run), **vars(phase), "seconds": phase.seconds}
        for run in campaign.runs
        for phase in run.phases.values()
    ]
    return pl.DataFrame(rows, schema=PHASE_COLUMNS)


def energy(campaign: Campaign) -> pl.DataFrame:
    """Return one row for each phase and rail of a run. Columns: `ENERGY_COLUMNS`."""
    rows = [{**_head(campaign, run), **vars(rail)} for run in campaign.runs for rail in run.energy]
    return pl.DataFrame(rows, schema=ENERGY_COLUMNS)


def io(campaign: Campaign) -> pl.DataFrame:
    """Return one row for each run and source of its I/O counts. Columns: `IO_COLUMNS`."""
    rows = [{**_head(campaign, run), **vars(count)} for run in campaign.runs for count in run.io.values()]
    return pl.DataFrame(rows, schema=IO_COLUMNS)


def rounds(campaign: Campaign) -> pl.DataFrame:
    """Return one row for each round of a precondition. Columns: `ROUND_COLUMNS`.

    A row names the run that the precondition was made for. Raises ResultsError where a run's file
    of it is damaged.
    """
    rows = [row for run in campaign.runs for row in _rounds(campaign, run)]
    return pl.DataFrame(rows, schema=ROUND_COLUMNS)


def load_progress(campaign: Campaign) -> pl.DataFrame:
    """Return one row for each progress report of a run's load. Columns: `PROGRESS_COLUMNS`.

    A row is an instant at which the load reported what it had done. Raises
    joulerig.analysis.results.run_file.RunFileError.
    """
    found = [pl.DataFrame(schema=PROGRESS_COLUMNS)]
    for run in campaign.runs:
        if (points := progress.read(run.folder)) is not None:
            found.append(_named(campaign, run, points.select(*progress.COLUMNS)))
    return pl.concat(found)


def waveforms(campaign: Campaign) -> pl.DataFrame:
    """Return one row for each meter recorded at full rate in a run. Columns: `WAVEFORM_COLUMNS`.

    `file` is from the results folder; null where the recording failed, with the reason in `error`.
    Raises ResultsError where waveforms.json is damaged.
    """
    rows = [row for run in campaign.runs for row in _waveforms(campaign, run)]
    return pl.DataFrame(rows, schema=WAVEFORM_COLUMNS)


def powers(campaign: Campaign) -> Iterator[pl.DataFrame]:
    """Yield the power points of each run, with its name. Columns: `POWER_COLUMNS`.

    A run without any is left out. Raises joulerig.analysis.results.power_points.PowerFileError.
    """
    for run in campaign.runs:
        if (points := power.read(run.folder / "power.csv")) is not None:
            yield _named(campaign, run, points.select(*power.COLUMNS))


def power_points(campaign: Campaign) -> pl.DataFrame:
    """Return `powers` of all runs in one table."""
    return pl.concat([pl.DataFrame(schema=POWER_COLUMNS), *powers(campaign)])


def small(campaign: Campaign) -> dict[str, pl.DataFrame]:
    """Return all tables but time series and waveforms, by name: what a bundle holds.

    Raises joulerig.analysis.powercut.folder.PowerCutError.
    """
    run_tables = {"phases": phases(campaign), "energy": energy(campaign), "io": io(campaign)}
    cuts = power_cuts.from_campaign(campaign) if campaign.kind == CampaignKind.POWER_CUT else None
    return runs_and_cells.frames(campaign) | run_tables | power_cut_tables.frames(cuts)


def long(campaign: Campaign) -> dict[str, pl.DataFrame]:
    """Return the time series and the waveforms, by name.

    Raises ResultsError, joulerig.analysis.results.power_points.PowerFileError,
    joulerig.analysis.results.run_file.RunFileError.
    """
    return {
        "power": power_points(campaign),
        "rounds": rounds(campaign),
        "progress": load_progress(campaign),
        "waveforms": waveforms(campaign),
    }


def every(campaign: Campaign) -> dict[str, pl.DataFrame]:
    """Return all tables, by name. Raises what `small` and `long` do."""
    return small(campaign) | long(campaign)


def _head(campaign: Campaign, run: Run) -> dict[str, str]:
    return {"campaign": campaign.id, "run": run.id}


def _named(campaign: Campaign, run: Run, points: pl.DataFrame) -> pl.DataFrame:
    names = [pl.lit(value).alias(name) for name, value in _head(campaign, run).items()]
    return points.select(*names, pl.all())


def _rounds(campaign: Campaign, run: Run) -> Iterator[dict[str, Any]]:
    number = 0
    for index, stretch in enumerate(run.precondition.get("stretches", []), start=1):
        for one in stretch:
            number += 1
            yield {**_head(campaign, run), "drive": run.drive, "stretch": index, "round": number, **one}


def _waveforms(campaign: Campaign, run: Run) -> Iterator[dict[str, Any]]:
    path = run.folder / "waveforms.json"
    if not path.is_file():
        return
    try:
        recorded: Mapping[str, Mapping[str, Any]] = json_text.read_object(path)
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: cannot be read as JSON: {error}") from None
    for meter, said in sorted(recorded.items()):
        counted = {name: said.get(name) for name in ("recorded", "dropped", "cut")}
        row = {**_head(campaign, run), "meter": meter, **counted, "error": said.get("error") or None}
        file = run.folder / f"waveform-{meter}.parquet"
        if file.is_file():
            row |= {"file": str(file.relative_to(campaign.folder)), **_file_row(file)}
        yield row


def _file_row(path: Path) -> dict[str, Any]:
    try:
        meta = waveform.metadata(path)
    except waveform.WaveformError as error:
        return {"bytes": path.stat().st_size, "error": str(error)}
    return {"bytes": path.stat().st_size, "sample_rate_hz": meta.get("sample_rate_hz")}
