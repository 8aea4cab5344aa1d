# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig meters agree`: its table, its JSON, its exit code."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from joulerig.analysis import results
from joulerig.analysis.agreement.methods import COLUMNS
from joulerig.rig.cli.main import app
from joulerig.rig.common import paths
from tests.support import simulated_campaign

ACCURACY = {"volts": {"gain_percent": 0.3}, "amps": {"gain_percent": 0.3}}


@pytest.fixture
def campaign(state):
    given = {"drives": ("nvme-plp",), "filesystems": ("f2fs",), "replicates": 3, "accuracy": ACCURACY}
    return results.load(simulated_campaign.build(paths.results() / "c", **given))


def agree(*words):
    return CliRunner().invoke(app, ["meters", "agree", *map(str, words)])


def readings(campaign, path, times, method="pdu"):
    lines = [
        f"{method},{row.drive},{run.id},{row.phase},{times * row.joules},0.01"
        for run in campaign.runs
        for row in run.energy
        if row.phase == "workload"
    ]
    path.write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    return path


def test_each_two_methods_have_a_line(campaign):
    done = agree("c")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1].startswith("nvme-plp: tap1a and twin: agree: ")


def test_what_differs_ends_with_1(campaign, tmp_path):
    done = agree("c", "--readings", readings(campaign, tmp_path / "pdu.csv", 1.5))
    assert done.exit_code == 1
    assert "nvme-plp: tap1a and pdu: differ: " in done.output


def test_json_has_the_numbers_and_pictures_are_written(campaign, tmp_path):
    done = agree("c", "--json", "--pictures", tmp_path / "p")
    [one] = json.loads(done.output)
    assert (one["one"], one["other"], one["found"]["verdict"]) == ("tap1a", "twin", "agree")
    assert len(one["found"]["differences"]) == one["found"]["pairs"] == 3 * 3 * 3
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["01-nvme-plp.svg"]


def test_a_method_of_the_campaign_is_not_replaced(campaign, tmp_path):
    done = agree("c", "--readings", readings(campaign, tmp_path / "twin.csv", 1.0, "twin"))
    assert "method 'twin': is there already" in str(done.exception)


def test_one_method_alone_is_refused(state):
    simulated_campaign.build(paths.results() / "c", drives=("nvme-plp",), virtual=False)
    assert "no drive was read by two methods (tap1a)" in str(agree("c").exception)
