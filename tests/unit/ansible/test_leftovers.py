# SPDX-License-Identifier: GPL-3.0-or-later
"""What a killed module call left is put back by the next one."""

import json
import os
import signal
import subprocess

import psutil
import pytest

from ansible.module_utils.joulerig import fence, leftovers, paths
from ansible.module_utils.joulerig.tools import Failed, Refused
from tests.support.fenced import fenced_process, namespace, services
from tests.support.programs import wait_for


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUN_LOCK", str(tmp_path / "run.lock"))
    monkeypatch.setattr(paths, "SYS", str(tmp_path / "sys"))
    return str(tmp_path / "leftovers.json")


@pytest.fixture
def disk(tmp_path):
    """A drive's folder in /sys: its scheduler was mq-deadline, and a run set bfq."""
    base = tmp_path / "sys/block/sda"
    (base / "queue").mkdir(parents=True)
    (base / "queue/scheduler").write_text("none mq-deadline [bfq]\n")
    (base / "diskseq").write_text("7\n")
    return base


def test_nothing_is_left_where_nothing_was_noted(place):
    assert leftovers.take_down(place) == []


def test_settings_are_put_back_and_named(place, disk):
    scheduler = disk / "queue/scheduler"
    leftovers.Leftovers(place).note_file(str(scheduler), "mq-deadline", 7)
    assert leftovers.take_down(place) == [f"{scheduler} put back"]
    assert scheduler.read_text() == "mq-deadline"
    assert leftovers.take_down(place) == []


def test_the_first_note_of_a_setting_counts(place, disk):
    left = leftovers.Leftovers(place)
    left.note_file(str(disk / "queue/scheduler"), "mq-deadline", 7)
    left.note_file(str(disk / "queue/scheduler"), "none", 7)
    leftovers.take_down(place)
    assert (disk / "queue/scheduler").read_text() == "mq-deadline"


def test_what_is_as_it_was_is_not_written_again(place, disk):
    leftovers.Leftovers(place).note_file(str(disk / "queue/scheduler"), "bfq", 7)
    assert leftovers.take_down(place) == []
    assert (disk / "queue/scheduler").read_text() == "none mq-deadline [bfq]\n"


@pytest.mark.parametrize("sequence", ["8\n", None], ids=["another disk", "none"])
def test_another_disk_that_has_the_name_by_now_is_left_alone(place, disk, sequence):
    leftovers.Leftovers(place).note_file(str(disk / "queue/scheduler"), "mq-deadline", 7)
    (disk / "diskseq").unlink()
    if sequence:
        (disk / "diskseq").write_text(sequence)
    assert leftovers.take_down(place) == []
    assert "[bfq]" in (disk / "queue/scheduler").read_text()


def test_a_drives_own_setting_is_put_back_by_a_command(place, disk, tool):
    calls = tool("smartctl", "true")
    command = ["smartctl", "--set=standby,off", "/dev/sda"]
    leftovers.Leftovers(place).note_command(str(disk), command, 7)
    assert leftovers.take_down(place) == [f"{disk} put back"]
    assert calls.read_text() == "--set=standby,off /dev/sda\n"


def test_a_drive_whose_cache_cannot_be_put_back_is_not_named(place, disk, monkeypatch):
    def refuse(name, value):
        raise Failed(f"/dev/{name}: {value} was refused")

    monkeypatch.setattr(leftovers.blockqueue, "put_write_cache", refuse)
    leftovers.Leftovers(place).note_cache(str(disk / "queue/write_cache"), "write back", 7)
    assert leftovers.take_down(place) == []
    assert not os.path.exists(place)


def test_what_is_put_back_in_good_order_is_forgotten(place, disk):
    left = leftovers.Leftovers(place)
    left.note_file(str(disk / "queue/scheduler"), "mq-deadline", 7)
    left.clear()
    left.clear()
    assert leftovers.take_down(place) == []
    assert "[bfq]" in (disk / "queue/scheduler").read_text()


