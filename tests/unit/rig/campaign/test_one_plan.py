# SPDX-License-Identifier: GPL-3.0-or-later
"""One plan, several interpreters: described, journaled and requested alike."""

import json

import pytest

from joulerig.rig.campaign.execution.request import make_request
from joulerig.rig.campaign.plan import make_plan, run_from_row
from joulerig.rig.common.errors import UserError


@pytest.fixture
def plan(state, bench, mapping):
    mapping["exclude"] = [{"scheduler": "bfq", "filesystem": "xfs", "reason": "known to hang"}]
    mapping["factors"]["fill"] = [0, 0.5]
    return make_plan(mapping, bench, "playbooks/study.yml")


def journaled(plan):
    """The runs as a journal gives them back."""
    rows = [{**row, "factors": json.loads(row["factors"])} for row in plan.rows("study-1")]
    return rows, [run_from_row(row) for row in rows]


def test_a_plan_touches_nothing(plan, state):
    plan.cost()
    list(plan.rows("study-1"))
    assert not (state / "results").exists()
    assert not (state / "var").exists()


def test_a_journals_runs_are_the_plans(plan):
    rows, runs = journaled(plan)
    assert [(run.block, run.host, run.drive, run.levels) for run in runs] == [
        (run.block, run.host, run.drive, run.levels) for run in plan.runs
    ]
    assert [row["cell"] for row in rows] == [run.cell for run in plan.runs]
    assert [row["ordinal"] for row in rows] == list(range(1, len(plan.runs) + 1))


def test_a_journaled_run_is_requested_as_planned(plan):
    for planned, read_back in zip(plan.runs, journaled(plan)[1], strict=True):
        first, second = (
            make_request(plan.campaign, plan.lab, run, run_id="r", campaign_id="c")
            for run in (planned, read_back)
        )
        assert first == second
        assert first.fill == float(planned.levels["fill"])


def test_excluded_runs_are_in_the_plan_and_cost_nothing(plan):
    excluded = [row for row in plan.rows("study-1") if row["status"] == "excluded"]
    cost = plan.cost()
    assert (cost.runs, cost.excluded) == (len(plan.runs) - len(excluded), len(excluded))
    assert {row["reason"] for row in excluded} == {"known to hang"}


def test_a_plan_names_its_further_factors_and_the_size_of_a_block(plan):
    assert (plan.further_factors, plan.block_size) == (["fill"], 24)


def test_what_is_wrong_is_one_line(bench, mapping):
    mapping["replicates"] = 0
    with pytest.raises(UserError, match=r"^playbooks/study.yml: campaign.replicates: 0; "):
        make_plan(mapping, bench, "playbooks/study.yml")
