# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing may move on a drive while the rig has it claimed: files stand for its counters here.

tests/integration/ansible/test_hostile_drives.py has a real reader on a real block device.
"""

import itertools
import math
import time

import pytest

from ansible.module_utils.joulerig.drives import wipe_lease
from ansible.module_utils.joulerig.drives.uses import stillness
from ansible.module_utils.joulerig.tools import Refused

GIB = 1 << 30
SPEC = {"name": "fast", "interface": "nvme", "serial": "SERIAL-A", "wwn": None, "size_bytes": GIB}


@pytest.fixture
def host(fake, monkeypatch):
    fake.stand_in(monkeypatch)
    monkeypatch.setattr(stillness, "PATIENCE_SECONDS", 0.2)
    fake.disk("nvme0n1", "SERIAL-A")
    return fake


def take(host):
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        return lease.path


def refused(host, *parts):
    with pytest.raises(Refused) as caught:
        take(host)
    assert all(part in str(caught.value) for part in parts)


@pytest.fixture
def moving(host, monkeypatch):
    """Let a figure of a device move before each of the first `looks` at it, and then stand."""

    def move(device, file, looks=math.inf):
        path = (host.sys / "block" / device).resolve() / file
        *words, last = path.read_text().split()
        moved, seen = stillness._moved, itertools.count(1)

        def look(*given):
            number = next(seen)
            path.write_text(" ".join([*words, str(number) if number <= looks else last]) + "\n")
            return moved(*given)

        monkeypatch.setattr(stillness, "_moved", look)
        monkeypatch.setattr(stillness, "STILL_SECONDS", 0.2)

    return move


@pytest.mark.parametrize("file", ["stat", "inflight"])
def test_a_drive_that_moves_while_it_is_claimed(host, moving, file):
    moving("nvme0n1", file)
    refused(host, "fast: /dev/nvme0n1 is in use: it was read or written while this rig had it claimed")


def test_a_reader_that_is_done_in_time_is_waited_for(host, moving, monkeypatch):
    monkeypatch.setattr(stillness, "PATIENCE_SECONDS", 60.0)
    begun = time.monotonic()
    moving("nvme0n1", "stat", looks=5)
    assert take(host)
    assert time.monotonic() - begun >= 4 * stillness.LOOK_SECONDS + 0.2


def test_the_paths_of_a_multipath_drive_are_watched(host, moving):
    """Before Linux 6.5 the device above them counts nothing."""
    host.path_of("nvme0n1", "nvme0c0n1")
    moving("nvme0c0n1", "stat")
    refused(host, "is in use: it was read or written")


def test_several_drives_are_watched_in_one_second(host, monkeypatch):
    monkeypatch.setattr(stillness, "STILL_SECONDS", 0.5)
    specs = [SPEC]
    for number in (1, 2, 3):
        host.disk(f"nvme{number}n1", f"SERIAL-{number}")
        specs.append({**SPEC, "name": f"drive-{number}", "serial": f"SERIAL-{number}"})
    watched = []
    watch = stillness.watch
    monkeypatch.setattr(
        stillness, "watch", lambda drives, *rest: watched.append(len(drives)) or watch(drives, *rest)
    )
    with wipe_lease.together([wipe_lease.lease_drive(spec, host.system()) for spec in specs]) as leases:
        assert len(leases) == 4
    assert watched == [4]


def test_one_drive_that_is_refused_gives_all_back(host):
    host.disk("nvme1n1", "SERIAL-1")
    host.calls.reserved["nvme1n1"] = "a reservation by the key 00ff"
    leases = [
        wipe_lease.lease_drive(one, host.system())
        for one in (SPEC, {**SPEC, "name": "other", "serial": "SERIAL-1"})
    ]
    with pytest.raises(Refused, match="other: "), wipe_lease.together(leases):
        pass
    assert [one.descriptor for one in leases] == [None, None]


def test_counting_is_switched_on_meanwhile(host, monkeypatch):
    iostats = (host.sys / "block/nvme0n1").resolve() / "queue/iostats"
    iostats.write_text("0\n")
    seen = []
    moved = stillness._moved
    monkeypatch.setattr(
        stillness, "_moved", lambda *given: seen.append(iostats.read_text().strip()) or moved(*given)
    )
    assert take(host)
    assert (set(seen), iostats.read_text().strip()) == ({"1"}, "0")


def test_a_drive_that_cannot_count_is_refused(host):
    ((host.sys / "block/nvme0n1").resolve() / "queue/iostats").unlink()
    refused(host, "does not count its I/O")


def test_a_drive_that_moves_is_not_adopted(host, moving):
    (host.dev / "nvme0n1").write_bytes(b"noise" * 4000)
    lease = wipe_lease.lease_drive(SPEC, host.system())
    seen = lease.look()["identity"]
    moving("nvme0n1", "stat")
    with pytest.raises(Refused, match="was read or written"):
        lease.adopt(seen)
