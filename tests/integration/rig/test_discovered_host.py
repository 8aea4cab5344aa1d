# SPDX-License-Identifier: GPL-3.0-or-later
"""From `rig hosts discover` to a campaign, over real SSH, Ansible, leases, mkfs, fio and InfluxDB.

The host is a program in namespaces of this machine, with a drive that is a loop device.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from joulerig.rig.common import yaml_text
from tests.support.contained_lab import run_inside
from tests.support.programs import built, installed

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and loop devices"),
    pytest.mark.skipif(not Path("/dev/loop-control").exists(), reason="this machine has no loop devices"),
    pytest.mark.timeout(1200),  # of its set-up: a whole campaign
]


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    for program, package in (("sshd", "openssh-server"), ("influxd", "influxdb"), ("fio", "fio")):
        installed(program, package)
    for program in ("powerd", "iod"):
        built(program)
    folder = tmp_path_factory.mktemp("discovered")
    assert run_inside([sys.executable, "-m", "tests.support.discovered_host", str(folder)]) == 0
    return json.loads((folder / "steps.json").read_text())


def test_the_file_describes_the_drive_that_the_host_reads(steps):
    assert steps["discover"]["code"] == 0, steps["discover"]
    assert "h01: 1 drive written to" in steps["discover"]["out"]
    found = yaml_text.parse(steps["file"], "h01.yml")
    [drive] = found["drives"].values()
    assert (drive["serial"], drive["size_bytes"]) == ("CONTAINED-h01", 96 << 20)
    assert drive["wipe_blank"] is False


def test_the_controllers_address_is_that_from_which_ssh_came(steps):
    assert yaml_text.parse(steps["file"], "h01.yml")["controller_address"].startswith("127.")


def test_the_file_is_not_overwritten(steps):
    assert steps["again"]["code"] == 2
    assert "describes the host already" in steps["again"]["err"]


def test_the_doctor_finds_the_drive_and_nothing_in_it(steps):
    found = json.loads(steps["doctor"]["out"])
    assert {one["check"] for one in found} & {"reached", "drives", "health", "refused"} == set(), found


def test_a_blank_drive_is_not_wiped_before_it_is_adopted(steps):
    assert steps["too early"]["code"] == 2
    assert "is blank, and the inventory has wipe_blank: false" in steps["too early"]["err"]
    assert "rig drives adopt h01" in steps["too early"]["err"]


def test_after_its_adoption_a_campaign_is_executed(steps):
    assert steps["adopt"]["code"] == 0, steps["adopt"]
    assert steps["run"]["code"] == 0, steps["run"]
    assert '"ok"' in steps["results"]["out"]
