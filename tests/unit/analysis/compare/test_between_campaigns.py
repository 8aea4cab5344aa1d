# SPDX-License-Identifier: GPL-3.0-or-later
"""Two campaigns compared cell by cell."""

from __future__ import annotations

import math
import sqlite3

import numpy as np
import pytest
from scipy import stats

from joulerig.analysis import results
from joulerig.analysis.compare import campaigns
from joulerig.analysis.results.campaign import Campaign
from tests.support import simulated_campaign
from tests.support.simulated_campaign import Outcome


def campaign(folder, **given) -> Campaign:
    wanted = {"drives": ("nvme-plp",), "filesystems": ("f2fs",), "replicates": 4, "noise": 0.002, **given}
    return results.load(simulated_campaign.build(folder, **wanted))


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Campaign, Campaign]:
    """bfq got faster by a twentieth from one to the other."""
    folder = tmp_path_factory.mktemp("between")
    before = campaign(folder / "before")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(simulated_campaign.SCHEDULER_SPEED, "bfq", 0.924)
        return before, campaign(folder / "after", seed=2)


def test_what_changed_is_distinguished_from_what_did_not(pair):
    found = {change.cell.split("/")[2]: change for change in campaigns.changes(*pair)}
    assert {name: change.significant for name, change in found.items()} == {
        "none": False, "mq-deadline": False, "bfq": True,
    }  # fmt: skip
    bfq = found["bfq"]
    assert bfq.low < bfq.ratio < bfq.high
    assert bfq.ratio == pytest.approx(bfq.after / bfq.before - 1, abs=1e-3)
    assert bfq.low > 0


def test_it_is_welchs_test_adjusted_for_all_cells(pair):
    change = campaigns.changes(*pair)[0]
    logs = [
        np.log([run.result.ai_ops_per_joule for run in one.runs if run.cell == change.cell]) for one in pair
    ]
    test = stats.ttest_ind(*reversed(logs), equal_var=False)
    alone = test.confidence_interval(0.95 ** (1 / 3))
    assert math.log1p(change.ratio) == pytest.approx(logs[1].mean() - logs[0].mean())
    limit = math.log1p(change.meter)
    assert (math.log1p(change.low), math.log1p(change.high)) == pytest.approx(
        (alone.low - limit, alone.high + limit)
    )
    assert campaigns.welch(*reversed(logs), 0.0, 3)[2] == pytest.approx(1 - (1 - test.pvalue) ** 3)


def test_p_is_5_percent_where_the_interval_begins_at_no_change(pair):
    logs = np.array([0.01, 0.02, 0.015]), np.array([0.0, 0.004, -0.003])
    middle, reach, _ = campaigns.welch(*logs, 0.002, 3)
    moved = logs[0] - middle + reach
    assert campaigns.welch(moved, logs[1], 0.002, 3)[2] == pytest.approx(0.05)


def test_a_campaign_against_itself_has_not_changed(pair):
    assert not any(change.significant or change.ratio for change in campaigns.changes(pair[0], pair[0]))


@pytest.mark.parametrize(
    ("replicates", "joules", "ops", "why"),
    [
        (1, "joules", "ops", "one run: its spread is unknown"),
        (2, "20", "1000", "the runs are all alike"),
        (2, "joules", "0", "a run without operations"),
    ],
)
def test_what_cannot_be_tested_says_why(tmp_path, replicates, joules, ops, why):
    folder = campaign(tmp_path / "c", replicates=replicates).folder
    with sqlite3.connect(folder / "journal.sqlite") as database:
        database.execute(f"UPDATE result SET joules = {joules}, corrected_joules = {joules}")
        database.execute(f"UPDATE performance SET ops = {ops}")
    one = results.load(folder)
    found = campaigns.changes(one, one)
    assert {(change.why, change.p, change.significant) for change in found} == {(why, None, False)}


def test_cells_of_one_campaign_alone_are_named_and_not_compared(pair, tmp_path):
    lost = campaign(
        tmp_path / "c", outcome=lambda levels: Outcome("lost" if levels["scheduler"] == "bfq" else "ok")
    )
    assert [cell.split("/")[2] for cell in campaigns.only_in(pair[0], lost)] == ["bfq"]
    assert campaigns.only_in(lost, pair[0]) == []
    assert len(campaigns.changes(pair[0], lost)) == 2


def test_settings_that_differ_are_reported_both_ways():
    found = campaigns.settings(
        {"kernel": "6.1", "seed": "1", "old": "x"}, {"kernel": "6.12", "seed": "1", "new": "y"}
    )
    assert found == [("kernel", "6.1", "6.12"), ("old", "x", ""), ("new", "", "y")]
