# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's runs and cells as tables, and all its tables as CSV.

The report shows these same numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from joulerig import atomic, spreadsheet
from joulerig.analysis.agreement import table as agreement
from joulerig.analysis.audit import campaign as drive_audits
from joulerig.analysis.audit import table as audit_table
from joulerig.analysis.coefficients import table as coefficients
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare import temperature as warmth
from joulerig.analysis.compare.cells import Comparison
from joulerig.analysis.compare.more_joules import quiescent, with_processor
from joulerig.analysis.drives import endurance, windows
from joulerig.analysis.energy import meters
from joulerig.analysis.energy.indicator import Measured, Spread, cell_indicator, total, within_energy
from joulerig.analysis.energy.uncertainty import calibration_state
from joulerig.analysis.power_states import campaign as power_states
from joulerig.analysis.power_states import table as states_table
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.columns import declared_columns, frame_schema
from joulerig.analysis.results.schema import Performance, PhaseName, Result, RunRow, Status
from joulerig.analysis.runs import derived, modes, over_time, quiescence, series, steadiness, temperature
from joulerig.analysis.runs import idle as resting
from joulerig.analysis.runs.idle import NOT_FOUND, Idle
from joulerig.analysis.runs.modes import Mode
from joulerig.analysis.runs.over_time import PowerOverTime
from joulerig.analysis.runs.quiescence import AfterLoad, State
from joulerig.analysis.runs.steadiness import Steadiness
from joulerig.analysis.statistics import pareto
from joulerig.analysis.tables import comparisons
from joulerig.analysis.tables.standards import asked, eehpcwg, emerald, pts

# Columns of the journal that `runs` has under another name.
RENAMED = ("id", "factors", "started_ns", "ended_ns", "seconds")


def _types(record: type[Any], *names: str) -> dict[str, Any]:
    return {name: declared_columns(record)[name].frame_type for name in names}


_AFTER_LOAD_BOUNDS = ("joules_after_load_low", "joules_after_load_high")
# Range and slope of each series that is judged in fifths of the load.
_FIFTHS = ("ops_range", "ops_slope", "watts_range", "watts_slope")

# In the order that exports have always had; a new column of these tables follows.
RUN_COLUMNS = {
    "campaign": pl.String,
    "run": pl.String,
    **_types(RunRow, "ordinal", "block", "replicate", "host", "drive", "workload", "filesystem", "scheduler"),
    **_types(RunRow, "cell"),
    "factors_json": pl.String,
    "virtual_lab": pl.Boolean,
    **_types(RunRow, "status", "reason"),
    "started_utc_ns": pl.Int64,
    "ended_utc_ns": pl.Int64,
    "workload_seconds": pl.Float64,
    **_types(Performance, "ops", "read_bytes", "write_bytes", "syncs", "ops_per_second", "mb_per_second"),
    **_types(Performance, "latency_p50_seconds", "latency_p99_seconds"),
    **_types(Result, "joules", "true_joules", "error_percent", "mean_watts"),
    **_types(Result, "ai_ops_per_joule", "ai_mb_per_joule"),
    "samples": pl.Int64,
    "expected_samples": pl.Int64,
    "lost_samples": pl.Int64,
    "gap_seconds": pl.Float64,
    **_types(Result, "joules_low", "joules_high"),
    "truth_within": pl.Boolean,
    "ai_ops_per_joule_energy_low": pl.Float64,
    "ai_ops_per_joule_energy_high": pl.Float64,
    "ai_mb_per_joule_energy_low": pl.Float64,
    "ai_mb_per_joule_energy_high": pl.Float64,
    "meter_joules": pl.Float64,
    "duplicate_samples": pl.Int64,
    "repeated_samples": pl.Int64,
    "surplus_samples": pl.Int64,
    "over_range_samples": pl.Int64,
    "impossible_samples": pl.Int64,
    "calibration": pl.String,
    **frame_schema(Result),
    **{name: kind for name, kind in frame_schema(Performance).items() if name not in RENAMED},
    "peak_watts": pl.Float64,
    **dict.fromkeys((*derived.DYNAMIC, *derived.DYNAMIC_PER_OP), pl.Float64),
    derived.WHY_NOT_DYNAMIC: pl.String,
    "block_write_bytes": pl.Int64,
    "device_write_bytes": pl.Int64,
    **dict.fromkeys((name for name in derived.RATIOS if name not in derived.AT_REST), pl.Float64),
    **{name: kind for name, kind in frame_schema(RunRow).items() if name not in RENAMED},
    "ai_ops_per_joule_to_quiescence": pl.Float64,
    "joules_after_load": pl.Float64,
    "seconds_after_load": pl.Float64,
    "quiescence": pl.String,
    "quiescence_reason": pl.String,
    "steadiness": pl.String,
    "steadiness_reason": pl.String,
    **{f"fifths_{name}_percent": pl.Float64 for name in _FIFTHS},
    "temperature_start_celsius": pl.Float64,
    "temperature_end_celsius": pl.Float64,
    **dict.fromkeys((*derived.AT_REST, *_AFTER_LOAD_BOUNDS), pl.Float64),
    derived.WHY_NO_IDLE: pl.String,
    "idle_settled_seconds": pl.Float64,
    "mode": pl.String,
    "mode_evidence": pl.String,
}

