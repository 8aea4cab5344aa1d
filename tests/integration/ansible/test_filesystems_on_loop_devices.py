# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped file systems on loop devices, made and mounted as a run does it.

Each is mounted in a mount namespace that ends with the test's process.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joulerig.rig.lab import filesystems
from tests.support import ROOT

MIB, GIB = 1 << 20, 1 << 30
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices"),
    pytest.mark.skipif(not Path("/dev/loop-control").exists(), reason="this machine has no loop devices"),
]

LAZY_SECONDS = 8.0  # ext4lazyinit begins up to 5 s after the mount (EXT4_DEF_LI_MAX_START_DELAY)

# A lease on the device that does not look at it: what is tested is what the tools do.
PROGRAM = """
import contextlib, json, os, sys, time
import tests.support.fake_host
from ansible.module_utils.joulerig.drives import filesystem
from ansible.module_utils.joulerig.preconditioning import filler
from ansible.module_utils.joulerig.tools import Failed

class Lease:
    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)
    def check(self): pass
    def check_same(self): pass
    def begin(self, *to): pass
    def lend(self): pass
    def reclaim(self): pass
    @contextlib.contextmanager
    def lent(self):
        yield self.path

p = json.loads(sys.argv[1])
lease, result = Lease(p["device"]), {}
try:
    with contextlib.ExitStack() as undo:
        result.update(filesystem.make(lease, p["filesystem"], **p["more"]))
        result["options"] = filesystem.mount(undo, lease, p["filesystem"], p["place"])
        if p["more"]:
            result.update(filesystem.check_size(p["filesystem"], p["place"], **p["more"]))
        if p["age"] is not None:
            result["fill"] = filler.fill(p["place"], 0.8, p["age"], seed=1)
            new = os.path.join(p["place"], "new")
            with open(new, "wb") as file:
                file.write(os.urandom(32 << 20))
                os.fsync(file.fileno())
            result["pieces"] = filler.extents(new)
        time.sleep(p["seconds"])
except Failed as error:
    result["failed"] = str(error)
print(json.dumps(result))
"""


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A blank drive of 2 GiB."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(2 * GIB)
    device = subprocess.run(
        ["losetup", "--show", "--find", str(image)], check=True, capture_output=True, text=True
    ).stdout.strip()
    yield device
    subprocess.run(["losetup", "--detach", device], check=True)


def definition(name: str, **changes: Any) -> dict[str, Any]:
    one = filesystems.shipped()[name]
    if not shutil.which(one.mkfs[0]):
        pytest.skip(f"this machine has no {one.mkfs[0]}")
    return {**one.for_host(name), **changes}


def use(
    device: str,
    folder: Path,
    filesystem: dict[str, Any],
    *,
    seconds: float = 0.0,
    age: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Make the file system on the device, fill and age it if asked to, and mount it for seconds."""
    given = {"device": device, "place": str(folder / "mnt"), "filesystem": filesystem}
    given |= {"seconds": seconds, "age": age}
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", PROGRAM, json.dumps({**given, "more": more})],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def initialised_tables(device: str) -> tuple[int, int]:
    """How many block groups there are, and how many have their inode table written."""
    text = subprocess.run(["dumpe2fs", device], check=True, capture_output=True, text=True).stdout
    groups = [line for line in text.splitlines() if re.match(r"Group \d", line)]
    return len(groups), sum("ITABLE_ZEROED" in line for line in groups)


# --- use_bytes of a campaign


BOUNDED = [name for name, one in filesystems.shipped().items() if one.mkfs_bounded and not one.dax]


@pytest.mark.parametrize("size_bytes", [GIB, 1536 * MIB])
@pytest.mark.parametrize("name", BOUNDED)
def test_a_file_system_is_made_on_the_first_bytes_of_its_drive(loop, tmp_path, name, size_bytes):
    if filesystems.shipped()[name].type not in Path("/proc/filesystems").read_text().split():
        pytest.skip(f"this kernel has no {name}")
    if size_bytes < filesystems.shipped()[name].least_bytes:
        pytest.skip(f"{name} needs more")
    answer = use(loop, tmp_path, definition(name), use_bytes=size_bytes)
    assert "failed" not in answer
    assert answer["asked"] == size_bytes
    assert 0.8 * size_bytes < answer["bytes"] <= size_bytes


@pytest.mark.parametrize("name", BOUNDED)
def test_it_can_be_made_on_the_fewest_bytes_that_its_definition_allows(loop, tmp_path, name):
    one = filesystems.shipped()[name]
    command = [*definition(name)["mkfs"], *one.mkfs_bounded]
    meant = {"device": loop, "bytes": one.least_bytes, "uuid": str(uuid.uuid4()), "label": "0" * 16}
    meant |= {"blocks": one.least_bytes // 4096, "sectors": one.least_bytes // 512}
    subprocess.run([word.format(**meant) for word in command], check=True, capture_output=True)


def test_one_that_ignores_the_size_is_found_out(loop, tmp_path):
    whole = definition("ext4", mkfs_bounded=["{device}"])
    answer = use(loop, tmp_path, whole, use_bytes=GIB)
    assert re.fullmatch(
        r"ext4: was made for 1073741824 bytes; mounted, it has room for 2\d+ bytes", answer["failed"]
    )


# --- inode tables (docs/decisions/033-inode-tables.md)


@pytest.mark.parametrize("name", ["ext4", "ext4-inode128"])
def test_ext4_writes_no_inode_tables_however_long_it_is_mounted(loop, tmp_path, name):
    answer = use(loop, tmp_path, definition(name), seconds=LAZY_SECONDS)
    assert "noinit_itable" in answer["options"]
    groups, written = initialised_tables(loop)
    assert groups == 16
    assert written == 0


def test_with_the_kernels_defaults_it_writes_them_in_the_background(loop, tmp_path):
    use(loop, tmp_path, definition("ext4", mount_options=["init_itable=0"]), seconds=LAZY_SECONDS)
    _, written = initialised_tables(loop)
    assert written > 0


@pytest.mark.parametrize("name", ["ext2", "ext3"])
def test_ext2_and_ext3_write_them_in_mkfs_as_the_plan_assumes(loop, tmp_path, name):
    use(loop, tmp_path, definition(name))
    text = subprocess.run(["dumpe2fs", "-h", loop], check=True, capture_output=True, text=True).stdout
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    tables = int(facts["Inode count"]) * int(facts["Inode size"])
    assert tables <= filesystems.shipped()[name].mkfs_writes * 2 * GIB <= 1.1 * tables


# --- age of a file system


@pytest.mark.long
@pytest.mark.parametrize("name", ["ext4", "xfs"])
def test_a_new_file_lies_in_more_pieces_on_an_old_file_system(loop, tmp_path, name):
    size_bytes = max(512 * MIB, filesystems.shipped()[name].least_bytes)
    new, old = (use(loop, tmp_path, definition(name), use_bytes=size_bytes, age=age) for age in (0.0, 2.0))
    assert new["fill"]["used"] == pytest.approx(0.8, abs=0.015)
    assert old["fill"]["used"] == pytest.approx(0.8, abs=0.015)
    assert old["fill"]["extents_per_file"] >= 1
    assert old["pieces"] > 2 * new["pieces"]
