# SPDX-License-Identifier: GPL-3.0-or-later
"""Arrays of every kind on a real kernel: md's mirror and linear, LVM, dm-crypt, a pool of btrfs.

Of `make test-arrays`: the lab has these arrays in place of the shipped one, and their packages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from joulerig.analysis.results import campaign as results
from tests.support.lab_driver import FACTORS, Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(3000),
    pytest.mark.skipif("JOULERIG_ARRAYS" not in os.environ, reason="make test-arrays runs these"),
]

ARRAYS: dict[str, dict[str, Any]] = {
    "mirror": {"level": "raid1", "members": ["hdd-1", "hdd-2"]},
    "volume": {"level": "lvm-striped", "members": ["sata-plp", "sata-consumer"]},
    "secret": {"level": "crypt", "members": ["nvme-consumer"]},
    "pool": {"level": "pool-raid1", "members": ["nvme-plp", "hdd-3"]},
}


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("stacks"))
    inventory = lab.inventory_copy(lambda host: host.update(arrays=ARRAYS))
    lab.environment["JOULERIG_INVENTORY"] = str(inventory)
    with lab.running():
        yield lab


@pytest.fixture(scope="module")
def runs(stacks: Lab) -> dict[tuple[str, str], results.Run]:
    """Run ext4 and btrfs on each array; return each run by array and file system."""
    playbook = stacks.playbook(
        name="stacks",
        drives=list(ARRAYS),
        factors={**FACTORS, "filesystem": ["ext4", "btrfs"]},
        exclude=[{"drive": "pool", "filesystem": "ext4", "reason": "takes one drive"}],
    )
    stacks.rig("run", str(playbook), timeout=2400)
    [folder] = stacks.results.glob("stacks-*")
    found = results.load(folder).runs
    return {(run.drive, run.filesystem): run for run in found if run.status != "excluded"}


def test_every_array_runs_with_every_file_system(runs):
    assert {cell: (run.status, run.reason) for cell, run in runs.items() if run.status != "ok"} == {}
    assert len(runs) == 2 * len(ARRAYS) - 1


def test_joules_are_the_sum_over_the_members_and_true(runs):
    for (array, _), run in runs.items():
        drives = {rail.drive for rail in run.energy}
        assert drives == set(ARRAYS[array]["members"]), run.id
        assert run.result.joules_low <= run.result.true_joules <= run.result.joules_high, run.id


def test_io_is_counted_by_the_kernel_and_by_the_agent(runs):
    for run in runs.values():
        assert run.io["host"].writes > 0, run.id
        assert run.io["iod"].write_bytes > 0, run.id


def test_what_an_array_is_stands_in_the_settings(runs):
    assert runs["mirror", "ext4"].settings["array"]["level"] == "raid1"
    assert "striped 2 128" in runs["volume", "ext4"].settings["array"]["table"]
    assert "crypt aes-xts-plain64" in runs["secret", "ext4"].settings["array"]["table"]
    assert "array" not in runs["pool", "btrfs"].settings
    assert runs["pool", "btrfs"].settings["mkfs"][-6:-2] == ["--data", "raid1", "--metadata", "raid1"]


def test_a_mirror_and_a_pool_write_everything_twice(runs):
    for cell in (("mirror", "ext4"), ("pool", "btrfs")):
        run = runs[cell]
        assert run.io["twin"].write_bytes > 1.8 * run.performance.write_bytes


def test_no_key_of_an_encrypted_drive_is_left(stacks, runs):
    assert stacks.ssh("ls /dev/shm").strip() == ""
    assert "joulerig" not in stacks.ssh("cat /etc/crypttab 2>/dev/null || true")
