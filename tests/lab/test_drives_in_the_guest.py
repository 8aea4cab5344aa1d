# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest's fio sees the twin's model where the drive, not the processor, sets the pace."""

from __future__ import annotations

import json

import pytest

from joulerig.virtuallab import profile
from tests.support.drive_figures import outermost_bytes_per_second, random_read_us
from tests.support.lab_driver import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(900),
]  # the lab may have to come up first

DRIVE = "hdd-1"
DEVICE = "/dev/disk/by-id/wwn-0x5000c500b0000001"
DISK = profile.load("hdd-7200").disk


def reads(lab: Lab, *words: str) -> tuple[dict, float]:
    """Return fio's report of raw reads, and the share of time in which the drive set the pace."""

    def device_bound_ns() -> int:
        return lab.twins()[DRIVE]["counters"]["device_bound_ns"]

    # A disk that stood still for long is in standby and spins up first.
    lab.ssh(f"dd if={DEVICE} of=/dev/null bs=4k count=1 iflag=direct status=none")
    before = device_bound_ns()
    reported = json.loads(
        lab.ssh(
            f"fio --name=reads --readonly --filename={DEVICE} --direct=1"
            f" --ioengine=libaio --time_based --output-format=json {' '.join(words)}"
        )
    )["jobs"][0]["read"]
    return reported, (device_bound_ns() - before) / (reported["runtime"] * 1e6)


def test_random_reads_of_a_hard_disk_take_a_seek_and_half_a_turn(lab: Lab):
    """One at a time: the drive's wait for the guest between two reads does not count."""
    seen, device_bound = reads(lab, "--rw=randread", "--bs=4k", "--iodepth=1", "--runtime=8")
    each_us = seen["runtime"] * 1e3 / seen["total_ios"]  # a read, and what the guest takes until the next one
    assert each_us * device_bound == pytest.approx(random_read_us(DISK), rel=0.1)
    assert seen["lat_ns"]["mean"] / 1e3 > 0.9 * random_read_us(DISK)  # never before the model's time


def test_sequential_reads_of_a_hard_disk_are_its_tracks(lab: Lab):
    """Several at once: the drive is never without work."""
    seen, device_bound = reads(lab, "--rw=read", "--bs=512k", "--iodepth=16", "--runtime=4")
    assert device_bound > 0.9
    assert seen["bw_bytes"] == pytest.approx(outermost_bytes_per_second(DISK), rel=0.1)


def test_an_nvme_drive_gets_a_flush_where_its_controller_would_drop_fua(lab: Lab):
    """QEMU's NVMe controller accepts FUA writes but leaves them in the drive's cache."""
    reported = lab.ssh("cd /sys/block && grep -H . nvme*n*/queue/fua nvme*n*/queue/write_cache").split("\n")
    by_file = dict(line.split(":", 1) for line in reported if line)
    assert {value for name, value in by_file.items() if name.endswith("fua")} == {"0"}
    assert {value for name, value in by_file.items() if name.endswith("write_cache")} == {"write back"}