_OWN = [name for name in declared_columns(RunRow) if name in RUN_COLUMNS]
_sorted_json = json.JSONEncoder(sort_keys=True).encode
_SPREADS = {
    "ai_ops_per_joule": "ops_per_joule",
    "ai_mb_per_joule": "mb_per_joule",
    "ops_per_second": "ops_per_second",
    "mb_per_second": "mb_per_second",
    "mean_watts": "watts",
}
_INTERVALS = ("interval", "fieller", "bootstrap")
CELL_COLUMNS = {
    "campaign": pl.String,
    "cell": pl.String,
    "drive": pl.String,
    "workload": pl.String,
    "filesystem": pl.String,
    "scheduler": pl.String,
    "factors_json": pl.String,
    "virtual_lab": pl.Boolean,
    "status": pl.String,
    "runs_planned": pl.Int64,
    "runs_counted": pl.Int64,
    **{
        name + suffix: pl.Float64
        for name in _SPREADS
        for suffix in ("", "_standard_deviation", "_min", "_max", "_relative_spread")
    },
    "latency_p50_seconds": pl.Float64,
    "latency_p99_seconds": pl.Float64,
    "ai_ops_per_joule_energy_low": pl.Float64,
    "ai_ops_per_joule_energy_high": pl.Float64,
    "calibration": pl.String,
    "unit": pl.String,
    "figure_name": pl.String,
    "figure_unit": pl.String,
    "figure": pl.Float64,
    "figure_standard_deviation": pl.Float64,
    "figure_better": pl.String,
    **{f"ai_ops_per_joule_{name}_{end}": pl.Float64 for name in _INTERVALS for end in ("low", "high")},
    "ai_mb_per_joule_interval_low": pl.Float64,
    "ai_mb_per_joule_interval_high": pl.Float64,
    "letters": pl.String,
    "pareto": pl.Boolean,
    "peak_watts": pl.Float64,
    **dict.fromkeys(derived.VOLUMES, pl.Int64),
    **dict.fromkeys(derived.DYNAMIC_PER_OP, pl.Float64),
    derived.WHY_NOT_DYNAMIC: pl.String,
    **dict.fromkeys((name for name in derived.RATIOS if name not in derived.AT_REST), pl.Float64),
    "may_be_best": pl.Boolean,
    "ai_ops_per_joule_to_quiescence": pl.Float64,
    "joules_after_load": pl.Float64,
    "runs_settled": pl.Int64,
    "runs_steady": pl.Int64,
    "runs_not_steady": pl.Int64,
    "temperature_start_celsius": pl.Float64,
    "temperature_end_celsius": pl.Float64,
    **dict.fromkeys((*derived.AT_REST, *_AFTER_LOAD_BOUNDS), pl.Float64),
    derived.WHY_NO_IDLE: pl.String,
    "runs_at_rest": pl.Int64,
    "winner": pl.Boolean,
    "winner_withheld": pl.String,
    "modes": pl.String,
}


OverTime = Mapping[str, PowerOverTime]  # by run
Idles = Mapping[str, Idle]


