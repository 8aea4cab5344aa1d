# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a load was steady while it was measured: PTS' rule on its fifths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import cautions
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.report import document
from joulerig.analysis.results import progress
from joulerig.analysis.runs import idle, over_time, steadiness
from joulerig.analysis.tables import runs_and_cells
from joulerig.rig.campaign.forecast import expected
from joulerig.rig.cli import results as command
from tests.support import simulated_campaign

SECONDS = 10


def rates(*values):
    return np.array(values, dtype=float)


@pytest.mark.parametrize(
    ("ops", "watts", "verdict"),
    [
        ((100, 101, 99, 100, 100), (5, 5, 5, 5, 5), "steady"),
        ((110, 90, 110, 90, 110), (5, 5, 5, 5, 5), "steady"),  # range 20 % less than a hair
        ((112, 90, 110, 90, 110), (5, 5, 5, 5, 5), "not steady: ops"),
        ((106, 103, 100, 97, 94), (5, 5, 5, 5, 5), "not steady: ops"),  # range 12 %, slope 12 %
        ((100, 100, 100, 100, 100), (5, 5, 5, 5, 7), "not steady: watts"),
        ((200, 100, 100, 100, 100), (5, 5, 5, 5, 7), "not steady: ops, watts"),
    ],
)
def test_range_and_slope_of_both_series_decide(ops, watts, verdict):
    found = steadiness.from_fifths({"ops": rates(*ops), "watts": rates(*watts)})
    assert found.verdict == verdict
    assert "ops range" in found.reason
    assert "watts range" in found.reason


def test_a_series_that_is_not_known_leaves_it_open_unless_the_other_is_not_steady():
    steady, falling = rates(5, 5, 5, 5, 5), rates(9, 8, 7, 6, 5)
    assert steadiness.from_fifths({"ops": steady}, ["no power points"]).verdict == "not judged"
    assert steadiness.from_fifths({"ops": falling}, ["no power points"]).verdict == "not steady: ops"


def verdicts(count, scatter, seeds=100):
    """Verdicts of level loads of `count` values, whose fifths scatter by so much."""
    found = []
    for seed in range(seeds):
        noise = np.random.default_rng(seed).normal(size=count)
        values = 100 * (1 + scatter * (count / 5) ** 0.5 * noise)
        errors = {"ops": steadiness.error_of_fifth(values)}
        found.append(steadiness.from_fifths({"ops": values.reshape(5, -1).mean(axis=1)}, (), errors).verdict)
    return found


@pytest.mark.parametrize("count", [10, 100])
def test_a_level_load_that_is_noisy_is_not_called_unsteady(count):
    found = verdicts(count, 0.06)
    assert sum(one.startswith("not steady") for one in found) <= 3
    assert found.count("cannot tell: ops") >= 80


def test_a_level_load_with_little_noise_is_steady():
    assert verdicts(100, 0.01).count("steady") == 100


def test_autocorrelated_noise_is_seen_in_a_long_load():
    plain = np.random.default_rng(4).normal(size=(20, 400))
    errors = [steadiness.error_of_fifth(values) for values in plain]
    remembering = [np.convolve(values, 0.8 ** np.arange(40), mode="valid") * 0.6 for values in plain]
    assert np.mean([steadiness.error_of_fifth(values) for values in remembering]) > 2 * np.mean(errors)


def test_the_reason_names_the_noise_that_leaves_it_open():
    found = steadiness.from_fifths({"ops": rates(100, 110, 100, 95, 100)}, (), {"ops": 3.0})
    assert found.verdict == "cannot tell: ops"
    assert found.reason.endswith("the noise of ops moves its range by 11.5 %")
    assert found.unsteady == []


def test_a_level_that_falls_by_more_than_its_noise_is_not_steady():
    falling = np.repeat([200.0, 100.0, 100.0, 100.0, 100.0], 20) + np.random.default_rng(2).normal(0, 5, 100)
    errors = {"ops": steadiness.error_of_fifth(falling)}
    found = steadiness.from_fifths({"ops": falling.reshape(5, -1).mean(axis=1)}, (), errors)
    assert found.verdict == "not steady: ops"


def reported(ops, every=1.0):
    phase = over_time.Phase("workload", 0, SECONDS * 10**9, 0, 0)
    times = [round((k + 1) * every * 1e9) for k in range(len(ops))]
    return steadiness.ops_in_fifths(pl.DataFrame({"time_ns": times, "ops": ops}), phase)


def test_operations_of_fifths_are_those_reported_within_them():
    found, why = reported([10, 20, 30, 40, 50, 60, 70, 80, 90, 100])
    assert why == ""
    assert found == pytest.approx([15, 35, 55, 75, 95])


def test_a_report_that_does_not_end_with_a_fifth_is_shared_between_them():
    found, _ = reported([15] * 12, every=SECONDS / 12)
    assert found == pytest.approx([18] * 5)


