# SPDX-License-Identifier: GPL-3.0-or-later
"""What meters do wrong in all runs alike: what cancels between cells, and what does not."""

from __future__ import annotations

import copy
import dataclasses
import math
import sqlite3
from pathlib import Path

import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import campaigns, losses
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare.cell_runs import CellRuns
from joulerig.analysis.compare.meter_errors import MeterErrors
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.statistics.differences import limit_of_difference
from tests.support import simulated_campaign

GAIN = {
    "volts": {"gain_percent": 0.1, "linearity_percent": 0.0},
    "amps": {"gain_percent": 0.5, "linearity_percent": 0.0},
}
OFFSET = {"volts": {"offset": 0.002}, "amps": {"offset": 0.002}}
QUIET = "nvme-plp/f2fs/none/randwrite-fsync"
LOSSY = "nvme-plp/ext4/none/randwrite-fsync"
LINE = {
    "gain": 1.01, "offset": 0.002, "u_gain": 5e-4, "u_offset": 3e-4, "cov": -1e-7,
    "u_reference_gain": 0.0, "date": "2026-11-01",
}  # fmt: skip


def calibrated(**line: float) -> dict:
    record = {
        "state": "valid", "date": "2026-11-01", "expires": "2027-11-01",
        "channels": {channel: {**LINE, **line} for channel in ("CH1", "CH2")},
    }  # fmt: skip
    return {"tap1a": record}


def build(folder: Path, *, lost_share: float = 0.0, **given) -> Campaign:
    """Return a campaign of two cells that draw 6 and 5 W, five runs each."""
    more = {"drives": ("nvme-plp",), "filesystems": ("ext4", "f2fs"), "schedulers": ("none",)}
    found = simulated_campaign.build(folder, replicates=5, lost_share=lost_share, **more, **given)
    return results.load(found)


def limit(campaign: Campaign, one: str = QUIET, other: str = LOSSY) -> float:
    errors, cells = MeterErrors(campaign), campaign.cells()
    return limit_of_difference(*(errors.of_cell(CellRuns(cells[cell])) for cell in (one, other)))


def lose(campaign: Campaign, cell: str, share: float) -> Campaign:
    """Lose a share of the samples of a cell's loads, of 0.5 to 1.5 times its mean power."""

    def one(run):
        if run.cell != cell:
            return run
        (rail,) = (rail for rail in run.energy if rail.phase == "workload")
        whole = rail.joules
        gaps = {"gap_low_joules": 0.5 * share * whole, "gap_high_joules": 1.5 * share * whole}
        rail = dataclasses.replace(rail, joules=whole * (1 - share), gap_seconds=10.0 * share, **gaps)
        corrected = rail.corrected_joules
        ai = run.performance.ops / corrected
        result = dataclasses.replace(
            run.result, joules=rail.joules, corrected_joules=corrected, ai_ops_per_joule=ai
        )
        return dataclasses.replace(run, energy=(rail,), result=result)

    return dataclasses.replace(campaign, runs=tuple(map(one, campaign.runs)))


def test_a_gain_is_the_same_in_all_cells_of_a_rail_and_cancels(tmp_path):
    assert limit(build(tmp_path / "c", accuracy=GAIN)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("bend", "expected"),
    [
        pytest.param({}, 0.005, id="anything within the class"),
        pytest.param({"linearity_percent": 0.1}, 0.001, id="as stated"),
    ],
)
def test_a_bend_is_another_gain_at_other_watts_and_does_not_cancel(tmp_path, bend, expected):
    loaded = build(tmp_path / "c", accuracy={"amps": {"gain_percent": 0.5, **bend}})
    errors = MeterErrors(loaded)
    for runs in loaded.cells().values():
        assert errors.of_cell(CellRuns(runs)).own == pytest.approx(expected + _gaps(runs), rel=1e-6)


@pytest.mark.parametrize(
    ("spread_steps", "left"),
    [
        pytest.param("NULL", 1.0, id="not known"),
        pytest.param(0.0, 1.0, id="quiet"),
        pytest.param(1.0, 1.0, id="on an edge between two steps"),
        pytest.param(3.0, 0.0, id="noise dithers"),
        pytest.param(400.0, 1.0, id="a load that goes to and fro"),
    ],
)
def test_steps_are_each_cells_own_unless_the_samples_dither(tmp_path, spread_steps, left):
    loaded = build(tmp_path / "c", accuracy={"amps": {"gain_percent": 0.0, "resolution": 0.01}})
    spread = spread_steps if spread_steps == "NULL" else spread_steps * 0.01 * 12.0
    with sqlite3.connect(loaded.folder / "journal.sqlite") as database:
        database.execute(f"UPDATE energy SET spread_watts = {spread}, samples = 1000000")
        database.execute("UPDATE energy SET volt_seconds = 12.0 * 10.0")
    loaded = results.load(loaded.folder)
    errors = MeterErrors(loaded)
    for runs in loaded.cells().values():
        joules = [run.result.ai_joules for run in runs]
        half = sum(0.005 * 12.0 * 10.0 / one for one in joules) / len(joules)
        expected = _gaps(runs) + half * max(left, 1e-3)
        assert errors.of_cell(CellRuns(runs)).own == pytest.approx(expected, rel=0.02)