def runs(campaign: Campaign, over: OverTime | None = None, idles: Idles | None = None) -> pl.DataFrame:
    """Return one row for each run, in order of execution. Columns: `RUN_COLUMNS`.

    What a run does not have is null. `ai_*_energy_low` and `_high`: AI over the energy's interval
    alone. `calibration`: the worst of the run's meters: expired, none, valid; null where none was
    recorded. `peak_watts`: of `over`, which is analysis.runs.over_time.power_by_run's where it is
    not given; `idles` is analysis.runs.idle.by_run's. What comes after it: analysis.runs.derived;
    from `ai_ops_per_joule_to_quiescence` on analysis.runs.quiescence, of runs that count; from
    `steadiness` on analysis.runs.steadiness; `mode` is analysis.runs.modes'.
    """
    over = over_time.power_by_run(campaign)[0] if over is None else over
    idles = resting.by_run(campaign) if idles is None else idles
    after = quiescence.by_run(campaign, over, idles)
    judged, met = steadiness.by_run(campaign, over), modes.by_run(campaign, over)
    rows = [
        _run_row(campaign, run, over, idles.get(run.id, NOT_FOUND))
        | _after_load(run, after)
        | _steadiness(judged.get(run.id))
        | _temperatures(campaign, [run])
        | ({"mode": met[run.id].name, "mode_evidence": met[run.id].evidence} if run.id in met else {})
        for run in campaign.runs
    ]
    return _frame(rows, RUN_COLUMNS)


def cells(
    campaign: Campaign,
    compared: Sequence[Comparison] | None = None,
    over: OverTime | None = None,
    idles: Idles | None = None,
) -> pl.DataFrame:
    """Return one row for each cell. Columns: `CELL_COLUMNS`.

    The figures are those of its runs that are ok and have joules; where none has any (no rail), a
    row has the performance of those that are ok.

    Means are ratios of sums (analysis.energy.indicator.ratio_of_sums). Latencies are medians of the
    runs' own quantiles: quantiles cannot be pooled. AI over the energies' intervals alone is all
    work over the sums of their highs and of their lows: what is wrong with a meter is wrong in
    every run. `figure`, of an external program, is the mean of its runs', with their standard
    deviation (n - 1). `status` is ok where every run counts, else the worst of its runs' statuses.
    From `ai_ops_per_joule_interval_low` to `pareto`, and what is best: of `compared`, which is
    analysis.compare.cells.compare_cells's where it is not given. `peak_watts`: the greatest of its
    runs', of `over` (and `idles`) as in `runs`; bytes are sums over its runs, what follows them
    analysis.runs.derived's. AI to quiescence is blank where that of a run is not known.
    """
    over = over_time.power_by_run(campaign)[0] if over is None else over
    idles = resting.by_run(campaign) if idles is None else idles
    after, judged = quiescence.by_run(campaign, over, idles), steadiness.by_run(campaign, over)
    met = modes.by_run(campaign, over)
    compared = comparison.compare_cells(campaign) if compared is None else compared
    by_cell = {cell: one for one in compared for cell in one.ranking.order}
    rows = [
        _cell_row(campaign, cell, cell_runs, over, idles)
        | _cell_after_load(cell_runs, after)
        | _cell_steadiness(cell_runs, judged)
        | _temperatures(campaign, [run for run in cell_runs if run.counts or run.unmetered])
        | _standing(cell, by_cell.get(cell), sum(run.counts for run in cell_runs))
        | _modes(cell_runs, met)
        for cell, cell_runs in campaign.cells().items()
    ]
    return _frame(rows, CELL_COLUMNS)


def frames(campaign: Campaign) -> dict[str, pl.DataFrame]:
    """Return runs, cells, comparisons and changes over the runs, by the names of their files."""
    compared = comparison.compare_cells(campaign)
    over, _ = over_time.power_by_run(campaign)
    idles = resting.by_run(campaign)
    found = {"runs": runs(campaign, over, idles), "cells": cells(campaign, compared, over, idles)}
    found |= {name: table(campaign, compared) for name, table in comparisons.TABLES.items()}
    found["quiescence"] = quiescent.table(campaign, quiescent.compare(campaign, compared, over, idles))
    found["processor"] = with_processor.table(campaign, with_processor.compare(campaign, compared))
    found["temperature"] = warmth.table(
        campaign, warmth.compare(campaign, compared, temperature.by_run(campaign))
    )
    found["audit"] = audit_table.table(campaign, drive_audits.audits(campaign))
    found["agreement"] = agreement.table(campaign, agreement.compared(campaign))
    found["power_states"] = states_table.table(campaign, power_states.states(campaign, over, idles))
    greatest = windows.table(campaign, over)
    found |= _standards(campaign, found["runs"], found["cells"], greatest, idles)
    found["windows"] = greatest
    found["endurance"] = endurance.table(campaign, found["cells"].to_dicts())
    found["coefficients"] = coefficients.table(campaign, idles)
    return found | {"series": series.table(campaign, series.courses_by_run(campaign, over))}


