# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures in addition to AI: energy without idle, costs, bytes by level, rates per watt."""

from __future__ import annotations

import dataclasses

import polars as pl
import pytest

from joulerig.analysis import results
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.runs import derived, idle
from joulerig.analysis.runs.idle import Idle
from joulerig.analysis.tables import runs_and_cells
from tests.support import simulated_campaign
from tests.support.simulated_campaign import Outcome


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> Campaign:
    return results.load(
        simulated_campaign.build(tmp_path_factory.mktemp("d") / "c", replicates=3, traces=True)
    )


@pytest.fixture(scope="module")
def idles(campaign):
    return idle.by_run(campaign)


def changed(run: Run, **performance) -> Run:
    return dataclasses.replace(run, performance=dataclasses.replace(run.performance, **performance))


def figures(campaign: Campaign, run: Run, at_rest: Idle | None = None) -> dict[str, float | None]:
    return derived.figures([derived.amounts(campaign, run, at_rest)])


def test_dynamic_joules_are_those_above_power_at_rest(campaign, idles):
    run = campaign.runs[0]
    watts = idles[run.id].watts
    found = derived.amounts(campaign, run, idles[run.id])
    assert watts == pytest.approx(simulated_campaign.DRIVES[run.drive]["idle"], rel=0.01)
    assert found["dynamic_joules"] == pytest.approx(run.result.ai_joules - watts * run.performance.seconds)
    assert 0 < found["dynamic_joules"] < run.result.ai_joules
    share = figures(campaign, run, idles[run.id])["base_load_fraction"]
    assert share == pytest.approx(1 - found["dynamic_joules"] / run.result.ai_joules)


def test_where_a_drive_was_not_at_rest_nothing_is_subtracted(campaign):
    run, why = campaign.runs[0], "not at rest: 1.34 to 0.005 W"
    found = derived.amounts(campaign, run, Idle(why=why))
    assert found["dynamic_joules"] is found["idle_joules"] is None
    assert found["joules"] == run.result.ai_joules
    assert figures(campaign, run, Idle(why=why))["idle_gb_per_watt"] is None
    assert derived.dynamic(found, why) | derived.dynamic_per_op([found], why) == {
        "dynamic_joules": None, "dynamic_joules_per_op": None, "dynamic_joules_unknown": why,
        **dict.fromkeys(f"dynamic_joules{part}_{end}" for part in ("", "_per_op") for end in ("low", "high")),
    }  # fmt: skip


def test_costs_are_joules_over_what_was_done(campaign):
    run = changed(campaign.runs[0], ops=1000, syncs=250, write_bytes=4_096_000)
    found, joules = figures(campaign, run), run.result.ai_joules
    assert found["joules_per_op"] == pytest.approx(joules / 1000)
    assert found["joules_per_sync"] == pytest.approx(joules / 250)
    assert found["joules_per_durable_byte"] == pytest.approx(joules / 4_096_000)


def test_joules_of_processors_are_never_among_the_drives(campaign):
    run = campaign.runs[0]
    assert figures(campaign, run)["cpu_joules_per_op"] is None
    with_them = dataclasses.replace(run, result=dataclasses.replace(run.result, cpu_joules=350.0))
    found = figures(campaign, with_them)
    assert found["cpu_joules_per_op"] == pytest.approx(350.0 / run.performance.ops)
    assert found | {"cpu_joules_per_op": None} == figures(campaign, run)


@pytest.mark.parametrize("syncs", [0, None])
def test_a_workload_that_does_not_sync_has_no_durable_byte(campaign, syncs):
    found = figures(campaign, changed(campaign.runs[0], syncs=syncs))
    assert found["joules_per_sync"] is found["joules_per_durable_byte"] is None
    assert found["joules_per_op"] is not None


def test_bytes_are_followed_from_the_workload_to_the_drive(campaign):
    run = campaign.runs[0]
    twin = dataclasses.replace(run.io["twin"], write_bytes=3 * run.io["host"].write_bytes)
    run = dataclasses.replace(run, io=run.io | {"twin": twin})
    found = figures(campaign, run)
    assert found["block_bytes_per_written_byte"] == pytest.approx(2 * 1.002, rel=1e-4)
    assert found["device_bytes_per_block_byte"] == pytest.approx(3)
    without = figures(campaign, dataclasses.replace(run, io={"iod": run.io["iod"]}))
    assert without["block_bytes_per_written_byte"] == found["block_bytes_per_written_byte"]
    assert without["device_bytes_per_block_byte"] is None


def test_journal_transactions_are_known_where_the_file_system_reports_them(campaign):
    by_filesystem = {run.filesystem: figures(campaign, run) for run in campaign.runs}
    assert by_filesystem["ext4"]["journal_transactions_per_op"] == 1
    assert by_filesystem["xfs"]["journal_transactions_per_op"] is None
    assert by_filesystem["xfs"]["flushes_per_op"] == 1