def _gaps(runs: list) -> float:
    """Return the limit of the gaps, as a fraction of the energy: the mean over runs."""
    rails = [next(rail for rail in run.energy if rail.phase == "workload") for run in runs]
    halves = [(rail.gap_high_joules - rail.gap_low_joules) / 2 for rail in rails]
    return sum(half / run.result.ai_joules for half, run in zip(halves, runs, strict=True)) / len(runs)


def test_an_offset_is_another_share_of_other_watts(tmp_path):
    loaded = build(tmp_path / "c", accuracy={"amps": {"offset": 0.002}})
    watts = [
        sum(run.result.ai_joules for run in runs) / sum(run.performance.seconds for run in runs)
        for runs in loaded.cells().values()
    ]
    expected = 0.002 * 12.0 * abs(1 / watts[0] - 1 / watts[1])
    assert limit(loaded) == pytest.approx(expected, rel=1e-3)
    assert limit(loaded) > 5e-4


def test_an_offset_of_the_volts_is_a_gain_of_a_rail_whose_volts_are_fixed(tmp_path):
    """As it is multiplied with the amps, which are in proportion to the watts."""
    assert limit(build(tmp_path / "c", accuracy={"volts": {"offset": 0.01}})) == pytest.approx(0.0, abs=1e-9)


def test_the_class_of_a_register_of_energy_follows_from_power_and_each_loads_own_length(tmp_path):
    loaded = build(tmp_path / "c", accuracy={"watts": {"offset": 0.01}})
    lab = copy.deepcopy(loaded.lab)
    for drive in lab["hosts"]["vhost1"]["drives"].values():
        for rail in drive["rails"].values():
            del rail["volts"], rail["amps"]
            rail["watt_hours"] = "CH1"
    first, second, *_ = loaded.cells()[QUIET]
    phase = second.phases["workload"]
    later = dataclasses.replace(phase, end_ns=phase.end_ns + 10 * 10**9)
    second = dataclasses.replace(second, phases={**second.phases, "workload": later})
    errors = MeterErrors(dataclasses.replace(loaded, lab=lab))
    (parts,) = errors.of_runs(CellRuns([first, second])).common.values()
    joules = [run.result.ai_joules for run in (first, second)]
    assert parts.tolist() == pytest.approx([0.01 * 10 / joules[0], 0.01 * 20 / joules[1]])


def test_a_calibration_that_expires_between_two_runs_counts_for_the_first_alone(tmp_path):
    record = calibrated(u_offset=0.0, cov=0.0, offset=0.0)
    loaded = build(tmp_path / "c", calibration=record)
    first, second, *_ = loaded.cells()[QUIET]
    phase = second.phases["workload"]
    year_ns = 400 * 86_400 * 10**9
    later = dataclasses.replace(phase, start_ns=phase.start_ns + year_ns, end_ns=phase.end_ns + year_ns)
    second = dataclasses.replace(second, phases={**second.phases, "workload": later})
    accuracy = {"volts": {"gain_percent": 3.0}, "amps": {"gain_percent": 3.0}}
    lab = copy.deepcopy(loaded.lab)
    for meter in lab["controller"]["meters"].values():
        # with its drift stated, the class counts only after the calibration has expired
        meter["accuracy"] = {
            kind: {**limits, "stability_percent_per_year": 0.0} for kind, limits in accuracy.items()
        }
    found = MeterErrors(dataclasses.replace(loaded, lab=lab)).of_runs(CellRuns([first, second]))
    classes = [parts.tolist() for source, parts in found.common.items() if "class's gain" in source]
    assert classes == [pytest.approx([0.0, 0.03])] * 2


def test_a_meter_without_a_class_adds_nothing(tmp_path):
    assert limit(build(tmp_path / "c")) == 0


def test_what_gaps_can_have_drawn_is_each_cells_own(tmp_path):
    loaded = lose(build(tmp_path / "c"), LOSSY, 0.009)
    assert limit(loaded) == pytest.approx(0.5 * 0.009, rel=0.01)
    (one,) = comparison.compare_cells(loaded)
    assert one.ranking.pair(QUIET, LOSSY).systematic == pytest.approx(limit(loaded))


