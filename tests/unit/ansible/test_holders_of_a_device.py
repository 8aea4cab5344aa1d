# SPDX-License-Identifier: GPL-3.0-or-later
"""Real processes hold a real loop device: each way is seen, and named with its process.

tests/integration/ansible/test_hostile_drives.py has the modules refuse a drive that is held so.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ansible.module_utils.joulerig.drives import usage
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.drives.uses import processes
from ansible.module_utils.joulerig.tools import Refused
from tests.support import ROOT
from tests.support.programs import wait_for

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices"),
    pytest.mark.skipif(not Path("/dev/loop-control").exists(), reason="this machine has no loop devices"),
]
Look = Callable[[], processes.Opened]


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    image = tmp_path / "image"
    image.touch()
    os.truncate(image, 1 << 20)
    command = ["losetup", "--find", "--show", str(image)]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    yield made
    subprocess.run(["losetup", "--detach", made], check=True)


@pytest.fixture
def held(tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Look]]:
    """held(KIND): have a process hold the device (tests/support/device_holders.py).

    It returns what looks at that process and its children, and at no others.
    """
    holders: list[psutil.Popen] = []
    listdir = os.listdir

    def hold(kind: str) -> Look:
        ready = tmp_path / "ready"
        command = [sys.executable, "-m", "tests.support.device_holders", kind, device, str(ready)]
        holders.append(psutil.Popen(command, cwd=ROOT))
        wait_for(ready.exists, 30, "the device is held")
        seen = [str(one.pid) for one in (holders[0], *holders[0].children())]
        monkeypatch.setattr(os, "listdir", lambda path: seen if path == "/proc" else listdir(path))
        return lambda: processes.Opened(Host())

    yield hold
    for one in holders:
        for child in one.children():
            child.kill()
        one.kill()
        one.wait()


def number(device: str) -> str:
    found = os.stat(device).st_rdev
    return f"{os.major(found)}:{os.minor(found)}"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("mapped", "has it mapped for writing"),
        ("mapped_by_another_node", "has it mapped for writing"),
        ("in_flight", "has it in a message, open for writing"),
        ("in_flight_in_flight", "has it in a message, open for writing"),
        ("thread", "has it open for writing"),
        ("thread_without_a_leader", "has it open for writing"),
    ],
)
def test_a_device_that_a_process_can_write_to(held, device, kind, words):
    opened = held(kind)()
    assert opened.blocks[number(device)].endswith(f") {words}")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("closed_ring", "uses an io_uring that cannot be looked at"),
        ("ring_by_another_node", "in an io_uring, which cannot be looked at"),
        ("in_flight_second", "carry descriptors that cannot be looked at"),
        ("in_flight_to_a_listener", "carry descriptors that cannot be looked at"),
    ],
)
def test_what_root_cannot_look_at_is_reported(held, kind, words):
    [hidden] = held(kind)().hidden
    assert hidden.endswith(words)


def test_a_device_in_an_io_uring_is_known_by_its_node_or_its_name(held, device):
    opened = held("ring")()
    assert (opened.blocks.get(number(device)) or opened.names[os.path.basename(device)]).endswith(
        "has it in an io_uring"
    )


def test_reading_it_and_what_is_done_to_other_devices_is_no_use(held, device):
    opened = held("harmless")()
    assert (opened.blocks, opened.hidden) == ({}, [])


def test_looking_into_messages_leaves_nothing_open(held):
    look = held("in_flight_in_flight")
    look()
    before = len(os.listdir("/proc/self/fd"))
    look()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_loop_device_says_which_device_it_stands_upon(fake, device):
    """Its file's path may be of another mount namespace: its number is asked for."""
    command = ["losetup", "--find", "--show", device]
    upon = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    try:
        fake._numbers["nvme0n1"] = number(device)
        fake.disk("nvme0n1", "SERIAL-A")
        fake.put(fake.device("loop3") / "loop/backing_file", "/nowhere/node\n")
        (fake.dev / "loop3").unlink()
        (fake.dev / "loop3").symlink_to(upon)
        with pytest.raises(Refused, match="in use: loop3 is a loop device upon it"):
            usage.check_unused("fast", "nvme0n1", fake.system())
        (fake.dev / "loop3").unlink()
        (fake.dev / "loop3").symlink_to(device)  # which stands upon a file
        usage.check_unused("fast", "nvme0n1", fake.system())
    finally:
        subprocess.run(["losetup", "--detach", upon], check=True)
