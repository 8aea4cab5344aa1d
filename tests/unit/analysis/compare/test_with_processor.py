# SPDX-License-Identifier: GPL-3.0-or-later
"""Cells are ranked with the processors' joules as well, and differences are said."""

from __future__ import annotations

import pytest

from joulerig.analysis import results
from joulerig.analysis.bundle import tables
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare.more_joules import with_processor
from joulerig.analysis.report import document
from joulerig.analysis.tables import runs_and_cells
from tests.support import simulated_campaign, verifiable_campaign


@pytest.fixture
def build(tmp_path):
    """Build a campaign in which the processors of each run took so many joules an operation."""

    def make(per_op: dict[str, float | None], **given):
        given = {"drives": ("nvme-consumer",), "schedulers": ("none",), "replicates": 5, **given}
        folder = simulated_campaign.build(tmp_path / "c", **given)
        for run in results.load(folder).runs:
            joules = per_op.get(run.filesystem, 1e-4)
            if joules is not None:
                total = joules * run.performance.ops
                verifiable_campaign.edit(folder, f"UPDATE result SET cpu_joules={total} WHERE run='{run.id}'")
        return folder

    return make


def compare(folder):
    campaign = results.load(folder)
    return with_processor.compare(campaign, comparison.compare_cells(campaign))


def test_processors_that_take_the_same_rank_alike(build):
    (one,) = compare(build({}))
    assert one.differs == ""
    assert one.ranking.order == one.comparison.ranking.order


def test_a_file_system_that_saves_the_drive_and_not_the_processor_is_found_out(build):
    (one,) = compare(build({"f2fs": 0.05}))
    assert one.comparison.ranking.winner.startswith("nvme-consumer/f2fs")
    assert one.differs == "the best may be f2fs with none by AI, and xfs with none with the processor"


def test_figures_are_over_both_joules(build):
    folder = build({"f2fs": 0.05})
    runs = [run for run in results.load(folder).runs if run.filesystem == "f2fs"]
    (one,) = compare(folder)
    cell = next(cell for cell in one.cells if "f2fs" in cell.cell)
    ops = sum(run.performance.ops for run in runs)
    joules = sum(run.result.ai_joules + run.result.cpu_joules for run in runs)
    assert cell.with_processor == pytest.approx(ops / joules)
    assert cell.cpu_joules / ops == pytest.approx(0.05)


def test_a_run_without_rapl_leaves_its_cells_unranked(build):
    (one,) = compare(build({"xfs": None}))
    assert one.ranking is None
    assert {cell.cell: cell.with_processor is None for cell in one.cells}[
        "nvme-consumer/xfs/none/randwrite-fsync"
    ]


def test_without_rapl_there_is_neither_table_nor_chapter(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    assert compare(folder) == []
    assert "Drives and processors together" not in document.html(results.load(folder))


def test_the_report_has_a_chapter_and_verify_recomputes_the_table(build):
    folder = build({"f2fs": 0.05})
    campaign = results.load(folder)
    html = document.html(campaign)
    assert "Drives and processors together" in html
    assert "<b>the best may be f2fs with none by AI, and xfs" in html
    again = {"processor": with_processor.table(campaign, compare(folder))}
    path = runs_and_cells.write_table(folder / "report", "processor", again["processor"])
    assert not tables.check(folder, again).offenders
    path.write_text(path.read_text().replace("true", "false"))
    assert tables.check(folder, again).offenders