def _standards(
    campaign: Campaign,
    run_rows: pl.DataFrame,
    cell_rows: pl.DataFrame,
    window_rows: pl.DataFrame,
    idles: Idles,
) -> dict[str, pl.DataFrame]:
    """Return what standards ask for, with what the campaign has of it, by file name."""
    greatest = windows.greatest_by_cell(window_rows)
    of_cells = emerald.asked(campaign, run_rows.to_dicts(), cell_rows.to_dicts(), greatest)
    found = {"emerald": of_cells, "pts": pts.asked(campaign), "eehpcwg": eehpcwg.asked(campaign, idles)}
    return {name: asked.table(campaign, rows) for name, rows in found.items()}


def write(campaign: Campaign, folder: Path) -> list[Path]:
    """Write all tables as CSV into `folder` (atomic). Returns their paths."""
    return [write_table(folder, name, frame) for name, frame in frames(campaign).items()]


def write_table(folder: Path, name: str, frame: pl.DataFrame) -> Path:
    """Write one table as `name`.csv into `folder` (atomic). Returns its path."""
    return atomic.write(folder / f"{name}.csv", spreadsheet.csv(frame))


def _frame(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Any]) -> pl.DataFrame:
    """Return rows as a frame with these columns; null where a row lacks one.

    Column by column, which polars reads several times faster than row by row.
    """
    return pl.DataFrame({name: [row.get(name) for row in rows] for name in columns}, schema=columns)


def _standing(cell: str, one: Comparison | None, runs: int) -> dict[str, object]:
    """Return what a cell's comparison says of it; nothing where it has no figure.

    `runs`: how many of the cell count.
    """
    if one is None:
        return {}
    row: dict[str, object] = {}
    if one.ranking.method:
        row = {
            "letters": one.ranking.letters[cell],
            "may_be_best": cell in one.ranking.contenders,
            "winner": cell == one.ranking.winner,
        }
        if one.ranking.withheld and cell in one.ranking.contenders:
            row["winner_withheld"] = one.ranking.withheld
    if cell not in one.precision:
        return row
    for name in _INTERVALS:
        if (found := getattr(one.precision[cell], name)) is not None:
            row[f"ai_ops_per_joule_{name}_low"], row[f"ai_ops_per_joule_{name}_high"] = found
    if (found := one.precision[cell].interval_mb) is not None:
        row["ai_mb_per_joule_interval_low"], row["ai_mb_per_joule_interval_high"] = found
    return {**row, "pareto": cell in one.front if runs >= pareto.FEWEST_RUNS else None}


def _run_row(campaign: Campaign, run: Run, over: OverTime, idle: Idle) -> dict[str, object]:
    row: dict[str, object] = {
        "campaign": campaign.id,
        "run": run.id,
        "factors_json": _sorted_json(run.factors),
        "virtual_lab": campaign.virtual,
        "started_utc_ns": run.started_ns,
        "ended_utc_ns": run.ended_ns,
    }
    row |= {name: getattr(run, name) for name in _OWN}
    if done := run.performance:
        row |= {name: value for name, value in vars(done).items() if name != "seconds"}
        row["workload_seconds"] = done.seconds
    if run.result:
        row |= vars(run.result)
        row["truth_within"] = run.result.truth_within
        if done:
            megabytes = done.bytes_moved / 1e6 if done.bytes_moved is not None else None
            for name, work in (("ops", done.ops), ("mb", megabytes)):
                if reach := within_energy(work, run.result.joules_low, run.result.joules_high):
                    row[f"ai_{name}_per_joule_energy_low"], row[f"ai_{name}_per_joule_energy_high"] = reach
    row["calibration"] = calibration(campaign, [run])
    rails = [rail for rail in run.energy if rail.phase == PhaseName.WORKLOAD]
    if rails:
        for name in ("duplicate", "repeated", "surplus", "over_range", "impossible"):
            row[f"{name}_samples"] = total([getattr(rail, name) for rail in rails])
        row["meter_joules"] = total([rail.meter_joules for rail in rails])
        row["samples"] = sum(rail.samples for rail in rails)
        row["expected_samples"] = sum(rail.expected for rail in rails)
        row["lost_samples"] = sum(rail.lost for rail in rails)
        row["gap_seconds"] = sum(rail.gap_seconds for rail in rails)
    amounts = derived.amounts(campaign, run, idle)
    row |= {name: amounts.get(name) for name in derived.SHOWN_AMOUNTS} | derived.figures([amounts])
    row |= derived.dynamic(amounts, idle.why) | derived.dynamic_per_op([amounts], idle.why)
    row[derived.WHY_NO_IDLE] = idle.why or None
    row["idle_settled_seconds"] = None if idle.watts is None else idle.begins
    return row | {"peak_watts": _peak([run], over)}