SETTING = {"file": "/sys/x", "before": "1", "sequence": None}
DRIVE = {"name": "fast", "interface": "nvme", "serial": "SERIAL-A", "wwn": None, "size_bytes": 1 << 30}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON"),
        ('{"fence": "joul', "is not JSON"),
        ("[" * 9999, "is not JSON"),
        ("\x00\x7f", "is not JSON"),
        (None, "allowed are the keys fence, settings and drives"),
        ([], "allowed are the keys fence, settings and drives"),
        ({"namespace": 4026532177, "settings": []}, "allowed are the keys fence, settings and drives"),
        ({"fence": 4026532177, "settings": []}, "fence: '4026532177' is not a fence's name"),
        ({"fence": "tmpfs", "settings": []}, "fence: 'tmpfs' is not a fence's name"),
        ({"fence": "", "settings": {}}, "settings: is not a list"),
        ({"fence": "", "settings": [], "drives": [{"drive": "/dev/sda"}]}, "drives: number 1"),
        ({"fence": "", "settings": [], "drives": {"drive": {}}}, "drives: is not a list"),
        ({"fence": "", "settings": [], "drives": [{"array": "pair", "members": [DRIVE, {"name": "x"}]}]},
         "drives: number 1"),
        ({"fence": "", "settings": [], "drives": [{"drive": {**DRIVE, "serial": None}}]}, "drives: number 1"),
        ({"fence": "", "settings": [SETTING, 7]}, "settings: number 2: '7' is none that a call notes"),
        ({"fence": "", "settings": [{**SETTING, "file": 7}]}, "settings: number 1: .* none that a call notes"),
        ({"fence": "", "settings": [{**SETTING, "file": "/etc/passwd"}]}, "number 1"),
        ({"fence": "", "settings": [{**SETTING, "file": "/sys/../etc/passwd"}]}, "number 1"),
        ({"fence": "", "settings": [{**SETTING, "before": ["1"]}]}, "number 1"),
        ({"fence": "", "settings": [{**SETTING, "sequence": "7"}]}, "number 1"),
        ({"fence": "", "settings": [{"file": "/sys/block/sda", "sequence": None}]}, "number 1"),
        ({"fence": "", "settings": [{"file": "/sys/block/sda", "sequence": None, "command": ["sh", "-c", "x"]}]},
         "number 1"),
        ({"fence": "", "settings": [{"file": "/sys/block/sda", "sequence": None, "command": []}]}, "number 1"),
        ({"fence": "", "settings": [{"file": "/sys/block/nvme0n1", "sequence": None,
          "command": ["nvme", "format", "/dev/nvme0n1"]}]}, "number 1"),
        ({"fence": "", "settings": [{"file": "/sys/block/sda", "sequence": None,
          "command": ["smartctl", "--set=security-freeze", "/dev/sda"]}]}, "number 1"),
        ({"fence": "", "settings": [{"file": "/sys/power/x", "sequence": None, "cache": "write back"}]},
         "number 1"),
    ],
)  # fmt: skip
def test_content_that_no_call_wrote_is_refused_in_a_line_with_a_way_out(place, monkeypatch, text, problem):
    monkeypatch.setattr(paths, "SYS", "/sys")
    with open(place, "w") as file:
        file.write(text if isinstance(text, str) else json.dumps(text))
    with pytest.raises(Refused, match=problem) as refused:
        leftovers.take_down(place)
    assert str(refused.value).startswith(f"{place}: ")
    assert "remove the file, or reboot the host" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert os.path.exists(place)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a mount namespace")


def noted(place: str, name: str) -> None:
    with open(place, "w") as file:
        json.dump({"fence": name, "settings": []}, file)


@needs_root
def test_processes_of_a_killed_calls_fence_are_ended_and_no_others(place):
    left = [fenced_process("sh", "-c", "setsid sleep 60 & exec sleep 60") for _ in range(2)]
    (first, name), (second, _) = left
    wait_for(lambda: psutil.Process(first.pid).name() == "sleep", 10, "a child, and a sleep in the fence")
    noted(place, name)
    ended = leftovers.take_down(place)
    assert f"process {first.pid} (sleep) ended" in ended
    assert len(ended) == 2
    assert first.wait(10) == -signal.SIGKILL
    assert second.poll() is None
    for child in psutil.Process(second.pid).children():
        child.kill()
    second.kill()
    second.wait()


@needs_root
def test_services_that_start_after_a_killed_call_live_on(place):
    """The kernel gives the number of a mount namespace to the next one that is made."""
    process, name = fenced_process("sleep", "60")
    number = namespace(process.pid)
    process.kill()
    process.wait()
    noted(place, name)
    with services(number) as others:
        assert leftovers.take_down(place) == []
        assert [one.poll() for one in others] == [None] * len(others)


@needs_root
@pytest.mark.parametrize(
    "mount", ["", "joulerig", "joulerig-dev", f"joulerig-{'0' * 31}", f"joulerig-{'A' * 32}"]
)
def test_a_process_that_is_in_no_fence_has_no_name(mount):
    words = f"mount -t tmpfs {mount} /mnt; exec sleep 60" if mount else "exec sleep 60"
    process = subprocess.Popen(["unshare", "--mount", "sh", "-c", words])
    try:
        wait_for(lambda: psutil.Process(process.pid).name() == "sleep", 10, "its mount")
        assert fence.name(process.pid) == ""
    finally:
        process.kill()
        process.wait()
