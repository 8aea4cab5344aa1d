# SPDX-License-Identifier: GPL-3.0-or-later
"""The mode that a run met, by its evidence alone, and what may be named by it."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.report.answer import answer, caveat, groups
from joulerig.analysis.runs import modes
from joulerig.analysis.runs.modes import CHANGES, NO_REWRITES, NOT_KNOWN, REWRITES, SCOPE, THROTTLED
from joulerig.analysis.runs.over_time import PowerOverTime, WorkOverTime
from joulerig.analysis.statistics import ranking
from joulerig.analysis.tables import runs_and_cells
from joulerig.rig.dashboard.campaign import ai_table
from tests.support import ROOT, simulated_campaign

STEPS = 120
EVEN = np.random.default_rng(1).normal(3.0, 0.05, STEPS)
CELL = "nvme-plp/{}/none/randwrite-fsync"


def nvme(host_units, nand_bytes, **more):
    return {"data_units_written": host_units, "physical_media_units_written": nand_bytes, **more}


def power(watts=EVEN, rate=None):
    instants = np.arange(len(watts)) + 0.5
    work = None if rate is None else WorkOverTime(np.arange(len(rate)) + 0.5, rate, rate, 1.0)
    return PowerOverTime(instants, watts, 1.0, None, work)


@pytest.fixture
def build(tmp_path):
    """Build a campaign; `ratios`: NAND bytes a host byte, by file system and replicate."""

    def make(ratios=None, units=1000, before=None, after=None, **given):
        given = {"drives": ("nvme-plp",), "schedulers": ("none",), "replicates": 3, **given}
        folder = simulated_campaign.build(tmp_path / "c", **given)
        for run in results.load(folder).runs:
            ratio = (ratios or {}).get(run.filesystem, {}).get(run.replicate)
            if ratio is None:
                continue
            run.folder.mkdir(parents=True, exist_ok=True)
            reports = {
                "before": nvme(10**6, 10**12, **(before or {})),
                "after": nvme(10**6 + units, 10**12 + int(ratio * units * 512_000), **(after or {})),
            }
            for name, report in reports.items():
                (run.folder / f"smart_{name}.json").write_text(json.dumps(report))
        return results.load(folder)

    return make


def mode(campaign, over=None):
    return modes.of_run(campaign, campaign.runs[0], over)


def every(ratio):
    return {name: dict.fromkeys(range(1, 11), ratio) for name in ("ext4", "xfs", "f2fs")}


# The mode of a run


def test_where_nothing_shows_a_mode_it_is_not_known(build):
    assert mode(build()) == modes.Mode(NOT_KNOWN, "", known=False)


@pytest.mark.parametrize(
    ("ratio", "name"), [(1.0, NO_REWRITES), (2.5, REWRITES), (1.1, NOT_KNOWN)], ids=["none", "many", "few"]
)
def test_counts_of_nand_bytes_show_rewrites_of_the_flash(build, ratio, name):
    found = mode(build(every(ratio)), power())
    assert (found.name, found.known) == (name, name != NOT_KNOWN)
    assert found.evidence == f"{ratio:.2f} NAND bytes a host byte"


def test_counts_that_rose_by_too_few_units_show_nothing(build):
    assert mode(build(every(2.5), units=10), power()) == modes.Mode(NOT_KNOWN, "", known=False)


def test_without_power_over_the_load_it_is_not_known_that_its_level_stayed(build):
    found = mode(build(every(1.0)))
    assert (found.name, found.known) == (NO_REWRITES, False)


def test_a_load_whose_power_or_rate_changes_level_is_marked_with_the_levels(build):
    campaign = build(every(1.0))
    half = np.where(np.arange(STEPS) < 50, 1.0, 1.75)
    found = mode(campaign, power(EVEN * half))
    assert (found.name, found.known) == (f"{NO_REWRITES}, {CHANGES}", True)
    assert found.evidence.endswith("levels of 3, 5.24 W")
    assert mode(campaign, power(rate=1000 / half * EVEN)).name == f"{NO_REWRITES}, {CHANGES}"


def test_a_small_change_and_a_series_that_was_not_measured_are_no_modes(build):
    campaign = build(every(1.0))
    assert mode(campaign, power(EVEN * np.where(np.arange(STEPS) < 50, 1.0, 1.1))).name == NO_REWRITES
    assert not mode(campaign, power(np.where(np.arange(STEPS) == 7, np.nan, EVEN))).known


def test_noise_is_no_mode(build):
    campaign, rng = build(every(1.0)), np.random.default_rng(2)
    found = [mode(campaign, power(rng.normal(3, 0.15, STEPS), rng.normal(9, 0.9, STEPS))) for _ in range(30)]
    assert {one.name for one in found} == {NO_REWRITES}


def test_a_throttled_run_says_so(build):
    campaign = build(every(1.0), before={"thm_temp1_trans_count": 0}, after={"thm_temp1_trans_count": 2})
    found = mode(campaign, power())
    assert found.name == f"{THROTTLED}, {NO_REWRITES}"
    assert "nvme-plp was hot" in found.evidence


# What may be named


def lead(runs, ahead=0.2):
    rng = np.random.default_rng(3)
    return ranking.rank(
        {
            f"c{cell}": [
                (block, float(np.exp(rng.normal(-ahead * cell, 0.002)))) for block in range(1, runs + 1)
            ]
            for cell in range(4)
        }
    )


@pytest.mark.parametrize(("runs", "named"), [(3, False), (4, False), (5, True)])
def test_a_winner_needs_five_runs_where_the_modes_are_not_known(runs, named):
    found = lead(runs)
    withheld = modes.why_withheld(found, dict.fromkeys(found.order, runs), lambda _: False)
    assert found.contenders == ["c0"]
    assert (withheld == "") == named
    assert (dataclasses.replace(found, withheld=withheld).winner == "c0") == named


def test_finalists_that_met_the_same_modes_need_no_five_runs():
    found, asked = lead(3), []
    assert (
        modes.why_withheld(found, dict.fromkeys(found.order, 3), lambda cells: not asked.append(cells)) == ""
    )
    assert asked == [["c0", "c1"]]


def test_a_cell_far_behind_needs_no_five_runs():
    found = lead(5)
    assert modes.why_withheld(found, {"c0": 5, "c1": 5, "c2": 5, "c3": 2}, lambda _: False) == ""


def ranked(campaign):
    (found,) = comparison.rank_groups(campaign).values()
    return found.ranking


def test_three_runs_whose_modes_are_not_known_name_no_winner(build):
    found = ranked(build(traces=True))
    assert (found.contenders, found.winner) == ([CELL.format("f2fs")], None)


@pytest.mark.parametrize(
    ("odd", "winner"),
    [(1.0, CELL.format("f2fs")), (2.5, None), (1.1, None)],
    ids=["same", "other", "unknown"],
)
def test_a_run_in_another_mode_withholds_the_winner(build, odd, winner, monkeypatch):
    monkeypatch.setattr(modes, "_power", lambda _: power())
    ratios = every(1.0)
    ratios["xfs"][2] = odd
    found = ranked(build(ratios))
    assert found.contenders == [CELL.format("f2fs")]
    assert found.winner == winner
    assert ("the fewest are 3" in found.withheld) == (winner is None)


# Where it is said


def test_tables_the_answer_and_the_dashboard_withhold_the_same_winner(build):
    campaign = build()
    compared = comparison.compare_cells(campaign)
    cells = runs_and_cells.cells(campaign, compared).to_dicts()
    (best,) = [row for row in cells if row["may_be_best"]]
    assert (best["winner"], best["winner_withheld"]) == (False, compared[0].ranking.withheld)
    assert best["modes"] == f"{NOT_KNOWN} 3"
    found = groups(compared, cells)
    assert answer(found[0]).claim == "no winner yet: f2fs with none leads"
    assert compared[0].ranking.withheld in answer(found[0]).qualification
    standing = ai_table.standing(campaign)
    assert standing.marks["ops"] == {best["cell"]: "open"}
    assert set(standing.untested.values()) == {compared[0].ranking.withheld}


def test_a_winner_is_the_best_of_what_these_runs_show(build):
    campaign = build(replicates=5)
    compared = comparison.compare_cells(campaign)
    cells = runs_and_cells.cells(campaign, compared).to_dicts()
    assert [row["cell"] for row in cells if row["winner"]] == [CELL.format("f2fs")]
    found = groups(compared, cells)
    assert answer(found[0]).claim == "f2fs with none"
    assert SCOPE in caveat(found)
    assert ai_table.standing(campaign).marks["ops"] == {CELL.format("f2fs"): "best"}
    assert SCOPE in (ROOT / "rig" / "dashboard" / "templates" / "index.html").read_text()


def test_the_answer_says_in_which_modes_a_cell_was_the_best(build, monkeypatch):
    monkeypatch.setattr(modes, "_power", lambda _: power())
    campaign = build(every(1.0))
    compared = comparison.compare_cells(campaign)
    found = answer(groups(compared, runs_and_cells.cells(campaign, compared).to_dicts())[0])
    assert found.claim == "f2fs with none"
    assert found.qualification.endswith(f"its runs met: {NO_REWRITES} 3")


def test_runs_carry_their_modes_with_the_evidence(build):
    rows = runs_and_cells.runs(build({"xfs": {1: 2.5}})).to_dicts()
    found = {(row["filesystem"], row["replicate"]): (row["mode"], row["mode_evidence"]) for row in rows}
    assert found["xfs", 1] == (REWRITES, "2.50 NAND bytes a host byte")
    assert found["xfs", 2] == (NOT_KNOWN, "")
