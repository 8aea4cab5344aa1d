# SPDX-License-Identifier: GPL-3.0-or-later
"""The joules of runs worked out anew: from the power points and the full-rate waveforms that they kept.

One table beside what the journal says. Thousands of runs, and waveforms of any length, go through
`joulerig.analysis.runs.cluster`: the functions are those of one run, and so are the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from joulerig.analysis.results import power_points, waveform_chunks
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import RailEnergy
from joulerig.analysis.results.waveform import WaveformError
from joulerig.analysis.results.waveform_chunks import Block, Stretch
from joulerig.analysis.runs.cluster import Map

PHASE = "workload"
COLUMNS = {
    "campaign": pl.String,
    "run": pl.String,
    "cell": pl.String,
    "meter": pl.String,
    "drive": pl.String,
    "rail": pl.String,
    "joules": pl.Float64,
    "points_joules": pl.Float64,
    "waveform_joules": pl.Float64,
    "waveform_samples": pl.Int64,
    "expected_samples": pl.Int64,
    "waveform_less_percent": pl.Float64,
    "problem": pl.String,
}


@dataclass(frozen=True)
class Points:
    """A run's power.csv and an interval of it."""

    path: Path
    interval: tuple[int, int]


@dataclass(frozen=True)
class _Found:
    """What a piece of work came to: `joules` by (drive, meter, rail), a block's `stretches`, or why not."""

    joules: dict[tuple[str, str, str], float | None]
    stretches: tuple[Stretch, ...] = ()
    problem: str = ""


def done(work: Points | Block) -> _Found:
    """One piece of work, wherever it is done."""
    try:
        if isinstance(work, Block):
            return _Found({}, tuple(waveform_chunks.stretches(work)))
        frame = power_points.read(work.path)
        if frame is None:
            return _Found({})
        return _Found(
            {key: one.joules for key, one in power_points.energy_by_rail(frame, *work.interval).items()}
        )
    except (WaveformError, power_points.PowerFileError) as error:
        return _Found({}, problem=str(error))


def work_of(campaign: Campaign) -> list[Points | Block]:
    """All there is to do for a campaign, in the order of its runs: its workload phases' points and blocks."""
    return [work for run in campaign.runs for work in _of_run(run)[0]]


def table(campaign: Campaign, mapped: Map) -> pl.DataFrame:
    """One row a rail of a run's workload phase. Columns: `COLUMNS`.

    `joules` is the journal's, `points_joules` from power.csv, `waveform_joules` the sum over the samples of
    `waveform-METER.parquet` that end in the phase; `waveform_less_percent`: how much less than `joules` that
    is: lost samples are in no sum. `problem`: what cannot be read.
    """
    works = {run.id: _of_run(run) for run in campaign.runs}
    found = iter(mapped(done, [work for of_run, _ in works.values() for work in of_run]))
    rows = []
    for run in campaign.runs:
        of_run, problems = works[run.id]
        rows += _rows(campaign, run, of_run, [next(found) for _ in of_run], problems)
    return pl.DataFrame(rows, schema=COLUMNS)


def _of_run(run: Run) -> tuple[list[Points | Block], list[str]]:
    """A run's work, and which of its waveforms cannot be read."""
    if PHASE not in run.phases:
        return [], []
    interval = run.phases[PHASE].start_ns, run.phases[PHASE].end_ns
    works: list[Points | Block] = [Points(run.folder / "power.csv", interval)]
    problems = []
    for path in sorted(run.folder.glob("waveform-*.parquet")):
        try:
            works += waveform_chunks.of_file(path, interval)
        except WaveformError as error:
            problems.append(str(error))
    return works, problems


def _rows(
    campaign: Campaign,
    run: Run,
    works: Sequence[Points | Block],
    found: Sequence[_Found],
    problems: Sequence[str],
) -> list[dict[str, object]]:
    points = {key: value for one in found for key, value in one.joules.items()}
    summed: dict[tuple[str, str, str], waveform_chunks.Joules] = {}
    for path in dict.fromkeys(work.path for work in works if isinstance(work, Block)):
        meter = path.stem.removeprefix("waveform-")
        of_file = [one.stretches for work, one in zip(works, found, strict=True) if work.path == path]
        for (_, drive, rail), value in waveform_chunks.joules(path, of_file).items():
            summed[drive, meter, rail] = value
    problem = "; ".join(dict.fromkeys([*problems, *(one.problem for one in found if one.problem)]))
    return [_row(campaign, run, rail, points, summed, problem) for rail in run.energy if rail.phase == PHASE]


def _row(
    campaign: Campaign,
    run: Run,
    rail: RailEnergy,
    points: dict[tuple[str, str, str], float | None],
    summed: dict[tuple[str, str, str], waveform_chunks.Joules],
    problem: str,
) -> dict[str, object]:
    key = rail.drive, rail.meter, rail.rail
    waveform = summed.get(key)
    row = {
        "campaign": campaign.id,
        "run": run.id,
        "cell": run.cell,
        "meter": rail.meter,
        "drive": rail.drive,
        "rail": rail.rail,
        "joules": rail.joules,
        "points_joules": points.get(key),
        "expected_samples": rail.expected,
        "problem": problem or None,
    }
    if waveform:
        row |= {"waveform_joules": waveform.joules, "waveform_samples": waveform.samples}
        if rail.joules is not None and math.isfinite(rail.joules) and rail.joules > 0:
            row["waveform_less_percent"] = 100 * (1 - waveform.joules / rail.joules)
    return row
