# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives of one host side by side: which campaigns can, what is planned, and how long it takes."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from joulerig.rig.campaign import definition as campaigns
from joulerig.rig.campaign.definition import Bounds
from joulerig.rig.campaign.forecast.earlier import Earlier
from joulerig.rig.campaign.forecast.expected import forecast
from joulerig.rig.campaign.lanes.control import seconds_in_lanes
from joulerig.rig.campaign.lanes.gate import Gate
from joulerig.rig.campaign.plan import make_plan, run_from_row
from joulerig.rig.cli.plan.page import lines, run_lines
from joulerig.rig.common.errors import UserError

OWN_FACTOR = """
from joulerig.rig.campaign.factors.factor import Factor, Setting

FACTOR = Factor(title="T", help="H.", allowed="numbers", settings=(Setting({path!r}),))
"""


@pytest.fixture
def asked(mapping) -> dict[str, Any]:
    return {**mapping, "drives": ["fast", "hdd-1"], "side_by_side": True, "replicates": 4}


def plan(asked: dict[str, Any], lab: Any) -> Any:
    return make_plan(asked, lab, "playbooks/study.yml")


def refusal(asked: dict[str, Any], lab: Any) -> str:
    with pytest.raises(UserError) as caught:
        campaigns.parse(asked, lab, "playbooks/study.yml")
    message = str(caught.value)
    assert "\n" not in message
    start = "playbooks/study.yml: campaign.side_by_side: "
    assert message.startswith(start)
    return message.removeprefix(start)


# --- the control


def test_each_block_has_one_run_of_each_drive_alone(asked, bench):
    made = plan(asked, bench)
    alone = Counter((run.block, run.drive) for run in made.runs if run.alone)
    assert alone == {(block, drive): 1 for block in (1, 2, 3, 4) for drive in ("fast", "hdd-1")}


def test_a_control_is_of_a_cell_that_its_block_has_as_well(asked, bench):
    made = plan(asked, bench)
    others = {(run.block, run.drive, *run.levels.values()) for run in made.runs if not run.alone}
    assert all((run.block, run.drive, *run.levels.values()) in others for run in made.runs if run.alone)
    assert len(others) == len(made.runs) - 8


def test_cells_that_are_excluded_are_no_control(asked, bench):
    asked["exclude"] = [{"filesystem": ["ext4", "xfs"], "reason": "known to hang"}]
    assert {run.levels["filesystem"] for run in plan(asked, bench).runs if run.alone} == {"f2fs"}


def test_a_control_comes_before_its_other_run_about_as_often_as_after_it(asked, bench):
    made = plan({**asked, "replicates": 100}, bench)
    before = 0
    for at, run in enumerate(made.runs):
        if run.alone:
            other = next(
                position
                for position, one in enumerate(made.runs)
                if (one.block, one.drive, one.levels) == (run.block, run.drive, run.levels) and not one.alone
            )
            before += at < other
    assert 70 < before < 130  # of 200; 4 standard deviations


def test_the_cells_of_the_controls_vary(asked, bench):
    made = plan({**asked, "replicates": 100}, bench)
    cells = Counter(tuple(run.levels.values()) for run in made.runs if run.alone)
    assert len(cells) == 12
    assert max(cells.values()) < 40  # of 200


def test_the_order_of_the_other_runs_is_that_of_a_campaign_without_lanes_in_the_first_block(asked, bench):
    with_lanes = [run for run in plan(asked, bench).runs if run.block == 1 and not run.alone]
    without = [run for run in plan({**asked, "side_by_side": False}, bench).runs if run.block == 1]
    assert with_lanes == without


def test_a_host_with_one_of_the_drives_has_no_control(asked, lab_files):
    lab_files.hosts["bench2"] = {
        "controller_address": "192.0.2.1",
        "drives": {"fast": {"interface": "nvme", "serial": "SERIAL-E", "size_bytes": 10**12}},
    }
    lab_files.inventory_text += "bench2\n"
    made = plan(asked, lab_files.load())
    assert {run.host for run in made.runs} == {"bench1", "bench2"}
    assert {run.host for run in made.runs if run.alone} == {"bench1"}