def _cell_row(
    campaign: Campaign, cell: str, cell_runs: list[Run], over: OverTime, idles: Idles
) -> dict[str, object]:
    counted = [run for run in cell_runs if run.counts] or [run for run in cell_runs if run.unmetered]
    first = cell_runs[0]
    row: dict[str, object] = {
        "campaign": campaign.id,
        "cell": cell,
        "drive": first.drive,
        "workload": first.workload,
        "filesystem": first.filesystem,
        "scheduler": first.scheduler,
        "factors_json": _sorted_json(first.factors),
        "virtual_lab": campaign.virtual,
        "status": _cell_status(cell_runs),
        "runs_planned": len(cell_runs),
        "runs_counted": len(counted),
    }
    indicator = cell_indicator([_measured(run) for run in counted])
    for name, attribute in _SPREADS.items():
        spread: Spread = getattr(indicator, attribute)
        row[name] = spread.mean
        row[f"{name}_standard_deviation"] = spread.standard_deviation
        row[f"{name}_min"] = spread.least
        row[f"{name}_max"] = spread.greatest
        row[f"{name}_relative_spread"] = spread.relative_spread
    row["calibration"] = calibration(campaign, counted)
    reach = within_energy(
        sum(run.performance.ops for run in counted if run.performance),
        total([run.result.joules_low if run.result else None for run in counted]),
        total([run.result.joules_high if run.result else None for run in counted]),
    )
    if reach:
        row["ai_ops_per_joule_energy_low"], row["ai_ops_per_joule_energy_high"] = reach
    for name in ("latency_p50_seconds", "latency_p99_seconds"):
        row[name] = pl.Series([getattr(run.performance, name) for run in counted], dtype=pl.Float64).median()
    if counted:
        row.update(_figure([vars(run.performance) for run in counted]))
    at_rest = [idles.get(run.id, NOT_FOUND) for run in counted]
    amounts = [derived.amounts(campaign, run, one) for run, one in zip(counted, at_rest, strict=True)]
    why = next((one.why for one in at_rest if one.watts is None), "")
    row |= derived.figures(amounts) | derived.volumes(amounts)
    row |= derived.dynamic_per_op(amounts, why)
    row[derived.WHY_NO_IDLE] = why or None
    row["runs_at_rest"] = sum(one.watts is not None for one in at_rest)
    return row | {"peak_watts": _peak(counted, over)}


def _after_load(run: Run, after: Mapping[str, AfterLoad]) -> dict[str, object]:
    """Return what a run drew after its load; nothing where it does not count."""
    found = after.get(run.id)
    if found is None:
        return {}
    return {
        "ai_ops_per_joule_to_quiescence": quiescent.work_over([run], [found]),
        "joules_after_load": found.joules,
        "joules_after_load_low": found.low,
        "joules_after_load_high": found.high,
        "seconds_after_load": found.seconds,
        "quiescence": found.state,
        "quiescence_reason": found.why,
    }


