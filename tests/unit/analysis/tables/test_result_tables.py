# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of runs and cells, and all tables as CSV."""

from __future__ import annotations

import os
import re

import polars as pl
import pytest

from joulerig import atomic
from joulerig.analysis import results
from joulerig.analysis.agreement import table as agreement
from joulerig.analysis.audit import table as audit_table
from joulerig.analysis.coefficients import table as coefficients
from joulerig.analysis.compare import cross_talk, drift, outliers, temperature
from joulerig.analysis.compare.more_joules import quiescent, with_processor
from joulerig.analysis.drives import endurance, windows
from joulerig.analysis.energy.indicator import within_energy
from joulerig.analysis.power_states import table as states_table
from joulerig.analysis.runs import series
from joulerig.analysis.tables import comparisons, runs_and_cells
from joulerig.analysis.tables.standards import asked
from tests.support import simulated_campaign
from tests.support.simulated_campaign import Outcome

ALL_COLUMNS = (
    runs_and_cells.RUN_COLUMNS,
    runs_and_cells.CELL_COLUMNS,
    comparisons.PAIR_COLUMNS,
    comparisons.BEST_COLUMNS,
    comparisons.EFFECT_COLUMNS,
    comparisons.BUDGET_COLUMNS,
    comparisons.CEMP_COLUMNS,
    comparisons.ELASTICITY_COLUMNS,
    drift.COLUMNS,
    outliers.COLUMNS,
    cross_talk.COLUMNS,
    comparisons.CLAIM_COLUMNS,
    quiescent.COLUMNS,
    with_processor.COLUMNS,
    temperature.COLUMNS,
    audit_table.COLUMNS,
    agreement.COLUMNS,
    states_table.COLUMNS,
    asked.COLUMNS,
    asked.COLUMNS,
    asked.COLUMNS,
    windows.COLUMNS,
    endurance.COLUMNS,
    coefficients.COLUMNS,
    series.COLUMNS,
)


def test_runs_have_the_journals_figures_to_the_last_bit(tmp_path):
    campaign = results.load(simulated_campaign.build(tmp_path / "c"))
    runs_and_cells.write(campaign, tmp_path / "report")
    back = pl.read_csv(tmp_path / "report" / "runs.csv")
    assert back["joules"].to_list() == [run.result.joules for run in campaign.runs]
    assert back["ai_ops_per_joule"].to_list() == [run.result.ai_ops_per_joule for run in campaign.runs]
    assert back["started_utc_ns"].to_list() == [run.started_ns for run in campaign.runs]
    assert back["virtual_lab"].all()


def test_cells_are_ratios_of_sums_of_their_runs(tmp_path):
    campaign = results.load(simulated_campaign.build(tmp_path / "c", replicates=3))
    runs, cells = runs_and_cells.runs(campaign), runs_and_cells.cells(campaign)
    summed = runs.group_by("cell").agg(
        (pl.col("ops").sum() / pl.col("corrected_joules").sum()).alias("expected"),
        pl.col("ai_ops_per_joule").std().alias("deviation"),
    )
    both = cells.join(summed, on="cell")
    assert both.height == 18
    assert both["ai_ops_per_joule"].to_list() == pytest.approx(both["expected"].to_list(), rel=1e-12)
    assert both["ai_ops_per_joule_standard_deviation"].to_list() == pytest.approx(both["deviation"].to_list())
    assert set(cells["runs_counted"]) == {3}


def test_ai_over_the_energys_interval_is_work_over_high_and_low(tmp_path):
    campaign = results.load(simulated_campaign.build(tmp_path / "c", replicates=2))
    runs, cells = runs_and_cells.runs(campaign), runs_and_cells.cells(campaign)
    for low, high, ops, least, most in runs.select(
        "joules_low", "joules_high", "ops", "ai_ops_per_joule_energy_low", "ai_ops_per_joule_energy_high"
    ).iter_rows():
        assert (least, most) == (ops / high, ops / low)
    summed = runs.group_by("cell").agg(
        (pl.col("ops").sum() / pl.col("joules_high").sum()).alias("least"),
        (pl.col("ops").sum() / pl.col("joules_low").sum()).alias("most"),
    )
    both = cells.join(summed, on="cell")
    assert both["ai_ops_per_joule_energy_low"].to_list() == pytest.approx(both["least"].to_list(), rel=1e-12)
    assert both["ai_ops_per_joule_energy_high"].to_list() == pytest.approx(both["most"].to_list(), rel=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "reach"),
    [(2.0, 4.0, (2.5, 5.0)), (0.0, 4.0, None), (-1.0, 4.0, None), (None, None, None)],
)
def test_an_interval_that_reaches_zero_joules_bounds_no_ai(low, high, reach):
    assert within_energy(10, low, high) == reach


