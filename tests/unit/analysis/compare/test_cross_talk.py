# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs side by side do to each other, by runs that were alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import cells, cross_talk
from joulerig.analysis.report import document
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName
from joulerig.analysis.tables import comparisons, runs_and_cells
from joulerig.rig.cli import results as cli
from tests.support import simulated_campaign

SECOND = 1_000_000_000
DRIVES = ("nvme-consumer", "nvme-plp")


def side_by_side(
    folder: Path,
    blocks: int,
    *,
    slower: float = 0.0,
    watts: float = 0.0,
    noise: float = 0.0,
    overlap: bool = True,
    drives: tuple[str, ...] = DRIVES,
) -> Campaign:
    """A campaign in which one cell of each drive is also run alone in each block.

    Alongside others, runs are `slower` by that fraction, and draw so many `watts` more. `noise`:
    standard deviation of both, relative. `overlap`: whether other drives were at work meanwhile.
    """
    built = simulated_campaign.build(
        folder, drives=drives, filesystems=("ext4", "xfs"), schedulers=("none",), replicates=blocks, noise=0.0
    )
    loaded, random = results.load(built), np.random.default_rng(7)
    runs = []
    for number, run in enumerate(loaded.runs):
        # Blocks follow each other; in one, all but the controls are at work at once.
        at = (run.block * 1000 + (0 if overlap else 100 * number)) * SECOND
        runs.append(_altered(_moved(run, at), 1 - slower, watts, random.normal(0, noise, 2)))
        if run.filesystem == "ext4":
            alone = replace(
                run, id=f"{run.id}-alone", cell=f"{run.cell}/control=alone",
                factors={**run.factors, "control": "alone"},
            )  # fmt: skip
            runs.append(_altered(_moved(alone, at + 500 * SECOND), 1, 0, random.normal(0, noise, 2)))
    return replace(loaded, runs=tuple(runs))


def _moved(run: Run, at_ns: int) -> Run:
    first = min(phase.start_ns for phase in run.phases.values())
    return replace(
        run,
        phases={
            name: replace(phase, start_ns=phase.start_ns - first + at_ns, end_ns=phase.end_ns - first + at_ns)
            for name, phase in run.phases.items()
        },
    )


def _altered(run: Run, factor: float, watts: float, noise: Any) -> Run:
    done, result = run.performance, run.result
    assert done is not None
    assert result is not None
    rate = done.ops_per_second * factor * (1 + noise[0])
    drawn = (result.mean_watts + watts) * (1 + noise[1])
    return replace(
        run,
        performance=replace(done, ops_per_second=rate),
        result=replace(result, mean_watts=drawn, ai_ops_per_joule=rate / drawn),
    )


def by_quantity(found: list[cross_talk.CrossTalk], drive: str) -> dict[str, cross_talk.CrossTalk]:
    return {one.quantity: one for one in found if one.drive == drive}


def test_a_loss_of_performance_is_found_with_its_size(tmp_path):
    found = cross_talk.estimate(side_by_side(tmp_path, 12, slower=0.05, noise=0.01))
    for drive in DRIVES:
        of = by_quantity(found, drive)
        assert of["ops/s"].change == pytest.approx(-0.05, abs=0.02)
        assert of["ops/s"].seen
        assert of["ops/J"].seen
        assert not of["W"].seen
        assert of["W"].interval.low < 0 < of["W"].interval.high


def test_without_noise_the_change_is_exact(tmp_path):
    found = cross_talk.estimate(side_by_side(tmp_path, 3, slower=0.05, watts=1.0))
    of = by_quantity(found, "nvme-plp")
    assert of["ops/s"].change == pytest.approx(-0.05)
    assert of["W"].change > 0
    assert of["ops/J"].change == pytest.approx(0.95 / (1 + of["W"].change) - 1)


def test_runs_that_do_not_differ_at_all_show_none(tmp_path):
    found = cross_talk.estimate(side_by_side(tmp_path, 4))
    assert not any(one.seen for one in found)
    assert cross_talk.warning(found) == ""


@pytest.mark.parametrize("blocks", [1, 2])
def test_with_too_few_pairs_it_cannot_be_judged(tmp_path, blocks):
    found = cross_talk.estimate(side_by_side(tmp_path, blocks, slower=0.5))
    assert {(one.interval, one.seen) for one in found} == {(None, False)}
    assert {one.why for one in found} == {f"{blocks} pair{'s' * (blocks > 1)} of runs, 3 are needed"}
    assert cross_talk.warning(found) == ""


def test_where_nothing_differs_at_most_one_campaign_in_twenty_says_it_does(tmp_path):
    """400 campaigns of three pairs a drive, by the intervals themselves."""
    random, alpha = np.random.default_rng(3), cross_talk.sidak_level(0.05, 6)
    wrong = 0
    for _ in range(400):
        drives = [random.normal(0, 0.02, (3, 3)) for _ in DRIVES]
        intervals = [cross_talk._interval(list(logs), alpha) for drive in drives for logs in drive]
        wrong += any(one.low > 0 or one.high < 0 for one in intervals)
    assert wrong <= 34  # 20 expected; binomial, one in a thousand exceeds it