def _cell_after_load(cell_runs: Sequence[Run], after: Mapping[str, AfterLoad]) -> dict[str, object]:
    """Return what a cell's runs that count drew after their loads; nothing where none does."""
    runs = [run for run in cell_runs if run.id in after]
    found = [after[run.id] for run in runs]
    if not found:
        return {}
    return {
        "ai_ops_per_joule_to_quiescence": quiescent.work_over(runs, found),
        "joules_after_load": total([one.joules for one in found]),
        "joules_after_load_low": total([one.low for one in found]),
        "joules_after_load_high": total([one.high for one in found]),
        "runs_settled": sum(one.state == State.SETTLED for one in found),
    }


def _steadiness(found: Steadiness | None) -> dict[str, object]:
    """Return the verdict on a run's load; nothing where it did none."""
    if found is None:
        return {}
    row: dict[str, object] = {"steadiness": found.verdict, "steadiness_reason": found.reason}
    for name, window in found.windows.items():
        if window.range_fraction is not None and window.slope_fraction is not None:
            row[f"fifths_{name}_range_percent"] = 100 * window.range_fraction
            row[f"fifths_{name}_slope_percent"] = 100 * window.slope_fraction
    return row


def _cell_steadiness(cell_runs: Sequence[Run], judged: Mapping[str, Steadiness]) -> dict[str, object]:
    """Return how many of a cell's counted runs are steady; nothing where none counts."""
    found = [judged[run.id] for run in cell_runs if run.id in judged and (run.counts or run.unmetered)]
    if not found:
        return {}
    return {
        "runs_steady": sum(one.verdict == steadiness.STEADY for one in found),
        "runs_not_steady": sum(one.is_unsteady for one in found),
    }


def _modes(cell_runs: Sequence[Run], met: Mapping[str, Mode]) -> dict[str, object]:
    """Return the modes that a cell's counted runs met; nothing where none counts."""
    found = [met[run.id] for run in cell_runs if run.id in met and (run.counts or run.unmetered)]
    return {"modes": modes.summary(found)} if found else {}


def _temperatures(campaign: Campaign, cell_runs: Sequence[Run]) -> dict[str, object]:
    """Return the mean temperatures of these runs, of those that have one."""
    found = [temperature.of_run(campaign, run) for run in cell_runs]
    return {
        "temperature_start_celsius": _mean([one.start for one in found]),
        "temperature_end_celsius": _mean([one.end for one in found]),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _peak(cell_runs: Sequence[Run], over: OverTime) -> float | None:
    """Return the greatest power of these runs; None where none has a trace."""
    peaks = [over[run.id].peak_watts for run in cell_runs if run.id in over]
    return max((peak for peak in peaks if peak is not None), default=None)


def _figure(performances: Sequence[dict[str, object]]) -> dict[str, object]:
    """Return the columns of a cell's unit and figure of merit.

    The figure is left out where not every run has one.
    """
    row = {name: performances[0][name] for name in ("unit", "figure_name", "figure_unit", "figure_better")}
    figures = pl.Series([done["figure"] for done in performances], dtype=pl.Float64)
    if figures.null_count() == 0:
        row |= {"figure": figures.mean(), "figure_standard_deviation": figures.std()}
    return row


def _measured(run: Run) -> Measured:
    performance, result = run.performance, run.result
    assert performance is not None
    return Measured(
        ops=performance.ops,
        bytes_moved=performance.bytes_moved,
        seconds=performance.seconds,
        joules=result.ai_joules if result else None,
    )


def calibration(campaign: Campaign, cell_runs: Sequence[Run]) -> str | None:
    """Return the worst calibration that figures of these runs rest on.

    None where none of them was recorded.
    """
    states = {
        calibration_state(meters.calibration(campaign.provenance, rail.meter), run.started_ns)
        for run in cell_runs
        for rail in run.energy
        if rail.phase == PhaseName.WORKLOAD and rail.joules is not None
    }
    return next((state for state in ("expired", "none", "valid") if state in states), None)


# What says most about a cell comes first.
_WORST_FIRST = (
    Status.FAILED,
    Status.LOST,
    Status.PARTIAL,
    Status.REFUSED,
    Status.NOT_RUN,
    Status.EXCLUDED,
    Status.RUNNING,
    Status.PLANNED,
    Status.OK,
)


def _cell_status(cell_runs: list[Run]) -> str:
    statuses = {run.status for run in cell_runs}
    return next(status for status in _WORST_FIRST if status in statuses)
