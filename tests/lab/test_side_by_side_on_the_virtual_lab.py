# SPDX-License-Identifier: GPL-3.0-or-later
"""Two drives of one host side by side: joules of each, runs alone, and a controller that dies.

Of `make test-arrays`: a dozen runs.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from typing import Any

import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import cross_talk
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName, is_control
from tests.support.kills import LEFT, SETTINGS
from tests.support.lab_driver import FACTORS, Lab
from tests.support.programs import wait_for

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.skipif("JOULERIG_ARRAYS" not in os.environ, reason="make test-arrays runs these"),
]

DRIVES = ["nvme-consumer", "nvme-plp"]
SHORT = {"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": 5, "tail_seconds": 1}


def load_of(run: Run) -> tuple[int, int]:
    load = run.phases[PhaseName.WORKLOAD]
    return load.start_ns, load.end_ns


def whole_of(run: Run) -> tuple[int, int]:
    return min(one.start_ns for one in run.phases.values()), max(one.end_ns for one in run.phases.values())


def meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def named(lab: Lab, name: str) -> Campaign:
    [found] = [one for one in lab.campaigns() if one.startswith(name)]
    return results.load(lab.results / found)


@pytest.fixture(scope="module")
def lanes(lab: Lab) -> dict[str, Any]:
    """A campaign of three blocks: in each, each drive's run, and the same alone."""
    playbook = lab.playbook(
        name="lanes", drives=DRIVES, replicates=3, factors=FACTORS, phases=SHORT, side_by_side=True
    )
    before = lab.ssh(SETTINGS)
    done = lab.rig("run", str(playbook), timeout=1100)
    assert done.returncode == 0, done.stdout + done.stderr
    return {"campaign": named(lab, "lanes"), "before": before, "after": lab.ssh(SETTINGS)}


def test_every_run_is_ok_at_its_first_attempt_and_within_its_bounds(lanes):
    runs = lanes["campaign"].runs
    assert len(runs) == 12
    assert sum(is_control(run.factors) for run in runs) == 6
    for run in runs:
        print(run.cell, run.result.joules, run.result.true_joules)
        assert (run.status, len(run.attempts)) == ("ok", 1)
        assert run.result.truth_within
        assert run.result.joules == pytest.approx(run.result.true_joules, rel=0.01)


def test_loads_of_the_two_drives_meet_and_a_run_alone_meets_none(lanes):
    runs = lanes["campaign"].runs
    alone = [run for run in runs if is_control(run.factors)]
    together = [run for run in runs if not is_control(run.factors)]
    assert any(
        meet(load_of(one), load_of(other))
        for one, other in itertools.combinations(together, 2)
        if one.drive != other.drive
    )
    for control in alone:
        others = [run for run in runs if run.id != control.id]
        assert not any(meet(whole_of(control), whole_of(other)) for other in others)


def test_cross_talk_is_measured_for_each_drive(lanes):
    found = cross_talk.estimate(lanes["campaign"])
    for one in found:
        print(one)
    assert {one.drive for one in found} == set(DRIVES)
    assert all(one.pairs <= 3 for one in found)


def test_the_host_is_as_before(lab: Lab, lanes):
    assert lanes["after"] == lanes["before"]
    assert lab.ssh(f"{LEFT}\ntrue").strip() == ""


def test_runs_of_both_drives_outlive_a_controller_that_is_killed(lab: Lab):
    playbook = lab.playbook(
        name="lanes-killed",
        drives=DRIVES,
        factors={**FACTORS, "workload": ["varmail"]},
        phases={**SHORT, "workload_seconds": 60},
        side_by_side=True,
    )
    running = lab.start_rig("run", str(playbook), stderr=subprocess.PIPE)
    try:
        loads = "pgrep -xc flowop || true"
        wait_for(lambda: lab.ssh(loads).strip() == "2", 600, "a load on each drive")
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    campaign = named(lab, "lanes-killed").id
    done = lab.rig("run", str(playbook), "--resume", campaign, timeout=1100)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = named(lab, "lanes-killed").runs
    assert [run.status for run in runs] == ["ok"] * 4
    assert [len(run.attempts) for run in runs] == [1] * 4
    for run in runs:
        assert run.result.joules == pytest.approx(run.result.true_joules, rel=0.01)
    assert lab.ssh(f"{LEFT}\ntrue").strip() == ""
