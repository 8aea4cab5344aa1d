# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's drives are judged from its runs' files: command, table, report and verify."""

import json
import re

import pytest
from typer.testing import CliRunner

from joulerig.analysis import results
from joulerig.analysis.bundle import tables
from joulerig.analysis.power_states import campaign as states_of
from joulerig.analysis.power_states import declared, table
from joulerig.analysis.power_states.checks import Quantity, Verdict
from joulerig.analysis.report import document
from joulerig.analysis.tables import runs_and_cells
from joulerig.rig.cli.main import app
from joulerig.rig.common.errors import UserError
from tests.support import resting_drive, verifiable_campaign
from tests.support.resting_drive import Drive

LAZY = Drive(chain=((0.162, 0.040), (0.5005, 0.1)))


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Return build(drive): a results folder in which it may rest."""
    monkeypatch.setenv("JOULERIG_RESULTS", str(tmp_path))
    return lambda drive=None: resting_drive.campaign(tmp_path / "obey-1", drive)


def judged(folder):
    (found,) = states_of.states(results.load(folder))
    return found


def test_the_settings_of_a_run_say_what_its_drive_declares(build):
    runs = results.load(build()).runs
    awake, resting = (next(r for r in runs if r.factors["apst"] == level) for level in ("off", "any"))
    found = declared.of_run(resting, "nvme-plp")
    assert found.working.number == 0
    assert (found.rest.first.number, found.rest.deepest.number) == (1, 2)
    assert found.rest.idle_seconds == pytest.approx(0.160)
    assert declared.of_run(awake, "nvme-plp").rest is None


def test_a_drive_that_obeys_does_so_by_its_waveforms(build):
    found = judged(build())
    assert (found.verdict, found.findings, found.problems) == (Verdict.OBEYS, [], [])
    (setting,) = found.settings
    assert (setting.name, setting.condition) == (
        "apst=any", "filesystem=ext4 scheduler=none workload=randwrite-fsync",
    )  # fmt: skip
    assert {one.quantity for one in setting.checks} == set(Quantity) - {Quantity.WORKING}


def test_a_drive_that_draws_more_than_its_state_says_so(build):
    found = judged(build(LAZY))
    assert found.verdict == Verdict.CONTRADICTED
    assert re.search(r"power at rest: 0\.(1|099\d*) W; it declares 0.005 W", found.findings[0])


def test_a_campaign_without_such_a_factor_is_not_looked_at(tmp_path):
    folder = verifiable_campaign.build(tmp_path / "old")
    assert states_of.states(results.load(folder)) == []


def test_without_waveforms_the_points_of_power_are_taken(build):
    folder = build()
    for path in folder.rglob("waveform-*.parquet"):
        path.unlink()
    found = judged(folder)
    assert not found.problems
    assert not found.settings[0].rests  # these points have none


def test_a_damaged_waveform_is_a_problem_of_the_drive(build):
    folder = build()
    resting = next(run for run in results.load(folder).runs if run.factors["apst"] == "any")
    next(resting.folder.glob("waveform-*.parquet")).write_bytes(b"damaged")
    assert "cannot be read" in judged(folder).problems[0]


def test_the_report_has_a_chapter_with_a_picture(build):
    html = document.html(results.load(build(LAZY)))
    assert "Whether the drives obey" in html
    assert "Power of a drive from when it is called" in html
    assert "<b>contradicted</b>" in html


def test_verify_recomputes_the_table(build):
    folder = build(LAZY)
    campaign = results.load(folder)
    again = {"power_states": table.table(campaign, states_of.states(campaign))}
    path = runs_and_cells.write_table(folder / "report", "power_states", again["power_states"])
    assert not tables.check(folder, again).offenders
    path.write_text(path.read_text().replace("contradicted", "obeys"))
    assert any(": verdict: " in one for one in tables.check(folder, again).offenders)


def test_the_command_ends_with_1_where_a_drive_does_otherwise(build):
    build(LAZY)
    done = CliRunner().invoke(app, ["drives", "obey", "obey-1", "--json"])
    assert done.exit_code == 1, done.output
    (drive,) = json.loads(done.output)["drives"]
    assert (drive["verdict"], len(drive["findings"])) == ("contradicted", 1)
    assert {row["quantity"]: row["declared"] for row in drive["checks"]}["leaving a rest takes"] == 0.0095


def test_people_see_a_table_a_setting(build):
    build()
    done = CliRunner().invoke(app, ["drives", "obey", "nvme-plp"])
    assert done.exit_code == 0, done.output
    assert "break-even rest" in done.output
    assert re.search(r"4\.[89]\d* mW", done.output)


def test_a_drive_that_no_campaign_has_is_an_error(build):
    build()
    done = CliRunner().invoke(app, ["drives", "obey", "no-drive"])
    assert isinstance(done.exception, UserError)
    assert "rig run obey" in str(done.exception)
