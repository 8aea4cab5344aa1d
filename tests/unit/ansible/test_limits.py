# SPDX-License-Identifier: GPL-3.0-or-later
"""How long work on a drive may take: real drives are not cut off, and what hangs still ends."""

import contextlib
import subprocess

import pytest

from ansible.module_utils.joulerig import limits
from ansible.module_utils.joulerig.drives import filesystem
from ansible.module_utils.joulerig.tools import Failed
from joulerig.rig.lab.model import Drive

GB, TB = 10**9, 10**12
HOUR = 3600.0


def drive(interface, size_bytes):
    return {"name": "d", "interface": interface, "size_bytes": size_bytes}


def test_every_interface_that_an_inventory_can_name_has_a_limit():
    allowed = Drive.model_fields["interface"].annotation.__args__
    assert set(allowed) == set(limits.SLOWEST_BYTES_PER_SECOND)


# What the worst drives on sale need: QLC past its SLC cache, a shingled disk, a slow discard.
@pytest.mark.parametrize(
    ("one", "work", "needs"),
    [
        (drive("sata-ssd", 7.68 * TB), limits.WHOLE, 7.68 * TB / 80e6),
        (drive("hdd", 20 * TB), limits.WHOLE, 20 * TB / 40e6),
        (drive("nvme", 61.44 * TB), limits.WHOLE, 61.44 * TB / 100e6),
        # ext2 writes 1/64 of the drive.
        (drive("hdd", 20 * TB), limits.METADATA, 20 * TB / 64 / 40e6),
        (drive("sata-ssd", 7.68 * TB), limits.METADATA, 7.68 * TB / 64 / 80e6 + 2 * HOUR),
        (drive("sata-ssd", 7.68 * TB), limits.PURGE, 4 * HOUR),
    ],
)
def test_a_real_drive_is_not_cut_off(one, work, needs):
    assert limits.seconds([one], work) > 1.5 * needs


def test_no_limit_is_longer_than_python_can_wait():
    longest = limits.seconds([drive("hdd", 10**15)], limits.WHOLE)
    assert subprocess.run(["true"], capture_output=True, timeout=longest, check=True)


def test_a_hung_mkfs_of_a_small_drive_ends_within_minutes():
    assert limits.seconds([drive("nvme", 4 << 30)], limits.METADATA) < 15 * 60


def test_the_slowest_drive_of_an_array_counts_and_not_their_sum():
    members = [drive("hdd", 4 * TB), drive("hdd", 4 * TB), drive("nvme", 4 * TB)]
    assert limits.seconds(members, limits.WHOLE) == limits.seconds(members[:1], limits.WHOLE)


def test_work_on_the_first_bytes_of_a_drive_has_the_limit_of_a_drive_of_that_size():
    bounded = limits.seconds([drive("hdd", 20 * TB)], limits.WHOLE, 64 * GB)
    assert bounded == limits.seconds([drive("hdd", 64 * GB)], limits.WHOLE)


class Leased:
    path, name = "/dev/leased", "leased"

    def check(self):
        pass

    def begin(self, *to):
        pass

    @contextlib.contextmanager
    def lent(self):
        yield self.path


def test_mkfs_ends_at_its_limit(tool):
    tool("mkfs.odd", "exec sleep 30")
    with pytest.raises(Failed, match=r"^mkfs\.odd: still running after 0 s$"):
        filesystem.make(Leased(), {"type": "odd", "mkfs": ["mkfs.odd"]}, seconds=0.2)
