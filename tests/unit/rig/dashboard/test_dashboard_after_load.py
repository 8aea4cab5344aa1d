# SPDX-License-Identifier: GPL-3.0-or-later
"""AI to quiescence on the page of a campaign is the report's, and each trace is read once."""

from __future__ import annotations

import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare.more_joules import quiescent
from joulerig.analysis.runs import idle, over_time
from joulerig.rig.dashboard.api import campaign
from joulerig.rig.dashboard.api.after_load import AfterLoads
from tests.support import simulated_campaign
from tests.support.simulated_campaign import Outcome


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A campaign in which ext4 draws 30 J after its load, and not all runs kept their trace."""
    monkeypatch.setitem(simulated_campaign.PHASES, "tail", 8.0)

    def outcome(levels):
        kept = levels["filesystem"] != "f2fs"
        return Outcome(after_joules=30.0 if levels["filesystem"] == "ext4" else 0.0, power_csv=kept)

    made = {"drives": ("nvme-consumer",), "schedulers": ("none",), "replicates": 2, "traces": True}
    return simulated_campaign.build(tmp_path / "c", outcome=outcome, **made)


def by_filesystem(folder, after):
    cells = campaign.read(folder, None, has_log=False, after=after)["cells"]
    return {cell["filesystem"]: cell["to_quiescence"] for cell in cells}


def test_it_is_the_reports(folder):
    found = by_filesystem(folder, AfterLoads())
    loaded = results.load(folder)
    over, _ = over_time.power_by_run(loaded)
    (reported,) = quiescent.compare(loaded, comparison.compare_cells(loaded), over, idle.by_run(loaded))
    expected = {cell.cell.split("/")[1]: cell.to_quiescence for cell in reported.cells}
    assert {name: one["ops_per_joule"] for name, one in found.items()} == expected
    assert expected["ext4"] is not None
    assert found["f2fs"]["ops_per_joule"] is None
    assert found["f2fs"]["why"] == "not known: no power points"


def test_a_trace_is_read_once_and_again_when_it_changed(folder, monkeypatch):
    read = []
    monkeypatch.setattr(over_time, "read_run", lambda run: read.append(run.id))
    after = AfterLoads()
    by_filesystem(folder, after)
    once = len(read)
    assert once == len(set(read)) > 1
    by_filesystem(folder, after)
    assert len(read) == once
    next(iter(folder.glob("runs/*/power.csv"))).touch()
    by_filesystem(folder, after)
    assert len(read) == once + 1


def test_a_trace_that_cannot_be_read_is_not_known(folder):
    for trace in folder.glob("runs/*/power.csv"):
        trace.write_text("nothing of this kind\n")
    assert {one["ops_per_joule"] for one in by_filesystem(folder, AfterLoads()).values()} == {None}
