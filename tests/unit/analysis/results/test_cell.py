# SPDX-License-Identifier: GPL-3.0-or-later
"""A cell is the level of each factor; its name is for people and files alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import cells
from joulerig.analysis.results.schema import Cell
from tests.support import ROOT, simulated_campaign

LEVELS = {"drive": "fast", "filesystem": "ext4", "scheduler": "none", "workload": "randread", "fill": 0.5}


def test_further_factors_keep_their_order() -> None:
    cell = Cell.from_levels({"kernel": "hz100", **LEVELS})
    assert cell.further == (("kernel", "hz100"), ("fill", "0.5"))
    assert cell.name == "fast/ext4/none/randread/kernel=hz100/fill=0.5"
    assert cell.combination == "ext4 with none"


def test_a_level_may_hold_what_separates_names() -> None:
    cell = Cell.from_levels({**LEVELS, "path": "a/b=c"})
    assert cell.further[-1] == ("path", "a/b=c")


def test_without_a_factor_that_every_cell_has_there_is_none() -> None:
    with pytest.raises(KeyError, match="scheduler"):
        Cell.from_levels({name: level for name, level in LEVELS.items() if name != "scheduler"})


def test_runs_and_comparisons_have_it(tmp_path: Path) -> None:
    folder = simulated_campaign.build(tmp_path / "c", extra_factors={"fill": ("0", "0.5")})
    campaign = results.load(folder)
    assert all(run.key.name == run.cell for run in campaign.runs)
    compared = cells.compare_cells(campaign)
    assert {one.further for one in compared} == {(("fill", "0"),), (("fill", "0.5"),)}
    assert {one.columns["further"] for one in compared} == {"fill=0", "fill=0.5"}
    for one in compared:
        assert all(cell.name == name for name, cell in one.cells.items())


def test_no_code_parses_the_name_of_a_cell() -> None:
    taken_apart = re.compile(r"""cell("\]|'\])?\.(r?split|r?partition)\(""")
    paths = [
        path
        for folder in ("analysis", "rig", "joulerig")
        for suffix in ("py", "j2", "js")
        for path in (ROOT / folder).rglob(f"*.{suffix}")
        if "node_modules" not in path.parts
    ]
    assert [str(path) for path in paths if taken_apart.search(path.read_text())] == []