@pytest.mark.parametrize(
    ("ops", "every", "why"),
    [
        ([10] * 9, 1.1, "the load reported its progress 9 times, 10 are needed"),
        ([10] * 10, 0.8, "the load reported its progress for 8 of 10 s"),
    ],
)
def test_too_few_reports_are_not_judged(ops, every, why):
    assert reported(ops, every) == (None, why)


def test_a_load_that_reported_nothing_is_not_judged():
    phase = over_time.Phase("workload", 0, SECONDS * 10**9, 0, 0)
    assert steadiness.ops_in_fifths(None, phase) == (None, "the load reported no progress")


@pytest.fixture
def build(tmp_path):
    """Build a campaign whose loads report the operations of each second, by file system."""

    def make(by_second, **given):
        given = {"traces": True, **given}
        folder = simulated_campaign.build(
            tmp_path / "c", drives=("nvme-consumer",), schedulers=("none",), **given
        )
        for run in results.load(folder).runs:
            start = run.phases["workload"].start_ns
            found = by_second.get(run.filesystem, [100] * SECONDS)
            frame = pl.DataFrame(
                {
                    "time_ns": [start + (k + 1) * 10**9 for k in range(len(found))],
                    "ops": found,
                    "read_bytes": 0,
                    "write_bytes": 0,
                }
            )
            progress.write(frame.cast(progress.COLUMNS), run.folder)
        return folder

    return make


FALLING = [140, 130, 120, 110, 100, 95, 90, 88, 86, 85]


def test_rows_of_runs_and_cells_have_the_verdict_and_its_figures(build):
    campaign = results.load(build({"f2fs": FALLING}, replicates=2))
    rows = runs_and_cells.runs(campaign)
    for row in rows.iter_rows(named=True):
        falls = row["filesystem"] == "f2fs"
        assert row["steadiness"] == ("not steady: ops" if falls else "steady"), row["steadiness_reason"]
        fifths = np.reshape(FALLING, (5, 2)).mean(axis=1) if falls else np.full(5, 100.0)
        assert row["fifths_ops_range_percent"] == pytest.approx(100 * np.ptp(fifths) / fifths.mean())
        assert row["fifths_watts_slope_percent"] < 10
    cells = {row["filesystem"]: row for row in runs_and_cells.cells(campaign).iter_rows(named=True)}
    assert (cells["f2fs"]["runs_steady"], cells["f2fs"]["runs_not_steady"]) == (0, 2)
    assert (cells["ext4"]["runs_steady"], cells["ext4"]["runs_not_steady"]) == (2, 0)


def test_report_and_terminal_warn_before_any_figure(build):
    folder = build({"f2fs": FALLING}, replicates=2)
    said = "nvme-consumer, randwrite-fsync: not steady while measured: 2 of 6 runs (2 by ops)"
    page = document.html(results.load(folder))
    assert page.index(said) < page.index("Most work per joule, by drive and workload")
    assert command.summary_text(folder).splitlines()[0] == f"WARNING: {said}"


def test_steady_loads_have_no_warning(build):
    campaign = results.load(build({}, replicates=2))
    over, _ = over_time.power_by_run(campaign)
    assert (
        cautions.of_campaign(campaign, comparison.compare_cells(campaign), over, idle.by_run(campaign)) == []
    )


def test_a_load_that_ends_by_itself_is_not_judged(build):
    campaign = results.load(build({"f2fs": FALLING}))
    (run,) = (run for run in campaign.runs if run.filesystem == "f2fs")
    over, _ = over_time.power_by_run(campaign)
    sooner = replace(run, performance=replace(run.performance, seconds=0.7 * SECONDS))
    found = steadiness.judge(campaign, sooner, over[run.id])
    assert (found.verdict, found.windows) == ("not judged", {})
    assert found.reason == "the load ends by itself, not after 10 s: its parts differ"


def test_a_plan_expects_the_length_of_a_load_by_the_same_rule():
    assert expected.steadiness.ends_by_itself(13.0, 10.0)
    assert not expected.steadiness.ends_by_itself(11.9, 10.0)
    assert not expected.steadiness.ends_by_itself(None, 10.0)


def test_a_drive_without_rails_is_judged_on_operations_alone(build):
    campaign = results.load(build({"f2fs": FALLING}, traces=False))
    for run in campaign.runs:
        bare = replace(run, result=replace(run.result, joules=None))
        verdict = steadiness.judge(campaign, bare, None).verdict
        assert verdict == ("not steady: ops" if run.filesystem == "f2fs" else "steady")
        if run.filesystem != "f2fs":
            assert steadiness.judge(campaign, run, None).verdict == "not judged"


def test_a_damaged_file_of_progress_is_the_reason(build):
    campaign = results.load(build({}, traces=False))
    (campaign.runs[0].folder / progress.FILE).write_text("not,progress\n1,2\n")
    found = steadiness.judge(campaign, campaign.runs[0], None)
    assert found.verdict == "not judged"
    assert "progress.csv" in found.reason