def test_the_journal_knows_a_control_by_a_level_and_gives_it_back(asked, bench):
    made = plan(asked, bench)
    rows = [{**row, "factors": json.loads(row["factors"])} for row in made.rows("study-1")]
    assert [run_from_row(row) for row in rows] == list(made.runs)
    controls = [row for row in rows if row["factors"].get("control") == "alone"]
    assert len(controls) == 8
    assert all(row["cell"].endswith("/control=alone") for row in controls)
    assert all("control" not in row["cell"] for row in rows if row not in controls)


# --- which campaigns


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"order": "as-written"}, "order: 'as-written': the control for cross-talk needs random places; allowed: order: random"),
        ({"order": "racing", "replicates": 8}, "order: 'racing': the control"),
        ({"drives": ["fast", "bare"]}, "drive 'bare' of bench1 has no rail, so that cross-talk in what it draws is not measured; allowed: drives with rails: fast, hdd-1, hdd-2"),
        ({"drives": ["hdd-1", "pair"]}, "runs of 'hdd-1' and 'pair' of bench1 both use hdd-1; allowed: drives and arrays that have no drive in common"),
        ({"drives": ["fast"]}, "no host has several drives of this campaign; allowed: with two drives of one host"),
        ({"count_seeks": True}, "count_seeks: the kernel traces for one run of a host at a time; allowed: one of the two"),
        ({"time_free_nids": True}, "time_free_nids: the kernel traces"),
        ({"waveforms": {}}, "waveforms: tap1 measures 'fast' and 'hdd-1' of bench1, and records for one run at a time; allowed: a meter for each drive"),
        ({"factors": {"kernel": ["hz100"]}}, "factors.kernel: a host runs one kernel at a time; allowed: without this factor"),
        ({"drives": ["hdd-1", "hdd-2"], "factors": {"journal": ["fast"], "filesystem": ["ext4"]}}, "runs of 'hdd-1' and 'hdd-2' of bench1 both use fast"),
    ],
)  # fmt: skip
def test_what_a_host_has_once_is_refused_in_one_line(asked, bench, changes, expected):
    for key, value in changes.items():
        asked[key] = {**asked[key], **value} if key == "factors" else value
    assert refusal(asked, bench).startswith(expected)


def test_lanes_of_equivalent_hosts_are_refused(asked, lab_files):
    lab_files.drives["bare"]["model"] = "DISK 1"
    lab_files.hosts["bench2"] = json.loads(json.dumps(lab_files.host))
    for number, drive in enumerate(lab_files.hosts["bench2"]["drives"].values()):
        drive["serial"], drive["rails"] = f"OTHER-{number}", {}
    lab_files.hosts["bench2"].pop("arrays")
    lab_files.inventory_text += "bench2\n"
    asked |= {"equivalent_hosts": True, "drives": ["fast", "hdd-1", "bare"]}
    assert refusal(asked, lab_files.load()).startswith("equivalent_hosts: moves runs between hosts")


@pytest.mark.parametrize(
    ("path", "refused"),
    [("/proc/sys/vm/dirty_ratio", True), ("/sys/block/{device}/queue/rq_affinity", False)],
)
def test_a_factor_that_sets_a_file_of_the_whole_host_is_refused(asked, lab_files, path, refused):
    folder = lab_files.folder / "factors"
    folder.mkdir()
    (folder / "tuning.py").write_text(OWN_FACTOR.format(path=path))
    asked["factors"]["tuning"] = ["1", "2"]
    if refused:
        assert refusal(asked, lab_files.load()).startswith(f"factors.tuning: sets {path} of the whole host")
    else:
        assert plan(asked, lab_files.load()).runs


def test_arrays_that_share_no_drive_can_be_side_by_side(asked, bench):
    assert plan({**asked, "drives": ["fast", "pair"]}, bench).cost().controls == 8


# --- how long it takes


def test_drives_take_as_long_as_the_slowest_of_them():
    assert seconds_in_lanes([("a", 10.0, False), ("b", 25.0, False), ("a", 10.0, False)]) == 25.0


