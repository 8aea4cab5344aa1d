# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig doctor` and `rig hosts discover` of a virtual test host: real files of /sys, real ioctls."""

from __future__ import annotations

import json

import pytest

from joulerig.rig.common import yaml_text
from joulerig.rig.lab import model
from tests.support import ROOT
from tests.support.lab_driver import Lab

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]


def test_a_provisioned_host_has_no_error(lab: Lab) -> None:
    done = lab.rig("doctor", "vhost1", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [one for one in json.loads(done.stdout) if one["severity"] == "error"] == []


def test_the_declared_drives_are_those_that_the_host_has(lab: Lab) -> None:
    done = lab.rig("hosts", "discover", "vhost1", "--print")
    assert done.returncode == 0, done.stderr
    printed = yaml_text.parse(done.stdout, "vhost1.yml")
    found = {one["serial"]: one for one in printed["drives"].values()}
    left_out = [line for line in done.stderr.splitlines() if ": left out: " in line]
    declared = model.load(ROOT / "inventory.ini").hosts["vhost1"].drives.values()
    for drive in (one for one in declared if one.interface != "ram"):
        if any(f"serial {drive.serial}," in line and "is in use" in line for line in left_out):
            continue  # an array of an earlier test has it
        one = found[drive.serial]
        assert (one["interface"], one.get("wwn")) == (drive.interface, drive.wwn)
        assert (one["size_bytes"], one["wipe_blank"]) == (drive.size_bytes, False)
