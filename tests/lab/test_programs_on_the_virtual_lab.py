# SPDX-License-Identifier: GPL-3.0-or-later
"""External programs on a host: deployed, loading its drive, leaving nothing behind."""

from __future__ import annotations

import json
import os

import pytest

from tests.support.lab_driver import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif("JOULERIG_WORKLOADS" not in os.environ, reason="make test-workloads runs these"),
]

WORKLOADS = ("postmark", "kernel-grep-library")
FIGURES = {"postmark": ("transactions", "higher"), "kernel-grep-library": ("pass", "lower")}


@pytest.fixture(scope="module")
def campaign(lab: Lab):
    playbook = lab.playbook(
        name="programs",
        factors={"filesystem": ["ext4"], "scheduler": ["none"], "workload": list(WORKLOADS)},
    )
    done = lab.rig("run", str(playbook), timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    return lab.results_of()


@pytest.fixture(scope="module", params=WORKLOADS)
def run(request, campaign):
    (found,) = [one for one in campaign["runs"] if one["factors"]["workload"] == request.param]
    return found


def report_of(lab: Lab, campaign, run):
    return json.loads((lab.results / campaign["campaign"] / "runs" / run["id"] / "load.json").read_text())


def test_its_work_its_energy_and_its_figure_are_known(run):
    assert (run["status"], run["reason"]) == ("ok", "")
    assert run["performance"]["ops"] > 0
    assert run["ai_ops_per_joule"] == pytest.approx(run["performance"]["ops"] / run["corrected_joules"])
    name, better = FIGURES[run["factors"]["workload"]]
    performance = run["performance"]
    assert (performance["figure_name"], performance["figure_better"]) == (name, better)
    assert performance["figure"] > 0


def test_joules_are_within_one_percent_of_the_truth(run):
    assert abs(run["joules"] - run["true_joules"]) <= 0.01 * run["true_joules"]


def test_the_drive_saw_what_the_program_says(lab: Lab, campaign, run):
    report = report_of(lab, campaign, run)
    assert report["ended"] == "completed"
    counted = {io["source"]: io for io in run["io"]}["host"]
    if run["factors"]["workload"] == "postmark":
        assert report["write_bytes"] > 0
    else:  # each pass reads all of it from the drive: whole pages of a file, what is ahead, and metadata
        assert report["details"]["cold"] is True
        assert report["details"]["files"] > 3000
        assert report["read_bytes"] <= counted["read_bytes"] <= 3 * report["read_bytes"]


def test_no_process_and_no_mount_is_left(lab: Lab, campaign):
    assert "/run/joulerig/mnt" not in lab.ssh("cat /proc/mounts")
    assert lab.ssh("ps -e -o comm= | grep -c -x -E 'postmark|make|postgres' || true").strip() == "0"
