# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign on several hosts at once: real Ansible, SSH, leases, mkfs, fio and InfluxDB.

It is the one that `make bench-campaign` measures, of two hosts and few runs. The hosts are programs
in namespaces of this machine.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.bench import bench_campaign
from tests.support.programs import built, installed

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and loop devices"),
    pytest.mark.skipif(not Path("/dev/loop-control").exists(), reason="this machine has no loop devices"),
]


@pytest.fixture(scope="module")
def found():
    for program, package in (("sshd", "openssh-server"), ("influxd", "influxdb"), ("fio", "fio")):
        installed(program, package)
    for program in ("powerd", "iod"):
        built(program)
    return bench_campaign.measure(hosts=2, runs=3, local_runs=2)


def test_each_run_is_executed_once_and_ok(found):
    assert {lab: (one["ok"], one["runs"], one["doubled"]) for lab, one in found.items()} == {
        "hosts": (6, 6, 0),
        "localhost": (2, 2, 0),
    }


def test_hosts_do_not_wait_for_each_other(found):
    assert found["hosts"]["at_once"] == 2
    assert found["localhost"]["at_once"] == 1


def test_a_run_takes_longer_than_its_phases(found):
    for one in found.values():
        assert 0 < one["overhead_seconds"] <= one["worst_overhead_seconds"]


def test_nothing_of_the_hosts_is_left(found):
    listed = subprocess.run(["losetup", "--list"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in listed.splitlines() if "/h01.image" in line]
