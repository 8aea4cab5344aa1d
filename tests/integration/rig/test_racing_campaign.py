# SPDX-License-Identifier: GPL-3.0-or-later
"""A racing campaign: what is executed, what is left out and why, also when it is interrupted."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from typing import Any

import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import races
from joulerig.analysis.compare.cells import compare_cells
from joulerig.analysis.statistics.racing import Design, Outcome
from joulerig.rig.campaign import opening
from joulerig.rig.campaign.execution import race
from joulerig.rig.campaign.execution.executor import Executor
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common import process
from joulerig.rig.common.errors import UserError
from tests.support.fake_channel import BEGIN, FAILED, WELL, Channel, S, phase

SCHEDULERS = {"none": 1.0, "mq-deadline": 0.97, "kyber": 0.8, "bfq": 0.5}
CELL = "bare/ext4/{}/randread"


class Racers(Channel):
    """A host on which a scheduler does its share of the best one's work, within 1 %.

    `ends`: so many runs are executed before the controller's process ends. `failing`: a scheduler
    with which every run fails.
    """

    def __init__(self, shares: Mapping[str, float] = SCHEDULERS, *, ends: int = 0, failing: str = "") -> None:
        super().__init__()
        self._shares, self._left, self._failing = shares, ends or 10**6, failing

    def _run(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        super()._run(arguments)
        if not arguments["begin"]:
            return {"status": "absent", "reason": "this host does not know it"}
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        scheduler = arguments["scheduler"]
        if scheduler == self._failing:
            return FAILED
        noise = random.Random(arguments["run"][-4:]).gauss(0, 0.01)
        seconds = 4 / (self._shares[scheduler] * (1 + noise))
        load = {"phase": "workload", "start_ns": BEGIN + 2 * S, "end_ns": BEGIN + 2 * S + round(seconds * S)}
        return {**WELL, "phases": [phase("prepare", 1, 2), load]}


@pytest.fixture
def campaign(state, bench, mapping, services_up, open_campaign, monkeypatch):
    """campaign(KEY=VALUE) opens a race of four schedulers; its id is always the same."""
    monkeypatch.setattr(time, "time_ns", lambda: BEGIN)
    monkeypatch.setattr(process, "boot_ns", lambda: 0)  # a clock that stands still is not one that was set

    def opened(**changes: Any) -> OpenCampaign:
        factors = {"filesystem": ["ext4"], "scheduler": [*SCHEDULERS], "workload": ["randread"]}
        asked = {
            **mapping, "drives": ["bare"], "factors": factors, "replicates": 8, "order": "racing", **changes,
        }  # fmt: skip
        return open_campaign(asked, bench)

    return opened


def execute(campaign: OpenCampaign, channel: Channel) -> int:
    return Executor(campaign, "bench1", channel, {}, clock=channel.clock, sleep=channel.sleep).execute()


def ends(campaign: OpenCampaign) -> dict[str, list[str]]:
    """By scheduler: what became of its runs, in their order."""
    found: dict[str, list[str]] = {}
    for run in campaign.journal.runs():
        found.setdefault(run["scheduler"], []).append(
            run["status"] if run["status"] != "not-run" else run["reason"].split(",")[0]
        )
    return found


def looks(campaign: OpenCampaign) -> list[dict[str, Any]]:
    rows = campaign.journal._db.execute("SELECT detail FROM event WHERE event = 'look' ORDER BY seq")
    return [json.loads(row["detail"]) for row in rows]


def test_the_design_is_in_the_journal_before_the_first_run(campaign):
    opened = campaign(margin_percent=10)
    design = Design.from_json(opened.journal.campaign["provenance"]["race"])
    assert (design.blocks, design.looks, design.margin) == (8, (2, 3, 4, 5, 6, 7, 8), 0.1)
    assert design.alpha == pytest.approx(0.05)


def test_the_races_of_a_campaign_share_its_alpha(campaign):
    factors = {"filesystem": ["ext4"], "scheduler": [*SCHEDULERS], "workload": ["randread", "seqwrite"]}
    opened = campaign(factors=factors)
    alpha = Design.from_json(opened.journal.campaign["provenance"]["race"]).alpha
    assert 1 - (1 - alpha) ** 2 == pytest.approx(0.05)


def test_cells_that_are_behind_are_executed_no_more_and_it_says_why(campaign):
    opened, channel = campaign(), Racers()
    executed = execute(opened, channel)
    found = ends(opened)
    assert found["bfq"][:2] == ["ok", "ok"]
    assert set(found["bfq"][2:]) == {"raced out at look 2"}
    assert executed == sum(status == "ok" for one in found.values() for status in one) < 20
    reasons = {run["reason"] for run in opened.journal.runs() if run["scheduler"] == "bfq"}
    [reason] = [one for one in reasons if one.startswith("raced out")]
    assert reason.startswith("raced out at look 2, 5")
    assert f"% behind {CELL.format('none')} [4" in reason
    assert any("raced out at look 2" in line for line in channel.said)


def test_it_ends_with_a_winner(campaign):
    opened = campaign()
    execute(opened, Racers())
    [race] = races.races(results.load(opened.journal.folder)).values()
    assert (race.outcome, race.winner) == (Outcome.WINNER, CELL.format("none"))
    assert ends(opened)["none"][-1].startswith("the race is over")
    assert looks(opened)[-1]["verdict"] == race.verdict


def test_it_ends_with_equals_where_a_margin_allows_it(campaign):
    opened = campaign(margin_percent=15)
    execute(opened, Racers({**SCHEDULERS, "none": 0.975}))
    [race] = races.races(results.load(opened.journal.folder)).values()
    assert race.outcome is Outcome.EQUAL
    assert set(race.kept) == {CELL.format("none"), CELL.format("mq-deadline")}


def test_each_look_is_noted_once(campaign):
    opened = campaign()
    execute(opened, Racers())
    numbers = [one["look"] for one in looks(opened)]
    assert numbers == list(range(2, 2 + len(numbers)))
    assert [one["alpha_spent"] for one in looks(opened)] == sorted(
        one["alpha_spent"] for one in looks(opened)
    )


@pytest.mark.long
@pytest.mark.parametrize("first", [1, 7, 8, 9])
def test_a_race_that_is_cut_off_twice_has_the_same_drops(campaign, first, bench):
    whole = campaign()
    execute(whole, Racers())
    expected = (ends(whole), looks(whole))
    whole.journal.folder.rename(whole.journal.folder.with_name("whole"))
    opened = campaign()
    for cut in (first, 2):
        with pytest.raises(KeyboardInterrupt):
            execute(opened, Racers(ends=cut))
        opened = OpenCampaign.load(opening.resume_campaign(opened.journal.campaign["id"], bench), bench)
    execute(opened, Racers())
    assert (ends(opened), looks(opened)) == expected


def test_a_host_decides_its_own_races_alone(campaign):
    """Of another host's run that failed, it does not know whether it is attempted again."""
    opened = campaign()
    with pytest.raises(KeyboardInterrupt):
        execute(opened, Racers(ends=8))  # two blocks
    opened.journal._db.execute("DELETE FROM event WHERE event = 'look'")
    race.decide(opened.journal, "bench2", print)
    assert looks(opened) == []
    race.decide(opened.journal, "bench1", print)
    assert [one["look"] for one in looks(opened)] == [2]


def test_a_cell_that_always_fails_has_no_say_and_the_race_goes_on(campaign):
    opened = campaign(stop={"failures_in_a_row": 99})
    execute(opened, Racers(failing="kyber"))
    found = ends(opened)
    assert "failed" in found["kyber"]
    assert set(found["bfq"][2:]) == {"raced out at look 2"}


def test_the_report_ranks_by_the_bounds_of_the_race(campaign):
    opened = campaign()
    execute(opened, Racers())
    [compared] = compare_cells(results.load(opened.journal.folder))
    assert compared.ranking.method == "race, t of shrunk variances"
    assert compared.ranking.winner == CELL.format("none")
    assert compared.ranking.order[0] == CELL.format("none")
    assert compared.ranking.order[-1] == CELL.format("bfq")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"replicates": 1}, "replicates: 1: a race needs at least 2"),
        ({"order": "random", "margin_percent": 10}, "margin_percent: only a race has one"),
        ({"margin_percent": 100}, "margin_percent"),
    ],
)
def test_what_is_no_race_is_refused_when_it_is_read(campaign, changes, complaint):
    with pytest.raises(UserError, match=complaint):
        campaign(**changes)
