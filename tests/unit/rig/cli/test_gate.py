# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig compare --gate`: what a build server sees."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from joulerig.analysis.bundle import writer
from joulerig.rig.cli.main import app
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from tests.support import simulated_campaign

GIVEN = {"drives": ("nvme-plp",), "filesystems": ("f2fs",), "replicates": 4, "noise": 0.002}


@pytest.fixture
def campaigns(state):
    """A baseline, the same again, and one in which bfq lost a tenth."""
    simulated_campaign.build(paths.results() / "baseline", **GIVEN)
    simulated_campaign.build(paths.results() / "again", **GIVEN, seed=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            simulated_campaign.SCHEDULER_SPEED, "bfq", 0.9 * simulated_campaign.SCHEDULER_SPEED["bfq"]
        )
        simulated_campaign.build(paths.results() / "slower", **GIVEN, seed=3)
    return paths.results()


FAILED = "gate: FAILED: 2 cells held, 1 fell, all cells together: undecided"


def gate(*words):
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def test_what_held_passes(campaigns):
    done = gate("baseline", "again", "--gate")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "gate: passed: 3 cells held, all cells together: undecided"


def test_what_fell_fails_and_is_named(campaigns):
    done = gate("baseline", "slower", "--gate")
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert lines[-1] == FAILED
    assert lines[-3].startswith("FAILED  nvme-plp/f2fs/bfq/randwrite-fsync: fell: AI -")
    assert lines[-2].startswith("open    all cells together: undecided: AI ")


def test_without_a_gate_a_fall_is_only_shown(campaigns):
    done = gate("baseline", "slower")
    assert done.exit_code == 0
    assert "gate" not in done.output


def test_how_much_is_allowed_can_be_said(campaigns):
    assert gate("baseline", "slower", "--gate", "--allow", 15).exit_code == 0


def test_one_run_a_cell_is_refused_in_one_line(campaigns):
    simulated_campaign.build(campaigns / "one", **{**GIVEN, "replicates": 1})
    done = gate("baseline", "one", "--gate")
    assert isinstance(done.exception, UserError), done.output
    assert str(done.exception) == (
        "demo-20261113-082640: has one run a cell, and no spread; a gate needs 2, and 5 to see much"
    )
    assert gate("baseline", "one").exit_code == 0


def test_what_is_undecided_fails_where_that_is_asked_for(campaigns):
    assert gate("baseline", "again", "--gate", "--decided").exit_code == 1
    assert gate("baseline", "again", "--gate", "--decided", "--between", 0.2).exit_code == 0


def test_a_history_shows_how_much_campaigns_differ(campaigns):
    earlier = []
    for seed, speed in enumerate((1.0, 0.98, 1.02), start=5):
        with pytest.MonkeyPatch.context() as patch:
            for name, each in simulated_campaign.SCHEDULER_SPEED.items():
                patch.setitem(simulated_campaign.SCHEDULER_SPEED, name, speed * each)
            name = f"n{seed}"
            simulated_campaign.build(campaigns / name, name=name, **GIVEN, seed=seed)
        earlier += ["--history", name]
    found = json.loads(gate("baseline", "again", "--json", *earlier).output)["common"]
    assert found["known"]
    assert 0.03 < found["high"] - found["low"] < 0.3
    assert not json.loads(gate("baseline", "again", "--json").output)["common"]["known"]


def test_a_bundle_can_be_the_baseline(campaigns, tmp_path):
    bundle = tmp_path / "baseline.zip"
    writer.write(campaigns / "baseline", bundle, {})
    assert gate(bundle, "slower", "--gate").output.splitlines()[-1] == FAILED


def test_junit_is_written(campaigns, tmp_path):
    file = tmp_path / "gate.xml"
    assert gate("baseline", "slower", "--gate", "--junit", file).exit_code == 1
    suite = ElementTree.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")


def test_json_has_the_verdicts(campaigns):
    done = gate("baseline", "slower", "--gate", "--json")
    assert done.exit_code == 1
    found = json.loads(done.output)["gate"]
    assert (found["passed"], found["allowed_fall"]) == (False, 0.05)
    assert [one["outcome"] for one in found["cells"]].count("fell") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--allow", "3"], "--allow: is of a gate; add --gate"),
        (["--junit", "x.xml"], "--junit: is of a gate; add --gate"),
        (["--decided"], "--decided: is of a gate; add --gate"),
        (["--history", "n0", "--between", "1"], "--between: is in place of --history; give one of them"),
        (
            ["--history", "slower"],
            "--history: with the baseline 3 cells of 3 in all of 1 campaign: at least 3 campaigns are needed,"
            " with one cell",
        ),
        (["--gate", "--allow", "100"], "--allow: 100: allowed: 0 to below 100, in %"),
        (
            ["--gate", "--junit", "/dev/null/x.xml"],
            "--junit: /dev/null/x.xml: File exists",
        ),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(campaigns, words, said):
    done = gate("baseline", "again", *words)
    assert isinstance(done.exception, UserError), done.output
    assert str(done.exception) == said


def test_a_bundle_that_is_not_there_is_named(campaigns):
    done = gate("gone.zip", "again", "--gate")
    assert str(done.exception).startswith("gone.zip: no such folder or file")