@pytest.mark.parametrize(
    ("low", "high", "half"), [(0.1, 0.3, 0.1), (-0.1, 0.3, 0.3), (-0.3, 0.1, 0.3)], ids=["lost", "up", "down"]
)
def test_the_farther_end_of_what_gaps_can_have_drawn_counts(tmp_path, low, high, half):
    """Around the middle, or around nothing where the energy may be too small or too large."""
    folder = build(tmp_path / "c").folder
    with sqlite3.connect(folder / "journal.sqlite") as database:
        database.execute(f"UPDATE energy SET gap_low_joules = {low}, gap_high_joules = {high}")
    runs = CellRuns([run for run in results.load(folder).runs if run.cell == QUIET])
    found = MeterErrors(results.load(folder)).of_runs(runs)
    assert found.own * runs.joules == pytest.approx(half)


def set_gaps(campaign: Campaign, low: str, high: str) -> Campaign:
    """Return the campaign with other limits, in SQL, of what the gaps of all loads drew."""
    with sqlite3.connect(campaign.folder / "journal.sqlite") as database:
        database.execute(f"UPDATE energy SET gap_low_joules = {low}, gap_high_joules = {high}")
    return results.load(campaign.folder)


def test_gaps_that_nothing_bounds_claim_no_more_than_gaps_of_a_wide_supply(tmp_path):
    loaded = build(tmp_path / "c")
    bounded, unbounded = (
        comparison.compare_cells(set_gaps(loaded, *ends))[0]
        for ends in (("-joules", "20 * joules"), ("NULL", "NULL"))
    )
    for one in (bounded, unbounded):
        assert one.ranking.why == "what the meters did not measure may be as much as what they did"
        assert one.ranking.winner is None
        assert [precision.interval for precision in one.precision.values()] == [None, None]
    assert "gaps" in unbounded.precision[QUIET].unknown


def test_an_offset_on_volts_and_amps_that_were_not_kept_is_without_limit(tmp_path):
    loaded = build(tmp_path / "c", accuracy=OFFSET)
    with sqlite3.connect(loaded.folder / "journal.sqlite") as database:
        database.execute("UPDATE energy SET volt_seconds = NULL")
    loaded = results.load(loaded.folder)
    found = MeterErrors(loaded).of_runs(CellRuns(loaded.cells()[QUIET]))
    assert found.own.tolist() == [math.inf] * 5


def test_of_a_calibration_only_what_is_no_gain_counts_within_a_campaign(tmp_path):
    loaded = build(tmp_path / "c", calibration=calibrated())
    of_gain = build(tmp_path / "d", calibration=calibrated(u_offset=0.0, cov=0.0, offset=0.0))
    assert limit(loaded) > 1e-5
    assert limit(of_gain) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("before", "after", "meter"),
    [
        pytest.param({"calibration": calibrated()}, {"calibration": calibrated()}, 0.0, id="one record"),
        pytest.param(
            {"calibration": calibrated()},
            {"calibration": calibrated(gain=1.02)},
            # twice u(gain) / gain of volts and of amps, in both campaigns
            2 * (2 * 5e-4 / 1.01) + 2 * (2 * 5e-4 / 1.02),
            id="two records",
        ),
        pytest.param({"accuracy": GAIN}, {"accuracy": GAIN}, 2 * (0.001 + 0.005), id="a class"),
    ],
)
def test_between_campaigns_a_gain_cancels_only_with_one_calibration_record(tmp_path, before, after, meter):
    pair = build(tmp_path / "before", **before), build(tmp_path / "after", **after, name="later")
    for change in campaigns.compare(*pair).changes:
        assert change.meter == pytest.approx(meter, abs=1.5e-3)
        assert (change.meter < 1e-3) == (meter == 0)


def test_cells_that_lost_notably_different_shares_are_warned_of(tmp_path):
    loaded = build(tmp_path / "c")
    assert comparison.compare_cells(loaded)[0].uneven_losses == ""
    assert comparison.compare_cells(lose(loaded, LOSSY, 0.0015))[0].uneven_losses == ""
    (one,) = comparison.compare_cells(lose(loaded, LOSSY, 0.009))
    assert one.uneven_losses.startswith(
        "Cells lost notably different shares of their samples, from 0.00 % of f2fs with none to 0.90 % of"
        " ext4 with none"
    )
    (alike,) = comparison.compare_cells(lose(lose(loaded, LOSSY, 0.009), QUIET, 0.009))
    assert alike.uneven_losses == ""
    cells = loaded.cells()
    assert losses.unmeasured_share(CellRuns(cells[QUIET])) == 0


def test_what_was_not_measured_may_be_all_and_then_nothing_is_compared(tmp_path):
    loaded = build(tmp_path / "c")
    for run in loaded.runs:
        with sqlite3.connect(loaded.folder / "journal.sqlite") as database:
            database.execute(
                "UPDATE energy SET gap_low_joules = -joules, gap_high_joules = joules WHERE run = ?"
                " AND phase = 'workload'",
                (run.id,),
            )
    (one,) = comparison.compare_cells(results.load(loaded.folder))
    assert one.ranking.why == "what the meters did not measure may be as much as what they did"
    assert one.ranking.contenders == []