def test_a_run_that_is_alone_waits_for_the_others_and_they_for_it():
    runs = [("a", 10.0, False), ("b", 25.0, False), ("a", 5.0, True), ("b", 25.0, False)]
    assert seconds_in_lanes(runs) == 25 + 5 + 25


def test_no_runs_take_no_time():
    assert seconds_in_lanes([]) == 0.0


def test_the_cost_has_the_controls_and_what_they_and_the_lanes_come_to(asked, bench):
    side, turn = plan(asked, bench).cost(), plan({**asked, "side_by_side": False}, bench).cost()
    assert (side.controls, turn.controls) == (8, 0)
    assert side.runs == turn.runs + 8
    assert side.hours_in_turn == pytest.approx(turn.hours)
    assert turn.hours_in_turn == turn.hours
    assert turn.hours / 2 < side.hours < turn.hours


def test_a_precondition_takes_its_time_in_the_lane_of_its_drive(asked, lab_files):
    lab_files.drives["hdd-1"]["interface"] = "sata-ssd"
    asked["precondition"] = {"passes": 1, "reuse_within": 1000}
    lab = lab_files.load()
    side, turn = (plan({**asked, "side_by_side": lanes}, lab).cost() for lanes in (True, False))
    assert (side.preconditions, turn.preconditions) == (2, 2)
    assert side.hours_in_turn == pytest.approx(turn.hours)
    assert side.hours < turn.hours


def test_the_page_says_how_many_controls_there_are_and_what_is_saved(asked, bench):
    made = plan(asked, bench)
    page = list(lines(made, forecast(made, Earlier()), 200))
    at = next(number for number, line in enumerate(page) if line.startswith("side by side"))
    assert page[at].endswith("8 control runs of them, each with its host alone")
    assert re.fullmatch(r" +saves .+ of the .+ that they take one after the other", page[at + 1])
    assert next(line for line in page if line.startswith("cells")).split()[1] == "24"
    assert next(line for line in page if line.startswith("runs")).split()[1].startswith("104")


def test_the_list_of_runs_says_which_are_controls(asked, bench):
    assert sum(line.endswith("alone, as a control") for line in run_lines(plan(asked, bench))) == 8


def test_a_plan_without_lanes_costs_what_it_did(mapping, bench):
    made = plan(mapping, bench)
    assert made.cost_as(Bounds()).seconds == made.cost().seconds_in_turn


# --- who may be in a run


def test_several_lanes_are_in_at_once_and_one_that_is_alone_is_not():
    gate = Gate()
    assert gate.enter("a", alone=False)
    assert gate.enter("b", alone=False)
    assert not gate.enter("c", alone=True)
    gate.leave("a")
    assert not gate.enter("c", alone=True)
    gate.leave("b")
    assert gate.enter("c", alone=True)
    assert not gate.enter("a", alone=False)
    assert gate.is_alone("c")
    assert not gate.is_alone("a")


def test_one_that_waits_to_be_alone_is_let_in_before_the_others_again():
    gate = Gate()
    gate.enter("a", alone=False)
    gate.enter("b", alone=True)
    gate.leave("a")
    assert not gate.enter("a", alone=False)
    assert gate.enter("b", alone=True)


def test_those_that_wait_to_be_alone_are_let_in_in_the_order_in_which_they_asked():
    gate = Gate()
    gate.enter("a", alone=False)
    assert not gate.enter("b", alone=True)
    assert not gate.enter("c", alone=True)
    gate.leave("a")
    assert not gate.enter("c", alone=True)
    assert gate.enter("b", alone=True)
    gate.leave("b")
    assert gate.enter("c", alone=True)


def test_a_lane_that_no_longer_waits_holds_nothing_up():
    gate = Gate()
    gate.enter("a", alone=False)
    gate.enter("b", alone=True)
    gate.leave("b")
    assert gate.enter("c", alone=False)


def test_a_host_is_revived_for_all_of_its_lanes_once():
    gate = Gate()
    assert gate.may_revive(100.0, 60.0)
    assert not gate.may_revive(159.0, 60.0)
    assert gate.may_revive(160.0, 60.0)