def test_pairs_whose_other_run_had_no_neighbour_are_left_out(tmp_path):
    found = cross_talk.estimate(side_by_side(tmp_path, 4, slower=0.5, overlap=False))
    assert {(one.pairs, one.change, one.shared) for one in found} == {(0, None, None)}


def test_the_share_of_the_load_with_others_at_work_is_given(tmp_path):
    found = cross_talk.estimate(side_by_side(tmp_path, 3))
    assert {one.shared for one in found} == {1.0}
    campaign = side_by_side(tmp_path / "partly", 3)
    load = PhaseName.WORKLOAD
    shifted = [
        _moved(run, run.block * 1000 * SECOND + 7 * SECOND)
        if run.drive == DRIVES[0] and not run.is_control
        else run
        for run in campaign.runs
    ]
    partly = replace(campaign, runs=tuple(shifted))
    assert all(0 < one.shared < 1 for one in cross_talk.estimate(partly) if one.drive == DRIVES[0])
    assert load in partly.runs[0].phases


@pytest.mark.parametrize(
    ("neighbours", "share"),
    [([(0, 5), (3, 8)], 0.8), ([(-9, 2), (9, 30)], 0.3), ([(2, 9), (3, 4)], 0.7), ([(-5, 0), (10, 12)], 0.0)],
    ids=["overlap", "ends", "within", "before and after"],
)
def test_time_that_two_neighbours_share_counts_once(tmp_path, neighbours, share):
    run = side_by_side(tmp_path, 1).runs[0]
    load = replace(run.phases[PhaseName.WORKLOAD], start_ns=0, end_ns=10)
    run = replace(run, phases={PhaseName.WORKLOAD: load})
    assert cross_talk._shared(run, neighbours) == pytest.approx(share)


def test_a_pair_whose_control_failed_is_none(tmp_path):
    campaign = side_by_side(tmp_path, 4)
    first = next(run for run in campaign.runs if run.is_control)
    failed = tuple(replace(run, status="failed") if run is first else run for run in campaign.runs)
    found = by_quantity(cross_talk.estimate(replace(campaign, runs=failed)), first.drive)
    assert {one.pairs for one in found.values()} == {3}


def test_a_campaign_without_controls_has_no_cross_talk(tmp_path):
    campaign = results.load(simulated_campaign.build(tmp_path))
    assert cross_talk.estimate(campaign) == []
    assert comparisons.TABLES["cross_talk"](campaign, []).height == 0


def test_control_runs_are_compared_with_no_cell(tmp_path):
    campaign = side_by_side(tmp_path, 4, noise=0.01)
    without = replace(campaign, runs=tuple(run for run in campaign.runs if not run.is_control))
    assert cells.compare_cells(campaign) == cells.compare_cells(without)
    assert list(campaign.cells()) == list(without.cells())
    table = runs_and_cells.cells(campaign)
    assert not any("alone" in cell for cell in table["cell"])


def test_the_table_of_runs_says_which_were_alone(tmp_path):
    frame = runs_and_cells.runs(side_by_side(tmp_path, 3))
    alone = frame.filter(frame["factors_json"].str.contains('"control": "alone"'))
    assert alone.height == 6
    assert all(cell.endswith("/control=alone") for cell in alone["cell"])


def test_the_table_of_cross_talk_has_a_row_a_drive_and_quantity(tmp_path):
    frame = cross_talk.table(side_by_side(tmp_path, 12, slower=0.05, noise=0.01), [])
    assert frame.height == 6
    row = frame.filter((frame["drive"] == "nvme-plp") & (frame["quantity"] == "ops/s")).row(0, named=True)
    assert row["alongside_percent"] == pytest.approx(-5, abs=2)
    assert row["alongside_percent_low"] < row["alongside_percent"] < row["alongside_percent_high"] < 0
    assert (row["pairs"], row["seen"], row["shared_percent"]) == (12, True, 100.0)


def test_the_report_warns_at_its_head_and_has_a_chapter(tmp_path):
    text = document.html(side_by_side(tmp_path, 12, slower=0.05, noise=0.01))
    warning = "Runs side by side disturb each other: vhost1/nvme-consumer: ops/s −"
    assert warning in text
    assert text.index(warning) < text.index("<h2>")
    assert "Drives side by side, and alone" in text
    assert "24 control runs had their host alone" in text


def test_the_report_says_where_it_cannot_be_judged(tmp_path):
    text = document.html(side_by_side(tmp_path, 1))
    assert "cannot tell: 1 pair of runs, 3 are needed" in text
    assert "disturb each other" not in text


def test_the_report_of_a_campaign_without_controls_does_not_speak_of_them(tmp_path):
    text = document.html(results.load(simulated_campaign.build(tmp_path)))
    assert "Drives side by side" not in text


def test_rig_results_warns_and_has_a_line_for_each_drive(tmp_path):
    found = cli._cross_talk(side_by_side(tmp_path, 12, slower=0.05, noise=0.01))
    assert found[0].startswith("WARNING: Runs side by side disturb each other: vhost1/nvme-consumer: ops/s −")
    assert [line.split(":")[0] for line in found[1:]] == [
        f"drive vhost1/{drive} side by side" for drive in DRIVES
    ]
    assert all("12 pairs" in line for line in found[1:])


def test_rig_results_says_nothing_of_it_without_controls(tmp_path):
    assert cli._cross_talk(results.load(simulated_campaign.build(tmp_path))) == []
