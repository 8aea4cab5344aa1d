# SPDX-License-Identifier: GPL-3.0-or-later
"""A series of campaigns: since which one a cell does other work per joule."""

from __future__ import annotations

from unittest import mock

import pytest

from joulerig.analysis import results
from joulerig.analysis.compare.campaigns import COMMON
from joulerig.analysis.gate import series
from joulerig.analysis.gate.figures import FIGURES
from joulerig.analysis.statistics.differences import Systematic
from tests.support import simulated_campaign

GIVEN = {"drives": ("nvme-plp",), "filesystems": ("f2fs",), "replicates": 3, "noise": 0.004}
COUNT, FELL_AT = 8, 5


def night(folder, number, bfq=1.0, **given):
    """The campaign of a night; `bfq`: how fast it is, relative to what it was."""
    with pytest.MonkeyPatch.context() as patch:
        speeds = simulated_campaign.SCHEDULER_SPEED
        patch.setitem(speeds, "bfq", bfq * speeds["bfq"])
        given = {**GIVEN, "seed": 10 + number, **given}
        return simulated_campaign.build(folder / f"n{number}", name=f"n{number}", **given)


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Eight nights; from the sixth on bfq is a tenth slower."""
    folder = tmp_path_factory.mktemp("series")
    return [
        results.load(night(folder, number, bfq=0.9 if number >= FELL_AT else 1.0)) for number in range(COUNT)
    ]


def by_scheduler(found):
    return {one.cell.split("/")[2] if "/" in one.cell else "all": one for one in found}


def test_the_cell_that_fell_is_named_with_the_night(nights):
    found = by_scheduler(series.follow(nights))
    [change] = found["bfq"].changes
    assert (change.until, change.since) == (nights[FELL_AT - 1].id, nights[FELL_AT].id)
    assert change.low < change.ratio < change.high < 0
    assert change.p < 0.05
    assert not found["bfq"].remembers
    assert found["all"].cell == COMMON
    assert not found["all"].changes
    assert not found["none"].changes
    assert not found["mq-deadline"].changes


def test_the_change_is_as_large_as_it_was_made(nights):
    """A tenth fewer operations a second; a tenth of the joules for each of them is not idle."""
    [change] = by_scheduler(series.follow(nights, FIGURES["speed"]))["bfq"].changes
    assert change.low < -0.1 < change.high
    assert change.ratio == pytest.approx(-0.1, abs=0.01)


def test_less_speed_is_less_power(nights):
    [change] = by_scheduler(series.follow(nights, FIGURES["watts"]))["bfq"].changes
    assert change.ratio < 0


def test_a_value_is_the_geometric_mean_of_its_runs(nights):
    first = by_scheduler(series.follow(nights))["none"].values[0]
    runs = [run for run in nights[0].runs if run.scheduler == "none"]
    product = 1.0
    for run in runs:
        product *= run.performance.ops / run.result.ai_joules
    assert first.value == pytest.approx(product ** (1 / len(runs)))
    assert (first.campaign, first.runs) == (nights[0].id, 3)


def test_the_order_is_the_given_one(nights):
    found = by_scheduler(series.follow(nights[::-1]))["bfq"]
    [change] = found.changes
    assert change.since == nights[FELL_AT - 1].id
    assert change.ratio > 0


def test_three_campaigns_are_too_few(nights):
    found = series.follow(nights[:3])
    assert {one.why for one in found} == {"3 campaigns: at least 4 are needed"}
    assert series.summary(found) == "0 cells changed, 0 did not, 3 not testable"


def test_a_cell_that_a_night_lacks_is_followed_without_it(nights, tmp_path):
    other = results.load(night(tmp_path, 90, schedulers=("none", "mq-deadline")))
    found = by_scheduler(series.follow([*nights[:4], other, *nights[4:]]))
    assert len(found["none"].values) == COUNT + 1
    assert len(found["bfq"].values) == COUNT
    assert found["bfq"].changes[0].since == nights[FELL_AT].id


def test_runs_that_failed_are_left_out(nights, tmp_path):
    def outcome(levels):
        return simulated_campaign.Outcome("failed" if levels["replicate"] == 1 else "ok")

    other = results.load(night(tmp_path, 91, outcome=outcome))
    found = by_scheduler(series.follow([*nights, other]))
    assert found["none"].values[-1].runs == 2


def test_a_campaign_without_joules_has_speed_alone(nights, tmp_path):
    bare = results.load(night(tmp_path, 92, outcome=lambda _: simulated_campaign.Outcome(joules=False)))
    assert len(by_scheduler(series.follow([*nights, bare]))["none"].values) == COUNT
    assert len(by_scheduler(series.follow([*nights, bare], FIGURES["speed"]))["none"].values) == COUNT + 1


def test_what_the_meters_do_not_share_is_taken_off(nights):
    """All is explained by a meter that may be 12 % off, each campaign's in its own way."""
    with mock.patch.object(series.MeterErrors, "of_cell", return_value=Systematic(own=0.06)):
        assert not any(one.changes for one in series.follow(nights))
        assert by_scheduler(series.follow(nights, FIGURES["speed"]))["bfq"].changes
    with mock.patch.object(series.MeterErrors, "of_cell", return_value=Systematic(own=0.01)):
        [change] = by_scheduler(series.follow(nights))["bfq"].changes
    [without] = by_scheduler(series.follow(nights))["bfq"].changes
    assert change.meter > without.meter
    assert change.low < without.low


def test_what_nothing_bounds_is_not_tested(nights):
    with mock.patch.object(series.MeterErrors, "of_cell", return_value=Systematic(own=1.0)):
        found = series.follow(nights)
    assert {one.why for one in found} == {"what the meters did not measure may be as much as what they did"}


def test_what_all_cells_do_together_is_a_separate_series(tmp_path):
    """Make all a tenth slower from the fifth night on: no cell changed apart."""
    nights = []
    for number in range(COUNT):
        with pytest.MonkeyPatch.context() as patch:
            for name, speed in simulated_campaign.SCHEDULER_SPEED.items():
                patch.setitem(simulated_campaign.SCHEDULER_SPEED, name, (0.9 if number >= 4 else 1) * speed)
            nights.append(results.load(night(tmp_path, number)))
    found = by_scheduler(series.follow(nights, FIGURES["speed"]))
    [change] = found.pop("all").changes
    assert change.since == nights[4].id
    assert change.ratio == pytest.approx(-0.1, abs=0.01)
    assert not any(one.changes or one.drift for one in found.values())


def test_wear_is_a_drift_and_no_change(tmp_path):
    worn = [results.load(night(tmp_path, number, bfq=1 - 0.02 * number)) for number in range(COUNT)]
    found = by_scheduler(series.follow(worn))
    assert found["bfq"].drift.high < 0
    assert not found["bfq"].changes
    assert found["none"].drift is None
    assert series.summary(series.follow(worn)).startswith("0 cells changed, 1 drifted, 2 did not")


def test_no_campaign_is_no_series():
    assert series.follow([]) == []
    assert series.summary([]) == "no cell has a value"


def test_the_summary_counts(nights):
    assert series.summary(series.follow(nights)) == (
        "1 cell changed, 2 did not, all cells together: no change"
    )
