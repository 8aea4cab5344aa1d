# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest's own fio sees the twin's model where the drive, and not the guest's processor, sets the pace."""

from __future__ import annotations

import json

import pytest
from drive_figures import outermost_bytes_per_second, random_read_us
from lab_driver import Lab

from rig.virtuallab import profile

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

DRIVE = "hdd-1"
DISK = profile.load("hdd-7200").disk


def reads(lab: Lab, *words: str) -> tuple[dict, float]:
    """What fio tells of reads of the bare drive, and the part of them that the device set the pace."""
    before = lab.twins()[DRIVE]["counters"]
    told = json.loads(
        lab.ssh(
            "fio --name=reads --readonly --filename=$(ls /dev/disk/by-id/*JRHDD0001 | head -1) --direct=1"
            f" --ioengine=libaio --time_based --output-format=json {' '.join(words)}"
        )
    )
    after = lab.twins()[DRIVE]["counters"]
    rise = {name: after[name] - before[name] for name in ("busy_ns", "device_bound_ns")}
    return told["jobs"][0]["read"], rise["device_bound_ns"] / rise["busy_ns"]


def test_random_reads_of_a_hard_disk_take_a_seek_and_half_a_turn(lab: Lab):
    seen, device_bound = reads(lab, "--rw=randread", "--bs=4k", "--iodepth=1", "--runtime=8")
    assert device_bound > 0.95
    assert seen["lat_ns"]["mean"] / 1e3 == pytest.approx(random_read_us(DISK), rel=0.1)


def test_sequential_reads_of_a_hard_disk_are_its_tracks(lab: Lab):
    seen, device_bound = reads(lab, "--rw=read", "--bs=512k", "--iodepth=4", "--runtime=4")
    assert device_bound > 0.95
    assert seen["bw_bytes"] == pytest.approx(outermost_bytes_per_second(DISK), rel=0.1)
