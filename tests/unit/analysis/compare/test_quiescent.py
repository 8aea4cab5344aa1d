# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether cells rank alike by AI and by AI to quiescence, and that it is said first."""

from __future__ import annotations

import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare.more_joules import quiescent
from joulerig.analysis.report import document
from joulerig.analysis.runs import idle, over_time
from joulerig.analysis.tables import runs_and_cells
from joulerig.rig.cli import results as command
from tests.support import simulated_campaign
from tests.support.simulated_campaign import Outcome


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Build a campaign in which a file system draws so many joules after its load."""
    monkeypatch.setitem(simulated_campaign.PHASES, "tail", 8.0)

    def make(after: dict[str, float], **given):
        def outcome(levels):
            return Outcome(after_joules=after.get(levels["filesystem"], 0.0))

        given = {"replicates": 5, "traces": True, "outcome": outcome, **given}
        given |= {"drives": ("nvme-consumer",), "schedulers": ("none",)}
        return simulated_campaign.build(tmp_path / "c", **given)

    return make


def compare(folder):
    campaign = results.load(folder)
    over, _ = over_time.power_by_run(campaign)
    return quiescent.compare(campaign, comparison.compare_cells(campaign), over, idle.by_run(campaign))


def test_cells_that_leave_nothing_behind_rank_alike(build):
    (one,) = compare(build({}))
    assert one.differs == ""
    assert one.ranking.order == one.comparison.ranking.order
    assert quiescent.warnings([one]) == []


def test_a_best_cell_that_defers_its_writing_is_not_the_best_to_quiescence(build):
    (one,) = compare(build({"f2fs": 8.0}))
    assert one.comparison.ranking.winner.startswith("nvme-consumer/f2fs")
    assert one.ranking.winner.startswith("nvme-consumer/xfs")
    assert one.differs == "the best may be f2fs with none by AI, and xfs with none to quiescence"


def test_cells_behind_the_best_that_change_places_are_named(build):
    (one,) = compare(build({"xfs": 4.0}))
    assert one.differs == "xfs with none is better than ext4 with none by AI, and worse to quiescence"


def test_with_one_run_a_cell_the_readings_are_compared(build):
    (one,) = compare(build({"f2fs": 8.0}, replicates=1))
    assert one.differs == "by readings alone f2fs with none is first by AI, and xfs with none to quiescence"


def test_runs_that_are_not_known_leave_the_ranking_open(build):
    folder = build({"f2fs": 8.0})
    (results.load(folder).runs[0].folder / "power.csv").unlink()
    (one,) = compare(folder)
    assert (one.ranking, one.differs) == (None, "")
    assert one.reasons[0] == "not known: no power points"


def test_report_terminal_and_table_say_it_before_any_figure(build):
    folder = build({"f2fs": 8.0})
    said = (
        "nvme-consumer, randwrite-fsync: AI and AI to quiescence rank differently:"
        " the best may be f2fs with none by AI, and xfs with none to quiescence"
    )
    page = document.html(results.load(folder))
    assert page.index(said) < page.index("Most work per joule, by drive and workload")
    assert command.summary_text(folder).splitlines()[0] == f"WARNING: {said}"
    (one,) = compare(folder)
    table = quiescent.table(results.load(folder), [one])
    assert set(table["ranks_differ"]) == {one.differs}
    by_cell = {row["cell"].split("/")[1]: row for row in table.iter_rows(named=True)}
    assert (by_cell["f2fs"]["rank"], by_cell["f2fs"]["rank_to_quiescence"]) == (1, 3)
    assert (by_cell["f2fs"]["may_be_best"], by_cell["f2fs"]["may_be_best_to_quiescence"]) == (True, False)


def test_where_it_is_known_of_no_run_the_report_says_so_once(build):
    folder = build({}, traces=False)
    (one,) = compare(folder)
    assert not one.known
    page = document.html(results.load(folder))
    chapter = page[page.index("After the load: AI to quiescence") :].split("</section>")[0]
    assert "AI to quiescence is not known of any run; not known: no power points" in chapter
    assert "0 of 5" not in chapter


def test_the_terminals_cells_have_it_where_a_drive_came_back_to_idle(build):
    folder = build({"f2fs": 8.0})
    shown = command.ai_table_text(folder, 200)
    cells = runs_and_cells.cells(results.load(folder))
    for quiet in cells["ai_ops_per_joule_to_quiescence"]:
        assert f">{quiet:.1f} " in shown
    assert "> is AI to quiescence" in shown


def test_the_terminal_leaves_it_out_where_no_tail_was_long_enough(build, monkeypatch):
    monkeypatch.setitem(simulated_campaign.PHASES, "tail", 1.0)
    shown = command.ai_table_text(build({}), 200)
    assert ">" not in shown
    assert "quiescence" not in shown