def test_rates_per_watt_are_of_what_the_block_layer_passed_on(campaign, idles):
    run = campaign.runs[0]
    found, host = figures(campaign, run, idles[run.id]), run.io["host"]
    watts, seconds = run.result.mean_watts, run.performance.seconds
    assert found["iops_per_watt"] == pytest.approx((host.reads + host.writes) / seconds / watts)
    moved = (host.read_bytes + host.write_bytes) / 2**20
    assert found["mib_per_second_per_watt"] == pytest.approx(moved / seconds / watts)
    assert found["idle_gb_per_watt"] == pytest.approx(4.294967296 / found["idle_watts"])


def test_a_drive_of_unknown_size_has_no_capacity_per_watt(campaign, idles):
    bare = dataclasses.replace(campaign, lab={})
    assert figures(bare, campaign.runs[0], idles[campaign.runs[0].id])["idle_gb_per_watt"] is None


def test_a_cell_has_the_ratio_of_its_runs_sums(campaign):
    runs, cells = runs_and_cells.runs(campaign), runs_and_cells.cells(campaign)
    for cell in cells.iter_rows(named=True):
        mine = runs.filter(pl.col("cell") == cell["cell"])
        assert cell["joules_per_op"] == pytest.approx(
            mine["corrected_joules"].sum() / mine["ops"].sum(), rel=1e-12
        )
        assert cell["dynamic_joules_per_op"] == pytest.approx(
            mine["dynamic_joules"].sum() / mine["ops"].sum()
        )
        assert cell["block_write_bytes"] == mine["block_write_bytes"].sum()
        assert 1 / cell["joules_per_op"] == pytest.approx(cell["ai_ops_per_joule"])


def test_a_run_without_joules_keeps_what_needs_none(tmp_path):
    loaded = results.load(
        simulated_campaign.build(
            tmp_path / "c", outcome=lambda _: Outcome("partial", "meter fell silent", joules=False)
        )
    )
    row = runs_and_cells.runs(loaded).row(0, named=True)
    assert row["dynamic_joules"] is row["joules_per_op"] is row["iops_per_watt"] is None
    assert row["block_bytes_per_written_byte"] > 1
    assert set(runs_and_cells.cells(loaded)["block_write_bytes"]) == {None}


def test_a_run_that_did_nothing_has_nothing():
    assert set(derived.figures([{}]).values()) == {None}
    assert set(derived.figures([]).values()) == {None}
    assert set(derived.volumes([{}]).values()) == {None}
    zero = dict.fromkeys(("joules", "ops", "syncs", "seconds"), 0)
    assert derived.figures([zero])["joules_per_op"] is None


def bounds(low: float, high: float) -> dict[str, float | None]:
    return {
        "ops": 100, "dynamic_joules": (low + high) / 2,
        "dynamic_joules_low": low, "dynamic_joules_high": high,
    }  # fmt: skip


def test_the_interval_of_dynamic_joules_is_of_the_load_and_of_power_at_rest(campaign, idles):
    run = campaign.runs[0]
    seconds, at_rest = run.performance.seconds, idles[run.id]
    found = derived.dynamic(derived.amounts(campaign, run, at_rest))
    assert found["dynamic_joules_low"] == pytest.approx(run.result.joules_low - seconds * at_rest.high)
    assert found["dynamic_joules_high"] == pytest.approx(run.result.joules_high - seconds * at_rest.low)
    assert found["dynamic_joules_low"] < found["dynamic_joules"] < found["dynamic_joules_high"]
    assert found["dynamic_joules_unknown"] is None


@pytest.mark.parametrize(
    ("amounts", "shown", "why"),
    [
        pytest.param(bounds(1.0, 3.0), 2.0, None, id="above 0"),
        pytest.param(
            bounds(-3.0, -1.0),
            None,
            "ALARM: below 0 beyond its uncertainty, so what was taken for idle power is not",
            id="below 0",
        ),
        pytest.param(bounds(-1.0, 3.0), None, "its interval reaches 0", id="reaches 0"),
        pytest.param(
            bounds(1.0, 3.0) | {"dynamic_joules_low": None, "dynamic_joules_high": None},
            None,
            "nothing bounds the joules of the load or idle power",
            id="not bounded",
        ),
        pytest.param({"ops": 100}, None, "no joules of the load", id="no joules"),
    ],
)
def test_dynamic_joules_are_shown_where_their_interval_leaves_out_0(amounts, shown, why):
    found = derived.dynamic(amounts)
    assert (found["dynamic_joules"], found["dynamic_joules_unknown"]) == (shown, why)
    per_op = derived.dynamic_per_op([amounts])
    assert per_op["dynamic_joules_per_op"] == (None if shown is None else pytest.approx(shown / 100))
    assert per_op["dynamic_joules_unknown"] == why


def test_limits_of_a_cells_runs_add_up():
    """More runs do not make them less: what a meter does wrong is in all of them."""
    one, four = (derived.dynamic_per_op([bounds(-1.0, 3.0)] * count) for count in (1, 4))
    assert one == four


def test_mb_per_joule_has_the_interval_of_the_operations(campaign):
    for cell in runs_and_cells.cells(campaign).iter_rows(named=True):
        for end in ("low", "high"):  # each operation of this load writes 4 KiB
            expected = cell[f"ai_ops_per_joule_interval_{end}"] * 4096 / 1e6
            assert cell[f"ai_mb_per_joule_interval_{end}"] == pytest.approx(expected)