def test_a_run_has_the_worst_calibration_of_its_meters(tmp_path):
    def states(calibration):
        folder = simulated_campaign.build(
            tmp_path / f"c{len(list(tmp_path.iterdir()))}",
            drives=("nvme-plp", "sata-plp"),
            calibration=calibration,
        )
        campaign = results.load(folder)
        frame, cells = runs_and_cells.runs(campaign), runs_and_cells.cells(campaign)
        assert set(cells.select("drive", "calibration").rows()) == set(
            frame.select("drive", "calibration").rows()
        )
        return dict(frame.select("drive", "calibration").unique().rows())

    assert states(None) == {"nvme-plp": None, "sata-plp": None}
    # runs are of 2026-11-13
    given = {
        "tap1a": {"state": "valid", "expires": "2026-11-12", "channels": {}},
        "tap1b": {"state": "valid", "expires": "2027-01-01", "channels": {}},
    }
    assert states(given) == {"nvme-plp": "expired", "sata-plp": "valid"}
    assert states({"tap1a": {"state": "none"}}) == {"nvme-plp": "none", "sata-plp": None}


def test_one_run_leaves_the_spread_blank(tmp_path):
    campaign = results.load(simulated_campaign.build(tmp_path / "c"))
    _, path, *_ = runs_and_cells.write(campaign, tmp_path / "report")
    cells = pl.read_csv(path)
    assert cells["ai_ops_per_joule_standard_deviation"].null_count() == cells.height
    assert cells["ai_ops_per_joule_relative_spread"].null_count() == cells.height
    assert cells["ai_ops_per_joule"].null_count() == 0


def test_runs_without_joules_are_blank_there_and_do_not_enter_their_cell(tmp_path):
    def first_block_fails(levels):
        return (
            Outcome("partial", "meter fell silent", joules=False) if levels["replicate"] == 1 else Outcome()
        )

    campaign = results.load(simulated_campaign.build(tmp_path / "c", replicates=3, outcome=first_block_fails))
    runs, cells = runs_and_cells.runs(campaign), runs_and_cells.cells(campaign)
    partial = runs.filter(pl.col("status") == "partial")
    assert partial["joules"].null_count() == partial["ai_ops_per_joule"].null_count() == 18
    assert partial["ops"].null_count() == 0
    assert cells.select("runs_counted", "runs_planned", "status").unique().row(0) == (2, 3, "partial")


def test_a_cell_that_never_ran_has_no_figures(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c", outcome=lambda _: Outcome("not-run", "no such kernel module")
    )
    cells = runs_and_cells.cells(results.load(folder))
    assert cells["ai_ops_per_joule"].null_count() == cells.height == 18
    assert set(cells["status"]) == {"not-run"}


def test_a_campaign_without_runs_has_headers_alone(tmp_path):
    campaign = results.load(simulated_campaign.build(tmp_path / "c", drives=()))
    for path, columns in zip(runs_and_cells.write(campaign, tmp_path / "report"), ALL_COLUMNS, strict=True):
        assert path.read_text().strip() == ",".join(columns)


def test_reasons_with_commas_quotes_and_line_breaks_survive(tmp_path):
    reason = 'fio: "exit code 1",\nand more'
    folder = simulated_campaign.build(tmp_path / "c", outcome=lambda _: Outcome("failed", reason))
    path, *_ = runs_and_cells.write(results.load(folder), tmp_path / "report")
    assert set(pl.read_csv(path)["reason"]) == {reason}


def test_columns_with_a_dimension_name_their_unit():
    unit = re.compile(
        r"(_ns|seconds|bytes?|joules?|percent|watts?|celsius|kelvin|per_(second|joule|op)|ops|syncs|years)(_|$)"
    )
    plain = {
        "ordinal",
        "block",
        "replicate",
        "samples",
        "expected_samples",
        "lost_samples",
        "duplicate_samples",
        "repeated_samples",
        "surplus_samples",
        "over_range_samples",
        "impossible_samples",
        "device_bound_fraction",
        "runs_planned",
        "runs_counted",
        "runs_compared",
        "ratio",  # of what the drive reports to its rails
        "ratio_low",
        "ratio_high",
        "number",  # its unit is another column
        "runs_settled",
        "runs_steady",
        "runs_not_steady",
        "rank",
        "rank_to_quiescence",
        "rank_with_processor",
        "figure",  # its unit is another column
        "figure_standard_deviation",
        "degrees_of_freedom",
        "f",
        "p",
        "cemp",
        "cemp_low",
        "cemp_high",
        "elasticity",
        "elasticity_low",
        "elasticity_high",
        "runs",
        "cells",
        "steps",
        "steps_measured",
        "changes",
        "slope_p",
        "modified_z",
        "effect",
        "effect_low",
        "effect_high",
        "blocks",
        "pairs",
        "value",  # its unit is another column
        "value_low",
        "value_high",
        "condition_number",
        "state",  # a number of the drive's
        "declared",  # its unit is another column
        "bound",
        "rests_a_run",
        "runs_measured",
        "runs_at_rest",
        "base_load_fraction",
    }
    for columns in ALL_COLUMNS:
        for name, kind in columns.items():
            if kind in (pl.Int64, pl.Float64) and name not in plain:
                assert unit.search(name), name


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "runs.csv"
    atomic.write(path, b"old")

    def disk_full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="No space"):
        atomic.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_can_be_read_by_whom_the_umask_allows(tmp_path):
    path = atomic.write(tmp_path / "a" / "b.csv", b"x")
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
