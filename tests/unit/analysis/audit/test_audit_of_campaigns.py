# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's drives are audited from its runs' files: command, table, report and verify."""

import json

import pytest
from typer.testing import CliRunner

from joulerig.analysis import results
from joulerig.analysis.audit import campaign as audits_of
from joulerig.analysis.audit import table
from joulerig.analysis.audit.checks import Verdict
from joulerig.analysis.audit.findings import Finding
from joulerig.analysis.bundle import tables
from joulerig.analysis.report import document
from joulerig.analysis.tables import runs_and_cells
from joulerig.rig.cli.drives import command as drives
from joulerig.rig.cli.main import app
from joulerig.rig.common.errors import UserError
from tests.support import reported_power, verifiable_campaign


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Return build(**reports): a results folder whose drive reports its power so."""
    monkeypatch.setenv("JOULERIG_RESULTS", str(tmp_path))

    def built(name="power-1", **given):
        folder = verifiable_campaign.build(tmp_path / name, replicates=6)
        return reported_power.add(folder, **given)

    return built


def audit_of(folder):
    (found,) = audits_of.audits(results.load(folder))
    return found


def test_a_drive_that_agrees_with_its_rails_holds(build):
    found = audit_of(build())
    assert (found.verdict, found.finding, found.problems) == (Verdict.HOLDS, Finding.NONE, ())
    assert {one.condition for one in found.powers} == {"idle", "randwrite-fsync"}
    assert all(one.interval.low < 1 < one.interval.high for one in found.powers)


def test_a_drive_that_errs_more_than_it_states_is_contradicted(build):
    found = audit_of(build(factor=1.2))
    assert (found.verdict, found.finding) == (Verdict.CONTRADICTED, Finding.SCALE)


def test_a_campaign_of_before_drives_were_asked_has_no_audit(tmp_path):
    assert audits_of.audits(results.load(verifiable_campaign.build(tmp_path / "old"))) == []


@pytest.mark.parametrize("broken", [[{"drive": "nvme-plp"}], [{"drive": "nvme-plp", "phase": 3, "after": 1}]])
def test_reports_that_no_host_writes_are_a_problem_of_the_drive(build, broken):
    folder = build()
    path = results.load(folder).runs[0].folder / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "power_reports": broken}))
    assert "cannot be read" in audit_of(folder).problems[0]


def test_the_report_has_a_chapter(build):
    folder = build(factor=1.2)
    html = document.html(results.load(folder))
    assert "What the drives report of their own power" in html
    assert "its report is off by one factor (" in html


def test_verify_recomputes_the_table_of_an_audit(build):
    folder = build(factor=1.2)
    campaign = results.load(folder)
    again = {"audit": table.table(campaign, audits_of.audits(campaign))}
    path = runs_and_cells.write_table(folder / "report", "audit", again["audit"])
    assert not tables.check(folder, again).offenders
    path.write_text(path.read_text().replace("contradicted", "holds"))
    assert any(": verdict: " in one for one in tables.check(folder, again).offenders)


def test_the_command_ends_with_1_where_a_drive_is_wrong(build):
    build(factor=1.2)
    done = CliRunner().invoke(app, ["drives", "audit", "power-1", "--json"])
    assert done.exit_code == 1, done.output
    (drive,) = json.loads(done.output)["drives"]
    assert (drive["verdict"], drive["finding"]) == ("contradicted", "scale")
    assert drive["comparisons"][0]["ratio"] == pytest.approx(1.2, abs=0.01)


def test_a_drive_is_judged_by_the_newest_campaign_that_asked_it(build):
    build()
    done = CliRunner().invoke(drives.app, ["audit", "nvme-plp"])
    assert "power-1" not in done.output
    assert "nvme-plp (virtual lab): holds" in done.output or "nvme-plp: holds" in done.output
    done = CliRunner().invoke(app, ["drives", "audit", "no-drive"])
    assert isinstance(done.exception, UserError)
    assert "rig run audit" in str(done.exception)
