# SPDX-License-Identifier: GPL-3.0-or-later
"""A twin as a block device of this kernel goes whatever still looks at it, and leaves nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from joulerig.rig.common import paths
from joulerig.rig.lab import filesystems
from joulerig.virtuallab.blocklog import device
from joulerig.virtuallab.standalone_twin import StandaloneTwin

LOOKED_AT_SECONDS = 1.0
DRIVE_BYTES = 64 << 20

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(device.missing()), reason=device.missing()),
]


@pytest.fixture
def twin(state):
    with StandaloneTwin("sata-consumer", DRIVE_BYTES, []) as twin:
        yield twin


def look_at(path: Path) -> None:
    """Keep a file open for a while."""
    file = path.open("rb")
    threading.Timer(LOOKED_AT_SECONDS, file.close).start()


def left_of(kind: str) -> list[Path]:
    return list(paths.run().glob(f"{kind}-*"))


def test_a_device_goes_when_who_looked_at_its_file_has_gone(twin):
    with device.LoopDevice(twin.nbd):
        [folder] = left_of("nbd")
        look_at(folder / "nbd")
    assert left_of("nbd") == []


def test_a_file_system_is_unmounted_when_who_looked_into_it_has_gone(twin):
    ext4 = filesystems.shipped()["ext4"].for_host("ext4")
    with device.LoopDevice(twin.nbd) as loop:
        device.make(loop, ext4)
        with device.mounted(loop, ext4) as folder:
            path = Path(folder) / "file"
            path.touch()
            look_at(path)
        assert left_of("mount") == []
    assert left_of("nbd") == []


def test_what_stays_in_use_is_no_longer_seen(twin, monkeypatch):
    monkeypatch.setattr(device, "PATIENCE_SECONDS", 0.5)
    with device.LoopDevice(twin.nbd):
        [folder] = left_of("nbd")
        file = (folder / "nbd").open("rb")
    assert left_of("nbd") == []
    file.close()
