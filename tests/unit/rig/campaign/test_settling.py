# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign rests for as long as its drives take to come to rest, and says so."""

from __future__ import annotations

import pytest

from joulerig.rig.campaign.plan import make_plan
from joulerig.rig.lab import model, virtual
from tests.support import ROOT


@pytest.fixture
def planned(lab_files, mapping):
    """Return the plan of a campaign with these phases, on a drive that takes 12 s to settle."""

    def plan(drives=("fast",), **phases):
        lab_files.hosts["bench1"]["drives"]["fast"]["settle_seconds"] = 12
        asked = {**mapping, "drives": list(drives), "phases": phases}
        return make_plan(asked, lab_files.load(), "playbooks/study.yml")

    return plan


def test_a_rest_that_is_too_short_is_lengthened_and_said(planned):
    plan = planned(rest_seconds=5, idle_seconds=5)
    assert plan.campaign.phases.rest_seconds == 10
    assert plan.campaign.phases.idle_seconds == 5
    assert plan.waits.startswith("rest 10 s instead of 5 s: fast of ")
    assert "takes 12 s to come to rest" in plan.waits
    assert plan.provenance()["rest"] == plan.waits


@pytest.mark.parametrize(
    "phases",
    [
        {"rest_seconds": 10, "idle_seconds": 5},
        {"rest_seconds": 0, "idle_seconds": 24},
        {"rest_seconds": 1, "idle_seconds": 0},
    ],
)
def test_a_rest_that_is_long_enough_or_without_idle_phase_stays(planned, phases):
    plan = planned(**phases)
    assert plan.campaign.phases.rest_seconds == phases["rest_seconds"]
    assert plan.waits == ""
    assert plan.provenance() == {}


def test_a_drive_of_which_nothing_is_known_changes_nothing(planned):
    assert planned(drives=["bare"], rest_seconds=1, idle_seconds=1).waits == ""


def test_a_virtual_drive_takes_as_long_as_its_profile_says():
    lab = model.load(ROOT / "inventory.ini")
    host, drive = next(
        (host, name)
        for host, spec in lab.hosts.items()
        for name, drive in spec.drives.items()
        if drive.profile == "nvme-consumer"
    )
    # Folding begins after 1 s, and PS4 is entered 0.5 s after it.
    assert 1.5 < virtual.settle_seconds(lab, host, drive) < 5
