# SPDX-License-Identifier: GPL-3.0-or-later
"""Two campaigns compared cell by cell."""

from __future__ import annotations

import sqlite3

import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import campaigns
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.statistics.movements import Deviation
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


def by_scheduler(*pair, **given):
    return {one.cell.split("/")[2]: one for one in campaigns.compare(*pair, **given).changes}


def test_what_changed_is_distinguished_from_what_did_not(pair):
    found = by_scheduler(*pair)
    assert {name: change.significant for name, change in found.items()} == {
        "none": False, "mq-deadline": False, "bfq": True,
    }  # fmt: skip
    bfq = found["bfq"]
    assert bfq.low < bfq.ratio < bfq.high
    assert bfq.total == pytest.approx(bfq.after / bfq.before - 1, abs=1e-3)
    assert bfq.low > 0


def test_what_all_cells_do_is_taken_from_each_and_shown_apart(pair):
    compared = campaigns.compare(*pair)
    common = compared.common
    totals = sorted(change.total for change in compared.changes)
    assert common.ratio == pytest.approx(totals[1])
    for change in compared.changes:
        assert (1 + change.ratio) * (1 + common.ratio) == pytest.approx(1 + change.total)
    assert (common.known, common.p) == (False, None)
    known = campaigns.compare(*pair, Deviation(0.01)).common
    assert known.p > 0.05
    assert known.low < common.low < common.high < known.high


def test_fewer_than_three_cells_are_tested_where_campaigns_are_known_to_differ(tmp_path):
    """Two cells cannot show which of them moved, and which one stayed."""
    two = [campaign(tmp_path / str(seed), schedulers=("none", "bfq"), seed=seed) for seed in (1, 2)]
    compared = campaigns.compare(*two)
    assert compared.common is None
    assert {(change.p, change.why) for change in compared.changes} == {(None, campaigns.FEW_CELLS)}
    widths = []
    for deviation in (None, Deviation(0.0), Deviation(0.05)):
        found = by_scheduler(*two, deviation=deviation)["bfq"]
        widths.append(found.high - found.low)
        assert (found.p is None) == (deviation is None)
    assert widths[0] == pytest.approx(widths[1])
    assert widths[2] > 0.2


def test_a_campaign_against_itself_has_not_changed(pair):
    compared = campaigns.compare(pair[0], pair[0])
    assert not any(change.significant or change.ratio for change in compared.changes)
    assert compared.common.ratio == 0


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
    found = campaigns.compare(one, one).changes
    assert {(change.why, change.p, change.significant) for change in found} == {(why, None, False)}


def test_one_run_of_either_campaign_cannot_be_tested(pair, tmp_path):
    single = campaign(tmp_path / "c", replicates=1)
    for two in ((pair[0], single), (single, pair[0])):
        found = campaigns.compare(*two).changes
        assert {(change.why, change.p) for change in found} == {("one run: its spread is unknown", None)}


def test_cells_of_one_campaign_alone_are_named_and_not_compared(pair, tmp_path):
    lost = campaign(
        tmp_path / "c", outcome=lambda levels: Outcome("lost" if levels["scheduler"] == "bfq" else "ok")
    )
    assert [cell.split("/")[2] for cell in campaigns.only_in(pair[0], lost)] == ["bfq"]
    assert campaigns.only_in(lost, pair[0]) == []
    assert len(campaigns.compare(pair[0], lost).changes) == 2


def test_settings_that_differ_are_reported_both_ways():
    found = campaigns.settings(
        {"kernel": "6.1", "seed": "1", "old": "x"}, {"kernel": "6.12", "seed": "1", "new": "y"}
    )
    assert found == [("kernel", "6.1", "6.12"), ("old", "x", ""), ("new", "", "y")]
