# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive that measures its own power is a method among others: command, table, report, verify."""

import pytest

from joulerig.analysis import results
from joulerig.analysis.agreement import methods, own_word, table
from joulerig.analysis.agreement.bland_altman import Verdict
from joulerig.analysis.bundle import tables
from joulerig.analysis.report import document
from joulerig.analysis.tables import runs_and_cells
from tests.support import reported_power, verifiable_campaign

ACCURACY = {"volts": {"gain_percent": 0.3}, "amps": {"gain_percent": 0.3}}


@pytest.fixture
def build(tmp_path):
    """Return build(**reports): a results folder whose drive reports its power so."""

    def built(**given):
        folder = verifiable_campaign.build(tmp_path / "agree-1", replicates=5, accuracy=ACCURACY)
        return reported_power.add(folder, **given)

    return built


def rails_and_own_word(folder):
    found = table.compared(results.load(folder))
    return next(one for one in found if (one.one, one.other) == ("tap1a", own_word.METHOD))


def test_an_honest_drive_agrees_with_its_rails(build):
    one = rails_and_own_word(build())
    assert one.found.pairs == 2 * 2 * 5  # phases, cells, replicates
    assert one.found.verdict is Verdict.AGREE, one.found.why


def test_a_drive_that_reports_a_fifth_too_much_differs(build):
    one = rails_and_own_word(build(factor=1.2, error_percent=3))
    assert one.found.verdict is Verdict.DIFFER
    assert one.found.differences[0] == pytest.approx(-2 * 0.2 / 2.2, abs=0.01)


def test_a_drive_that_states_no_error_is_not_judged(build):
    assert rails_and_own_word(build(error_percent=None)).found.verdict is Verdict.NOT_KNOWN


def test_without_reports_there_is_no_table(tmp_path):
    folder = verifiable_campaign.build(tmp_path / "old")
    assert table.compared(results.load(folder)) == []
    assert own_word.METHOD not in methods.of_campaign(results.load(folder))


def test_the_report_has_a_chapter_and_verify_recomputes_the_table(build):
    folder = build(factor=1.2)
    campaign = results.load(folder)
    assert "Whether meters and drives agree" in document.html(campaign)
    again = {"agreement": table.table(campaign, table.compared(campaign))}
    path = runs_and_cells.write_table(folder / "report", "agreement", again["agreement"])
    assert not tables.check(folder, again).offenders
    path.write_text(path.read_text().replace("differ", "agree"))
    assert any(": verdict: " in one for one in tables.check(folder, again).offenders)
