# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig compare --series`: since which campaign a cell's level is another one."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from joulerig.analysis.bundle import writer
from joulerig.rig.cli.main import app
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from tests.support import simulated_campaign

GIVEN = {"drives": ("nvme-plp",), "filesystems": ("f2fs",), "replicates": 2, "noise": 0.003}
NIGHTS = [f"n{number}" for number in range(6)]


@pytest.fixture
def nights(state):
    """Six nights; bfq lost a fifth from the fourth on."""
    for number, name in enumerate(NIGHTS):
        with pytest.MonkeyPatch.context() as patch:
            speeds = simulated_campaign.SCHEDULER_SPEED
            patch.setitem(speeds, "bfq", (0.8 if number >= 3 else 1.0) * speeds["bfq"])
            simulated_campaign.build(paths.results() / name, name=name, **GIVEN, seed=number + 1)
    return paths.results()


def compare(*words):
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def test_the_change_is_a_line_of_the_table(nights):
    done = compare(*NIGHTS, "--series")
    assert done.exit_code == 0, done.output
    first, *_, last = done.output.splitlines()
    assert first == (
        "6 campaigns (VIRTUAL LAB), n0-20261113-082640 to n5-20261113-082640, work per joule:"
        " 1 cell changed, 2 did not, all cells together: no change"
    )
    assert "n3-20261113-082640" in done.output
    assert "nights are taken to be independent: from 12 campaigns on" in done.output
    assert last == "where nothing changes, at most one series in twenty shows a change"


def test_json_has_each_value_and_each_change(nights):
    found = json.loads(compare(*NIGHTS, "--series", "--figure", "speed", "--json").output)
    assert (found["figure"], found["unit"], found["false_alarms"]) == ("speed", "ops/s", 0.05)
    assert [one["id"].split("-")[0] for one in found["campaigns"]] == NIGHTS
    assert [len(one["values"]) for one in found["cells"]] == [6, 6, 6, 6]
    [change] = [change for one in found["cells"] for change in one["changes"]]
    assert change["ratio"] == pytest.approx(-0.2, abs=0.02)


def test_a_bundle_is_one_of_a_series(nights, tmp_path):
    bundle = tmp_path / "n0.zip"
    writer.write(nights / "n0", bundle, {})
    assert "1 cell changed" in compare(bundle, *NIGHTS[1:], "--series").output


def test_few_campaigns_say_so(nights):
    assert "at least 4 are needed" in compare(*NIGHTS[:2], "--series").output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["n2"], "n2: a third campaign: is of a series; add --series"),
        (["--figure", "watts"], "--figure: is of a series; add --series"),
        (["--series", "--figure", "x"], "--figure: x: allowed: work-per-joule, speed, watts"),
        (["--series", "--gate"], "--series: has no gate; allowed with it: --figure, --json"),
        (["n0", "--series"], "n0-20261113-082640: is given twice; a series has each campaign once"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(nights, words, said):
    done = compare("n0", "n1", *words)
    assert isinstance(done.exception, UserError), done.output
    assert str(done.exception) == said
