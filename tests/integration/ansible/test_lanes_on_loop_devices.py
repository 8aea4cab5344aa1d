# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of two drives of one host at once: real loop devices, file systems, locks and fio."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

MIB = 1 << 20
SECONDS = 5  # a busy machine prepares one drive seconds after the other
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices"),
    pytest.mark.skipif(not Path("/dev/loop-control").exists(), reason="this machine has no loop devices"),
    pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio"),
]

# Each run is a process, as on a host. The one that is to be killed is, once both load their drives.
PROGRAM = """
import contextlib, json, os, signal, subprocess, sys, time
from pathlib import Path
from tests.support.hostile_drive import CLOCK, EXT4, copy_sys
from ansible.module_utils.joulerig import host_lock, leftovers, pagecache, paths
from ansible.module_utils.joulerig.detached import child
from ansible.module_utils.joulerig.drives import ownership
from ansible.module_utils.joulerig.runs import one_run

asked = json.loads(sys.argv[1])
folder = Path(asked["folder"])
copy_sys(folder / "sys", {loop: f"LANE-{loop}" for loop in asked["loops"]})
(folder / "etc").mkdir()
for key, place in {
    "SYS": "sys", "ETC": "etc", "RUN_LOCK": "run.lock", "DRIVES": "drives.json", "STATE": "state",
    "LEFTOVERS": "leftovers.json", "QUIET": "quiet",
}.items():
    setattr(paths, key, str(folder / place))
one_run.offset.measure = lambda server: {**CLOCK, "at_ns": time.time_ns()}
one_run.MOUNT_POINT = str(folder / "mnt")
pagecache.DROP = str(folder / "drop_caches")  # what a lane writes there would be the host's

def run(number, loop):
    size = int(Path(f"/sys/block/{loop}/size").read_text()) * 512
    drive = f"drive-{number}"
    rotates = Path(f"/sys/block/{loop}/queue/rotational").read_text().strip() == "1"
    member = {"name": drive, "interface": "hdd" if rotates else "sata-ssd",
              "serial": f"LANE-{loop}", "wwn": None, "size_bytes": size}
    (folder / f"scheduler-{loop}").write_text(Path(f"/sys/block/{loop}/queue/scheduler").read_text())
    return child.perform(one_run, {
        "version": 1, "run": f"lanes-000{number}", "campaign": "lanes", "host": "bench1", "drive": drive,
        "members": [member], "array": False, "pool": False, "journal": {}, "filesystem": EXT4, "preconditioned": False,
        "scheduler": asked["scheduler"], "write_cache": "", "workload": asked["workload"], "seeks": False,
        "free_nids": False, "use_bytes": 0, "fill": 0.0, "age": 0.0, "kernel_files": [],
        "drive_settings": [], "kernel": "",
        "phases": {"rest": 0, "idle": 0, "workload": asked["seconds"], "tail": 0}, "seed": number,
        "slowness": 1.0,
        "clock_server": "", "agent_socket": "/nonexistent", "lanes_of": "lanes 7", "alone": False,
    })

def fios():
    found = 0
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            found += comm.read_text().strip() == "fio"
    return found

def await_loads():
    # Until both loads have gone on for a second: each is a process and its job's.
    since, end = time.monotonic(), time.monotonic() + 60
    while time.monotonic() - since < 1 and time.monotonic() < end:
        time.sleep(0.05)
        if fios() < 4:
            since = time.monotonic()

def fence_in(*args):
    # And leave a process in the fence, in another session, as a file system in user space does.
    enter_fence(*args)
    subprocess.Popen(["sleep", "77"], start_new_session=True)

enter_fence, one_run._fence_in = one_run._fence_in, fence_in
children, taken_down, services = {}, [], []
for number, loop in enumerate(asked["loops"], start=1):
    if (process := os.fork()) == 0:
        result = run(number, loop)
        (folder / f"result-{number}.json").write_text(json.dumps(result))
        os._exit(0)
    children[number] = process
if asked["kill"]:
    await_loads()
    os.kill(children[1], signal.SIGKILL)
    os.waitpid(children.pop(1), 0)
    services = [subprocess.Popen(["unshare", "--mount", *more, "sleep", "88"]) for more in ([], ["--pid", "--fork"])]
    time.sleep(0.5)
    lane = host_lock.Lane("lanes 7", "drive-1")
    with host_lock.HostLock(20, lane=lane):
        taken_down += leftovers.take_down(lane=lane)
for process in children.values():
    os.waitpid(process, 0)
taken_down += leftovers.take_down()
print(json.dumps({
    "services": [one.poll() for one in services],
    "results": {path.stem[-1]: json.loads(path.read_text()) for path in folder.glob("result-*.json")},
    "taken_down": taken_down,
    "dropped": os.path.exists(pagecache.DROP),
    "recorded": sorted(ownership.Record()._drives),
    "settings": [
        Path(f"/sys/block/{loop}/queue/scheduler").read_text()
        == (folder / f"scheduler-{loop}").read_text() for loop in asked["loops"]
    ],
}))
"""


