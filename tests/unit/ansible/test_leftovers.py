# SPDX-License-Identifier: GPL-3.0-or-later
"""What a killed module call left is put back by the next one."""

import json
import os
import signal
import subprocess

import psutil
import pytest

from ansible.module_utils.joulerig import fence, leftovers, paths
from ansible.module_utils.joulerig.tools import Failed
from tests.support.programs import wait_for


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUN_LOCK", str(tmp_path / "run.lock"))
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


def test_a_drives_own_setting_is_put_back_by_a_command(place, disk, tmp_path):
    command = ["touch", str(tmp_path / "set")]
    leftovers.Leftovers(place).note_command(str(disk), command, 7)
    assert leftovers.take_down(place) == [f"{disk} put back"]
    assert (tmp_path / "set").exists()


def test_a_drive_whose_cache_cannot_be_put_back_is_not_named(place, disk, monkeypatch):
    def refuse(name, value):
        raise Failed(f"/dev/{name}: {value} was refused")

    monkeypatch.setattr(leftovers.blockqueue, "put_write_cache", refuse)
    leftovers.Leftovers(place).note_cache(str(disk / "queue/write_cache"), "write back", 7)
    assert leftovers.take_down(place) == []
    assert not os.path.exists(place)


def test_a_note_that_was_cut_short_leaves_nothing_to_do(place):
    with open(place, "w") as file:
        file.write('{"namespace": 40')
    assert leftovers.take_down(place) == []
    assert not os.path.exists(place)


def test_what_is_put_back_in_good_order_is_forgotten(place, disk):
    left = leftovers.Leftovers(place)
    left.note_file(str(disk / "queue/scheduler"), "mq-deadline", 7)
    left.clear()
    left.clear()
    assert leftovers.take_down(place) == []
    assert "[bfq]" in (disk / "queue/scheduler").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a mount namespace")
def test_processes_of_a_killed_calls_namespace_are_ended_and_no_others(place):
    left = [subprocess.Popen(["unshare", "--mount", "sh", "-c", "sleep 60 & wait"]) for _ in range(2)]
    own = fence.namespace()
    for process in left:
        wait_for(lambda process=process: fence.namespace(process.pid) != own, 10, "its own namespace")
        wait_for(lambda process=process: psutil.Process(process.pid).name() == "sh", 10, "its shell")
    with open(place, "w") as file:
        json.dump({"namespace": fence.namespace(left[0].pid), "settings": []}, file)
    words = leftovers.take_down(place)
    assert f"process {left[0].pid} (sh) ended" in words
    assert left[0].wait(10) == -signal.SIGKILL
    assert left[1].poll() is None
    left[1].kill()
    left[1].wait()


def test_the_hosts_own_namespace_is_never_ended(place):
    with open(place, "w") as file:
        json.dump({"namespace": fence.namespace(), "settings": []}, file)
    assert leftovers.take_down(place) == []