@pytest.fixture
def loops(tmp_path: Path) -> Iterator[list[str]]:
    names = []
    for number in (1, 2):
        image = tmp_path / f"image-{number}"
        with image.open("wb") as file:
            file.truncate(64 * MIB)
        command = ["losetup", "--show", "--find", str(image)]
        made = subprocess.run(command, check=True, capture_output=True, text=True)
        names.append(made.stdout.strip().removeprefix("/dev/"))
    yield names
    for name in names:
        subprocess.run(["losetup", "--detach", f"/dev/{name}"], check=True)


def execute(loops: list[str], folder: Path, *, seconds: int = SECONDS, kill: bool = False) -> dict[str, Any]:
    # A load of cached reads: had the layout left its pages, or a lane dropped another's, it shows.
    job = "[j]\ndirectory=${JOULERIG_DIRECTORY}\nrw=randread\nbs=64k\nsize=8m\ntime_based=1\nruntime=${JOULERIG_SECONDS}\n"
    there = Path(f"/sys/block/{loops[0]}/queue/scheduler").read_text()
    other = next((word for word in there.split() if not word.startswith("[")), there.strip("[]\n"))
    asked = {
        "folder": str(folder), "loops": loops, "scheduler": other, "seconds": seconds, "kill": kill,
        "workload": {"name": "j", "tool": "fio", "job": job},
    }  # fmt: skip
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    done = subprocess.run(
        [*command, sys.executable, "-c", PROGRAM, json.dumps(asked)],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def phase(result: dict[str, Any], name: str) -> tuple[int, int]:
    return next((one["start_ns"], one["end_ns"]) for one in result["phases"] if one["phase"] == name)


def test_two_drives_are_loaded_at_the_same_time_each_in_its_own_run(loops, tmp_path):
    found = execute(loops, tmp_path)
    assert {number: (one["status"], one["reason"]) for number, one in found["results"].items()} == {
        "1": ("ok", ""), "2": ("ok", ""),
    }  # fmt: skip
    (begin, end), (other_begin, other_end) = (phase(one, "workload") for one in found["results"].values())
    assert min(end, other_end) - max(begin, other_begin) > 0
    assert found["recorded"] == sorted(f"LANE-{loop}" for loop in loops)
    assert found["settings"] == [True, True]
    assert found["taken_down"] == []


def test_a_lane_empties_the_caches_of_its_file_system_and_of_no_other(loops, tmp_path):
    found = execute(loops, tmp_path)
    for result in found["results"].values():
        caches, after = result["settings"]["caches"], result["settings"]["caches_after"]
        assert caches["pages_asked"] == 8 * MIB // os.sysconf("SC_PAGESIZE")
        assert caches["pages_cached"] == 0
        assert after["pages_cached"] > 0
        assert result["report"]["jobs"][0]["read"]["total_ios"] > 0
    assert not found["dropped"]


def test_a_run_that_is_killed_leaves_the_other_one_whole(loops, tmp_path):
    found = execute(loops, tmp_path, seconds=8, kill=True)
    [(number, result)] = found["results"].items()
    assert (number, result["status"], result["reason"]) == ("2", "ok", "")
    *ended, setting, recorded = found["taken_down"]
    assert setting == f"{tmp_path}/sys/block/{loops[0]}/queue/scheduler put back"
    assert recorded == "what a killed call left on drive-1 recorded"
    # Its fio dies with it, which may take until after the look at what is left; so may a shell that
    # was asked for something just then. What it left in its fence is ended; of the other's nothing.
    assert all(re.fullmatch(r"process \d+ \((fio|sh|sleep|python.*)\) ended", what) for what in ended), ended
    assert sum("(sleep)" in what for what in ended) == 1
    assert found["services"] == [None, None]
    assert found["settings"] == [True, True]
